# SPDX-License-Identifier: Apache-2.0
"""What the gradient of an op is written with: verbs that make more of the graph, and the view of the op that a rule gets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ...ir.attributes import Attribute
from ...ir.core import Op
from .. import ng
from ..fields import find_i64, get_i64s
from ..lengths import Length, Size

V = TypeVar("V")


class GradientVerbs(ng.NgVerbs[V], Generic[V]):
    """The verbs that rules are written with. Types are never spelled: they are those of another value, so an
    algorithm needs not know how a value's type is held."""

    @abstractmethod
    def shape_of(self, value: V) -> Sequence[Length]:
        """The lengths of its dimensions, which may not be known yet."""

    @abstractmethod
    def number_like(self, value: float | Length, like: V) -> V:
        """A constant of the type of `like`."""

    @abstractmethod
    def cast_like(self, value: V, like: V) -> V:
        """`value` with the element type of `like`."""

    @abstractmethod
    def rename_like(self, value: V, like: V) -> V:
        """`value` with the axis names of `like`."""

    @abstractmethod
    def reshape_like(self, value: V, like: V) -> V:
        """`value` with the shape of `like`."""

    @abstractmethod
    def broadcast_like(self, value: V, like: V, dimensions: Sequence[int]) -> V:
        """`value` repeated to the shape of `like`; its dimension i becomes dimensions[i]."""

    @abstractmethod
    def repeat(self, value: V, at: int, like: V, dimension: int) -> V:
        """`value` repeated along a new dimension `at`, as long as `dimension` of `like`, with a name of its own."""

    @abstractmethod
    def count_like(self, counted: V, dimensions: Sequence[int], like: V) -> V:
        """How many elements some dimensions of `counted` hold, as a constant of the type of `like`."""

    @abstractmethod
    def positions_like(self, like: V, dimension: int) -> V:
        """i32: the position of each element of `like` along a dimension."""

    @abstractmethod
    def progression(self, first: Size, step: Size, count: Size) -> V:
        """i32: `count` integers as a constant: `first`, `first + step` and so on."""

    @abstractmethod
    def window(self, value: V, dimension: int, start: Size, limit: Size, step: int = 1) -> V:
        """A slice along one dimension, the others whole."""

    @abstractmethod
    def pad_like(self, value: V, like: V, low: Sequence[Size], high: Sequence[Size], fill: int = 0) -> V:
        """`value` padded to the shape of `like`."""

    @abstractmethod
    def spaced_like(self, value: V, like: V, dimension: int, start: Size, step: int) -> V:
        """`value` with zeros around and between its elements along a dimension, which are then `step` apart from `start` on;
        along it as long as `like`."""

    @abstractmethod
    def windows_like(self, value: V, like: V, op: Applied[V]) -> V:
        """The windows of `value`, of the type of `like`, along the axes and by the steps that `op` says."""

    @abstractmethod
    def overlap_add_like(self, value: V, like: V, op: Applied[V]) -> V:
        """The sum of windows at the places that `op` says, of the type of `like`."""

    @abstractmethod
    def segment_sum(self, value: V, offsets: V, axis: int, like: V | None = None) -> V:
        """The sum of each segment along an axis: like `like`, or with a name of its own for the axis."""

    @abstractmethod
    def segment_expand_like(self, value: V, offsets: V, axis: int, like: V) -> V:
        """Row s of `value` for each row of segment s, with the shape of `like`."""

    @abstractmethod
    def one_hot_like(self, indices: V, axis: int, like: V) -> V:
        """1 at each index and 0 elsewhere along a new dimension `axis`: of the type of `like`."""


@dataclass(frozen=True)
class Applied(Generic[V]):
    """The view of one op that a rule gets. `wanted` says for which operands a gradient is of any use, `given` has the attributes
    as they were given: in those that hold lengths there may be substitutes for them."""

    op: type[Op]
    operands: Sequence[V]
    results: Sequence[V]
    attributes: Mapping[str, Attribute]
    wanted: Sequence[bool]
    given: Mapping[str, Any]

    def sizes(self, name: str) -> Sequence[Size]:
        """An attribute of lengths or places, which may not be known yet."""
        given = self.given.get(name)
        return cast("tuple[Size, ...]", given) if isinstance(given, tuple) else get_i64s(self, name)

    def find_size(self, name: str) -> int | Length | None:
        """An attribute of one place, if it is there."""
        given = self.given.get(name)
        return given if isinstance(given, Length) else find_i64(self, name)


Rule = Callable[[GradientVerbs[V], Applied[V], V], Sequence["V | None"]]


class Rules(dict[str, Rule[Any]]):
    """Op name -> its rule."""

    def of(self, *names: str) -> Callable[[Rule[Any]], Rule[Any]]:
        """Enters a rule for ops of these names."""

        def enter(rule: Rule[Any]) -> Rule[Any]:
            self.update(dict.fromkeys([f"ng.{name}" for name in names], rule))
            return rule

        return enter


def where(v: GradientVerbs[V], condition: V, value: V) -> V:
    """`value` where the condition is true, else 0."""
    return v.select(condition, value, v.number_like(0, value))


def others(v: GradientVerbs[V], value: V, dimensions: Sequence[int]) -> list[int]:
    return [d for d in range(len(v.shape_of(value))) if d not in dimensions]


def spread_back(v: GradientVerbs[V], value: V, op: Applied[V]) -> V:
    """A reduced value repeated over what was reduced."""
    return v.broadcast_like(value, op.operands[0], others(v, op.operands[0], get_i64s(op, "axes")))
