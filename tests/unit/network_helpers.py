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
    build: Callable[..., Tensor],
    values: Sequence[Any],
    axes: Sequence[Sequence[ng.Axis]],
    targets: Sequence[str] = COMPILED,
) -> None:
    """Values and derivatives are those of the reference, but for the rounding of f32."""
    wanted = on("numpy", derivatives(build), values, axes)
    for target in targets:
        for found, right in zip(on(target, derivatives(build), values, axes), wanted, strict=True):
            scale = max(1.0, float(np.abs(right).max(initial=0)))
            np.testing.assert_allclose(found / scale, right / scale, atol=2e-5, err_msg=target)
