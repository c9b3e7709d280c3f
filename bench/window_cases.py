# SPDX-License-Identifier: Apache-2.0
"""The convolutions and poolings of bench/ops.py: their sizes are fixed, `--sizes` does not change them.

Beside a convolution stands NumPy's product of the windows put side by side, which is given them: its time is that of
the product alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from op_cases import Case, Cases, Numpy, Operand, Shape, tensor

#: Side of the image, channels, filters, taps along each side, step.
CONVOLUTIONS = (
    (56, 64, 64, 3, 1),
    (28, 128, 128, 3, 1),
    (14, 256, 256, 3, 1),
    (7, 512, 512, 3, 1),
    (56, 128, 128, 3, 2),
    (56, 64, 256, 1, 1),
    (14, 1024, 256, 1, 1),
    (224, 3, 64, 7, 2),
)
#: Side, channels, step.
DEPTHWISE = ((56, 64, 1), (28, 128, 1), (112, 32, 1), (112, 64, 2))
#: Side, channels, taps, step.
POOLINGS = ((112, 64, 2, 2), (112, 64, 3, 2), (56, 128, 3, 1))


def windows() -> Iterator[Case]:
    """Made one after the other, as they are asked for."""
    for layout, sizes in product(("NHWC", "NCHW"), CONVOLUTIONS):
        yield _convolution(layout, *sizes)
    for sizes in DEPTHWISE:
        yield _depthwise(*sizes)
    for layout, sizes in product(("NHWC", "NCHW"), POOLINGS):
        yield _pooling(layout, *sizes)


def _found(family: str, name: str, *details: object, **more: object) -> Case:
    shape: Shape = details[1][0]  # type: ignore[index]
    cases = Cases(int(np.prod(shape)))
    cases.add(family, name, *details, **more)  # type: ignore[arg-type]
    return cases.found[0]


def _seen(x: np.ndarray, taps: int, step: int, low: int, fill: float, first: int) -> np.ndarray:
    """The windows of an image whose sides are dimensions `first` and the next one, taps before all."""
    around = [(low, low) if d in (first, first + 1) else (0, 0) for d in range(x.ndim)]
    wide = np.pad(x, around, constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(wide, (taps, taps), (first, first + 1))
    steps = tuple(slice(None, None, step if d in (first, first + 1) else 1) for d in range(x.ndim))
    return np.moveaxis(found[steps], (-2, -1), (0, 1))


def _windowed(
    x: Operand, taps: int, step: int, low: int, first: int, fill: str = ""
) -> tuple[str, Operand, Operand]:
    """The text of the windows of %a as %n, and the shapes of what is padded and of these."""
    shape, kind = x
    around = [low if d in (first, first + 1) else 0 for d in range(4)]
    wide = tuple(s + 2 * a for s, a in zip(shape, around, strict=True))
    counts = tuple((s - taps) // step + 1 if d in (first, first + 1) else s for d, s in enumerate(wide))
    p, n = (wide, kind), ((taps, taps, *counts), kind)
    text = (
        f"  %p = ng.pad %a low {around} high {around}{fill} : ({tensor(x)}) -> {tensor(p)}\n"
        f"  %n = ng.windows %p axes [{first}, {first + 1}] steps [{step}, {step}] dilations [1, 1]"
        f" : ({tensor(p)}) -> {tensor(n)}\n"
    )
    return text, p, n


def _convolution(layout: str, side: int, channels: int, filters: int, taps: int, step: int) -> Case:
    last = layout == "NHWC"
    a: Operand = ((1, side, side, channels) if last else (1, channels, side, side), "f32")
    b: Operand = ((taps, taps, channels, filters) if last else (filters, channels, taps, taps), "f32")
    first = 1 if last else 2
    text, _, n = _windowed(a, taps, step, taps // 2, first)
    out = n[0][2 + first]
    d: Operand = ((1, out, out, filters), "f32")
    r = d if last else ((1, filters, out, out), "f32")
    where = "contract [0, 1, 5] x [0, 1, 2]" if last else "contract [0, 1, 3] x [2, 3, 1]"
    name = "%r" if last else "%d"
    text += f"  {name} = ng.dot %n, %b {where} : ({tensor(n)}, {tensor(b)}) -> {tensor(d)}"
    if not last:
        text += f"\n  %r = ng.transpose %d perm [0, 3, 1, 2] : ({tensor(d)}) -> {tensor(r)}"
    depth = taps * taps * channels
    given: dict[int, np.ndarray] = {}

    def numpy(x: np.ndarray, w: np.ndarray, result: np.ndarray) -> None:
        if not given:
            seen = _seen(x, taps, step, taps // 2, 0, first)
            order = (2, 3, 4, 0, 1, 5) if last else (3, 0, 1, 2, 4, 5)
            shape = (out * out, depth) if last else (depth, out * out)
            given[0] = np.ascontiguousarray(seen.transpose(order)).reshape(shape)
        if last:
            np.matmul(given[0], w.reshape(depth, filters), out=result.reshape(out * out, filters))
        else:
            np.matmul(w.reshape(filters, depth), given[0], out=result.reshape(filters, out * out))

    label = f"{layout}_{taps}x{taps}_{side}x{side}x{channels}_{filters}" + (
        f"_step{step}" if step > 1 else ""
    )
    operations = 2 * out * out * depth * filters
    return _found("convolution", label, [a, b], r, text, numpy, operations=operations, tolerance=1e-4)


def _depthwise(side: int, channels: int, step: int) -> Case:
    a: Operand = ((1, side, side, channels), "f32")
    b: Operand = ((3, 3, channels), "f32")
    text, p, n = _windowed(a, 3, step, 1, 1)
    out = n[0][3]
    r: Operand = ((1, out, out, channels), "f32")
    text += (
        f"  %w = ng.broadcast %b dims [0, 1, 5] : ({tensor(b)}) -> {tensor(n)}\n"
        f"  %m = ng.multiply %n, %w : {tensor(n)}\n"
        f"  %r = ng.sum %m axes [0, 1] : ({tensor(n)}) -> {tensor(r)}"
    )
    wide, scaled = np.zeros(p[0], np.float32), np.empty(r[0], np.float32)

    def numpy(x: np.ndarray, w: np.ndarray, result: np.ndarray) -> None:
        wide[:, 1:-1, 1:-1] = x
        result[...] = 0
        for i, j in np.ndindex(3, 3):
            ends = i + (out - 1) * step + 1, j + (out - 1) * step + 1
            np.multiply(wide[:, i : ends[0] : step, j : ends[1] : step], w[i, j], out=scaled)
            np.add(result, scaled, out=result)

    label = f"3x3_{side}x{side}x{channels}" + (f"_step{step}" if step > 1 else "")
    operations = 2 * 9 * out * out * channels
    return _found("depthwise", f"depthwise_{label}", [a, b], r, text, numpy, operations=operations)


def _pooling(layout: str, side: int, channels: int, taps: int, step: int) -> Case:
    last = layout == "NHWC"
    a: Operand = ((1, side, side, channels) if last else (1, channels, side, side), "f32")
    first, low = (1 if last else 2), (taps - 1) // 2
    text, _, n = _windowed(a, taps, step, low, first, " {value = 0xFF800000 : f32}" if low else "")
    r: Operand = (n[0][2:], "f32")
    text += f"  %r = ng.max %n axes [0, 1] : ({tensor(n)}) -> {tensor(r)}"

    def numpy(x: np.ndarray, result: np.ndarray) -> None:
        seen = _seen(x, taps, step, low, -np.inf, first) if low else _seen(x, taps, step, 0, 0, first)
        np.copyto(result, seen[0, 0])
        for i, j in list(np.ndindex(taps, taps))[1:]:
            np.maximum(result, seen[i, j], out=result)

    way: Numpy = numpy
    return _found(
        "pooling", f"{layout}_max_{taps}x{taps}_{side}x{side}x{channels}_step{step}", [a], r, text, way
    )
