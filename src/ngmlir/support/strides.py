# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a buffer an array with strides touches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

#: To begin a copy from or to a device takes about as long as to copy so many bytes.
_BEGINNING = 32 * 1024
#: So few copies are started in any case: they take little time.
_FEW = 64


class Part:
    """The part of a buffer that a view shows, as contiguous ranges in memory order."""

    def __init__(self, view: np.ndarray[Any, Any], base: np.ndarray[Any, Any]):
        start, end = byte_bounds(view) if view.size else (base.ctypes.data,) * 2
        self.start = start - base.ctypes.data
        self.stop = end - base.ctypes.data
        steps = sorted((abs(s), n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s)
        self._run = view.itemsize
        while steps and steps[0][0] == self._run:
            self._run *= steps.pop(0)[1]
        self._steps = [(step, n) for step, n in reversed(steps)]
        count = 1
        for _, n in steps:
            count *= n
        #: Whether the pieces hold the elements of the view and nothing between them.
        self.exact = count <= _FEW or count * (_BEGINNING + self._run) <= _BEGINNING + self.stop - self.start

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Where each begins and ends, in bytes from the start of the buffer."""
        if self.start == self.stop:
            return
        if not self.exact:
            yield self.start, self.stop
            return
        for places in product(*(range(0, step * n, step) for step, n in self._steps)):
            begin = self.start + sum(places)
            yield begin, begin + self._run
