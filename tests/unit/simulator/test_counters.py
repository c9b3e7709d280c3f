# SPDX-License-Identifier: Apache-2.0
"""Counts of kernels whose requests can be counted by hand, and the bounds that follow."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import Machine, kernel, pointers

from ngmlir.runtime.counted import Counted, table
from ngmlir.simulator.counters import Counters
from ngmlir.simulator.sampling import representatives
from ngmlir.support.machines import machines

WORDS = "@words = internal addrspace(3) global [2048 x float] undef, align 16"


def counted(body: str, blocks: int = 2, threads: int = 64, head: str = "") -> Counters:
    machine = Machine(kernel(body, pointers("a", "o"), threads, head))
    arguments = [machine.put(np.zeros(1 << 16, np.float32)) for _ in range(2)]
    found = Counters()
    machine.module.launch("k", (blocks, 1, 1), threads, arguments, counters=found)
    return found


def copy(step: int, kind: str = "float") -> str:
    """Each thread copies element `step * its number`."""
    return f"""  %n0 = mul i32 %b, 64
  %n = add i32 %n0, %t
  %i = mul i32 %n, {step}
  %p = getelementptr {kind}, ptr addrspace(1) %a, i32 %i
  %q = getelementptr {kind}, ptr addrspace(1) %o, i32 %i
  %v = load {kind}, ptr addrspace(1) %p, align 16
  store {kind} %v, ptr addrspace(1) %q, align 16""".replace(
        "align 16", "align 16" if kind[0] == "<" else "align 4"
    )


@pytest.mark.parametrize(("step", "sectors"), [(1, 4), (2, 8), (8, 32), (64, 32)])
def test_sectors_of_steps(step, sectors):
    found = counted(copy(step))
    for asked in (found.reads, found.writes):
        assert (asked.count, asked.parts, asked.ideal) == (4, 4 * sectors, 16)
        # Whoever wants these elements has to touch these sectors.
        assert asked.touched == asked.parts and asked.ratio == 1.0
        assert asked.per_request == sectors
    assert found.memory_bytes == 2 * 32 * 4 * sectors


def test_neighbours_that_others_ask_for_are_far_off():
    """Each thread copies every fourth element, and other warps those between them: each sector is asked for four times."""
    between = copy(1).replace(
        "%i = mul i32 %n, 1",
        "%quarter = and i32 %n, 31\n  %lane = mul i32 %quarter, 4\n  %warp = udiv i32 %n, 32\n  %i = add i32 %lane, %warp",
    )
    found = counted(between)
    for asked in (found.reads, found.writes):
        assert (asked.parts, asked.ideal, asked.touched) == (64, 16, 16) and asked.ratio == 4.0
    assert found.is_far_off


def test_wide_accesses_and_one_place_for_all():
    wide = counted(copy(1, "<4 x float>"))
    assert (wide.reads.count, wide.reads.parts, wide.reads.ratio) == (4, 64, 1.0)
    assert wide.flight_bytes == 16 and wide.bytes_in_flight(machines().gpu("sm_90a")) == 16 * 64 * 32
    one = counted(
        copy(1).replace(
            "getelementptr float, ptr addrspace(1) %a, i32 %i",
            "getelementptr float, ptr addrspace(1) %a, i32 0",
        )
    )
    assert (one.reads.count, one.reads.parts, one.reads.ideal) == (4, 4, 4)


@pytest.mark.parametrize(("step", "ways"), [(1, 1), (2, 2), (16, 16), (32, 32), (33, 1), (0, 1)])
def test_conflicts_of_banks(step, ways):
    body = f"""  %i = mul i32 %t, {step}
  %p = getelementptr float, ptr addrspace(3) @words, i32 %i
  store float 1.0, ptr addrspace(3) %p"""
    found = counted(body, 1, 32, WORDS)
    assert (found.shared.count, found.shared.parts, found.shared.ideal) == (1, ways, 1)


def test_wide_accesses_of_shared_memory():
    body = """  %p = getelementptr <4 x float>, ptr addrspace(3) @words, i32 %t
  store <4 x float> zeroinitializer, ptr addrspace(3) %p"""
    found = counted(body, 1, 32, WORDS)
    assert (found.shared.parts, found.shared.ratio) == (4, 1.0)


def test_threads_that_stand_aside():
    body = (
        """  %c = icmp ult i32 %t, 8
  br i1 %c, label %go, label %end
go:
"""
        + copy(1)
        + """
  br label %end
end:"""
    )
    found = counted(body)
    assert 0.3 < found.useful_threads < 0.8 and found.is_far_off


def test_what_binds():
    """Much memory and few instructions: memory, on any GPU; one block: the loads that it waits for."""
    body = copy(1, "<4 x float>")
    for name in ("sm_80", "sm_90a"):
        gpu = machines().gpu(name)
        found = counted(body, 256)
        seconds, what = found.bound(gpu)
        assert what in ("memory", "latency") and seconds >= found.memory_bytes / (1e9 * gpu.bandwidth)
    alone = counted(body, 1)
    assert alone.bound(machines().gpu("sm_90a"))[1] == "latency"
    head, line = table([Counted(alone, None, None)], machines().gpu("sm_90a"))
    assert "bound by" in head and line.split()[-2:] == ["latency", "k"]


def test_the_multiprocessor_with_the_most_blocks_binds():
    gpu = machines().gpu("sm_80")

    def matrix(blocks: int, shared_bytes: int = 0) -> float:
        made = Counters(launches=1, blocks=blocks, threads=128, shared_bytes=shared_bytes, flops=blocks << 20)
        return made.bounds(gpu)["matrix"]

    full = matrix(gpu.multiprocessors)
    assert matrix(1) == pytest.approx(full)  # the others have nothing to do
    assert matrix(gpu.multiprocessors + 1) == pytest.approx(2 * full)
    assert matrix(2 * gpu.multiprocessors) == pytest.approx(2 * full)
    # However many are there at once, no multiprocessor has more of them to do.
    assert matrix(5 * gpu.multiprocessors, gpu.block_shared) == pytest.approx(5 * full)
    assert matrix(5 * gpu.multiprocessors) == pytest.approx(5 * full)


def test_parts_without_warps_stand_idle():
    """A block of one warp works on one of four parts; several blocks on one multiprocessor fill the others."""
    gpu = machines().gpu("sm_90a")

    def issue(blocks: int, warps: int) -> float:
        made = Counters(
            launches=1, blocks=blocks, threads=32 * warps, warp_instructions=(blocks * warps) << 20
        )
        return made.bounds(gpu)["issue"]

    assert issue(1, 1) == pytest.approx(issue(1, 4)) == pytest.approx(issue(1, 8) / 2)
    assert issue(4 * gpu.multiprocessors, 1) == pytest.approx(issue(1, 1))


@pytest.mark.parametrize("type", ["f32", "f64", "i32", "i64"])
def test_multiply_adds_have_a_rate_of_their_own(type):
    """That of the architecture: sm_80 has half of the f32 lanes that sm_86 has, and sixteen times those of f64."""
    made = Counters(launches=1, blocks=1, threads=128)
    made.mix[type] = 1 << 20
    seconds = {name: made.bounds(machines().gpu(name)) for name in ("sm_80", "sm_86")}
    for name, found in seconds.items():
        gpu = machines().gpu(name)
        assert found[type] == pytest.approx((1 << 20) * 32 / (gpu.multiply_adds[type] * gpu.clock * 1e6))
    clocks = machines().gpu("sm_86").clock / machines().gpu("sm_80").clock
    ratio = seconds["sm_80"][type] / seconds["sm_86"][type] / clocks
    assert ratio == pytest.approx({"f32": 2, "f64": 1 / 16}.get(type, 1))


@pytest.mark.parametrize(
    ("type", "operation"), [("float", "fmul"), ("double", "fadd"), ("i32", "mul"), ("i64", "mul")]
)
def test_multiply_adds_are_counted_by_type(type, operation):
    body = f"""  %p = getelementptr {type}, ptr addrspace(1) %a, i32 %t
  %v = load {type}, ptr addrspace(1) %p, align 8
  %w = {operation} {type} %v, %v
  %x = {operation.replace("mul", "add")} {type} %w, %v
  %q = getelementptr {type}, ptr addrspace(1) %o, i32 %t
  store {type} %x, ptr addrspace(1) %q, align 8"""
    found = counted(body, 1).mix
    name = {"float": "f32", "double": "f64"}.get(type, type)
    assert found[name] == (4 if name[0] == "f" else 2)


def test_counts_change_no_results_and_add_up():
    machine = Machine(kernel(copy(1), pointers("a", "o"), 64))
    values = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    arguments = [machine.put(values), machine.put(np.zeros(128, np.float32))]
    found = Counters()
    for seed in (None, 1, 2):
        machine.module.launch("k", (2, 1, 1), 64, arguments, counters=found, seed=seed)
    assert np.array_equal(machine.get(arguments[1], np.dtype(np.float32), (128,)), values)
    assert (found.launches, found.blocks, found.reads.count) == (3, 6, 12)


@pytest.mark.parametrize("blocks", [1, 2, 3, 16, 17, 1000, 32768])
def test_representatives_stand_for_all_blocks(blocks):
    chosen = [(int(n), weight) for numbers, weight in representatives(blocks, 16) for n in numbers]
    assert len({n for n, _ in chosen}) == len(chosen) <= max(16, 3)
    assert sum(weight for _, weight in chosen) == pytest.approx(blocks)
    assert {0, blocks - 1} <= {n for n, _ in chosen}
    assert all(weight == 1 for n, weight in chosen if n in (0, blocks - 1))


@pytest.mark.parametrize("step", [1, 3])
def test_a_sample_counts_as_all_blocks_do(step):
    machine = Machine(kernel(copy(step), pointers("a", "o"), 64))
    # The store is full but for the last sectors, which only the last blocks touch.
    arguments = [machine.put(np.zeros(200 * 64 * step, np.float32)) for _ in range(2)]
    counts = [Counters(), Counters()]
    for found, sample in zip(counts, (None, 8), strict=True):
        machine.module.launch("k", (200, 1, 1), 64, arguments, counters=found, sample=sample)
    whole, some = counts
    assert (some.blocks, some.warp_instructions, some.mix) == (
        whole.blocks,
        whole.warp_instructions,
        whole.mix,
    )
    assert some.reads == whole.reads and some.writes == whole.writes
    assert some.memory_bytes == pytest.approx(whole.memory_bytes, rel=0.02)


def test_what_all_blocks_read_is_counted_once():
    body = copy(1).replace(
        "getelementptr float, ptr addrspace(1) %a, i32 %i", "getelementptr float, ptr addrspace(1) %a, i32 %t"
    )
    machine = Machine(kernel(body, pointers("a", "o"), 64))
    arguments = [machine.put(np.zeros(size, np.float32)) for size in (64, 200 * 64)]
    found = Counters()
    machine.module.launch("k", (200, 1, 1), 64, arguments, counters=found, sample=8)
    assert found.memory_bytes == 4 * (64 + 200 * 64)


def test_blocks_that_wait_for_one_another_all_run():
    """The last block to come adds one to what the others have left."""
    body = """  %one = atomicrmw add ptr addrspace(1) %o, i32 1 monotonic
  fence seq_cst"""
    machine = Machine(kernel(body, pointers("a", "o"), 32))
    arguments = [machine.put(np.zeros(8, np.int32)) for _ in range(2)]
    machine.module.launch("k", (50, 1, 1), 32, arguments, counters=Counters(), sample=4)
    assert machine.get(arguments[1], np.dtype(np.int32), (8,))[0] == 50 * 32
