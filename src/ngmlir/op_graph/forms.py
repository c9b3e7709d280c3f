# SPDX-License-Identifier: Apache-2.0
"""How the function of a computation is written, where that is known: of one that was raised from text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.attributes import Attribute
from .node import Op


@dataclass(frozen=True)
class FunctionForm:
    """The symbol of a function, its arguments and what text calls them, its attributes, and which results are tied to
    which arguments; its other results are what the computation returns, in order."""

    symbol: str
    arguments: tuple[Op, ...]
    names: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    tied: tuple[tuple[int, int], ...]

    def fits(self, arguments: tuple[Op, ...], written: set[int]) -> bool:
        """Whether a function with these arguments, of which these are written, can still be written so."""
        return arguments == self.arguments and written <= {argument for _, argument in self.tied}
