# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...support.diagnostics import UserError
from ...support.files import write_file
from ..decoders.weights import Weight
from .container import TYPES

#: Values of metadata: scalars, texts, and lists of one kind of them. Tensors: arrays of f32 or f16, or what `Container.weight` gives.
Values = Mapping[str, Any]
Tensors = Mapping[str, np.ndarray[Any, Any] | Weight]
_ALIGNMENT = 32
_NUMBERS = {name: number for number, name in TYPES.items()}
_PLAIN = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def write(path: str | os.PathLike[str], metadata: Values, tensors: Tensors) -> None:
    """Writes a file, in place of one that is there.

    Args:
        path: the file.
        metadata: numbers, booleans, texts and lists of them, by key. Integers are written in 32 bits where that is enough.
        tensors: by name, arrays of float32, float16 or bfloat16, or weights of another file.

    Raises UserError for values and arrays of other kinds; then nothing is written.
    """
    parts: list[bytes | memoryview] = []
    infos, at = list[bytes](), 0
    for name, tensor in tensors.items():
        kind, shape, data = _stored(name, tensor)
        infos += [_text(name), struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])]
        infos.append(struct.pack("<IQ", _NUMBERS[kind], at))
        room = -(-len(data) // _ALIGNMENT) * _ALIGNMENT
        parts += [data, bytes(room - len(data))]
        at += room
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_text(key) + _value(key, value) for key, value in metadata.items()) + b"".join(infos)
    write_file(os.fspath(path), [head, bytes(-len(head) % _ALIGNMENT), *parts])


def _stored(name: str, tensor: np.ndarray[Any, Any] | Weight) -> tuple[str, tuple[int, ...], memoryview]:
    """The type of a tensor, its shape and its bytes."""
    if isinstance(tensor, Weight):
        return tensor.format.name, tensor.shape, tensor.data
    kind = _PLAIN.get(tensor.dtype.name)
    if kind is None or not tensor.size:
        raise UserError(
            f"{name} is an array {list(tensor.shape)} of {tensor.dtype}",
            hint=f"elements of {', '.join(_PLAIN)}, at least one",
        )
    raw = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    return kind, tensor.shape, raw.data


def _value(key: str, value: Any) -> bytes:
    """The kind of a value, and its bytes."""
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            for kind, code, least, most in _INTEGERS:
                if least <= value < most:
                    return struct.pack("<I" + code, kind, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case list() | tuple():
            return _list(key, cast("Sequence[Any]", value))
        case _:
            pass
    raise UserError(f"{key} is {value!r}", hint="numbers, booleans, texts, and lists of one kind of them")


#: The formats of integers: kind, code, and range.
_INTEGERS = ((4, "I", 0, 1 << 32), (5, "i", -(1 << 31), 0), (10, "Q", 0, 1 << 64), (11, "q", -(1 << 63), 0))


def _list(key: str, values: Sequence[Any]) -> bytes:
    parts = [_value(key, each) for each in values]
    kinds = {part[:4] for part in parts} or {struct.pack("<I", 4)}
    if len(kinds) > 1:
        raise UserError(f"{key} is a list of values of several kinds")
    return struct.pack("<I", 9) + kinds.pop() + struct.pack("<Q", len(parts)) + b"".join(p[4:] for p in parts)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", errors="surrogateescape")
    return struct.pack("<Q", len(raw)) + raw
