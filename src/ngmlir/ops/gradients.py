# SPDX-License-Identifier: Apache-2.0
"""The gradient of each op, written on verbs: a rule makes more of the same graph, so gradients of gradients work.

A rule gets the op's operands and results and `delta`, the gradient with respect to its first result, and gives
one gradient per operand (None: no gradient flows there). An op whose traits say `flat` or `stops` needs no rule.
Where an op has a kink, the rule takes a side: the gradient of `max` goes to every element that is the greatest,
that of `maximum` to neither side of a tie, that of `absolute` at 0 is 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any, Generic, TypeVar, cast

from ..ir.attributes import Attribute
from ..ir.core import Op
from . import ng
from .fields import find_i64, get_bool, get_i64, get_i64s, get_str
from .lengths import Length, Size, derived, product
from .ng_rules import slice_size

V = TypeVar("V")


class GradientVerbs(ng.NgVerbs[V], Generic[V]):
    """The verbs that rules are written with. Types are never spelled: they are those of another value, so an
    algorithm needs not know how a value's type is held."""

    @abstractmethod
    def shape_of(self, value: V) -> Sequence[Length]:
        """The lengths of its dimensions, which may not be known yet."""

    @abstractmethod
    def number_like(self, value: float | Length, like: V) -> V:
        """A constant of the type of `like`."""

    @abstractmethod
    def zeros_like(self, value: V, like: V, dimension: int) -> V:
        """Zeros of the type of `value`, but along `dimension` as long as `like`."""

    @abstractmethod
    def cast_like(self, value: V, like: V) -> V:
        """`value` with the element type of `like`."""

    @abstractmethod
    def rename_like(self, value: V, like: V) -> V:
        """`value` with the axis names of `like`."""

    @abstractmethod
    def reshape_like(self, value: V, like: V) -> V:
        """`value` with the shape of `like`."""

    @abstractmethod
    def broadcast_like(self, value: V, like: V, dimensions: Sequence[int]) -> V:
        """`value` repeated to the shape of `like`; its dimension i becomes dimensions[i]."""

    @abstractmethod
    def repeat(self, value: V, at: int, like: V, dimension: int) -> V:
        """`value` repeated along a new dimension `at`, as long as `dimension` of `like`, with a name of its own."""

    @abstractmethod
    def count_like(self, counted: V, dimensions: Sequence[int], like: V) -> V:
        """How many elements some dimensions of `counted` hold, as a constant of the type of `like`."""

    @abstractmethod
    def positions_like(self, like: V, dimension: int) -> V:
        """i32: the position of each element of `like` along a dimension."""

    @abstractmethod
    def progression(self, first: Size, step: Size, count: Size) -> V:
        """i32: `count` integers as a constant: `first`, `first + step` and so on."""

    @abstractmethod
    def window(self, value: V, dimension: int, start: Size, limit: Size, step: int = 1) -> V:
        """A slice along one dimension, the others whole."""

    @abstractmethod
    def pad_like(self, value: V, like: V, low: Sequence[Size], high: Sequence[Size], fill: int = 0) -> V:
        """`value` padded to the shape of `like`."""

    @abstractmethod
    def windows_like(self, value: V, like: V, op: Applied[V]) -> V:
        """The windows of `value`, of the type of `like`, along the axes and by the steps that `op` says."""

    @abstractmethod
    def overlap_add_like(self, value: V, like: V, op: Applied[V]) -> V:
        """The sum of windows at the places that `op` says, of the type of `like`."""

    @abstractmethod
    def one_hot_like(self, indices: V, axis: int, like: V) -> V:
        """1 at each index and 0 elsewhere along a new dimension `axis`: of the type of `like`."""


@dataclass(frozen=True)
class Applied(Generic[V]):
    """One op as a rule sees it. `wanted` says for which operands a gradient is of any use, `given` has the attributes
    as they were given: in those that tell of lengths may be what stands for them."""

    op: type[Op]
    operands: Sequence[V]
    results: Sequence[V]
    attributes: Mapping[str, Attribute]
    wanted: Sequence[bool]
    given: Mapping[str, Any]

    def sizes(self, name: str) -> Sequence[Size]:
        """An attribute of lengths or places, which may not be known yet."""
        given = self.given.get(name)
        return cast("tuple[Size, ...]", given) if isinstance(given, tuple) else get_i64s(self, name)

    def find_size(self, name: str) -> int | Length | None:
        """An attribute of one place, if it is there."""
        given = self.given.get(name)
        return given if isinstance(given, Length) else find_i64(self, name)


Rule = Callable[[GradientVerbs[V], Applied[V], V], Sequence["V | None"]]

#: Op name -> its rule.
GRADIENTS: dict[str, Rule[Any]] = {}

#: Ops through which no gradient flows: they are flat, or their entry in `dialects/` stops it.
NO_GRADIENT = frozenset(
    name for name, op in ng.OPS.items() if op.definition and op.definition.traits & {"flat", "stops"}
)


def gradient(*names: str) -> Callable[[Rule[Any]], Rule[Any]]:
    """Registers a rule for ops of these names."""

    def register(rule: Rule[Any]) -> Rule[Any]:
        for name in names:
            GRADIENTS[f"ng.{name}"] = rule
        return rule

    return register


# ---- elementwise, one operand: the slope as a function of operand x and result y ------------------------------

Slope = Callable[[GradientVerbs[V], V, V], V]


def _one_minus_square(v: GradientVerbs[V], x: V) -> V:
    return v.subtract(v.number_like(1, x), v.square(x))


def _one_plus_square(v: GradientVerbs[V], x: V) -> V:
    return v.add(v.number_like(1, x), v.square(x))


def _scaled(v: GradientVerbs[V], factor: float, x: V) -> V:
    return v.multiply(v.number_like(factor, x), x)


SLOPES: dict[str, Slope[Any]] = {
    "absolute": lambda v, x, y: v.sign(x),
    "square": lambda v, x, y: _scaled(v, 2, x),
    "reciprocal": lambda v, x, y: v.negative(v.square(y)),
    "sqrt": lambda v, x, y: _scaled(v, 0.5, v.reciprocal(y)),
    "rsqrt": lambda v, x, y: _scaled(v, -0.5, v.multiply(y, v.square(y))),
    "exp": lambda v, x, y: y,
    "exp2": lambda v, x, y: _scaled(v, log(2), y),
    "expm1": lambda v, x, y: v.add(y, v.number_like(1, y)),
    "log": lambda v, x, y: v.reciprocal(x),
    "log2": lambda v, x, y: _scaled(v, 1 / log(2), v.reciprocal(x)),
    "log10": lambda v, x, y: _scaled(v, 1 / log(10), v.reciprocal(x)),
    "log1p": lambda v, x, y: v.reciprocal(v.add(x, v.number_like(1, x))),
    "sin": lambda v, x, y: v.cos(x),
    "cos": lambda v, x, y: v.negative(v.sin(x)),
    "tan": lambda v, x, y: _one_plus_square(v, y),
    "asin": lambda v, x, y: v.rsqrt(_one_minus_square(v, x)),
    "acos": lambda v, x, y: v.negative(v.rsqrt(_one_minus_square(v, x))),
    "atan": lambda v, x, y: v.reciprocal(_one_plus_square(v, x)),
    "sinh": lambda v, x, y: v.cosh(x),
    "cosh": lambda v, x, y: v.sinh(x),
    "tanh": lambda v, x, y: _one_minus_square(v, y),
    "asinh": lambda v, x, y: v.rsqrt(_one_plus_square(v, x)),
    "acosh": lambda v, x, y: v.rsqrt(v.subtract(v.square(x), v.number_like(1, x))),
    "atanh": lambda v, x, y: v.reciprocal(_one_minus_square(v, x)),
    "sigmoid": lambda v, x, y: v.subtract(y, v.square(y)),
    "softplus": lambda v, x, y: v.sigmoid(x),
    "erf": lambda v, x, y: _scaled(v, 2 / sqrt(pi), v.exp(v.negative(v.square(x)))),
}


@gradient(*SLOPES)
def _unary(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    slope = SLOPES[op.op.name.removeprefix("ng.")]
    return [v.multiply(delta, slope(v, op.operands[0], op.results[0]))]


@gradient("negative")
def _negative(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.negative(delta)]


@gradient("cast")
def _cast(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.cast_like(delta, op.operands[0])]


# ---- elementwise, more operands -------------------------------------------------------------------------------


def _where(v: GradientVerbs[V], condition: V, value: V) -> V:
    """`value` where the condition is true, else 0."""
    return v.select(condition, value, v.number_like(0, value))


@gradient("add")
def _add(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [delta, delta]


@gradient("subtract")
def _subtract(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [delta, v.negative(delta)]


@gradient("multiply")
def _multiply(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [v.multiply(delta, y) if op.wanted[0] else None, v.multiply(delta, x) if op.wanted[1] else None]


@gradient("divide")
def _divide(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    over = v.divide(delta, op.operands[1])
    return [over, v.negative(v.multiply(over, op.results[0])) if op.wanted[1] else None]


@gradient("power")
def _power(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    zero, one = v.number_like(0, x), v.number_like(1, x)
    to_x = to_y = None
    if op.wanted[0]:
        # x ** 0 is flat, also at 0, where 0 * 0 ** -1 would be NaN.
        slope = v.multiply(y, v.power(x, v.subtract(y, one)))
        to_x = v.multiply(delta, v.select(v.equal(y, zero), zero, slope))
    if op.wanted[1]:
        slope = v.multiply(op.results[0], v.log(v.select(v.equal(x, zero), one, x)))
        to_y = v.multiply(delta, slope)
    return [to_x, to_y]


@gradient("maximum")
def _maximum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [
        _where(v, v.greater(a, b), delta) if w else None
        for a, b, w in ((x, y, op.wanted[0]), (y, x, op.wanted[1]))
    ]


@gradient("minimum")
def _minimum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [
        _where(v, v.less(a, b), delta) if w else None
        for a, b, w in ((x, y, op.wanted[0]), (y, x, op.wanted[1]))
    ]


@gradient("atan2")
def _atan2(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    y, x = op.operands
    scaled = v.divide(delta, v.add(v.square(x), v.square(y)))
    return [v.multiply(scaled, x), v.negative(v.multiply(scaled, y))]


@gradient("copysign")
def _copysign(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [v.multiply(delta, v.multiply(v.sign(x), v.copysign(v.number_like(1, y), y))), None]


@gradient("select")
def _select(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    condition, zero = op.operands[0], v.number_like(0, delta)
    return [None, v.select(condition, delta, zero), v.select(condition, zero, delta)]


@gradient("fma")
def _fma(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y, _ = op.operands
    return [v.multiply(delta, y), v.multiply(delta, x), delta]


# ---- shape: the move the other way round ----------------------------------------------------------------------


def _others(v: GradientVerbs[V], value: V, dimensions: Sequence[int]) -> list[int]:
    return [d for d in range(len(v.shape_of(value))) if d not in dimensions]


@gradient("broadcast")
def _broadcast(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    new = _others(v, delta, get_i64s(op, "dimensions"))
    return [v.sum(delta, axes=new) if new else delta]


@gradient("transpose")
def _transpose(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    order = get_i64s(op, "permutation")
    return [v.transpose(delta, permutation=[order.index(d) for d in range(len(order))])]


@gradient("reshape")
def _reshape(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.reshape_like(delta, op.operands[0])]


@gradient("cast_axes")
def _cast_axes(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.rename_like(delta, op.operands[0])]


@gradient("slice")
def _slice(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (source,) = op.operands
    shape = v.shape_of(source)
    low: list[Size] = [0] * len(shape)
    high: list[Size] = [0] * len(shape)
    strided: dict[int, tuple[Size, int, Size]] = {}
    places = zip(*(op.sizes(name) for name in ("starts", "limits")), get_i64s(op, "steps"), strict=True)
    for d, (start, limit, step) in enumerate(places):
        if start == 0 and step == 1 and _is_length(limit, shape[d]):
            continue
        count = derived(slice_size, start, limit, step)
        if step < 0:
            delta = v.window(delta, d, count - 1, -1, -1)
            start, step = start + (count - 1) * step, -step
        if step > 1:
            strided[d] = start, step, count
        else:
            low[d] = derived(_least, start, count)
            high[d] = shape[d] - count - low[d]
    for d, (start, step, count) in strided.items():
        places = v.progression(start, step, count)
        delta = v.scatter(v.zeros_like(delta, source, d), places, delta, axis=d, combine="add")
    return [v.pad_like(delta, source, low, high) if any((*low, *high)) else delta]


def _is_length(limit: Size, length: Length) -> bool:
    """Whether a slice ends where its dimension ends, whatever that is."""
    return limit is length.parts[0]


def _least(start: int, count: int) -> int:
    """Where a slice of so many elements starts; one without elements starts anywhere, so at 0."""
    return start if count else 0


@gradient("pad")
def _pad(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    size = v.shape_of(op.operands[0])
    for d, (low, high) in enumerate(zip(op.sizes("low"), op.sizes("high"), strict=True)):
        if low != 0 or high != 0:
            delta = v.window(delta, d, low, low + size[d])
    return [v.rename_like(delta, op.operands[0])]


@gradient("concatenate")
def _concatenate(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    axis = get_i64(op, "axis")
    at: Size = 0
    parts: list[V] = []
    for part in op.operands:
        end = at + v.shape_of(part)[axis]
        parts.append(v.window(delta, axis, at, end))
        at = end
    return parts


@gradient("stack")
def _stack(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    axis = get_i64(op, "axis")
    return [v.reshape_like(v.window(delta, axis, i, i + 1), part) for i, part in enumerate(op.operands)]


@gradient("windows")
def _windows(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.overlap_add_like(delta, op.operands[0], op)]


@gradient("overlap_add")
def _overlap_add(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.windows_like(delta, op.operands[0], op)]


# ---- by index -------------------------------------------------------------------------------------------------


def _from_start(v: GradientVerbs[V], indices: V, size: Length) -> V:
    """Indices counted from the start."""
    return v.select(
        v.less(indices, v.number_like(0, indices)), v.add(indices, v.number_like(size, indices)), indices
    )


def _clamped(v: GradientVerbs[V], indices: V, size: Length) -> V:
    """Indices as gather reads them: counted from the start and held within the axis."""
    indices = _from_start(v, indices, size)
    return v.minimum(v.maximum(indices, v.number_like(0, indices)), v.number_like(size - 1, indices))


@gradient("gather", "lookup")
def _gather(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    table, indices = op.operands
    axis = get_i64(op, "axis")
    rows = _clamped(v, indices, v.shape_of(table)[axis])
    pad = op.find_size("pad")
    if pad is not None:
        spared = v.equal(rows, v.number_like(pad, rows))
        inner = range(axis, axis + len(v.shape_of(indices)))
        delta = v.select(v.broadcast_like(spared, delta, list(inner)), v.number_like(0, delta), delta)
    return [v.scatter(v.number_like(0, table), rows, delta, axis=axis, combine="add"), None]


def _at_most_one(length: int) -> int:
    return min(length, 1)


def _added_at(v: GradientVerbs[V], delta: V, places: V, axis: int, like: V) -> V:
    """Like `like`: at i along the axis, the sum of those elements of `delta` whose place is i."""
    wide = v.repeat(delta, axis, like, axis)
    chosen = v.one_hot_like(places, axis, wide)
    return v.rename_like(v.sum(v.multiply(wide, chosen), axes=[axis + 1]), like)


@gradient("gather_elements")
def _gather_elements(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    table, indices = op.operands
    axis = get_i64(op, "axis")
    return [_added_at(v, delta, _clamped(v, indices, v.shape_of(table)[axis]), axis, table), None]


@gradient("scatter")
def _scatter(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    base, indices, updates = op.operands
    axis, how = get_i64(op, "axis"), get_str(op, "combine")
    size = v.shape_of(base)[axis]
    inner = list(range(axis, axis + len(v.shape_of(indices))))
    rows = _from_start(v, indices, size)
    within = v.bitwise_and(
        v.greater_equal(rows, v.number_like(0, rows)), v.less(rows, v.number_like(size, rows))
    )
    taken = v.gather(delta, indices, axis=axis)
    if how == "add":
        to_base = delta
    elif how == "set":
        to_base = v.scatter(delta, indices, v.number_like(0, updates), axis=axis, combine="set")
        # Of updates to one place the last one stays; it finds its own serial number there.
        serial = v.progression(0, 1, _size(v, indices))
        serial = v.reshape_like(serial, v.cast_like(indices, serial))
        last = v.scatter(v.progression(-1, 0, size), indices, serial, axis=0, combine="set")
        within = v.bitwise_and(within, v.equal(v.gather(last, indices, axis=0), serial))
    else:
        to_base = _where(v, v.equal(op.results[0], base), delta)
        taken = _where(v, v.equal(v.gather(op.results[0], indices, axis=axis), updates), taken)
    to_updates = _where(v, v.broadcast_like(within, taken, inner), taken)
    return [to_base, None, v.rename_like(to_updates, updates)]


def _size(v: GradientVerbs[V], value: V) -> Size:
    return derived(product, *v.shape_of(value))


# ---- reductions -----------------------------------------------------------------------------------------------


def _spread_back(v: GradientVerbs[V], value: V, op: Applied[V]) -> V:
    """A reduced value repeated over what was reduced."""
    return v.broadcast_like(value, op.operands[0], _others(v, op.operands[0], get_i64s(op, "axes")))


@gradient("sum")
def _sum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [_spread_back(v, delta, op)]


@gradient("mean")
def _mean(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [_spread_back(v, v.divide(delta, v.count_like(op.operands[0], get_i64s(op, "axes"), delta)), op)]


@gradient("max", "min")
def _extreme(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [
        _where(v, v.equal(op.operands[0], _spread_back(v, op.results[0], op)), _spread_back(v, delta, op))
    ]


@gradient("first_max")
def _first_max(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (x,), axes = op.operands, sorted(get_i64s(op, "axes"))
    if not axes:
        return [delta]
    place, count = v.positions_like(x, axes[-1]), v.shape_of(x)[axes[-1]]
    for axis in reversed(axes[:-1]):
        here = v.positions_like(x, axis)
        place = v.add(v.multiply(here, v.number_like(count, here)), place)
        count *= v.shape_of(x)[axis]
    greatest = v.equal(x, _spread_back(v, op.results[0], op))
    first = v.min(v.select(greatest, place, v.number_like(count, place)), axes=axes)
    return [_where(v, v.equal(place, _spread_back(v, first, op)), _spread_back(v, delta, op))]


@gradient("product")
def _product(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Along one dimension: what stands before times what stands after, which is exact where there are zeros.
    axes = sorted(get_i64s(op, "axes"), reverse=True)
    partial = [op.operands[0]]
    for axis in axes:
        partial.append(v.product(partial[-1], axes=[axis]))
    for axis, x in zip(reversed(axes), reversed(partial[:-1]), strict=True):
        before = v.cumulative_product(x, axis=axis, exclusive=True)
        after = v.cumulative_product(x, axis=axis, exclusive=True, reverse=True)
        delta = v.multiply(v.broadcast_like(delta, x, _others(v, x, [axis])), v.multiply(before, after))
    return [delta]


# ---- cumulative -----------------------------------------------------------------------------------------------


@gradient("cumulative_sum")
def _cumulative_sum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    return [v.cumulative_sum(delta, axis=get_i64(op, "axis"), reverse=not reverse, exclusive=exclusive)]


@gradient("cumulative_product")
def _cumulative_product(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Row i of `rest` holds the products of what stands between i and each later j, so no division by x is
    # needed; quadratic in the length of the axis.
    (x,), axis = op.operands, get_i64(op, "axis")
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    wide = v.repeat(x, axis, x, axis)
    i, j = v.positions_like(wide, axis), v.positions_like(wide, axis + 1)
    later = v.less(j, i) if reverse else v.greater(j, i)
    inside = v.select(later, wide, v.number_like(1, wide))
    rest = v.cumulative_product(inside, axis=axis + 1, reverse=reverse, exclusive=exclusive)
    counted = later if exclusive else v.bitwise_or(later, v.equal(i, j))
    flow = _where(v, counted, v.multiply(rest, v.rename_like(v.repeat(delta, axis, x, axis), rest)))
    before = v.cumulative_product(x, axis=axis, reverse=reverse, exclusive=True)
    return [v.multiply(before, v.rename_like(v.sum(flow, axes=[axis + 1]), x))]


@gradient("cumulative_max", "cumulative_min")
def _cumulative_extreme(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Each result is the newest record at or before its place.
    (x,), axis = op.operands, get_i64(op, "axis")
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    running = v.cumulative_max if op.op is ng.CumulativeMaxOp else v.cumulative_min
    record = v.equal(x, running(x, axis=axis, reverse=reverse) if exclusive else op.results[0])
    here = v.positions_like(x, axis)
    size = v.shape_of(x)[axis]
    if reverse:
        places = v.cumulative_min(v.select(record, here, v.number_like(size, here)), axis=axis, reverse=True)
    else:
        places = v.cumulative_max(v.select(record, here, v.number_like(-1, here)), axis=axis)
    if exclusive:
        rank = len(v.shape_of(x))
        first = derived(_at_most_one, size)  # an axis without positions has none to move
        one: list[Size] = [first if d == axis else 0 for d in range(rank)]
        none: list[Size] = [0] * rank
        kept = v.window(places, axis, first, size) if reverse else v.window(places, axis, 0, size - first)
        places = v.pad_like(kept, places, none if reverse else one, one if reverse else none, fill=-1)
    return [_added_at(v, delta, places, axis, x)]


# ---- products and networks ------------------------------------------------------------------------------------


@gradient("dot")
def _dot(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    lhs, rhs = op.operands
    lb, rb, lc, rc = (get_i64s(op, n) for n in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"))
    l_free, r_free = _others(v, lhs, (*lb, *lc)), _others(v, rhs, (*rb, *rc))
    batch = list(range(len(lb)))
    l_places = [len(batch) + i for i in range(len(l_free))]
    r_places = [len(batch) + len(l_free) + i for i in range(len(r_free))]
    to_lhs = to_rhs = None
    if op.wanted[0]:
        made = v.dot(
            delta,
            v.cast_like(rhs, delta),
            lhs_contract=r_places,
            rhs_contract=r_free,
            lhs_batch=batch,
            rhs_batch=rb,
        )
        # Its dimensions: batch, free ones of lhs, contracted ones in the order in which rhs has them.
        source = [*lb, *l_free, *(lc[rc.index(d)] for d in sorted(rc))]
        to_lhs = _ordered(v, made, source, lhs)
    if op.wanted[1]:
        made = v.dot(
            v.cast_like(lhs, delta),
            delta,
            lhs_contract=l_free,
            rhs_contract=l_places,
            lhs_batch=lb,
            rhs_batch=batch,
        )
        source = [*rb, *(rc[lc.index(d)] for d in sorted(lc)), *r_free]
        to_rhs = _ordered(v, made, source, rhs)
    return [to_lhs, to_rhs]


def _ordered(v: GradientVerbs[V], value: V, source: list[int], like: V) -> V:
    """`value`, whose dimension i is dimension source[i] of `like`, in the order of `like`."""
    order = [source.index(d) for d in range(len(source))]
    value = v.transpose(value, permutation=order) if order != sorted(order) else value
    return v.rename_like(v.cast_like(value, like), like)


@gradient("softmax")
def _softmax(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    y = op.results[0]
    flow = v.multiply(delta, y)
    return [v.subtract(flow, v.multiply(y, _spread_back(v, v.sum(flow, axes=get_i64s(op, "axes")), op)))]


@gradient("log_softmax")
def _log_softmax(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    total = _spread_back(v, v.sum(delta, axes=get_i64s(op, "axes")), op)
    return [v.subtract(delta, v.multiply(v.exp(op.results[0]), total))]


@gradient("cross_entropy")
def _cross_entropy(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    logits, targets = op.operands
    axes = get_i64s(op, "axes")
    wide = _spread_back(v, delta, op)
    to_logits = to_targets = None
    if op.wanted[0]:
        # The sum of the targets is 1 for distributions, and 0 for a sample that is to be left out.
        weight = _spread_back(v, v.sum(targets, axes=axes), op)
        to_logits = v.multiply(v.subtract(v.multiply(v.softmax(logits, axes=axes), weight), targets), wide)
    if op.wanted[1]:
        to_targets = v.negative(v.multiply(v.log_softmax(logits, axes=axes), wide))
    return [to_logits, to_targets]
