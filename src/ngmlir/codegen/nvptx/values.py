# SPDX-License-Identifier: Apache-2.0
"""The values of a kernel in one thread: scalars, registers of tiles, addresses of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Value as IrValue
from ...ir.types import element_type, shape_of, token
from ...llvm.types import Value
from ...ops.layouts import Layout, blocked, everywhere
from .access import is_tile
from .assign import Assignment
from .block import Block, Tile
from .convert import convert
from .memory import Buffer


class Values:
    """The values of a kernel that have been computed so far; `layouts` are those of the tiles."""

    def __init__(self, block: Block, layouts: Assignment):
        self.block = block
        self.layouts = layouts
        self._known: dict[IrValue, Value | Tile | Buffer] = {}

    def __getitem__(self, value: IrValue) -> Value | Tile | Buffer:
        return self._known[value]

    def __setitem__(self, value: IrValue, made: Value | Tile | Buffer) -> None:
        self._known[value] = made

    def __len__(self) -> int:
        return len(self._known)

    def scalar(self, value: IrValue) -> Value:
        found = self._known[value]
        assert isinstance(found, Value)
        return found

    def scalars(self, values: Sequence[IrValue]) -> list[Value]:
        return [self.scalar(value) for value in values]

    def buffer(self, value: IrValue) -> Buffer:
        found = self._known[value]
        assert isinstance(found, Buffer)
        return found

    def tile(self, value: IrValue, layout: Layout | None = None) -> Tile:
        """A tile in its own layout or the given one; scalars and constants fit any."""
        found = self._known[value]
        if isinstance(found, Tile):
            return convert(self.block, found, layout) if layout is not None else found
        assert isinstance(found, Value)
        shape, threads = shape_of(value.type), self.block.threads
        if layout is None:
            layout = self.layouts.of.get(value) or (blocked(shape, threads) if shape else everywhere(threads))
        return Tile(layout, shape, element_type(value.type), (found,) * layout.registers)

    def layout(self, value: IrValue) -> Layout:
        return self.layouts.of[value] if is_tile(value) else everywhere(self.block.threads)

    def enter(self, value: IrValue, made: Tile) -> None:
        """Records a result, converted to the layout of its class."""
        self._known[value] = (
            convert(self.block, made, self.layout(value)) if is_tile(value) else made.values[0]
        )

    def hand_on(self, values: Sequence[IrValue]) -> None:
        """Converts values that are used in another layout, once for all uses."""
        for value in values:
            if value in self.layouts.handed:
                self._known[value] = self.tile(value, self.layouts.handed[value])

    # Values that loops carry and branches yield

    def registers(self, values: Sequence[IrValue], like: Sequence[IrValue]) -> list[Value]:
        """The registers of `values`, in the layouts of `like`."""
        out: list[Value] = []
        for value, model in zip(values, like, strict=True):
            if value.type is not token:
                out += self.tile(value, self.layout(model)).values
        return out

    def enter_registers(self, values: Sequence[IrValue], registers: Sequence[Value]) -> None:
        """The inverse of `registers`: assigns registers to `values`."""
        rest = iter(registers)
        for value in values:
            if value.type is token:
                continue
            layout = self.layout(value)
            held = tuple(next(rest) for _ in range(layout.registers))
            whole = Tile(layout, shape_of(value.type), element_type(value.type), held)
            self._known[value] = whole if is_tile(value) else held[0]
