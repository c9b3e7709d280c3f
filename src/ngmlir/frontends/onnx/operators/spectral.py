# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms as products with matrices of sines and cosines."""

from __future__ import annotations

import numpy as np

from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor
from .products import dot

#: A transform takes a matrix of as many rows as it has elements.
_LONGEST = 4096


@operator("DFT")
def dft(n: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    place = (
        int(n.settle(axis).reshape(-1)[0])
        if axis is not None
        else n.integer("axis", 1 if n.version < 20 else -2)
    )
    count = int(n.settle(length).reshape(-1)[0]) if length is not None else None
    return transformed(n, x, x.axis(place), count, n.flag("inverse"), n.flag("onesided"))


def transformed(n: Node, x: Tensor, axis: int, count: int | None, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of numbers whose last axis holds real and, if there is one, imaginary parts."""
    size = x.shape[axis]
    out = size if count is None else count
    if x.shape[-1] not in (1, 2) or axis == x.rank - 1:
        raise UserError(f"a transform along axis {axis} of {list(x.shape)}")
    if inverse and onesided:
        raise n.limit("an inverse transform of one side")
    if out > _LONGEST:
        raise n.limit(f"a transform of {out} elements", f"at most {_LONGEST}")
    used = min(out, size)
    x = x.part(axis, 0, used)
    shown = out // 2 + 1 if onesided else out
    # Products of whole numbers modulo the length keep the angles exact.
    angle = 2 * np.pi * (np.outer(np.arange(shown), np.arange(used)) % out) / out
    scale = 1 / out if inverse else 1.0
    cosine = n.verbs.known(np.cos(angle) * scale).cast(x.element)
    sine = n.verbs.known(np.sin(angle) * (scale if inverse else -scale)).cast(x.element)

    def product(part: Tensor, matrix: Tensor) -> Tensor:
        return dot(part, matrix, [axis], [1]).moved(-1, axis)

    real = x.at(-1, 0)
    first, second = product(real, cosine), product(real, sine)
    if x.shape[-1] == 2:
        imaginary = x.at(-1, 1)
        first, second = first - product(imaginary, sine), second + product(imaginary, cosine)
    return n.verbs.stacked([first, second], real.rank)


@operator("STFT")
def stft(
    n: Node, signal: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None
) -> Tensor:
    by = int(n.settle(step).reshape(-1)[0])
    if length is not None:
        size = int(n.settle(length).reshape(-1)[0])
    elif window is not None:
        size = window.shape[0]
    else:
        raise UserError("neither a window nor a length is given")
    signal = signal if signal.rank == 3 else signal.with_axes([-1])
    frames = (signal.shape[1] - size) // by + 1
    if frames < 1 or by < 1:
        raise UserError(f"frames of {size} elements do not fit into {signal.shape[1]}")
    places = np.arange(frames)[:, None] * by + np.arange(size)[None, :]
    parts = signal.take(n.verbs.known(places), 1)
    if window is not None:
        parts = parts * window.reshape([size, 1])
    return transformed(n, parts, 2, None, False, n.flag("onesided", True))
