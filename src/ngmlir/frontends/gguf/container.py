# SPDX-License-Identifier: Apache-2.0
"""GGUF files: a header, metadata by key, the names, shapes, types and places of tensors, and then their bytes, which are mapped.

Every number of the file is compared with the bytes that there are before anything is made of it, so a damaged file costs no more
memory than its size.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ...support.diagnostics import Limit, UserError
from ...support.mapping import mapped, mapping_of
from ..decoders.formats import FORMATS
from ..decoders.weights import Weight

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
#: Scalars of metadata: by number, how `struct` calls them.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: Arrays in arrays, at most.
_DEEPEST = 4
_MOST_DIMENSIONS = 4

#: Element types by number; those that are read have a format of this name.
TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0",
    35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """Where a tensor is: its shape (the last dimension is contiguous), the number of its type, its first byte, and the file."""

    name: str
    shape: tuple[int, ...]
    type: int
    start: int
    data: memoryview

    @property
    def kind(self) -> str:
        return TYPES.get(self.type, f"of number {self.type}")

    @property
    def size(self) -> int:
        """In bytes; 0 for elements of a type that is not supported."""
        known = FORMATS.get(self.kind)
        return 0 if known is None else prod(self.shape) // known.elements * known.bytes


@contextmanager
def explained(path: str | os.PathLike[str]) -> Generator[None]:
    """What is wrong with a file is said with its name, and with what to do about it."""
    try:
        yield
    except UserError as error:
        found, name = error.diagnostics[0], f"'{os.fspath(path)}'"
        message = found.message if name in found.message else f"{name}: {found.message}"
        hint = found.hint or "fetch the file again if it may be damaged, else convert the model again"
        raise UserError(message, hint=hint) from None


class Container:
    """An open file: `metadata` by key, and its tensors by name. UserError for a file that is none, or is damaged.

    A model may be split into several files, `NAME-00001-of-00003.gguf` and so on: the first has the metadata, and is the one to open.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.data = _content(self.path)
        self.metadata, self.tensors = _Reader(self.data, str(self.path)).read()
        self._contents, self._read = [self.data], set[str]()
        if self._number("split.count") > 1:
            self._join()

    def _join(self) -> None:
        """Takes in the tensors of the other files of a model that is split."""
        count, number = self._number("split.count"), self._number("split.no")
        match = re.fullmatch(r"(.*)-\d{5}-of-\d{5}\.gguf", self.path.name)
        if number or match is None:
            raise UserError(
                f"'{self.path}' is part {number + 1} of a model in {count} files",
                hint=f"open the first of them; they are called NAME-00001-of-{count:05}.gguf and so on",
            )
        for other in range(1, count):
            path = self.path.with_name(f"{match[1]}-{other + 1:05}-of-{count:05}.gguf")
            data = _content(path)
            _, tensors = _Reader(data, str(path)).read()
            if twice := sorted({*tensors} & {*self.tensors}):
                raise UserError(f"the tensor {twice[0]!r} stands in '{path}' and in a part before it")
            self.tensors |= tensors
            self._contents.append(data)
        total = self._number("split.tensors.count")
        if total and total != len(self.tensors):
            raise UserError(
                f"the {count} parts of '{self.path}' have {len(self.tensors)} tensors, not {total} as it says"
            )

    def _number(self, key: str) -> int:
        found = self.metadata.get(key, 0)
        return found if isinstance(found, int) else 0

    def unread(self) -> list[str]:
        """The tensors that `weight` was not asked for."""
        return [name for name in self.tensors if name not in self._read]

    def let_go(self) -> None:
        """What has been looked at of the files is in memory no longer."""
        for content in self._contents:
            if (mapping := mapping_of(content)) is not None:
                mapping.let_go()

    def strings(self, key: str) -> list[str] | None:
        """The texts of an entry of metadata; None where it is not a list of texts."""
        found: Any = self.metadata.get(key)
        return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None  # pyright: ignore[reportUnknownVariableType]

    def numbers(self, key: str) -> np.ndarray[Any, Any] | None:
        """The numbers of an entry of metadata; None where it is not an array of numbers."""
        found: Any = self.metadata.get(key)
        return found if isinstance(found, np.ndarray) else None  # pyright: ignore[reportUnknownVariableType]

    def weight(self, name: str) -> Weight | None:
        """A tensor; None where there is none of this name. Limit for a type of elements that is not supported, UserError for bytes
        that do not match its shape."""
        found = self.tensors.get(name)
        if found is None:
            return None
        self._read.add(name)
        kind, size = found.kind, found.size
        known = FORMATS.get(kind)
        if known is None:
            raise Limit(
                f"'{self.path}': tensor {name} has elements of type {kind}, which is not supported",
                hint=f"supported types: {', '.join(FORMATS)}",
            )
        row = found.shape[-1] if found.shape else 1
        if row % known.elements:
            raise UserError(
                f"'{self.path}': tensor {name} has rows of {row} elements, not a multiple of the {known.elements} of a block of {kind}"
            )
        if found.start + size > len(found.data):
            raise UserError(
                f"'{self.path}': tensor {name} ends at byte {found.start + size:,} of {len(found.data):,}: the file is cut short"
            )
        return Weight(name, found.shape, known, found.data[found.start : found.start + size])


def _content(path: Path) -> memoryview:
    """The bytes of a file, mapped. UserError where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return mapped(stream.fileno())
    except (OSError, ValueError) as error:
        raise UserError(
            f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="check the path, and whether it is a file that may be read",
        ) from None


class _Reader:
    def __init__(self, data: memoryview, path: str):
        self.data, self.path, self.at = data, path, 0

    def read(self) -> tuple[dict[str, Any], dict[str, Stored]]:
        if bytes(self.data[:4]) != _MAGIC:
            raise UserError(
                f"'{self.path}' is no GGUF file: it does not begin with the letters GGUF",
                hint="frontends.gguf.load reads GGUF files, frontends.safetensors.load folders of safetensors",
            )
        self.at = 4
        version = self.scalar("I")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            what = "of a machine with the other byte order" if swapped else f"of version {version}"
            raise Limit(
                f"'{self.path}' is a GGUF file {what}", hint="versions 2 and 3, little-endian, are read"
            )
        # A tensor and an entry have at least so many bytes.
        tensors = self.count("tensors", 8 + 4 + 4 + 8)
        entries = self.count("entries of metadata", 8 + 4 + 1)
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self.string("a key of metadata")
            if key in metadata:
                self.damaged(f"the key {key!r} stands twice")
            metadata[key] = self.value(self.scalar("I"), key, 0)
        infos: dict[str, Stored] = {}
        for _ in range(tensors):
            info = self.info()
            if info.name in infos:
                self.damaged(f"the tensor {info.name!r} stands twice")
            infos[info.name] = info
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 8 or alignment % 8 or alignment > 1 << 20:
            self.damaged(f"general.alignment is {alignment!r}")
        begin = -(-self.at // alignment) * alignment
        found: dict[str, Stored] = {}
        for info in infos.values():
            if info.start % alignment:
                self.damaged(
                    f"the tensor {info.name!r} begins at byte {info.start}, not a multiple of {alignment}"
                )
            found[info.name] = Stored(info.name, info.shape, info.type, begin + info.start, self.data)
        # Weights that share bytes would take more memory than the file has.
        for before, after in pairwise(sorted(found.values(), key=lambda each: each.start)):
            if before.start + before.size > after.start:
                self.damaged(f"the tensors {before.name!r} and {after.name!r} overlap")
        return metadata, found

    def info(self) -> Stored:
        name = self.string("the name of a tensor")
        rank = self.scalar("I")
        if rank > _MOST_DIMENSIONS:
            self.damaged(f"the tensor {name!r} has {rank} dimensions")
        lengths = [self.scalar("Q") for _ in range(rank)]
        if prod(max(length, 1) for length in lengths) > 1 << 48 or 0 in lengths:
            self.damaged(f"the tensor {name!r} has the shape {lengths[::-1]}")
        return Stored(name, tuple(lengths[::-1]), self.scalar("I"), self.scalar("Q"), self.data)

    def value(self, kind: int, key: str, depth: int) -> Any:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string(f"the value of {key!r}")
        if kind != _ARRAY or depth == _DEEPEST:
            self.damaged(f"the value of {key!r} is of a kind of number {kind}")
        inner = self.scalar("I")
        if inner in _SCALARS:
            code = _SCALARS[inner]
            count = self.count(f"elements of {key!r}", struct.calcsize(code))
            return self.numbers(code, count)
        count = self.count(f"elements of {key!r}", 8 if inner == _STRING else 12)
        return [self.value(inner, key, depth + 1) for _ in range(count)]

    def numbers(self, code: str, count: int) -> np.ndarray[Any, Any]:
        dtype = np.dtype(f"<{'b1' if code == '?' else code}") if code != "?" else np.dtype(np.bool_)
        found = np.frombuffer(self.take(count * dtype.itemsize, "an array"), dtype)
        return found.astype(dtype.newbyteorder("="))

    def scalar(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code), "a number"))[0]

    def count(self, what: str, least: int) -> int:
        """How many there are of something of which each takes `least` bytes or more."""
        count = self.scalar("Q")
        if count * least > len(self.data) - self.at:
            self.damaged(f"it has {len(self.data):,} bytes, too few for {count:,} {what}")
        return count

    def string(self, what: str) -> str:
        length = self.scalar("Q")
        if length > len(self.data) - self.at:
            self.damaged(f"{what} would have {length:,} bytes")
        raw = bytes(self.take(length, what))
        # Descriptions may have other encodings. Tokens must be valid, and are checked later.
        return raw.decode("utf-8", errors="surrogateescape")

    def take(self, size: int, what: str) -> memoryview:
        if self.at + size > len(self.data):
            self.damaged(f"it ends in {what}, at byte {len(self.data):,}: it is cut short")
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def damaged(self, why: str) -> NoReturn:
        raise UserError(f"'{self.path}' is a damaged GGUF file: {why}")
