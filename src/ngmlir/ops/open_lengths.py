# SPDX-License-Identifier: Apache-2.0
"""The open lengths of functions, which the arrays of a call have: `?`, or by name, `[N]`."""

from __future__ import annotations

from typing import NamedTuple

from ..ir.core import Module, Op
from ..ir.lengths import lengths_of
from ..ir.types import DYNAMIC, TensorType, shape_of
from ..support.diagnostics import Diagnostic, UserError
from ..support.length_places import LengthPlace, length_places
from ..support.length_text import identifier
from ..support.lengths import is_of_call, is_open


class OpenLength(NamedTuple):
    """An open length of a function: what it is called, the dimensions of arguments that it is read from, and whether these must all
    have it: without names, dimensions `?` of the same index have one name, and may differ."""

    name: str
    places: tuple[LengthPlace, ...]
    is_one: bool


def open_entry(module: Module, entry: str | None) -> Op | None:
    """The function called `entry` (@main, or the only one), of any stage, if its arguments have open lengths."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    found = module.lookup(entry or "main") if entry or len(functions) != 1 else functions[0]
    return found if found is not None and found in functions and has_open_lengths(found) else None


def has_open_lengths(main: Op) -> bool:
    """Whether arguments of a function have open lengths."""
    shapes = [shape_of(value.type) for value in main.block.args]
    return any(is_open(shape) or DYNAMIC in shape for shape in shapes)


def open_lengths(main: Op) -> tuple[OpenLength, ...]:
    """The open lengths of a function. Dimensions `?` with the same axis name have one length. Raises UserError where no argument has
    one of them."""
    found: dict[str, list[LengthPlace]] = {}
    named = length_places([shape_of(value.type) for value in main.block.args])
    ones = set(named)
    for name in filter(is_of_call, lengths_of(main)):
        if name not in named:
            message = f"no argument of @{main.symbol} has the length {name}"
            hint = f"a dimension of an argument must be [{name}], or a multiple of it and a constant: [2*{name} + 1]"
            raise UserError(Diagnostic(message, main.location, hint=hint))
        found[name] = [named[name]]
    for i, value in enumerate(main.block.args):
        type = value.type
        for d, size in enumerate(shape_of(type)):
            if size == DYNAMIC:
                axes = type.axes if isinstance(type, TensorType) else None
                name = identifier(axes[d] if axes is not None else f"dimension {d}")
                found.setdefault(name, []).append(LengthPlace(i, d))
                ones |= {name} if axes is not None else set()
    return tuple([OpenLength(name, tuple(places), name in ones) for name, places in found.items()])
