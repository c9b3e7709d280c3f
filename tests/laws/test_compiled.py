# SPDX-License-Identifier: Apache-2.0
"""Compiled programs against the interpreter: random ones, and every op on every type and many shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from comparing import assert_close, assert_same_bits, assert_within, largest_number
from generators import arguments, modules
from hypothesis import given
from tables import Table, compiled, filled, pairs

from ngmlir.compiler import compile_artifact, compile_module
from ngmlir.ir.attributes import numeric_literal
from ngmlir.ir.core import Module, Op
from ngmlir.ir.elements import elements
from ngmlir.ir.literals import dtype_of, item_bytes
from ngmlir.ir.types import (
    FloatType,
    IntegerType,
    TensorType,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    ui8,
    ui16,
    ui32,
    ui64,
    with_element,
)
from ngmlir.ops import ng
from ngmlir.ops.builder import build_op
from ngmlir.ops.interpreter import run
from ngmlir.runtime import cpu
from ngmlir.runtime.pool import Pool
from ngmlir.testing import ordinary_numbers, special_numbers, wide_numbers

Array = np.ndarray[Any, Any]
FLOATS: tuple[Type, ...] = (f32, f64, f16, bf16)
INTEGERS: tuple[Type, ...] = (i32, i64, i8, i16, ui8, ui16, ui32, ui64)
ELEMENTS: tuple[Type, ...] = (*FLOATS, *INTEGERS, i1)
#: Below, at and above the widths of registers and tiles.
SIZES = (0, 1, 2, 3, 7, 13, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 1000)
SOME_SIZES = (0, 1, 17, 64, 65)
#: Split into several programs.
LARGE = 40_000


# ---- random programs ---------------------------------------------------------------------------------------


@given(of=modules(exact=True))
def test_random_program_to_the_bit(of: Module) -> None:
    arrays = arguments(of)
    assert_same_bits(compiled(of, arrays), run(of, *arrays))


@given(of=modules(exact=True, large=True))
def test_large_random_program_to_the_bit(of: Module) -> None:
    arrays = arguments(of)
    assert_same_bits(compiled(of, arrays), run(of, *arrays))


@given(of=modules())
def test_random_program(of: Module) -> None:
    arrays = arguments(of)
    assert_close(compiled(of, arrays), run(of, *arrays), largest_number(of, arrays))


@given(of=modules(exact=True))
def test_random_program_on_a_simulated_gpu(of: Module) -> None:
    arrays = arguments(of)
    got = compile_module(of, "cuda-sim")(*arrays)
    assert_same_bits([np.asarray(g) for g in got], run(of, *arrays))


@given(of=modules(exact=True))
def test_arguments_are_left_alone(of: Module) -> None:
    """Also those that the program overwrites: a call without bound arrays works on copies."""
    arrays = [np.array(a) for a in arguments(of)]
    compile_module(of, "cpu")(*arrays)
    assert_same_bits(arrays, arguments(of))


# ---- elementwise ops


#: Both run in every test; the second is simulated.
TARGETS = ("cpu", "cuda-sim")


def may_err(op: type[Op], element: Type) -> bool:
    """Whether the op's entry states an error, so that targets need not give the bits of the reference."""
    return bool(op.definition.errors) and isinstance(element, FloatType)  # type: ignore[union-attr]


ELEMENTWISE = [op for op in ng.OPS.values() if "elementwise" in op.definition.traits]  # type: ignore[union-attr]


def elementwise(table: Table, element: Type, x: Array, y: Array, wanted: Callable[[type[Op]], bool]) -> None:
    """Adds every elementwise op that takes this element type (other than casts)."""
    a, b = table.argument(x, element), table.argument(y, element)
    condition = table.argument(np.arange(x.size).reshape(x.shape) % 3 == 0)
    for op in ELEMENTWISE:
        definition = op.definition
        assert definition is not None
        if op in (ng.CastOp, ng.BitcastOp) or not wanted(op):
            continue
        operands = [a, b, b][: len(definition.operands)]
        if op is ng.SelectOp:
            operands = [condition, a, b]
        if all(o.constraint.accepts(v.type) for o, v in zip(definition.operands, operands, strict=True)):
            made = build_op(op, operands, {})
            table.block.ops.append(made)
            table.result(f"{op.name} {element} {list(x.shape)}", made.result)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_elementwise_ops_on_special_numbers(element: Type, target: str) -> None:
    table = Table()
    elementwise(table, element, *pairs(element), lambda op: not may_err(op, element))
    table.check(target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_elementwise_ops_on_numbers_of_all_exponents(element: Type, target: str) -> None:
    """Where quotients overflow and have more digits than a float, sums cancel, and shifts leave the width."""
    random, table = np.random.default_rng(4), Table()
    x, y = (wide_numbers(element, 3000, random) for _ in range(2))
    elementwise(table, element, x, y, lambda op: not may_err(op, element))
    table.check(target=target)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_elementwise_ops_on_all_sizes(element: Type) -> None:
    table = Table()
    for size in SIZES if element is f32 else SOME_SIZES:
        x, y = filled(element, size, 1), filled(element, size, 2)
        elementwise(table, element, x, y, lambda op: not op.definition.errors)  # type: ignore[union-attr]
    elementwise(
        table,
        element,
        filled(element, 1, 3).reshape(()),
        filled(element, 1, 4).reshape(()),
        lambda op: not may_err(op, element),
    )
    table.check()


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_large_elementwise_ops(element: Type) -> None:
    table = Table()
    few = {"ng.add", "ng.maximum", "ng.select", "ng.less", "ng.bitwise_xor"}
    elementwise(
        table, element, filled(element, LARGE, 1), filled(element, LARGE, 2), lambda op: op.name in few
    )
    table.check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_functions_err_no_more_than_they_say(element: Type, target: str) -> None:
    """On pairs of special numbers, on the domain of each op, and on numbers of all exponents. The reference is off by half a unit itself, in f64 by one."""
    for op in ELEMENTWISE:
        definition = op.definition
        assert definition is not None
        if not may_err(op, element) or not definition.operands[0].constraint.accepts(element):
            continue
        table = Table()
        special = pairs(element) if len(definition.operands) > 1 else (special_numbers(element),)
        random = np.random.default_rng(1)
        operands = [
            table.argument(
                np.concatenate(
                    [
                        x,
                        ordinary_numbers(o.domain, TensorType((1000,), element), random),
                        wide_numbers(element, 500, random),
                    ]
                ),
                element,
            )
            for o, x in zip(definition.operands, special, strict=True)
        ]
        made = build_op(op, operands, {})
        table.block.ops.append(made)
        table.result(f"{op.name} {element}", made.result)
        # What is not stated is computed in f32 and rounded once.
        ulps = int(dict(definition.errors).get(str(element), 0.6) + (1 if element is f64 else 0.5))
        table.check(lambda got, wanted, name, ulps=ulps: assert_within(got, wanted, ulps, name), target)


def ends(source: FloatType, target: Type) -> Array:
    """Special floats, and those around both ends of the integers of a type."""
    special = special_numbers(source)
    if not isinstance(target, IntegerType) or target is i1:
        return special
    info = np.iinfo(dtype_of(target))
    edges = [
        float(end + d) for end in (info.min, 0, info.max) for d in (-1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0)
    ]
    with np.errstate(over="ignore"):
        near = np.array([e * scale for e in (*edges, 2.0**31, 2.0**63, 2.0**64) for scale in (0.5, 1, 2)])
        rounded = near.astype(special.dtype)
    bits = rounded.view(f"i{rounded.itemsize}")
    around = [(bits + d).astype(bits.dtype).view(special.dtype) for d in (-1, 0, 1)]
    return np.concatenate([special, *around])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("source", ELEMENTS, ids=str)
def test_casts(source: Type, name: str) -> None:
    """Also of floats beyond the integers, in every lane: vectors, what is left of them, numbers alone."""
    table = Table()
    for target in ELEMENTS:
        given = ends(source, target) if isinstance(source, FloatType) else special_numbers(source)
        random = np.random.default_rng(6)
        given = np.concatenate([given, wide_numbers(source, 500, random)])
        arrays = [given, *(random.choice(given, size) for size in (0, 1, 2, 3, 7, 13, 17, 31, 101, 1009))]
        arrays += [np.asarray(number) for number in (given[0], given[-1], *random.choice(given, 3))]
        for x in arrays if name == "cpu" else arrays[:6]:
            a = table.argument(x, source)
            made = table.b.cast(a, type=with_element(a.type, target))
            table.result(f"cast {source} to {target} {list(x.shape)}", made)
    table.check(target=name)


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_large_casts(source: Type) -> None:
    table = Table()
    for target in INTEGERS:
        given = ends(source, target)  # type: ignore[arg-type]
        a = table.argument(np.random.default_rng(7).choice(given, LARGE), source)
        table.result(f"cast {source} to {target}", table.b.cast(a, type=with_element(a.type, target)))
    table.check()


@pytest.mark.parametrize("source", [e for e in ELEMENTS if e is not i1], ids=str)
def test_bitcasts(source: Type) -> None:
    table = Table()
    a = table.argument([x for x in special_numbers(source) if x == x], source)
    for target in ELEMENTS:
        if target is not i1 and item_bytes(target) == item_bytes(source):
            table.result(
                f"bitcast {source} to {target}", table.b.bitcast(a, type=with_element(a.type, target))
            )
    table.check()


# ---- shape -------------------------------------------------------------------------------------------------

#: One dtype of each width is enough where elements only move.
MOVED = (f32, f64, i1, bf16)


@pytest.mark.parametrize("element", MOVED, ids=str)
def test_moves(element: Type) -> None:
    table = Table()
    b = table.b
    for n in SIZES if element is f32 else SOME_SIZES:
        x = table.argument(filled(element, n, 1), element)
        y = table.argument(filled(element, n * 3, 2).reshape(n, 3), element)
        z = table.argument(filled(element, n * 6, 3).reshape(2, n, 3), element)
        name = f"{element} {n}"
        table.result(f"transpose {name}", b.transpose(y, permutation=[1, 0]))
        for order in ([0, 2, 1], [2, 1, 0], [1, 2, 0]):
            table.result(f"transpose {order} {name}", b.transpose(z, permutation=order))
        for dims, shape in (([0], (n, 5)), ([1], (5, n)), ([1], (2, n, 3)), ([0], (n, 1))):
            table.result(
                f"broadcast {dims} {name}", b.broadcast(x, type=TensorType(shape, element), dimensions=dims)
            )
        for step in (2, 3, -1, -2, -5) if n else ():
            first, limit = (0, n) if step > 0 else (n - 1, -1)
            table.result(f"every {step} {name}", b.slice(x, starts=[first], limits=[limit], steps=[step]))
            table.result(
                f"every {step} of 3 {name}", b.slice(y, starts=[first, 0], limits=[limit, 3], steps=[step, 1])
            )
            table.result(
                f"every {step} inside {name}",
                b.slice(z, starts=[0, first, 1], limits=[2, limit, 3], steps=[1, step, 1]),
            )
        table.result(f"slice {name}", b.slice(y, starts=[0, 1], limits=[n, 3], steps=[2, 1]))
        table.result(f"inner {name}", b.slice(z, starts=[1, n // 2, 0], limits=[2, n, 3], steps=[1, 1, 2]))
        value = numeric_literal(1, element)
        table.result(f"pad {name}", b.pad(x, low=[2], high=[5], value=value))
        table.result(f"pad 2 {name}", b.pad(y, low=[0, 1], high=[3, 0]))
        table.result(
            f"concatenate {name}",
            b.concatenate([x, x, table.argument(filled(element, 4, 4), element)], axis=0),
        )
        table.result(f"concatenate 1 {name}", b.concatenate([y, y], axis=1))
        table.result(f"stack {name}", b.stack([x, x], type=TensorType((n, 2), element), axis=1))
        table.result(f"reshape {name}", b.reshape(y, type=TensorType((3, n), element)))
    table.check()


@pytest.mark.parametrize("element", MOVED, ids=str)
def test_large_moves(element: Type) -> None:
    table = Table()
    b = table.b
    x = table.argument(filled(element, 200 * 207, 1).reshape(200, 207), element)
    table.result("transpose", b.transpose(x, permutation=[1, 0]))
    table.result("concatenate", b.concatenate([x, x], axis=1))
    table.result("pad", b.pad(x, low=[3, 1], high=[0, 2]))
    table.result("slice", b.slice(x, starts=[199, 1], limits=[-1, 206], steps=[-1, 2]))
    table.result("broadcast", b.broadcast(x, type=TensorType((3, 200, 207), element), dimensions=[1, 2]))
    table.check()


# ---- by index ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", [f32, f64, i8, i1, bf16], ids=str)
@pytest.mark.parametrize("integer", [i32, i64, ui8], ids=str)
def test_indexing(element: Type, integer: Type) -> None:
    table = Table()
    b = table.b
    random = np.random.default_rng(3)
    for n, count in ((1, 1), (1, 17), (5, 0), (5, 3), (17, 64), (65, 33), (1000, 127)):
        low = 0 if integer is ui8 else -n - 3
        picks = random.integers(low, min(n + 3, 200), count)
        i = table.argument(picks, integer)
        grid = table.argument(random.integers(low, min(n + 3, 200), (count, 3)), integer)
        x = table.argument(filled(element, n, 1), element)
        y = table.argument(filled(element, n * 3, 2).reshape(n, 3), element)
        name = f"{element} {n} [{count} {integer}]"
        table.result(f"gather {name}", b.gather(x, i, axis=0), b.gather(y, i, axis=0))
        table.result(f"gather inside {name}", b.gather(b.transpose(y, permutation=[1, 0]), i, axis=1))
        table.result(f"lookup {name}", b.lookup(y, i))
        table.result(f"gather_elements {name}", b.gather_elements(y, grid, axis=0))
        table.result(f"one_hot {name}", b.one_hot(i, type=TensorType((count, 5), element), axis=1))
        table.result(f"one_hot 0 {name}", b.one_hot(grid, type=TensorType((4, count, 3), element), axis=0))
        small, rows = table.whole((n, 3), element, 7), table.whole((count, 3), element, 8)
        for combine in ("set",) if element is i1 else ("set", "add", "max", "min"):
            table.result(f"scatter {combine} {name}", b.scatter(small, i, rows, axis=0, combine=combine))
    scalar = table.argument(np.array(2), integer)
    y = table.whole((4, 3), element)
    table.result("gather one", b.gather(y, scalar, axis=1))
    table.result("scatter one", b.scatter(y, scalar, table.whole((3,), element), axis=0))
    table.check()


# ---- reductions --------------------------------------------------------------------------------------------


def reduced(table: Table, shape: Sequence[int], element: Type, groups: Iterable[Sequence[int]]) -> None:
    b = table.b
    whole = table.whole(shape, element)
    ends = table.argument(filled(element, whole.type.size, 4).reshape(shape), element)  # type: ignore[attr-defined]
    signs = table.argument(np.where(np.random.default_rng(5).random(shape) < 0.5, -1, 1), element)
    for axes in groups:
        name = f"{element} {list(shape)} over {list(axes)}"
        if element is i1:
            table.result(f"any {name}", b.any(whole, axes=axes))
            table.result(f"all {name}", b.all(whole, axes=axes))
            continue
        table.result(f"sum {name}", b.sum(whole, axes=axes))
        table.result(f"max {name}", b.max(ends, axes=axes))
        table.result(f"min {name}", b.min(ends, axes=axes))
        if isinstance(element, FloatType):
            table.result(f"mean {name}", b.mean(whole, axes=axes))
            table.result(f"product {name}", b.product(signs, axes=axes))
        else:
            table.result(f"product {name}", b.product(ends, axes=axes))
        if axes and 0 not in [shape[a] for a in axes]:
            type = TensorType(tuple(s for d, s in enumerate(shape) if d not in axes), i64)
            table.result(
                f"argmax {name}", b.argmax(ends, type=type, axes=axes), b.argmin(ends, type=type, axes=axes)
            )


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_reductions(element: Type) -> None:
    table = Table()
    for n in SIZES if element is f32 else SOME_SIZES:
        reduced(table, (n,), element, [[0], []])
        reduced(table, (3, n), element, [[0], [1], [0, 1]])
        reduced(table, (n, 2), element, [[0], [1]])
    for n in (1, 16, 17):
        reduced(table, (2, n, 5), element, [[0, 2], [1], [1, 2], [0, 1]])
    reduced(table, (3, 4, 1, 5), element, [[0, 2], [1, 3], [3], [2]])
    reduced(table, (), element, [[]])
    table.check()


@pytest.mark.parametrize("element", [f32, i32, bf16, i1], ids=str)
def test_large_reductions(element: Type) -> None:
    table = Table()
    reduced(table, (LARGE,), element, [[0]])
    reduced(table, (5000, 9), element, [[0], [1]])
    reduced(table, (9, 5000), element, [[0], [1]])
    reduced(table, (70, 33, 17), element, [[0, 2], [1]])
    table.check()


@pytest.mark.parametrize("element", [f32, f64, f16, i32, i8, ui64], ids=str)
def test_running_reductions(element: Type) -> None:
    table = Table()
    for shape in ((0,), (1,), (17,), (65,), (1000,), (3, 65), (65, 3), (2, 17, 5)):
        whole = table.whole(shape, element)
        ends = table.argument(filled(element, whole.type.size, 4).reshape(shape), element)  # type: ignore[attr-defined]
        for axis, reverse, exclusive in itertools.product(range(len(shape)), (False, True), (False, True)):
            options: Any = dict(axis=axis, reverse=reverse, exclusive=exclusive)
            name = f"{element} {shape} {options}"
            table.result(f"sum {name}", table.b.cumulative_sum(whole, **options))
            table.result(f"max {name}", table.b.cumulative_max(ends, **options))
            table.result(f"min {name}", table.b.cumulative_min(ends, **options))
            if isinstance(element, IntegerType):
                table.result(f"product {name}", table.b.cumulative_product(ends, **options))
    table.check()


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_rows(element: Type) -> None:
    table = Table()
    b = table.b
    random = np.random.default_rng(5)
    for shape, axes in (
        ((1,), [0]),
        ((17,), [0]),
        ((3, 65), [1]),
        ((65, 3), [0]),
        ((4, 3, 5), [0, 2]),
        ((2, 1000), [1]),
    ):
        x = table.argument(random.standard_normal(shape) * 3, element)
        t = table.argument(random.random(shape), element)
        name = f"{element} {list(shape)} over {axes}"
        table.result(f"softmax {name}", b.softmax(x, axes=axes))
        table.result(f"log_softmax {name}", b.log_softmax(x, axes=axes))
        table.result(f"cross_entropy {name}", b.cross_entropy(x, t, axes=axes))
        epsilon = numeric_literal(1e-3, f32)
        table.result(f"normalize {name}", b.normalize(x, axes=axes, epsilon=epsilon))
    table.check(lambda got, wanted, name: assert_close(got, wanted, what=name))


# ---- products ----------------------------------------------------------------------------------------------

#: lhs, rhs, contracted dimensions, batch dimensions.
LAYOUTS = [
    ("mk", "kn", "k", ""),
    ("km", "kn", "k", ""),
    ("mk", "nk", "k", ""),
    ("km", "nk", "k", ""),
    ("bmk", "bkn", "k", "b"),
    ("bmk", "bnk", "k", "b"),
    ("mbk", "kbn", "k", "b"),
    ("k", "kn", "k", ""),
    ("mk", "k", "k", ""),
    ("k", "k", "k", ""),
    ("m", "n", "", ""),
    ("bm", "bm", "m", "b"),
]


@pytest.mark.parametrize("element", [f32, f64, f16, bf16, i32, i8, ui64], ids=str)
def test_products(element: Type) -> None:
    table = Table()
    sizes = [
        dict(m=5, k=7, n=3, b=2),
        dict(m=17, k=33, n=65, b=3),
        dict(m=1, k=16, n=64, b=1),
        dict(m=16, k=1, n=1, b=2),
    ]
    sizes.append(dict(m=4, k=0, n=3, b=2))
    if element is f32:
        sizes += [dict(m=65, k=64, n=127, b=2), dict(m=14, k=100, n=48, b=1), dict(m=0, k=3, n=2, b=2)]
    for size, (lhs, rhs, contract, batch) in itertools.product(sizes, LAYOUTS):
        x = table.whole([size[d] for d in lhs], element, 1)
        y = table.whole([size[d] for d in rhs], element, 2)
        made = table.b.dot(
            x,
            y,
            lhs_contract=[lhs.index(d) for d in contract],
            rhs_contract=[rhs.index(d) for d in contract],
            lhs_batch=[lhs.index(d) for d in batch],
            rhs_batch=[rhs.index(d) for d in batch],
        )
        table.result(f"{lhs} {rhs} {size} {element}", made)
    table.check()


@pytest.mark.parametrize("element", [f32, f64, bf16], ids=str)
def test_large_products(element: Type) -> None:
    table = Table()
    for m, k, n in ((130, 257, 191), (300, 64, 512), (1, 700, 900), (700, 900, 1)):
        x, y = table.whole((m, k), element, 1), table.whole((n, k), element, 2)
        table.result(f"{m} {k} {n}", table.b.dot(x, y, lhs_contract=[1], rhs_contract=[1]))
    table.check()


# ---- constants, random numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_constants(element: Type) -> None:
    table = Table()
    for size in (0, 1, 17, 1000):
        array = filled(element, size, 1)
        made = table.b.constant(
            type=TensorType((size,), element), value=elements(array, TensorType((size,), element))
        )
        table.result(f"constant {element} {size}", made)
        if element is not i1:
            for shape in ((size,), (3, size), (size, 3)):
                for dimension in range(len(shape)):
                    table.result(
                        f"iota {element} {shape}",
                        table.b.iota(type=TensorType(shape, element), dimension=dimension),
                    )
    table.check()


def test_random_numbers() -> None:
    table = Table()
    b = table.b
    for seed, stream in ((0, 0), (1 << 63, (1 << 64) - 1)):
        key = table.argument(np.array([seed, stream], np.uint64))
        for shape in ((), (0,), (1,), (5,), (17, 3), (1000,), (LARGE,)):
            table.result(f"bits {shape}", b.random_bits(key, type=TensorType(shape, ui32)))
            for element in FLOATS:
                table.result(
                    f"uniform {element} {shape}", b.random_uniform(key, type=TensorType(shape, element))
                )
                if shape != (LARGE,):
                    table.result(
                        f"normal {element} {shape}", b.random_normal(key, type=TensorType(shape, element))
                    )

    def compare(got: Sequence[Array], wanted: Sequence[Array], name: str) -> None:
        if name.startswith("normal"):
            assert_close(got, wanted, what=name)
        else:
            assert_same_bits(got, wanted, name)

    table.check(compare)


# ---- the same bits -----------------------------------------------------------------------------------------


def everything() -> tuple[Module, list[Array]]:
    """Work that is split among threads, with sums whose order could show."""
    table = Table()
    b = table.b
    random = np.random.default_rng(9)
    x = table.argument(random.standard_normal((300, 257)).astype(np.float32))
    y = table.argument(random.standard_normal((257, 130)).astype(np.float32))
    flat = b.reshape(x, type=TensorType((300 * 257,), f32))
    table.result("dot", b.dot(x, y, lhs_contract=[1], rhs_contract=[0]))
    table.result("softmax", b.softmax(x, axes=[1]), b.log_softmax(x, axes=[0]))
    table.result("sum", b.sum(x, axes=[0]), b.sum(x, axes=[1]), b.sum(x, axes=[0, 1]), b.mean(flat, axes=[0]))
    table.result(
        "cumulative", b.cumulative_sum(x, axis=1), b.cumulative_sum(x, axis=0), b.cumulative_sum(flat, axis=0)
    )
    large = table.argument(random.standard_normal((1 << 15, 32)).astype(np.float32))
    places = table.argument(random.integers(-3000, 3000, 900).astype(np.int32))
    updates = table.argument(random.standard_normal((900, 96)).astype(np.float32))
    line, narrow = TensorType((1 << 20,), f32), TensorType((1 << 19, 2), f32)
    flat, narrow = b.reshape(large, type=line), b.reshape(large, type=narrow)
    table.result("split", b.sum(flat, axes=[0]), b.sum(narrow, axes=[0]), b.sum(large, axes=[0]))
    table.result("products", b.dot(flat, flat, lhs_contract=[0], rhs_contract=[0]))
    table.result("deep", b.dot(large, large, lhs_contract=[0], rhs_contract=[0]))
    table.result("best", b.argmax(flat, type=TensorType((), i32), axes=[0]))
    grown = b.broadcast(b.sum(x, axes=[1]), type=TensorType((300, 10, 96), f32), dimensions=[0])
    rows = b.reshape(grown, type=TensorType((3000, 96), f32))
    table.result("scatter", b.scatter(rows, places, updates, axis=0, combine="add"))
    table.result("map", b.exp(b.add(x, x)))
    table.result("position", b.argmax(x, type=TensorType((300,), i32), axes=[1]))
    return table.program(), table.arrays


def test_same_bits_for_any_number_of_threads() -> None:
    of, arrays = everything()
    artifact = compile_artifact(of, "cpu")
    found = []
    for threads in (1, 2, 3, 7):
        pool = Pool(threads)
        with mock.patch.object(cpu, "default_pool", lambda pool=pool: pool):
            found.append(cpu.load(artifact)(*arrays))
    for other, threads in zip(found[1:], (2, 3, 7), strict=True):
        assert_same_bits(other, found[0], f"{threads} threads")
    again = cpu.load(artifact)
    for _ in range(20):
        assert_same_bits(again(*arrays), found[0], "another run")
    assert_close(found[0], run(of, *arrays), largest_number(of, arrays))


def test_compiling_again_gives_the_same_code() -> None:
    of, _ = everything()
    first, second = compile_artifact(of, "cpu"), compile_artifact(of, "cpu")
    assert (first.code, first.kernels) == (second.code, second.kernels)
