# SPDX-License-Identifier: Apache-2.0
"""Weights in the formats of files, and the ops that decode them to f32 tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...ir.core import Value
from ...ir.elements import ElementsAttr
from ...ir.types import TensorType, Type, f16, f32, shape_of, ui8
from ...ops.builder import Builder
from ...support.diagnostics import Limit, UserError
from .formats import Blocks, Format

#: Blocks whose scales are looked at together.
_CHUNK = 1 << 20
#: Tensors that an error names, at most.
_NAMED = 3


def refuse_unread(names: Sequence[str], where: str) -> None:
    """Limit where there are names of tensors that nothing reads: without them results would be others than the model's."""
    if names:
        more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise Limit(f"{where} has tensors that are not supported: {', '.join(names[:_NAMED])}{more}")


@dataclass(frozen=True, eq=False)
class Weight:
    """A tensor of a file: its name there, its shape (the last dimension is contiguous), how its elements are stored, and the bytes.

    Raises UserError where the number of bytes is not that of the shape, or a row is not a multiple of a block.
    """

    name: str
    shape: tuple[int, ...]
    format: Format
    data: memoryview

    def __post_init__(self) -> None:
        row = self.shape[-1] if self.shape else 1
        if row % self.format.elements:
            raise UserError(
                f"{self.name} has rows of {row} elements, which is not a multiple of the {self.format.elements} of a block of {self.format.name}"
            )
        wanted = prod(self.shape) // self.format.elements * self.format.bytes
        if len(self.data) != wanted:
            raise UserError(
                f"{self.name} has {len(self.data)} bytes, but its shape {list(self.shape)} of {self.format.name} needs {wanted}"
            )

    def expect(self, shape: tuple[int, ...]) -> None:
        """UserError where it has another shape."""
        if self.shape != shape:
            raise UserError(
                f"{self.name} has shape {list(self.shape)}, but the numbers of the model say {list(shape)}"
            )

    def check_scales(self) -> None:
        """UserError where the scale of a block is NaN or infinite."""
        size = self.format.bytes
        for at in self.format.scales:
            words = np.frombuffer(self.data, np.dtype("<u2")).reshape(-1, size // 2)[:, at // 2]
            for begin in range(0, len(words), _CHUNK):
                wrong = np.flatnonzero((words[begin : begin + _CHUNK] & 0x7C00) == 0x7C00)
                if len(wrong):
                    raise UserError(
                        f"{self.name}: the scale of block {begin + int(wrong[0])} is not finite",
                        hint="the file is damaged",
                    )

    def split(self, rows: Mapping[str, int]) -> dict[str, Weight]:
        """Its rows in parts of so many each, by name. UserError where it has another number of rows."""
        total = sum(rows.values())
        self.expect((total, *self.shape[1:]))
        size, made, at = len(self.data) // total, dict[str, Weight](), 0
        for name, count in rows.items():
            data = self.data[at * size : (at + count) * size]
            made[name] = replace(
                self, name=f"{self.name} ({name})", shape=(count, *self.shape[1:]), data=data
            )
            at += count
        return made

    def value(self, b: Builder) -> Value:
        """All elements, f32."""
        if self.format.element is not None:
            return self._wide(b, self._constant(b, self.shape, self.format.element))
        *lead, row = self.shape
        stored = (*lead, row // self.format.elements, self.format.bytes)
        return self._decoded(b, self._constant(b, stored, ui8), self._halves(b, stored), self.shape)

    def rows(self, b: Builder, indices: Value) -> Value:
        """Rows by number [...], f32 [..., elements of a row]: only those are decoded."""
        count, row = self.shape
        shape = (*shape_of(indices.type), row)
        if self.format.element is not None:
            whole = self._constant(b, self.shape, self.format.element)
            return self._wide(b, b.gather(whole, indices, axis=0))
        stored = (count, row // self.format.elements, self.format.bytes)
        found = b.gather(self._constant(b, stored, ui8), indices, axis=0)
        return self._decoded(b, found, b.gather(self._halves(b, stored), indices, axis=0), shape)

    def _decoded(self, b: Builder, stored: Value, halves: Value, shape: tuple[int, ...]) -> Value:
        assert self.format.decode is not None
        made = self.format.decode(Blocks(b, stored, halves))
        return b.reshape(made, type=TensorType(shape, f32))

    def _halves(self, b: Builder, stored: tuple[int, ...]) -> Value:
        return self._constant(b, (*stored[:-1], stored[-1] // 2), f16)

    def _constant(self, b: Builder, shape: tuple[int, ...], element: Type) -> Value:
        type = TensorType(shape, element)
        return b.constant(type=type, value=ElementsAttr(self.data, type))

    def _wide(self, b: Builder, value: Value) -> Value:
        return b.cast(value, type=TensorType(shape_of(value.type), f32))
