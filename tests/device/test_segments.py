# SPDX-License-Identifier: Apache-2.0
"""Segments by offsets on each target: values against NumPy, and gradients, with empty segments, one, and none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

Array = np.ndarray[Any, Any]
TARGETS = ["numpy", "cpu", "cuda-sim"]
#: Lengths of segments: of 0 to 9 rows, one, none, one row, long ones.
LENGTHS = [[3, 0, 9, 1, 4, 0, 2, 7, 5, 8, 6, 0], [5], [], [1], [0, 0], [0, 200, 3, 0]]


def offsets_of(lengths: Sequence[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.int32)


def cumulated(f: Callable[..., Any]) -> Callable[[Array], Array]:
    return lambda rows: f(rows, axis=0)


def softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(axis=0, initial=-np.inf))
    return powers / powers.sum(axis=0)


#: Function of the graph -> what it makes of the rows of one segment.
REDUCED: dict[str, Callable[[Array], Any]] = {
    "segment_sum": lambda rows: rows.sum(axis=0),
    "segment_prod": lambda rows: rows.prod(axis=0),
    "segment_max": lambda rows: rows.max(axis=0, initial=-np.inf),
    "segment_min": lambda rows: rows.min(axis=0, initial=np.inf),
    "segment_mean": lambda rows: rows.sum(axis=0) / max(1, len(rows)),
    "segment_first": lambda rows: rows[0] if len(rows) else np.zeros(rows.shape[1:]),
    "segment_last": lambda rows: rows[-1] if len(rows) else np.zeros(rows.shape[1:]),
}
ALONG: dict[str, Callable[[Array], Array]] = {
    "segment_softmax": softmax,
    "segment_cumulative_sum": cumulated(np.cumsum),
    "segment_cumulative_prod": cumulated(np.cumprod),
    "segment_cumulative_max": cumulated(np.maximum.accumulate),
    "segment_cumulative_min": cumulated(np.minimum.accumulate),
}


def expected(f: Callable[[Array], Any], x: Array, lengths: Sequence[int], stacked: bool) -> Array:
    """`f` of the rows of each segment, which lie along dimension 0."""
    parts = [f(part) for part in np.split(x, np.cumsum(lengths)[:-1])] if len(lengths) else []
    if not parts:
        return np.zeros((0, *x.shape[1:]))
    return np.stack(parts) if stacked else np.concatenate(parts)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("inner", [(), (3,), (70,)], ids=str)
def test_values(target: str, lengths: list[int], inner: tuple[int, ...]) -> None:
    total = sum(lengths)
    rows, count = ng.make_axis(total, "T"), ng.make_axis(len(lengths) + 1, "O")
    segments = ng.make_axis(len(lengths), "S")
    beside = [ng.make_axis(size, "C") for size in inner]
    x, short = ng.placeholder([rows, *beside]), ng.placeholder([segments, *beside])
    offsets = ng.placeholder([count], dtype="int32")
    made = [getattr(ng, name)(x, offsets, axis=rows) for name in (*REDUCED, *ALONG)]
    made += [ng.segment_expand(short, offsets, axis=segments, rows=rows), ng.segment_lengths(offsets)]
    rng = np.random.default_rng(total)
    a, b = rng.uniform(-1.5, 1.5, (total, *inner)), rng.normal(size=(len(lengths), *inner))
    run = ng.transformers.make_transformer(target).computation(made, x, short, offsets)
    got = run(a, b, offsets_of(lengths))
    wanted = [expected(f, a, lengths, True) for f in REDUCED.values()]
    wanted += [expected(f, a, lengths, False) for f in ALONG.values()]
    wanted += [b.repeat(lengths, axis=0), np.array(lengths)]
    for name, found, want in zip((*REDUCED, *ALONG, "expand", "lengths"), got, wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i8", "ui8", "i32", "i64"])
def test_element_types(target: str, element: str) -> None:
    """As the ops on one segment, whole, do: to the bit, as sums of small integers are exact."""
    lengths = [2, 0, 17, 1, 40]
    rows, count = ng.make_axis(60, "T"), ng.make_axis(6, "O")
    x, offsets = ng.placeholder([rows], dtype=element), ng.placeholder([count], dtype="int32")
    dtype = {"dtype": element}
    made = [ng.segment_sum(x, offsets, rows, **dtype), ng.segment_cumulative_sum(x, offsets, rows, **dtype)]
    made += [f(x, offsets, rows) for f in (ng.segment_max, ng.segment_min, ng.segment_first, ng.segment_last)]
    a = np.random.default_rng(0).integers(0, 3, 60)
    run = ng.transformers.make_transformer(target).computation(made, x, offsets)
    got = run(a.astype(x.dtype), offsets_of(lengths))
    keys = [
        "segment_sum",
        "segment_cumulative_sum",
        "segment_max",
        "segment_min",
        "segment_first",
        "segment_last",
    ]
    for key, found in zip(keys, got, strict=True):
        stacked = key in REDUCED
        wanted = expected({**REDUCED, **ALONG}[key], a.astype(np.float64), lengths, stacked)
        filled = np.isfinite(wanted)
        np.testing.assert_array_equal(found.astype(np.float64)[filled], wanted[filled], err_msg=key)
        assert found.dtype == x.dtype


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", [[3, 0, 2, 1], [4], [0], []], ids=str)
def test_gradients_of_first_and_second_order(target: str, lengths: list[int]) -> None:
    """On each target those of the reference, which differences hold (tests/laws/test_slopes.py), with empty segments too."""
    total = sum(lengths)
    rows, count = ng.make_axis(total, "T"), ng.make_axis(len(lengths) + 1, "O")
    segments, inner = ng.make_axis(len(lengths), "S"), ng.make_axis(2, "C")
    rng = np.random.default_rng(3)
    with ng.default_float("f64"):
        x, short = ng.placeholder([rows, inner]), ng.placeholder([segments, inner])
        offsets = ng.placeholder([count], dtype="int32")
        made = [getattr(ng, name)(x, offsets, axis=rows) for name in (*REDUCED, *ALONG)]
        made.append(ng.segment_expand(ng.square(short), offsets, axis=segments, rows=rows))
        gradients: list[Any] = []
        for each in made:
            weights = ng.constant(rng.uniform(0.5, 1.5, each.axes.known_shape), axes=each.axes)
            finite = ng.less(ng.absolute(each), 1e300)
            loss = ng.sum(ng.where(finite, each, 0.0) * weights, out_axes=())
            by = short if each is made[-1] else x
            first = ng.deriv(loss, by)
            again = rng.uniform(0.5, 1.5, first.axes.known_shape)
            mixed = ng.sum(ng.square(first) * ng.constant(again, axes=first.axes), out_axes=())
            gradients += [loss, first, ng.deriv(mixed, by)]
    arrays = rng.normal(size=(total, 2)), rng.normal(size=(len(lengths), 2)), offsets_of(lengths)

    def values(name: str) -> Any:
        return ng.transformers.make_transformer(name).computation(gradients, x, short, offsets)(*arrays)

    for found, wanted in zip(values(target), values("numpy"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_what_is_refused() -> None:
    rows, wrong = ng.make_axis(6, "T"), ng.make_axis(3, "W")
    x = ng.placeholder([rows])
    with pytest.raises(ng.UserError, match="offsets have one axis"):
        ng.segment_sum(x, ng.placeholder([rows, wrong], dtype="int32"), axis=rows)
    with pytest.raises(ng.UserError, match="offsets have one axis, not 2"):
        ng.segment_sum(x, [[0, 6]], axis=rows)
    with pytest.raises(ng.UserError, match="has 3 rows, but the offsets tell of 2 segments"):
        ng.segment_expand(ng.placeholder([wrong]), [0, 3, 6], axis=wrong, rows=rows)
