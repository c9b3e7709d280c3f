# SPDX-License-Identifier: Apache-2.0
"""Type rules of the ng dialect: the shape, axes and element type of each op's results. `dialects/ng.ngd` names them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
from .rules import Types, fits, names_of, require, reshaped, same_kind, same_shape, same_size
from .schedules import SCHEDULE, schedule_complaints
from .sliding import count_of, described, span_of

ATTRIBUTE_RULES[SCHEDULE] = schedule_complaints
ATTRIBUTE_RULES[NEST] = nest_complaints


def _axis(t: Typing, rank: int, name: str = "axis") -> int:
    axis = get_i64(t, name)
    require(0 <= axis < rank, f"axis {axis} of an operand with {rank} dimensions")
    return axis


def _axes(t: Typing, rank: int) -> tuple[int, ...]:
    axes = get_i64s(t, "axes")
    require(all(0 <= a < rank for a in axes), f"axes {list(axes)} of an operand with {rank} dimensions")
    require(len(set(axes)) == len(axes), f"axes {list(axes)} name a dimension twice")
    return axes


def _dropped(type: Type, gone: Sequence[int]) -> tuple[list[int], list[str] | None]:
    """Shape and names without some dimensions."""
    kept = [i for i in range(len(shape_of(type))) if i not in gone]
    names = names_of(type)
    return [shape_of(type)[i] for i in kept], [names[i] for i in kept] if names is not None else None


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


# ---- shape -------------------------------------------------------------------------------------------------


def broadcast(t: Typing) -> Types:
    (source,), (target,), dims = t.operands, t.results, get_i64s(t, "dimensions")
    shape, names = shape_of(source), names_of(source)
    require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot broadcast {source} to {target}",
    )
    require(len(dims) == len(shape), f"{len(shape)} dimensions, but {len(dims)} places for them")
    require(all(0 <= d < len(shape_of(target)) for d in dims), f"dimensions {list(dims)} of {target}")
    require(all(a < b for a, b in pairwise(dims)), f"dimensions {list(dims)} must ascend; transpose first")
    for i, d in enumerate(dims):
        require(
            same_size(shape[i], shape_of(target)[d]),
            f"dimension {i} of {source} is not dimension {d} of {target}",
        )
        outer = names_of(target)
        if names is not None and outer is not None:
            require(names[i] == outer[d], f"axis {names[i]} of {source} is not axis {outer[d]} of {target}")
    return t.results


def transpose(t: Typing) -> Types:
    (source,), order = t.operands, get_i64s(t, "permutation")
    shape, names = shape_of(source), names_of(source)
    require(
        sorted(order) == list(range(len(shape))),
        f"{list(order)} is no permutation of {len(shape)} dimensions",
    )
    return [
        reshaped(source, [shape[i] for i in order], [names[i] for i in order] if names is not None else None)
    ]


def reshape(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot reshape {source} to {target}",
    )
    a, b = shape_of(source), shape_of(target)
    if DYNAMIC not in a and DYNAMIC not in b:
        require(
            prod(a) == prod(b), f"{prod(a)} elements cannot take the shape of {target} ({prod(b)} elements)"
        )
    return t.results


def cast_axes(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    require(
        same_shape(source, target) and element_type(source) is element_type(target),
        f"cast_axes keeps the shape: {source} to {target}",
    )
    return t.results


def slice_size(start: int, limit: int, step: int) -> int:
    """How many elements a slice takes."""
    return max(0, -(-(limit - start) // step))


def slice(t: Typing) -> Types:
    (source,) = t.operands
    starts, limits, steps = (get_i64s(t, n) for n in ("starts", "limits", "steps"))
    shape = shape_of(source)
    require(
        len(starts) == len(limits) == len(steps) == len(shape),
        f"{len(shape)} dimensions, but {len(starts)} starts, {len(limits)} limits, {len(steps)} steps",
    )
    sizes: list[int] = []
    for d, (size, start, limit, step) in enumerate(zip(shape, starts, limits, steps, strict=True)):
        require(step != 0, f"step 0 in dimension {d}")
        count = slice_size(start, limit, step)
        last = start + (count - 1) * step
        ends = (start, last)
        inside = count == 0 or all(0 <= end and (size == DYNAMIC or end < size) for end in ends)
        require(inside, f"elements {start} to {last} of dimension {d}, which has {size}")
        sizes.append(count)
    return [reshaped(source, sizes, names_of(source))]


def pad(t: Typing) -> Types:
    (source,), low, high = t.operands, get_i64s(t, "low"), get_i64s(t, "high")
    shape = shape_of(source)
    require(
        len(low) == len(high) == len(shape),
        f"{len(shape)} dimensions, but {len(low)} and {len(high)} paddings",
    )
    require(all(p >= 0 for p in (*low, *high)), "a padding is negative", "use ng.slice to remove elements")
    value = t.attributes.get("value")
    if isinstance(value, (FloatAttr, IntegerAttr)):
        require(
            value.type is element_type(source),
            f"the padding value is {value.type}, the tensor {element_type(source)}",
        )
    sizes = [DYNAMIC if s == DYNAMIC else lo + s + hi for s, lo, hi in zip(shape, low, high, strict=True)]
    return [reshaped(source, sizes, names_of(source))]


def concatenate(t: Typing) -> Types:
    require(bool(t.operands), "nothing to concatenate")
    first = t.operands[0]
    axis = _axis(t, len(shape_of(first)))
    total = 0
    for other in t.operands:
        a, b = list(shape_of(first)), list(shape_of(other))
        require(
            len(a) == len(b) and element_type(first) is element_type(other),
            f"cannot concatenate {first} and {other}",
        )
        require(names_of(first) == names_of(other), f"axes of {first} and {other} differ")
        size = b[axis]
        a[axis] = b[axis] = 0
        require(all(map(same_size, a, b)), f"{first} and {other} differ outside axis {axis}")
        total = DYNAMIC if DYNAMIC in (total, size) else total + size
    shape = list(shape_of(first))
    shape[axis] = total
    return [reshaped(first, shape, names_of(first))]


def stack(t: Typing) -> Types:
    require(bool(t.operands), "nothing to stack")
    first, (target,) = t.operands[0], t.results
    axis = _axis(t, len(shape_of(first)) + 1)
    require(all(o is first for o in t.operands), "stacked tensors must have one type")
    shape = list(shape_of(first))
    shape.insert(axis, len(t.operands))
    names = names_of(target)
    return [reshaped(first, shape, names)]


def _windowed(t: Typing, whole: Type, sizes: Sequence[int]) -> list[int]:
    """The shape of the windows of so many taps along the axes of a tensor."""
    axes, steps, dilations = (get_i64s(t, n) for n in ("axes", "steps", "dilations"))
    _axes(t, len(shape_of(whole)))
    require(
        len(axes) == len(steps) == len(dilations),
        f"{len(axes)} axes, but {len(steps)} steps and {len(dilations)} dilations",
    )
    shape = list(shape_of(whole))
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        require(step > 0 and dilation > 0, f"step {step} and dilation {dilation} along dimension {axis}")
        require(size > 0, f"windows of {'an unknown number of' if size == DYNAMIC else size} taps")
        span = span_of(size, dilation)
        if shape[axis] != DYNAMIC:
            require(
                span <= shape[axis],
                f"{described(size, dilation)} along dimension {axis}, which has {shape[axis]}",
                "pad the dimension before",
            )
            shape[axis] = count_of(shape[axis], span, step)
    return [*sizes, *shape]


def _are_windows(t: Typing, windows: Type, whole: Type) -> None:
    count = len(get_i64s(t, "axes"))
    require(
        count <= len(shape_of(windows)),
        f"{count} axes need at least {count} dimensions of taps, but {windows} has {len(shape_of(windows))}",
    )
    expected = reshaped(whole, _windowed(t, whole, shape_of(windows)[:count]))
    require(
        same_shape(windows, expected) and element_type(windows) is element_type(whole),
        f"these windows of {whole} are like {expected}, not {windows}",
    )
    names, inner = names_of(whole), names_of(windows)
    require(names is None or inner is None or names == inner[count:], f"axes of {whole} and {windows} differ")


def windows(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _are_windows(t, target, source)
    return t.results


def overlap_add(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _are_windows(t, source, target)
    return t.results


# ---- by index ----------------------------------------------------------------------------------------------


def _not_of_nothing(source: Type, axis: int, indices: Type) -> None:
    empty = shape_of(source)[axis] == 0 and 0 not in shape_of(indices)
    require(not empty, f"axis {axis} of {source} has no elements to take")


def cumulative(t: Typing) -> Types:
    (source,) = t.operands
    _axis(t, len(shape_of(source)))
    return [source]


def cumulative_runs(t: Typing) -> Types:
    source, before = t.operands
    axis, run, element = _axis(t, len(shape_of(source))), get_i64(t, "run"), element_type(source)
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


def gather(t: Typing) -> Types:
    source, indices = t.operands
    axis = _axis(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    shape, inner = shape_of(source), shape_of(indices)
    a, b = names_of(source), names_of(indices)
    names = [*a[:axis], *b, *a[axis + 1 :]] if a is not None and b is not None else None
    require(names is None or len(set(names)) == len(names), f"axes of {source} and {indices} collide")
    return [reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]], names)]


def gather_elements(t: Typing) -> Types:
    source, indices = t.operands
    axis = _axis(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    a, b = list(shape_of(source)), list(shape_of(indices))
    require(len(a) == len(b), f"{source} and its indices {indices} differ in rank")
    a[axis] = b[axis] = 0
    require(all(map(same_size, a, b)), f"{source} and its indices {indices} differ outside axis {axis}")
    return [with_element(indices, element_type(source))]


def scatter(t: Typing) -> Types:
    source, indices, updates = t.operands
    axis = _axis(t, len(shape_of(source)))
    shape, inner = shape_of(source), shape_of(indices)
    expected = reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]])
    require(
        same_shape(expected, updates) and element_type(updates) is element_type(source),
        f"the updates must be like {expected}, not {updates}",
    )
    return [source]


def one_hot(t: Typing) -> Types:
    (indices,), (target,) = t.operands, t.results
    axis = _axis(t, len(shape_of(indices)) + 1)
    shape, names = _dropped(target, [axis])
    require(len(shape_of(target)) == len(shape_of(indices)) + 1, f"one_hot of {indices} cannot be {target}")
    require(all(map(same_size, shape, shape_of(indices))), f"one_hot of {indices} cannot be {target}")
    known = names_of(indices)
    require(known is None or names is None or list(known) == names, f"axes of {indices} and {target} differ")
    return t.results


# ---- segments ----------------------------------------------------------------------------------------------


def _segmented(t: Typing) -> tuple[Type, int, int]:
    """The first operand, the axis, and how many segments the offsets tell of."""
    source, offsets = t.operands
    axis = _axis(t, len(shape_of(source)))
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
    shape, names = _dropped(source, _axes(t, len(shape_of(source))))
    return [reshaped(source, shape, names)]


def count_positions(count: int, element: Type) -> None:
    """UserError if an element type cannot hold the last of so many positions."""
    if count > _countable(element):
        wider = next((t for t in (i16, i32) if count <= _countable(t)), i64)
        raise UserError(f"{element} cannot count {count} positions", hint=f"let the result hold {wider}")


def _countable(element: Type) -> int:
    if not isinstance(element, IntegerType):
        return 1 << 63
    return 1 << (element.width if element.unsigned else element.width - 1)


def arg_reduce(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    axes = _axes(t, len(shape_of(source)))
    require(bool(axes), "argmax and argmin need an axis")
    sizes = [shape_of(source)[a] for a in axes]
    require(0 not in sizes, "the position of an extreme of nothing")
    count_positions(prod(s for s in sizes if s != DYNAMIC), element_type(target))
    shape, names = _dropped(source, axes)
    return [reshaped(source, shape, names, element_type(target))]


def argsort(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    axis = _axis(t, len(shape_of(source)))
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
    left, left_names = _dropped(lhs, used_l)
    right, right_names = _dropped(rhs, used_r)
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
    """Whether elements of these types can be multiplied and summed to those of the third: all are of one type, or the
    result has room for all values of both and for more. Floats are multiplied by floats of their own type."""
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
    """Whether every number of one element type is one of another, which has more."""
    match wide, narrow:
        case FloatType(), FloatType():
            return wide.text in ("f32", "f64") and narrow.width < wide.width
        case IntegerType(), IntegerType():
            return narrow.width < wide.width and (narrow.unsigned or not wide.unsigned)
        case _:
            return False


def along(t: Typing) -> Types:
    _axes(t, len(shape_of(t.operands[0])))
    return t.operands


def normalize(t: Typing) -> Types:
    epsilon = t.attributes.get("epsilon")
    if epsilon is not None:
        least = isinstance(epsilon, FloatAttr) and isinstance(epsilon.value, float) and epsilon.value >= 0
        require(least, f"epsilon is a float that is not negative, not {epsilon}")
    return along(t)


def cross_entropy(t: Typing) -> Types:
    shape, names = _dropped(t.operands[0], _axes(t, len(shape_of(t.operands[0]))))
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
