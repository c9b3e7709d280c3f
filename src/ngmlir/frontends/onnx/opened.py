# SPDX-License-Identifier: Apache-2.0
"""A model that was opened: its bytes are there, and what it takes and gives is known; of one that was read before, from the
cache on disk, without the package onnx."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...runtime.cache import default_cache, key_of
from ...support.diagnostics import NgmlirError, UserError
from ...support.mapping import mapping_of
from .beside import beside
from .elements import ELEMENTS, element_of
from .files import Files, content_of
from .ports import Port
from .wire import parted

if TYPE_CHECKING:
    from onnx import ModelProto

_NUMBERS = {element: number for number, element in ELEMENTS.items()}


class Stated(NamedTuple):
    """The interface of a model, and the parts of external files that hold its tensors."""

    inputs: list[Port]
    outputs: list[str]
    beside: list[tuple[str, int, int]]


class Opened:
    """The bytes of a model: `rest` without its large weights, and these by the number of the initializer."""

    def __init__(self, data: memoryview, folder: Path | None, what: str, source: str):
        self.rest, self.weights = parted(data) or (data.tobytes(), dict[int, memoryview]())
        self.folder, self.what, self.source = folder, what, source
        self.files = Files()
        self.files.add(self.weights.values())
        if mapping := mapping_of(data):
            mapping.let_go()
        self._beside: list[tuple[str, int, int]] | None = None

    def stated(self) -> Stated | None:
        """What was noted of these bytes before."""
        store, key = default_cache(), self._key()
        entry = store.read(key) if store is not None and key else None
        try:
            found = None if entry is None else _stated(entry.header)
        except (KeyError, TypeError, ValueError, NgmlirError):
            return None
        if found is not None:
            self._beside = found.beside
        return found

    def note(self, stated: Stated) -> None:
        """Notes what was found out, for those who read the same bytes."""
        self._beside = stated.beside
        store, key = default_cache(), self._key()
        if store is not None and key:
            inputs = [[p.name, p.kind, _NUMBERS[p.element], p.shape] for p in stated.inputs]
            store.write(
                key,
                b"",
                {"kind": "model", "inputs": inputs, "outputs": stated.outputs, "beside": stated.beside},
            )

    def pieces(self) -> Sequence[bytes | memoryview] | None:
        """All bytes that programs are made of; None where they are not known, or not to be had."""
        if self._beside is None:
            return None
        try:
            others = [beside(self.folder, *place, "a tensor") for place in self._beside]
        except NgmlirError:
            return None
        self.files.add(others)
        return [self.rest, *self.weights.values(), *others]

    def _key(self) -> str:
        return key_of("model", reader_version(), sha256(self.rest).hexdigest()) if reader_version() else ""


def _stated(header: Mapping[str, Any]) -> Stated:
    inputs = [
        Port(str(name), str(kind), element_of(int(number), name), None if shape is None else tuple(shape))
        for name, kind, number, shape in header["inputs"]
    ]
    places = [(str(location), int(offset), int(size)) for location, offset, size in header["beside"]]
    return Stated(inputs, [str(name) for name in header["outputs"]], places)


@cache
def reader_version() -> str:
    """The version of the package that reads models and says what operators do; '' where that is not known."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        return ""
    try:
        package = Path(spec.origin)
        status = package.stat()
        return f"{package.with_name('version.py').read_text()} {status.st_size} {status.st_mtime_ns}"
    except (OSError, ValueError):
        return ""


def opened(source: Any) -> Opened | ModelProto:
    """A model from a path, bytes or a `ModelProto`."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Opened(memoryview(bytes(cast(bytes, source))), None, "the model", "these bytes")
    if isinstance(source, (str, os.PathLike)):
        path = Path(os.fspath(source))
        try:
            data, folder = content_of(path), path.resolve().parent
        except OSError as error:
            raise UserError(f"'{path}' cannot be read: {error.strerror or error}") from None
        return Opened(data, folder, f"'{path}'", f"'{path}'")
    from onnx import ModelProto

    if not isinstance(source, ModelProto):
        raise UserError(f"a model is read from a path, bytes or a ModelProto, not {type(source).__name__}")
    return source
