# SPDX-License-Identifier: Apache-2.0
"""Arrays of a model: element types, and tensors that lie in the file or beside it, without a copy where possible."""

from __future__ import annotations

import os
import stat
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from ...ir.literals import dtype_of, narrow_width
from ...ir.narrow import NARROW
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
from ...support.diagnostics import Limit, UserError
from ...support.mapping import mapped
from .tensor import Array

#: Element types of ONNX by number.
ELEMENTS: dict[int, Type] = {
    TensorProto.FLOAT: f32,
    TensorProto.UINT8: ui8,
    TensorProto.INT8: i8,
    TensorProto.UINT16: ui16,
    TensorProto.INT16: i16,
    TensorProto.INT32: i32,
    TensorProto.INT64: i64,
    TensorProto.BOOL: i1,
    TensorProto.FLOAT16: f16,
    TensorProto.DOUBLE: f64,
    TensorProto.UINT32: ui32,
    TensorProto.UINT64: ui64,
    TensorProto.BFLOAT16: bf16,
    TensorProto.FLOAT8E4M3FN: FloatType("f8E4M3FN"),
    TensorProto.FLOAT8E4M3FNUZ: FloatType("f8E4M3FNUZ"),
    TensorProto.FLOAT8E5M2: FloatType("f8E5M2"),
    TensorProto.FLOAT8E5M2FNUZ: FloatType("f8E5M2FNUZ"),
    TensorProto.FLOAT8E8M0: FloatType("f8E8M0FNU"),
    TensorProto.FLOAT4E2M1: FloatType("f4E2M1FN"),
    TensorProto.UINT4: IntegerType(4, "u"),
    TensorProto.INT4: IntegerType(4),
    TensorProto.UINT2: IntegerType(2, "u"),
    TensorProto.INT2: IntegerType(2),
}
#: What is said where an element type is none of these.
KNOWN = "ngmlir has floats of 4 to 64 bits, integers of 2 to 64 bits and boo"
#: The field that holds the elements where they are no raw bytes, and what it holds.
_FIELDS: dict[int, tuple[str, Any]] = {
    TensorProto.FLOAT: ("float_data", np.float32),
    TensorProto.DOUBLE: ("double_data", np.float64),
    TensorProto.INT64: ("int64_data", np.int64),
    TensorProto.UINT64: ("uint64_data", np.uint64),
    TensorProto.UINT32: ("uint64_data", np.uint64),
}
#: Of more dimensions nothing here is written.
_RANK = 64


def element_of(number: int, what: str) -> Type:
    """An element type by its number; Limit for one that nothing here computes with."""
    found = ELEMENTS.get(number)
    if found is None:
        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if known else f"number {number}"
        raise Limit(
            f"{what} has elements of type {name}",
            hint=KNOWN,
        )
    return found


def checked_shape(dims: Any, what: str) -> tuple[int, ...]:
    """Dimensions that a tensor can have."""
    shape = tuple(int(d) for d in dims)
    if any(d < 0 for d in shape) or len(shape) > _RANK or prod(max(d, 1) for d in shape) >= 1 << 60:
        raise UserError(f"{what} cannot have the shape {list(shape)[:_RANK]}")
    return shape


def array_of(
    tensor: TensorProto, folder: Path | None, what: str = "", stored: memoryview | None = None
) -> Array:
    """The elements of a tensor. `folder` is where a file beside the model must lie; None: there is none. `stored` are its
    bytes where they were left out of it.

    Raises UserError where size and shape differ, or for a file that is not the model's; Limit for element types that
    nothing here computes with.
    """
    what = what or f"the tensor '{tensor.name}'"
    element = element_of(tensor.data_type, what)
    shape, dtype = checked_shape(tensor.dims, what), dtype_of(element)
    width = 0 if element is i1 else narrow_width(element)
    if width:
        return _unpacked(tensor, folder, shape, width, what).view(dtype)
    if tensor.HasField("segment"):
        raise Limit(f"{what} is stored in segments")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, folder, shape, dtype, what)
    if stored is not None:
        return _from_bytes(stored, shape, dtype, what)
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data, shape, dtype, what)
    field, held = _FIELDS.get(tensor.data_type, ("int32_data", np.int32))
    numbers = np.array(getattr(tensor, field), held)
    if numbers.size != prod(shape):
        raise UserError(f"{what} holds {numbers.size} elements, but its shape is {list(shape)}")
    if element in (f16, bf16):
        return numbers.astype(np.uint16).view(dtype).reshape(shape)
    if element.text in NARROW:
        return numbers.astype(np.uint8).view(dtype).reshape(shape)
    return numbers.astype(dtype).reshape(shape)


def _unpacked(
    tensor: TensorProto, folder: Path | None, shape: tuple[int, ...], width: int, what: str
) -> Array:
    """Elements of fewer than 8 bits, which share bytes in files, the first in the lowest bits: each in a byte of its own."""
    count = 8 // width
    packed = TensorProto()
    packed.CopyFrom(tensor)
    packed.data_type = TensorProto.UINT8
    del packed.dims[:]
    packed.dims.append(-(-prod(shape) // count))
    held = array_of(packed, folder, what)
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    codes = (held[:, None] >> shifts) & np.uint8((1 << width) - 1)
    return codes.reshape(-1)[: prod(shape)].reshape(shape)


def _from_bytes(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
    if len(data) != prod(shape) * dtype.itemsize:
        raise UserError(
            f"{what} holds {len(data)} bytes, but {dtype}{list(shape)} takes {prod(shape) * dtype.itemsize}"
        )
    found = np.frombuffer(
        data, np.uint8 if dtype == np.bool_ else dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype
    )
    # A truth value is 0 or 1; files may say it with other bytes.
    return (found != 0 if dtype == np.bool_ else found).reshape(shape)


def sparse_array(tensor: SparseTensorProto, folder: Path | None, what: str) -> Array:
    """A sparse tensor with its zeros."""
    shape = checked_shape(tensor.dims, what)
    values, indices = array_of(tensor.values, folder, what), array_of(tensor.indices, folder, what)
    if prod(shape) > 1 << 28:
        raise Limit(f"{what} is sparse, and has {prod(shape)} elements with its zeros")
    flat = np.zeros(prod(shape), values.dtype)
    if indices.ndim == 2:
        if indices.shape[1] != len(shape):
            raise UserError(f"{what} has indices for {indices.shape[1]} dimensions, not {len(shape)}")
        outside = bool(((indices < 0) | (indices >= np.array(shape))).any())
        strides = np.array([prod(shape[d + 1 :]) for d in range(len(shape))], np.int64)
        places: Array = (indices * strides).sum(1) * (not outside)
    else:
        outside, places = bool(((indices < 0) | (indices >= flat.size)).any()), indices
    if outside or places.size != values.size:
        raise UserError(f"{what} has indices that do not fit its shape {list(shape)}")
    flat[places] = values.reshape(-1)
    return flat.reshape(shape)


# ---- files beside the model --------------------------------------------------------------------------------


def _external(
    tensor: TensorProto, folder: Path | None, shape: tuple[int, ...], dtype: np.dtype[Any], what: str
) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise UserError(f"{what} lies in the file '{location}', but the model was not read from a file")
    path = _inside(folder, location, what)
    offset, size = _number(entries, "offset", 0, what), prod(shape) * dtype.itemsize
    length = _number(entries, "length", size, what)
    if length != size:
        raise UserError(f"{what} takes {length} bytes of '{location}', but {dtype}{list(shape)} takes {size}")
    with _opened(path, what) as stream:
        held = os.fstat(stream.fileno()).st_size
        if offset + size > held:
            raise UserError(f"{what} ends at byte {offset + size} of '{location}', which has {held}")
        return _from_bytes(mapped(stream.fileno())[offset : offset + size], shape, dtype, what)


def _inside(folder: Path, location: str, what: str) -> Path:
    """The file that a model names: below the model's folder, reached by no link."""
    parts = Path(location).parts
    bad = not parts or "\0" in location or "\\" in location or Path(location).is_absolute() or ".." in parts
    if bad:
        raise UserError(f"{what} names the file '{location}', which is not inside the model's folder")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise UserError(f"{what} names the file '{location}', which is reached by a link")
    return path


def _opened(path: Path, what: str) -> Any:
    """The file, if it is an ordinary one with one name; it is neither waited for nor followed."""
    try:
        flags = (
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0)
        )
        stream = os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise UserError(f"{what} names the file '{path.name}': {error.strerror}") from None
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        stream.close()
        raise UserError(f"{what} names '{path.name}', which is no ordinary file of its own")
    return stream


def _number(entries: dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UserError(f"{what} says {key} = '{text[:40]}'")
    return int(text)
