# SPDX-License-Identifier: Apache-2.0
"""The result of a kernel builder."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.core import Op
from ...analysis.loop_nest import Shape
from .packing import Packing


@dataclass(frozen=True)
class Finished:
    """A kernel and how it is called: the numbers of the op's operands that are its inputs and the shapes in which it takes them; then its
    `sides`, operands of products, with how each is packed before the call; and the shapes of its results.

    `name` replaces the name that is derived from its ops.
    """

    kernel: Op
    inputs: tuple[tuple[int, Shape], ...]
    results: tuple[Shape, ...]
    sides: tuple[tuple[int, Shape, Packing | None], ...] = ()
    name: str = ""
