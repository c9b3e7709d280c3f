# SPDX-License-Identifier: Apache-2.0
"""Axes whose length differs along another axis: the sequences of a batch. Values are flat rows with offsets; nothing is padded."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..ir.types import i32
from ..ops.lengths import Length
from .axes import Axes, AxesLike, Axis, DerivedAxis, make_axes
from .axis import check_axis
from .errors import IncompatibleAxesError, UserError, fail
from .fed_checks import OffsetsCheck
from .packed_lanes import rows_of_lanes
from .state import AssignableTensorOp, Role, make_storage
from .stating import stating
from .tensor import Tensor
from .values import ValueFor, numbers

Array = np.ndarray[Any, Any]


def _one_more(length: int) -> int:
    return length + 1


class OffsetsAxis(DerivedAxis):
    """The axis of offsets: one position more than there are segments."""

    __slots__ = ("segments",)

    def __init__(self, name: str, segments: Axis):
        super().__init__(name, Length(_one_more, segments))
        self.segments = segments

    def said(self, length: int) -> tuple[Axis, int]:
        return self.segments, length - 1


class LanesAxis(Axis):
    """The axis of lanes, which stands for that of the sequences in a loop."""

    __slots__ = ("outer",)

    def __init__(self, name: str, outer: Axis):
        super().__init__(None, name)
        self.outer = outer

    @property
    def is_batch(self) -> bool:
        """Whether its rows are those of samples."""
        return self.outer.is_batch


class RaggedAxis(Axis):
    """An axis with a run of positions for each position of `outer`, of different lengths: the rows of all runs are contiguous, and
    `offsets` (i32) has the start of each run. Its name is that of `outer`, `$` and its own. The offsets come with the fed value.

    Loops along it go over `steps`: 0, 1, 2 ..., as many as the longest run has positions; or, if they read rows only, over
    `lanes` (i32), each of which holds several runs: the row at each step and lane, or one beyond the last where there is none."""

    __slots__ = ("lanes", "offsets", "outer", "steps")

    def __init__(self, outer: Axis, name: str, docstring: str | None = None):
        super().__init__(None, f"{outer.name}${name}", docstring)
        self.outer = outer
        self.offsets = self._fed("offsets", OffsetsAxis(f"{self.name}_offsets", outer))
        self.steps = self._fed("steps", Axis(None, f"{self.name}_steps"))
        self.lanes = self._fed(
            "lanes", Axis(None, f"{self.name}_lane_steps"), LanesAxis(f"{self.name}_lanes", outer)
        )

    def _fed(self, name: str, *axes: Axis) -> AssignableTensorOp:
        """What is fed of the offsets."""
        made = AssignableTensorOp(Axes(axes), i32, Role.PLACEHOLDER)
        made.automatic_name = f"{self.name}_{name}"
        return made

    @property
    def is_batch(self) -> bool:
        """Whether its rows are those of samples."""
        return self.outer.is_batch

    @property
    def is_recurrent(self) -> bool:
        """Its rows are the steps of sequences."""
        return True

    @property
    def levels(self) -> tuple[RaggedAxis, ...]:
        """The ragged axes that it is made of, outermost first: itself, and `outer` if that is ragged too."""
        return (*(self.outer.levels if isinstance(self.outer, RaggedAxis) else ()), self)


def ragged_axis(outer: Axis, name: str, docstring: str | None = None) -> RaggedAxis:
    """An axis that has another length for each position of `outer`: `T = ng.ragged_axis(N, "T")`.

    `outer` may be ragged too: words of sentences of documents.
    """
    check_axis(outer)
    return RaggedAxis(outer, name, docstring)


@stating
def ragged(axes: AxesLike, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """An input of a computation that has a ragged axis: `x = ng.ragged([T, C])`.

    It is fed with a list of arrays, one for each sequence (nested for further levels), or with (rows, offsets). Results that have
    the axis are such lists. Raises UserError where no axis, or more than one, is ragged.
    """
    made = make_axes(axes)
    if sum(isinstance(axis, RaggedAxis) for axis in made) != 1:
        fail(
            UserError,
            f"one axis of ({made.shown}) must be ragged",
            'T = ng.ragged_axis(N, "T"); ng.ragged([T, C])',
        )
    return make_storage(made, dtype, Role.PLACEHOLDER, None, name)


def levels_of(axes: Iterable[Axis]) -> list[RaggedAxis]:
    """All ragged axes among some, with those that they are made of, outer ones first."""
    found = [level for axis in axes if isinstance(axis, RaggedAxis) for level in axis.levels]
    return list({id(level): level for level in found}.values())


def ragged_among(axes: AxesLike) -> RaggedAxis | None:
    """The ragged axis of a tensor, if it has one."""
    return next((axis for axis in make_axes(axes) if isinstance(axis, RaggedAxis)), None)


def refuse_ragged(axes: Iterable[Axis], what: str, hint: str) -> None:
    """UserError where one of the axes is ragged: `what` is done along it takes its rows for those of one sequence."""
    axis = next((axis for axis in axes if isinstance(axis, RaggedAxis)), None)
    if axis is not None:
        message = f"{what} the ragged axis {axis.name}, whose rows are those of one sequence of {axis.outer.name} after the other"
        fail(UserError, message, hint)


def outer_of(axis: Axis) -> Axis:
    """The axis that replaces another one inside a step along it: the axis of the sequences for a ragged one, else None."""
    return axis.outer if isinstance(axis, RaggedAxis) else axis


# ---- what computations are fed, and what they give ------------------------------------------------------------


def with_offsets(
    inputs: Sequence[Tensor],
    returns: Sequence[Any],
    pack: Callable[[Sequence[Any]], Any],
    used: Container[Axis],
) -> tuple[list[Tensor], list[Any], Callable[[Sequence[Any]], Any]]:
    """The inputs and results of a computation, and what makes its answer: with the offsets of ragged inputs, and the steps and lanes whose
    axes are among the `used` ones, fed behind them, and the offsets of ragged results given behind these, so that the answer has lists of
    sequences."""
    levels = levels_of(axis for op in inputs for axis in op.axes)
    fed: list[Tensor] = [level.offsets for level in levels]
    fed += [each for level in levels for each in (level.steps, level.lanes) if each.axes[0] in used]
    ragged = [ragged_among(op.axes) if isinstance(op, Tensor) else None for op in returns]
    given = levels_of(axis for axis in ragged if axis is not None)
    count, places = len(returns), {id(level): i for i, level in enumerate(given)}

    def packed(values: Sequence[Any]) -> Any:
        results, offsets = list(values[:count]), values[count:]
        for i, axis in enumerate(ragged):
            if axis is not None and isinstance(results[i], np.ndarray):
                at = returns[i].axes.index(axis)
                bounds = [np.asarray(offsets[places[id(level)]]) for level in axis.levels]
                results[i] = sequences(results[i], bounds, at)
        return pack(results)

    more = [each for each in fed if each not in inputs]
    return [*inputs, *more], [*returns, *(level.offsets for level in given)], packed if given else pack


def sequences(rows: Array, offsets: Sequence[Array], at: int = 0) -> list[Any]:
    """Flat rows along a dimension as a list with an array for each sequence, nested for each level but the last."""
    parts: list[Any] = np.split(rows, offsets[-1][1:-1], at) if len(offsets[-1]) > 1 else []
    for level in reversed(offsets[:-1]):
        parts = [parts[a:b] for a, b in zip(level[:-1].tolist(), level[1:].tolist(), strict=True)]
    return parts


class Feeding:
    """How a call's values become those of parameters: a ragged one's rows, and the offsets that parameters behind it have."""

    def __init__(self, parameters: Sequence[Tensor], taken: int):
        self._given = parameters[:taken]
        self._levels = levels_of(axis for op in self._given for axis in op.axes)
        made = [(level.offsets, level, _itself) for level in self._levels]
        made += [(level.steps, level, _steps) for level in self._levels]
        made += [(level.lanes, level, rows_of_lanes) for level in self._levels]
        behind = parameters[taken:]
        known = [each for each in made if each[0] in behind]
        #: For each parameter behind those that are given: of which level it is, and what it is of the offsets.
        self._behind = [each[1:] for each in sorted(known, key=lambda each: parameters.index(each[0]))]

    def flat(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The values of all parameters. UserError where sequences of one axis have other lengths elsewhere, and for what is no
        list of sequences."""
        said: dict[str, tuple[Tensor, Array]] = {}  # an axis is its name
        made: list[Any] = []
        for op, value in zip(self._given, values, strict=True):
            axis = ragged_among(op.axes)
            if axis is None:
                made.append(value)
                continue
            rows, offsets = _flattened(op, axis, value)
            for level, bounds in zip(axis.levels, offsets, strict=True):
                first, known = said.setdefault(level.name, (op, bounds))
                if not np.array_equal(known, bounds):
                    fail(
                        UserError,
                        f"the arguments differ along {level.name}: lengths {_shown(known)} for {first.called}, {_shown(bounds)} for {op.called}",
                        "all arguments that have one ragged axis must have sequences of the same lengths",
                    )
            made.append(rows)
        return (*made, *(of(said[level.name][1]) for level, of in self._behind))


def _itself(offsets: Array) -> Array:
    return offsets


def _steps(offsets: Array) -> Array:
    """The steps of a loop over sequences: as many as the longest has rows."""
    return np.arange(np.diff(offsets).max(initial=0), dtype=np.int32)


def _shown(offsets: Array) -> str:
    return np.array2string(np.diff(offsets), separator=", ", threshold=10, edgeitems=4)


def _flattened(op: Tensor, axis: RaggedAxis, value: Any) -> tuple[Any, list[Array]]:
    """The rows of a fed value, and the offsets of each level, outermost first. A tuple has these already."""
    levels = axis.levels
    if isinstance(value, tuple):
        rows, *given = cast("tuple[Any, ...]", value)
        offsets = [np.asarray(each) for each in given]
        if len(offsets) != len(levels) or any(
            each.ndim != 1 or each.dtype.kind not in "iu" for each in offsets
        ):
            fail(
                UserError,
                f"the value of {op.called} is a tuple, but not of rows and {len(levels)} lines of offsets",
                "(rows, offsets) has the offsets of each level, outermost first; or give a list of sequences",
            )
        rows = numbers(rows, ValueFor(op))
        counts = [*(len(each) - 1 for each in offsets[1:]), rows.shape[op.axes.index(axis)]]
        for level, each, count in zip(levels, offsets, counts, strict=True):
            OffsetsCheck(op, level, op.location).check(each, count)
        return rows, [each.astype(np.int32) for each in offsets]
    parts, offsets = [value], list[Array]()
    for level in levels:
        if not all(
            isinstance(part, list) or (isinstance(part, np.ndarray) and part.ndim > 0) for part in parts
        ):
            fail(
                UserError,
                f"the value of {op.called} is no list with an entry for each position of {level.outer.name}",
                "feed a list of arrays, one for each sequence, nested for each further level; or (rows, offsets)",
            )
        offsets.append(_offsets([len(part) for part in parts]))
        parts = [each for part in parts for each in part]
    at, rank = op.axes.index(axis), len(op.axes)
    plain = "fiub"  # arrays of numbers, which are used unchanged
    arrays = [
        part if type(part) is np.ndarray and part.dtype.kind in plain else numbers(part, ValueFor(op))
        for part in parts
    ]
    # An empty list does not tell the rank.
    lengths = [0 if a.shape == (0,) else a.shape[at] if a.ndim == rank else -1 for a in arrays]
    filled = [a for a, length in zip(arrays, lengths, strict=True) if length]
    if -1 in lengths or len({(*a.shape[:at], *a.shape[at + 1 :]) for a in filled}) > 1:
        shapes = ", ".join(str([*a.shape]) for a in arrays[:4])
        fail(
            IncompatibleAxesError,
            f"the sequences of {op.called} ({op.axes.shown}) have the shapes {shapes}{', ...' if len(arrays) > 4 else ''}",
            f"each has the axes of {op.called}, and they differ along {axis.name} only",
        )
    bounds = [*offsets[1:], _offsets(lengths)]
    if filled:
        return np.concatenate(filled, at), bounds
    return np.zeros([a.length or 0 for a in op.axes], op.dtype), bounds


def _offsets(lengths: Sequence[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.int32)
