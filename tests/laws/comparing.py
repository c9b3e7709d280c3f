# SPDX-License-Identifier: Apache-2.0
"""Whether two results are the same: to the bit, or nearly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ngmlir.ir.core import Block, Module, module
from ngmlir.ops import func
from ngmlir.ops.builder import function
from ngmlir.ops.interpreter import run

Array = np.ndarray[Any, Any]


def is_number(array: Array) -> bool:
    """Floats, `bf16` among them."""
    return array.dtype.kind not in "biu"


def assert_same_bits(got: Sequence[Array], wanted: Sequence[Array], what: str = "") -> None:
    """Equal types, shapes and bits, except that all NaNs are alike."""
    _assert_alike(got, wanted, what)
    for i, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        bits = np.dtype(f"u{ours.dtype.itemsize}")
        same = np.ascontiguousarray(ours).view(bits) == np.ascontiguousarray(theirs).view(bits)
        if is_number(ours):
            same |= (np.isnan(ours) & np.isnan(theirs)).reshape(same.shape)
        _report(same.reshape(ours.shape), ours, theirs, f"{what}: result {i}")


def assert_close(got: Sequence[Array], wanted: Sequence[Array], scale: float = 1.0, what: str = "") -> None:
    """Floats nearly equal, where numbers of size `scale` were summed and rounded on the way; all else the same."""
    _assert_alike(got, wanted, what)
    for i, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        if not is_number(ours):
            assert_same_bits([ours], [theirs], f"{what}: result {i}")
            continue
        step = 2.0**-7 if ours.itemsize == 2 else 2.0**-16
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        largest = max(scale, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        near = np.isclose(a, b, rtol=4 * step, atol=step * largest, equal_nan=True)
        if ours.dtype == np.float16:
            near |= np.abs(b) > 3e4  # a last bit decides whether it is infinite
        _report(near, ours, theirs, f"{what}: result {i}")


def assert_within(got: Sequence[Array], wanted: Sequence[Array], ulps: int, what: str = "") -> None:
    """Floats at most `ulps` units in the last place apart, NaN where NaN is wanted, zeros with their sign; all else the same."""
    _assert_alike(got, wanted, what)
    for i, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        if not is_number(ours):
            assert_same_bits([ours], [theirs], f"{what}: result {i}")
            continue
        a, b = _ordered(ours), _ordered(theirs)
        with np.errstate(over="ignore"):
            near = np.where(a > b, a - b, b - a).astype(np.uint64) <= ulps
        nan = np.isnan(ours), np.isnan(theirs)
        zero = (ours == 0) & (theirs == 0)
        near &= ~zero | (np.signbit(ours) == np.signbit(theirs))
        _report(np.where(nan[0] | nan[1], nan[0] & nan[1], near), ours, theirs, f"{what}: result {i}")


def _ordered(array: Array) -> Array:
    """Floats as integers in the same order, one apart where they are neighbours."""
    bits = np.ascontiguousarray(array).view(f"i{array.itemsize}").reshape(array.shape).astype(np.int64)
    lowest = np.int64(-1) << (8 * array.itemsize - 1)
    return np.where(bits < 0, lowest - bits, bits)


def largest_number(of: Module, arrays: Sequence[Array]) -> float:
    """The largest finite number among all values that @main computes."""
    main = of.lookup("main")
    assert main is not None
    values = [v for op in main.block.ops for v in op.results]
    block = Block()
    block.args = main.block.args
    block.ops = [*main.block.ops[:-1], func.ReturnOp(values)]
    found = run(module([function("main", block)]), *arrays)
    numbers = [np.abs(a.astype(np.float64)) for a in found if is_number(a)]
    return max([1.0, *(float(n[np.isfinite(n)].max(initial=0)) for n in numbers)])


def _assert_alike(got: Sequence[Array], wanted: Sequence[Array], what: str) -> None:
    assert len(got) == len(wanted), f"{what}: {len(got)} results instead of {len(wanted)}"
    for i, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        kinds = (ours.dtype, ours.shape), (theirs.dtype, theirs.shape)
        assert kinds[0] == kinds[1], f"{what}: result {i} is {kinds[0]} instead of {kinds[1]}"


def _report(good: Array, ours: Array, theirs: Array, what: str) -> None:
    if not good.all():
        first = tuple(np.argwhere(~good)[0])
        count = int((~good).sum())
        raise AssertionError(
            f"{what} differs in {count} places, at {first}: {ours[first]!r} instead of {theirs[first]!r}"
        )
