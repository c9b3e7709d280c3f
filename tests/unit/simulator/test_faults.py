# SPDX-License-Identifier: Apache-2.0
"""Bugs put into correct kernels: each must be found, under every order of warps, with its line named."""

from __future__ import annotations

import re

import numpy as np
import pytest
from programs import matmul, pipeline, softmax
from ptx_support import Machine, elementwise, kernel, pointers

from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.diagnostics import Limit, UserError

SEEDS = [None, 0, 1]


def changed(ptx: str, pattern: str, replacement: str, occurrence: int = 0) -> str:
    """`ptx` with one match of `pattern` replaced."""
    match = list(re.finditer(pattern, ptx))[occurrence]
    return ptx[: match.start()] + match.expand(replacement) + ptx[match.end() :]


def fault(ptx: str, name: str, sizes: list[int], threads: int, grid=(1, 1, 1), shared: int = 0, **options):
    machine = Machine(ptx)
    addresses = [machine.put(np.zeros(size, np.float32)) for size in sizes]
    with pytest.raises(SimulationFault) as caught:
        machine.module.launch(name, grid, threads, addresses, shared, **options)
    error = caught.value
    assert error.kernel == name and ptx.splitlines()[error.line - 1].strip() in str(error)
    return error


# ---- shared memory without order


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("barrier", [0, 1])
def test_a_missing_barrier_in_the_matrix_product(barrier, seed):
    ptx = changed(matmul(32, 32, 32), r"bar\.sync\s+0;", "", barrier)
    assert fault(ptx, "matmul", [1024] * 3, 256, seed=seed).kind == "race"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("barrier", [0, 1, 2])
def test_a_missing_barrier_in_the_softmax(barrier, seed):
    ptx = changed(softmax(512), r"bar\.sync\s+0;", "", barrier)
    assert fault(ptx, "k", [512, 512], 128, seed=seed).kind == "race"


def test_two_warps_write_one_word():
    body = """  store i32 %t, ptr addrspace(3) @word
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"""
    ptx = kernel(body, pointers("o"), 64, "@word = internal addrspace(3) global i32 undef")
    error = fault(ptx, "k", [1], 64)
    assert (error.kind, error.block) == ("race", (0, 0, 0)) and "write by warp" in str(error)


def test_races_are_only_looked_for_on_request():
    machine = Machine(changed(softmax(512), r"bar\.sync\s+0;", "", 0))
    addresses = [machine.put(np.zeros(512, np.float32)) for _ in range(2)]
    machine.module.launch("k", (1, 1, 1), 128, addresses, check_races=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_for_one_group_too_few(seed):
    ptx = changed(pipeline(3, 8), r"cp\.async\.wait_group\s+1;", "cp.async.wait_group 2;")
    assert fault(ptx, "pipeline", [512, 64], 64, seed=seed).kind == "in flight"


@pytest.mark.parametrize("seed", SEEDS)
def test_not_waiting_for_a_copy(seed):
    ptx = changed(pipeline(2, 8), r"cp\.async\.wait_group\s+0;", "")
    assert fault(ptx, "pipeline", [512, 64], 64, seed=seed).kind == "in flight"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_barrier_after_the_wait(seed):
    ptx = changed(pipeline(3, 8), r"bar\.sync\s+0;", "")
    assert fault(ptx, "pipeline", [512, 64], 64, seed=seed).kind in ("race", "in flight")


def test_without_the_checks_a_copy_in_flight_reads_as_nan():
    machine = Machine(changed(pipeline(3, 8), r"cp\.async\.wait_group\s+1;", ""))
    addresses = [machine.put(np.zeros(size, np.float32)) for size in (512, 64)]
    machine.module.launch("pipeline", (1, 1, 1), 64, addresses, check_races=False)
    assert np.isnan(machine.get(addresses[1], np.dtype(np.float32), (64,))).all()


# ---- addresses


@pytest.mark.parametrize("seed", SEEDS)
def test_one_element_past_a_buffer(seed):
    error = fault(
        elementwise("  %r = fadd float %x0, %x0", ["float"], "float"), "k", [64, 63], 32, (2, 1, 1), seed=seed
    )
    assert (error.kind, error.block, error.thread) == ("out of bounds", (1, 0, 0), 31)


def test_before_a_buffer():
    ptx = kernel(
        "  %p = getelementptr float, ptr addrspace(1) %o, i32 -1\n  store float 1.0, ptr addrspace(1) %p",
        pointers("o"),
    )
    assert fault(ptx, "k", [32], 32).kind == "out of bounds"


def test_memory_that_was_freed():
    machine = Machine(elementwise("  %r = fadd float %x0, %x0", ["float"], "float"))
    source, target = (machine.put(np.zeros(32, np.float32)) for _ in range(2))
    machine.memory.free(source)
    with pytest.raises(SimulationFault, match="out of bounds"):
        machine.module.launch("k", (1, 1, 1), 32, [source, target])


def test_a_wide_load_of_an_unaligned_address():
    body = """  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %v = load <4 x float>, ptr addrspace(1) %p, align 16
  %q = getelementptr <4 x float>, ptr addrspace(1) %o, i32 %t
  store <4 x float> %v, ptr addrspace(1) %q, align 16"""
    error = fault(kernel(body, pointers("a", "o")), "k", [128, 128], 32)
    assert (error.kind, error.thread) == ("misaligned", 1)


def test_constant_memory_is_not_written():
    ptx = kernel(
        "  store float 1.0, ptr addrspace(1) @table",
        pointers("o"),
        head="@table = addrspace(1) global float 1.0",
    )
    ptx = changed(ptx, r"\.visible \.global", ".const")
    assert fault(ptx, "k", [1], 32).kind == "read-only"


@pytest.mark.parametrize(("index", "kind"), [(32, "out of bounds"), (-1, "out of bounds")])
def test_shared_memory_ends(index, kind):
    body = f"""  %i = add i32 %t, {index}
  %p = getelementptr float, ptr addrspace(3) @words, i32 %i
  store float 1.0, ptr addrspace(3) %p"""
    head = "@words = internal addrspace(3) global [33 x float] undef"
    assert fault(kernel(body, pointers("o"), head=head), "k", [1], 32).kind == kind


def test_dynamic_shared_memory_is_as_large_as_asked_for():
    head = "@words = external addrspace(3) global [0 x i8], align 16"
    body = """  %p = getelementptr float, ptr addrspace(3) @words, i32 %t
  store float 1.0, ptr addrspace(3) %p"""
    ptx = kernel(body, pointers("o"), head=head)
    Machine(ptx).module.launch("k", (1, 1, 1), 32, [0], 128)
    assert fault(ptx, "k", [1], 32, shared=124).kind == "out of bounds"


def test_an_unaligned_shared_access():
    body = """  %p = getelementptr i8, ptr addrspace(3) @words, i32 %t
  store float 1.0, ptr addrspace(3) %p, align 4"""
    head = "@words = internal addrspace(3) global [64 x float] undef, align 16"
    assert fault(kernel(body, pointers("o"), head=head), "k", [1], 32).kind == "misaligned"


def test_a_local_array_ends():
    body = """  %array = alloca [4 x float]
  %p = getelementptr float, ptr %array, i32 %t
  store volatile float 1.0, ptr %p"""
    assert fault(kernel(body, pointers("o")), "k", [1], 32).kind == "out of bounds"


# ---- threads that wait for each other

SHUFFLE = "call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float 1.0, i32 1, i32 31)"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shuffle_in_half_a_warp(seed):
    body = f"""  %low = icmp ult i32 %t, 16
  br i1 %low, label %a, label %c
a:
  %x = {SHUFFLE}
  %p = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %x, ptr addrspace(1) %p
  br label %c
c:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"""
    error = fault(kernel(body, pointers("o")), "k", [32], 32, seed=seed)
    assert error.kind == "not converged"
    assert "threads 0-15 wait at line" in str(error) and "threads 16-31 wait at line" in str(error)


def test_a_shuffle_that_reads_a_lane_that_is_gone():
    body = f"""  %low = icmp ult i32 %t, 16
  br i1 %low, label %a, label %c
a:
  %x = {SHUFFLE.replace("i32 1,", "i32 16,")}
  %p = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %x, ptr addrspace(1) %p
  br label %c
c:"""
    assert fault(kernel(body + "\n", pointers("o")), "k", [32], 32).kind == "shuffle"


def test_a_lane_outside_its_own_mask():
    ptx = changed(
        kernel(
            f"""  %x = {SHUFFLE}
  %p = getelementptr float, ptr addrspace(1) %o, i32 %t
  store float %x, ptr addrspace(1) %p""",
            pointers("o"),
        ),
        r", 31, -1;",
        ", 31, 65535;",
    )
    # All lanes come together, but lanes 16 to 31 say that they take no part.
    assert fault(ptx, "k", [32], 32, seed=0).kind in ("not converged", "shuffle")


def at_two_barriers(threads):
    """64 threads: the first ones wait at barrier 0, the others at barrier 1."""
    body = f"""  %low = icmp ult i32 %t, {threads}
  br i1 %low, label %a, label %c
a:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %d
c:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 1)
  br label %d
d:
"""
    return kernel(body, pointers("o"), 64)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_that_half_of_a_warp_skips(seed):
    error = fault(at_two_barriers(16), "k", [1], 64, seed=seed)
    assert error.kind == "not converged"


@pytest.mark.parametrize("seed", SEEDS)
def test_warps_that_wait_at_different_barriers(seed):
    error = fault(at_two_barriers(32), "k", [1], 64, seed=seed)
    assert error.kind == "deadlock"
    assert "threads 0-31 wait at line" in str(error) and "threads 32-63 wait at line" in str(error)


COUNT = "declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)"


def test_barriers_with_other_counts():
    body = """  %low = icmp ult i32 %t, 32
  %n = select i1 %low, i32 64, i32 96
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 %n)"""
    assert fault(kernel(body, pointers("o"), 96, COUNT), "k", [1], 96).kind == "barrier"


def test_a_count_that_is_no_multiple_of_a_warp():
    body = "  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 48)"
    assert fault(kernel(body, pointers("o"), 96, COUNT), "k", [1], 96).kind == "barrier"


def test_a_barrier_that_awaits_more_than_there_are():
    body = "  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 128)"
    assert fault(kernel(body, pointers("o"), 96, COUNT), "k", [1], 96).kind == "deadlock"


def test_a_loop_without_end():
    body = "  br label %l\nl:\n  %v = load volatile i32, ptr addrspace(1) %o\n  %z = icmp eq i32 %v, 0\n  br i1 %z, label %l, label %e\ne:\n"
    assert fault(kernel(body, pointers("o")), "k", [1], 32, step_limit=1000).kind == "endless"


# ---- what cannot be run, and wrong launches


def test_an_unknown_instruction_is_a_limit_with_its_line():
    ptx = changed(
        elementwise("  %r = fadd float %x0, %x0", ["float"], "float"), r"add\.rn\.f32", "frobnicate.f32"
    )
    with pytest.raises(Limit, match=r"not simulated: frobnicate\.f32") as caught:
        Machine(ptx).module.kernel("k")
    line = caught.value.diagnostics[0].location.line
    assert "frobnicate" in ptx.splitlines()[line - 1]


def test_an_undeclared_register():
    ptx = changed(
        elementwise("  %r = fadd float %x0, %x0", ["float"], "float"),
        r"(add\.rn\.f32\s+%r\d+,) %r\d+",
        r"\1 %r99",
    )
    with pytest.raises(UserError, match="unknown operand '%r99'"):
        Machine(ptx).module.kernel("k")


def test_launches_are_checked():
    machine = Machine(elementwise("  %r = fadd float %x0, %x0", ["float"], "float"))
    with pytest.raises(UserError, match="has no kernel 'other'"):
        machine.module.launch("other", (1, 1, 1), 32, [])
    with pytest.raises(UserError, match="launched with 64 threads"):
        machine.module.launch("k", (1, 1, 1), 64, [0, 0])
    with pytest.raises(UserError, match="takes 2 arguments, 1 were given"):
        machine.module.launch("k", (1, 1, 1), 32, [0])
    with pytest.raises(UserError, match="cannot run"):
        machine.module.launch("k", (0, 1, 1), 32, [0, 0])
