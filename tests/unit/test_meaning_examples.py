# SPDX-License-Identifier: Apache-2.0
"""The kernels in examples/ compute what their comments say, in any order of their programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ngmlir.ir.types import TensorType, shape_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"


def matmul(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x @ w


def dense(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(x @ w + b, 0)


def convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
    return np.einsum("nhwcij,ijck->nhwk", windows, w)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ k.transpose(0, 2, 1) / 4) @ v


def recurrence(h: np.ndarray, xs: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
    states = []
    for x in xs:
        h = np.tanh(x + h @ u)
        states.append(h)
    return h, np.stack(states)


MEANS: dict[str, Callable[..., np.ndarray | tuple[np.ndarray, ...]]] = {
    "packed_matmul": dense,
    "direct_conv": convolution,
    "softmax_one_pass": softmax,
    "online_attention": attention,
    "scan_step": recurrence,
    "pipelined_matmul": matmul,
}


def test_every_kernel_is_tested() -> None:
    assert {p.stem for p in FOLDER.glob("*.ngir")} == set(MEANS)


@pytest.mark.parametrize("name", MEANS)
def test_example(name: str) -> None:
    path = FOLDER / f"{name}.ngir"
    module = from_text(path.read_text(encoding="utf-8"), file=str(path))
    assert to_text(from_text(to_text(module))) == to_text(module)
    main = module.lookup("main")
    assert main is not None
    rng = np.random.default_rng(0)
    types = [a.type for a in main.regions[0].block.args]
    assert all(isinstance(t, TensorType) for t in types)
    arrays = [rng.normal(size=shape_of(t)).astype(np.float32) for t in types]
    wanted = MEANS[name](*[a.astype(np.float64) for a in arrays])
    found = run(module, *arrays)
    for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-5)
    for order in range(2):
        assert all(
            np.array_equal(a, b) for a, b in zip(found, run(module, *arrays, order=order), strict=True)
        )


def test_softmax_in_one_pass_stands_infinities() -> None:
    module = from_text((FOLDER / "softmax_one_pass.ngir").read_text(encoding="utf-8"))
    x = np.random.default_rng(1).normal(size=(7, 1000)).astype(np.float32) * 30
    x[1, :300] = -np.inf
    x[2] = -np.inf
    x[3, 999] = np.inf
    x[4, 5] = np.nan
    with np.errstate(invalid="ignore"):
        wanted = softmax(x.astype(np.float64))
    assert np.allclose(run(module, x)[0], wanted, rtol=1e-5, atol=1e-7, equal_nan=True)
