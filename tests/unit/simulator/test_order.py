# SPDX-License-Identifier: Apache-2.0
"""What has to be ordered by more than the order of instructions: lanes, proxies, mbarriers, groups of registers."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import Machine, kernel, pointers
from test_bulk import STORE, gemm, run, store

from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.diagnostics import UserError

SEEDS = [None, 0, 1, 2]
WORDS = "@words = internal addrspace(3) global [64 x i32] undef"
EXCHANGE = """  %p = getelementptr i32, ptr addrspace(3) @words, i32 %t
  %o1 = xor i32 %t, 1
  %q = getelementptr i32, ptr addrspace(3) @words, i32 %o1
  store i32 %t, ptr addrspace(3) %p
  SYNC
  %v = load volatile i32, ptr addrspace(3) %q
  AGAIN
  %r = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %r"""
LANES = "call void @llvm.nvvm.bar.warp.sync(i32 -1)"
DECLARED = WORDS + "\ndeclare void @llvm.nvvm.bar.warp.sync(i32)"


def launched(ptx: str, threads: int, seed: int | None = None, **options) -> np.ndarray:
    machine = Machine(ptx)
    out = machine.put(np.zeros(threads, np.int32))
    machine.module.launch("k", (1, 1, 1), threads, [out], seed=seed, **options)
    return machine.get(out, np.dtype(np.int32), (threads,))


def exchange(sync: str, again: str = "") -> str:
    return kernel(EXCHANGE.replace("SYNC", sync).replace("AGAIN", again), pointers("o"), 64, DECLARED)


def refused(call, *arguments) -> str:
    with pytest.raises(SimulationFault) as caught:
        call(*arguments)
    return caught.value.kind


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_exchange_through_shared_memory_at_a_barrier(seed):
    assert np.array_equal(launched(exchange(LANES), 64, seed), np.arange(64) ^ 1)
    assert refused(launched, exchange(""), 64, seed) == "race"


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_read_before_others_write(seed):
    again = "store i32 7, ptr addrspace(3) %p"
    assert refused(launched, exchange(LANES, again), 64, seed) == "race"
    assert np.array_equal(launched(exchange(LANES, f"{LANES}\n  {again}"), 64, seed), np.arange(64) ^ 1)


def test_a_lane_reads_again_what_all_have_read():
    """The writer is among the readers, and the last: the others still have to be waited for."""
    body = """  %p = getelementptr i32, ptr addrspace(3) @words, i32 0
  %first = icmp eq i32 %t, 31
  br i1 %first, label %put, label %on
put:
  store i32 5, ptr addrspace(3) %p
  br label %on
on:
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %v = load volatile i32, ptr addrspace(3) %p
  br i1 %first, label %more, label %done
more:
  store i32 6, ptr addrspace(3) %p
  br label %done
done:
  %r = getelementptr i32, ptr addrspace(1) %o, i32 %t
  store i32 %v, ptr addrspace(1) %r"""
    ptx = kernel(body, pointers("o"), 32, DECLARED)
    assert refused(launched, ptx, 32) == "race"


def test_lanes_write_different_values_to_one_place():
    body = "  store i32 VALUE, ptr addrspace(3) @words"
    same = kernel(body.replace("VALUE", "3"), pointers("o"), 32, WORDS)
    launched(same, 32)
    other = kernel(body.replace("VALUE", "%t"), pointers("o"), 32, WORDS)
    assert refused(launched, other, 32) == "race"


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_memory_that_nobody_has_written(seed):
    body = EXCHANGE.replace("%o1 = xor i32 %t, 1", "%o1 = add i32 %t, 1").replace("AGAIN", "")
    body = body.replace("SYNC", "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    ptx = kernel(body, pointers("o"), 32, WORDS)
    assert refused(launched, ptx, 32, seed) == "uninitialised"


# ---- mbarriers, and what copies and products see

GEMM = {
    "the products are not fenced": ("	wgmma.fence.sync.aligned;", "", "fence"),
    "the fence comes before the sums are set": (
        "	wgmma.fence.sync.aligned;",
        "	wgmma.fence.sync.aligned;\n	add.f32 %f3, %f2, %f1;",
        "fence",
    ),
    "copies do not see the mbarrier": ("fence.proxy.async.shared::cta;", "", "fence"),
    "no barrier after the mbarrier is made": ("	bar.sync 0;\n", "", None),
    "an mbarrier is made twice": (
        "	mbarrier.init.shared.b64 [full], 1;",
        "	mbarrier.init.shared.b64 [full], 1;\n	mbarrier.init.shared.b64 [full], 1;",
        "barrier",
    ),
    "an operand is written by threads": (
        "	wgmma.fence.sync.aligned;",
        "	@!%p1 st.shared.b32 [tiles], 0;\n	bar.sync 0;\n	wgmma.fence.sync.aligned;",
        "fence",
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bug", GEMM)
def test_fences_of_products_and_copies(bug, seed):
    pattern, replacement, kind = GEMM[bug]
    assert pattern in gemm()
    found = refused(run, gemm().replace(pattern, replacement, 1), seed)
    assert kind is None or found == kind


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_of_what_threads_have_written(seed):
    """Threads write shared memory, a bulk copy reads it: a fence of each in between, and a barrier."""
    wait = "	@!%p2 bra $wait;\n"
    write = (
        wait
        + "	shl.b32 %r3, %r1, 2;\n	mov.b32 %r4, tile;\n	add.s32 %r3, %r3, %r4;\n	st.shared.b32 [%r3], %r1;\n"
    )
    assert refused(store, STORE.replace(wait, write), seed) == "fence"
    fenced = STORE.replace(wait, write + "	fence.proxy.async.shared::cta;\n")
    assert store(fenced, seed).view(np.int32)[4, 4:8].tolist() == [0, 1, 2, 3]
    late = fenced.replace("	fence.proxy.async.shared::cta;\n	bar.sync 0;", "	bar.sync 0;")
    late = late.replace(
        "	cp.async.bulk.tensor.2d.global",
        "	fence.proxy.async.shared::cta;\n	cp.async.bulk.tensor.2d.global",
    )
    assert refused(store, late, seed) == "fence"  # a fence shows what its own thread wrote, and that is less
    racing = fenced.replace(
        "	fence.proxy.async.shared::cta;\n	bar.sync 0;", "	fence.proxy.async.shared::cta;"
    )
    assert refused(store, racing, seed) in ("race", "fence")


def test_a_store_whose_source_changes():
    late = STORE.replace(
        "	cp.async.bulk.wait_group 0;", "	st.shared.b32 [tile], 5;\n	cp.async.bulk.wait_group 0;"
    )
    assert refused(store, late, None) == "in flight"


REGISTERS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o)
.reqntid 384
.minnctapersm 1
{
	.reg .pred %p<2>; .reg .b32 %r<2>;
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 128;
	@%p1 bra $give;
	setmaxnreg.inc.sync.aligned.u32 240;
	bra $end;
$give:
	setmaxnreg.dec.sync.aligned.u32 24;
$end:
	ret;
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_registers_are_taken_from_those_who_give(seed):
    launched(REGISTERS, 384, seed)
    assert refused(launched, REGISTERS.replace("u32 24;", "u32 40;"), 384, seed) == "deadlock"
    assert refused(launched, REGISTERS.replace("u32 24;", "u32 176;"), 384, seed) == "registers"
    with pytest.raises(UserError, match="multiple of 8"):
        launched(REGISTERS.replace("u32 24;", "u32 25;"), 384, seed)


# ---- registers


UNSET = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o)
{
	.reg .pred %p<4>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
	mov.u32 %r1, %tid.x;
	ld.param.b64 %rd1, [o];
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
	setp.lt.u32 %p1, %r1, LIMIT;
	@%p1 bra $set;
	bra $go;
$set:
	mov.b32 %r2, 7;
$go:
	mov.b32 %r3, %r2;
	selp.b32 %r4, %r3, 9, %p1;
	st.global.b32 [%rd2], USED;
	ret;
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_registers_that_nothing_has_set(seed):
    """What is copied, or not selected, harms nobody; what is used does, even in one thread."""
    some = UNSET.replace("LIMIT", "30")
    assert launched(some.replace("USED", "%r4"), 32, seed).tolist() == [7] * 30 + [9] * 2
    assert refused(launched, some.replace("USED", "%r3"), 32, seed) == "uninitialised"
    assert launched(UNSET.replace("LIMIT", "32").replace("USED", "%r3"), 32, seed).tolist() == [7] * 32


@pytest.mark.parametrize(
    "line",
    [
        "@%p2 mov.b32 %r4, 1;",
        "selp.b32 %r4, 1, 2, %p2;",
        "@%p2 bra $set;",
        "add.s32 %r4, %r2, 1;",
        "ld.global.b32 %r4, [%rd3];",
        "bar.sync %r2;",
    ],
)
def test_every_use_of_an_unset_register(line):
    ptx = UNSET.replace("LIMIT", "0").replace("USED", "%r1").replace("%rd<3>", "%rd<4>")
    assert refused(launched, ptx.replace("$go:\n", f"$go:\n	{line}\n"), 32) == "uninitialised"


@pytest.mark.parametrize(
    ("taken", "harms"), [("{%rs3, _}", False), ("{_, %rs3}", True), ("{%rs2, %rs3}", True)]
)
def test_half_of_a_word_that_nothing_has_set(taken: str, harms: bool) -> None:
    """Words that are put together of what was set and what was not, and taken apart again: each half is what it was."""
    lines = f"mov.b16 %rs1, 5; mov.b32 %r4, {{%rs1, %rs4}}; mov.b32 {taken}, %r4; cvt.u32.u16 %r4, %rs3;"
    ptx = (
        UNSET.replace("LIMIT", "32")
        .replace("USED", "%r4")
        .replace(".reg .b32", ".reg .b16 %rs<5>; .reg .b32")
    )
    ptx = ptx.replace("\tst.global", "\t" + lines.replace("; ", ";\n\t") + "\n\tst.global")
    if harms:
        assert refused(launched, ptx, 32) == "uninitialised"
    else:
        assert launched(ptx, 32).tolist() == [5] * 32


# ---- global memory

PLACES = """  %i0 = mul i32 %b, 32
  %i = add i32 %i0, %t
  %j = add i32 %i, NEXT
  %p = getelementptr i32, ptr addrspace(1) %o, i32 %i
  %q = getelementptr i32, ptr addrspace(1) %a, i32 %j
  FIRST
  SYNC
  SECOND"""
WRITE = "store volatile i32 %t, ptr addrspace(1) %p"
READ = "%v = load volatile i32, ptr addrspace(1) %q"
WAIT = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"


def two(first: str, second: str, sync: str, next: int, seed: int | None = None, **options) -> None:
    body = PLACES.replace("FIRST", first).replace("SECOND", second).replace("SYNC", sync)
    ptx = kernel(body.replace("NEXT", str(next)), pointers("a", "o"), 32)
    machine = Machine(ptx)
    out = machine.put(np.zeros(256, np.int32))
    machine.module.launch("k", (3, 1, 1), 32, [out, out], seed=seed, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", [32, 1024])
@pytest.mark.parametrize("both", [(WRITE, READ), (READ, WRITE), (WRITE, WRITE.replace("%p", "%q"))])
def test_threads_meet_in_global_memory(both, batch, seed):
    options = {"seed": seed, "batch_threads": batch}
    two(*both, "", 128, **options)  # far apart
    two(*both, "", 0, **options)  # each its own
    for sync in ("", WAIT):
        with pytest.raises(SimulationFault, match="race"):
            two(*both, sync, 32, **options)  # the next block's
    with pytest.raises(SimulationFault, match="race"):
        two(*both, "", 1, **options)  # the next thread's


#: One block waits once more than the others, from there on.
UNEVEN = f"""  %one = icmp eq i32 %b, 1
  br i1 %one, label %more, label %go
more:
  {WAIT}
  br label %go
go:
"""


@pytest.mark.parametrize("before", ["", UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("both", [(WRITE, READ), (READ, WRITE)])
def test_a_barrier_orders_the_threads_of_one_block(both, before):
    body = before + PLACES.replace("FIRST", both[0]).replace("SECOND", both[1]).replace("NEXT", "0")
    body = body.replace("%j = add i32 %i, 0", "%j = xor i32 %i, 3")
    for sync, fine in ((WAIT, True), ("", False)):
        machine = Machine(kernel(body.replace("SYNC", sync), pointers("a", "o"), 32))
        out = machine.put(np.zeros(256, np.int32))
        if fine:
            machine.module.launch("k", (3, 1, 1), 32, [out, out])
        else:
            with pytest.raises(SimulationFault, match="race"):
                machine.module.launch("k", (3, 1, 1), 32, [out, out])


def test_atomic_operations_meet_but_nothing_else_does():
    add = "%u = atomicrmw add ptr addrspace(1) %a, i32 %t monotonic"
    two(add, add.replace("%u", "%w"), "", 128)
    for other in ("%v = load volatile i32, ptr addrspace(1) %a", "store i32 1, ptr addrspace(1) %a"):
        with pytest.raises(SimulationFault, match="race"):
            two(add, other, "", 128)
        with pytest.raises(SimulationFault, match="race"):
            two(other, add, "", 128)


def test_the_read_only_cache_holds_what_nobody_writes():
    cached = (
        "%v = load i32, ptr addrspace(1) %q, !invariant.load !0\n  store volatile i32 %v, ptr addrspace(1) %p"
    )
    two(cached, "", "", 128)
    with pytest.raises(SimulationFault, match="read-only cache"):
        two(cached, "", "", 0)
