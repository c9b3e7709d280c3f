# SPDX-License-Identifier: Apache-2.0
"""A program for any lengths, generalised from the programs that a reader makes for a few of them.

A reader of a model computes shapes while it reads, in NumPy. So the model is read for several lengths, and the programs
are compared op by op: numbers that differ are expressed by the lengths, and checked for all samples. If they differ
otherwise, there is no common program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from math import gcd
from typing import Any, TypeVar

import numpy as np

from ..ir.attributes import ArrayAttr, Attribute, DenseArrayAttr, DictAttr, IntegerAttr, TypeAttr
from ..ir.core import Block, Module, Op, Region, Value, op_name
from ..ir.elements import ElementsAttr
from ..ir.literals import float_value, wrap_integer
from ..ir.types import FloatType, FunctionType, TensorType, Type
from ..ops import ng
from ..ops.builder import Builder
from ..support.diagnostics import Limit, UserError
from ..support.expressions import LEAST, Expression, NeedsLength, number
from ..support.length_text import parse
from ..support.lengths import Length, expression_of
from ..support.samples import power_of_two_in

T = TypeVar("T")
#: The largest divisor of lengths that is tried: strides of windows and the like.
_MOST_DIVISOR = 64
_SAMPLES = (23, 37, 29, 41, 31, 43)
#: The least lengths that are tried, in this order, and the greatest: models may accept only lengths above or below a
#: bound.
_NEAR = (LEAST, 8, 16)
_FAR = (4093, 1021, 509, 251, 127)


def fitted(
    read: Callable[[Mapping[str, int]], Module], lengths: Mapping[str, int]
) -> tuple[Fitted, dict[str, range]]:
    """The program for any lengths of these names, and the ranges of lengths for which it was verified.

    A reader may branch on a length, as `max(n, 6)` does, or reject small ones: then no single expression holds for both
    the least and the greatest lengths that it reads, and larger ones are tried as the least. It may accept only
    multiples, as networks do that halve images: then multiples of the powers of two that divide these lengths are
    tried. Other lengths are not verified. Raises NeedsLength as `Fitted` does, and what the reader raises.
    """
    whole = dict.fromkeys(lengths, 1)
    halved = {name: power_of_two_in(int(length)) for name, length in lengths.items()}
    tried = [(least, steps) for steps in (whole, *([halved] if halved != whole else [])) for least in _NEAR]
    for least, steps in tried[:-1]:
        with suppress(NeedsLength, UserError, Limit):
            return _fit(read, least, steps)
    return _fit(read, *tried[-1])


def _fit(
    read: Callable[[Mapping[str, int]], Module], least: int, steps: Mapping[str, int]
) -> tuple[Fitted, dict[str, range]]:
    """The same, for samples with these least lengths, all multiplied by `steps`."""
    base, *others = samples = _samples(steps, least)
    first, modules = read(base), list[Module]()
    for sample in reversed(others):  # the least lengths show first that there is no fit
        modules.insert(0, read(sample))
        if len(modules[0].ops[0].block.ops) != len(first.ops[0].block.ops):
            raise NeedsLength("how many ops there are")
    modules.insert(0, first)
    for name, step in steps.items():
        _add_greatest(read, name, step, modules, samples)
    found = Fitted(modules, samples)
    for name, step in steps.items():
        if min(sample[name] for sample in samples) > (LEAST + 1) * step:  # this name alone may be smaller
            sample = {**base, name: LEAST * step}
            with suppress(NeedsLength, UserError, Limit):
                found = Fitted([*found.modules, read(sample)], [*found.lengths, sample])
    seen = {name: sorted(sample[name] for sample in found.lengths) for name in steps}
    return found, {name: range(each[0], each[-1] + 1, steps[name]) for name, each in seen.items()}


def _add_greatest(
    read: Callable[[Mapping[str, int]], Module],
    name: str,
    step: int,
    modules: list[Module],
    samples: list[dict[str, int]],
) -> None:
    """Adds the program for the greatest of some lengths, times a step, that the reader accepts."""
    for far in _FAR:
        sample = {**samples[0], name: far * step}
        with suppress(UserError, Limit):
            modules.append(read(sample))
            samples.append(sample)
            return


def _samples(steps: Mapping[str, int], least: int) -> list[dict[str, int]]:
    """Sample lengths, enough to infer how numbers depend on them: all different, and the least; all multiplied by
    `steps`."""
    names = [*steps]
    base = {name: _SAMPLES[i % len(_SAMPLES)] + 60 * (i // len(_SAMPLES)) for i, name in enumerate(names)}
    made = [base]
    for i, name in enumerate(names):
        made.append({**base, name: base[name] + 7 + i})
    made.append({name: value + 5 + 3 * i for i, (name, value) in enumerate(base.items())})
    made.append({name: least + i % 2 for i, name in enumerate(names)})
    made.append({name: least + 3 - i % 2 for i, name in enumerate(names)})
    return [{name: length * steps[name] for name, length in sample.items()} for sample in made]


class Fitted:
    """Programs of the same structure, one for each set of lengths. NeedsLength if their structures differ, or if a
    number in them is not an expression of the lengths that is supported here: sums and products of lengths, and
    quotients by numbers."""

    def __init__(self, modules: Sequence[Module], lengths: Sequence[Mapping[str, int]]):
        self.modules, self.lengths = modules, lengths
        self.known: dict[tuple[int, ...], Expression] = {}
        for name in lengths[0]:
            values = tuple([each[name] for each in lengths])
            self.known[values] = expression_of(Length.named(name, values[0]))
        self.module(lengths[0])

    def module(self, lengths: Mapping[str, int]) -> Module:
        """The program with sizes as expressions of the lengths, which have these values."""
        return _Rebuilding(
            self, {n: v if isinstance(v, Length) else Length.named(n, v) for n, v in lengths.items()}
        ).top(self.modules)

    def expression(self, values: tuple[int, ...]) -> Expression:
        """The expression for a number that has these values in the programs."""
        if values not in self.known:
            found = self._sum(values) or self._quotient(values) or self._product(values, 3)
            if found is None and (times := gcd(*values)) > 1:
                found = self.expression(tuple([value // times for value in values])) * number(times)
            if found is None:
                raise NeedsLength(f"what {', '.join(map(str, values))} are")
            self.known[values] = found
        return self.known[values]

    def _holds(self, expression: Expression, values: tuple[int, ...]) -> bool:
        return all(expression.value(each) == v for each, v in zip(self.lengths, values, strict=True))

    def _slopes(self, values: tuple[int, ...]) -> list[Fraction] | None:
        """The coefficient of each length and the constant term of a linear expression, from as many of the programs as
        needed."""
        names = [*self.lengths[0]]
        rows = [
            [Fraction(each[n]) for n in names] + [Fraction(1), Fraction(v)]
            for each, v in zip(self.lengths, values, strict=True)
        ][: len(names) + 1]
        return _solved(rows)

    def _sum(self, values: tuple[int, ...]) -> Expression | None:
        slopes = self._slopes(values)
        if slopes is None or any(slope.denominator != 1 for slope in slopes):
            return None
        terms = [number(int(slopes[-1]))]
        for name, slope in zip(self.lengths[0], slopes, strict=False):
            terms.append(number(int(slope)) * expression_of(Length.named(name, 1)))
        found = terms[0]
        for term in terms[1:]:
            found = found + term
        return found if self._holds(found, values) else None

    def _quotient(self, values: tuple[int, ...]) -> Expression | None:
        """A multiple of a length, plus a number, divided by a number and rounded down."""
        for name in self.lengths[0]:
            lengths = [each[name] for each in self.lengths]
            low, high = (
                min(range(len(lengths)), key=lengths.__getitem__),
                max(range(len(lengths)), key=lengths.__getitem__),
            )
            rise, run = values[high] - values[low], lengths[high] - lengths[low]
            length = expression_of(Length.named(name, 1))
            for by in range(2, _MOST_DIVISOR + 1):
                made = set[Expression]()
                for times in {rise * by // run, -(-rise * by // run)} - {0}:
                    least = max(v * by - times * n for v, n in zip(values, lengths, strict=True))
                    most = min((v + 1) * by - times * n for v, n in zip(values, lengths, strict=True))
                    # If all lengths are multiples of a step, only multiples of its common divisor with `by` make a
                    # difference as addend.
                    step = gcd(times * gcd(*lengths), by)
                    for more in range(-(-least // step) * step, most, step):
                        found = (number(times) * length + number(more)) // number(by)
                        if self._holds(found, values):
                            made.add(found)
                if made:
                    # Several expressions fit these lengths, but not all lengths: ambiguous.
                    return made.pop() if len(made) == 1 else None
        return None

    def _product(self, values: tuple[int, ...], depth: int) -> Expression | None:
        """A product of known expressions."""
        if depth == 0 or 0 in values:
            return None
        for known, expression in [*self.known.items()]:
            if (
                len(set(known)) > 1
                and 0 not in known
                and all(v % k == 0 for v, k in zip(values, known, strict=True))
            ):
                rest = tuple([v // k for v, k in zip(values, known, strict=True)])
                if len(set(rest)) == 1:
                    return number(rest[0]) * expression
                found = self.known.get(rest) or self._sum(rest) or self._product(rest, depth - 1)
                if found is not None:
                    return found * expression
        return None


def _solved(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of a linear system whose rows are the coefficients and the right side; None if there is none or
    several."""
    size = len(rows)
    for at in range(size):
        pivot = next((r for r in range(at, size) if rows[r][at]), None)
        if pivot is None:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [x / rows[at][at] for x in rows[at]]
        for r in range(size):
            if r != at and rows[r][at]:
                rows[r] = [x - rows[r][at] * y for x, y in zip(rows[r], rows[at], strict=True)]
    return [row[-1] for row in rows]


class _Differ(NeedsLength):
    """The programs differ in more than numbers."""


class _Rebuilding:
    """Traverses several programs in parallel, and builds one."""

    def __init__(self, fitted: Fitted, lengths: Mapping[str, int]):
        self.fitted, self.lengths = fitted, lengths
        self.mapping: dict[Value, Value] = {}
        self.others: list[dict[Value, Value]] = [{} for _ in fitted.modules]

    def top(self, modules: Sequence[Module]) -> Module:
        ops = [self.op(each) for each in _together([m.ops for m in modules], "functions")]
        return modules[0].with_ops([op for each in ops for op in each])

    def integer(self, values: Sequence[int]) -> int:
        if all(v == values[0] for v in values):
            return values[0]
        expression = self.fitted.expression(tuple(values))
        return parse(str(expression), self.lengths)

    def type(self, types: Sequence[Type]) -> Type:
        first = types[0]
        if all(t is first for t in types):
            return first
        match first:
            case TensorType() if all(isinstance(t, TensorType) and t.rank == first.rank for t in types):
                shapes = [t.shape for t in types if isinstance(t, TensorType)]
                shape = tuple([self.integer(sizes) for sizes in zip(*shapes, strict=True)])
                return TensorType(shape, first.element, first.encoding)
            case FunctionType() if all(isinstance(t, FunctionType) for t in types):
                found = [t for t in types if isinstance(t, FunctionType)]
                inputs = [self.type(each) for each in _together([t.inputs for t in found], "arguments")]
                results = [self.type(each) for each in _together([t.results for t in found], "results")]
                return FunctionType(tuple(inputs), tuple(results))
            case _:
                raise _Differ(f"{first} and {types[1]}")

    def attribute(self, found: Sequence[Attribute]) -> Attribute:
        first = found[0]
        if all(a is first or a == first for a in found):
            return first
        match first:
            case IntegerAttr():
                return IntegerAttr(self.integer([_of(IntegerAttr, a).value for a in found]), first.type)
            case DenseArrayAttr() if not isinstance(first.type, FloatType):
                values = _together([_of(DenseArrayAttr, a).values for a in found], "numbers")
                return DenseArrayAttr(first.type, tuple([self.integer(each) for each in values]))
            case ArrayAttr():
                items = _together([_of(ArrayAttr, a).items for a in found], "items")
                return ArrayAttr(tuple([self.attribute(each) for each in items]))
            case DictAttr():
                items = _together([_of(DictAttr, a).items for a in found], "entries")
                return DictAttr(tuple([(each[0][0], self.attribute([v for _, v in each])) for each in items]))
            case TypeAttr():
                return TypeAttr(self.type([_of(TypeAttr, a).type for a in found]))
            case ElementsAttr():
                each = [_of(ElementsAttr, a) for a in found]
                type = self.type([a.type for a in each])
                if isinstance(type, TensorType) and all(a.splat and a.bits == first.bits for a in each):
                    return ElementsAttr(first.data, type)
                raise _Differ(f"constants {first.type} with other elements")
            case _:
                raise _Differ(f"{str(first)[:40]} and {str(found[1])[:40]}")

    def op(self, ops: Sequence[Op]) -> list[Op]:
        first = ops[0]
        if any(op_name(o) != op_name(first) or len(o.operands) != len(first.operands) for o in ops):
            raise _Differ(f"{op_name(first)} and {', '.join(sorted({op_name(o) for o in ops[1:]}))}")
        for o, known in zip(ops, self.others, strict=True):
            for mine, theirs in zip(first.operands, o.operands, strict=True):
                if known.get(theirs) is not mine:
                    raise _Differ(f"what {op_name(first)} takes")
        for o, known in zip(ops, self.others, strict=True):
            known.update(zip(o.results, first.results, strict=True))
        made = self.extent(ops) or self.progression(ops) or [self.rebuilt(ops)]
        self.mapping.update(zip(first.results, made[-1].results, strict=True))
        return made

    def rebuilt(self, ops: Sequence[Op]) -> Op:
        first = ops[0]
        if any(o.attributes.keys() != first.attributes.keys() for o in ops):
            raise _Differ(f"the attributes of {op_name(first)}")
        types = [self.type([v.type for v in each]) for each in _together([o.results for o in ops], "results")]
        attributes = {name: self.attribute([o.attributes[name] for o in ops]) for name in first.attributes}
        regions = [self.region(each) for each in _together([o.regions for o in ops], "regions")]
        operands = [self.mapping[v] for v in first.operands]
        return first.rebuilt(operands, regions, attributes=attributes, types=types)

    def region(self, regions: Sequence[Region]) -> Region:
        return Region(*[self.block(each) for each in _together([r.blocks for r in regions], "blocks")])

    def block(self, blocks: Sequence[Block]) -> Block:
        first = blocks[0]
        types = [
            self.type([a.type for a in each]) for each in _together([b.args for b in blocks], "arguments")
        ]
        out = Block(types, [a.name for a in first.args])
        self.mapping.update(zip(first.args, out.args, strict=True))
        for b, known in zip(blocks, self.others, strict=True):
            known.update(zip(b.args, first.args, strict=True))
        for each in _together([b.ops for b in blocks], "ops"):
            out.ops += self.op(each)
        return out

    def extent(self, ops: Sequence[Op]) -> list[Op] | None:
        """A splat constant that is another integer in each program, as ng.extent."""
        found = _constants(ops)
        if not found or not all(a.splat for a in found) or len({a.bits for a in found}) == 1:
            return None
        element = found[0].type.element
        values = [
            float_value(a.bits, element) if isinstance(element, FloatType) else wrap_integer(a.bits, element)
            for a in found
        ]
        if any(v != v or int(v) != v for v in values if abs(v) < 1 << 53):
            return None
        number = self.integer([int(v) for v in values])
        type = self.type([a.type for a in found])
        return [ng.ExtentOp((), [type], {"value": IntegerAttr(number)}, (), ops[0].location)]

    def progression(self, ops: Sequence[Op]) -> list[Op] | None:
        """A constant that is an arithmetic progression of integers, such as positions, of another length in each
        program."""
        found = _constants(ops)
        if not found or any(a.type.rank != 1 or a.splat for a in found):
            return None
        if all(a == found[0] for a in found) or isinstance(found[0].type.element, FloatType):
            return None
        arrays = [a.array().astype(np.int64) for a in found]
        firsts, steps = [int(a[0]) for a in arrays], [int(a[1] - a[0]) for a in arrays]
        if any((a != f + s * np.arange(len(a))).any() for a, f, s in zip(arrays, firsts, steps, strict=True)):
            return None
        type = self.type([a.type for a in found])
        block = Block()
        b = Builder(block, ops[0].location)
        b.progression(self.integer(firsts), self.integer(steps), type)
        return block.ops


def _constants(ops: Sequence[Op]) -> list[ElementsAttr]:
    """The arrays of constants; empty unless all ops are constants."""
    literals = [o.attributes.get("value") for o in ops if isinstance(o, ng.ConstantOp)]
    found = [each for each in literals if isinstance(each, ElementsAttr)]
    return found if len(found) == len(ops) else []


def _of(kind: type[T], given: Any) -> T:
    if not isinstance(given, kind):
        raise _Differ(f"attributes {kind.__name__} and {type(given).__name__}")
    return given


def _together(lists: Sequence[Sequence[T]], what: str) -> list[tuple[T, ...]]:
    if any(len(each) != len(lists[0]) for each in lists):
        raise _Differ(f"{len(lists[0])} {what} and {sorted({len(each) for each in lists})}")
    return list(zip(*lists, strict=True))
