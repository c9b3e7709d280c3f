# SPDX-License-Identifier: Apache-2.0
"""Reads models from files, bytes and protocol buffers."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import DecodeError
from onnx import ModelProto

from ...support.diagnostics import NgmlirError, UserError
from ...support.mapping import mapped, mapping_of
from .model import Model
from .wire import parted

#: What a protocol buffer may hold.
_LARGEST = (1 << 31) - 1
#: Files of so many bytes are mapped.
_MAPPED = 1 << 16


def read(source: Any) -> Model:
    """A model from a path, bytes or a `ModelProto`."""
    if isinstance(source, ModelProto):
        return _model(source, None, "the model")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parsed(memoryview(bytes(cast(bytes, source))), None, "the model", "these bytes")
    if not isinstance(source, (str, os.PathLike)):
        raise UserError(f"a model is read from a path, bytes or a ModelProto, not {type(source).__name__}")
    path = Path(os.fspath(source))
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"'{path}' has more than 2 GiB", hint="keep the weights in a file beside it")
        data = _content(path)
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _parsed(data, path.resolve().parent, f"'{path}'", f"'{path}'")


def _content(path: Path) -> memoryview:
    """The bytes of a file: mapped, if they are many."""
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size >= _MAPPED:
            return mapped(stream.fileno())
        return memoryview(stream.read())


def _parsed(data: memoryview, folder: Path | None, what: str, source: str) -> Model:
    """The model that these bytes are; its large weights stay among them."""
    rest, weights = parted(data) or (data.tobytes(), {})
    if mapping := mapping_of(data):
        mapping.let_go()
    try:
        proto = ModelProto.FromString(rest)
    except (DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{source} holds no ONNX model: {error}") from None
    return _model(proto, folder, what, weights)


def _model(
    proto: ModelProto, folder: Path | None, what: str, weights: dict[int, memoryview] | None = None
) -> Model:
    if not proto.HasField("graph") or not proto.graph.output:
        raise UserError(f"{what} holds no graph with outputs: it is no ONNX model")
    try:
        return Model(proto, folder, weights or {})
    except NgmlirError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{what} is no proper model ({type(error).__name__}: {error})") from error
