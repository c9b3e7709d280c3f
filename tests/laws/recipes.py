# SPDX-License-Identifier: Apache-2.0
"""How random programs grow: each recipe adds an op, or a few, that the values so far allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

import numpy as np
from growing import Fact, Maker, is_bool, is_float, is_integer
from patterns import EXACT, grow
from reach import ELEMENTWISE, fits, may_err, ops_on, reach

from ngmlir.ir.attributes import AxesAttr
from ngmlir.ir.core import Op, Value
from ngmlir.ir.elements import elements
from ngmlir.ir.types import (
    IntegerType,
    TensorType,
    Type,
    bf16,
    element_type,
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
    shape_of,
    ui32,
    ui64,
    with_element,
)  # fmt: skip
from ngmlir.ops import ng

#: Whole numbers up to here are exact in the type that sums are made in.
WHOLE: dict[Type, int] = {f16: 2**24, bf16: 2**24, f32: 2**24, f64: 2**53}


def _source(m: Maker) -> None:
    m.source(m.type())


def _iota(m: Maker) -> None:
    type = m.type(m.pick([e for e in m.elements if e is not i1]))
    if type.rank and max(type.shape) < 100:
        m.add(m.builder.iota(type=type, dimension=m.number(0, type.rank - 1)), Fact(100, True))


def _random(m: Maker) -> None:
    key = m.builder.constant(
        type=TensorType((2,), ui64), value=elements(np.array([m.number(0, 9), 7], np.uint64))
    )
    if m.chance(2):
        m.add(m.builder.random_bits(key, type=m.type(ui32)))
    else:
        m.add(m.builder.random_uniform(key, type=m.type(m.pick([f32, f64, f16]))), Fact(1))


def _applied(operands: int) -> Callable[[Maker], None]:
    """An elementwise op of so many operands of one type."""

    def recipe(m: Maker) -> None:
        x = m.value()
        values = [x, *(x if m.chance(6) else m.like(x.type) for _ in range(operands - 1))]
        element, facts = element_type(x.type), [m.facts[v] for v in values]
        rough = any(f.rough for f in facts)
        bounds = tuple(f.bound for f in facts)
        options = [op for op in ops_on(element, operands) if fits(m.exact, op, element, facts)]
        if not options:
            return
        op = m.pick(options)
        known = reach(op, element, bounds)
        whole = known.bound < inf and (
            known.makes_whole or (known.keeps_whole and all(f.whole for f in facts))
        )
        (made,) = m.builder.build(op, values, {})
        m.add(made, Fact(known.bound, whole, rough or may_err(op, element)))

    return recipe


def _pattern(m: Maker) -> None:
    grow(m, m.pick(EXACT))


def _compare(m: Maker) -> None:
    x = m.value(m.smooth)
    compare = m.pick([op for op in ELEMENTWISE if "compare" in op.definition.traits])  # type: ignore[union-attr]
    m.add(m.builder.build(compare, [x, m.like(x.type, m.smooth)], {})[0], Fact(1, True))


def _select(m: Maker) -> None:
    x = m.value()
    y, condition = m.like(x.type), m.like(with_element(x.type, i1))
    a, b = m.facts[x], m.facts[y]
    m.add(
        m.builder.select(condition, x, y),
        Fact(max(a.bound, b.bound), a.whole and b.whole, a.rough or b.rough),
    )


def _cast(m: Maker) -> None:
    x = m.value()
    fact, target = m.facts[x], m.pick(m.elements)
    whole_target = isinstance(target, IntegerType)
    if is_float(x) and whole_target:
        if fact.rough:
            return  # it may be on either side of a whole number
        fact = Fact(fact.bound, True)
    if whole_target and (fact.bound > 127 or target.unsigned):  # type: ignore[attr-defined]
        fact = Fact()
    elif fact.bound > 256:
        fact = Fact(rough=fact.rough)
    m.add(m.builder.cast(x, type=with_element(x.type, target)), fact if target is not i1 else Fact(1, True))


def _bitcast(m: Maker) -> None:
    x = m.value(lambda v: element_type(v.type) in (f32, i32) and not m.facts[v].rough)
    target = {f32: i32, i32: f32}.get(element_type(x.type))
    # The bits of a NaN are free, so none may be looked at.
    if target is not None and not m.facts[x].rough and (target is f32 or m.facts[x].bound < inf):
        m.add(m.builder.bitcast(x, type=with_element(x.type, target)))


def _broadcast(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) < 4)
    names, shape = m.names(x), list(shape_of(x.type))
    if len(shape) > 4:
        return
    dims = list(range(len(shape)))
    for name, size in m.some([a for a in m.axes if not m.named or a[0] not in names]):
        at = m.number(0, len(shape))
        if prod(shape) * size > m.most or len(shape) > 4:
            break
        shape.insert(at, size)
        names.insert(at, name)
        dims = [d + (d >= at) for d in dims]
    m.add(m.builder.broadcast(x, type=m.tensor(names, shape, element_type(x.type)), dimensions=dims), kept=x)


def _transpose(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 1)
    order = m.shuffled(range(len(shape_of(x.type))))
    m.add(m.builder.transpose(x, permutation=order), kept=x)


def _reshape(m: Maker) -> None:
    x = m.value()
    shape, count = [], prod(shape_of(x.type))
    for _ in range(m.number(0, 3)):
        divisors = [d for d in range(1, count + 1) if count % d == 0] or [1, 2]
        shape.append(m.pick(divisors))
        count //= shape[-1]
    if count != 1 or m.chance(4):
        shape.insert(m.number(0, len(shape)), count)
    if prod(shape) == prod(shape_of(x.type)):
        m.add(m.builder.reshape(x, type=m.tensor([None] * len(shape), shape, element_type(x.type))), kept=x)


def _cast_axes(m: Maker) -> None:
    x = m.value(lambda v: m.named)
    shape = shape_of(x.type)
    m.add(m.builder.cast_axes(x, type=m.tensor([None] * len(shape), shape, element_type(x.type))), kept=x)


def _slice(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    starts, limits, steps = [], [], []
    for size in shape_of(x.type):
        step = m.pick([1, 2, -1, 3, -2]) if m.chance(2) else 1
        if size == 0 or not m.chance(2):
            low, high = 0, size
        else:
            low = m.number(0, size - 1)
            high = m.number(low if m.chance(6) else low + 1, size)
        starts.append(low if step > 0 else max(high - 1, 0))
        limits.append(high if step > 0 else low - 1 if high else 0)
        steps.append(step)
    m.add(m.builder.slice(x, starts=starts, limits=limits, steps=steps), kept=x)


def _pad(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    low, high = ([m.number(0, 2) if m.chance(2) else 0 for _ in shape_of(x.type)] for _ in range(2))
    if prod(a + s + b for a, s, b in zip(low, shape_of(x.type), high, strict=True)) <= m.most:
        m.add(m.builder.pad(x, low=low, high=high), kept=x)


def _windows(m: Maker) -> None:
    """Windows of a value; of numbers also their sum, put back."""
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    shape = list(shape_of(x.type))
    axes = m.some([d for d, size in enumerate(shape) if size])
    if not axes:
        return
    steps, dilations, taps = [], [], []
    for axis in axes:
        taps.append(m.number(1, min(3, shape[axis])))
        dilations.append(m.number(1, max(1, (shape[axis] - 1) // max(1, taps[-1] - 1))) if m.chance(3) else 1)
        if (taps[-1] - 1) * dilations[-1] >= shape[axis]:
            dilations[-1] = 1
        steps.append(m.number(1, 3))
        shape[axis] = (shape[axis] - (taps[-1] - 1) * dilations[-1] - 1) // steps[-1] + 1
    if len(taps) + len(shape) > 6 or prod(taps) * prod(shape) > m.most:
        return
    made = m.tensor([*[None] * len(taps), *m.names(x)], [*taps, *shape], element_type(x.type))
    windows = m.builder.windows(x, type=made, axes=axes, steps=steps, dilations=dilations)
    m.add(windows, kept=x)
    fact = m.facts[x]
    if not is_bool(x) and not m.exact and fact.bound * prod(taps) < 1e4 and m.chance(2):
        total = m.builder.overlap_add(windows, type=x.type, axes=axes, steps=steps, dilations=dilations)
        m.add(total, Fact(fact.bound * prod(taps), fact.whole, fact.rough or not fact.whole))


def _concatenate(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    if not shape_of(x.type):
        return
    parts = [x, *(m.like(x.type) for _ in range(m.number(0, 2)))]
    facts = [m.facts[p] for p in parts]
    fact = Fact(max(f.bound for f in facts), all(f.whole for f in facts), any(f.rough for f in facts))
    if len(parts) * prod(shape_of(x.type)) > m.most:
        return
    rank = len(shape_of(x.type))
    if m.chance(2):
        m.add(m.builder.concatenate(parts, axis=m.number(0, rank - 1)), fact)
    elif rank < 5:
        axis = m.number(0, rank)
        shape, names = list(shape_of(x.type)), [*m.names(x)]
        shape.insert(axis, len(parts))
        names.insert(axis, m.new_name())
        m.add(m.builder.stack(parts, type=m.tensor(names, shape, element_type(x.type)), axis=axis), fact)


def _reduce(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    shape, fact = shape_of(x.type), m.facts[x]
    axes = m.some(range(len(shape)), least=0)
    count = prod(shape[a] for a in axes)
    if is_bool(x):
        m.add(getattr(m.builder, m.pick(["any", "all"]))(x, axes=axes), Fact(1, True))
        return
    summed = _summed(x, fact, count)
    options = ["max", "min"]
    if is_integer(x) or not summed.rough or not m.exact:
        options += ["sum", "sum"]
    if is_integer(x) or (fact.whole and fact.bound ** min(count, 99) <= WHOLE[element_type(x.type)]):
        options.append("product")
    if is_float(x) and count and (not summed.rough or not m.exact):
        options.append("mean")
    others = _others("reduction", "any all sum product max min mean argmax argmin", x)
    if others and not m.exact and not fact.rough:
        m.add(m.builder.build(m.pick(others), [x], {"axes": axes})[0], Fact(rough=True))
        return
    name = m.pick(options)
    made = getattr(m.builder, name)(x, axes=axes)
    match name:
        case "sum":
            m.add(made, summed)
        case "mean":
            m.add(made, Fact(fact.bound, rough=not m.exact))
        case "product":
            m.add(made)
        case _:
            m.add(made, fact if count else Fact())


def _others(trait: str, known: str, x: Value) -> list[type[Op]]:
    """Ops of a family of which nothing is known here."""
    return [
        op
        for name, op in ng.OPS.items()
        if op.definition and trait in op.definition.traits and name[3:] not in known.split()
        if op.definition.operands[0].constraint.accepts(x.type)
    ]


def _summed(x: Value, fact: Fact, count: int) -> Fact:
    """What is known of a sum of `count` such values."""
    if is_integer(x):
        return Fact()
    bound = fact.bound * count
    kept = fact.whole and bound <= WHOLE[element_type(x.type)]
    exact = kept and (element_type(x.type) not in (f16, bf16) or bound <= 256)
    return Fact(bound, exact, not kept)


def _position(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0 and not is_bool(v) and m.smooth(v))
    axes = m.some(range(len(shape_of(x.type))))
    if is_bool(x) or not axes or not m.smooth(x) or 0 in [shape_of(x.type)[a] for a in axes]:
        return
    axes = m.shuffled(axes)
    kept = [d for d in range(len(shape_of(x.type))) if d not in axes]
    type = m.tensor([m.names(x)[d] for d in kept], [shape_of(x.type)[d] for d in kept], m.pick([i32, i64]))
    m.add(getattr(m.builder, m.pick(["argmax", "argmin"]))(x, type=type, axes=axes), Fact(m.most, True))


def _cumulative(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0 and not is_bool(v))
    if is_bool(x) or not shape_of(x.type):
        return
    axis = m.number(0, len(shape_of(x.type)) - 1)
    fact = m.facts[x]
    summed = _summed(x, fact, shape_of(x.type)[axis])
    options = ["max", "min", *(["sum"] if is_integer(x) or not summed.rough or not m.exact else [])]
    if is_integer(x):
        options.append("product")
    name = m.pick(options)
    reverse, exclusive = m.chance(2), m.chance(3)
    made = getattr(m.builder, f"cumulative_{name}")(x, axis=axis, reverse=reverse, exclusive=exclusive)
    m.add(made, summed if name == "sum" else Fact() if exclusive or name == "product" else fact)


def _dot(m: Maker) -> None:
    x = m.value(lambda v: not is_bool(v) and m.facts[v].bound <= 100)
    y = m.value(lambda v: element_type(v.type) is element_type(x.type) and m.facts[v].bound <= 100)
    if is_bool(x) or element_type(y.type) is not element_type(x.type):
        return
    a, b = shape_of(x.type), shape_of(y.type)
    pairs: dict[str, list[tuple[int, int]]] = {"contract": [], "batch": []}
    free = list(range(len(b)))
    for i in m.shuffled(range(len(a))):
        same = [
            j for j in free if b[j] == a[i] and (not m.named or m.names(x)[i] == m.names(y)[j] or m.chance(2))
        ]
        if same and not m.chance(4):
            j = m.pick(same)
            free.remove(j)
            pairs["batch" if m.chance(3) else "contract"].append((i, j))
    contract, batch = pairs["contract"], pairs["batch"]
    depth = prod(a[i] for i, _ in contract)
    if prod(a) * prod(b[j] for j in free) > 8 * m.most or len(a) + len(free) - len(contract) > 6:
        return
    product = Fact(m.facts[x].bound * m.facts[y].bound, m.facts[x].whole and m.facts[y].whole)
    fact = _summed(x, product, depth)
    if fact.rough and m.exact:
        return
    if m.named and set(m.names(x)) & {m.names(y)[j] for j in free}:
        y = m.builder.cast_axes(y, type=m.tensor([None] * len(b), b, element_type(y.type)))
    made = m.builder.dot(
        x,
        y,
        lhs_contract=[i for i, _ in contract],
        rhs_contract=[j for _, j in contract],
        lhs_batch=[i for i, _ in batch],
        rhs_batch=[j for _, j in batch],
    )
    if prod(shape_of(made.type)) <= m.most:
        m.add(made, fact)


def _gather(m: Maker) -> None:
    x = m.value(lambda v: len(shape_of(v.type)) > 0)
    if not shape_of(x.type):
        return
    axis = m.number(0, len(shape_of(x.type)) - 1)
    shape, names = shape_of(x.type), m.names(x)
    integer = m.pick([i32, i64])
    if m.chance(3):
        rows = [*shape[:axis], m.number(0, 4), *shape[axis + 1 :]]
        indices = m.like(m.tensor(names, rows, integer))
        if shape[axis]:
            m.add(m.builder.gather_elements(x, indices, axis=axis), kept=x)
        return
    count = m.pick([[3], [], [2, 2], [0], [1]])
    indices = m.like(m.tensor([None] * len(count), count, integer))
    whole = [*shape[:axis], *count, *shape[axis + 1 :]]
    if prod(whole) > m.most or len(whole) > 5:
        return
    if m.chance(2):
        type = m.tensor(m.names(indices), whole, element_type(x.type)) if not m.named else None
        inner = [*names[:axis], *m.names(indices), *names[axis + 1 :]]
        updates = m.like(type or m.tensor(inner, whole, element_type(x.type)))
        combine = m.pick(["set", "set", "max", "min"] if is_bool(x) else ["set", "add", "max", "min"])
        a, b = m.facts[x], m.facts[updates]
        if combine == "add" and not is_integer(x):
            fact = Fact(rough=a.rough or b.rough)
        else:
            fact = Fact(max(a.bound, b.bound), rough=a.rough or b.rough) if combine != "add" else Fact()
        if not is_bool(x) or combine == "set":
            m.add(m.builder.scatter(x, indices, updates, axis=axis, combine=combine), fact)  # type: ignore[arg-type]
    elif shape[axis] or 0 in count:
        verb = m.builder.lookup if m.chance(4) else m.builder.gather
        m.add(verb(x, indices, axis=axis), kept=x)


def _one_hot(m: Maker) -> None:
    indices = m.value(lambda v: is_integer(v) and len(shape_of(v.type)) < 4)
    if not is_integer(indices) or len(shape_of(indices.type)) > 4:
        return
    axis, size = m.number(0, len(shape_of(indices.type))), m.number(0, 6)
    shape, names = list(shape_of(indices.type)), m.names(indices)
    shape.insert(axis, size)
    names.insert(axis, m.new_name())
    if prod(shape) <= m.most:
        m.add(
            m.builder.one_hot(indices, type=m.tensor(names, shape, m.pick(m.elements)), axis=axis),
            Fact(1, True),
        )


def _network(m: Maker) -> None:
    x = m.value(lambda v: is_float(v) and len(shape_of(v.type)) > 0 and m.facts[v].bound <= 100)
    axes = m.some(range(len(shape_of(x.type))))
    if m.exact or not is_float(x) or m.facts[x].bound > 100 or not axes:
        return
    if 0 in [shape_of(x.type)[a] for a in axes]:
        return
    op = m.pick([ng.CrossEntropyOp, *_others("row", "", x)])
    if op is ng.CrossEntropyOp:
        targets = m.like(x.type, lambda v: m.facts[v].bound <= 4)
        m.add(m.builder.cross_entropy(x, targets, axes=axes), Fact(1e4, rough=True))
    else:
        (made,) = m.builder.build(op, [x], {"axes": axes})
        m.add(made, Fact(1 if op is ng.SoftmaxOp else 300, rough=True))


RECIPES: list[Callable[[Maker], None]] = [
    _applied(2), _applied(1), _pattern, _applied(2), _pattern, _applied(2), _applied(1), _broadcast, _reduce, _reduce, _reshape, _transpose, _source, _applied(3), _compare, _select, _cast,
    _bitcast, _slice, _pad, _windows, _concatenate, _dot, _dot, _gather, _one_hot, _position, _cumulative, _network, _network, _iota,
    _random, _cast_axes,
]  # fmt: skip


# ---- control flow ------------------------------------------------------------------------------------------


def _inside(m: Maker, carried: Sequence[Value], most: int = 3) -> list[Value]:
    """A few ops, and for each carried value one of its type: itself, another, or a new one."""
    for _ in range(m.number(0, most)):
        m.pick(RECIPES)(m)
    out = []
    for value in carried:
        match m.number(0, 3):
            case 0:
                out.append(m.like(value.type))
            case 1:
                out.append(m.pick([c for c in carried if c.type is value.type]))
            case _:
                verb = m.builder.bitwise_xor if is_bool(value) else m.builder.maximum
                out.append(verb(value, m.like(value.type)))
    return out


def _unknown(m: Maker, value: Value) -> Fact:
    """What can be said of a value that goes round a loop."""
    return Fact(1, True) if is_bool(value) else Fact(rough=is_float(value) and not m.exact)


def _if(m: Maker) -> None:
    condition = m.like(TensorType((), i1, AxesAttr() if m.named else None))
    patterns = [m.value() for _ in range(m.number(1, 2))]
    regions = []
    for _ in range(2):
        with m.builder.region() as (region, _):
            m.scopes.append([])
            m.builder.end(ng.YieldOp, *_inside(m, patterns))
            m.scopes.pop()
        regions.append(region)
    made = m.builder.if_(condition, types=[p.type for p in patterns], regions=regions)
    for value in made:
        m.add(value, _unknown(m, value))


def _while(m: Maker) -> None:
    counter_type = TensorType((), i32, AxesAttr() if m.named else None)
    zero, one, limit = (m.builder.number(n, counter_type) for n in (0, 1, m.number(0, 3)))
    inits = [m.value() for _ in range(m.number(1, 3))]
    if m.chance(2):
        inits.append(m.like(inits[0].type))
    types = [counter_type, *(v.type for v in inits)]
    with m.builder.region(*types) as (condition, (count, *_)):
        m.builder.end(ng.YieldOp, m.builder.less(count, limit))
    with m.builder.region(*types) as (body, (count, *carried)):
        m.scopes.append([])
        for value in carried:
            m.add(value, _unknown(m, value))
        values = _inside(m, carried)
        m.builder.end(ng.YieldOp, m.builder.add(count, one), *values)
        m.scopes.pop()
    for value in m.builder.while_([zero, *inits], types=types, regions=[condition, body])[1:]:
        m.add(value, _unknown(m, value))


def _scan(m: Maker) -> None:
    first = m.value(lambda v: 0 < len(shape_of(v.type)) and shape_of(v.type)[0] <= 8)
    if not shape_of(first.type) or shape_of(first.type)[0] > 8:
        return
    sequences = [first, *([m.like(first.type)] if m.chance(2) else [])]
    inits = [m.value() for _ in range(m.number(0, 2))]
    if inits and m.chance(2):
        inits.append(m.like(inits[0].type))
    steps = [m.tensor(m.names(s)[1:], shape_of(s.type)[1:], element_type(s.type)) for s in sequences]
    with m.builder.region(*[v.type for v in inits], *steps) as (body, values):
        m.scopes.append([])
        for value in values:
            m.add(value, _unknown(m, value))
        carried = _inside(m, values[: len(inits)])
        given = [
            m.value(lambda v: prod(shape_of(v.type)) <= 60) for _ in range(m.number(0 if inits else 1, 2))
        ]
        m.builder.end(ng.YieldOp, *carried, *given)
        m.scopes.pop()
    length = shape_of(first.type)[0]
    stacked = [
        m.tensor([m.new_name(), *m.names(g)], [length, *shape_of(g.type)], element_type(g.type))
        for g in given
    ]
    made = m.builder.scan(
        inits,
        sequences,
        types=[*(v.type for v in inits), *stacked],
        reverse=m.chance(3),
        regions=[body],
    )
    for value in made:
        m.add(value, _unknown(m, value))


CONTROL: list[Callable[[Maker], None]] = [_if, _while, _scan]
