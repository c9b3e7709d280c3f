# SPDX-License-Identifier: Apache-2.0
"""Random arrays with the shape of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op_graph.axes import AxesLike, make_axes

Array = np.ndarray[Any, Any]


class RandomTensorGenerator:
    """Arrays from one seeded stream; `reset` starts it again."""

    def __init__(self, seed: int = 0, dtype: Any = np.float32):
        self.dtype = np.dtype(dtype)
        self.reset(seed)

    def reset(self, seed: int = 0) -> None:
        """Starts the stream of `seed`."""
        self.rng = np.random.RandomState(seed)

    def uniform(self, low: float, high: float, axes: AxesLike, dtype: Any = None) -> Array:
        """Uniform in [low, high)."""
        return self.rng.uniform(low, high, make_axes(axes).known_shape).astype(dtype or self.dtype)

    def discrete_uniform(
        self, low: float, high: float, quantum: float, axes: AxesLike, dtype: Any = None
    ) -> Array:
        """Multiples of `quantum` above `low`, below `high`."""
        steps = int((high - low) / quantum)
        return (self.rng.randint(0, steps, make_axes(axes).known_shape) * quantum + low).astype(
            dtype or self.dtype
        )

    def random_integers(self, low: int, high: int, axes: AxesLike, dtype: Any = np.int8) -> Array:
        """Integers from low to high, both included."""
        return self.rng.randint(low, high + 1, make_axes(axes).known_shape).astype(dtype)

    def normal(self, loc: float, scale: float, axes: AxesLike, dtype: Any = None) -> Array:
        """Normal with mean `loc` and deviation `scale`."""
        return self.rng.normal(loc, scale, make_axes(axes).known_shape).astype(dtype or self.dtype)

    def randn_abs_clip(
        self, axes: AxesLike, clip_min: float = 0.0, clip_max: float = 1.0, dtype: Any = None
    ) -> Array:
        """Magnitudes of normal numbers, held between two bounds."""
        return np.clip(np.abs(self.rng.normal(0, 1, make_axes(axes).known_shape)), clip_min, clip_max).astype(
            dtype or self.dtype
        )
