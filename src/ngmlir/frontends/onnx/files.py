# SPDX-License-Identifier: Apache-2.0
"""Reads models from files, bytes and protocol buffers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import DecodeError
from onnx import ModelProto

from ...support.diagnostics import NgmlirError, UserError
from .model import Model

#: What a protocol buffer may hold.
_LARGEST = (1 << 31) - 1


def read(source: Any) -> Model:
    """A model from a path, bytes or a `ModelProto`."""
    if isinstance(source, ModelProto):
        return _model(source, None, "the model")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _model(_parsed(bytes(cast(bytes, source)), "these bytes"), None, "the model")
    if not isinstance(source, (str, os.PathLike)):
        raise UserError(f"a model is read from a path, bytes or a ModelProto, not {type(source).__name__}")
    path = Path(os.fspath(source))
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"'{path}' has more than 2 GiB", hint="keep the weights in a file beside it")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _model(_parsed(data, f"'{path}'"), path.resolve().parent, f"'{path}'")


def _parsed(data: bytes, what: str) -> ModelProto:
    try:
        return ModelProto.FromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{what} holds no ONNX model: {error}") from None


def _model(proto: ModelProto, folder: Path | None, what: str) -> Model:
    if not proto.HasField("graph") or not proto.graph.output:
        raise UserError(f"{what} holds no graph with outputs: it is no ONNX model")
    try:
        return Model(proto, folder)
    except NgmlirError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{what} is no proper model ({type(error).__name__}: {error})") from error
