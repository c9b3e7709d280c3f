# SPDX-License-Identifier: Apache-2.0
"""The verbs of the `ng` dialect on graph nodes, by position of dimensions. The type rules are the dialect's own.

What the rules say about shapes they say about lengths too; a length that is not set yet fits everything,
and is checked again when the graph is lifted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import core
from ..ir.attributes import numeric_literal
from ..ir.definition import Typing
from ..ir.types import DYNAMIC, TensorType, Type, element_type, i32
from ..ops import ng
from ..ops.fields import attributes_of
from ..ops.gradients import Applied, GradientVerbs
from ..ops.lengths import Length, Size, derived, same
from ..ops.ng_rules import slice_size
from ..ops.rules import names_of, same_shape
from ..support.diagnostics import Bug, UserError
from ..support.lengths import are_same, is_same
from .attributes import all_known, resolved
from .axes import Axes, Axis, DerivedAxis
from .errors import fail
from .node_classes import node_class
from .positions import Positions
from .tensor import Tensor, tensor_type
from .values import ConstantOp, FollowingOp, ProgressionOp, as_array, size_op


class GraphVerbs(GradientVerbs[Tensor]):
    """Makes nodes with one result each; `op_graph.regions` makes those with regions."""

    def build(
        self,
        op: type[core.Op],
        operands: Sequence[Tensor],
        attributes: Mapping[str, Any],
        *,
        types: Sequence[Type] | None = None,
        regions: Sequence[core.Region] = (),
    ) -> Sequence[Tensor]:
        if regions:
            raise Bug(f"{op.name} has regions: op_graph.regions makes it")
        (inferred,) = infer(op, [o.type for o in operands], attributes, types or ())
        axes = axes_of_type(inferred, [o.axes for o in operands])
        return [node_class(op)(operands, dict(attributes), axes, element_type(inferred))]

    def stated(
        self,
        op: type[core.Op],
        operands: Sequence[Tensor],
        attributes: Mapping[str, Any],
        axes: Axes,
        element: Type,
    ) -> Tensor:
        """A node whose result has these axes and elements; the op's rule checks that it can."""
        if all_known(attributes):
            infer(op, [o.type for o in operands], attributes, [tensor_type(axes, element)])
        return node_class(op)(operands, dict(attributes), axes, element)

    # ---- what gradients are written with

    def shape_of(self, value: Tensor) -> tuple[Length, ...]:
        return tuple([Length(same, axis) for axis in value.axes])

    def number_like(self, value: float | Length, like: Tensor) -> Tensor:
        if isinstance(value, Length):
            return FollowingOp(same, (value,), like.axes, like.element)
        return ConstantOp(as_array(value, like.axes, like.element), like.axes, like.element)

    def cast_like(self, value: Tensor, like: Tensor) -> Tensor:
        return cast(value, like.element)

    def rename_like(self, value: Tensor, like: Tensor) -> Tensor:
        return (
            value
            if value.axes == like.axes
            else self.stated(ng.CastAxesOp, [value], {}, like.axes, value.element)
        )

    def reshape_like(self, value: Tensor, like: Tensor) -> Tensor:
        return self.stated(ng.ReshapeOp, [value], {}, like.axes, value.element)

    def broadcast_like(self, value: Tensor, like: Tensor, dimensions: Sequence[int]) -> Tensor:
        axes = like.axes.like(like.axes[d] for d in dimensions)
        if value.axes != axes:
            value = self.stated(ng.CastAxesOp, [value], {}, axes, value.element)
        return self.stated(
            ng.BroadcastOp, [value], {"dimensions": tuple(dimensions)}, like.axes, value.element
        )

    def repeat(self, value: Tensor, at: int, like: Tensor, dimension: int) -> Tensor:
        again = DerivedAxis(Axis().name, Length(same, like.axes[dimension]))
        axes = value.axes.like((*value.axes[:at], again, *value.axes[at:]))
        places = tuple(d for d in range(len(axes)) if d != at)
        return self.stated(ng.BroadcastOp, [value], {"dimensions": places}, axes, value.element)

    def count_like(self, counted: Tensor, dimensions: Sequence[int], like: Tensor) -> Tensor:
        return size_op(Axes(counted.axes[d] for d in dimensions), like.axes, like.element)

    def positions_like(self, like: Tensor, dimension: int) -> Tensor:
        return self.stated(ng.IotaOp, [], {"dimension": dimension}, like.axes, i32)

    def progression(self, first: Size, step: Size, count: Size) -> Tensor:
        axes = Axes((DerivedAxis(Axis().name, Length(same, count)),))
        return ProgressionOp(first, step, axes, i32)

    def window(self, value: Tensor, dimension: int, start: Size, limit: Size, step: int = 1) -> Tensor:
        length = derived(slice_size, start, limit, step)
        name = value.axes[dimension].name
        axis = DerivedAxis(name, length) if isinstance(length, Length) else Axis(length, name)
        axes = value.axes.like(axis if d == dimension else a for d, a in enumerate(value.axes))

        def along(inside: Size, whole: Any) -> tuple[Any, ...]:
            return tuple(
                [
                    inside if d == dimension else a if whole is None else whole
                    for d, a in enumerate(value.axes)
                ]
            )

        # The axis itself stands for its length where the slice takes all of it.
        attributes = {"starts": along(start, 0), "limits": along(limit, None), "steps": along(step, 1)}
        return node_class(ng.SliceOp)([value], attributes, axes, value.element)

    def pad_like(
        self, value: Tensor, like: Tensor, low: Sequence[Size], high: Sequence[Size], fill: int = 0
    ) -> Tensor:
        attributes = {"low": tuple(low), "high": tuple(high), "value": numeric_literal(fill, value.element)}
        return self.stated(ng.PadOp, [value], attributes, like.axes, value.element)

    def spaced_like(self, value: Tensor, like: Tensor, dimension: int, start: Size, step: int) -> Tensor:
        # Rows of `step` elements, of which one is given: what gives others of the same rows joins them.
        d, zeros = dimension, [0] * len(value.axes)
        along, length = value.axes[d], Length(same, like.axes[d])
        rows = derived(_rows, length, step)

        def shaped(*axes: Axis) -> Axes:
            return value.axes.like((*value.axes[:d], *axes, *value.axes[d + 1 :]))

        name = "step"  # the same for all, so that the pass `join-pads` sees that they are of one kind
        while name in value.axes.names:
            name += "_"
        one, several = Axis(1, name), Axis(step, name)
        column = self.stated(ng.ReshapeOp, [value], {}, shaped(along, one), value.element)
        above, left, right = (derived(part, start, step) for part in (_above, _left, _right))
        below = rows - along - above
        pads = {
            "low": (*zeros[:d], above, left, *zeros[d + 1 :]),
            "high": (*zeros[:d], below, right, *zeros[d + 1 :]),
        }
        tall = DerivedAxis(along.name, rows)
        spread = self.stated(ng.PadOp, [column], pads, shaped(tall, several), value.element)
        line = DerivedAxis(along.name, rows * step)
        made = self.stated(ng.ReshapeOp, [spread], {}, shaped(line), value.element)
        return self.window(made, d, 0, length)

    def windows_like(self, value: Tensor, like: Tensor, op: Applied[Tensor]) -> Tensor:
        return self.stated(ng.WindowsOp, [value], op.attributes, like.axes, value.element)

    def overlap_add_like(self, value: Tensor, like: Tensor, op: Applied[Tensor]) -> Tensor:
        return self.stated(ng.OverlapAddOp, [value], op.attributes, like.axes, value.element)

    def segment_sum(self, value: Tensor, offsets: Tensor, axis: int, like: Tensor | None = None) -> Tensor:
        segments = DerivedAxis(Axis().name, Length(same, offsets.axes[0]) - 1)
        own = value.axes.like((*value.axes[:axis], segments, *value.axes[axis + 1 :]))
        axes = own if like is None else like.axes
        return self.stated(ng.SegmentReduceOp, [value, offsets], {"axis": axis}, axes, value.element)

    def segment_expand_like(self, value: Tensor, offsets: Tensor, axis: int, like: Tensor) -> Tensor:
        return self.stated(ng.SegmentExpandOp, [value, offsets], {"axis": axis}, like.axes, value.element)

    def one_hot_like(self, indices: Tensor, axis: int, like: Tensor) -> Tensor:
        return self.stated(ng.OneHotOp, [indices], {"axis": axis}, like.axes, like.element)


def _rows(length: int, step: int) -> int:
    return -(-length // step)


def _above(start: int, step: int) -> int:
    return start // step


def _left(start: int, step: int) -> int:
    return start % step


def _right(start: int, step: int) -> int:
    return step - 1 - start % step


VERBS = GraphVerbs()


def cast(x: Tensor, element: Type) -> Tensor:
    """`x` with other elements; `x` itself if it has them."""
    return x if x.element is element else VERBS.stated(ng.CastOp, [x], {}, x.axes, element)


def infer(
    op: type[core.Op], operands: Sequence[Type], attributes: Mapping[str, Any], types: Sequence[Type]
) -> Sequence[Type]:
    """Result types by the op's definition; UserError at the user's line where the operands do not fit."""
    definition = op.definition
    assert definition is not None
    seen: dict[str, Type] = {}
    for operand, start, stop in definition.operand_groups(len(operands)) or ():
        for type in operands[start:stop]:
            if not operand.constraint.accepts(type):
                fail(UserError, f"{op.name} takes {operand.constraint.words} as '{operand.name}', not {type}")
            if operand.variable:
                other = seen.setdefault(operand.variable, type)
                if not (other is type or _agree(other, type)):
                    fail(UserError, f"{op.name} takes operands of one type, not {other} and {type}")
    try:
        return definition.infer(
            Typing(tuple(operands), attributes_of(op, resolved(attributes)), tuple(types))
        )
    except UserError as error:
        what = error.diagnostics[0]
        fail(UserError, f"{op.name}: {what.message}", what.hint)


def _agree(a: Type, b: Type) -> bool:
    """Equal as far as the lengths are known."""
    return same_shape(a, b) and element_type(a) is element_type(b) and names_of(a) == names_of(b)


def axes_of_type(type: Type, known: Sequence[Axes]) -> Axes:
    """The axes of an inferred type: those of the operands where name and length are theirs, else new ones."""
    assert isinstance(type, TensorType)
    if known and known[0].type_names == type.axes and are_same(known[0].shape, type.shape):
        return known[0]
    if type.axes is None:
        return Positions([Axis(None if size == DYNAMIC else size) for size in type.shape])
    by_name = {axis.name: axis for axes in reversed(known) for axis in axes}
    made: list[Axis] = []
    for name, size in zip(type.axes, type.shape, strict=True):
        axis = by_name.get(name)
        made.append(
            axis
            if axis is not None and is_same(axis.size, size)
            else Axis(None if size == DYNAMIC else size, name)
        )
    return Axes(made)
