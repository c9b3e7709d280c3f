# SPDX-License-Identifier: Apache-2.0
"""Attention with masks of all shapes, and its gradients, on a CPU; against the `numpy` target in double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng

#: Batch, heads that share keys, queries, keys, elements of queries and of values.
SIZES = [(2, 3, 37, 37, 5, 7), (1, 2, 65, 150, 16, 16), (2, 1, 9, 261, 3, 33), (1, 1, 131, 17, 8, 1)]
#: The dimensions of masks: batch, heads, queries, keys.
SHAPES = ("LT", "GLT", "BLT", "BGLT", "BT", "T", "L", "GL", "TL")
BOUNDS = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 5e-2, "float16": 5e-3}


def masks(form: str, axes: dict[str, Any], dtype: str) -> tuple[list[Any], list[Any], Any]:
    """The inputs of masks, their arrays, and the function that applies them to scores. `form`: parts that are joined by `+`."""
    random = np.random.default_rng(len(form))
    inputs: list[Any] = []
    arrays: list[Any] = []
    L, T = axes["L"], axes["T"]
    query, key = ng.iota([L], L) + ng.constant(np.int32(max(0, T.length - L.length))), ng.iota([T], T)

    def also(shape: str, array: Any, kind: str) -> Any:
        inputs.append(ng.placeholder([axes[name] for name in shape], dtype=kind))
        arrays.append(array)
        return inputs[-1]

    def apply(scores: Any) -> Any:
        for part in form.split("+"):
            kind, _, shape = part.partition(" ")
            lengths = [axes[name].length for name in shape]
            if kind == "causal":
                scores = ng.where(key <= query, scores, -np.inf)
            elif kind == "window":
                scores = ng.where(ng.logical_and(key <= query, query - key < 40), scores, -np.inf)
            elif kind == "seen":
                scores = ng.where(also(shape, random.random(lengths) < 0.6, "bool"), scores, -np.inf)
            elif kind.startswith("fill="):
                seen = random.random(lengths) < 0.6
                seen[..., : lengths[-1] // 2] = False  # whole blocks
                seen[len(seen) // 2] = False  # queries without keys
                scores = ng.where(also(shape, seen, "bool"), scores, float(kind.removeprefix("fill=")))
            elif kind == "raised":
                scores = scores + also(shape, 500 * random.random(lengths), dtype)
            else:
                added = 3 * random.standard_normal(lengths)
                added[random.random(lengths) < 0.3] = -np.inf
                if shape == "LT":
                    added[len(added) // 2] = -np.inf  # a query without keys
                    added[: len(added) // 2, -len(added.T) // 3 :] = -np.inf  # whole blocks
                scores = scores + also(shape, added, dtype)
        return scores

    return inputs, arrays, apply


def program(sizes: tuple[int, ...], form: str, dtype: str, target: str) -> tuple[Any, list[Any]]:
    """Attention and its gradients, and the arguments in double precision."""
    axes = {name: ng.make_axis(n, name=name) for n, name in zip(sizes, "BGLTDE", strict=True)}
    B, G, L, T, D, E = axes.values()
    sides = [[B, G, L, D], [B, T, D], [B, T, E], [B, G, L, E]]
    q, k, v, error = (ng.placeholder(own, dtype=dtype) for own in sides)
    more, arrays, apply = masks(form, axes, dtype)
    scores = apply(ng.dot(q, k, batch_axes=[B]) * D.length**-0.5)
    result = ng.dot(ng.softmax(scores, normalization_axes=[T]), v, batch_axes=[B])
    result = ng.axes_with_order(result, error.axes)
    outputs = [result, *(ng.deriv(result, x, error) for x in (q, k, v))]
    random = np.random.default_rng(0)
    arrays = [*(random.standard_normal([a.length for a in own]) for own in sides), *arrays]
    return ng.compile(outputs, [q, k, v, error, *more], target=target), arrays


def check(sizes: tuple[int, ...], form: str, dtype: str) -> None:
    ours, arrays = program(sizes, form, dtype, "cpu")
    reference, _ = program(sizes, form, "float64", "numpy")
    own = np.dtype(getattr(ml_dtypes, dtype, dtype))
    given = [x if x.dtype == bool else x.astype(own) for x in arrays]
    with np.errstate(all="ignore"):
        wanted = reference(*(x if x.dtype == bool else x.astype(np.float64) for x in given))
    for got, want in zip(ours(*given), wanted, strict=True):
        got = np.asarray(got).astype(np.float64)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        bound = BOUNDS[dtype] * max(1.0, np.nanmax(np.abs(want), initial=0))
        np.testing.assert_allclose(got, want, rtol=0, atol=bound)


@pytest.mark.parametrize("kind", ["added", "seen"])
@pytest.mark.parametrize("shape", SHAPES)
def test_masks_of_all_shapes(shape: str, kind: str) -> None:
    check(SIZES[0], f"{kind} {shape}", "float32")


@pytest.mark.parametrize("shape", ["LT", "BGLT", "TL"])
@pytest.mark.parametrize("sizes", SIZES[1:], ids=str)
def test_masks_that_are_added(sizes: tuple[int, ...], shape: str) -> None:
    check(sizes, f"added {shape}", "float32")


@pytest.mark.parametrize(
    "form", ["added LT+causal", "window+added GLT", "added BT+added LT", "seen LT+added BLT+causal"]
)
@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
def test_several_masks(sizes: tuple[int, ...], form: str) -> None:
    check(sizes, form, "float32")


@pytest.mark.parametrize("fill", [-3.4028234663852886e38, -1e12, -1e9, -1e4, -20.0])
@pytest.mark.parametrize("form", ["LT", "BT", "LT+causal", "LT+raised LT"])
@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
def test_scores_masked_by_finite_numbers(sizes: tuple[int, ...], form: str, fill: float) -> None:
    """A query without keys attends to all of them equally, whatever the number is."""
    if form == "LT+raised LT" and abs(fill) > 1e3:
        return  # float32 loses digits of the numbers that are added
    check(sizes, f"fill={fill} {form}".replace("e+", "e"), "float32")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("form", ["added LT", "added BGLT+causal"])
def test_other_elements(form: str, dtype: str) -> None:
    for sizes in SIZES[:2]:
        check(sizes, form, dtype)
