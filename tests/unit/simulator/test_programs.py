# SPDX-License-Identifier: Apache-2.0
"""Whole kernels, under several orders of warps and copies, and their speed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from programs import matmul, pipeline, softmax
from ptx_support import Machine, elementwise, kernel, pointers

SEEDS = [None, 0, 1, 2]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("m", "n", "k"), [(32, 48, 32), (19, 33, 5)])
def test_matmul(m, n, k, seed):
    a, b = random(m, k), random(k, n)
    machine = Machine(matmul(m, n, k))
    addresses = [machine.put(v) for v in (a, b, np.zeros((m, n), np.float32))]
    machine.module.launch("matmul", (-(-n // 16), -(-m // 16), 1), 256, addresses, seed=seed)
    actual = machine.get(addresses[2], np.dtype(np.float32), (m, n))
    np.testing.assert_allclose(actual, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax(seed):
    x = random(5, 512) * 4
    x[1, 3] = -np.inf
    machine = Machine(softmax(512))
    source, target = machine.put(x), machine.put(np.zeros_like(x))
    machine.module.launch("k", (5, 1, 1), 128, [source, target], seed=seed)
    raised = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    actual = machine.get(target, x.dtype, x.shape)
    np.testing.assert_allclose(actual, raised / raised.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_copies_run_ahead(stages, seed):
    x = random(9, 64)
    machine = Machine(pipeline(stages, 9))
    source, target = machine.put(x), machine.put(np.zeros(64, np.float32))
    machine.module.launch("pipeline", (1, 1, 1), 64, [source, target], seed=seed)
    total = np.float32(0) + np.zeros(64, np.float32)
    for row in x:
        total += row[::-1]
    assert np.array_equal(machine.get(target, x.dtype, (64,)), total)


@pytest.mark.parametrize("batch", [64, 1 << 15])
def test_blocks_may_run_in_any_number_at_a_time(batch):
    x = random(1000, 32).reshape(-1)
    machine = Machine(elementwise("  %r = fadd float %x0, %x0", ["float"], "float"))
    source, target = machine.put(x), machine.put(np.zeros_like(x))
    machine.module.launch("k", (1000, 1, 1), 32, [source, target], batch_threads=batch)
    assert np.array_equal(machine.get(target, x.dtype, x.shape), x + x)


def test_same_bits_whatever_the_order():
    x = random(4, 512)
    machine = Machine(softmax(512))
    source = machine.put(x)
    answers = set()
    for seed in SEEDS:
        target = machine.put(np.zeros_like(x))
        machine.module.launch("k", (4, 1, 1), 128, [source, target], seed=seed)
        answers.add(machine.get(target, x.dtype, x.shape).tobytes())
    assert len(answers) == 1


def test_a_million_elements_are_quick():
    body = """  %base = mul i32 %b, 256
  %i = add i32 %base, %t
  %p = getelementptr <4 x float>, ptr addrspace(1) %a, i32 %i
  %x = load <4 x float>, ptr addrspace(1) %p, align 16
  %y = fmul <4 x float> %x, %x
  %z = fadd <4 x float> %y, %x
  %q = getelementptr <4 x float>, ptr addrspace(1) %o, i32 %i
  store <4 x float> %z, ptr addrspace(1) %q, align 16"""
    x = random(1 << 20)
    machine = Machine(kernel(body, pointers("a", "o"), 256))
    source, target = machine.put(x), machine.put(np.zeros_like(x))
    begin = time.perf_counter()
    machine.module.launch("k", (1024, 1, 1), 256, [source, target])
    # Some 30 ms on one quiet core.
    assert time.perf_counter() - begin < 2.0
    assert np.array_equal(machine.get(target, x.dtype, x.shape), x * x + x)


def test_trip_counts_may_differ_between_threads():
    """Each thread sums 0 .. t by a loop of its own length; a second branch parts them again."""
    body = """  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i1, %next]
  %s = phi i32 [0, %entry], [%s2, %next]
  %odd = and i32 %i, 1
  %isodd = icmp eq i32 %odd, 1
  br i1 %isodd, label %a, label %c
a:
  %s0 = mul i32 %s, 3
  %sa = add i32 %s0, %t
  br label %next
c:
  %sc = add i32 %s, %i
  br label %next
next:
  %s2 = phi i32 [%sa, %a], [%sc, %c]
  %i1 = add i32 %i, 1
  %more = icmp ule i32 %i1, %t
  br i1 %more, label %loop, label %end
end:
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %s2, ptr addrspace(1) %q"""
    machine = Machine(kernel(body, pointers("o"), 64))
    expected = []
    for t in range(64):
        s = 0
        for i in range(t + 1):
            s = (3 * s + t if i & 1 else s + i) & 0xFFFFFFFF
        expected.append(s)
    for seed in SEEDS:
        target = machine.put(np.zeros(64, np.uint32))
        machine.module.launch("k", (1, 1, 1), 64, [target], seed=seed)
        assert machine.get(target, np.dtype(np.uint32), (64,)).tolist() == expected
