# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a model to what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from onnx import ModelProto

from ...support.diagnostics import NgmlirError, UserError
from .contents import Contents
from .files import Files

if TYPE_CHECKING:
    from pathlib import Path

    from .opened import Opened


def parsed(of: Opened) -> Contents:
    """The model that these bytes are; its large weights stay among them."""
    try:
        proto = ModelProto.FromString(of.rest)
    except (DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{of.source} holds no ONNX model: {error}") from None
    return contents_of(proto, of.folder, of.what, of.weights, of.files)


def contents_of(
    proto: ModelProto, folder: Path | None, what: str, weights: Mapping[int, memoryview], files: Files
) -> Contents:
    """What a model holds. UserError where it is no proper one, Limit with every operator that is not supported."""
    if not proto.HasField("graph") or not proto.graph.output:
        raise UserError(f"{what} holds no graph with outputs: it is no ONNX model")
    try:
        return Contents(proto, folder, weights, files)
    except NgmlirError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{what} is no proper model ({type(error).__name__}: {error})") from error
