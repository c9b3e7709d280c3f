# SPDX-License-Identifier: Apache-2.0
"""`nonzero`, `flatnonzero`, `argwhere` and `unique` of `ng.numpy` beside NumPy's, with results of a stated size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

nn = ng.numpy


def run(function: Callable[[Any], Any], array: Any, target: str) -> list[Any]:
    x = nn.placeholder(array.shape, str(array.dtype))
    made = function(x)
    return ng.compile([*made] if isinstance(made, tuple) else [made], [x], target=target)(array)


def arrays() -> list[Any]:
    draw = np.random.default_rng(0)
    made: list[Any] = []
    for dtype in ("float64", "float32", "int32", "int64", "uint8", "bool"):
        for shape in ((0,), (1,), (7,), (3, 5), (2, 0, 3), (4, 3, 2)):
            array = (draw.integers(-3, 3, shape) * (draw.random(shape) < 0.6)).astype(dtype)
            if array.dtype.kind == "f" and array.size > 4:
                array.flat[:4] = -0.0, np.nan, np.inf, np.nan
            made.append(array)
    return made


ARRAYS = arrays()
#: On compiled targets a part of them.
OF_TARGET = {"numpy": ARRAYS, "cpu": ARRAYS[::3] + ARRAYS[2:5], "cuda-sim": ARRAYS[2:12:3]}


def filled(wanted: Any, size: int, fill: Any) -> Any:
    """The first `size` elements, or all of them and then `fill`."""
    return np.concatenate(
        [wanted, np.full((max(0, size - len(wanted)), *wanted.shape[1:]), fill, wanted.dtype)]
    )[:size]


@pytest.mark.parametrize("target", OF_TARGET)
def test_places_are_those_of_numpy(target: str) -> None:
    for array in OF_TARGET[target]:
        places, rows, flat = np.nonzero(array), np.argwhere(array), np.flatnonzero(array)
        for size in {len(flat), len(flat) + 3, max(len(flat) - 1, 0)}:

            def found(x: Any, size: int = size) -> Any:
                one = nn.flatnonzero(x, size=size, fill_value=-7)
                return one, nn.argwhere(x, size=size, fill_value=-7), *nn.nonzero(x, size=size, fill_value=-7)

            for made, wanted in zip(run(found, array, target), (flat, rows, *places), strict=True):
                assert made.dtype == np.int64
                np.testing.assert_array_equal(made, filled(wanted, size, -7))


@pytest.mark.parametrize("target", OF_TARGET)
def test_different_elements_are_those_of_numpy(target: str) -> None:
    for array in OF_TARGET[target]:
        values, index, inverse, counts = np.unique(array, True, True, True)
        for size in {len(values), len(values) + 2, max(len(values) - 1, 0)}:
            made = run(lambda x, n=size: nn.unique(x, True, True, True, size=n, fill_value=1), array, target)
            for one, wanted, fill in zip(
                made, (values, index, inverse, counts), (1, 0, None, 0), strict=True
            ):
                assert one.dtype == wanted.dtype
                expected = wanted if fill is None else filled(wanted, size, fill)
                np.testing.assert_array_equal(one, expected)


def test_unknown_lengths_are_refused_and_known_ones_are_not() -> None:
    x: Any = nn.placeholder((2, 3))
    functions: tuple[Callable[..., Any], ...] = (nn.nonzero, nn.flatnonzero, nn.argwhere, nn.unique)
    for function in functions:
        with pytest.raises(ng.UserError, match=rf"(?s){function.__name__}: the length.*hint: .*size=n"):
            function(x)
        with pytest.raises(ng.UserError, match="size is how many"):
            function(x, size=-1)
    known = np.array([[0, 2, 2], [1, 0, 2]])
    for made, wanted in (
        (nn.asarray(known).nonzero(), np.nonzero(known)), (nn.argwhere(known), [np.argwhere(known)]),
        (nn.unique(known, return_counts=True), np.unique(known, return_counts=True)),
    ):  # fmt: skip
        for one, other in zip(made if isinstance(made, tuple) else [made], wanted, strict=True):
            np.testing.assert_array_equal(ng.compile(one)(), other)
    with pytest.raises(ng.Limit, match="along an axis"):
        nn.unique(x, axis=0, size=1)
    with pytest.raises(ng.UserError, match="0d arrays"):
        nn.nonzero(x[0, 0], size=1)
    with pytest.raises(ng.UserError, match="nothing to fill"):
        nn.unique(x[:0], size=2)
    with pytest.raises(ng.UserError, match=r"nonzero\(condition, size=n\)"):
        x[x > 0]


def test_the_least_element_fills_and_gradients_reach_the_elements_that_are_taken() -> None:
    array = np.array([3.0, 1, 2, 1, 3])
    np.testing.assert_array_equal(run(lambda x: nn.unique(x, size=5), array, "numpy")[0], [1, 2, 3, 1, 1])
    slope = run(lambda x: ng.deriv((nn.unique(x, size=3) * [4.0, 5, 6]).sum(), x), array, "numpy")[0]
    np.testing.assert_array_equal(slope, [6, 4, 5, 0, 0])
    chosen = run(lambda x: x[nn.nonzero(x > 1.5, size=3)], array, "cpu")[0]
    np.testing.assert_array_equal(chosen, [3, 2, 3])
