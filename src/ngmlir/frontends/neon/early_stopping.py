# SPDX-License-Identifier: Apache-2.0
"""A callback that ends training when what is evaluated gets no better."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from ...op_graph.errors import UserError, fail
from ...support.spelling import did_you_mean
from ...transformers import Transformer
from .callbacks import Callback, CallbackData, CallbackPhase

__all__ = ["EarlyStopping"]


class EarlyStopping(Callback):
    """Ends the loop when an evaluated value has not improved for some evaluations, and puts the best state back.

    It must come after the LossCallback that records the value. What is kept and put back is the state of the transformer at the best
    evaluation: weights, running averages, what optimizers keep, and random numbers. It is put back also where the data end
    before. `best` is the best value, and `best_iteration` after how many batches it was.

    Args:
        monitor: the name of the recorded value, such as `loss/wrong`.
        patience: after how many evaluations in a row without an improvement the loop ends.
        min_change: by how much a value must be better to be an improvement.
        mode: `min` where less is better, `max` where more is.
        restore_best: whether the best state is put back at the end.

    Raises UserError for a patience below 1, a negative change and another mode, and in the loop where nothing is noted under the
    name. NaN is no improvement.
    """

    def __init__(
        self,
        monitor: str,
        patience: int = 3,
        min_change: float = 0.0,
        mode: str = "min",
        restore_best: bool = True,
    ):
        if patience < 1 or not min_change >= 0 or mode not in ("min", "max"):
            fail(
                UserError,
                f"early stopping with patience={patience}, min_change={min_change}, mode={mode!r}",
                'patience is 1 or more, min_change is not negative, mode is "min" or "max"',
            )
        self.monitor, self.patience, self.min_change = monitor, patience, min_change
        self.sign = 1.0 if mode == "min" else -1.0
        self.restore_best = restore_best
        self._begin()

    def _begin(self) -> None:
        self.best, self.best_iteration = self.sign * inf, 0
        self._seen = self._waited = 0
        self._state: Mapping[str, Any] | None = None

    def __call__(
        self,
        transformer: Transformer | None,
        callback_data: CallbackData,
        phase: CallbackPhase,
        data: dict[Any, Any] | None,
        idx: int | None,
    ) -> None:
        if phase is CallbackPhase.train_pre_:
            self._begin()
        elif phase is CallbackPhase.minibatch_post and idx is not None:
            values = callback_data.get(self.monitor)
            noted = [name for name in callback_data if name.startswith("loss/")]
            if values is None and noted:
                hint = did_you_mean(self.monitor, noted, f"one of {', '.join(noted)}")
                fail(UserError, f"nothing is noted as {self.monitor}", hint)
            if values is not None and len(values) > self._seen:
                self._seen = len(values)
                self._compare(float(values[-1]), transformer, callback_data, idx + 1)
        elif phase is CallbackPhase.train_post and self._state is not None and transformer is not None:
            transformer.load_state(self._state)
            self._state = None

    def _compare(
        self, value: float, transformer: Transformer | None, callback_data: CallbackData, iteration: int
    ) -> None:
        if self.sign * value < self.sign * self.best - self.min_change:
            self.best, self.best_iteration, self._waited = value, iteration, 0
            if self.restore_best and transformer is not None:
                self._state = transformer.state()
            return
        self._waited += 1
        if self._waited >= self.patience:
            why = f"{self.monitor} was best after iteration {self.best_iteration}: {self.best:.6g}"
            callback_data.say(f"stopped: {why}")
            callback_data.stop(why)
