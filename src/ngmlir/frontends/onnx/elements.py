# SPDX-License-Identifier: Apache-2.0
"""The element types of models."""

from __future__ import annotations

from ...ir.types import (
    FloatType,
    IntegerType,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    ui8,
    ui16,
    ui32,
    ui64,
)
from ...support.diagnostics import Limit

#: Element types by the numbers of `TensorProto.DataType`.
ELEMENTS: dict[int, Type] = {
    1: f32,
    2: ui8,
    3: i8,
    4: ui16,
    5: i16,
    6: i32,
    7: i64,
    9: i1,
    10: f16,
    11: f64,
    12: ui32,
    13: ui64,
    16: bf16,
    17: FloatType("f8E4M3FN"),
    18: FloatType("f8E4M3FNUZ"),
    19: FloatType("f8E5M2"),
    20: FloatType("f8E5M2FNUZ"),
    21: IntegerType(4, "u"),
    22: IntegerType(4),
    23: FloatType("f4E2M1FN"),
    24: FloatType("f8E8M0FNU"),
    25: IntegerType(2, "u"),
    26: IntegerType(2),
}
#: What is said where an element type is none of these.
KNOWN = "ngmlir has floats of 4 to 64 bits, integers of 2 to 64 bits and bool"
#: What is said of strings, which are labels that a model gives, and nothing else.
NO_STRINGS = "only labels that a model gives may be strings: cut the model behind the encoders that read them, and feed numbers"


def element_of(number: int, what: str) -> Type:
    """An element type by its number; Limit for one that nothing here computes with."""
    found = ELEMENTS.get(number)
    if found is None:
        from onnx import TensorProto  # who asks knows it already

        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if known else f"number {number}"
        raise Limit(
            f"{what} has elements of type {name}",
            hint=NO_STRINGS if name == "STRING" else KNOWN,
        )
    return found
