# SPDX-License-Identifier: Apache-2.0
"""What operators of Python make of variables: operators of the current block."""

from __future__ import annotations

from typing import Any

from ...ir.types import FloatType
from ...op_graph.errors import fail
from ...programs.vartypes import VarType, number_of, vartype
from ...support.diagnostics import UserError
from ...support.undo import undone_where_it_fails
from . import unique_name


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
    axis = -1
    if len(left.shape) < len(right.shape) and type in ("elementwise_add", "elementwise_mul"):
        left, right = right, left
    _block(x).append_op(
        type=type, inputs={"X": [left], "Y": [right]}, outputs={"Out": [made]}, attrs={"axis": axis}
    )
    return made


def _filled(like: Any, value: float) -> Any:
    """A number in the shape of a variable."""
    made = _new(like, like.dtype)
    if -1 not in like.shape:
        fields = {"shape": list(like.shape), "dtype": like.dtype, "value": float(value)}
        _block(like).append_op(type="fill_constant", outputs={"Out": [made]}, attrs=fields)
        return made
    _block(like).append_op(type="fill_ones_like", inputs={"X": [like]}, outputs={"Out": [made]})
    return scaled(made, float(value))
