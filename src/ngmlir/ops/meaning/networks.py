# SPDX-License-Identifier: Apache-2.0
"""What the ops of neural networks mean on NumPy arrays. f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.core import Op
from ..fields import get_float, get_i64s
from .elementwise import transcendental
from .numbers import Array, widened
from .reductions import max_over, sum_over

_exp, _log = transcendental(np.exp), transcendental(np.log)


def _shifted(wide: Array, axes: Sequence[int]) -> Any:
    """Less the greatest element along the axes, so that no exponential overflows."""
    return wide - np.expand_dims(max_over(wide, axes), tuple(axes))


def _log_softmax(wide: Array, axes: Sequence[int]) -> Any:
    shifted = _shifted(wide, axes)
    return shifted - np.expand_dims(_log(np.asarray(sum_over(_exp(shifted), axes))), tuple(axes))


def softmax_over(wide: Array, axes: Sequence[int]) -> Any:
    powers = _exp(_shifted(wide, axes))
    return powers / np.expand_dims(sum_over(powers, axes), tuple(axes))


def softmax(op: Op, arrays: Sequence[Array]) -> Any:
    return softmax_over(widened(arrays[0]), get_i64s(op, "axes")).astype(arrays[0].dtype)


def log_softmax(op: Op, arrays: Sequence[Array]) -> Any:
    return _log_softmax(widened(arrays[0]), get_i64s(op, "axes")).astype(arrays[0].dtype)


def cross_entropy(op: Op, arrays: Sequence[Array]) -> Any:
    (logits, targets), axes = map(widened, arrays), get_i64s(op, "axes")
    counted = np.where(targets == 0, np.zeros_like(targets), targets * _log_softmax(logits, axes))
    return (-sum_over(counted, axes)).astype(arrays[0].dtype)


def normalize(op: Op, arrays: Sequence[Array]) -> Any:
    wide, axes = widened(arrays[0]), get_i64s(op, "axes")
    count = wide.dtype.type(prod(wide.shape[a] for a in axes))
    with np.errstate(all="ignore"):
        centered = wide - np.expand_dims(sum_over(wide, axes) / count, tuple(axes))
        variance = np.asarray(sum_over(centered * centered, axes) / count)
        scale = 1 / np.sqrt(variance + wide.dtype.type(get_float(op, "epsilon")))
    return (centered * np.expand_dims(scale, tuple(axes))).astype(arrays[0].dtype)


NETWORKS = {
    "ng.softmax": softmax,
    "ng.log_softmax": log_softmax,
    "ng.cross_entropy": cross_entropy,
    "ng.normalize": normalize,
}
