# SPDX-License-Identifier: Apache-2.0
"""The meaning of softmax and its kin, against mpmath; decompositions of composite ops against their meaning."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from meaning_helpers import (
    BF16,
    FLOATS,
    INTEGERS,
    NUMERIC,
    SHAPES,
    is_float,
    made,
    same,
    sample,
    special,
    tensor,
    ulps,
    value,
)
from slopes import Example, examples

from ngmlir.ir.attributes import FloatAttr
from ngmlir.ir.core import Block, Op, Region, Value, module
from ngmlir.ir.literals import float_bits, type_of_dtype
from ngmlir.ir.types import f32, f64
from ngmlir.ir.verifier import verify
from ngmlir.ops import func, ng
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.decompositions import DECOMPOSITIONS
from ngmlir.ops.interpreter import ArrayVerbs, evaluate, run
from ngmlir.ops.words import from_text
from ngmlir.testing.numbers import combinations, ordinary_numbers

INF, NAN = math.inf, math.nan
STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-21, "float64": 2.0**-50}


def _exact_rows(logits: np.ndarray) -> np.ndarray:
    """log_softmax along the last dimension to 50 digits."""
    out = np.empty(logits.shape)
    with mpmath.workdps(50):
        for at in np.ndindex(logits.shape[:-1]):
            row = [mpmath.mpf(float(x)) for x in logits[at]]
            total = mpmath.log(mpmath.fsum(mpmath.exp(x) for x in row))
            out[at] = [float(x - total) for x in row]
    return out


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(dtype: np.dtype) -> None:
    logits = (sample(dtype, (5, 7)).astype(np.float64) / 8).astype(dtype)
    exact = _exact_rows(logits)
    soft, log = (
        value(ng.SoftmaxOp, logits, axes=[1]).astype(float),
        value(ng.LogSoftmaxOp, logits, axes=[1]).astype(float),
    )
    assert (np.abs(soft - np.exp(exact)) <= 4 * STEP[dtype.name] * np.exp(exact) + 2.0**-24).all()
    assert (np.abs(log - exact) <= 8 * STEP[dtype.name] * np.maximum(1, np.abs(exact))).all()
    targets = np.exp(exact).astype(dtype)
    loss = value(ng.CrossEntropyOp, logits, targets, axes=[1]).astype(float)
    wanted = -(targets.astype(np.float64) * exact).sum(1)
    assert (np.abs(loss - wanted) <= 16 * STEP[dtype.name] * np.maximum(1, wanted)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normalize(dtype: np.dtype) -> None:
    x = (sample(dtype, (5, 7)).astype(np.float64) / 8).astype(dtype)
    wide = x.astype(np.longdouble)
    epsilon = FloatAttr(float_bits(1e-3, f64), f64)
    for axes in ((1,), (0, 1), ()):
        exact = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-3)
        found = value(ng.NormalizeOp, x, axes=axes, epsilon=epsilon)
        assert found.dtype == dtype
        assert (np.abs(found.astype(float) - exact) <= 16 * STEP[dtype.name]).all()


def test_softmax_axes_may_be_several_or_first() -> None:
    x = sample(np.dtype(np.float32), (3, 4, 5))
    both = value(ng.SoftmaxOp, x, axes=[0, 2])
    assert np.allclose(both.sum((0, 2)), 1)
    assert np.allclose(
        value(ng.SoftmaxOp, x, axes=[0]),
        value(ng.SoftmaxOp, np.ascontiguousarray(x.transpose(1, 2, 0)), axes=[2]).transpose(2, 0, 1),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_edges(dtype: np.dtype) -> None:
    big = {"float16": 60000.0}.get(dtype.name, 1e38)
    rows = np.array([[-INF, -INF], [INF, 0], [-INF, 0], [NAN, 0], [big, -big], [big, big], [0, 0]]).astype(
        dtype
    )
    soft = value(ng.SoftmaxOp, rows, axes=[1])
    assert same(
        soft,
        np.array([[NAN] * 2, [NAN] * 2, [0, 1], [NAN] * 2, [1, 0], [0.5, 0.5], [0.5, 0.5]]).astype(dtype),
    )
    assert same(value(ng.SoftmaxOp, np.zeros((2, 0), dtype), axes=[1]), np.zeros((2, 0), dtype))
    # A class that is masked out, and not aimed at, costs nothing.
    loss = value(
        ng.CrossEntropyOp, np.array([-INF, 0]).astype(dtype), np.array([0, 1]).astype(dtype), axes=[0]
    )
    assert loss == 0


# ---- decompositions ----------------------------------------------------------------------------------------


#: Shapes, and the dimensions along which something is done.
GROUPS = (((4, 3), [1]), ((4, 3), [0, 1]), ((0, 3), [1]), ((2, 0), [1]), ((2, 3, 5), [0, 2]), ((7,), [0]))


def drawn(example: Example) -> tuple[np.ndarray, ...]:
    """Ordinary numbers for the operands of an example."""
    op, random = example.op, np.random.default_rng(4)
    groups = op.definition.operand_groups(len(op.operands)) if op.definition else []
    domains = [operand.domain for operand, start, stop in groups or [] for _ in range(start, stop)]
    return tuple(ordinary_numbers(d, o.type, random) for d, o in zip(domains, op.operands, strict=True))


def composites() -> list[tuple[type[Op], tuple[np.ndarray, ...], dict[str, Any], Any]]:
    """Ops with operands, attributes and stated type: every composite op, every type, odd shapes."""
    found: list[Any] = []
    for name in DECOMPOSITIONS:
        op = ng.OPS[name]
        definition = op.definition
        assert definition is not None
        operands = definition.operands
        for dtype in NUMERIC:
            if not all(o.constraint.accepts(tensor((1,), dtype)) for o in operands):
                continue
            if "elementwise" in definition.traits:
                found.append((op, tuple(combinations([special(dtype)] * len(operands))), {}, None))
                found += [
                    (op, tuple(sample(dtype, s, i) for i in range(len(operands))), {}, None) for s in SHAPES
                ]
            elif [a.name for a in definition.attributes] == ["axes"]:
                for shape, axes in GROUPS:
                    given = [sample(dtype, shape), *(np.abs(sample(dtype, shape, 2)) for _ in operands[1:])]
                    found.append((op, tuple(given), {"axes": axes}, None))
    found += [
        (type(e.op), drawn(e), e.attributes, e.op.results[0].type)
        for e in examples()
        if e.op.name in DECOMPOSITIONS
    ]
    key = np.array([123456789123456789, 9876543210987654321], np.uint64)
    found += [
        (op, (key,), {}, tensor(s, dtype))
        for op in (ng.RandomUniformOp, ng.RandomNormalOp)
        for dtype in FLOATS
        for s in SHAPES
    ]
    found += [(ng.RandomBitsOp, (key,), {}, tensor(s, np.uint32)) for s in SHAPES]
    for dtype in NUMERIC:
        x = sample(dtype, (2, 3))
        found += [
            (ng.StackOp, (x, x + x, x), {"axis": a}, tensor((2, 3)[:a] + (3,) + (2, 3)[a:], dtype))
            for a in range(3)
        ]
        found.append((ng.LookupOp, (sample(dtype, (5, 3)), np.array([[0, -1], [7, 3]])), {}, None))
        found.append((ng.OneHotOp, (np.array([0, 2, -1, 4, 9]),), {"axis": 1}, tensor((5, 5), dtype)))
    for dtype in FLOATS:
        given = {"epsilon": FloatAttr(float_bits(1e-3, f32), f32)}
        found += [
            (ng.NormalizeOp, (sample(dtype, shape),), {"axes": axes, **given}, None) for shape, axes in GROUPS
        ]
        # Windows of one tap, some of which leave elements of the axis out, or stand beside longer ones.
        for sizes, counts, steps, lengths in (((1, 1), (3, 4), (1, 1), (3, 4)), ((1, 1), (3, 4), (2, 3), (5, 12)), ((1, 2), (3, 4), (3, 1), (9, 5)), ((2, 1), (3, 4), (1, 2), (4, 7))):  # fmt: skip
            given = {"axes": [0, 2], "steps": steps, "dilations": [1, 1]}
            windows = sample(dtype, (*sizes, counts[0], 5, counts[1]))
            whole = tensor((lengths[0], 5, lengths[1]), dtype)
            found.append((ng.OverlapAddOp, (windows,), given, whole))
            whole = sample(dtype, (lengths[0], 5, lengths[1]))
            found.append((ng.WindowsOp, (whole,), given, tensor(windows.shape, dtype)))
    for integer in INTEGERS:
        found.append((ng.OneHotOp, (sample(integer, (50,)),), {"axis": 0}, tensor((200, 50), np.float32)))
        found.append((ng.OneHotOp, (np.array(3, integer),), {"axis": 0}, tensor((5,), bool)))
    return found


def test_every_decomposition_is_tested() -> None:
    assert {op.name for op, *_ in composites()} == set(DECOMPOSITIONS)


def close(found: np.ndarray, wanted: np.ndarray, op: type[Op]) -> bool:
    """Bit for bit, or a few last places where a sum may take another order."""
    assert op.definition is not None
    if op.definition.errors and is_float(found.dtype):
        allowed = dict(op.definition.errors).get(str(type_of_dtype(found.dtype)), 0.6) + 1
        return found.dtype == wanted.dtype and found.shape == wanted.shape and ulps(found, wanted) <= allowed
    if op is ng.RandomNormalOp:  # the product with 2 pi is rounded in the type
        return np.allclose(
            found.astype(float), wanted.astype(float), rtol=1e-2 if found.itemsize == 2 else 1e-5, atol=1e-5
        )
    if (
        is_float(found.dtype)
        and found.size
        and op in (ng.SoftmaxOp, ng.LogSoftmaxOp, ng.MeanOp, ng.CrossEntropyOp, ng.NormalizeOp)
    ):
        return found.dtype == wanted.dtype and found.shape == wanted.shape and ulps(found, wanted) <= 2
    return same(found, wanted)


def test_decompositions_on_arrays_keep_the_meaning() -> None:
    for op, arrays, attributes, type in composites():
        whole = made(op, *arrays, type=type, **attributes)
        parts = DECOMPOSITIONS[op.name](ArrayVerbs(), whole, arrays)
        if parts is None:  # it stays as it is
            stays = (ng.ConstantOp, ng.WindowsOp, ng.OverlapAddOp, ng.FmaOp)
            assert op in stays or not is_float(arrays[0].dtype)
            continue
        assert close(parts[0], evaluate(whole, arrays)[0], op), (op.name, [a.dtype for a in arrays], type)


def test_decompositions_on_values_make_good_ir() -> None:
    for op, arrays, attributes, type in composites():
        block = Block([v.type for v in made(op, *arrays, type=type, **attributes).operands])
        builder = Builder(block)
        whole = made(op, *arrays, type=type, **attributes)
        results = DECOMPOSITIONS[op.name](builder, whole, block.args)
        if results is None:
            continue
        assert [r.type for r in results] == [r.type for r in whole.results]
        builder.end(func.ReturnOp, *results)
        program = module([function("main", block)])
        assert verify(program) == ()
        assert close(run(program, *arrays)[0], evaluate(whole, arrays)[0], op)


def test_integer_division_stays() -> None:
    x = np.arange(4)
    assert DECOMPOSITIONS["ng.floor_divide"](ArrayVerbs(), made(ng.FloorDivideOp, x, x), [x, x]) is None


def test_decompositions_keep_axis_names() -> None:
    text = """
    func.func @main(%x: tensor<4x3xbf16, #ng.axes<N, C>>, %i: tensor<4xi8, #ng.axes<N>>) -> (tensor<4x3xbf16, #ng.axes<N, C>>, tensor<4xbf16, #ng.axes<N>>, tensor<4x300xf32, #ng.axes<N, Y>>) {
      %s = ng.softmax %x axes [1] : tensor<4x3xbf16, #ng.axes<N, C>>
      %m = ng.mean %x axes [1] : (tensor<4x3xbf16, #ng.axes<N, C>>) -> tensor<4xbf16, #ng.axes<N>>
      %h = ng.one_hot %i axis 1 : (tensor<4xi8, #ng.axes<N>>) -> tensor<4x300xf32, #ng.axes<N, Y>>
      return %s, %m, %h : tensor<4x3xbf16, #ng.axes<N, C>>, tensor<4xbf16, #ng.axes<N>>, tensor<4x300xf32, #ng.axes<N, Y>>
    }
    """
    program = from_text(text)
    main = program.ops[0]
    block = main.regions[0].block
    new = Block([a.type for a in block.args])
    builder = Builder(new)
    values: dict[Value, Value] = dict(zip(block.args, new.args, strict=True))
    for op in block.ops[:-1]:
        parts = DECOMPOSITIONS[op.name](builder, op, [values[o] for o in op.operands])
        assert parts is not None
        values |= zip(op.results, parts, strict=True)
    builder.end(func.ReturnOp, *[values[o] for o in block.ops[-1].operands])
    changed = module([main.rebuilt(regions=[Region(new)])])
    assert verify(changed) == ()
    arrays = sample(BF16, (4, 3)), np.array([0, 127, -1, 5], np.int8)
    for found, wanted in zip(run(changed, *arrays), run(program, *arrays), strict=True):
        assert same(found, wanted)
