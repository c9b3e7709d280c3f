# SPDX-License-Identifier: Apache-2.0
"""Tensor shaping: fewer dimensions, no axis names."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from ...ir.attributes import Attribute, TypeAttr, integers
from ...ir.core import Block, Module, Op, Region, Value
from ...ir.elements import ElementsAttr
from ...ir.types import DYNAMIC, FunctionType, TensorType, Type, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import hand_on
from ...support.target import Target
from ..analysis.reduction import POSITIONS
from .sunk_transposes import in_place


@contract(needs=("named", "plain"), gives="plain", anchor="function")
def shape(module: Module, target: Target) -> Module:
    """Drops axis names and merges dimensions: elementwise ops become 1-D, reductions 2-D, products matrices.

    Names matter only while the graph is built; loops need sizes. Merging dimensions makes one kernel of kernels that
    differ only in shape. A reshape moves no data: it is a view of the same elements, and is added only where two ops
    use different shapes of a value.

    Before:
        func.func @main(%x: tensor<2x3x4xf32, #ng.axes<N, H, W>>) -> tensor<2xf32, #ng.axes<N>> {
          %y = ng.exp %x : tensor<2x3x4xf32, #ng.axes<N, H, W>>
          %z = ng.sum %y axes [1, 2] : (tensor<2x3x4xf32, #ng.axes<N, H, W>>) -> tensor<2xf32, #ng.axes<N>>
          return %z : tensor<2xf32, #ng.axes<N>>
        }
    After:
        func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
          %0 = ng.reshape %x : (tensor<2x3x4xf32>) -> tensor<24xf32>
          %y = ng.exp %0 : tensor<24xf32>
          %1 = ng.reshape %y : (tensor<24xf32>) -> tensor<2x12xf32>
          %z = ng.sum %1 axes [1] : (tensor<2x12xf32>) -> tensor<2xf32>
          func.return %z : tensor<2xf32>
        }
    """
    return module.with_ops([_function(op) if op.name == "func.func" else op for op in module.ops])


def plain(type: Type) -> Type:
    """A tensor type without axis names."""
    if isinstance(type, TensorType) and type.encoding is not None:
        return TensorType(type.shape, type.element)
    return type


def _function(function: Op) -> Op:
    if not function.regions[0].blocks:
        return function
    type = function.attributes["function_type"]
    assert isinstance(type, TypeAttr) and isinstance(type.type, FunctionType)
    inputs, results = type.type.inputs, type.type.results
    plain_type = FunctionType(tuple(map(plain, inputs)), tuple(map(plain, results)))
    body = _Shaping({}).region(function.regions[0])
    return function.rebuilt(
        regions=[body], attributes={**function.attributes, "function_type": TypeAttr(plain_type)}
    )


class _Shaping:
    """Rebuilds blocks. `base` maps each old value to a new one with the same elements in some shape."""

    def __init__(self, base: dict[Value, Value]):
        self.base = base
        self.views: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self.builder = Builder(Block())

    def region(self, region: Region) -> Region:
        blocks: list[Block] = []
        for block in region.blocks:
            made = Block([plain(a.type) for a in block.args], [a.name for a in block.args])
            self.base.update(zip(block.args, made.args, strict=True))
            outer, self.builder = self.builder, Builder(made)
            outer_views, self.views = self.views, dict(self.views)
            for op in block.ops:
                self.builder.location = op.location
                (self.scheduled if SCHEDULE in op.attributes else self.op)(op)
            self.builder, self.views = outer, outer_views
            blocks.append(made)
        return Region(*blocks)

    def view(self, old: Value, shape: Sequence[int] | None = None) -> Value:
        """The new value of `old` in a shape (default: the shape of `old`)."""
        base = self.base[old]
        if not isinstance(base.type, TensorType):
            return base
        return self.seen(base, shape_of(old.type) if shape is None else tuple(shape))

    def seen(self, base: Value, shape: tuple[int, ...]) -> Value:
        """A new value reshaped to a shape; each reshape is added once."""
        if shape_of(base.type) == shape:
            return base
        key = (base, shape)
        if key not in self.views:
            self.views[key] = self.builder.reshape(base, type=TensorType(shape, element_type(base.type)))
        return self.views[key]

    def op(self, op: Op) -> None:
        traits = op.traits
        type = op.results[0].type if op.results else None
        if "elementwise" in traits and isinstance(type, TensorType) and type.static:
            self.elementwise(op, type)
        elif op.name == "ng.cast_axes" or (_moves_nothing(op) and _static(op)):
            self.base[op.results[0]] = self.base[op.operands[0]]
        elif "reduction" in traits and isinstance(type, TensorType) and _static(op):
            self.reduction(op)
        elif op.name == "ng.broadcast" and isinstance(type, TensorType) and _static(op):
            self.broadcast(op, type)
        elif op.name == "ng.dot" and _static(op):
            self.dot(op)
        else:
            self.other(op)

    def scheduled(self, op: Op) -> None:
        """Rebuilds an op with a schedule; the new ops inherit it."""
        out, start = self.builder.block, len(self.builder.block.ops)
        self.op(op)
        made = hand_on(out, start, op, [self.base[r] for r in op.results])
        self.base.update(zip(op.results, made, strict=True))
        self.views.clear()  # some may be views of values that `hand_on` replaced

    def set(self, op: Op, *values: Value) -> None:
        for old, new in zip(op.results, values, strict=True):
            self.base[old] = new
            new.name = new.name or old.name

    def elementwise(self, op: Op, type: TensorType) -> None:
        shape = (type.size,) if type.rank > 0 else ()
        operands = [self.view(o, shape) for o in op.operands]
        results = [TensorType(shape, element_type(r.type)) for r in op.results]
        new = op.rebuilt(operands, types=results)
        self.builder.add_op(new)
        self.set(op, *new.results)

    def reduction(self, op: Op) -> None:
        """Merges adjacent dimensions that are all reduced or all kept. Argmax and argmin count along one dimension: if several
        are left to reduce, they are transposed to the end."""
        axes, dims = set(get_i64s(op, "axes")), shape_of(op.operands[0].type)
        order = list(range(len(dims)))
        shape, reduced = _joined_runs(dims, axes, order)
        if op.name in POSITIONS and sum(reduced) > 1:
            order.sort(key=axes.__contains__)
            shape, reduced = _joined_runs(dims, axes, order)
        kept = [s for s, r in zip(shape, reduced, strict=True) if not r]
        if not any(reduced):
            nothing = op.name in POSITIONS
            self.base[op.results[0]] = (
                self.builder.number(0, plain(op.results[0].type)) if nothing else self.base[op.operands[0]]
            )
            return
        if order == sorted(order):
            source = self.view(op.operands[0], shape)
        else:
            source = self.seen(
                self.builder.transpose(self.view(op.operands[0]), permutation=order), tuple(shape)
            )
        new = op.rebuilt(
            [source],
            types=[TensorType(tuple(kept), element_type(op.results[0].type))],
            attributes={**op.attributes, "axes": integers(i for i, r in enumerate(reduced) if r)},
        )
        self.builder.add_op(new)
        self.set(op, new.results[0])

    def broadcast(self, op: Op, type: TensorType) -> None:
        """Merges adjacent dimensions that are all repeated or all come from the operand."""
        shape, given = _joined_runs(type.shape, get_i64s(op, "dimensions"), range(type.rank))
        if all(given) and type.size:
            self.base[op.results[0]] = self.base[op.operands[0]]  # nothing is repeated
            return
        source = [s for s, g in zip(shape, given, strict=True) if g]
        made = self.builder.broadcast(
            self.view(op.operands[0], source),
            type=TensorType(tuple(shape), type.element),
            dimensions=[i for i, g in enumerate(given) if g],
        )
        self.set(op, made)

    def dot(self, op: Op) -> None:
        """Rewrites a product as [batch,] rows x depth times depth x columns, or with transposed sides where that moves no data."""
        sides: list[tuple[Value, tuple[int, ...], int]] = []
        for (side, operand), contracted in zip(
            (("lhs", op.operands[0]), ("rhs", op.operands[1])), _contracted(op), strict=True
        ):
            batch = get_i64s(op, f"{side}_batch")
            sides.append(self.matrix(operand, batch, contracted, side == "lhs"))
        (lhs, lhs_shape, lhs_depth), (rhs, rhs_shape, rhs_depth) = sides
        first = int(bool(get_i64s(op, "lhs_batch")))
        made = self.builder.dot(
            self.seen(lhs, lhs_shape),
            self.seen(rhs, rhs_shape),
            lhs_contract=[first + lhs_depth],
            rhs_contract=[first + rhs_depth],
            lhs_batch=range(first),
            rhs_batch=range(first),
            type=TensorType(
                (*lhs_shape[:first], lhs_shape[first + 1 - lhs_depth], rhs_shape[first + 1 - rhs_depth]),
                element_type(op.results[0].type),
            ),
        )
        self.set(op, made)

    def matrix(
        self, value: Value, batch: Sequence[int], contract: Sequence[int], left: bool
    ) -> tuple[Value, tuple[int, ...], int]:
        """One operand, its shape as a [batch,] matrix, and the index (0 or 1) of the contracted dimension in the matrix."""
        shape = shape_of(value.type)
        free = [d for d in range(len(shape)) if d not in batch and d not in contract]

        def size(dims: Sequence[int]) -> int:
            return prod(shape[d] for d in dims)

        # Contracted dimensions may be before or after the free ones: the order that moves no data is chosen.
        after, before = [*batch, *free, *contract], [*batch, *contract, *free]
        vector = size(free) == 1 or size(contract) == 1
        order, depth = next(
            ((order, depth) for order, depth in ((after, 1), (before, 0)) if in_place(order, shape)),
            (after, 1) if left or vector else (before, 0),
        )
        rows = [size(batch)] if batch else []
        rest = (size(free), size(contract)) if depth else (size(contract), size(free))
        if in_place(order, shape):
            return self.base[value], (*rows, *rest), depth
        return self.builder.transpose(self.view(value), permutation=order), (*rows, *rest), depth

    def other(self, op: Op) -> None:
        """Any other op keeps its dimensions and loses its axis names."""
        operands = [self.view(o) for o in op.operands]
        regions = [self.region(r) for r in op.regions]
        attributes = {k: _plain_attribute(v) for k, v in op.attributes.items()}
        new = op.rebuilt(operands, regions, attributes=attributes, types=[plain(r.type) for r in op.results])
        self.builder.add_op(new)
        self.set(op, *new.results)


def _plain_attribute(attribute: Attribute) -> Attribute:
    if isinstance(attribute, ElementsAttr) and isinstance(attribute.type, TensorType):
        return attribute.of_type(TensorType(attribute.type.shape, attribute.type.element))
    return attribute


def _joined_runs(
    dims: Sequence[int], axes: Container[int], order: Sequence[int]
) -> tuple[list[int], list[bool]]:
    """Merges the dimensions, taken in an order, into runs that are all among `axes` or all not: their lengths, and whether each
    is among them. Dimensions of size 1 are dropped."""
    shape: list[int] = []
    among: list[bool] = []
    for d in order:
        if among and among[-1] == (d in axes):
            shape[-1] *= dims[d]
        elif dims[d] != 1:
            shape.append(dims[d])
            among.append(d in axes)
    return shape, among


def _contracted(dot: Op) -> tuple[Sequence[int], Sequence[int]]:
    """The contracted dimensions of both sides of a product, in one order. Windows whose innermost dimension is not contracted are
    packed anyway: then the order is that of the other side in memory."""
    found = get_i64s(dot, "lhs_contract"), get_i64s(dot, "rhs_contract")
    for side, operand in enumerate(dot.operands):
        owner = operand.owner
        if isinstance(owner, Op) and owner.name == "ng.windows":
            if len(shape_of(operand.type)) - 1 not in found[side]:
                order = sorted(range(len(found[0])), key=found[1 - side].__getitem__)
                return [found[0][i] for i in order], [found[1][i] for i in order]
    return found


def _moves_nothing(op: Op) -> bool:
    """Whether an op is a reshape or a transpose that leaves the elements in their order in memory."""
    if op.name == "ng.transpose":
        return in_place(get_i64s(op, "permutation"), shape_of(op.operands[0].type))
    return op.name == "ng.reshape"


def _static(op: Op) -> bool:
    return all(DYNAMIC not in shape_of(v.type) for v in (*op.operands, *op.results))
