# SPDX-License-Identifier: Apache-2.0
"""Shuffles, votes, reductions and barriers that return something."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import Machine, kernel, pointers

LANES = np.arange(32)
SEEDS = [None, 0, 1]


def run(
    body: str, threads: int = 32, head: str = "", seed: int | None = None, count: int | None = None
) -> np.ndarray:
    """The words that the kernel stores; %i is a value of each thread, 3 * t + 1."""
    text = f"""  %i3 = mul i32 %t, 3
  %i = add i32 %i3, 1
{body}
  %q = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %r, ptr addrspace(1) %q"""
    machine = Machine(kernel(text, pointers("o"), threads, head))
    target = machine.put(np.zeros(count or threads, np.int32))
    machine.module.launch("k", (1, 1, 1), threads, [target], seed=seed)
    return machine.get(target, np.dtype(np.int32), (count or threads,))


def shuffled(origin: np.ndarray, inside: np.ndarray) -> list[int]:
    return (3 * np.where(inside, origin, LANES) + 1).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("amount", [0, 1, 3, 8, 16, 31])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(mode, amount, width, seed):
    """`c` holds the segment mask and the bound, as CUDA's __shfl_sync makes it from a width."""
    clamp = ((32 - width) << 8) | (0 if mode == "up" else 31)
    head = f"declare {{i32, i1}} @llvm.nvvm.shfl.sync.{mode}.i32p(i32, i32, i32, i32)"
    body = f"""  %s = call {{i32, i1}} @llvm.nvvm.shfl.sync.{mode}.i32p(i32 -1, i32 %i, i32 {amount}, i32 {clamp})
  %v = extractvalue {{i32, i1}} %s, 0
  %f = extractvalue {{i32, i1}} %s, 1
  %n = sub i32 0, %v
  %r = select i1 %f, i32 %v, i32 %n"""
    actual = run(body, head=head, seed=seed)
    first = LANES // width * width
    origin, inside = {
        "up": (LANES - amount, LANES - amount >= first),
        "down": (LANES + amount, LANES + amount <= first + width - 1),
        "bfly": (LANES ^ amount, (LANES ^ amount) <= first + width - 1),
        "idx": (first + amount % width, np.ones(32, bool)),
    }[mode]
    values = np.array(shuffled(origin, inside))
    assert actual.tolist() == np.where(inside, values, -values).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_votes(seed):
    head = """declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare i1 @llvm.nvvm.vote.any.sync(i32, i1)"""
    body = """  %odd = trunc i32 %t to i1
  %w = lshr i32 %t, 5
  %first = icmp eq i32 %w, 0
  %say = or i1 %odd, %first
  %ballot = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %say)
  %all = call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 %say)
  %any = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %say)
  %x = select i1 %all, i32 0, i32 %ballot
  %r = select i1 %any, i32 %x, i32 7"""
    actual = run(body, 64, head, seed)
    assert actual[:32].tolist() == [0] * 32 and set(actual[32:].tolist()) == {
        int(np.uint32(0xAAAAAAAA).view(np.int32))
    }


@pytest.mark.parametrize(("name", "function"), [("add", np.sum), ("min", np.min), ("max", np.max)])
def test_reductions_of_a_warp(name, function):
    head = f"declare i32 @llvm.nvvm.redux.sync.{name}(i32, i32)"
    actual = run(f"  %r = call i32 @llvm.nvvm.redux.sync.{name}(i32 %i, i32 -1)", head=head)
    assert set(actual.tolist()) == {int(function(3 * LANES + 1))}


def test_half_a_warp_shuffles_by_itself():
    head = "declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)"
    body = """  %low = icmp ult i32 %t, 16
  br i1 %low, label %a, label %c
a:
  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 65535, i32 %i, i32 1, i32 31)
  br label %d
c:
  %y = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -65536, i32 %i, i32 2, i32 31)
  br label %d
d:
  %r = phi i32 [%x, %a], [%y, %c]"""
    for seed in SEEDS:
        actual = run(body, head=head, seed=seed)
        assert actual.tolist() == (3 * np.where(LANES < 16, LANES ^ 1, LANES ^ 2) + 1).tolist()


def test_match_and_active_lanes():
    head = "declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32)"
    body = """  %g = and i32 %t, 3
  %r = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %g)"""
    expected = [sum(1 << lane for lane in range(32) if lane % 4 == t % 4) for t in range(32)]
    assert run(body, head=head).view(np.uint32).tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_order_their_warps_only(seed):
    """Warp 0 hands a word to warp 1 through barrier 1; warps 2 and 3 never come there."""
    head = """@word = internal addrspace(3) global [32 x i32] undef, align 4
declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)
declare void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32, i32)"""
    body = """  %w = lshr i32 %t, 5
  %l = and i32 %t, 31
  %p = getelementptr i32, ptr addrspace(3) @word, i32 %l
  switch i32 %w, label %d [ i32 0, label %a
    i32 1, label %c ]
a:
  store i32 %i, ptr addrspace(3) %p
  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 1, i32 64)
  br label %d
c:
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64)
  %x = load i32, ptr addrspace(3) %p
  br label %d
d:
  %r = phi i32 [0, %a], [%x, %c], [9, %entry]"""
    actual = run(body, 128, head, seed)
    assert actual.tolist() == [0] * 32 + (3 * LANES + 1).tolist() + [9] * 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_that_counts(seed):
    head = """declare i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32, i1)
declare i1 @llvm.nvvm.barrier.cta.red.and.aligned.all(i32, i1)"""
    body = """  %few = icmp ult i32 %t, 37
  %c = call i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32 0, i1 %few)
  %all = call i1 @llvm.nvvm.barrier.cta.red.and.aligned.all(i32 0, i1 %few)
  %r = select i1 %all, i32 -1, i32 %c"""
    assert set(run(body, 64, head, seed).tolist()) == {37}


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_have_left_are_not_awaited(seed):
    """The last half of the block exits before the barrier."""
    body = """  %w = icmp uge i32 %t, 48
  br i1 %w, label %out, label %in
out:
  ret void
in:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %r = add i32 %i, 0"""
    assert run(body, 96, seed=seed)[:48].tolist() == (3 * np.arange(48) + 1).tolist()
