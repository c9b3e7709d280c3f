# SPDX-License-Identifier: Apache-2.0
"""Rows of a reader as what is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ...support.diagnostics import UserError
from .framework import Program, Variable, default_main_program
from .lists import exactly
from .places import Place
from .scope import LoDTensor


class DataFeeder:
    """Makes what is fed of rows: `DataFeeder(feed_list=[x, y], place=place).feed(rows)` gives a tensor for each variable.

    A row has a value for each of `feed_list` (variables or names). Values of a variable with ragged levels are nested lists of as many
    levels.
    """

    def __init__(
        self, feed_list: Sequence[Variable | str], place: Place | None = None, program: Program | None = None
    ):
        block = (default_main_program() if program is None else program).global_block()
        self.variables = [block.var(v) if isinstance(v, str) else v for v in feed_list]
        for variable in self.variables:
            if not isinstance(variable, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"what is fed is a variable or its name, not {variable!r}")
            if -1 not in variable.shape:
                raise UserError(
                    f"'{variable.name}' has the shape {list(variable.shape)}, and rows need a length of -1"
                )
        self.place = place

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, LoDTensor]:
        """The tensors of rows, by name. Raises UserError for a row with more or fewer values than there are variables."""
        rows = [list(row) for row in iterable]
        for at, row in enumerate(rows):
            if len(row) != len(self.variables):
                fed = ", ".join(v.name for v in self.variables)
                raise UserError(
                    f"row {at} has {len(row)} values, and {len(self.variables)} variables are fed",
                    hint=f"a row has a value for each of {fed}",
                )
        return {v.name: _column(v, [row[i] for row in rows]) for i, v in enumerate(self.variables)}

    def feed_parallel(
        self, iterable: Iterable[Sequence[Any]], num_places: int | None = None
    ) -> Iterator[dict[str, LoDTensor]]:
        """The tensors of each of several batches."""
        for rows in iterable:
            yield self.feed(rows)

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Any]]:
        """A reader of what is fed, of a reader of batches of rows; for several devices of a list of so many batches at once."""

        def read() -> Iterator[Any]:
            if not multi_devices:
                for rows in reader():
                    yield self.feed(rows)
                return
            pending: list[Any] = []
            for rows in reader():
                pending.append(self.feed(rows))
                if len(pending) == (num_places or 1):
                    yield pending
                    pending = []
            if pending and not drop_last:
                raise UserError(
                    f"{len(pending)} batches are left, for {num_places} devices",
                    hint="drop_last=True leaves them out",
                )

        return read


def _column(variable: Variable, values: Sequence[Any]) -> LoDTensor:
    levels = variable.lod_level
    lengths: list[list[int]] = [[] for _ in range(levels)]
    rows: list[Any] = []

    def flatten(value: Any, level: int) -> None:
        if level == levels:
            rows.append(value)
            return
        if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str):
            raise UserError(
                f"a row of '{variable.name}' is a list of the elements of its sequence, not {value!r}",
                hint="a variable of lod_level=1 is fed [3, 4]; without lod_level a number",
            )
        items = cast("Sequence[Any]", value)
        lengths[level].append(len(items))
        for each in items:
            flatten(each, level + 1)

    for value in values:
        flatten(value, 0)
    array = exactly(rows, variable.np_dtype, f"'{variable.name}'")
    shape = variable.shape
    if shape.count(-1) == 1 and array.shape[1:] != shape[1:]:
        whole = [len(rows) if n == -1 else n for n in shape]
        if array.size != prod(whole):
            raise UserError(
                f"the rows of '{variable.name}' have the shape {list(array.shape[1:])}, and its own is {list(shape)}",
                hint="layers.data(name, shape) says how long a row is",
            )
        array = array.reshape(whole)
    made = LoDTensor(array)
    if levels:
        made.set_recursive_sequence_lengths(lengths)
    return made
