# SPDX-License-Identifier: Apache-2.0
"""What tests of functions of networks share: values and derivatives on every target that is always here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor

Array = np.ndarray[Any, Any]
TARGETS = ("numpy", "cpu", "cuda-sim")
COMPILED = TARGETS[1:]


def named(text: str, *lengths: int) -> list[ng.Axis]:
    return [ng.make_axis(n, name) for n, name in zip(lengths, text.split(), strict=True)]


def drawn(*axes: ng.Axis, seed: int = 0) -> Array:
    return np.random.RandomState(seed).uniform(-1, 1, [a.known_length for a in axes])


def on(
    target: str, build: Callable[..., Any], values: Sequence[Any], axes: Sequence[Sequence[ng.Axis]]
) -> Any:
    """What `build` makes of placeholders that are fed these values."""
    inputs = [ng.placeholder(a) for a in axes]
    return ng.transformers.make_transformer(target).computation(build(*inputs), *inputs)(*values)


def derivatives(build: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """Of a weighted sum of what `build` makes: the value, all first derivatives, and those of their squares."""

    def made(*inputs: Tensor) -> list[Tensor]:
        out = build(*inputs)
        weights = np.random.RandomState(7).uniform(0.5, 1.5, out.axes.known_shape)
        total = ng.sum(out * ng.constant(weights, out.axes, dtype=out.element), out_axes=())
        firsts = [ng.deriv(total, x) for x in inputs]
        squares = sum((ng.sum(ng.square(d), out_axes=()) for d in firsts), ng.constant(0, dtype=out.element))
        return [out, *firsts, *(ng.deriv(squares, x) for x in inputs)]

    return made


def agree(
    build: Callable[..., Tensor], values: Sequence[Any], axes: Sequence[Sequence[ng.Axis]], *targets: str
) -> None:
    """Values and derivatives on the targets (unless given all) are those of the reference, but for the rounding of f32."""
    wanted = on("numpy", derivatives(build), values, axes)
    for target in targets or COMPILED:
        for found, right in zip(on(target, derivatives(build), values, axes), wanted, strict=True):
            scale = max(1.0, float(np.abs(right).max(initial=0)))
            np.testing.assert_allclose(found / scale, right / scale, atol=2e-5, err_msg=target)


def check_directions(
    build: Callable[..., Tensor], values: Sequence[Array], axes: Sequence[Sequence[ng.Axis]], target: str
) -> None:
    """First derivatives within 1e-6 and second ones within 1e-5 of central differences in f64, along directions in which
    all elements of all inputs move: a few runs tell what differences by each element would."""
    with ng.default_float("f64"):
        inputs = [ng.placeholder(a) for a in axes]
        value, *slopes = derivatives(build)(*inputs)
        weights = np.random.RandomState(7).uniform(0.5, 1.5, value.axes.known_shape)
        count = len(values)
        squares = sum((ng.sum(ng.square(d), out_axes=()) for d in slopes[:count]), ng.constant(0))
        run = ng.transformers.make_transformer(target).computation([value, squares, *slopes], *inputs)
    _, _, *got = run(*values)

    def at(step: float, moves: Sequence[Array]) -> Array:
        out, mixed, *_ = run(*(v + step * m for v, m in zip(values, moves, strict=True)))
        return np.array([(out * weights).sum(), mixed])

    random = np.random.RandomState(3)
    for _ in range(3):
        moves = [random.uniform(0.5, 1, v.shape) * random.choice([-1, 1], v.shape) for v in values]
        differences = (at(1e-5, moves) - at(-1e-5, moves)) / 2e-5
        for which, allowed in ((0, 1e-6), (1, 1e-5)):
            slope = sum((g * m).sum() for g, m in zip(got[which * count :], moves, strict=False))
            scale = max(1.0, *(float(np.abs(g).max()) for g in got[which * count : (which + 1) * count]))
            np.testing.assert_allclose(
                slope / scale, differences[which] / scale, rtol=allowed, atol=allowed, err_msg=target
            )
