# SPDX-License-Identifier: Apache-2.0
"""State that rows are appended to: keys and values of attention, for example."""

from __future__ import annotations

from typing import Any

from ...ir.types import i32
from ..axes import AxesLike, Axis, make_axes
from ..errors import IncompatibleAxesError, UnmatchedAxesError, fail
from ..state import assign, followed, persistent_tensor
from ..tensor import Tensor
from .coerce import as_op, broadcast, cast
from .composed import logical_and
from .elementwise import add, less, less_equal
from .index import iota, scatter
from .reductions import sum as total


class Cache:
    """A persistent tensor with room for a number of rows, and how many there are; `ng.cache` makes one.

    `contents` is the whole tensor, 0 where nothing was written; `length` (int32, no axes) how many rows were appended. Both are state
    like any other: each transformer has its own, programs change them in place, and checkpoints have them.
    """

    def __init__(self, contents: Tensor, length: Tensor, along: Axis):
        self.contents, self.length, self.along = contents, length, along

    def append(self, rows: Any, axis: Any = None) -> Tensor:
        """Writes rows behind those that there are; returns the contents with them.

        Args:
            rows: a tensor with the axes of the cache, and another axis in place of `along`, of any length.
            axis: that axis; by default the one that the cache does not have.

        It is an assignment, and has its place in the order of assignments (docs/graph.md). Rows for which there is no room are
        not written; they count in `length`, so that `seen` is false everywhere. Raises IncompatibleAxesError for rows with other axes.
        """
        rows = as_op(rows)
        own = self.contents.axes
        new = [a for a in rows.axes if a not in own] if axis is None else [rows.axes[rows.axes.index(axis)]]
        kept = {a.name for a in own if a != self.along}
        if len(new) != 1 or {a.name for a in rows.axes if a != new[0]} != kept:
            fail(
                IncompatibleAxesError,
                f"rows of a cache with ({', '.join(own.names)}) cannot have the axes ({', '.join(rows.axes.names)})",
                f"rows have one other axis instead of {self.along.name}",
            )
        places = add(iota([new[0]], new[0]), self.length, dtype=i32)
        written = assign(self.contents, scatter(self.contents, places, rows, self.along))
        count = total(broadcast(cast(1, i32), [new[0]]), out_axes=(), dtype=i32)
        counted = assign(self.length, followed(add(self.length, count, dtype=i32), [written]))
        # Who reads one of them has both changed: this changes nothing, and comes after the other.
        assign(self.contents, followed(self.contents, [counted]))
        return self.contents

    def seen(self, positions: Any = None) -> Tensor:
        """Which rows there are: true or false along `along`; with `positions` (int32), which of them are at these or before.

        Where more rows were appended than there is room for none is: attention with this mask gives NaN then, and no wrong values.
        """
        place = iota([self.along], self.along)
        inside = less_equal(self.length, self.along.length)
        there = logical_and(less(place, self.length), inside)
        return there if positions is None else logical_and(there, less_equal(place, positions))

    def clear(self) -> Any:
        """The assignment after which there are no rows."""
        return assign(self.length, 0)


def cache(axes: AxesLike, along: Any, dtype: Any = None, *, name: str | None = None) -> Cache:
    """State that rows are appended to, in place: one program serves every number of rows that there are.

    Args:
        axes: the axes of the state; the length of `along` is the number of rows that there is room for.
        along: the axis that counts rows, or its name.
        dtype: the element type, float32 by default.
        name: what its state is called: `name/contents` and `name/length`.

    Raises UnmatchedAxesError where `along` is not one of the axes.
    """
    made = make_axes(axes)
    found = [a for a in made if a is along or a.name == getattr(along, "name", along)]
    if not found:
        fail(UnmatchedAxesError, f"{along} is not one of the axes ({', '.join(made.names)})")
    contents = persistent_tensor(made, dtype=dtype, initial_value=0, name=name and f"{name}/contents")
    length = persistent_tensor((), dtype="i32", initial_value=0, name=name and f"{name}/length")
    return Cache(contents, length, found[0])
