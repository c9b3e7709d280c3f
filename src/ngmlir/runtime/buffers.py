# SPDX-License-Identifier: Apache-2.0
"""Arrays for programs: element types as NumPy dtypes, in aligned memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from ..support.artifact import Constant
from ..support.mapping import mapping_of, read_into
from ..support.memory import ALIGNMENT, empty_bytes
from ..support.signature import Parameter


class _Dtypes(Mapping[str, np.dtype]):
    """Element types by name. Those that NumPy lacks are strings here; ml_dtypes is imported when the first of them is
    used."""

    def __init__(self, kinds: Mapping[str, type | str]):
        self._kinds = kinds
        self._made: dict[str, np.dtype] = {}

    def __getitem__(self, name: str) -> np.dtype:
        found = self._made.get(name)
        if found is None:
            kind = self._kinds[name]
            if isinstance(kind, str):
                import ml_dtypes

                kind = getattr(ml_dtypes, kind)
            found = self._made[name] = np.dtype(kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


#: Element types by their MLIR spelling -> NumPy dtypes.
DTYPES: Mapping[str, np.dtype] = _Dtypes({
    "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64,
    "f16": np.float16, "bf16": "bfloat16", "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn", "i4": "int4", "ui4": "uint4", "i2": "int2", "ui2": "uint2",
})  # fmt: skip


def aligned_empty(shape: tuple[int, ...], dtype: str | np.dtype) -> np.ndarray:
    """An uninitialised array, aligned as by `empty_bytes`; `dtype` in MLIR's or NumPy's spelling."""
    kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
    return empty_bytes(prod(shape) * kind.itemsize).view(kind).reshape(shape)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy of the array, aligned as by `empty_bytes`."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def in_memory(constant: Constant) -> np.ndarray:
    """The bytes of a constant, aligned: without a copy if they are aligned already."""
    found = where_it_lies(constant)
    return _filled(empty_bytes(constant.bytes), constant) if found is None else found


def where_it_lies(constant: Constant) -> np.ndarray | None:
    """The bytes of a constant without a copy; None if they are not aligned as a program needs them, or are a repeated
    element."""
    data = np.frombuffer(constant.data, np.uint8)
    return data if constant.count == 1 and data.ctypes.data % constant.alignment == 0 else None


def _filled(memory: np.ndarray, constant: Constant) -> np.ndarray:
    if constant.count == 1:
        read_into(memory, constant.data)
    elif constant.data:
        memory.reshape(constant.count, len(constant.data))[:] = np.frombuffer(constant.data, np.uint8)
    return memory


def side_by_side(parameters: Sequence[Parameter]) -> list[np.ndarray]:
    """Uninitialised arrays, one per parameter, in one allocation: a large page may hold several of them."""
    sizes = [parameter.bytes for parameter in parameters]
    parts = _cut(empty_bytes(_room(sizes)), sizes)
    return [part.view(DTYPES[p.dtype]).reshape(p.shape) for part, p in zip(parts, parameters, strict=True)]


class Passing:
    """Memory for constants that are read once; reused for the constants that follow, if these need about as much."""

    def __init__(self) -> None:
        self._memory = empty_bytes(0)

    def arrays(self, constants: Sequence[Constant]) -> list[np.ndarray]:
        """The bytes of constants, valid until the next call: without a copy, or, if they are in a file, read into this
        memory."""
        found = [None if in_file(c) else in_memory(c) for c in constants]
        sizes = [c.bytes if array is None else 0 for c, array in zip(constants, found, strict=True)]
        room = _room(sizes)
        if not room <= len(self._memory) <= 2 * room:
            self._memory = empty_bytes(room)
        parts = _cut(self._memory, sizes)
        return [
            _filled(part, c) if array is None else array
            for c, array, part in zip(constants, found, parts, strict=True)
        ]


def in_file(constant: Constant) -> bool:
    """Whether a constant is bytes of a memory-mapped file."""
    return constant.count == 1 and mapping_of(constant.data) is not None


def _room(sizes: Sequence[int]) -> int:
    return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)


def _cut(memory: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Aligned slices of these sizes."""
    starts = accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0)
    return [memory[at : at + size] for at, size in zip(starts, sizes, strict=False)]


def empty_like(parameter: Parameter) -> np.ndarray:
    """An uninitialised array for a parameter, from NumPy's own allocator, for the caller to keep."""
    return np.empty(parameter.shape, DTYPES[parameter.dtype])
