# SPDX-License-Identifier: Apache-2.0
"""Batches from arrays: dictionaries from the names of inputs to arrays, and placeholders to match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...op_graph.axes import Axis
from ...op_graph.errors import UserError, fail
from ...op_graph.state import placeholder
from ...op_graph.tensor import Tensor
from ..common.given import is_named, is_several
from .axis import ax

Array = np.ndarray[Any, Any]
Batch = dict[Any, Any]


def _sources(data_arrays: Any) -> tuple[dict[Any, Array], dict[Any, tuple[Any, ...] | None]]:
    """(arrays, names of their axes) by key, from an array, a sequence of them, or {key: {"data": array, "axes": names}}."""
    entries: dict[Any, Any] = {0: data_arrays}
    if is_named(data_arrays):
        entries = dict(data_arrays)
    elif is_several(data_arrays):
        entries = {place: array for place, array in enumerate(data_arrays)}
    arrays: dict[Any, Array] = {}
    names: dict[Any, tuple[Any, ...] | None] = {}
    for key, entry in entries.items():
        described = is_named(entry)
        arrays[key] = np.asarray(entry["data"] if described else entry)
        names[key] = tuple(entry["axes"]) if described and entry.get("axes") is not None else None
        if arrays[key].ndim == 0 or (names[key] is not None and len(names[key] or ()) != arrays[key].ndim):
            fail(
                UserError,
                f"the array of {key!r} has {arrays[key].ndim} dimensions, its axes are {names[key]}",
                "the first one is that of the samples: ('N', 'C', 'H', 'W')",
            )
    if not arrays:
        fail(UserError, "there are no arrays to make batches of")
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        fail(UserError, f"the arrays have different numbers of samples: {lengths}")
    return arrays, names


def _axis(length: int, name: Any) -> Axis:
    """An axis of a placeholder; one that is given, and REC, get their lengths here."""
    if isinstance(name, Axis):
        name.length = length
        return name
    if name == ax.REC.name:
        ax.REC.length = length
        return ax.REC
    return Axis(length, name)


class Batches:
    """Dictionaries from the names of inputs to arrays, batch after batch; each also holds `iteration`, which counts from 1.

    A `for` gives `total_iterations` of them, and `next(batches)` one. A `for` that was left early goes on where it stopped, and
    restarts where it did not, as after `reset`. Orders of samples follow from a seed, which is drawn from NumPy's global
    generator here.
    """

    #: Batches in a pass.
    nbatches: int

    def __init__(self, shuffle: bool, total_iterations: int | None):
        self.shuffle = shuffle
        self.total_iterations = self.nbatches if total_iterations is None else total_iterations
        self.index = 0
        self._passes = 0  # before this `for`
        self._seed = int(np.random.randint(1 << 31)) if shuffle else 0
        self._dealt: tuple[int, Array] | None = None

    def batch(self, index: int) -> Batch:
        """The batch of that number, from 0."""
        raise NotImplementedError

    def reset(self) -> None:
        """Restarts the iteration."""
        self.index = self._passes = 0

    def __iter__(self) -> Iterator[Batch]:
        if self.index >= self.total_iterations:
            self._passes += -(-self.index // self.nbatches)
            self.index = 0
        return self

    def __next__(self) -> Batch:
        if self.index >= self.total_iterations:
            raise StopIteration
        batch = self.batch(self.index)
        self.index += 1
        return {**batch, "iteration": self.index}

    def next(self) -> Batch:
        """The next batch, as `next(batches)`; StopIteration after the last one."""
        return next(self)

    def shuffle_data(self) -> None:
        """Draws another order, from NumPy's global generator; each later pass has a different one."""
        self.shuffle = True
        self._seed, self._dealt = int(np.random.randint(1 << 31)), None

    def order(self, count: int, index: int) -> Array:
        """The order of `count` things in the pass of a batch: another one in each."""
        number = self._passes + index // self.nbatches
        if self._dealt is None or self._dealt[0] != number:
            self._dealt = number, np.random.RandomState([self._seed, number]).permutation(count)
        return self._dealt[1]

    def state(self) -> dict[str, Array]:
        """The position of the iteration, as arrays: with the state of a transformer, all that training needs to resume."""
        return {"index": np.array(self.index), "passes": np.array(self._passes), "seed": np.array(self._seed)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state()` was asked for. UserError for what is none."""
        try:
            self.index, self._passes, self._seed = (int(state[name]) for name in ("index", "passes", "seed"))
        except (KeyError, TypeError, ValueError):
            fail(UserError, f"{state!r} is no state of batches", "it holds index, passes and seed")
        self._dealt = None


class ArrayIterator(Batches):
    """Batches of samples, which are along the first axis of arrays.

    Args:
        data_arrays: an array, a sequence of arrays (called 0, 1, ...), or {key: {"data": array, "axes": names}}.
        batch_size: samples in a batch; the last batch of a pass is filled up with samples from the beginning.
        total_iterations: batches in a `for`; None is one pass, `nbatches`.
        tgt_key: the key of the target.
        shuffle: whether each pass has another order.

    Raises UserError where there are fewer samples than a batch.
    """

    def __init__(
        self,
        data_arrays: Any,
        batch_size: int,
        total_iterations: int | None = None,
        tgt_key: Any = "label",
        shuffle: bool = False,
    ):
        self.data_arrays, self.axis_names = _sources(data_arrays)
        self.batch_size, self.tgt_key = batch_size, tgt_key
        self.keys = list(self.data_arrays)
        #: How many samples there are.
        self.ndata = len(next(iter(self.data_arrays.values())))
        if not 0 < batch_size <= self.ndata:
            fail(
                UserError, f"{self.ndata} samples do not make a batch of {batch_size}", "take smaller batches"
            )
        self.nbatches = -(-self.ndata // batch_size)
        super().__init__(shuffle, total_iterations)

    def make_placeholders(self, include_iteration: bool = False) -> dict[Any, Tensor]:
        """A placeholder for each array: N, and axes by the names that were given; `iteration` too where that is asked
        for. Sets the length of `ax.N`, and of `ax.REC` where an array has it."""
        ax.N.length = self.batch_size
        made: dict[Any, Tensor] = {}
        for key, array in self.data_arrays.items():
            names = self.axis_names[key] or (None,) * array.ndim
            axes = [_axis(n, name) for n, name in zip(array.shape[1:], names[1:], strict=True)]
            made[key] = placeholder([ax.N, *axes], name=str(key))
        if include_iteration:
            made["iteration"] = placeholder((), name="iteration")
        return made

    def batch(self, index: int) -> Batch:
        places = np.arange(index * self.batch_size, (index + 1) * self.batch_size) % self.ndata
        if self.shuffle:
            # The last batch of a pass is filled up from its own order.
            start = index % self.nbatches * self.batch_size
            order = self.order(self.ndata, index)
            places = order[np.arange(start, start + self.batch_size) % self.ndata]
        return self._at(places)

    def _at(self, places: Array) -> Batch:
        return {key: array[places] for key, array in self.data_arrays.items()}

    def get_at_most(self, count: int) -> Batch:
        """The first samples, at most `count` of them, as a batch without `iteration`; the order is that of the arrays."""
        return self._at(np.arange(min(count, self.ndata)))


class SequentialArrayIterator(Batches):
    """Windows along a long sequence, for training on what comes next. Batches hold arrays (N, REC, ...).

    Args:
        data_arrays: the sequence, or {"inp_txt": ..., "tgt_txt": ...} with a sequence for each key (an array, or {"data":
            array, "axes": names}). One sequence is its own target, a step later.
        time_steps: steps in a window, the length of REC.
        batch_size: windows in a batch. Those of a pass that do not fill a batch are left out.
        total_iterations: batches in a `for`; None is one pass, `nbatches`.
        tgt_key: the key of the target.
        stride: how many steps apart windows begin; None: `time_steps`.
        get_prev_target: whether batches hold `prev_tgt`, the target of the step before; at the first step that is the target of
            the last one of the window.
        reverse_target: whether targets go from the last step to the first.
        shuffle: whether windows are dealt out in another order each pass; if not, batch k begins with window k * batch_size.
        streams: whether a window goes on, one batch later, at the same place of the batch, without shuffling: layers that keep
            their state from batch to batch (`reset_cells=False`) need that.

    Raises UserError where there are fewer windows than a batch, and where there is no target to reverse or to give as the previous one.
    """

    def __init__(
        self,
        data_arrays: Any,
        time_steps: int,
        batch_size: int,
        total_iterations: int | None = None,
        tgt_key: Any = "tgt_txt",
        stride: int | None = None,
        get_prev_target: bool = False,
        reverse_target: bool = False,
        shuffle: bool = True,
        streams: bool = False,
    ):
        if is_named(data_arrays):
            sequences, self.axis_names = _sources(data_arrays)
        else:
            whole = np.asarray(data_arrays)
            sequences, self.axis_names = _sources({"inp_txt": whole[:-1], "tgt_txt": whole[1:]})
        if tgt_key not in sequences and (get_prev_target or reverse_target):
            fail(
                UserError,
                f"there is no target {tgt_key!r}",
                f"the sequences are {', '.join(map(str, sequences))}",
            )
        self.time_steps, self.batch_size, self.tgt_key = time_steps, batch_size, tgt_key
        self.get_prev_target, self.reverse_target = get_prev_target, reverse_target
        self.streams = streams
        self.stride = time_steps if stride is None else stride
        length = len(next(iter(sequences.values())))
        windows = (length - time_steps) // self.stride + 1
        #: How many windows there are in a pass; those that do not fill a batch are left out.
        self.nbatches = max(0, windows) // batch_size
        self.ndata = self.nbatches * batch_size
        if self.nbatches == 0:
            fail(
                UserError,
                f"{length} steps do not make {batch_size} windows of {time_steps}",
                "take shorter windows or smaller batches",
            )
        self.data_arrays = sequences
        super().__init__(shuffle and not streams, total_iterations)

    def make_placeholders(self, include_iteration: bool = False) -> dict[Any, Tensor]:
        """A placeholder (N, REC, ...) for each sequence; sets the lengths of `ax.REC` and `ax.N`."""
        ax.N.length, ax.REC.length = self.batch_size, self.time_steps
        made: dict[Any, Tensor] = {}
        for key in [*self.data_arrays, *(["prev_tgt"] if self.get_prev_target else [])]:
            source = self.tgt_key if key == "prev_tgt" else key
            array = self.data_arrays[source]
            names = self.axis_names[source] or (None,) * array.ndim
            features = [_axis(n, name) for n, name in zip(array.shape[1:], names[1:], strict=True)]
            made[key] = placeholder([ax.N, ax.REC, *features], name=str(key))
        if include_iteration:
            made["iteration"] = placeholder((), name="iteration")
        return made

    def batch(self, index: int) -> Batch:
        number, size = index % self.nbatches, self.batch_size
        dealt = self.order(self.ndata, index) if self.shuffle else np.arange(self.ndata)
        if self.streams:  # the continuation of a window is at the same position of the next batch
            chosen = dealt.reshape(size, self.nbatches)[:, number]
        else:
            chosen = dealt[number * size : (number + 1) * size]
        places = chosen[:, None] * self.stride + np.arange(self.time_steps)
        made = {key: array[places] for key, array in self.data_arrays.items()}
        if self.reverse_target:
            made[self.tgt_key] = made[self.tgt_key][:, ::-1]
        if self.get_prev_target:
            made["prev_tgt"] = np.roll(made[self.tgt_key], 1, axis=1)
        return made
