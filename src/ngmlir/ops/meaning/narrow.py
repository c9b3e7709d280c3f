# SPDX-License-Identifier: Apache-2.0
"""What casts from and to floats of 8 bits and fewer and integers of 2 and 4 mean: all their codes are known, so one looks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.literals import bit_width, dtype_of
from ...ir.narrow import NARROW
from ...ir.types import IntegerType, Type
from .numbers import Array


def decoded(array: Array, element: Type) -> Array:
    """The numbers, exactly: f32, or integers of 8 bits."""
    codes = np.asarray(array).view(np.uint8) & np.uint8((1 << bit_width(element)) - 1)
    if element.text in NARROW:
        return np.array(NARROW[element.text].values, np.float32)[codes]
    assert isinstance(element, IntegerType)
    if element.unsigned:
        return codes
    return (codes ^ (1 << (element.width - 1))).astype(np.int8) - np.int8(1 << (element.width - 1))


def encoded(array: Array, element: Type) -> Array:
    """Numbers of a type that is computed with as elements of a narrow one."""
    array, dtype = np.asarray(array), dtype_of(element)
    codes = _float_codes(array, element) if element.text in NARROW else _integer_codes(array, element)
    return np.ascontiguousarray(codes.astype(np.uint8)).view(dtype).reshape(array.shape)


def _integer_codes(array: Array, element: Type) -> Array:
    assert isinstance(element, IntegerType)
    if array.dtype.kind not in "biu":
        low = 0 if element.unsigned else -(1 << (element.width - 1))
        whole = np.clip(np.trunc(array.astype(np.float64)), low, low + (1 << element.width) - 1)
        array = np.where(np.isnan(whole), 0, whole)
    return array.astype(np.int64) & ((1 << element.width) - 1)


def _float_codes(array: Array, element: Type) -> Array:
    form = NARROW[element.text]
    if array.dtype.kind in "biu":
        array = array.astype(np.float32)
    wide = array.astype(np.float64)
    size, negative = np.abs(wide), np.signbit(wide)
    middles = np.array(form.middles)
    codes: Array = np.searchsorted(middles, size)
    tie = size == middles[np.minimum(codes, form.greatest)]
    codes = codes + (tie & (form.powers | (codes & 1 == 1)))
    beyond: Any = form.greatest
    if form.infinity is not None or form.nan is not None:
        beyond = form.infinity if form.infinity is not None else form.nan
    codes = np.where(codes > form.greatest, beyond, codes)
    none = np.isnan(wide)
    if form.powers:
        none |= negative | (size < form.magnitude(0))
    codes = np.where(none, form.nan or 0, codes)
    unsigned = none if form.nan is None else codes == 0 if form.unsigned_zero else np.False_
    return np.where(negative & ~unsigned, codes | form.sign, codes)
