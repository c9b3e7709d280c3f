# SPDX-License-Identifier: Apache-2.0
"""How an operator is divided where each rank has a part of its variables: by the loops of the `ng` ops that it is built of.

A loop of these ops that ranks may divide among them is one dimension of some inputs and outputs, as the `loops` lines of the
dialect say. Where a reduction goes over it, what a rank computes is a part of a sum. There are no rules for single operators.
That an operator computes the same on parts is checked on the ops that it is built of for the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..ir.attributes import Attribute, DictAttr
from ..ir.core import Block, Op, Value
from ..ir.elements import ElementsAttr
from ..ir.types import shape_of
from ..op_graph.lift import lift
from ..op_graph.node import Op as Node
from ..op_graph.tensor import Tensor
from ..op_graph.writes import ReadOp
from ..ops.loops import loops_of
from ..support.diagnostics import UserError
from .catalogue import REGISTRY
from .definition import GradientDefinition
from .infer import Raggedness, Types, built
from .names import GRADIENT
from .sparse_rows import dense, whole_type

#: A variable of an operator: its slot, and its place there.
Place = tuple[str, int]
_Dimension = tuple[Value, int]


@dataclass(frozen=True)
class Spread:
    """A loop of an operator that ranks may divide: which dimension of its inputs and outputs it is, and which outputs are sums over
    ranks then. All these lengths are multiples of `units`; a rank takes some of the units."""

    inputs: Mapping[Place, int]
    outputs: Mapping[Place, int]
    sums: frozenset[Place]
    units: int


@dataclass(frozen=True)
class _Function:
    """An operator as ops on values, and the values of its inputs and outputs."""

    block: Block
    inputs: Mapping[Place, Value]
    outputs: Mapping[Place, Value]


def _dimensions(values: Mapping[Place, Value]) -> Iterator[tuple[Place, _Dimension]]:
    for place, value in values.items():
        yield from ((place, (value, d)) for d in range(len(shape_of(value.type))))


@lru_cache(maxsize=1 << 12)
def _function(
    type: str, inputs: Types, attributes: DictAttr, wanted: frozenset[Place], ragged: Raggedness
) -> _Function | None:
    """None for an operator that is no function of tensors of these lengths. On sparse rows it goes as on the matrix that they are."""
    inputs = tuple([(slot, tuple([whole_type(t) for t in types])) for slot, types in inputs])
    if not REGISTRY.get(type).has_value:
        return None
    with Node.saved_user_deps(), Node.all_ops(isolate=True):
        try:
            context, values, made = built(type, inputs, attributes, ragged)
        except UserError:
            # Lengths that are not known are one number here; those of a gradient may be another.
            return None
        taken = {(s, i): dense(v) for s, each in values.items() for i, v in enumerate(each) if v is not None}
        given = {
            (s, i): dense(v)
            for s, each in made.items()
            for i, v in enumerate(each)
            if v is not None and (s, i) in wanted
        }
        results = [*map(ReadOp, given.values()), *context.sizes]
        lifted = lift(results, [*dict.fromkeys(taken.values())])
    block = lifted.module.ops[0].block
    arguments: dict[Tensor, Value] = dict(zip(lifted.arguments, block.args, strict=True))
    returned = block.ops[-1].operands
    return _Function(
        block,
        {p: arguments[v] for p, v in taken.items()},
        {p: returned[at] for p, at in zip(given, lifted.outputs, strict=False) if at is not None},
    )


class _Classes:
    """The dimensions of all values of a function, those that are one loop together. Some loops have to be whole."""

    def __init__(self, function: _Function):
        self._of: dict[_Dimension, _Dimension] = {}
        self._whole: set[_Dimension] = set()
        self.reduced: dict[Op, set[_Dimension]] = {}
        results = (v for op in function.block.ops for v in op.results)
        self._values = [v for v in (*function.block.args, *results) if len(shape_of(v.type)) > 1]
        for op in function.block.ops[:-1]:
            self._add(op)

    def root(self, dimension: _Dimension) -> _Dimension:
        while (above := self._of.get(dimension, dimension)) is not dimension:
            dimension = above
        return dimension

    def is_whole(self, root: _Dimension) -> bool:
        """Whether an op needs all of it, or a value has two dimensions of it, of which ranks would have the blocks on the diagonal."""
        return any(self.root(each) == root for each in self._whole) or any(
            sum(self.root((v, d)) == root for d in range(len(shape_of(v.type)))) > 1 for v in self._values
        )

    def join(self, a: _Dimension, b: _Dimension) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            self._of[a] = b

    def _add(self, op: Op) -> None:
        values = (*op.operands, *op.results)
        every = [(v, d) for v in values for d in range(len(shape_of(v.type)))]
        if op.name == "ng.reshape":
            self._reshaped(op)
            return
        if op.name == "ng.constant" and _is_uniform(op.attributes["value"]):
            return
        loops = None if op.regions else loops_of(op)
        if loops is None:
            self._whole.update(every)
            return
        first: dict[tuple[str, int], _Dimension] = {}
        for value, own in zip(values, (*loops.operands, *loops.results), strict=True):
            for d, loop in enumerate(own):
                dimension = (value, d)
                self.join(dimension, first.setdefault(loop, dimension))
        for loop, dimension in first.items():
            kind = loops.kind(loop)
            if kind == "reduction" and _traits(op) & {"linear", "bilinear"}:
                self.reduced.setdefault(op, set()).add(dimension)
            elif kind != "parallel":
                self._whole.add(dimension)

    def _reshaped(self, op: Op) -> None:
        """A dimension is that of the result, or the outermost of several that become one, where as many elements are before it."""
        source, target = (shape_of(v.type) for v in (op.operands[0], op.result))
        pairs = [
            (d, e)
            for d, e in ((d, e) for d in range(len(source)) for e in range(len(target)))
            if source[d] > 1
            and target[e] > 1
            and prod(source[:d]) == prod(target[:e])
            and (source[d] % target[e] == 0 or target[e] % source[d] == 0)
        ]
        for d, e in pairs:
            self.join((op.operands[0], d), (op.result, e))
        # Of a dimension of one element there is no part.
        for side, (value, shape) in enumerate(((op.operands[0], source), (op.result, target))):
            kept = {pair[side] for pair in pairs}
            self._whole.update((value, d) for d in range(len(shape)) if d not in kept)


def _is_uniform(attribute: Attribute) -> bool:
    return not isinstance(attribute, ElementsAttr) or attribute.splat


def _traits(op: Op) -> frozenset[str]:
    return op.definition.traits if op.definition is not None else frozenset()


@lru_cache(maxsize=1 << 12)
def spreads(
    type: str, inputs: Types, attributes: DictAttr, wanted: frozenset[Place], ragged: Raggedness = ()
) -> tuple[Spread, ...]:
    """The loops of an operator that ranks may divide, in the order of its inputs' dimensions; `wanted` are the outputs that it gives."""
    function = _function(type, inputs, attributes, wanted, ragged)
    if function is None:
        return ()
    classes = _Classes(function)
    _join_as_forward(function, classes, type, inputs, attributes, ragged)
    found: list[Spread] = []
    seen: set[_Dimension] = set()
    for _, dimension in _dimensions(function.inputs):
        root = classes.root(dimension)
        if root in seen:
            continue
        seen.add(root)
        sums = None if classes.is_whole(root) else _sums(function, classes, root, frozenset())
        if sums is None:
            continue
        taken, given = (
            {p: d for p, (v, d) in _dimensions(values) if classes.root((v, d)) == root}
            for values in (function.inputs, function.outputs)
        )
        lengths = [
            shape_of(values[p].type)[d]
            for values, places in ((function.inputs, taken), (function.outputs, given))
            for p, d in places.items()
        ]
        units = min(lengths)
        if all(n % units == 0 for n in lengths):
            found.append(
                Spread(taken, given, frozenset(p for p, v in function.outputs.items() if v in sums), units)
            )
    return tuple(found)


def _join_as_forward(
    function: _Function,
    classes: _Classes,
    type: str,
    inputs: Types,
    attributes: DictAttr,
    ragged: Raggedness,
) -> None:
    """In a gradient, what is one loop of the operator is one loop, also where the gradient multiplies by one input without the other."""
    definition = REGISTRY.get(type)
    forward = definition.forward if isinstance(definition, GradientDefinition) else None
    if forward is None:
        return
    own, given = ({slot.name for slot in slots} for slots in (forward.entry.inputs, forward.entry.outputs))
    taken = tuple([each for each in inputs if each[0] in own])
    known = {a.name for a in forward.entry.attributes}
    made = DictAttr(tuple([item for item in attributes.items if item[0] in known]))
    wanted = frozenset((slot, i) for slot, types in inputs if slot in given for i in range(len(types)))
    levels = tuple([each for each in ragged if each[0] in own])
    for spread in spreads(forward.type, taken, made, wanted, levels):
        members = [(p, d) for each in (spread.inputs, spread.outputs) for p, d in each.items()]
        members += [((slot + GRADIENT, i), d) for (slot, i), d in members]
        there = [
            (values[p], d)
            for p, d in members
            for values in (function.inputs, function.outputs)
            if p in values
        ]
        for dimension in there[1:]:
            classes.join(there[0], dimension)


@lru_cache(maxsize=1 << 12)
def sums_kept(
    type: str,
    inputs: Types,
    attributes: DictAttr,
    wanted: frozenset[Place],
    ragged: Raggedness,
    sums: frozenset[Place],
) -> frozenset[Place] | None:
    """Which outputs are parts of sums where some inputs are; None where the sums are needed."""
    function = _function(type, inputs, attributes, wanted, ragged)
    if function is None:
        return None
    given = frozenset(function.inputs[place] for place in sums)
    found = _sums(function, _Classes(function), None, given)
    return None if found is None else frozenset(p for p, v in function.outputs.items() if v in found)


@lru_cache(maxsize=1 << 12)
def read_places(
    type: str, inputs: Types, attributes: DictAttr, wanted: frozenset[Place], ragged: Raggedness = ()
) -> frozenset[Place]:
    """The inputs whose values what is wanted depends on; not those of which only the shape matters."""
    function = _function(type, inputs, attributes, wanted, ragged)
    if function is None:
        return frozenset({(slot, i) for slot, types in inputs for i in range(len(types))})
    used = {v for op in function.block.ops for inner in op.walk() for v in inner.operands}
    return frozenset(p for p, v in function.inputs.items() if v in used)


def _sums(
    function: _Function, classes: _Classes, root: _Dimension | None, given: Set[Value]
) -> set[Value] | None:
    """The values that are parts of sums where a loop is divided, and `given` are; None where an op needs the sum of one."""
    sums = set(given)

    def is_divided(value: Value) -> bool:
        return any(classes.root((value, d)) == root for d in range(len(shape_of(value.type))))

    for op in function.block.ops[:-1]:
        own = [v in sums for v in op.operands]
        if any(classes.root(each) == root for each in classes.reduced.get(op, ())):
            if any(own):
                return None
            sums.update(op.results)
        elif any(own):
            # A rank's part of a sum times its part of a loop would be neither.
            is_kept = ("linear" in _traits(op) and all(own)) or ("bilinear" in _traits(op) and sum(own) == 1)
            if not is_kept or any(is_divided(v) for v in (*op.operands, *op.results)):
                return None
            sums.update(op.results)
    return sums


@lru_cache(maxsize=1 << 12)
def same_on_parts(
    type: str,
    whole: Types,
    attributes: DictAttr,
    parts: Types,
    of_part: DictAttr,
    wanted: frozenset[Place],
    ragged: Raggedness = (),
) -> Mapping[Place, tuple[int, ...]] | None:
    """The shapes of what an operator gives on parts, where it is built of the same ops for these as for the whole; else None: it would
    compute something else, as a mean does."""
    a = _function(type, whole, attributes, wanted, ragged)
    b = _function(type, parts, of_part, wanted, ragged)
    if a is None or b is None or len(a.block.ops) != len(b.block.ops):
        return None
    number: dict[Value, Value] = dict(zip(a.block.args, b.block.args, strict=True))
    for left, right in zip(a.block.ops, b.block.ops, strict=True):
        if left.name != right.name or [number[v] for v in left.operands] != [*right.operands]:
            return None
        if left.name == "ng.constant":
            if _one(left) != _one(right):
                return None
        elif not _alike(left, right):
            return None
        number.update(zip(left.results, right.results, strict=True))
    return {place: shape_of(value.type) for place, value in b.outputs.items()}


def _one(op: Op) -> object:
    """What a constant is, whatever its shape where all elements are the same."""
    value = op.attributes["value"]
    return (value.bits, value.type.element) if isinstance(value, ElementsAttr) and value.splat else value


def _alike(a: Op, b: Op) -> bool:
    """Whether attributes are equal, but for those that name the length of a dimension."""
    loops = loops_of(a)
    sections = () if loops is None else loops.line.sections.values()
    lengths = {name for section in sections for name, neutral in section.entries if neutral is None}
    return {k: v for k, v in a.attributes.items() if k not in lengths} == {
        k: v for k, v in b.attributes.items() if k not in lengths
    }
