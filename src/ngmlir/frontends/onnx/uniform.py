# SPDX-License-Identifier: Apache-2.0
"""Programs for any number of rows, found without reading the model again.

A model is read for the shapes of a call, and what that gives is compared with the programs that there are. For more lengths
that is not needed: where no node tells a length to others, two lengths above one have given the same program, and each row is
computed apart, nothing is left that another length could change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .calls import Program
from .ports import Given, leaves_of

if TYPE_CHECKING:
    from ...runtime.rows import CpuRows, GpuRows
    from .contents import Contents


@dataclass
class _Served:
    """A program for any number of rows: the shapes that it was read for, with None where the rows are counted."""

    shapes: list[tuple[tuple[int | None, ...], str]]
    program: Program
    run: CpuRows | GpuRows
    lengths: set[int] = field(default_factory=set[int])


class Uniform:
    """The programs for any number of rows of one model."""

    def __init__(self) -> None:
        self._served: list[_Served] = []

    def note(
        self, given: Sequence[Given], program: Program, run: CpuRows | GpuRows, contents: Contents
    ) -> None:
        """A program that the model was read for with these inputs."""
        leaves = [array for _, array in leaves_of(given)]
        rows = {
            leaf: each for leaf, each in zip(program.fed, run.how.arguments, strict=True) if each is not None
        }
        if len(leaves) < len(given) or any(each.inner != 1 for each in rows.values()) or not rows:
            return
        if contents.tells_lengths or not program.can_be_kept:
            return
        first = next(iter(rows))
        length = leaves[first].shape[rows[first].dimension]
        if length < 2:
            return
        shapes: list[tuple[tuple[int | None, ...], str]] = []
        for at, array in enumerate(leaves):
            shape: list[int | None] = list(array.shape)
            if at in rows:
                shape[rows[at].dimension] = None
            shapes.append((tuple(shape), array.dtype.str))
        for served in self._served:
            if served.run is run and served.shapes == shapes:
                served.lengths.add(length)
                return
        self._served.append(_Served(shapes, program, run, {length}))

    def find(self, given: Sequence[Given]) -> tuple[Program, Callable[..., Sequence[Any]]] | None:
        """A program that serves these inputs, if one is known to."""
        leaves = [array for _, array in leaves_of(given)]
        for served in self._served:
            if len(served.lengths) < 2 or len(leaves) != len(served.shapes):
                continue
            counts: set[int] = set()
            fits = True
            for array, (shape, dtype) in zip(leaves, served.shapes, strict=True):
                fits = fits and array.dtype.str == dtype and len(array.shape) == len(shape)
                for length, wanted in zip(array.shape, shape, strict=False):
                    if wanted is None:
                        counts.add(length)
                    fits = fits and wanted in (None, length)
            if fits and len(counts) == 1 and min(counts) > 1:
                return served.program, served.run
        return None
