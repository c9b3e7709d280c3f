# SPDX-License-Identifier: Apache-2.0
"""What operators of Python make of variables: operators of the current block."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any
from typing import cast as cast_to

from ...ir.types import FloatType
from ...op_graph.errors import fail
from ...op_graph.functions.shape import with_all_axes
from ...programs.vartypes import VarType, number_of, vartype
from ...support.diagnostics import UserError
from ...support.spelling import counted
from ...support.undo import undone_where_it_fails
from . import unique_name

#: Behind the end of every dimension.
_END = 2**31 - 1


def _block(x: Any) -> Any:
    """The block that operators are appended to: the current one of the variable's program."""
    return x.block.program.current_block()


def _new(like: Any, dtype: VarType) -> Any:
    """A variable for a result."""
    return _block(like).create_var(name=unique_name.generate("tmp"), dtype=dtype, persistable=False)


def cast(x: Any, dtype: Any) -> Any:
    """x with numbers of another element type."""
    wanted = vartype(dtype)
    made = _new(x, wanted)
    types = {"in_dtype": x.dtype, "out_dtype": wanted}
    _block(x).append_op(type="cast", inputs={"X": [x]}, outputs={"Out": [made]}, attrs=types)
    return made


def scaled(x: Any, factor: float) -> Any:
    """x times a number."""
    made = _new(x, x.dtype)
    _block(x).append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [made]}, attrs={"scale": factor})
    return made


@undone_where_it_fails
def binary(type: str, x: Any, other: Any, reverse: bool = False) -> Any:
    """The operator of two variables, or of one and a number, on either side."""
    if isinstance(other, (int, float)):
        is_float = isinstance(x.view.element, FloatType)
        if not is_float and int(other) != other:
            fail(UserError, f"'{x.name}' holds integers, and {other} is none", f"{x.name}.astype('float32')")
        if not reverse and is_float and type == "elementwise_mul":
            return scaled(x, float(other))
        if not reverse and is_float and type == "elementwise_div" and other:
            return scaled(x, 1 / float(other))
        other = _filled(x, other)
    if not hasattr(other, "view"):
        hint = "layers.assign(array) makes a variable"
        fail(UserError, f"{type} takes variables and numbers, not {other!r}", hint)
    if other.dtype != x.dtype:
        other = cast(other, x.dtype)
    # The result has the shape of the left operand, so that of more dimensions is there where that may be.
    left, right = (other, x) if reverse else (x, other)
    is_bool = not type.startswith("elementwise")
    made = _new(x, VarType.BOOL if is_bool else number_of(x.view.element))
    if len(left.shape) < len(right.shape) and type in ("elementwise_add", "elementwise_mul"):
        left, right = right, left
    axis = 0 if _begins_alike(left.shape, right.shape) else -1
    _block(x).append_op(
        type=type, inputs={"X": [left], "Y": [right]}, outputs={"Out": [made]}, attrs={"axis": axis}
    )
    return made


def _begins_alike(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether the first dimensions of two shapes are alike, open ones and known ones, and the last ones are not: then one number of each
    row of a batch goes with that row, as in later releases."""
    rank = len(right)
    return (
        0 < rank < len(left)
        and tuple(left[:rank]) == tuple(right)
        and -1 in right
        and any((a == -1) != (b == -1) for a, b in zip(left[-rank:], right, strict=True))
    )


@undone_where_it_fails
def part(x: Any, index: Any) -> Any:
    """x[index], of integers, ranges without a step, and at most one `...`. An integer drops its dimension, but for the last one left."""
    given: list[Any] = [*cast_to("tuple[Any, ...]", index)] if isinstance(index, tuple) else [index]
    rank, dots = len(x.shape), sum(each is ... for each in given)
    taken = len(given) - dots
    if taken > rank or dots > 1:
        fail(UserError, f"'{x.name}' has {counted(rank, 'dimension')}, and is indexed with {len(given)}")
    found = [_range(x, axis, each) for axis, each in enumerate(with_all_axes(given, rank - taken))]
    cuts = {axis: cut for axis, (cut, _) in enumerate(found) if cut != (0, _END)}
    made = x
    if cuts:
        fields = {
            "axes": [*cuts],
            "starts": [c[0] for c in cuts.values()],
            "ends": [c[1] for c in cuts.values()],
        }
        made = _new(x, x.dtype)
        _block(x).append_op(type="slice", inputs={"Input": [x]}, outputs={"Out": [made]}, attrs=fields)
    if dropped := [axis for axis, (_, is_one) in enumerate(found) if is_one][: rank - 1]:
        whole, made = made, _new(x, x.dtype)
        _block(x).append_op(
            type="squeeze", inputs={"X": [whole]}, outputs={"Out": [made]}, attrs={"axes": dropped}
        )
    return made


def _range(x: Any, axis: int, index: Any) -> tuple[tuple[int, int], bool]:
    """Where an index of a dimension begins and ends, and whether it is one number."""
    is_range = isinstance(index, slice)
    start, stop, step = (index.start, index.stop, index.step) if is_range else (index, index, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if step not in (None, 1):
        hint = "layers.reverse(x, axis) turns a dimension"
        fail(UserError, f"'{x.name}' is indexed with the step {step!r}", hint)
    for bound in (start, stop):  # pyright: ignore[reportUnknownVariableType]
        if (bound is not None or not is_range) and (
            isinstance(bound, bool) or not isinstance(bound, Integral)
        ):
            hint = "layers.gather(x, index) gives rows by number"
            fail(UserError, f"'{x.name}' is indexed with integers and ranges, not {index!r}", hint)
    if is_range:
        return (int(start or 0), _END if stop is None else int(stop)), False  # pyright: ignore[reportUnknownArgumentType]
    at, length = int(index), x.shape[axis]
    if length != -1 and not -length <= at < length:
        fail(UserError, f"'{x.name}' has no element {at} along dimension {axis}, which is {length} long")
    return (at, _END if at == -1 else at + 1), True


def _filled(like: Any, value: float) -> Any:
    """A number in the shape of a variable."""
    made = _new(like, like.dtype)
    if -1 not in like.shape:
        fields = {"shape": list(like.shape), "dtype": like.dtype, "value": float(value)}
        _block(like).append_op(type="fill_constant", outputs={"Out": [made]}, attrs=fields)
        return made
    _block(like).append_op(type="fill_ones_like", inputs={"X": [like]}, outputs={"Out": [made]})
    return scaled(made, float(value))
