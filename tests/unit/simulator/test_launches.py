# SPDX-License-Identifier: Apache-2.0
"""What a launch may ask for, and instructions that are simulated or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_support import Machine

from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.diagnostics import Limit, UserError


def program(
    body: str = "", *, target: str = "sm_90a", parameters: str = ".param .u64 o", head: str = "", **directives
) -> str:
    lines = "\n".join(f".{name} {value}" for name, value in directives.items())
    return f""".version 8.6
.target {target}
.address_size 64
{head}
.visible .entry k({parameters})
{lines}
{{
	.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<5>; .reg .f64 %d<9>;
	ld.param.b64 %rd1, [o];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
{body}
	ret;
}}
"""


def launch(
    ptx: str, grid=(1, 1, 1), threads=1, arguments=None, shared: int = 0, size: int = 64
) -> np.ndarray:
    machine = Machine(ptx)
    out = machine.put(np.zeros(size, np.int32))
    machine.module.launch("k", grid, threads, [out] if arguments is None else arguments, shared)
    return machine.get(out, np.dtype(np.int32), (size,))


@pytest.mark.parametrize("axis", range(3))
def test_grids_end(axis):
    most = (2**31 - 1, 65535, 65535)[axis]
    for blocks in (0, most + 1):
        grid = [1, 1, 1]
        grid[axis] = blocks
        with pytest.raises(UserError, match=rf"{blocks} blocks along {'xyz'[axis]}"):
            launch(program(), tuple(grid))


@pytest.mark.parametrize(
    ("threads", "message"),
    [(1025, "1025 threads along x"), ((1, 1, 65), "65 threads along z"), ((32, 32, 2), "2048 threads in a block"), (0, "0 threads along x")],
)  # fmt: skip
def test_blocks_end(threads, message):
    with pytest.raises(UserError, match=message):
        launch(program(), threads=threads)


def test_threads_are_as_many_as_the_kernel_is_compiled_for():
    launch(program(maxntid=64), threads=64)
    with pytest.raises(UserError, match="at most 64"):
        launch(program(maxntid=64), threads=96)
    with pytest.raises(UserError, match="exactly 128"):
        launch(program(reqntid=128), threads=64)


@pytest.mark.parametrize(("target", "most"), [("sm_70", 98304), ("sm_86", 101376), ("sm_90a", 232448)])
def test_shared_memory_of_a_block(target, most):
    launch(program(target=target), shared=most)
    with pytest.raises(
        UserError, match=rf"{most + 1} bytes of shared memory\nhint: a block of {target} has at most"
    ):
        launch(program(target=target), shared=most + 1)
    with pytest.raises(UserError, match="declares 49168 bytes"):
        launch(program(target=target, head=".shared .align 16 .b8 words[49168];"))


def test_registers_of_a_block():
    launch(program(maxnreg=128), threads=512)
    with pytest.raises(UserError, match="136 registers for each of 512 threads\nhint: a block has 65536"):
        launch(program(maxnreg=136), threads=512)


def test_parameters_end():
    fine = ".param .u64 o, .param .align 8 .b8 rest[4088]"
    launch(program(parameters=fine), arguments=[0x7F00_0000_0100, bytes(4088)])
    with pytest.raises(UserError, match="4104 bytes of parameters"):
        launch(program(parameters=fine.replace("4088", "4096")), arguments=[0, bytes(4096)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("barrier.cluster.arrive.aligned;", "clusters of blocks"),
        ("mapa.shared::cluster.u32 %r2, %r1, 0;", "mapa.shared::cluster.u32"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 16;", "bulk copies that reduce"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};", "mma.sync.aligned.m8n8k4"),
        ("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%d0, %d1, %d2, %d3}, {%d2}, {%d3}, {%d0, %d1, %d2, %d3};", "products of f64 and f64 into f64"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%f0,%f1,%f2,%f3}, %r1, 0;", ".sp::ordered_metadata of mma"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %r1, 0, 1, 1, 1, 0, 0;", ".sp of wgmma"),
        ("red.async.relaxed.cluster.global.add.u32 [%rd1], %r1;", ".async of red"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r3];", ".async of st"),
        ("st.bulk.shared::cta [%r1], 16, 0;", ".bulk of st"),
        ("atom.global.exch.b128 %rd2, [%rd1], %rd2;", ".b128 of atom"),
        ("min.xorsign.abs.f32 %f1, %f0, %f0;", "xorsign.abs"),
        ("mad.lo.cc.u32 %r4, %r2, %r2, %r2;", ".cc of mad"),
        ("cvt.rn.satfinite.tf32.f32 %r4, %f1;", ".satfinite of cvt"),
        ("discard.global.L2 [%rd1], 128;", "discard.global.L2"),
        ("multimem.red.global.add.f32 [%rd1], %f0;", "multimem.red"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", "tcgen05.alloc"),
    ],
)  # fmt: skip
def test_what_is_not_simulated_is_named(line, message):
    with pytest.raises(Limit, match=message):
        launch(program("\t" + line))


def test_clusters_are_refused():
    with pytest.raises(Limit, match="clusters of blocks"):
        launch(program(reqnctapercluster="2, 1, 1"), (2, 1, 1))
    launch(program(reqnctapercluster="1, 1, 1"), (2, 1, 1))


def test_a_trap_ends_the_kernel():
    with pytest.raises(SimulationFault, match="gives up") as caught:
        launch(program("	setp.eq.u32 %p1, %r1, 3;\n	@%p1 trap;"), threads=32)
    assert (caught.value.kind, caught.value.thread) == ("trap", 3)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [("s32.s32", 1 - 2 * 3 + 127), ("u32.u32", 1 + 254 * 3 + 127), ("u32.s32", 1 + 254 * 3 + 127)],
)
def test_products_of_four_bytes(kinds, expected):
    body = f"""	mov.b32 %r2, 0x010001FE;
	mov.b32 %r3, 0x7F000003;
	dp4a.{kinds} %r4, %r2, %r3, 1;
	st.global.b32 [%rd2], %r4;"""
    assert launch(program(body))[0] == expected


def test_additions_of_four_words():
    body = """	cvt.rn.f32.u32 %f0, %r1;
	mov.b32 %f1, 0f3F800000;
	red.global.add.v4.f32 [%rd1], {%f0, %f1, %f1, %f0};"""
    found = launch(program(body), (2, 1, 1), 32).view(np.float32)
    assert found[:5].tolist() == [2 * 496, 64, 64, 2 * 496, 0]
    with pytest.raises(SimulationFault, match="misaligned"):
        launch(program(body.replace("[%rd1]", "[%rd1+4]")))


@pytest.mark.parametrize(("word", "expected"), [("", -(2**31) + 3), (".satfinite", 2**31 - 1)])
def test_sums_of_matrix_instructions_end_or_go_round(word, expected):
    body = f"""	mov.b32 %r2, 0x7FFFFFFF;
	mov.b32 %r3, 0;
	mov.b32 %r4, 1;
	mma.sync.aligned.m16n8k32.row.col{word}.s32.s8.s8.s32 {{%r5, %r6, %r7, %r8}}, {{%r4, %r3, %r3, %r3}}, {{%r4, %r3}}, {{%r2, %r2, %r2, %r2}};
	st.global.b32 [%rd2], %r5;"""
    assert launch(program(body), threads=32)[0] == expected
