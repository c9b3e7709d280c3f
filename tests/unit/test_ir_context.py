# SPDX-License-Identifier: Apache-2.0
"""One object for each type and attribute, held weakly: equal means identical, and nothing is left behind."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.ir.attributes import DenseArrayAttr, IntegerAttr, StringAttr
from ngmlir.ir.context import CONTEXT, Unique
from ngmlir.ir.elements import KNOWN, ElementsAttr, elements
from ngmlir.ir.types import IntegerType, TensorType, VectorType, f32, i1, i64
from ngmlir.ops.words import from_text


def test_equal_types_and_attributes_are_one_object() -> None:
    assert TensorType((4, 3), f32) is TensorType((4, 3), f32, None)
    assert IntegerType(8) is IntegerType(8, "")
    assert TensorType((4, 3), f32) is not VectorType((4, 3), f32)
    assert IntegerAttr(1, i64) is IntegerAttr(True, i64) and str(IntegerAttr(True, i64)) == "1 : i64"
    assert DenseArrayAttr(i1, (True, False)) is DenseArrayAttr(i1, (1, 0))
    assert StringAttr("a") is not StringAttr("b")


def test_ops_of_a_kind_share_what_was_found_out() -> None:
    module = from_text("""
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.exp %x : tensor<4xf32>
          %named = ng.exp %0 : tensor<4xf32>
          return %named : tensor<4xf32>
        }""")
    first, second, _ = module.ops[0].block.ops
    assert first.kind is second.kind and first.kind.complaints == ((), ())


def test_what_nobody_holds_is_gone() -> None:
    type = TensorType((17, 19), f32)
    alive = weakref.ref(type)
    before = len(CONTEXT.objects)
    del type
    assert alive() is None
    assert len(CONTEXT.objects) == before - 1
    assert TensorType((17, 19), f32).text == "tensor<17x19xf32>"


def test_threads_get_the_same_object() -> None:
    for size in range(1000, 1200):
        start = Barrier(4)

        def make(_: int, size: int = size, start: Barrier = start) -> TensorType:
            start.wait()
            return TensorType((size,), f32)

        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(make, range(4)))
        assert all(m is made[0] for m in made)


def test_an_object_may_die_while_the_table_changes() -> None:
    class Thing:
        pass

    table: Unique[Thing] = Unique()

    class Key:
        """Its hash drops the thing of another key, as a collection of garbage may at any moment."""

        def __init__(self, held: list[Thing]):
            self.held = held

        def __hash__(self) -> int:
            self.held.clear()
            return 1

    held = [table.add("first", Thing())]
    second = table.add(Key(held), Thing())
    assert table.find("first") is None and len(table) == 1 and second is not None


@pytest.mark.parametrize("stage", ["graph", "lift", "numpy"])
def test_dropped_programs_leave_nothing(stage: str) -> None:
    def build(i: int) -> list[weakref.ref[object]]:
        n = ng.make_axis(3 + i, f"N{i}")
        state = ng.variable([n], initial_value=np.arange(3.0 + i))
        fed = ng.placeholder([n])
        constant = ng.constant(np.random.default_rng(i).normal(size=3000))
        write = ng.assign(state, ng.tanh(state * fed) + float(i))  # unguarded: later readers wait for it
        total = ng.sum(constant, out_axes=()) + ng.sum(state, out_axes=())
        if stage == "lift":
            ng.lift([total], [fed])
        elif stage == "numpy":
            with ng.transformers.make_transformer("numpy") as transformer:
                transformer.computation(total, fed)(1.0)
        return [weakref.ref(x) for x in (state, fed, constant, write, total)]

    build(0)
    gc.collect()
    sizes = [len(t) for t in (CONTEXT.objects, CONTEXT.kinds, CONTEXT.inferred)]
    for i in range(1, 20):
        made = build(i)
        gc.collect()
        assert not [r for r in made if r() is not None]
    assert [len(t) for t in (CONTEXT.objects, CONTEXT.kinds, CONTEXT.inferred)] == sizes


def test_constants_are_kept_not_copied_and_compare_by_their_bits() -> None:
    array = np.arange(10_000, dtype=np.float32)
    one, other = elements(array), elements(array.copy())
    assert np.shares_memory(one.array(), array) and not one.array().flags.writeable
    assert one == other and hash(one) == hash(other)
    array[5000] = -1
    changed = elements(array)
    assert changed != other
    # A difference that the sample of the hash does not see.
    hidden = other.array().copy()
    hidden[1] += 1
    hidden[601] += 1
    assert elements(hidden) != other
    assert one.opaque and not elements(np.zeros(10_000, np.float32)).opaque
    assert not elements(np.arange(KNOWN)).opaque and elements(np.arange(KNOWN + 1)).opaque


def test_signs_of_zero_and_payloads_keep_constants_apart() -> None:
    zeros = [elements(np.array([0.0, x, 1.0], np.float32)) for x in (0.0, -0.0)]
    assert zeros[0] != zeros[1]
    nan = elements(np.array([np.nan, 1.0]))
    assert nan == elements(np.array([np.nan, 1.0]))
    type = TensorType((2,), f32)
    assert ElementsAttr(b"\0\0\0\0", type) == elements(np.zeros(2, np.float32))
