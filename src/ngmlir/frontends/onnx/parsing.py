# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a model to what they hold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from onnx import ModelProto

from ...op_graph.source import user_location
from ...support.diagnostics import NgmlirError, UserError
from .contents import Contents
from .files import Files
from .order import in_order

if TYPE_CHECKING:
    from pathlib import Path

    from .opened import Opened


def parsed(of: Opened) -> Contents:
    """The model that these bytes are; its large weights stay among them."""
    try:
        proto = ModelProto.FromString(of.rest)
    except (DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"{of.source} holds no ONNX model: {error}", hint=_what_else(of.rest)) from None
    return contents_of(proto, of.folder, of.what, of.weights, of.files)


def _what_else(data: bytes) -> str:
    """What bytes that are no model may be."""
    if data.startswith(b"version https://git-lfs"):
        return "this is what Git LFS keeps in place of the file: `git lfs pull` fetches it"
    if data.lstrip()[:1] == b"<":
        return "this is a page of the web: the file was not downloaded"
    return "it may have been cut off or damaged: compare its size with that of the original"


def _sorted(proto: ModelProto, what: str) -> ModelProto:
    """The model with its nodes in order, and a warning where they were not."""
    made = in_order(proto)
    if made is None:
        return proto
    place = user_location()
    warnings.warn_explicit(
        f"the nodes of {what} stand out of order: one reads what another behind it makes; they were sorted",
        UserWarning,
        place.file or "<unknown>",
        place.line,
    )
    return made


def contents_of(
    proto: ModelProto, folder: Path | None, what: str, weights: Mapping[int, memoryview], files: Files
) -> Contents:
    """What a model holds. UserError where it is no proper one, Limit with every operator that is not supported."""
    if not proto.HasField("graph") or not proto.graph.output:
        hint = "" if proto.ByteSize() else "it has no bytes: the file may not have been written or downloaded"
        raise UserError(f"{what} holds no graph with outputs: it is no ONNX model", hint=hint)
    try:
        proto = _sorted(proto, what)
        return Contents(proto, folder, weights, files)
    except NgmlirError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{what} is no proper model ({type(error).__name__}: {error})") from error
