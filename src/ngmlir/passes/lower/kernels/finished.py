# SPDX-License-Identifier: Apache-2.0
"""What a builder of kernels gives."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.core import Op
from ...analysis.plan import Shape
from .packing import Packing


@dataclass(frozen=True)
class Finished:
    """A kernel and how it is called: the numbers of the op's operands that are its inputs, with the shapes in which it takes them; after
    these its `sides`, operands of products, also with how each is packed before; and the shapes in which it gives the results.

    `name` is what it is called, where that does not follow from its ops.
    """

    kernel: Op
    inputs: tuple[tuple[int, Shape], ...]
    results: tuple[Shape, ...]
    sides: tuple[tuple[int, Shape, Packing | None], ...] = ()
    name: str = ""
