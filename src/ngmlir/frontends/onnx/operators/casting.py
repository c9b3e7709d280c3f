# SPDX-License-Identifier: Apache-2.0
"""Other elements: the same numbers, or the same bits."""

from __future__ import annotations

from ....ir.definition import is_narrow
from ....ir.narrow import NARROW
from ....ir.types import FloatType, Type, f32, f64, i1, i32, i64, ui8
from ..nodes import Node, operator
from ..tensor import Tensor

#: Bits of the fraction of f64.
_FRACTION = (1 << 52) - 1


@operator("Cast")
def cast(n: Node, x: Tensor) -> Tensor:
    return converted(n, x, n.element("to", f32))


@operator("CastLike")
def cast_like(n: Node, x: Tensor, like: Tensor) -> Tensor:
    return converted(n, x, like.element)


def converted(n: Node, x: Tensor, element: Type) -> Tensor:
    """A cast as the node says it: floats of 8 bits hold to their ends, unless it says that they do not."""
    form = NARROW.get(element.text)
    if is_narrow(element) and form is None and x.is_float:
        return x.cast(i32).cast(
            element
        )  # beyond the type as between integers, where the standard leaves it open
    if form is None or element is x.element:
        return x.cast(element)
    if is_narrow(x.element) or not isinstance(x.element, FloatType):
        x = x.cast(f32)
    greatest = form.magnitude(form.greatest)
    if form.powers:
        # In f64 all of them are ordinary numbers, whose fraction is zero.
        x = x.cast(f64)
        if n.flag("saturate", True):
            x = x.maximum(form.magnitude(0)).minimum(greatest)
        mode = n.text("round_mode", "up")
        if mode != "nearest":
            bits = x.bitcast(i64) + (_FRACTION if mode == "up" else 0)
            x = n.verbs.bitwise_and(bits, n.verbs.numbers(~_FRACTION, i64, x.shape)).bitcast(f64)
    elif n.flag("saturate", True):
        x = x.maximum(-greatest).minimum(greatest)
    return x.cast(element)


@operator("BitCast")
def bit_cast(n: Node, x: Tensor) -> Tensor:
    element = n.element("to", f32)
    # A truth value takes 8 bits, of which all are zero or the lowest is one.
    if x.element is i1 and element is not i1:
        x = x.cast(ui8)
    return x.bitcast(ui8).cast(i1) if element is i1 and x.element is not i1 else x.bitcast(element)
