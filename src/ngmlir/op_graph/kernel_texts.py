# SPDX-License-Identifier: Apache-2.0
"""Kernels that a user wrote: read from text, checked, and named as modules hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ..ir.attributes import StringAttr
from ..ir.core import Op
from ..ir.types import MemRefType
from ..ops.fields import get_i64
from ..ops.hosts import OP
from ..ops.words import from_text
from ..support.diagnostics import Diagnostic, Limit, Location
from .errors import UserError, fail

#: Text of kernels, a file of it, or a function of the types of the operands that gives text.
KernelText: TypeAlias = str | Path | Callable[..., str]


def buffers(kernel: Op) -> tuple[list[MemRefType], list[MemRefType]]:
    """What a kernel reads, and what it writes."""
    found = [a.type for a in kernel.block.args if isinstance(a.type, MemRefType)]
    read = len(found) - get_i64(kernel, "outputs")
    return found[:read], found[read:]


class KernelReader:
    """Reads the kernels of one op of a user's, which this process knows as `known`; `location` is where the user made it."""

    def __init__(self, name: str, known: str, location: Location):
        self.name, self.known, self.location = name, known, location

    def read(self, text: str | Path) -> list[Op]:
        """The kernels of a text, or of a file (a Path, or a string that ends in .ngir).

        UserError with file:line:col where it is not valid, or holds something else; Limit for buffers that values cannot be.
        """
        file = f"<{self.name}>"
        if isinstance(text, Path) or (text.endswith(".ngir") and "\n" not in text):
            file = str(text)
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                fail(UserError, f"the kernel of {self.name} cannot be read: {error}", location=self.location)
        try:
            ops = from_text(text, file=file).ops
        except UserError as error:
            note = Diagnostic(f"this is the text of the tile op {self.name}", self.location, "note")
            raise UserError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics]) from None
        other = next((op for op in ops if op.name != "tile.kernel"), None)
        if other is not None:
            hint = "it holds kernels, tile.kernel @name ins(...) outs(...) { ... }; the graph calls them"
            fail(UserError, f"the text of the tile op {self.name} has a '{other.name}'", hint, other.location)
        if not ops:
            hint = "tile.kernel @name ins(...) outs(...) { ... }"
            fail(UserError, f"the text of the tile op {self.name} holds no kernel", hint, self.location)
        return [self._checked(op) for op in ops]

    def _checked(self, kernel: Op) -> Op:
        """The kernel with the name of the op, which modules call it by too."""
        read, written = buffers(kernel)
        if not written:
            hint = "outs(%y: memref<...>) is what it gives"
            fail(UserError, f"@{kernel.symbol} writes no buffer", hint, kernel.location)
        for type in (*read, *written):
            if not type.static or type.space or type.strides is not None:
                message = f"@{kernel.symbol} takes {type}, but the operands of an op are of known shape, in row-major order"
                hint = "a function of the operands' types makes the text for each shape: ng.tile_op(name, function)"
                raise Limit(Diagnostic(message, kernel.location, hint=hint))
        named = {"sym_name": StringAttr(self.name), OP: StringAttr(self.known)}
        return kernel.rebuilt(attributes={**kernel.attributes, **named})


def takes(kernel: Op, types: Sequence[object]) -> bool:
    """Whether a kernel reads buffers of the shapes and elements of these tensor types."""
    return [(t.shape, t.element) for t in buffers(kernel)[0]] == [
        (getattr(t, "shape", None), getattr(t, "element", None)) for t in types
    ]
