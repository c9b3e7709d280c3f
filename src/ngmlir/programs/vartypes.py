# SPDX-License-Identifier: Apache-2.0
"""What a variable may hold, by number, and the same as types of the IR."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64, ui8
from ..support.diagnostics import UserError
from ..support.spelling import did_you_mean


class VarType(IntEnum):
    """Element types, and what else than a tensor a variable may hold."""

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    UINT8 = 20
    INT8 = 21
    BF16 = 22


_ELEMENTS: dict[int, Type] = {
    VarType.BOOL: i1, VarType.INT16: i16, VarType.INT32: i32, VarType.INT64: i64, VarType.FP16: f16,
    VarType.FP32: f32, VarType.FP64: f64, VarType.UINT8: ui8, VarType.INT8: i8, VarType.BF16: bf16,
}  # fmt: skip
_NUMBERS = {element: VarType(number) for number, element in _ELEMENTS.items()}
#: What a declaration says that a variable holds.
HOLDS: dict[VarType, str] = {
    VarType.LOD_TENSOR: "tensor", VarType.SELECTED_ROWS: "selected_rows", VarType.LOD_TENSOR_ARRAY: "tensor_array",
    VarType.LOD_RANK_TABLE: "rank_table", VarType.STEP_SCOPES: "step_scopes", VarType.FEED_MINIBATCH: "feed_list",
    VarType.FETCH_LIST: "fetch_list", VarType.READER: "reader", VarType.RAW: "raw",
}  # fmt: skip
HELD = {text: number for number, text in HOLDS.items()}


def element_of(number: int) -> Type:
    """The element type of a number; UserError for one that is of no element."""
    found = _ELEMENTS.get(number)
    if found is None:
        raise UserError(f"{number!r} is the number of no element type", hint='dtype="float32", ...')
    return found


def number_of(element: Type) -> VarType:
    """The number of an element type; UserError for one that no variable has."""
    found = _NUMBERS.get(element)
    if found is None:
        raise UserError(
            f"no variable holds {element}", hint=f"variables hold {', '.join(map(str, _NUMBERS))}"
        )
    return found


def vartype(dtype: Any) -> VarType:
    """The number of an element type by any of its names: a number, "float32", a NumPy type. UserError for others."""
    if isinstance(dtype, VarType):
        return dtype
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return number_of(element_of(dtype))
    if isinstance(dtype, str):
        if dtype in VarType.__members__:
            return VarType[dtype]
        if dtype == "bfloat16":
            return VarType.BF16
    try:
        return number_of(type_of_dtype(dtype))
    except TypeError:
        names = [str(dtype_of(e)) for e in _NUMBERS]
        hint = did_you_mean(str(dtype), names, f"one of {', '.join(names)}")
        raise UserError(f"{dtype!r} is no element type", hint=hint) from None
