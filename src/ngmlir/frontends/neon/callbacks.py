# SPDX-License-Identifier: Apache-2.0
"""Training loops, and what happens in them: callbacks are called before and after all batches, and each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from numbers import Integral
from typing import Any

import numpy as np

from ...op_graph.errors import UserError, fail
from ...op_graph.tensor import Tensor
from ...support.progress import Progress
from ...transformers import Transformer
from .logging import wipe_line
from .model import BoundComputation

Array = np.ndarray[Any, Any]


class CallbackPhase(Enum):
    """Where a loop is."""

    train_pre_ = 0
    train_post = 1
    minibatch_pre_ = 2
    minibatch_post = 3


class CallbackData(dict[str, Array]):
    """What callbacks note: arrays by names such as `cost/train`; `attributes` are about the whole run."""

    def __init__(self, output_file: str | os.PathLike[str] | None = None):
        super().__init__()
        self.output_file = output_file
        self.attributes: dict[str, Any] = {}
        self.steps = 0
        #: Why the loop is to end after this batch; empty while it goes on.
        self.stopped = ""
        self.progress: Progress | None = None

    def create_dataset(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """An array of NaN (or 0, of integers) under a name."""
        self[name] = np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0, dtype)
        return self[name]

    def stop(self, why: str) -> None:
        """Has the loop end after this batch, and says why."""
        self.stopped = why

    def say(self, text: str) -> None:
        """Prints a line, after clearing a progress bar."""
        if self.progress is not None and self.progress.shown:
            wipe_line()
        print(text, flush=True)

    def save(self) -> None:
        """Writes everything to the output file (NumPy's .npz), if there is one."""
        if self.output_file is not None:
            about: Any = {f"config/{name}": np.asarray(value) for name, value in self.attributes.items()}
            np.savez(self.output_file, **self, **about)


class Callback:
    """Something that happens in a loop. `data` is the batch, and `idx` its number from 0, where there is one."""

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        raise NotImplementedError


class CallbackContainer:
    """Callbacks in order; what they note is in `callback_data`, and goes to `output_file` (.npz) at the end."""

    def __init__(
        self,
        transformer: Transformer | None,
        output_file: str | os.PathLike[str] | None,
        total_iterations: int,
        callback_list: Iterable[Callback] = (),
        **attributes: Any,
    ):
        self.transformer = transformer
        self.total_iterations = total_iterations
        self._callbacks = [*callback_list]
        self.callback_data = CallbackData(output_file)
        self.callback_data.attributes = {"total_iterations": total_iterations, **attributes}

    def append(self, callback: Callback) -> None:
        self._callbacks.append(callback)

    def insert(self, index: int, callback: Callback) -> None:
        self._callbacks.insert(index, callback)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def __call__(
        self, phase: CallbackPhase, data: dict[Any, Any] | None = None, idx: int | None = None
    ) -> None:
        for callback in self._callbacks:
            callback(self.transformer, self.callback_data, phase, data, idx)
        if phase is CallbackPhase.train_post:
            self.callback_data.save()


class TrainCostCallback(Callback):
    """Calls the computation that trains on each batch, and notes its output `batch_cost` as `cost/train`."""

    def __init__(self, train_computation: Any):
        outputs = getattr(train_computation, "output_keys", None)
        if outputs is not None and "batch_cost" not in outputs:
            fail(
                UserError,
                f"the computation that trains gives {', '.join(map(str, outputs))}, and no batch_cost",
                'make_bound_computation(transformer, {"batch_cost": cost}, inputs)',
            )
        self.train_computation = train_computation

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        if phase is CallbackPhase.train_pre_:
            callback_data.create_dataset("cost/train", (callback_data.attributes["total_iterations"],))
        elif phase is CallbackPhase.minibatch_post:
            assert data is not None and idx is not None
            costs = callback_data["cost/train"]
            if idx >= len(costs):  # the data went on for longer than was said
                costs = callback_data["cost/train"] = np.append(costs, np.full(len(costs) + 1, np.nan))
            costs[idx] = np.mean(self.train_computation(data)["batch_cost"])
            callback_data.steps = idx + 1
        elif phase is CallbackPhase.train_post:
            callback_data["cost/train"] = callback_data["cost/train"][: callback_data.steps]


class RunTimerCallback(Callback):
    """Notes how long each batch took (`time/minibatch`), and all together (`time/train`)."""

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        now = time.perf_counter()
        if phase is CallbackPhase.train_pre_:
            self.started = self.before = now
            self.times: list[float] = []
        elif phase is CallbackPhase.minibatch_post:
            self.times.append(now - self.before)
            self.before = now
        elif phase is CallbackPhase.train_post:
            callback_data["time/train"] = np.array([now - self.started])
            callback_data["time/minibatch"] = np.array(self.times)


class ProgressCallback(Callback):
    """A bar on a terminal, and nothing in pipes and files."""

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        if phase is CallbackPhase.train_pre_:
            bar = Progress(callback_data.attributes["total_iterations"], "training", after=0.0)
            callback_data.progress = bar.__enter__()
        elif callback_data.progress is None:
            return
        elif phase is CallbackPhase.minibatch_post:
            costs = callback_data.get("cost/train")
            cost = "" if costs is None or idx is None else f"cost {costs[idx]:.4g}"
            callback_data.progress.step(cost)
        elif phase is CallbackPhase.train_post:
            callback_data.progress.__exit__(None, None, None)
            callback_data.progress = None


class _IntervalCallback(Callback):
    """Reports after each `frequency` batches."""

    def __init__(self, frequency: int):
        if not isinstance(frequency, Integral) or frequency < 1:
            fail(
                UserError, f"reports come after each {frequency!r} batches", "frequency is a number from 1 on"
            )
        self.frequency = int(frequency)

    def report(self, callback_data: CallbackData, iteration: int) -> str:
        """What is to be said after so many batches."""
        raise NotImplementedError

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        if phase is CallbackPhase.minibatch_post and idx is not None and (idx + 1) % self.frequency == 0:
            found = self.report(callback_data, idx + 1)
            callback_data.say(f"interval {(idx + 1) // self.frequency}, iteration {idx + 1}: {found}")


class TrainLoggerCallback(_IntervalCallback):
    """Prints the mean cost of each `frequency` batches."""

    def report(self, callback_data: CallbackData, iteration: int) -> str:
        costs = callback_data["cost/train"][iteration - self.frequency : iteration]
        return f"mean training cost {float(np.mean(costs)):.6g}"


class LossCallback(_IntervalCallback):
    """Each `frequency` batches, the means of what a computation gives for a data set: printed, and noted as `loss/NAME`."""

    def __init__(self, frequency: int, dataset: Any, interval_loss_comp: Any):
        super().__init__(frequency)
        self.dataset, self.computation = dataset, interval_loss_comp

    def report(self, callback_data: CallbackData, iteration: int) -> str:
        found = loop_eval(self.dataset, self.computation)
        for name, value in found.items():
            known = callback_data.get(f"loss/{name}", np.zeros(0))
            callback_data[f"loss/{name}"] = np.append(known, value)
        return ", ".join(f"{name} {value:.6g}" for name, value in found.items())


def make_default_callbacks(
    transformer: Transformer | None,
    output_file: str | os.PathLike[str] | None,
    frequency: int,
    train_computation: Any,
    total_iterations: int,
    eval_set: Any = None,
    loss_computation: Any = None,
    use_progress_bar: bool = True,
) -> CallbackContainer:
    """Callbacks that train, take the time, show a bar on a terminal, and report each `frequency` batches: the mean cost,
    and what `loss_computation` gives for `eval_set`."""
    made = CallbackContainer(transformer, output_file, total_iterations, frequency=frequency)
    made.append(TrainCostCallback(train_computation))
    made.append(RunTimerCallback())
    if use_progress_bar:
        made.append(ProgressCallback())
    made.append(TrainLoggerCallback(frequency))
    if eval_set is not None:
        if loss_computation is None:
            fail(UserError, "there is a set to evaluate on, and no loss_computation to do it")
        made.append(LossCallback(frequency, eval_set, loss_computation))
    return made


def loop_train(
    dataset: Iterable[Mapping[Any, Any]], computation: Any, callbacks: CallbackContainer | None = None
) -> CallbackData:
    """Goes through the batches of a data set, until they end or a callback asks to stop, and gives what callbacks noted.

    Args:
        dataset: the batches.
        computation: what trains on a batch. It may be left out, `loop_train(dataset, callbacks)`, where a TrainCostCallback
            calls it; one that such a callback calls is not called a second time.
        callbacks: what else happens.
    """
    if callbacks is None:
        computation, callbacks = None, computation
    _check_batches(dataset)
    if not isinstance(callbacks, CallbackContainer):
        fail(
            UserError, f"{callbacks!r} is no container of callbacks", "make_default_callbacks(...) makes one"
        )
    called = [each.train_computation for each in callbacks if isinstance(each, TrainCostCallback)]
    apart = [] if computation is None or computation in called else [computation]
    callbacks(CallbackPhase.train_pre_)
    try:
        for idx, batch in enumerate(dataset):
            data = {"iteration": idx + 1, **batch}
            callbacks(CallbackPhase.minibatch_pre_, data, idx)
            for each in apart:
                each(data)
            callbacks(CallbackPhase.minibatch_post, data, idx)
            if callbacks.callback_data.stopped:
                break
    finally:
        callbacks(CallbackPhase.train_post)
    return callbacks.callback_data


def loop_eval(dataset: Any, computation: Any) -> dict[Any, Any]:
    """The mean of each output over one pass: of those with a batch axis over the samples, each counted once; of others over
    the batches. An output without a value is left out."""
    _check_batches(dataset)
    dataset.reset()
    places = _batch_places(computation)
    found: dict[Any, list[Array]] = {}
    for batch in dataset:
        for name, value in computation({"iteration": 1, **batch}).items():
            if value is not None:
                value = np.asarray(value)
                place = places.get(name, 0 if value.ndim else None)
                found.setdefault(name, []).append(
                    value[None] if place is None else np.moveaxis(value, place, 0)
                )
    dataset.reset()
    # The last batch is filled up with samples that were there before.
    return {name: float(np.mean(np.concatenate(values)[: dataset.ndata])) for name, values in found.items()}


def _check_batches(dataset: Any) -> None:
    """UserError for what gives no batches."""
    if not isinstance(dataset, Iterable):
        fail(
            UserError,
            f"{dataset!r} gives no batches",
            "an ArrayIterator does, and any iterable of dictionaries",
        )


def _batch_places(computation: Any) -> dict[Any, int | None]:
    """For each output, the index of its batch axis."""
    if not isinstance(computation, BoundComputation):
        return {}
    places: dict[Any, int | None] = {}
    for key, op in zip(computation.output_keys, computation.computation.computation_op.returns, strict=True):
        batch = op.axes.batch_axis() if isinstance(op, Tensor) else None
        places[key] = None if batch is None or not isinstance(op, Tensor) else op.axes.index(batch)
    return places
