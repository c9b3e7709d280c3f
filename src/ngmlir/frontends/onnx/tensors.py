# SPDX-License-Identifier: Apache-2.0
"""Arrays of a model: element types, and tensors in the file or in external files, without a copy where possible."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from ...ir.literals import dtype_of, narrow_width
from ...ir.narrow import NARROW
from ...ir.types import bf16, f16, i1
from ...support.diagnostics import Limit, UserError
from .beside import beside
from .elements import element_of
from .tensor import Array

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


def checked_shape(dims: Any, what: str) -> tuple[int, ...]:
    """Dimensions that a tensor can have."""
    shape = tuple(int(d) for d in dims)
    if any(d < 0 for d in shape) or len(shape) > _RANK or prod(max(d, 1) for d in shape) >= 1 << 60:
        raise UserError(f"{what} cannot have the shape {list(shape)[:_RANK]}")
    return shape


def array_of(
    tensor: TensorProto, folder: Path | None, what: str = "", stored: memoryview | None = None
) -> Array:
    """The elements of a tensor. `folder` must contain external files; None: there is none. `stored` are its
    bytes where they were removed from it.

    Raises UserError where size and shape differ, or for a file that is not the model's; Limit for element types that
    nothing here computes with.
    """
    what = what or f"the tensor '{tensor.name}'"
    element = element_of(tensor.data_type, what)
    shape, dtype = checked_shape(tensor.dims, what), dtype_of(element)
    width = 0 if element is i1 else narrow_width(element)
    if width:
        return _unpacked(tensor, folder, shape, width, what, stored).view(dtype)
    if tensor.HasField("segment"):
        raise Limit(f"{what} is stored in segments")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_bytes(beside(folder, *external_place(tensor, what), what), shape, dtype, what)
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
    tensor: TensorProto,
    folder: Path | None,
    shape: tuple[int, ...],
    width: int,
    what: str,
    stored: memoryview | None,
) -> Array:
    """Elements of fewer than 8 bits, which share bytes in files, the first in the lowest bits: unpacked to one byte each."""
    count = 8 // width
    packed = TensorProto()
    packed.CopyFrom(tensor)
    packed.data_type = TensorProto.UINT8
    del packed.dims[:]
    packed.dims.append(-(-prod(shape) // count))
    held = array_of(packed, folder, what, stored)
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


def external_place(tensor: TensorProto, what: str = "") -> tuple[str, int, int]:
    """The external file that holds the elements of a tensor, their offset in it, and their number of bytes."""
    what = what or f"the tensor '{tensor.name}'"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    shape, dtype = checked_shape(tensor.dims, what), dtype_of(element_of(tensor.data_type, what))
    offset, size = _number(entries, "offset", 0, what), prod(shape) * dtype.itemsize
    location, length = entries.get("location", ""), _number(entries, "length", size, what)
    if length != size:
        raise UserError(f"{what} takes {length} bytes of '{location}', but {dtype}{list(shape)} takes {size}")
    return location, offset, size


def _number(entries: dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UserError(f"{what} says {key} = '{text[:40]}'")
    return int(text)
