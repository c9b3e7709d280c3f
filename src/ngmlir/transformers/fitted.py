# SPDX-License-Identifier: Apache-2.0
"""A program for any lengths, generalised from the programs that a reader makes for a few of them.

The programs are compared op by op: numbers that differ are expressed by the lengths, and checked for all samples. If they
differ otherwise, there is no common program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import Any, TypeVar, cast

import numpy as np

from ..ir.attributes import ArrayAttr, Attribute, DenseArrayAttr, DictAttr, IntegerAttr, TypeAttr
from ..ir.core import Block, Module, Op, Region, Value, op_name
from ..ir.elements import ElementsAttr
from ..ir.literals import float_value, wrap_integer
from ..ir.types import FloatType, FunctionType, TensorType, Type
from ..ops import ng
from ..ops.builder import Builder
from ..support.expressions import Expression, NeedsLength, number
from ..support.length_text import parse
from ..support.lengths import Length, expression_of

T = TypeVar("T")
#: The largest divisor of lengths that is tried: strides of windows and the like.
_MOST_DIVISOR = 64


class Ambiguous(NeedsLength):
    """Several expressions of a length fit all programs, and give different numbers at `length`."""

    def __init__(self, values: Sequence[int], name: str, length: int):
        super().__init__(f"what {', '.join(map(str, values))} are")
        self.name, self.length = name, length


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
            found = self._sum(values) or self._quotient(values) or self._multiple(values)
            found = found or self._product(values, 3)
            if found is None and (times := gcd(*[value - values[0] for value in values])) > 1:
                rest = values[0] % times
                inner = self.expression(tuple([value // times for value in values]))
                found = inner * number(times) + number(rest)
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
        options: list[tuple[str, Expression]] = []
        for name in self.lengths[0]:
            lengths = [each[name] for each in self.lengths]
            low, high = (
                min(range(len(lengths)), key=lengths.__getitem__),
                max(range(len(lengths)), key=lengths.__getitem__),
            )
            rise, run = values[high] - values[low], lengths[high] - lengths[low]
            length = expression_of(Length.named(name, 1))
            for by in range(2, _MOST_DIVISOR + 1):
                for times in {rise * by // run, -(-rise * by // run)} - {0}:
                    least = max(v * by - times * n for v, n in zip(values, lengths, strict=True))
                    most = min((v + 1) * by - times * n for v, n in zip(values, lengths, strict=True))
                    # If all lengths are multiples of a step, only multiples of its common divisor with `by` make a
                    # difference as addend.
                    step = gcd(times * gcd(*lengths), by)
                    for more in range(-(-least // step) * step, most, step):
                        found = (number(times) * length + number(more)) // number(by)
                        if self._holds(found, values):
                            options.append((name, found))
        return self._only(values, options) if options else None

    def _only(self, values: Sequence[int], options: Sequence[tuple[str, Expression]]) -> Expression:
        """The one expression that fits; Ambiguous where there are several that differ."""
        base, first = self.lengths[0], options[0][1]
        if all(o == first for _, o in options):
            return first
        for name in dict.fromkeys(name for name, _ in options):
            known = [each[name] for each in self.lengths]
            step, least = gcd(*known), min(known)
            tried = range(least, least + 4 * _MOST_DIVISOR * step, step)
            different = [len({o.value({**base, name: n}) for _, o in options}) for n in tried]
            if max(different) > 1:
                raise Ambiguous(values, name, tried[different.index(max(different))])
        return first

    def _multiple(self, values: tuple[int, ...]) -> Expression | None:
        """A multiple of a known expression, plus a number."""
        for known, expression in self.known.items():
            at = next((i for i, k in enumerate(known) if k != known[0]), None)
            if at is None:
                continue
            times, rest = divmod(values[at] - values[0], known[at] - known[0])
            if times and not rest:
                found = number(times) * expression + number(values[0] - times * known[0])
                if self._holds(found, values):
                    return found
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
                found = self.known.get(rest) or self._sum(rest) or self._quotient(rest)
                found = found or self._product(rest, depth - 1)
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
        """A constant that is an arithmetic progression of integers along each dimension, such as positions, of another
        length in each program."""
        found = _constants(ops)
        if not found or any(a.splat or a.type.rank != found[0].type.rank for a in found):
            return None
        if all(a == found[0] for a in found) or isinstance(found[0].type.element, FloatType):
            return None
        arrays = [a.array().astype(np.int64) for a in found]
        lines = [_progression(a) for a in arrays]
        if any(line is None for line in lines):
            return None
        first, *steps = [self.integer(each) for each in zip(*[line for line in lines if line], strict=True)]
        type = self.type([a.type for a in found])
        block = Block()
        b = Builder(block, ops[0].location)
        b.progression(first, steps, type)
        return block.ops


def _progression(a: np.ndarray[Any, Any]) -> list[int] | None:
    """The first element, and the difference of neighbours along each dimension; None where they differ."""
    first = line = a.flat[0]
    steps: list[int] = []
    for d, count in enumerate(a.shape):
        steps.append(int(a[(*[0] * d, min(1, count - 1), *[0] * (a.ndim - d - 1))] - first))
        line = line[..., None] + steps[-1] * cast(Any, np.arange(count))
    return [int(first), *steps] if np.array_equal(line, a) else None


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
