# SPDX-License-Identifier: Apache-2.0
"""Splits the bytes of a model into its large weights, which are not copied, and the rest, which is small.

The rest is a model too, in which these tensors are empty. Only the fields on the path to the elements of an initializer are
read here; the reader of the rest validates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

#: Elements of fewer bytes stay in their tensors.
_LEAST = 4096
#: Of more fields no model is parted.
_MOST = 1 << 19
#: model.graph, graph.initializer and tensor.raw_data, by their numbers in the standard's description of files.
_GRAPH, _INITIALIZER, _RAW = 7, 5, 9
_VARINT, _WIDE, _COUNTED, _NARROW = 0, 1, 2, 5

_Pieces: TypeAlias = "list[bytes | memoryview]"


def parted(data: memoryview) -> tuple[bytes, dict[int, memoryview]] | None:
    """A model without the elements of its large initializers, and these by the number of the initializer; None for bytes
    that are no message, or of a form that no exporter writes."""
    try:
        parts = _Parts(data)
        return b"".join(parts.pieces), parts.weights
    except ValueError:
        return None


class _Parts:
    def __init__(self, data: memoryview):
        self.data = data
        self.weights: dict[int, memoryview] = {}
        self.initializers = 0
        self.seen = 0
        self.pieces = self.rewritten(0, len(data), _GRAPH, self.graph)

    def rewritten(
        self, at: int, end: int, wanted: int, inner: Callable[[int, int], _Pieces | None]
    ) -> _Pieces:
        """The fields from `at` to `end`, those with a certain number rewritten."""
        pieces: _Pieces = []
        done = at
        for number, kind, start, first, last in self.fields(at, end):
            if number != wanted or kind != _COUNTED:
                continue
            new = inner(first, last)
            if new is not None:
                head = (number << 3 | kind).to_bytes(1, "little")
                pieces += [self.data[done:start], head, _varint(sum(map(len, new))), *new]
                done = last
        return [*pieces, self.data[done:end]]

    def graph(self, at: int, end: int) -> _Pieces:
        return self.rewritten(at, end, _INITIALIZER, self.tensor)

    def tensor(self, at: int, end: int) -> _Pieces | None:
        """A tensor without its elements; None where they are few."""
        number, self.initializers = self.initializers, self.initializers + 1
        if end - at < _LEAST:
            return None
        kept: _Pieces = []
        done, found = at, None
        for field, kind, start, first, last in self.fields(at, end):
            if field == _RAW and kind == _COUNTED:
                kept.append(self.data[done:start])
                found, done = self.data[first:last], last  # of two the later one holds
        if found is None or len(found) < _LEAST:
            return None
        self.weights[number] = found
        return [*kept, self.data[done:end]]

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Number and kind of each field, where it starts, and where what it holds starts and ends."""
        while at < end:
            self.seen += 1
            if self.seen > _MOST:
                raise ValueError("too many fields")
            start = at
            key, at = self.varint(at, end)
            number, kind = key >> 3, key & 7
            if kind == _VARINT:
                _, last = self.varint(at, end)
            elif kind == _COUNTED:
                size, at = self.varint(at, end)
                last = at + size
            elif kind in (_WIDE, _NARROW):
                last = at + (8 if kind == _WIDE else 4)
            else:
                raise ValueError("a group")
            if last > end or not number:
                raise ValueError("a field ends behind its message")
            yield number, kind, start, at, last
            at = last

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number of seven bits a byte, lowest first, and where it ends."""
        found = 0
        for shift in range(0, 70, 7):
            if at >= end:
                break
            byte = self.data[at]
            at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found, at
        raise ValueError("a number without an end")


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)
