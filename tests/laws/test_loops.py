# SPDX-License-Identifier: Apache-2.0
"""The `loops` lines of the dialect against the values of the ops: steps of a parallel loop may be drawn again, left out and
reordered; dimensions may lie in another order, where the attributes say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import wrapped
from generators import drawn

from ngmlir.decl.dialect_text import read_dialect
from ngmlir.ir.attributes import AxesAttr, integers
from ngmlir.ir.core import Block, Op, module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.loops import read_loops
from ngmlir.ir.types import FloatType, TensorType, Type, element_type, f32, f64, shape_of
from ngmlir.ops import ng
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.fields import get_i64s
from ngmlir.ops.interpreter import run
from ngmlir.ops.loops import Loop, OpLoops, loops_of
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

Array = np.ndarray[Any, Any]
#: Ops of which no line says the loops: these have none, or follow from the lengths (a reshape).
OPAQUE = {
    "ng.constant", "ng.iota", "ng.extent", "ng.reshape", "ng.random_bits", "ng.random_uniform", "ng.random_normal", "ng.if", "ng.while", "ng.scan",
    "ng.yield", "ng.fusion", "ng.recompute",
}  # fmt: skip


def found() -> Iterator[Op]:
    """Ops of every name: those of random programs, and of the examples of the dialect."""
    for cls in ng.OPS.values():
        if cls.definition is not None and cls.name not in OPAQUE:
            yield from (op for f in from_text(wrapped(cls)).ops for op in f.walk() if op.name == cls.name)
    for seed in range(120):
        for made in drawn(seed, exact=seed % 2 == 0).ops:
            yield from (op for op in made.walk() if op.name.startswith("ng.") and op.name not in OPAQUE)


def plain(op: Op) -> bool:
    types = [v.type for v in (*op.operands, *op.results)]
    return all(isinstance(t, TensorType) and t.size <= 4096 for t in types)


def values(op: Op, rng: np.random.Generator) -> list[Array]:
    arrays: list[Array] = []
    for value in op.operands:
        type = element_type(value.type)
        shape, dtype = shape_of(value.type), dtype_of(type)
        if isinstance(type, FloatType):
            arrays.append((rng.integers(-8, 9, shape) / 4).astype(dtype))
        else:
            high = 2 if dtype == np.bool_ else 5
            arrays.append(rng.integers(0, high, shape).astype(dtype))
    return arrays


def result(op: Op, arrays: Sequence[Array]) -> Array:
    """The value of an op on arrays."""
    block = Block([v.type for v in op.operands], [f"a{i}" for i in range(len(op.operands))])
    b = Builder(block)
    new = op.rebuilt(list(block.args))
    b.add_op(new)
    b.end(from_text("func.func @f() { return }").ops[0].block.ops[-1].__class__, *new.results)
    with np.errstate(all="ignore"):
        return np.asarray(run(module([function("main", block)]), *arrays)[0])


def same(a: Array, b: Array, what: str) -> None:
    assert a.shape == b.shape, what
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, what)
    else:
        rough = 2e-2 if a.dtype.itemsize <= 2 else 1e-5
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rough, atol=rough)


def sized(type: Type, dimension: int, size: int) -> TensorType:
    assert isinstance(type, TensorType)
    shape = list(type.shape)
    shape[dimension] = size
    return TensorType(tuple(shape), type.element, type.encoding)


def with_steps(loops: OpLoops, loop: Loop, count: int) -> Op:
    """The op with another length of a loop."""
    op = loops.op
    block = Block(
        [
            sized(v.type, own.index(loop), count) if loop in own else v.type
            for v, own in zip(op.operands, loops.operands, strict=True)
        ]
    )
    attributes = dict(op.attributes)
    for name, place in loops.lengths(loop).items():
        entries = list(get_i64s(op, name))
        entries[place] = count
        attributes[name] = integers(entries)
    types = [
        sized(r.type, own.index(loop), count) if loop in own else r.type
        for r, own in zip(op.results, loops.results, strict=True)
    ]
    return op.rebuilt(list(block.args), types=types, attributes=attributes)


def drawn_steps(loops: OpLoops, loop: Loop, rng: np.random.Generator) -> None:
    op = loops.op
    sizes = {
        shape_of(v.type)[own.index(loop)]
        for v, own in zip((*op.operands, *op.results), (*loops.operands, *loops.results), strict=True)
        if loop in own
    }
    assert len(sizes) == 1
    size = sizes.pop()
    steps = rng.integers(0, size, rng.integers(1, 6)) if size else np.zeros(0, np.int64)
    arrays = values(op, rng)
    taken = [
        np.take(a, steps, own.index(loop)) if loop in own else a
        for a, own in zip(arrays, loops.operands, strict=True)
    ]
    (own,) = loops.results
    whole = result(op, arrays)
    same(np.take(whole, steps, own.index(loop)), result(with_steps(loops, loop, len(steps)), taken), str(op))


def shuffled(loops: OpLoops, loop: Loop, rng: np.random.Generator) -> None:
    """The steps of a reduction come in any order."""
    arrays = values(loops.op, rng)
    place = next(own.index(loop) for own in loops.operands if loop in own)
    order = rng.permutation(arrays[0].shape[place])
    taken = [
        np.take(a, order, own.index(loop)) if loop in own else a
        for a, own in zip(arrays, loops.operands, strict=True)
    ]
    same(result(loops.op, arrays), result(loops.op, taken), str(loops.op))


def permuted(type: Type, order: Sequence[int]) -> TensorType:
    assert isinstance(type, TensorType)
    names = type.axes
    encoding = AxesAttr(*(names[d] for d in order)) if names is not None else None
    return TensorType(tuple(type.shape[d] for d in order), type.element, encoding)


def reordered(loops: OpLoops, rng: np.random.Generator) -> bool:
    """The op on operands whose dimensions lie in another order; whether there is one."""
    op = loops.op
    (own,) = loops.results
    if rng.integers(2):
        target = [own[d] for d in rng.permutation(len(own))]
        operands = loops.leading(target)
        if operands is None:
            return False
    else:
        draw = {loop: rng.random() for each in loops.operands for loop in each}
        operands = [sorted(each, key=draw.__getitem__) for each in loops.operands]
        target = loops.following(operands)
        if target is None:
            return False
    changed = loops.reordered(operands, target)
    if changed is None:
        return False
    orders = [[was.index(loop) for loop in now] for was, now in zip(loops.operands, operands, strict=True)]
    order = [own.index(loop) for loop in target]
    block = Block([permuted(v.type, o) for v, o in zip(op.operands, orders, strict=True)])
    new = op.rebuilt(
        list(block.args),
        attributes={**op.attributes, **changed},
        types=[permuted(op.results[0].type, order)],
    )
    arrays = values(op, rng)
    moved = [np.transpose(a, o) for a, o in zip(arrays, orders, strict=True)]
    same(np.transpose(result(op, arrays), order), result(new, moved), f"{op}\n{new}")
    return True


def test_every_op_says_its_loops() -> None:
    without = {c.name for c in ng.OPS.values() if c.definition is not None and c.definition.loops is None}
    assert without == OPAQUE


def test_loops_are_what_the_values_say() -> None:
    rng = np.random.default_rng(0)
    held: Counter[tuple[str, str]] = Counter()
    for op in filter(plain, found()):
        loops = loops_of(op)
        assert loops is not None
        for loop in dict.fromkeys(loop for own in (*loops.operands, *loops.results) for loop in own):
            kind = loops.kind(loop)
            if kind == "parallel":
                drawn_steps(loops, loop, rng)
            elif kind == "reduction":
                shuffled(loops, loop, rng)
            held[op.name, kind] += 1
    assert {name for name, kind in held if kind == "parallel"} == {n for n in ng.OPS if n not in OPAQUE}


def test_dimensions_may_lie_in_another_order() -> None:
    rng = np.random.default_rng(1)
    held: Counter[str] = Counter()
    for op in filter(plain, found()):
        loops = loops_of(op)
        assert loops is not None
        held[op.name] += sum(reordered(loops, rng) for _ in range(8))
    never = {name for name in ng.OPS if name not in OPAQUE and not held[name]}
    assert not never


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p q", "expected: operands -> results"),
        ("P -> p", "'P' is no group of loops"),
        ("p p -> p", "a loop stands twice"),
        ("p, q... -> p", "'...' stands behind the only operand"),
        ("p -> p with q reduction", "there is no loop 'q'"),
        ("p -> p with p fast", "says no kind of loop"),
        ("p -> p with p section", "says no kind of loop"),
        ("p -> p with p section low", "says no attribute of a whole loop"),
    ],
)
def test_lines_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("...", r"\.\.\.")):
        read_loops(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("loops r@axis p -> p", "has no attribute 'axis' above this line"),
        ("loops p, p -> p", "has 1 operands"),
        ("loops p -> p, p", "has 1 results"),
        ("loops p", "expected: operands -> results"),
    ],
)
def test_a_dialect_with_such_a_line_is_refused(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "x.ngd"
    file.write_text(
        f'dialect x "X."\n\nop y(input: value(numeric)) -> value(numeric)\n  attr axes: i64s\n  {line}\n'
        "  doc Y.\n  example %r = x.y %a : f32\n"
    )
    with pytest.raises(UserError, match=message) as error:
        read_dialect(file)
    assert f"{file}:5:3" in str(error.value)


def test_linear_ops_and_parts_of_sums() -> None:
    """Ops of the traits `linear` and `bilinear` take sums of operands apart, and parts of their reductions add up."""
    rng, seen = np.random.default_rng(5), Counter[str]()
    traits = {cls.name: cls.definition.traits for cls in ng.OPS.values() if cls.definition is not None}
    named = {name for name, own in traits.items() if own & {"linear", "bilinear"}}
    examples = from_text("\n".join(wrapped(cls) for cls in ng.OPS.values() if cls.name == "ng.reshape"))
    for op in (*found(), *(o for f in examples.ops for o in f.walk() if o.name == "ng.reshape")):
        if op.name not in named or seen[op.name] > 20 or not plain(op):
            continue
        if element_type(op.operands[0].type) not in (f32, f64):
            continue
        seen[op.name] += 1
        a, b = values(op, rng), values(op, rng)
        whole = range(len(a))
        for changed in [whole] if "linear" in traits[op.name] else [[0], [1]]:
            together = [x + y if i in changed else x for i, (x, y) in enumerate(zip(a, b, strict=True))]
            other = [y if i in changed else x for i, (x, y) in enumerate(zip(a, b, strict=True))]
            same(result(op, together), result(op, a) + result(op, other), str(op))
        loops = loops_of(op)
        for loop in () if loops is None else {loop for own in loops.operands for loop in own}:
            assert loops is not None
            if loops.kind(loop) == "reduction":
                parts_add_up(loops, loop, a)
    assert set(seen) == named


def parts_add_up(loops: OpLoops, loop: Loop, arrays: Sequence[Array]) -> None:
    place = next((i, own.index(loop)) for i, own in enumerate(loops.operands) if loop in own)
    size = arrays[place[0]].shape[place[1]]
    total: Any = 0
    for steps in np.split(np.arange(size), [size // 3]):
        taken = [
            np.take(a, steps, own.index(loop)) if loop in own else a
            for a, own in zip(arrays, loops.operands, strict=True)
        ]
        total = total + result(with_steps(loops, loop, len(steps)), taken)
    same(result(loops.op, arrays), np.asarray(total), str(loops.op))
