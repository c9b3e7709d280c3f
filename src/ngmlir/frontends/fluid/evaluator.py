# SPDX-License-Identifier: Apache-2.0
"""Metrics over all batches of a pass, as states of the program: each run adds to them, `eval` reads them, `reset` sets them to 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import layers
from .executor import Executor, global_scope
from .framework import Program, Variable
from .layer_helper import LayerHelper, zeros_like_startup

__all__ = ["ChunkEvaluator", "EditDistance", "Evaluator"]


class Evaluator:
    """Counts that the main program adds to. `metrics` are those of a batch."""

    def __init__(self, name: str):
        self.helper = LayerHelper(name)
        self.states: list[Variable] = []
        self.metrics: list[Variable] = []

    def _summed(self, name: str, value: Variable) -> Variable:
        """A state to which the program adds a variable at each run."""
        state = zeros_like_startup(self.helper, f"{self.helper.name}.{name}", 0.0, value.dtype, [1])
        total = layers.sums([state, value], out=state)
        self.states.append(state)
        return total

    def reset(self, executor: Executor, reset_program: Program | None = None) -> None:
        """Sets the states to 0."""
        for state in self.states:
            tensor = global_scope().tensor(state.name)
            tensor.set(np.zeros_like(tensor.get()))

    def _now(self) -> list[float]:
        return [float(global_scope().tensor(state.name).get()[0]) for state in self.states]


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of chunks over all batches; `metrics` are those of a batch. Arguments are those of
    `layers.chunk_eval`."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Sequence[int] | None = None,
    ):
        super().__init__("chunk_eval")
        made = layers.chunk_eval(input, label, chunk_scheme, num_chunk_types, excluded_chunk_types)
        self.metrics = list(made[:3])
        names = ("num_infer_chunks", "num_label_chunks", "num_correct_chunks")
        for name, value in zip(names, made[3:], strict=True):
            self._summed(name, value)

    def eval(self, executor: Executor, eval_program: Program | None = None) -> tuple[Any, Any, Any]:
        """(precision, recall, F1) of all batches since the last reset, each of shape [1]."""
        found, there, right = self._now()
        precision, recall = right / found if found else 0.0, right / there if there else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        return np.array([precision], np.float32), np.array([recall], np.float32), np.array([f1], np.float32)


class EditDistance(Evaluator):
    """The mean edit distance over all batches, and the share of pairs that differ; `metrics` are distances and their number in a
    batch."""

    def __init__(
        self, input: Variable, label: Variable, ignored_tokens: Sequence[int] | None = None, **kwargs: Any
    ):
        super().__init__("edit_distance")
        distances, count = layers.edit_distance(input, label, ignored_tokens=ignored_tokens, **kwargs)
        zero = layers.fill_constant([1], "float32", 0.0)
        differs = layers.cast(layers.logical_not(layers.equal(distances, zero)), "float32")
        self._summed("total_distance", layers.reduce_sum(distances))
        self._summed("seq_num", count)
        self._summed("instance_error", layers.reduce_sum(differs))
        self.metrics = [distances, count]

    def eval(self, executor: Executor, eval_program: Program | None = None) -> tuple[Any, ...]:
        """(mean distance, share of pairs that differ) since the last reset, each of shape [1]; NaN where there were no pairs."""
        total, count, differs = self._now()
        with np.errstate(invalid="ignore"):
            return tuple([np.array([n], np.float32) / np.float32(count) for n in (total, differs)])
