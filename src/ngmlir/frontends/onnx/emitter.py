# SPDX-License-Identifier: Apache-2.0
"""The verbs of `ng` while a model is read: what is known already is computed at once, the rest becomes ops.

So each operator is written once, on verbs; that the shapes which models compute with Shape, Gather and Concat are
numbers by the time Reshape asks for them needs no second evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir import core
from ...ir.core import Block, Region, Value, module
from ...ir.elements import elements
from ...ir.literals import dtype_of, type_of_dtype
from ...ir.types import TensorType, Type, element_type, i64, shape_of
from ...ops import func, ng
from ...ops.builder import Builder, build_op, function
from ...ops.interpreter import evaluate, run
from ...support.diagnostics import Limit
from ...support.lengths import is_open, usual
from ...support.memory import physical_bytes
from .tensor import Array, Tensor, Verbs

#: Results of so many elements are computed while a model is read; of a model that is read for several lengths, of so many: shapes.
FOLDED, FOLDED_SHAPES = 1 << 16, 64
#: What has to be known while a model is read is computed from at most so many elements.
SETTLED = 1 << 26


class Undecided(Exception):
    """A number has to be known now, but depends on these arguments of a function or region. `decided` is what it decides."""

    def __init__(self, arguments: Sequence[Value], decided: str = "the shape of a tensor"):
        super().__init__()
        self.arguments = tuple(arguments)
        self.decided = decided
        #: The number of the node, among those of the outermost graph, that asked.
        self.node = 0


class Unended(Undecided):
    """Only a run tells the trip count of a loop, and there is an element of its outputs for each."""

    def __init__(self) -> None:
        super().__init__([], "the trip count of a loop")


class Emitter(Verbs):
    """Appends to a block what is not known yet."""

    def __init__(self, entry: Block, folded: int = FOLDED):
        self.entry = entry
        #: Results of more elements are left to the program.
        self.folded = folded
        self.several = folded == FOLDED_SHAPES
        self.builder = Builder(entry)
        self._constants: dict[int, tuple[Array, Value]] = {}

    # ---- values

    def known(self, array: Any) -> Tensor:
        """A tensor whose elements are known."""
        return Tensor(np.asarray(array), self)

    def later(self, x: Tensor) -> Tensor:
        return Tensor(self.value(x), self)

    def numbers(self, value: Any, element: Type, shape: Sequence[int] = ()) -> Tensor:
        """A number in every place; it takes no memory."""
        with np.errstate(all="ignore"):
            one = np.asarray(value).astype(dtype_of(element))
        if is_open(shape):
            return self.broadcast(self.known(one), type=_tensor(shape, element), dimensions=())
        return Tensor(np.broadcast_to(one, tuple(shape)), self)

    def arange(self, count: int, element: Type = i64) -> Tensor:
        if not self.several:
            return self.known(np.arange(count).astype(dtype_of(element)))
        return self.counted(count, element)

    def counted(self, count: int, element: Type) -> Tensor:
        return Tensor(self.builder.iota(type=_tensor([count], element), dimension=0), self)

    def length(self, length: int, element: Type = i64) -> Tensor:
        if not self.several:
            return self.known(np.array(length, dtype_of(element)))
        return Tensor(self.builder.number(length, _tensor([], i64)), self).cast(element)

    def value(self, x: Tensor) -> Value:
        """The tensor as a value of the program; one that is known becomes a constant at its beginning."""
        item = x.item
        if isinstance(item, Value):
            return item
        found = self._constants.get(id(item))
        if found is None:
            found = self._constants[id(item)] = (item, self._constant(item))
        return found[1]

    def _constant(self, item: Array) -> Value:
        """A constant at the beginning; what repeats along whole dimensions is held once."""
        own = [d for d, stride in enumerate(item.strides) if stride]
        single = item[tuple(slice(None) if d in own else 0 for d in range(item.ndim))] if item.size else item
        repeats = bool(own) and single.ndim < item.ndim
        held = single if repeats else item
        type = _tensor(held.shape, type_of_dtype(held.dtype))
        value = {"value": elements(held, type)}
        made = build_op(ng.ConstantOp, [], value, types=[type], location=self.builder.location)
        self.entry.ops.append(made)
        if repeats:
            whole = _tensor(item.shape, type.element)
            made = build_op(
                ng.BroadcastOp, made.results, {"dimensions": own}, types=[whole], location=made.location
            )
            self.entry.ops.append(made)
        return made.result

    def build(
        self,
        op: type[core.Op],
        operands: Sequence[Tensor],
        attributes: Mapping[str, Any],
        *,
        types: Sequence[Type] | None = None,
        regions: Sequence[Region] = (),
    ) -> Sequence[Tensor]:
        arrays = [o.item for o in operands if isinstance(o.item, np.ndarray)]
        if len(arrays) == len(operands) and not regions and sum(a.size for a in arrays) <= 4 * self.folded:
            given = [Value(_tensor(a.shape, type_of_dtype(a.dtype))) for a in arrays]
            made = build_op(op, given, attributes, types=types, location=self.builder.location)
            if all(self._folds(op, shape_of(r.type), arrays) for r in made.results):
                return [Tensor(a, self) for a in evaluate(made, arrays)]
        made = self.builder.build(
            op, [self.value(o) for o in operands], attributes, types=types, regions=regions
        )
        for result in made:
            if not self.several:
                _fits_memory(result.type)
        return [Tensor(result, self) for result in made]

    def _folds(self, op: type[core.Op], shape: Sequence[int], arrays: Sequence[Array]) -> bool:
        """Whether a result of known operands is computed now. Of a model that is read for several lengths, not what repeats
        elements: whether that is small depends on a length, and the programs for all have to have the same ops."""
        if is_open(shape) or prod(shape) > self.folded:
            return False
        if not self.several:
            return True
        grows = op is not ng.ConcatenateOp and prod(shape) > max([a.size for a in arrays], default=0)
        repeats = any(n > 1 and not by for a in arrays for n, by in zip(a.shape, a.strides, strict=True))
        return not grows and not repeats

    # ---- what has to be known

    def settle(self, x: Tensor, decided: str = "the shape of a tensor") -> Array:
        """The elements, computed now; Undecided where they depend on arguments, Limit where that takes too long."""
        item = x.item
        if isinstance(item, np.ndarray):
            return item
        try:
            needed = _needed(item)
        except Undecided as error:
            error.decided = decided
            raise
        if sum(prod(shape_of(r.type)) for op in needed for r in op.results) > SETTLED:
            raise Limit(f"large tensors (more than {SETTLED} elements in all) decide {decided}")
        block = Block(ops=[*needed, func.ReturnOp((item,), (), {}, (), self.builder.location)])
        (array,) = run(module([function("main", block)]))
        return array

    # ---- regions

    def region(
        self, types: Sequence[Type], body: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    ) -> tuple[Region, list[Type]]:
        """A region that takes these types and yields what `body` gives, and the types of that."""
        location = self.builder.location
        with self.builder.region(*types) as (region, arguments):
            values = [self.value(t) for t in body([Tensor(a, self) for a in arguments])]
            self.builder.location = location
            self.builder.end(ng.YieldOp, *values)
        return region, [v.type for v in values]

    def finished(
        self,
        region: Region,
        types: Sequence[Type],
        end: Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]],
    ) -> None:
        """Gives a region more arguments, of these types, and lets `end` say what it yields: of all its arguments, and of what
        it yielded before."""
        block, outer = region.block, self.builder.block
        first = len(block.args)
        block.args = (*block.args, *(Value(t, block, first + k) for k, t in enumerate(types)))
        before = block.ops.pop().operands
        self.builder.block = block
        try:
            made = end([Tensor(a, self) for a in block.args], [Tensor(v, self) for v in before])
            self.builder.end(ng.YieldOp, *(self.value(t) for t in made))
        finally:
            self.builder.block = outer


def _tensor(shape: Sequence[int], element: Type) -> TensorType:
    return TensorType(tuple(shape), element)


def _fits_memory(type: Type) -> None:
    size = prod(usual(shape_of(type))) * dtype_of(element_type(type)).itemsize
    if size > physical_bytes():
        raise Limit(f"a tensor of {size} bytes ({type}) does not fit into the memory of this machine")


def _needed(value: Value) -> list[core.Op]:
    """The ops that a value is computed by, in order; Undecided where arguments are among what it needs."""
    order: list[core.Op] = []
    seen: set[int] = set()
    asked: list[Value] = []
    stack: list[tuple[core.Op | None, Value | None]] = [(None, value)]
    while stack:
        done, each = stack.pop()
        if done is not None:
            order.append(done)
            continue
        assert each is not None
        owner = each.owner
        if not isinstance(owner, core.Op):
            if each not in asked:
                asked.append(each)
            continue
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        stack.append((owner, None))
        stack.extend((None, operand) for operand in _outside(owner))
    if asked:
        raise Undecided(asked)
    return order


def _outside(op: core.Op) -> list[Value]:
    """The values from around an op that it and its regions use."""
    if not op.regions:
        return list(op.operands)
    inner: set[int] = set()
    found: list[Value] = []
    for each in op.walk():
        inner.add(id(each))
        for region in each.regions:
            inner.update(id(block) for block in region.blocks)
    for each in op.walk():
        found.extend(v for v in each.operands if id(v.owner) not in inner or each is op)
    return found
