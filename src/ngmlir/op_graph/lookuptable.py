# SPDX-License-Identifier: Apache-2.0
"""The update of a looked-up table: its gradient, asked for by itself."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ops import ng
from .axes import Axes
from .deriv import deriv
from .errors import IncompatibleAxesError, UserError, fail
from .functions.index import indices_of
from .functions.index import lookuptable as lookuptable
from .functions.shape import reshaped
from .node_classes import node_class
from .tensor import Tensor
from .values import as_op
from .verbs import VERBS

#: The class of what `lookuptable` gives.
LookupTableOp = node_class(ng.LookupOp)


def lookuptable_update(delta: Any, lut: Tensor, idx: Any, fprop: Tensor) -> Tensor:
    """The gradient by the table `lut` of `fprop`, a result of `ng.lookuptable`: row by row the sum of what `delta` holds for
    its index. Row `pad_idx` of `fprop` stays 0.

    `delta` has the axes of `fprop`, in any order; or those of `idx` in place of the ones that `fprop` was made of. If there are
    more of the one than of the other, they are taken row by row. `ng.deriv` gives the same.

    Raises UserError where `fprop` looks nothing up, IncompatibleAxesError for axes that do not fit.
    """
    made = fprop.forwarded
    if not isinstance(made, Tensor) or made.operation is not ng.LookupOp:
        fail(UserError, f"{fprop.called} is not a result of ng.lookuptable")
    delta, idx = as_op(delta), indices_of(idx)
    axis: int = made.attributes["axis"]
    kept = lut.axes[1 - axis]
    rows = Axes(a for a in delta.axes if a != kept)
    if not rows.is_equal_set(idx.axes):
        if prod(a.known_length for a in rows) != prod(a.known_length for a in idx.axes):
            fail(
                IncompatibleAxesError,
                f"the delta has axes ({', '.join(delta.axes.names)}), the indices ({', '.join(idx.axes.names)})",
            )
        idx = reshaped(idx, rows)
    found = VERBS.lookup(lut, idx, axis=axis, pad=made.attributes["pad"])
    return deriv(found, lut, delta)


def update_lut(delta: Any, lut: Tensor, idx: Any, fprop: Tensor) -> Tensor:
    """Another name of `lookuptable_update`."""
    return lookuptable_update(delta, lut, idx, fprop)


def bprop_lut(delta: Any, lut: Tensor, idx: Any, fprop: Tensor) -> Tensor:
    """Another name of `lookuptable_update`: what is looked up gets no gradient, only the table does."""
    return lookuptable_update(delta, lut, idx, fprop)
