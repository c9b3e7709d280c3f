# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms (`ops.fourier` has the algorithm), of frames too, and weights of mel bands."""

from __future__ import annotations

import numpy as np

from ....ir.types import TensorType, f32
from ....ops.fourier import Fourier
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("DFT")
def dft(n: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    place = (
        int(n.settle(axis).reshape(-1)[0])
        if axis is not None
        else n.integer("axis", 1 if n.version < 20 else -2)
    )
    count = int(n.settle(length).reshape(-1)[0]) if length is not None else None
    return transformed(x, x.axis(place), count, n.flag("inverse"), n.flag("onesided"))


def transformed(x: Tensor, axis: int, count: int | None, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of numbers whose last axis holds real and, if there is one, imaginary parts.

    Of real numbers one side is half of the result; the inverse of one side gives real numbers.
    """
    if x.shape[-1] not in (1, 2) or axis == x.rank - 1:
        raise UserError(f"a transform along axis {axis} of {list(x.shape)}")
    back = inverse and onesided
    size = x.shape[axis]
    out = count if count is not None else 2 * (size - 1) if back else size
    if out < 1:
        raise UserError(f"a transform of {out} elements")
    x = x.moved(axis, -2)
    real = x.at(-1, 0)
    imaginary = x.at(-1, 1) if x.shape[-1] == 2 else None
    fourier = Fourier(x.verbs, _type_of)
    if back:
        real, imaginary = fourier.mirrored(real, imaginary, out)
    shown = out // 2 + 1 if onesided and not inverse else out
    first, second = fourier.transform(real, imaginary, out, shown, inverse)
    parts = [first] if back else [first, second]
    made = x.verbs.stacked(parts, first.rank).moved(-2, axis)
    return made / out if inverse else made


def _type_of(x: Tensor) -> TensorType:
    return x.type


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
    frames = (signal.shape[1] - size) // by + 1 if by > 0 else 0
    if frames < 1:
        raise UserError(f"frames of {size} elements do not fit into {signal.shape[1]}")
    places = np.arange(frames)[:, None] * by + np.arange(size)[None, :]
    parts = signal.take(n.verbs.known(places), 1)
    if window is not None:
        parts = parts * window.reshape([size, 1])
    return transformed(parts, 2, None, False, n.flag("onesided", True))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    n: Node, bands: Tensor, length: Tensor, rate: Tensor, lowest: Tensor, highest: Tensor
) -> Tensor:
    """[frequency, band]: triangles with equidistant corners on the mel scale."""
    count, size = int(n.settle(bands).reshape(-1)[0]), int(n.settle(length).reshape(-1)[0])
    per_second = float(n.settle(rate).reshape(-1)[0])
    low, high = (float(n.settle(e).reshape(-1)[0]) for e in (lowest, highest))
    shown = size // 2 + 1
    if count < 1 or not 0 <= low < high:
        raise UserError(f"{count} bands from {low} to {high} Hz")
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (low, high)]
    mels = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    corners = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // per_second).astype(np.int64)
    made = np.zeros((shown, count))
    for band in range(count):
        left, top, right = corners[band : band + 3].tolist()
        if left == top:
            made[min(top, shown - 1), band] = 1
        for i in range(left, min(top + 1, shown)):
            made[i, band] = made[i, band] if left == top else (i - left) / (top - left)
        for i in range(top, min(right, shown)):
            made[i, band] = (right - i) / (right - top)
    return n.verbs.known(made).cast(n.element("output_datatype", f32))
