# SPDX-License-Identifier: Apache-2.0
"""Type rules of the ng dialect: the shape, axes and element type of each op's results. `dialects/ng.ngd` names them."""

from __future__ import annotations

from math import prod

from ..ir.attributes import FloatAttr, IntegerAttr
from ..ir.definition import ATTRIBUTE_RULES, Typing
from ..ir.elements import ElementsAttr
from ..ir.literals import bit_width
from ..ir.nest import NEST
from ..ir.types import (
    DYNAMIC,
    FloatType,
    IntegerType,
    Type,
    element_type,
    f32,
    i1,
    i16,
    i32,
    i64,
    shape_of,
    ui32,
    with_element,
)
from ..support.diagnostics import UserError
from .fields import get_enum, get_i64, get_i64s
from .nests import inside, nest_complaints
from .ng_shape_rules import (
    border_pad as border_pad,
)
from .ng_shape_rules import (
    broadcast as broadcast,
)
from .ng_shape_rules import (
    cast_axes as cast_axes,
)
from .ng_shape_rules import (
    concatenate as concatenate,
)
from .ng_shape_rules import (
    gather as gather,
)
from .ng_shape_rules import (
    gather_elements as gather_elements,
)
from .ng_shape_rules import (
    one_hot as one_hot,
)
from .ng_shape_rules import (
    overlap_add as overlap_add,
)
from .ng_shape_rules import (
    pad as pad,
)
from .ng_shape_rules import (
    reshape as reshape,
)
from .ng_shape_rules import (
    scatter as scatter,
)
from .ng_shape_rules import (
    slice as slice,
)
from .ng_shape_rules import (
    slice_size as slice_size,
)
from .ng_shape_rules import (
    stack as stack,
)
from .ng_shape_rules import (
    transpose as transpose,
)
from .ng_shape_rules import (
    windows as windows,
)
from .rules import (
    Types,
    axes_of,
    axis_of,
    fits,
    names_of,
    require,
    reshaped,
    same_shape,
    same_size,
    without_axes,
)
from .schedules import SCHEDULE
from .stated_schedules import schedule_complaints

ATTRIBUTE_RULES[SCHEDULE] = schedule_complaints
ATTRIBUTE_RULES[NEST] = nest_complaints


# ---- constants and elementwise -----------------------------------------------------------------------------


def constant(t: Typing) -> Types:
    value = t.attributes["value"]
    assert isinstance(value, (FloatAttr, IntegerAttr, ElementsAttr))
    return [value.type]


def iota(t: Typing) -> Types:
    (type,) = t.results
    rank = len(shape_of(type))
    require(0 <= get_i64(t, "dimension") < max(rank, 1), f"dimension {get_i64(t, 'dimension')} of {type}")
    return t.results


def compare(t: Typing) -> Types:
    return [with_element(t.operands[0], i1)]


def select(t: Typing) -> Types:
    condition, lhs, _ = t.operands
    require(
        condition is with_element(lhs, i1),
        f"the condition of {lhs} must be {with_element(lhs, i1)}, not {condition}",
    )
    return [lhs]


def cast(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    require(
        with_element(source, element_type(target)) is target,
        f"a cast keeps shape and axes: {source} to {target}",
    )
    return t.results


def bitcast(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    a, b = element_type(source), element_type(target)
    require(with_element(source, b) is target, f"a bitcast keeps shape and axes: {source} to {target}")
    require(
        a is b or (i1 not in (a, b) and bit_width(a) == bit_width(b)),
        f"a bitcast keeps the width: {a} to {b}",
    )
    return t.results


# ---- cumulative ----------------------------------------------------------------------------------------------


def cumulative(t: Typing) -> Types:
    (source,) = t.operands
    axis_of(t, len(shape_of(source)))
    return [source]


def cumulative_runs(t: Typing) -> Types:
    source, before = t.operands
    axis, run, element = axis_of(t, len(shape_of(source))), get_i64(t, "run"), element_type(source)
    require(run > 0, f"no run has {run} elements")
    runs = list(shape_of(source))
    runs[axis] = DYNAMIC if runs[axis] == DYNAMIC else -(-runs[axis] // run)
    wider = (
        get_enum(t, "combine") in ("sum", "product") and isinstance(element, FloatType) and element.width < 32
    )
    gathered = f32 if wider else element
    require(
        same_shape(before, reshaped(source, runs)) and element_type(before) is gathered,
        f"{before} is not one {gathered} before each run of {run} elements along axis {axis} of {source}",
    )
    return [source]


# ---- segments ----------------------------------------------------------------------------------------------


def _segmented(t: Typing) -> tuple[Type, int, int]:
    """The first operand, the axis, and the number of segments of the offsets."""
    source, offsets = t.operands
    axis = axis_of(t, len(shape_of(source)))
    fine = element_type(offsets) is i32 and len(shape_of(offsets)) == 1 and shape_of(offsets)[0] != 0
    require(
        fine,
        f"offsets are one line of i32, one more than there are segments, not {offsets}",
        "ng.cast makes integers of another width i32",
    )
    (count,) = shape_of(offsets)
    return source, axis, DYNAMIC if count == DYNAMIC else count - 1


def _along_segments(t: Typing, source: Type, axis: int, size: int) -> Types:
    """The stated result, if it is the operand with another length (and any name) of the axis."""
    (target,) = t.results
    shape, known, names = list(shape_of(source)), names_of(source), names_of(target)
    shape[axis] = size
    alike = same_shape(reshaped(source, shape), target) and element_type(target) is element_type(source)
    if alike and known is not None and names is not None:
        alike = [*known[:axis], *known[axis + 1 :]] == [*names[:axis], *names[axis + 1 :]]
    require(alike, f"the result has the shape of {source} with {size} along axis {axis}, not {target}")
    return t.results


def segment_reduce(t: Typing) -> Types:
    source, axis, count = _segmented(t)
    return _along_segments(t, source, axis, count)


def segment_cumulative(t: Typing) -> Types:
    _segmented(t)
    return [t.operands[0]]


def segment_expand(t: Typing) -> Types:
    source, axis, count = _segmented(t)
    size = shape_of(source)[axis]
    require(
        same_size(size, count),
        f"axis {axis} of {source} has {size} rows, but the offsets tell of {count} segments",
    )
    return _along_segments(t, source, axis, DYNAMIC)


# ---- reductions and products -------------------------------------------------------------------------------


def reduce(t: Typing) -> Types:
    (source,) = t.operands
    shape, names = without_axes(source, axes_of(t, len(shape_of(source))))
    return [reshaped(source, shape, names)]


def count_positions(count: int, element: Type) -> None:
    """UserError if an element type cannot represent the last of `count` positions."""
    if count > _countable(element):
        wider = next((t for t in (i16, i32) if count <= _countable(t)), i64)
        raise UserError(f"{element} cannot count {count} positions", hint=f"let the result hold {wider}")


def _countable(element: Type) -> int:
    if not isinstance(element, IntegerType):
        return 1 << 63
    return 1 << (element.width if element.unsigned else element.width - 1)


def arg_reduce(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    axes = axes_of(t, len(shape_of(source)))
    require(bool(axes), "argmax and argmin need an axis")
    sizes = [shape_of(source)[a] for a in axes]
    require(0 not in sizes, "the position of an extreme of nothing")
    count_positions(prod(s for s in sizes if s != DYNAMIC), element_type(target))
    shape, names = without_axes(source, axes)
    return [reshaped(source, shape, names, element_type(target))]


def argsort(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    axis = axis_of(t, len(shape_of(source)))
    known, names = names_of(source), names_of(target)
    size, kept = shape_of(source)[axis], shape_of(target)[axis : axis + 1]
    like = [*shape_of(source)[:axis], *kept, *shape_of(source)[axis + 1 :]]
    alike = same_shape(reshaped(source, like, known), target)
    alike = alike and (known is None or names is None or known == names)
    require(alike, f"the order of {source} has its shape and axes, not those of {target}")
    require(DYNAMIC in (size, *kept) or kept[0] <= size, f"the first {kept[0]} of {size} positions")
    count_positions(0 if size == DYNAMIC else size, element_type(target))
    return t.results


def dot(t: Typing) -> Types:
    lhs, rhs = t.operands
    element = element_type(t.results[0]) if t.results else element_type(lhs)
    stated = f" to elements of {element}" if t.results else ""
    require(
        multiplies(element_type(lhs), element_type(rhs), element),
        f"cannot multiply {lhs} and {rhs}{stated}",
        "cast one of them, or state a result type of wider elements",
    )
    pairs: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for kind in ("contract", "batch"):
        a, b = get_i64s(t, f"lhs_{kind}"), get_i64s(t, f"rhs_{kind}")
        require(len(a) == len(b), f"{len(a)} {kind} dimensions on the left, {len(b)} on the right")
        for x, y in zip(a, b, strict=True):
            require(
                0 <= x < len(shape_of(lhs)) and 0 <= y < len(shape_of(rhs)),
                f"{kind} dimensions {x} x {y} of {lhs} and {rhs}",
            )
            require(
                same_size(shape_of(lhs)[x], shape_of(rhs)[y]),
                f"{kind} dimension {x} of {lhs} is not dimension {y} of {rhs}",
            )
        pairs[kind] = (a, b)
    used_l, used_r = ([*pairs["batch"][i], *pairs["contract"][i]] for i in (0, 1))
    require(len(set(used_l)) == len(used_l) and len(set(used_r)) == len(used_r), "a dimension is used twice")
    batch = [shape_of(lhs)[i] for i in pairs["batch"][0]]
    left, left_names = without_axes(lhs, used_l)
    right, right_names = without_axes(rhs, used_r)
    names = None
    own = names_of(lhs)
    if own is not None and left_names is not None and right_names is not None:
        names = [*(own[i] for i in pairs["batch"][0]), *left_names, *right_names]
        require(
            len(set(names)) == len(names),
            f"{lhs} and {rhs} share an axis that is neither contracted nor batched",
        )
    return [reshaped(lhs, [*batch, *left, *right], names, element)]


def multiplies(lhs: Type, rhs: Type, result: Type) -> bool:
    """Whether elements of these types can be multiplied and summed to those of the third: all are of one type, or that of the
    result is wider and represents all values of both. Floats are multiplied by floats of their own type."""
    if lhs is rhs is result:
        return True
    match lhs, rhs, result:
        case FloatType(), FloatType(), FloatType():
            return lhs is rhs and lhs.width < result.width
        case IntegerType(), IntegerType(), IntegerType():
            return all(
                1 < side.width < result.width and (side.unsigned or not result.unsigned)
                for side in (lhs, rhs)
            )
        case _:
            return False


def has_all(wide: Type, narrow: Type) -> bool:
    """Whether the wider of two element types represents every number of the narrower one."""
    match wide, narrow:
        case FloatType(), FloatType():
            return wide.text in ("f32", "f64") and narrow.width < wide.width
        case IntegerType(), IntegerType():
            return narrow.width < wide.width and (narrow.unsigned or not wide.unsigned)
        case _:
            return False


def along(t: Typing) -> Types:
    axes_of(t, len(shape_of(t.operands[0])))
    return t.operands


def normalize(t: Typing) -> Types:
    epsilon = t.attributes.get("epsilon")
    if epsilon is not None:
        least = isinstance(epsilon, FloatAttr) and isinstance(epsilon.value, float) and epsilon.value >= 0
        require(least, f"epsilon is a float that is not negative, not {epsilon}")
    return along(t)


def cross_entropy(t: Typing) -> Types:
    shape, names = without_axes(t.operands[0], axes_of(t, len(shape_of(t.operands[0]))))
    return [reshaped(t.operands[0], shape, names)]


# ---- random ------------------------------------------------------------------------------------------------


def _key(t: Typing) -> None:
    key = t.operands[0]
    require(
        shape_of(key) == (2,) and element_type(key).text == "ui64",
        f"the key must be tensor<2xui64> (seed, stream), not {key}",
    )


def random_bits(t: Typing) -> Types:
    _key(t)
    require(element_type(t.results[0]) is ui32, "random bits are ui32")
    return t.results


def random(t: Typing) -> Types:
    _key(t)
    return t.results


# ---- control flow ------------------------------------------------------------------------------------------


def if_else(t: Typing) -> Types:
    require(shape_of(t.operands[0]) == (), f"the condition must be one i1, not {t.operands[0]}")
    for name, (arguments, yields) in zip(("then", "else"), t.regions, strict=True):
        fits(f"the {name} region takes", arguments, ())
        fits(f"the {name} region yields", yields, t.results)
    return t.results


def while_loop(t: Typing) -> Types:
    (condition, asked), (body, next_values) = t.regions
    fits("the condition takes", condition, t.operands)
    fits("the body takes", body, t.operands)
    fits("the body yields", next_values, t.operands)
    require(
        len(asked) == 1 and element_type(asked[0]) is i1 and shape_of(asked[0]) == (),
        "the condition must yield one i1",
    )
    return t.operands


def scan(t: Typing) -> Types:
    carried = get_i64(t, "carried")
    state, sequences = t.operands[:carried], t.operands[carried:]
    require(bool(sequences), "a scan needs a sequence to run over")
    lengths = {shape_of(s)[0] if shape_of(s) else -2 for s in sequences}
    require(len(lengths) == 1 and -2 not in lengths, "the sequences must agree in their first dimension")
    length = lengths.pop()
    ((arguments, yields),) = t.regions
    fits("the body takes", arguments, [*state, *(_step(s) for s in sequences)])
    fits("the body hands on", yields[:carried], state)
    stacked: list[Type] = []
    for given, stated in zip(yields[carried:], t.results[carried:], strict=False):
        names = names_of(stated)
        stacked.append(reshaped(given, [length, *shape_of(given)], names))
    return [*state, *stacked]


def _step(type: Type) -> Type:
    names = names_of(type)
    return reshaped(type, shape_of(type)[1:], names[1:] if names is not None else None)


def fusion(t: Typing) -> Types:
    ((arguments, yields),) = t.regions
    taken, given = inside(t)
    fits("the body takes", arguments, taken)
    fits("the body yields", yields, given)
    return t.results
