# SPDX-License-Identifier: Apache-2.0
"""Counts of kernels whose requests can be counted by hand, and the bounds that follow."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import Machine, kernel, pointers

from ngmlir.simulator.counters import Counters, report
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
        assert asked.ratio == sectors / 4
    assert found.memory_bytes == 2 * 32 * 4 * sectors
    assert found.is_far_off == (step > 1)


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
    head, line = report([alone], machines().gpu("sm_90a"))
    assert "bound by" in head and line.startswith("k ") and line.endswith("latency")


def test_counts_change_no_results_and_add_up():
    machine = Machine(kernel(copy(1), pointers("a", "o"), 64))
    values = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    arguments = [machine.put(values), machine.put(np.zeros(128, np.float32))]
    found = Counters()
    for seed in (None, 1, 2):
        machine.module.launch("k", (2, 1, 1), 64, arguments, counters=found, seed=seed)
    assert np.array_equal(machine.get(arguments[1], np.dtype(np.float32), (128,)), values)
    assert (found.launches, found.blocks, found.reads.count) == (3, 6, 12)
