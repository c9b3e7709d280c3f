# SPDX-License-Identifier: Apache-2.0
"""Axes without names: those of arrays."""

from __future__ import annotations

from collections.abc import Iterable

from .axes import Axes, AxesLike
from .axis import Axis


class Positions(Axes):
    """Axes that are known by their places alone: those of arrays. Each has a length, and two may be of one length.

    The names that the axes have in Python differ from all others, so that nothing matches by accident; types of the
    dialect do not tell them.
    """

    __slots__ = ()

    called = "axes by position"
    made_by = "ng.numpy.asarray(x) takes the axes of x in their order"

    @staticmethod
    def of(shape: Iterable[int]) -> Positions:
        """New axes of these lengths."""
        return Positions([Axis(length) for length in shape])

    @property
    def type_names(self) -> tuple[str, ...] | None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self.lengths == other.lengths

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"Positions{self.lengths}"

    def is_sub_set(self, other: AxesLike) -> bool:
        return not self or self == other

    def is_equal_set(self, other: AxesLike) -> bool:
        return self == other
