# SPDX-License-Identifier: Apache-2.0
"""Metrics on the host: `update` with what a program fetched, `eval`, `reset`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...support.diagnostics import UserError

__all__ = [
    "Accuracy",
    "Auc",
    "ChunkEvaluator",
    "CompositeMetric",
    "EditDistance",
    "MetricBase",
    "Precision",
    "Recall",
]


class MetricBase:
    """The base of metrics. Its states are the attributes that `__init__` gave it, but those that begin with `_`; `reset` makes numbers 0
    and arrays zeros."""

    def __init__(self, name: str | None = None):
        self._name = type(self).__name__ if name is None else str(name)

    def _states(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def reset(self) -> None:
        """Resets the metric."""
        for key, value in self._states().items():
            setattr(self, key, value * 0 if isinstance(value, (int, float, np.ndarray)) else None)

    def get_config(self) -> dict[str, Any]:
        """Its name and its states."""
        return {"name": self._name, "states": dict(self._states())}

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say how it takes values: define update")

    def eval(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it gives: define eval")

    def _none(self) -> UserError:
        return UserError(f"{self._name} has seen no data", hint="update it before eval")


def _array(value: Any, what: str) -> np.ndarray[Any, Any]:
    if not hasattr(value, "__array__"):
        raise UserError(f"{what} is an array, not {value!r}")
    return np.asarray(value)


class CompositeMetric(MetricBase):
    """Several metrics of the same values."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Adds a metric."""
        if not isinstance(metric, MetricBase):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"{metric!r} is no metric")
        self._metrics.append(metric)

    def update(self, preds: Any, labels: Any) -> None:
        """Updates all."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def reset(self) -> None:
        """Resets all."""
        for metric in self._metrics:
            metric.reset()

    def eval(self) -> list[Any]:
        """What each gives, in order."""
        return [metric.eval() for metric in self._metrics]


class Precision(MetricBase):
    """The share of rows guessed as 1 that are 1; 0 where there are none."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp, self.fp = 0, 0

    def update(self, preds: Any, labels: Any) -> None:
        """Takes probabilities of 1, and labels of 0 and 1."""
        guess, label = (
            np.rint(_array(preds, "preds")).astype(int).ravel(),
            _array(labels, "labels").astype(int).ravel(),
        )
        self.tp += int(((guess == 1) & (label == 1)).sum())
        self.fp += int(((guess == 1) & (label != 1)).sum())

    def eval(self) -> float:
        """The precision so far."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(MetricBase):
    """The share of rows that are 1 that are guessed so; 0 where there are none."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp, self.fn = 0, 0

    def update(self, preds: Any, labels: Any) -> None:
        """Takes probabilities of 1, and labels of 0 and 1."""
        guess, label = (
            np.rint(_array(preds, "preds")).astype(int).ravel(),
            _array(labels, "labels").astype(int).ravel(),
        )
        self.tp += int(((guess == 1) & (label == 1)).sum())
        self.fn += int(((guess != 1) & (label == 1)).sum())

    def eval(self) -> float:
        """The recall so far."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Accuracy(MetricBase):
    """The mean of accuracies of batches, weighted."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.value, self.weight = 0.0, 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Takes the accuracy of a batch, and its weight: how many rows it has."""
        number = float(np.asarray(value).reshape(-1)[0])
        if float(weight) < 0:
            raise UserError(f"a weight is not negative, and {weight} is")
        self.value += number * float(weight)
        self.weight += float(weight)

    def eval(self) -> float:
        """The mean so far. ValueError before the first update."""
        if self.weight == 0:
            raise self._none()
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from their counts."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.num_infer_chunks, self.num_label_chunks, self.num_correct_chunks = 0, 0, 0

    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:
        """Takes the counts of a batch: guessed, right, and both."""
        self.num_infer_chunks += int(np.asarray(num_infer_chunks).sum())
        self.num_label_chunks += int(np.asarray(num_label_chunks).sum())
        self.num_correct_chunks += int(np.asarray(num_correct_chunks).sum())

    def eval(self) -> tuple[float, float, float]:
        """(precision, recall, F1) so far; 0 where undefined."""
        precision = self.num_correct_chunks / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = self.num_correct_chunks / self.num_label_chunks if self.num_label_chunks else 0.0
        both = precision + recall
        return precision, recall, 2 * precision * recall / both if both else 0.0


class EditDistance(MetricBase):
    """The mean distance of sequences, and the share of pairs that differ."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.total_distance, self.seq_num, self.instance_error = 0.0, 0, 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """Takes the distances of pairs, and how many there are."""
        array, count = _array(distances, "distances"), int(np.asarray(seq_num).reshape(-1)[0])
        self.total_distance += float(array.sum())
        self.seq_num += count
        self.instance_error += count - int((array == 0).sum())

    def eval(self) -> tuple[float, float]:
        """(mean distance, share of pairs that differ). ValueError before the first update."""
        if self.seq_num == 0:
            raise self._none()
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under a curve over thresholds, `ROC` or `PR`, as the operator `auc` has it."""

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 200):
        super().__init__(name)
        if curve not in ("ROC", "PR"):
            raise UserError(f"the curve is ROC or PR, not {curve!r}")
        self._curve = curve
        self._thresholds = np.array(
            [-1e-7, *[i / (num_thresholds - 1) for i in range(1, num_thresholds - 1)], 1 + 1e-7]
        )
        self.tp, self.fp, self.tn, self.fn = (np.zeros(num_thresholds) for _ in range(4))

    def update(self, preds: Any, labels: Any) -> None:
        """Takes probabilities [rows, 2], and labels of 0 and 1."""
        above = _array(preds, "preds")[:, 1:2] >= self._thresholds
        right = _array(labels, "labels").reshape(-1, 1) != 0
        self.tp += (above & right).sum(0)
        self.fn += (~above & right).sum(0)
        self.fp += (above & ~right).sum(0)
        self.tn += (~above & ~right).sum(0)

    def eval(self) -> float:
        """The area so far."""
        small = 1e-6
        tpr = (self.tp + small) / (self.tp + self.fn + small)
        if self._curve == "ROC":
            along, high = self.fp / (self.fp + self.tn + small), tpr
        else:
            along, high = tpr, (self.tp + small) / (self.tp + self.fp + small)
        return float(((along[:-1] - along[1:]) * (high[:-1] + high[1:]) / 2).sum())
