# SPDX-License-Identifier: Apache-2.0
"""Operators that make one element of many."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from onnx import AttributeProto

from ....ir.types import TensorType, f64, i64, ui64
from ..nodes import OPERATORS, Node, operator
from ..tensor import Tensor
from .elementwise import towards_zero

Reduction = Callable[[Node, Tensor, "list[int] | None"], Tensor]


def _log_sum_exp(n: Node, x: Tensor, axes: list[int] | None) -> Tensor:
    top = x.max(axes, keep=True)
    top = n.verbs.absolute(top).equals(math.inf).where(n.verbs.numbers(0, x.element), top)
    return n.verbs.log(n.verbs.exp(x - top).sum(axes, keep=True)) + top


#: Each keeps the axes that it reduces, with one element.
_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda n, x, axes: x.sum(axes, keep=True),
    "ReduceMean": lambda n, x, axes: x.mean(axes, keep=True),
    "ReduceMax": lambda n, x, axes: x.max(axes, keep=True),
    "ReduceMin": lambda n, x, axes: x.min(axes, keep=True),
    "ReduceProd": lambda n, x, axes: x.product(axes, keep=True),
    "ReduceL1": lambda n, x, axes: n.verbs.absolute(x).sum(axes, keep=True),
    "ReduceL2": lambda n, x, axes: n.verbs.sqrt((x * x).sum(axes, keep=True)),
    "ReduceSumSquare": lambda n, x, axes: (x * x).sum(axes, keep=True),
    "ReduceLogSum": lambda n, x, axes: n.verbs.log(x.sum(axes, keep=True)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _mean_of_integers(n: Node, x: Tensor, axes: list[int] | None) -> Tensor:
    """Rounded towards zero, as integers are divided."""
    wide = ui64 if x.is_unsigned else i64
    total = x.cast(wide).sum(axes, keep=True)
    count = prod(x.shape[a] for a in (range(x.rank) if axes is None else axes))
    return towards_zero(n, total, n.verbs.numbers(count, wide, total.shape)).cast(x.element)


#: Reductions whose results are no integers, of integers: computed in f64, and rounded towards zero.
_ROUNDED = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"})


def _reduced(n: Node, x: Tensor, axes: list[int]) -> Tensor:
    if not x.is_float and n.op == "ReduceMean":
        return _mean_of_integers(n, x, axes)
    if not x.is_float and n.op in _ROUNDED:
        return _REDUCTIONS[n.op](n, x.cast(f64), axes).cast(x.element)
    return _REDUCTIONS[n.op](n, x, axes)


def _reduce(n: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    wanted = n.either(axes, "axes") or None
    if wanted is None and n.flag("noop_with_empty_axes"):
        # Nothing is reduced, but what is done to each element is done.
        wanted = []
    places = x.axes(wanted)
    made = _reduced(n, x, list(places))
    return made if n.flag("keepdims", True) else made.without_axes(places)


OPERATORS.update({("", name): _reduce for name in _REDUCTIONS})


@operator("ArgMax", "ArgMin")
def arg_extreme(n: Node, x: Tensor) -> Tensor:
    axis = x.axis(n.integer("axis"))
    shape = [d for i, d in enumerate(x.shape) if i != axis]
    last = n.flag("select_last_index")
    verb = n.verbs.argmax if n.op == "ArgMax" else n.verbs.argmin
    found = verb(x.reversed(axis) if last else x, type=TensorType(tuple(shape), i64), axes=[axis])
    found = x.shape[axis] - 1 - found if last else found
    return found.with_axes([axis]) if n.flag("keepdims", True) else found


@operator("CumSum", "CumProd")
def cumulative(n: Node, x: Tensor, axis: Tensor) -> Tensor:
    place = x.axis(int(n.settle(axis).reshape(-1)[0]))
    verb = n.verbs.cumulative_sum if n.op == "CumSum" else n.verbs.cumulative_product
    return verb(x, axis=place, reverse=n.flag("reverse"), exclusive=n.flag("exclusive"))


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node, x: Tensor) -> Tensor:
    axes = range(2, x.rank)
    return x.mean(axes, keep=True) if n.op == "GlobalAveragePool" else x.max(axes, keep=True)


@operator("GlobalLpPool")
def global_lp_pool(n: Node, x: Tensor) -> Tensor:
    p = exponent(n)
    return (n.verbs.absolute(x) ** p).sum(range(2, x.rank), keep=True) ** (1 / p)


def exponent(n: Node) -> float:
    """The p of a norm: an integer, in the first version a float."""
    return n.number("p") if n.holds("p", AttributeProto.FLOAT) else float(n.integer("p", 2))
