# SPDX-License-Identifier: Apache-2.0
"""Type rules: the shape, axes and element type of each op's results. `dialects/` names them.

A rule gives the result types or raises UserError without a place. Where tensors carry axis names, the rules
keep names and shapes together and refuse operands whose names disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from ..ir.attributes import AxesAttr, FloatAttr, IntegerAttr
from ..ir.definition import ATTRIBUTE_RULES, Typing
from ..ir.elements import ElementsAttr
from ..ir.literals import item_bytes
from ..ir.types import (
    DYNAMIC,
    FloatType,
    IntegerType,
    MemRefType,
    TensorType,
    Type,
    VectorType,
    element_type,
    i1,
    i16,
    i32,
    i64,
    index,
    shape_of,
    ui32,
    with_element,
)
from ..support.diagnostics import UserError
from .fields import find_i64, find_i64s, get_i64, get_i64s
from .schedules import SCHEDULE, schedule_complaints

Types = Sequence[Type]

ATTRIBUTE_RULES[SCHEDULE] = schedule_complaints


def reshaped(
    like: Type, shape: Sequence[int], names: Sequence[str] | None = None, element: Type | None = None
) -> Type:
    """The same kind of container with another shape; a tile without dimensions is a scalar."""
    element = element or element_type(like)
    if isinstance(like, TensorType):
        return TensorType(tuple(shape), element, AxesAttr(*names) if names is not None else None)
    return VectorType(tuple(shape), element) if shape else element


def names_of(type: Type) -> tuple[str, ...] | None:
    return type.axes if isinstance(type, TensorType) else None


def _require(condition: bool, message: str, hint: str = "") -> None:
    if not condition:
        raise UserError(message, hint=hint)


def same_size(a: int, b: int) -> bool:
    """Whether two dimensions can be the same; an unknown one can be any."""
    return a == b or DYNAMIC in (a, b)


def same_shape(a: Type, b: Type) -> bool:
    x, y = shape_of(a), shape_of(b)
    return len(x) == len(y) and all(map(same_size, x, y))


def same_kind(a: Type, b: Type) -> bool:
    """Both tensors, or both tiles."""
    return isinstance(a, TensorType) == isinstance(b, TensorType)


def _axis(t: Typing, rank: int, name: str = "axis") -> int:
    axis = get_i64(t, name)
    _require(0 <= axis < rank, f"axis {axis} of an operand with {rank} dimensions")
    return axis


def _axes(t: Typing, rank: int) -> tuple[int, ...]:
    axes = get_i64s(t, "axes")
    _require(all(0 <= a < rank for a in axes), f"axes {list(axes)} of an operand with {rank} dimensions")
    _require(len(set(axes)) == len(axes), f"axes {list(axes)} name a dimension twice")
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
    _require(0 <= get_i64(t, "dimension") < max(rank, 1), f"dimension {get_i64(t, 'dimension')} of {type}")
    return t.results


def compare(t: Typing) -> Types:
    return [with_element(t.operands[0], i1)]


def select(t: Typing) -> Types:
    condition, lhs, _ = t.operands
    _require(
        condition is with_element(lhs, i1),
        f"the condition of {lhs} must be {with_element(lhs, i1)}, not {condition}",
    )
    return [lhs]


def cast(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _require(
        with_element(source, element_type(target)) is target,
        f"a cast keeps shape and axes: {source} to {target}",
    )
    return t.results


def bitcast(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    a, b = element_type(source), element_type(target)
    _require(with_element(source, b) is target, f"a bitcast keeps shape and axes: {source} to {target}")
    _require(
        a is b or (i1 not in (a, b) and item_bytes(a) == item_bytes(b)),
        f"a bitcast keeps the width: {a} to {b}",
    )
    return t.results


# ---- shape -------------------------------------------------------------------------------------------------


def broadcast(t: Typing) -> Types:
    (source,), (target,), dims = t.operands, t.results, get_i64s(t, "dimensions")
    shape, names = shape_of(source), names_of(source)
    _require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot broadcast {source} to {target}",
    )
    _require(len(dims) == len(shape), f"{len(shape)} dimensions, but {len(dims)} places for them")
    _require(all(0 <= d < len(shape_of(target)) for d in dims), f"dimensions {list(dims)} of {target}")
    _require(all(a < b for a, b in pairwise(dims)), f"dimensions {list(dims)} must ascend; transpose first")
    for i, d in enumerate(dims):
        _require(
            same_size(shape[i], shape_of(target)[d]),
            f"dimension {i} of {source} is not dimension {d} of {target}",
        )
        outer = names_of(target)
        if names is not None and outer is not None:
            _require(names[i] == outer[d], f"axis {names[i]} of {source} is not axis {outer[d]} of {target}")
    return t.results


def transpose(t: Typing) -> Types:
    (source,), order = t.operands, get_i64s(t, "permutation")
    shape, names = shape_of(source), names_of(source)
    _require(
        sorted(order) == list(range(len(shape))),
        f"{list(order)} is no permutation of {len(shape)} dimensions",
    )
    return [
        reshaped(source, [shape[i] for i in order], [names[i] for i in order] if names is not None else None)
    ]


def reshape(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot reshape {source} to {target}",
    )
    a, b = shape_of(source), shape_of(target)
    if DYNAMIC not in a and DYNAMIC not in b:
        _require(
            prod(a) == prod(b), f"{prod(a)} elements cannot take the shape of {target} ({prod(b)} elements)"
        )
    return t.results


def cast_axes(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _require(
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
    _require(
        len(starts) == len(limits) == len(steps) == len(shape),
        f"{len(shape)} dimensions, but {len(starts)} starts, {len(limits)} limits, {len(steps)} steps",
    )
    sizes: list[int] = []
    for d, (size, start, limit, step) in enumerate(zip(shape, starts, limits, steps, strict=True)):
        _require(step != 0, f"step 0 in dimension {d}")
        count = slice_size(start, limit, step)
        last = start + (count - 1) * step
        inside = count == 0 or (start >= 0 and last >= 0 and (size == DYNAMIC or max(start, last) < size))
        _require(inside, f"elements {start} to {last} of dimension {d}, which has {size}")
        sizes.append(count)
    return [reshaped(source, sizes, names_of(source))]


def pad(t: Typing) -> Types:
    (source,), low, high = t.operands, get_i64s(t, "low"), get_i64s(t, "high")
    shape = shape_of(source)
    _require(
        len(low) == len(high) == len(shape),
        f"{len(shape)} dimensions, but {len(low)} and {len(high)} paddings",
    )
    _require(all(p >= 0 for p in (*low, *high)), "a padding is negative", "use ng.slice to remove elements")
    value = t.attributes.get("value")
    if isinstance(value, (FloatAttr, IntegerAttr)):
        _require(
            value.type is element_type(source),
            f"the padding value is {value.type}, the tensor {element_type(source)}",
        )
    sizes = [DYNAMIC if s == DYNAMIC else lo + s + hi for s, lo, hi in zip(shape, low, high, strict=True)]
    return [reshaped(source, sizes, names_of(source))]


def concatenate(t: Typing) -> Types:
    _require(bool(t.operands), "nothing to concatenate")
    first = t.operands[0]
    axis = _axis(t, len(shape_of(first)))
    total = 0
    for other in t.operands:
        a, b = list(shape_of(first)), list(shape_of(other))
        _require(
            len(a) == len(b) and element_type(first) is element_type(other),
            f"cannot concatenate {first} and {other}",
        )
        _require(names_of(first) == names_of(other), f"axes of {first} and {other} differ")
        size = b[axis]
        a[axis] = b[axis] = 0
        _require(all(map(same_size, a, b)), f"{first} and {other} differ outside axis {axis}")
        total = DYNAMIC if DYNAMIC in (total, size) else total + size
    shape = list(shape_of(first))
    shape[axis] = total
    return [reshaped(first, shape, names_of(first))]


def stack(t: Typing) -> Types:
    _require(bool(t.operands), "nothing to stack")
    first, (target,) = t.operands[0], t.results
    axis = _axis(t, len(shape_of(first)) + 1)
    _require(all(o is first for o in t.operands), "stacked tensors must have one type")
    shape = list(shape_of(first))
    shape.insert(axis, len(t.operands))
    names = names_of(target)
    return [reshaped(first, shape, names)]


# ---- by index ----------------------------------------------------------------------------------------------


def _not_of_nothing(source: Type, axis: int, indices: Type) -> None:
    empty = shape_of(source)[axis] == 0 and 0 not in shape_of(indices)
    _require(not empty, f"axis {axis} of {source} has no elements to take")


def cumulative(t: Typing) -> Types:
    (source,) = t.operands
    _axis(t, len(shape_of(source)))
    return [source]


def gather(t: Typing) -> Types:
    source, indices = t.operands
    axis = _axis(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    shape, inner = shape_of(source), shape_of(indices)
    a, b = names_of(source), names_of(indices)
    names = [*a[:axis], *b, *a[axis + 1 :]] if a is not None and b is not None else None
    _require(names is None or len(set(names)) == len(names), f"axes of {source} and {indices} collide")
    return [reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]], names)]


def gather_elements(t: Typing) -> Types:
    source, indices = t.operands
    axis = _axis(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    a, b = list(shape_of(source)), list(shape_of(indices))
    _require(len(a) == len(b), f"{source} and its indices {indices} differ in rank")
    a[axis] = b[axis] = 0
    _require(all(map(same_size, a, b)), f"{source} and its indices {indices} differ outside axis {axis}")
    return [with_element(indices, element_type(source))]


def scatter(t: Typing) -> Types:
    source, indices, updates = t.operands
    axis = _axis(t, len(shape_of(source)))
    shape, inner = shape_of(source), shape_of(indices)
    expected = reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]])
    _require(
        same_shape(expected, updates) and element_type(updates) is element_type(source),
        f"the updates must be like {expected}, not {updates}",
    )
    return [source]


def one_hot(t: Typing) -> Types:
    (indices,), (target,) = t.operands, t.results
    axis = _axis(t, len(shape_of(indices)) + 1)
    shape, names = _dropped(target, [axis])
    _require(len(shape_of(target)) == len(shape_of(indices)) + 1, f"one_hot of {indices} cannot be {target}")
    _require(all(map(same_size, shape, shape_of(indices))), f"one_hot of {indices} cannot be {target}")
    known = names_of(indices)
    _require(known is None or names is None or list(known) == names, f"axes of {indices} and {target} differ")
    return t.results


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
    _require(bool(axes), "argmax and argmin need an axis")
    sizes = [shape_of(source)[a] for a in axes]
    _require(0 not in sizes, "the position of an extreme of nothing")
    count_positions(prod(s for s in sizes if s != DYNAMIC), element_type(target))
    shape, names = _dropped(source, axes)
    return [reshaped(source, shape, names, element_type(target))]


def dot(t: Typing) -> Types:
    lhs, rhs = t.operands
    _require(element_type(lhs) is element_type(rhs), f"cannot multiply {lhs} and {rhs}", "cast one of them")
    pairs: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for kind in ("contract", "batch"):
        a, b = get_i64s(t, f"lhs_{kind}"), get_i64s(t, f"rhs_{kind}")
        _require(len(a) == len(b), f"{len(a)} {kind} dimensions on the left, {len(b)} on the right")
        for x, y in zip(a, b, strict=True):
            _require(
                0 <= x < len(shape_of(lhs)) and 0 <= y < len(shape_of(rhs)),
                f"{kind} dimensions {x} x {y} of {lhs} and {rhs}",
            )
            _require(
                same_size(shape_of(lhs)[x], shape_of(rhs)[y]),
                f"{kind} dimension {x} of {lhs} is not dimension {y} of {rhs}",
            )
        pairs[kind] = (a, b)
    used_l, used_r = ([*pairs["batch"][i], *pairs["contract"][i]] for i in (0, 1))
    _require(len(set(used_l)) == len(used_l) and len(set(used_r)) == len(used_r), "a dimension is used twice")
    batch = [shape_of(lhs)[i] for i in pairs["batch"][0]]
    left, left_names = _dropped(lhs, used_l)
    right, right_names = _dropped(rhs, used_r)
    names = None
    own = names_of(lhs)
    if own is not None and left_names is not None and right_names is not None:
        names = [*(own[i] for i in pairs["batch"][0]), *left_names, *right_names]
        _require(
            len(set(names)) == len(names),
            f"{lhs} and {rhs} share an axis that is neither contracted nor batched",
        )
    return [reshaped(lhs, [*batch, *left, *right], names)]


def cross_entropy(t: Typing) -> Types:
    shape, names = _dropped(t.operands[0], _axes(t, len(shape_of(t.operands[0]))))
    return [reshaped(t.operands[0], shape, names)]


# ---- random ------------------------------------------------------------------------------------------------


def _key(t: Typing) -> None:
    key = t.operands[0]
    _require(
        shape_of(key) == (2,) and element_type(key).text == "ui64",
        f"the key must be tensor<2xui64> (seed, stream), not {key}",
    )


def random_bits(t: Typing) -> Types:
    _key(t)
    _require(element_type(t.results[0]) is ui32, "random bits are ui32")
    return t.results


def random(t: Typing) -> Types:
    _key(t)
    return t.results


# ---- control flow ------------------------------------------------------------------------------------------


def _fits(what: str, given: Sequence[Type], wanted: Sequence[Type]) -> None:
    def text(types: Sequence[Type]) -> str:
        return f"({', '.join(map(str, types))})"

    _require(tuple(given) == tuple(wanted), f"{what} {text(given)}, but {text(wanted)} is needed")


def if_else(t: Typing) -> Types:
    _require(shape_of(t.operands[0]) == (), f"the condition must be one i1, not {t.operands[0]}")
    for name, (arguments, yields) in zip(("then", "else"), t.regions, strict=True):
        _fits(f"the {name} region takes", arguments, ())
        _fits(f"the {name} region yields", yields, t.results)
    return t.results


def while_loop(t: Typing) -> Types:
    (condition, asked), (body, next_values) = t.regions
    _fits("the condition takes", condition, t.operands)
    _fits("the body takes", body, t.operands)
    _fits("the body yields", next_values, t.operands)
    _require(
        len(asked) == 1 and element_type(asked[0]) is i1 and shape_of(asked[0]) == (),
        "the condition must yield one i1",
    )
    return t.operands


def scan(t: Typing) -> Types:
    carried = get_i64(t, "carried")
    state, sequences = t.operands[:carried], t.operands[carried:]
    _require(bool(sequences), "a scan needs a sequence to run over")
    lengths = {shape_of(s)[0] if shape_of(s) else -2 for s in sequences}
    _require(len(lengths) == 1 and -2 not in lengths, "the sequences must agree in their first dimension")
    length = lengths.pop()
    ((arguments, yields),) = t.regions
    _fits("the body takes", arguments, [*state, *(_step(s) for s in sequences)])
    _fits("the body hands on", yields[:carried], state)
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
    _fits("the body takes", arguments, t.operands)
    _fits("the body yields", yields, t.results)
    return t.results


def for_loop(t: Typing) -> Types:
    bounds = ("lower", "upper", "step")
    carried = t.operands[sum(name not in t.attributes for name in bounds) :]
    ((arguments, yields),) = t.regions
    _require(find_i64(t, "step") is None or get_i64(t, "step") > 0, "goes on by 0 or less, and would not end")
    _fits("the body takes", arguments, [index, *carried])
    _fits("the body yields", yields, carried)
    return carried


# ---- tiles and buffers -------------------------------------------------------------------------------------


def kernel(t: Typing) -> Types:
    ((arguments, _),) = t.regions
    buffers = [a for a in arguments if isinstance(a, MemRefType)]
    _fits("the body takes", arguments, [*buffers, *[index] * len(get_i64s(t, "grid"))])
    outputs, pairs = get_i64(t, "outputs"), get_i64s(t, "in_place")
    first = len(buffers) - outputs
    _require(0 <= first <= len(buffers), f"{outputs} outputs of {len(buffers)} buffers")
    _require(
        len(pairs) % 2 == 0
        and all(0 <= i < first <= o < len(buffers) for i, o in zip(pairs[::2], pairs[1::2], strict=True)),
        f"in_place {list(pairs)} does not pair inputs (below {first}) with outputs",
    )
    return ()


def _buffer(type: Type) -> MemRefType:
    assert isinstance(type, MemRefType)
    return type


def _same_element(a: Type, b: Type) -> None:
    _require(element_type(a) is element_type(b), f"{a} and {b} differ in element type")


def _access(t: Typing, buffer: MemRefType, indices: Sequence[Type], tile: Type) -> None:
    _require(len(indices) == buffer.rank, f"{len(indices)} indices into {buffer}")
    _same_element(tile, buffer)
    rank = len(shape_of(tile))
    dims = find_i64s(t, "dims")
    chosen = dims if dims is not None else range(buffer.rank - rank, buffer.rank)
    _require(rank <= buffer.rank and len(chosen) == rank, f"a tile of {rank} dimensions from {buffer}")
    _require(
        len(set(chosen)) == rank and all(0 <= d < buffer.rank for d in chosen),
        f"dims {list(chosen)} of {buffer}",
    )
    steps = find_i64s(t, "steps")
    if steps is not None:
        _require(len(steps) == rank, f"{len(steps)} steps for {rank} dimensions")


def load(t: Typing) -> Types:
    _access(t, _buffer(t.operands[0]), t.operands[1:], t.results[0])
    return t.results


def store(t: Typing) -> Types:
    _access(t, _buffer(t.operands[1]), t.operands[2:], t.operands[0])
    return ()


def _positions(indices: Sequence[Type], shape: tuple[int, ...], buffer: MemRefType) -> None:
    _require(len(indices) == buffer.rank, f"{len(indices)} indices into {buffer}")
    for i in indices:
        _require(shape_of(i) in ((), shape), f"indices {i} for a tile of shape {list(shape)}")


def gather_tile(t: Typing) -> Types:
    buffer = _buffer(t.operands[0])
    _positions(t.operands[1:], shape_of(t.results[0]), buffer)
    _same_element(t.results[0], buffer)
    return t.results


def scatter_tile(t: Typing) -> Types:
    value, mask, buffer = t.operands[0], t.operands[1], _buffer(t.operands[2])
    _positions(t.operands[3:], shape_of(value), buffer)
    _require(shape_of(mask) == shape_of(value), f"a mask {mask} for {value}")
    _same_element(value, buffer)
    return ()


def subview(t: Typing) -> Types:
    buffer, target = _buffer(t.operands[0]), _buffer(t.results[0])
    _require(len(t.operands) - 1 == buffer.rank, f"{len(t.operands) - 1} indices into {buffer}")
    _require(
        target.element is buffer.element and target.space == buffer.space,
        f"{target} is no window into {buffer}",
    )
    kept = buffer.row_strides[buffer.rank - target.rank :]
    _require(
        target.rank <= buffer.rank and target.row_strides == kept,
        f"strides of {target} are not those of {buffer}",
    )
    _require(
        all(
            map(
                lambda a, b: same_size(a, b) or a <= b,
                target.shape,
                buffer.shape[buffer.rank - target.rank :],
            )
        ),
        f"{target} does not fit in {buffer}",
    )
    return t.results


def dot_tile(t: Typing) -> Types:
    lhs, rhs, accumulator = t.operands
    a, b, c = shape_of(lhs), shape_of(rhs), shape_of(accumulator)
    _require(
        len(a) == len(b) == len(c) == 2 and a == (c[0], b[0]) and b[1] == c[1],
        f"{lhs} times {rhs} is not {accumulator}",
    )
    _same_element(lhs, rhs)
    wide = element_type(accumulator)
    narrow = element_type(lhs)
    _require(
        isinstance(wide, FloatType) == isinstance(narrow, FloatType),
        f"{lhs} cannot be accumulated in {accumulator}",
    )
    return [accumulator]


def copy(t: Typing) -> Types:
    a, b = _buffer(t.operands[0]), _buffer(t.operands[1])
    _require(same_shape(a, b) and a.element is b.element, f"cannot copy {a} to {b}")
    return ()


def copy_async(t: Typing) -> Types:
    copy(t)
    return t.results
