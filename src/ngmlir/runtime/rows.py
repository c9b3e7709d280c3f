# SPDX-License-Identifier: Apache-2.0
"""Functions of any number of rows, computed block by block: each block is a call of an executable for a fixed number of
rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..support.rows import ByRows, Rows, Run
from ..support.signature import Parameter, Signature
from .buffers import DTYPES
from .context import invoke_blocks
from .cpu import CpuExecutable, Program
from .entry import builtin
from .executable import Prepare, as_array, check_count, in_place
from .gpu import GpuExecutable

Array = np.ndarray[Any, Any]


#: How many plans a call caches.
_PLANS = 64


class _Plan(NamedTuple):
    """A call with a certain number of rows: its arguments and results, and the blocks that it runs."""

    arguments: list[Parameter]
    results: list[tuple[tuple[int, ...], np.dtype[Any]]]
    runs: list[Run]


class RowsCall:
    """A function whose arguments have any number of rows, with some arguments bound; called with the others."""

    def __init__(
        self,
        how: ByRows,
        single: Signature,
        bound: Mapping[int, Any],
        run: Callable[[int, Sequence[Any], Sequence[Array]], None],
        prepare: Prepare | None = None,
    ):
        self.how, self.single, self.prepare, self.bound = how, single, prepare, bound
        #: Runs one block: (rows, arguments, arrays for the results).
        self.run = run
        self.open = [i for i in range(len(single.arguments)) if i not in bound]
        self.parameters = [single.arguments[i] for i in self.open]
        self.dtypes = [DTYPES[p.dtype] for p in self.parameters]
        self.fixed: list[Any] = [bound.get(i) for i in range(len(single.arguments))]
        counted = [(at, rows) for at, i in enumerate(self.open) if (rows := how.arguments[i]) is not None]
        #: The first open argument that has rows: its position, and how they are counted.
        self.counting = counted[0]
        self.plans: dict[int, _Plan] = {}

    def __call__(self, *values: Any) -> tuple[Array, ...]:
        given: Sequence[Any] = self.prepare(values) if self.prepare is not None else values
        if len(given) != len(self.open):
            check_count(self.single.name, self.parameters, given)
        length = self.length(given)
        plan = self.plans.get(length) or self.planned(length)
        arguments = list(self.fixed)
        for i, value, parameter, dtype in zip(self.open, given, plan.arguments, self.dtypes, strict=True):
            ready = type(value) is np.ndarray and value.dtype is dtype and value.shape == parameter.shape
            ready = ready and value.flags.carray
            arguments[i] = value if ready else as_array(parameter, value)
        results = [np.empty(shape, dtype) for shape, dtype in plan.results]
        for run in plan.runs:
            self.blocks(run, length, arguments, results)
        if not length and not all(self.how.results):
            self.padded(1, 0, arguments, results)  # results without a row dimension exist even for no rows
        return tuple(results)

    def planned(self, length: int) -> _Plan:
        """The plan for a call with this many rows; cached."""
        if len(self.plans) >= _PLANS:
            self.plans.clear()
        arguments = [_of(self.single.arguments[i], self.how.arguments[i], length) for i in self.open]
        counted = zip(self.single.results, self.how.results, strict=True)
        results = [(_of(p, rows, length).shape, DTYPES[p.dtype]) for p, rows in counted]
        plan = self.plans[length] = _Plan(arguments, results, self.how.runs(length))
        return plan

    def length(self, given: Sequence[Any]) -> int:
        """The number of rows of the values, read from the first argument that has rows."""
        at, rows = self.counting
        value, parameter = given[at], self.parameters[at]
        shape = value.shape if type(value) is np.ndarray else np.shape(value)
        if len(shape) != len(parameter.shape):
            as_array(parameter, value)  # raises the error
        return shape[rows.dimension]

    def blocks(self, run: Run, length: int, arguments: Sequence[Any], results: Sequence[Array]) -> None:
        """Runs consecutive blocks of one size."""
        if length < run.rows:
            self.padded(run.rows, length, arguments, results)
            return
        for number in range(run.number):
            first = run.first + number * run.rows
            taken = [
                a if r is None else np.ascontiguousarray(_cut(a, r, first, run.rows))
                for a, r in zip(arguments, self.how.arguments, strict=True)
            ]
            places = [
                a if r is None else _cut(a, r, first, run.rows)
                for a, r in zip(results, self.how.results, strict=True)
            ]
            made = [p if p.flags.c_contiguous else np.empty_like(p, order="C") for p in places]
            self.run(run.rows, taken, made)
            for place, array in zip(places, made, strict=True):
                if array is not place:
                    place[...] = array

    def padded(self, rows: int, length: int, arguments: Sequence[Any], results: Sequence[Array]) -> None:
        """A block of which only the first rows are wanted; the others repeat the last one."""
        taken = [
            a if each is None else _filled_up(a, each, rows, length)
            for a, each in zip(arguments, self.how.arguments, strict=True)
        ]
        parameters = zip(self.single.results, self.how.results, strict=True)
        made = [np.empty(_of(p, each, rows).shape, DTYPES[p.dtype]) for p, each in parameters]
        self.run(rows, taken, made)
        for result, array, each in zip(results, made, self.how.results, strict=True):
            result[...] = array if each is None else _cut(array, each, 0, length)


class CpuRows:
    """A function of any number of rows on the CPU. If rows are contiguous, as in arrays whose first dimension counts
    them, blocks are computed in place, and one call of native code runs all blocks of one size."""

    def __init__(self, how: ByRows, executables: Sequence[CpuExecutable]):
        self.how = how
        self.executables = dict(zip(how.blocks, executables, strict=True))
        self._call = self.bind({})

    @property
    def signature(self) -> Signature:
        """The signature for one row, with the function's name."""
        return replace(self.executables[1].signature, name=self.how.name)

    def __call__(self, *values: Any) -> tuple[Array, ...]:
        return self._call(*values)

    def bind(
        self,
        arrays: Mapping[int, Array],
        prepare: Prepare | None = None,
        unprepared: Container[int] | None = None,
    ) -> Callable[..., tuple[Array, ...]]:
        """As `CpuExecutable.bind`; bound arrays have no rows. Arrays with exactly the rows of a block, if that number
        is in `unprepared` (by default, of any block), bypass `prepare`."""
        single = self.signature
        for index, array in arrays.items():
            in_place(single.arguments[index], array, writable=False)
        call: Callable[..., tuple[Array, ...]] = _CpuCall(self, single, arrays, prepare)
        for rows, executable in reversed(self.executables.items()):
            program = executable.program
            taken = unprepared is None or rows in unprepared
            if taken and not program.code.is_watched:
                fast = builtin(program.signature, program.context, arrays, executable.release_gil, call)
                call = fast or call
        return call


class _CpuCall(RowsCall):
    def __init__(self, of: CpuRows, single: Signature, bound: Mapping[int, Array], prepare: Prepare | None):
        super().__init__(of.how, single, bound, self.one, prepare)
        self.programs: dict[int, Program] = {n: e.program for n, e in of.executables.items()}
        code = self.programs[1].code
        counted = [*zip(single.arguments, self.how.arguments, strict=True)]
        counted += zip(single.results, self.how.results, strict=True)
        self.direct = (
            all(r is None or prod(p.shape[: r.dimension]) == 1 for p, r in counted) and not code.is_watched
        )
        #: For each argument and result: the bytes from one row to the next.
        self.steps = [0 if r is None else p.bytes for p, r in counted]

    def one(self, rows: int, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        self.programs[rows].run([*arguments, *results])

    def blocks(self, run: Run, length: int, arguments: Sequence[Any], results: Sequence[Array]) -> None:
        if not self.direct or length < run.rows:
            super().blocks(run, length, arguments, results)
            return
        arrays = [*arguments, *results]
        begin = [a.ctypes.data + s * run.first for a, s in zip(arrays, self.steps, strict=True)]
        steps = [s * run.rows for s in self.steps]
        table, further = (ctypes.c_void_p * len(begin))(*begin), (ctypes.c_int64 * len(begin))(*steps)
        invoke_blocks(self.programs[run.rows].context, table, further, run.number)


class GpuRows:
    """A function of any number of rows on a GPU: blocks of arrays on the host are copied there one by one."""

    def __init__(self, how: ByRows, executables: Sequence[GpuExecutable]):
        self.how = how
        self.executables = dict(zip(how.blocks, executables, strict=True))
        self.device = executables[0].device
        self._call = self.bind({})

    @property
    def signature(self) -> Signature:
        """The signature for one row, with the function's name."""
        return replace(self.executables[1].signature, name=self.how.name)

    def __call__(self, *values: Any) -> tuple[Array, ...]:
        return self._call(*values)

    def bind(
        self, buffers: Mapping[int, Any], prepare: Prepare | None = None
    ) -> Callable[..., tuple[Array, ...]]:
        """A callable for the arguments that `buffers` leaves open; the buffers have no rows and stay on the device."""
        return RowsCall(self.how, self.signature, buffers, self.one, prepare)

    def one(self, rows: int, arguments: Sequence[Any], results: Sequence[Array]) -> None:
        for array, made in zip(results, self.executables[rows](*arguments), strict=True):
            assert isinstance(made, np.ndarray)
            array[...] = made


def _of(parameter: Parameter, rows: Rows | None, length: int) -> Parameter:
    """The parameter for `length` rows, from that for one row."""
    if rows is None:
        return parameter
    shape = list(parameter.shape)
    shape[rows.dimension] = length * rows.inner
    return replace(parameter, shape=tuple(shape))


def _cut(array: Array, rows: Rows, first: int, count: int) -> Array:
    part = slice(first * rows.inner, (first + count) * rows.inner)
    return array[(slice(None),) * rows.dimension + (part,)]


def _filled_up(array: Array, rows: Rows, count: int, length: int) -> Array:
    """An array of `count` rows: the existing ones, then copies of the last one; zeros if there is none."""
    shape = list(array.shape)
    shape[rows.dimension] = count * rows.inner
    made = np.zeros(shape, array.dtype)
    _cut(made, rows, 0, length)[...] = array
    if length:
        for row in range(length, count):
            _cut(made, rows, row, 1)[...] = _cut(array, rows, length - 1, 1)
    return made
