# SPDX-License-Identifier: Apache-2.0
"""Bulk tensor copies and wgmma, in one small kernel of PTX written by hand, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import BF16, Machine

from ngmlir.simulator.bulk import TensorMap
from ngmlir.simulator.counters import Counters
from ngmlir.simulator.fault import SimulationFault
from ngmlir.simulator.wgmma import swizzled, tile_places
from ngmlir.support.machines import machines

ROWS, COLUMNS, DEPTH = 64, 32, 64
SEEDS = [None, 0, 1]


def descriptor(register: str, offset: int) -> str:
    """Start / 16, stride 1024, swizzle of 128 bytes; `offset` bytes further on."""
    return f"add.s64 {register}, %rd3, {(offset >> 4) + (64 << 32) + (1 << 62)};"


def product(depth_step: int) -> str:
    registers = ", ".join(f"%f{n}" for n in range(COLUMNS // 2))
    return f"""
	{descriptor("%rd4", 32 * depth_step)}
	{descriptor("%rd5", 8192 + 32 * depth_step)}
	wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{{registers}}}, %rd4, %rd5, 1, 1, 1, 0, 0;"""


def stored() -> str:
    """The accumulators of four warps go to `c`."""
    stores = []
    for n in range(COLUMNS // 2):
        offset = 4 * (n // 4 * 8 + n % 2 + 8 * COLUMNS * (n // 2 % 2))
        stores.append(f"	st.global.f32 [%rd7+{offset}], %f{n};")
    return f"""	shr.u32 %r3, %r1, 2;
	and.b32 %r3, %r3, 7;
	shr.u32 %r4, %r1, 5;
	mad.lo.u32 %r3, %r4, 16, %r3;
	and.b32 %r5, %r1, 3;
	shl.b32 %r5, %r5, 1;
	mad.lo.u32 %r3, %r3, {COLUMNS}, %r5;
	ld.param.b64 %rd6, [c];
	mul.wide.u32 %rd7, %r3, 4;
	add.s64 %rd7, %rd7, %rd6;
{chr(10).join(stores)}"""


def gemm(swizzle: int = 128) -> str:
    """C[64, 32] = A[64, 64] @ B[32, 64]^T for one block of four warps."""
    zero = "\n".join(f"	mov.b32 %f{n}, 0f00000000;" for n in range(COLUMNS // 2))
    return f""".version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tiles[];
.visible .entry gemm(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 c)
.reqntid 128
{{
	.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<{COLUMNS // 2}>;
	.shared .align 8 .b8 full[8];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $begin;
	mbarrier.init.shared.b64 [full], 1;
	fence.proxy.async.shared::cta;
$begin:
	bar.sync 0;
	@%p1 bra $wait;
	mov.b64 %rd1, a;
	mov.b64 %rd2, b;
	mbarrier.arrive.expect_tx.shared.b64 _, [full], {2 * DEPTH * (ROWS + COLUMNS)};
	mov.b32 %r2, 0;
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tiles], [%rd1, {{%r2, %r2}}], [full];
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tiles+8192], [%rd2, {{%r2, %r2}}], [full];
$wait:
	mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;
	@!%p2 bra $wait;
	mov.b64 %rd3, tiles;
	shr.u64 %rd3, %rd3, 4;
{zero}
	wgmma.fence.sync.aligned;{"".join(product(step) for step in range(DEPTH // 16))}
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
{stored()}
	ret;
}}
"""


def run(ptx: str, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 9, shape).astype(BF16) for shape in ((ROWS, DEPTH), (COLUMNS, DEPTH)))
    machine = Machine(ptx)
    addresses = [machine.put(v) for v in (a, b, np.zeros((ROWS, COLUMNS), np.float32))]
    maps = [
        TensorMap(address, 2, (DEPTH, rows), (2 * DEPTH,), (DEPTH, rows), 128).encode()
        for address, rows in zip(addresses, (ROWS, COLUMNS))
    ]
    shared = 2 * DEPTH * (ROWS + COLUMNS)
    machine.module.launch("gemm", (1, 1, 1), 128, [*maps, addresses[2]], shared, seed=seed)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    return machine.get(addresses[2], np.dtype(np.float32), (ROWS, COLUMNS)), exact


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_arrive_and_are_multiplied(seed):
    actual, exact = run(gemm(), seed)
    assert np.array_equal(actual, exact)


WRONG = {
    "the barrier is never asked": ("mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;\n	@!%p2 bra $wait;", "", "in flight"),
    "too many bytes are expected": (f"[full], {2 * DEPTH * (ROWS + COLUMNS)};", "[full], 16384;", "deadlock"),
    "nobody arrives": ("mbarrier.arrive.expect_tx.shared.b64 _,", "mbarrier.expect_tx.relaxed.cta.shared.b64", "deadlock"),
    "the products are not waited for": ("wgmma.wait_group.sync.aligned 0;", "", "in flight"),
    "one group too few is waited for": ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", "in flight"),
    "an operand is overwritten": (
        "wgmma.wait_group.sync.aligned 0;",
        "bar.sync 0;\n	st.shared.b32 [tiles], %r1;\n	wgmma.wait_group.sync.aligned 0;",
        None,
    ),
    "an accumulator is read early": ("wgmma.wait_group.sync.aligned 0;", "add.f32 %f0, %f0, %f1;\n	wgmma.wait_group.sync.aligned 0;", "in flight"),
    "one warp stays away": ("wgmma.fence.sync.aligned;", "setp.gt.u32 %p3, %r1, 95;\n	@%p3 bra $end;\n	wgmma.fence.sync.aligned;", None),
    "a tile is not aligned": ("[tiles+8192], [%rd2", "[tiles+8208], [%rd2", "misaligned"),
    "a map is missing": ("mov.b64 %rd2, b;", "ld.param.b64 %rd2, [c];", "out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bug", WRONG)
def test_bugs_are_found(bug, seed):
    pattern, replacement, kind = WRONG[bug]
    ptx = gemm()
    assert pattern in ptx
    ptx = ptx.replace(pattern, replacement)
    if bug == "one warp stays away":
        ptx = ptx.replace("	ret;", "$end:\n	bar.sync 0;\n	ret;")
    with pytest.raises(SimulationFault) as caught:
        run(ptx, seed)
    # A copy that nobody waits for may have landed already: then it is a race.
    assert kind is None or caught.value.kind in (kind, "race")


def test_a_box_that_hangs_over_the_edge_is_filled_with_zeros():
    tensor = TensorMap(0x7F00_0000_0100, 4, (10, 6, 3), (40, 240), (4, 4, 2), 0)
    offsets, exists = tensor.places([8, -1, 2])
    assert TensorMap.decode(tensor.encode()) == tensor and tensor.box_bytes == 128
    grid = exists.reshape(2, 4, 4)
    assert grid[0, 1:, :2].all() and not grid[0, 0].any() and not grid[:, :, 2:].any() and not grid[1].any()
    assert offsets.reshape(2, 4, 4)[0, 1, 1] == 0x100 + 4 * 9 + 2 * 240


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_swizzles_permute_each_kilobyte(swizzle):
    offsets = np.arange(4096)
    moved = swizzled(offsets, swizzle)
    assert sorted(moved.tolist()) == offsets.tolist()
    assert np.array_equal(swizzled(moved, swizzle), offsets)
    assert np.array_equal(moved // 128, offsets // 128) and np.array_equal(moved % 16, offsets % 16)


def test_layouts_of_operands_cover_their_bytes_once():
    for mode, width in ((1, 128), (2, 64), (3, 32)):
        places = tile_places((mode << 62) | (8 * width // 16 << 32), 64, width // 2, 2, False)
        assert sorted(places.reshape(-1).tolist()) == list(range(0, 64 * width, 2))
    plain = tile_places((8 << 16) | (16 << 32), 64, 16, 2, False)
    assert sorted(plain.reshape(-1).tolist()) == list(range(0, 64 * 32, 2))
    assert plain[0, 8] == 128 and plain[8, 0] == 256


STORE = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 source)
{
	.reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<5>;
	.shared .align 128 .b8 tile[512];
	.shared .align 8 .b8 full[8];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $wait0;
	mbarrier.init.shared.b64 [full], 1;
	fence.mbarrier_init.release.cluster;
$wait0:
	bar.sync 0;
	@%p1 bra $wait;
	mbarrier.arrive.expect_tx.shared.b64 _, [full], 512;
	ld.param.b64 %rd1, [source];
	cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 512, [full];
$wait:
	mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;
	@!%p2 bra $wait;
	bar.sync 0;
	@%p1 bra $end;
	mov.b64 %rd2, map;
	mov.b32 %r2, 4;
	cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r2, %r2}], [tile];
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;
$end:
	ret;
}
"""


def store(ptx: str, seed: int | None, counters: Counters | None = None) -> np.ndarray:
    machine = Machine(ptx)
    source = machine.put(np.arange(128, dtype=np.float32))
    target = machine.put(np.zeros((16, 20), np.float32))
    tensor = TensorMap(target, 4, (20, 16), (80,), (16, 8))
    machine.module.launch("k", (1, 1, 1), 64, [tensor.encode(), source], seed=seed, counters=counters)
    return machine.get(target, np.dtype(np.float32), (16, 20))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tile_is_stored(seed):
    expected = np.zeros((16, 20), np.float32)
    expected[4:12, 4:20] = np.arange(128).reshape(8, 16)
    assert np.array_equal(store(STORE, seed), expected)


def test_what_copies_touch_is_counted():
    """512 bytes in a row, and eight rows of 64 bytes, every other of which begins in the middle of a sector."""
    found = Counters()
    store(STORE, None, found)
    assert (found.reads.count, found.reads.parts, found.reads.touched) == (1, 16, 16)
    assert (found.writes.count, found.writes.parts, found.writes.ideal) == (1, 20, 16)
    assert "latency" not in found.bounds(
        machines().gpu("sm_90a")
    )  # copies have all under way that there is room for


def test_a_store_must_be_waited_for():
    with pytest.raises(SimulationFault, match="ends before this store"):
        store(STORE.replace("cp.async.bulk.wait_group 0;", ""), None)
