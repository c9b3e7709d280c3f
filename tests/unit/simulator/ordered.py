# SPDX-License-Identifier: Apache-2.0
"""Kernels of PTX written by hand whose parts order one another: a ring of tiles that one warp fills and four warps multiply,
and blocks of which the last one adds up what all have left."""

from __future__ import annotations

import numpy as np
from ptx_support import BF16, Machine
from test_bulk import COLUMNS, DEPTH, ROWS, product, stored

from ngmlir.simulator.bulk import TensorMap

STEPS = 6
_SLOT = 2 * DEPTH * (ROWS + COLUMNS)


def ring(stages: int = 2) -> str:
    """C[64, 32] = A[64, 384] @ B[32, 384]^T: thread 128 copies tiles 64 deep, threads 0 to 127 multiply them."""
    made = "\n".join(
        f"	mbarrier.init.shared.b64 [full+{8 * n}], 1;\n	mbarrier.init.shared.b64 [empty+{8 * n}], 1;"
        for n in range(stages)
    )
    zero = "\n".join(f"	mov.b32 %f{n}, 0f00000000;" for n in range(COLUMNS // 2))
    slot = f"""	rem.u32 %r3, %r2, {stages};
	div.u32 %r4, %r2, {stages};
	and.b32 %r4, %r4, 1;
	mov.b32 %r5, full;
	mad.lo.u32 %r5, %r3, 8, %r5;
	mov.b32 %r6, empty;
	mad.lo.u32 %r6, %r3, 8, %r6;
	mov.b32 %r7, tiles;
	mad.lo.u32 %r7, %r3, {_SLOT}, %r7;"""
    return f""".version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tiles[];
.visible .entry ring(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 c)
.reqntid 256
{{
	.reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<9>; .reg .f32 %f<{COLUMNS // 2}>;
	.shared .align 8 .b8 full[{8 * stages}];
	.shared .align 8 .b8 empty[{8 * stages}];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $begin;
{made}
	fence.mbarrier_init.release.cluster;
$begin:
	bar.sync 0;
	mov.b32 %r2, 0;
	setp.lt.u32 %p2, %r1, 128;
	@%p2 bra $multiply;
	setp.ne.u32 %p3, %r1, 128;
	@%p3 bra $end;
	mov.b64 %rd1, a;
	mov.b64 %rd2, b;
	mov.b32 %r9, 0;
$fill:
{slot}
	xor.b32 %r4, %r4, 1;
$taken:
	mbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r4;
	@!%p4 bra $taken;
	mbarrier.arrive.expect_tx.shared.b64 _, [%r5], {_SLOT};
	mul.lo.u32 %r8, %r2, {DEPTH};
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd1, {{%r8, %r9}}], [%r5];
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r7+{2 * DEPTH * ROWS}], [%rd2, {{%r8, %r9}}], [%r5];
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p3, %r2, {STEPS};
	@%p3 bra $fill;
	bra $end;
$multiply:
{zero}
$next:
{slot}
$there:
	mbarrier.try_wait.parity.shared.b64 %p4, [%r5], %r4;
	@!%p4 bra $there;
	cvt.u64.u32 %rd3, %r7;
	shr.u64 %rd3, %rd3, 4;
	wgmma.fence.sync.aligned;{"".join(product(step) for step in range(DEPTH // 16))}
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	@!%p1 mbarrier.arrive.shared.b64 _, [%r6];
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p3, %r2, {STEPS};
	@%p3 bra $next;
{stored()}
$end:
	ret;
}}
"""


def run_ring(ptx: str, seed: int | None) -> bool:
    """Whether the product is right."""
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(-8, 9, shape).astype(BF16) for shape in ((ROWS, STEPS * DEPTH), (COLUMNS, STEPS * DEPTH))
    )
    machine = Machine(ptx)
    addresses = [machine.put(v) for v in (a, b, np.zeros((ROWS, COLUMNS), np.float32))]
    maps = [
        TensorMap(address, 2, (STEPS * DEPTH, rows), (2 * STEPS * DEPTH,), (DEPTH, rows), 128).encode()
        for address, rows in zip(addresses, (ROWS, COLUMNS))
    ]
    machine.module.launch("ring", (1, 1, 1), 256, [*maps, addresses[2]], 2 * _SLOT, seed=seed)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    return np.array_equal(machine.get(addresses[2], np.dtype(np.float32), (ROWS, COLUMNS)), exact)


BLOCKS, THREADS = 5, 64

#: out[t] = the sum over all blocks of 2 * x[block, t], by the block that comes last.
LAST_BLOCK = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry last(.param .u64 x, .param .u64 parts, .param .u64 count, .param .u64 out)
.reqntid {THREADS}
{{
	.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<12>;
	.shared .align 4 .b8 seen[4];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	ld.param.b64 %rd1, [x];
	ld.param.b64 %rd2, [parts];
	ld.param.b64 %rd3, [count];
	ld.param.b64 %rd4, [out];
	mad.lo.u32 %r3, %r2, {THREADS}, %r1;
	mul.wide.u32 %rd5, %r3, 4;
	add.s64 %rd6, %rd1, %rd5;
	add.s64 %rd7, %rd2, %rd5;
	ld.global.b32 %r4, [%rd6];
	shl.b32 %r4, %r4, 1;
	st.global.b32 [%rd7], %r4;
	bar.sync 0;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $wait;
	fence.acq_rel.gpu;
	atom.global.inc.u32 %r5, [%rd3], {BLOCKS - 1};
	fence.acq_rel.gpu;
	st.shared.b32 [seen], %r5;
$wait:
	bar.sync 0;
	ld.shared.b32 %r5, [seen];
	setp.ne.u32 %p2, %r5, {BLOCKS - 1};
	@%p2 bra $end;
	mul.wide.u32 %rd8, %r1, 4;
	add.s64 %rd9, %rd2, %rd8;
	mov.b32 %r6, 0;
	mov.b32 %r7, 0;
$next:
	ld.global.b32 %r8, [%rd9];
	add.s32 %r6, %r6, %r8;
	add.s64 %rd9, %rd9, {4 * THREADS};
	add.u32 %r7, %r7, 1;
	setp.lt.u32 %p3, %r7, {BLOCKS};
	@%p3 bra $next;
	add.s64 %rd10, %rd4, %rd8;
	st.global.b32 [%rd10], %r6;
$end:
	ret;
}}
"""


def run_last_block(ptx: str, seed: int | None) -> bool:
    """Whether the sums are right, and the counter is at its beginning again."""
    x = np.arange(BLOCKS * THREADS, dtype=np.int32).reshape(BLOCKS, THREADS)
    machine = Machine(ptx)
    addresses = [
        machine.put(v) for v in (x, np.zeros_like(x), np.zeros(1, np.int32), np.zeros(THREADS, np.int32))
    ]
    machine.module.launch("last", (BLOCKS, 1, 1), THREADS, addresses, seed=seed)
    out, count = (
        machine.get(a, np.dtype(np.int32), (n,)) for a, n in ((addresses[3], THREADS), (addresses[2], 1))
    )
    return np.array_equal(out, 2 * x.sum(0)) and count[0] == 0
