# SPDX-License-Identifier: Apache-2.0
"""Bugs planted in kernels, in their PTX and in the code generator, and what the simulator says of each.

`PYTHONPATH=src python tests/unit/simulator/mutants.py` runs all of them, under three schedules each, and writes the
table of docs/internals/planted-bugs.md; test_mutants.py runs a share of them. A bug is caught by a detector or by a wrong
value, and under every schedule; else it is missed. None is neutral: each breaks what a GPU promises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import programs
from ptx_support import Machine

from ngmlir.codegen.nvptx import products
from ngmlir.codegen.nvptx.block import Block
from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.artifact import Artifact

SCHEDULES = (None, 0, 1)
TARGET = nvptx_target("sm_90a")

#: What a program is run by: its PTX and a seed; True if the values are right.
Run = Callable[[str, "int | None"], bool]


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(got.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=tolerance))


# ---- programs: of the generator, and by hand


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Generated:
    """A module, what it is given and what it must return."""

    text: str
    arrays: tuple[np.ndarray, ...]
    wanted: np.ndarray
    tolerance: float = 1e-4

    def artifact(self) -> Artifact:
        module = from_text(self.text)
        return assemble(lower(module, TARGET), TARGET)

    def run(self, artifact: Artifact, ptx: str, seed: int | None) -> bool:
        changed = replace(artifact, code=ptx.encode())
        got = load(changed, CudaSimDevice(seed=seed)).run(self.arrays)[0]
        assert isinstance(got, np.ndarray)
        return close(got, self.wanted, self.tolerance)


def _function(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def _generated() -> dict[str, Generated]:
    a, b = _random(1000), _random(1000, seed=1)
    rows = _random(6, 300)
    exps = np.exp(rows - rows.max(1, keepdims=True))
    left, right = _random(70, 33), _random(33, 50, seed=1)
    wide = _random(64, 64).astype(ml_dtypes.bfloat16), _random(64, 64, seed=1).astype(ml_dtypes.bfloat16)
    beyond = _random(40, 72).astype(ml_dtypes.bfloat16), _random(72, 24, seed=1).astype(ml_dtypes.bfloat16)
    tall = _random(200, 48)
    return {
        "chain": Generated(
            _function("%a: tensor<1000xf32>, %b: tensor<1000xf32>", "tensor<1000xf32>", """
  %0 = ng.add %a, %b : tensor<1000xf32>
  %1 = ng.multiply %0, %a : tensor<1000xf32>
  func.return %1 : tensor<1000xf32>"""),
            (a, b), (a + b) * a, 1e-6,
        ),
        "softmax": Generated(
            _function("%a: tensor<6x300xf32>", "tensor<6x300xf32>", """
  %0 = ng.softmax %a axes [1] : tensor<6x300xf32>
  func.return %0 : tensor<6x300xf32>"""),
            (rows,), exps / exps.sum(1, keepdims=True),
        ),
        "product": Generated(
            _function("%a: tensor<70x33xf32>, %b: tensor<33x50xf32>", "tensor<70x50xf32>", """
  %0 = ng.dot %a, %b contract [1] x [0] : (tensor<70x33xf32>, tensor<33x50xf32>) -> tensor<70x50xf32>
  func.return %0 : tensor<70x50xf32>"""),
            (left, right), left @ right,
        ),
        "matrix instructions": Generated(
            _function("%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>", "tensor<64x64xf32>", """
  %0 = ng.dot %a, %b contract [1] x [0] {ng.schedule = {tile = [64, 64], step = 16, threads = 128}} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>"""),
            wide, wide[0].astype("f4") @ wide[1].astype("f4"), 1e-3,
        ),
        "staged product": Generated(
            _function("%a: tensor<40x72xbf16>, %b: tensor<72x24xbf16>", "tensor<40x24xf32>", """
  %0 = ng.dot %a, %b contract [1] x [0] {ng.schedule = {tile = [64, 32], step = 16, threads = 64, stages = 3}} : (tensor<40x72xbf16>, tensor<72x24xbf16>) -> tensor<40x24xf32>
  func.return %0 : tensor<40x24xf32>"""),
            beyond, beyond[0].astype("f4") @ beyond[1].astype("f4"), 1e-3,
        ),
        "columns": Generated(
            _function("%a: tensor<200x48xf32>", "tensor<48xf32>", """
  %0 = ng.sum %a axes [0] : (tensor<200x48xf32>) -> tensor<48xf32>
  func.return %0 : tensor<48xf32>"""),
            (tall,), tall.sum(0),
        ),
        "transpose": Generated(
            _function("%a: tensor<200x48xf32>", "tensor<48x200xf32>", """
  %0 = ng.transpose %a perm [1, 0] : (tensor<200x48xf32>) -> tensor<48x200xf32>
  func.return %0 : tensor<48x200xf32>"""),
            (tall,), tall.T,
        ),
    }  # fmt: skip


GENERATED = _generated()


@cache
def _compiled(name: str) -> Artifact:
    return GENERATED[name].artifact()


def _by_hand(
    name: str, arrays: Sequence[np.ndarray], wanted: np.ndarray, threads: int, grid: tuple[int, int, int]
) -> Run:
    def run(ptx: str, seed: int | None) -> bool:
        machine = Machine(ptx)
        addresses = [machine.put(array) for array in (*arrays, np.zeros(wanted.shape, np.float32))]
        machine.module.launch(name, grid, threads, addresses, seed=seed)
        return close(machine.get(addresses[-1], np.dtype(np.float32), wanted.shape), wanted, 1e-4)

    return run


def _bulk(ptx: str, seed: int | None) -> bool:
    import test_bulk

    expected = np.zeros((16, 20), np.float32)
    expected[4:12, 4:20] = np.arange(128).reshape(8, 16)
    return np.array_equal(test_bulk.store(ptx, seed), expected)


def _warpgroup(ptx: str, seed: int | None) -> bool:
    import test_bulk

    actual, exact = test_bulk.run(ptx, seed)
    return np.array_equal(actual, exact)


@cache
def original(program: str) -> tuple[str, Run]:
    """The PTX of a program, and how it is run."""
    import ordered
    import test_bulk
    import test_order

    if program in GENERATED:
        made, artifact = GENERATED[program], _compiled(program)
        return artifact.code.decode(), lambda ptx, seed: made.run(artifact, ptx, seed)
    rows = _random(4, 512)
    exps = np.exp(rows - rows.max(1, keepdims=True))
    left, right = _random(40, 33), _random(33, 24, seed=1)
    steps = _random(8, 64)
    match program:
        case "softmax by hand":
            wanted = exps / exps.sum(1, keepdims=True)
            return programs.softmax(512), _by_hand("k", [rows], wanted, 128, (4, 1, 1))
        case "product by hand":
            ptx = programs.matmul(40, 24, 33)
            return ptx, _by_hand("matmul", [left, right], left @ right, 256, (2, 3, 1))
        case "pipeline":
            wanted = steps.sum(0)[::-1]
            return programs.pipeline(3, 8), _by_hand("pipeline", [steps], wanted, 64, (1, 1, 1))
        case "bulk copies":
            return test_bulk.STORE, _bulk
        case "warp groups":
            return test_bulk.gemm(), _warpgroup
        case "ring":
            return ordered.ring(), ordered.run_ring
        case "last block":
            return ordered.LAST_BLOCK, ordered.run_last_block
        case "registers":
            return test_order.REGISTERS, lambda ptx, seed: not test_order.launched(ptx, 384, seed).any()
        case "lanes":
            ptx = test_order.exchange(test_order.LANES)
            return ptx, lambda ptx, seed: np.array_equal(
                test_order.launched(ptx, 64, seed), np.arange(64) ^ 1
            )
    raise KeyError(program)


# ---- bugs


@dataclass(frozen=True)
class Mutant:
    """A bug in the PTX of a program: the match number `at` of `pattern` (counted from the end if less than 0) is replaced."""

    program: str
    bug: str
    pattern: str
    replacement: str = ""
    at: int = 0

    def ptx(self) -> str:
        text = original(self.program)[0]
        found = list(re.finditer(self.pattern, text))
        assert found, f"{self.program}, {self.bug}: nothing matches {self.pattern}"
        match = found[self.at]
        changed = text[: match.start()] + match.expand(self.replacement) + text[match.end() :]
        assert changed != text
        return changed


@dataclass(frozen=True)
class Patch:
    """A bug in the code generator: `place.name` is another while the program is compiled."""

    program: str
    bug: str
    place: Any
    name: str
    make: Callable[[Any], Any]

    @contextmanager
    def _planted(self) -> Iterator[None]:
        right = getattr(self.place, self.name)
        setattr(self.place, self.name, self.make(right))
        try:
            yield
        finally:
            setattr(self.place, self.name, right)

    def ptx(self) -> str:
        with self._planted():
            changed = GENERATED[self.program].artifact().code.decode()
        assert changed != original(self.program)[0], f"{self.program}, {self.bug}: nothing has changed"
        return changed


BAR = r"bar\.sync\s+0;"
LOAD = r"(ld\.global(?:\.nc)?(?:\.v\d)?\.b32\s+\S+(?: %r\d+,?)*\}?, \[%rd\d+)(?:\+\d+)?\]"
STORE = r"(st\.global(?:\.v\d)?\.b32\s+\[%rd\d+)(?:\+\d+)?\]"
SHARED_STORE = r"st\.shared(?:\.v\d)?\.b32[^;]*;"
WAIT_ASYNC = r"cp\.async\.wait_group\s+1;"
WAIT_FOR_TWO = r"cp\.async\.wait_group\s+2;"
PARTLY = r"(cp\.async\.cg\.shared\.global[^;]*, 16), %r\d+;"

IN_PTX = [
    # Addresses and guards
    Mutant("chain", "a load four bytes on", LOAD, r"\1+4]"),
    Mutant("chain", "a store four bytes on", STORE, r"\1+4]"),
    Mutant("chain", "a store sixteen bytes on", STORE, r"\1+16]", -1),
    Mutant("chain", "an off-by-one stride", r"(mul\.wide\.[us]32\s+%rd\d+, %r\d+, )(\d+);", r"\g<1>20;"),
    Mutant("chain", "a guard turned round", r"@%p", "@!%p"),
    Mutant("chain", "a sum for a difference", r"add\.rn\.f32", "sub.rn.f32"),
    Mutant("product by hand", "a constant load of what is written", r"(st\.global\.b32\s+(\[%rd\d+\]), (%r\d+);)", r"\1\n	ld.global.nc.b32 \3, \2;"),
    Mutant("columns", "a load of another row", LOAD, r"\1+192]"),
    Mutant("columns", "a guard turned round", r"@%p", "@!%p"),
    Mutant("transpose", "a load one element on", LOAD, r"\1+4]"),
    Mutant("transpose", "a store one element on", STORE, r"\1+4]", -1),
    # Shuffles, reductions
    Mutant("softmax", "a shuffle half as far", r", 16, 31, -1", ", 8, 31, -1", -1),
    Mutant("softmax", "a shuffle in half a warp", r", 16, 31, -1", ", 16, 4127, -1", -1),
    Mutant("softmax", "a member mask of half the warp", r", 16, 31, -1", ", 16, 31, 65535"),
    Mutant("softmax", "a maximum for a sum", r"add\.rn\.f32", "max.f32", -1),
    Mutant("softmax by hand", "the first barrier dropped", BAR),
    Mutant("softmax by hand", "the second barrier dropped", BAR, "", 1),
    Mutant("softmax by hand", "the last barrier but one dropped", BAR, "", -2),
    Mutant("softmax by hand", "the sum of other warps not stored", r"@?%?p?\d*\s*st\.shared\.b32[^;]*;", "", -1),
    Mutant("softmax by hand", "only two warps are added", r"and\.b32 (\s*)(%r\d+), (%r\d+), 3;", r"and.b32 \1\2, \3, 1;"),
    Mutant("softmax by hand", "a barrier for half the threads", BAR, "bar.sync 0, 64;"),
    Mutant("softmax by hand", "another barrier for one warp", BAR, "setp.lt.u32 %p1, %r1, 32;\n	@%p1 bar.sync 0;"),
    # Tiles in shared memory
    Mutant("product by hand", "no barrier before the tiles are read", BAR),
    Mutant("product by hand", "no barrier before the tiles are written again", BAR, "", 1),
    Mutant("product by hand", "a tile not stored", SHARED_STORE),
    Mutant("product by hand", "the other tile not stored", SHARED_STORE, "", 1),
    Mutant("product by hand", "a tile stored one element on", r"(st\.shared\.b32\s+\[%\w+)\]", r"\1+4]"),
    Mutant("product by hand", "the sum starts from nothing", r"mov\.b32 (\s*)(%r\d+), 0f00000000;", "", 0),
    Mutant("product by hand", "the sum is not carried", r"fma\.rn\.f32 (\s*)(%r\d+), (%r\d+), (%r\d+), %r\d+;", r"mul.rn.f32 \1\2, \3, \4;"),
    Mutant("product", "no barrier before the tiles are read", BAR),
    Mutant("product", "no barrier before the tiles are written again", BAR, "", 1),
    Mutant("product", "a part of a tile not stored", SHARED_STORE),
    Mutant("product", "the last part of a tile not stored", SHARED_STORE, "", -1),
    Mutant("product", "a read of the tile one element on", r"(ld\.shared(?:\.v\d)?\.b32\s+\S+(?: %r\d+,?)*\}?, \[%r\w+)(?:\+\d+)?\]", r"\1+4]"),
    Mutant("product", "a product dropped", r"fma\.rn\.f32 (\s*)(%r\d+), (%r\d+), (%r\d+), (%r\d+);", r"mov.b32 \1\2, \5;", 7),
    # Matrix instructions of a warp
    Mutant("matrix instructions", "two fragments of A swapped", r"\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\},(\s*)\{(%r\d+), (%r\d+)\}", r"{\2, \1, \3, \4},\5{\6, \7}"),
    Mutant("matrix instructions", "the fragments of B swapped", r"\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\},(\s*)\{(%r\d+), (%r\d+)\}", r"{\1, \2, \3, \4},\5{\7, \6}"),
    Mutant("matrix instructions", "a fragment of A used twice", r"\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\},(\s*)\{(%r\d+), (%r\d+)\}", r"{\1, \1, \3, \4},\5{\6, \7}"),
    Mutant("matrix instructions", "a product dropped", r"mma\.sync[^;]*;"),
    Mutant("matrix instructions", "fragments read four rows on", r"(ldmatrix[^;]*\[%r\w+)(?:\+\d+)?\]", r"\1+512]"),
    Mutant("matrix instructions", "fragments of B not transposed", r"\.trans\.", "."),
    Mutant("matrix instructions", "f16 for bf16", r"f32\.bf16\.bf16\.f32", "f32.f16.f16.f32"),
    Mutant("matrix instructions", "no barrier before fragments are read", BAR),
    # Sides that wait in shared memory, with zeros for what they lack
    Mutant("staged product", "rows that are not there are read", PARTLY, r"\1;", 0),
    Mutant("staged product", "a depth that is not there is read", PARTLY, r"\1;", -1),
    Mutant("staged product", "zeros for all", PARTLY, r"\1, 0;", 1),
    Mutant("staged product", "zeros for half", PARTLY, r"\1, 8;", 1),
    Mutant("staged product", "no group is waited for", WAIT_FOR_TWO),
    Mutant("staged product", "no barrier after the wait", BAR),
    Mutant("staged product", "fragments of B not transposed", r"\.trans\.", "."),
    # Copies in the background
    Mutant("pipeline", "one group too few is waited for", WAIT_ASYNC, "cp.async.wait_group 2;"),
    Mutant("pipeline", "no group is waited for", WAIT_ASYNC),
    Mutant("pipeline", "no barrier after the wait", BAR),
    Mutant("pipeline", "a group not closed", r"cp\.async\.commit_group;", "", -1),
    Mutant("pipeline", "a copy of the wrong row", r"(cp\.async\.ca\.shared\.global[^;]*\[%rd\d+)\]", r"\1+256]", -1),
    Mutant("pipeline", "a copy into the wrong slot", r"(cp\.async\.ca\.shared\.global\s+\[%\w+)\]", r"\1+4]"),
    Mutant("lanes", "no barrier of the warp", r"bar\.warp\.sync[^;]*;"),
    Mutant("lanes", "a barrier of half the warp", r"bar\.warp\.sync\s+-1;", "bar.warp.sync 65535;"),
    # Bulk copies and mbarriers
    Mutant("bulk copies", "the mbarrier not shown to copies", r"fence\.mbarrier_init[^;]*;"),
    Mutant("bulk copies", "no barrier after the mbarrier is made", BAR),
    Mutant("bulk copies", "the mbarrier not made", r"mbarrier\.init[^;]*;"),
    Mutant("bulk copies", "two arrivals awaited", r"mbarrier\.init\.shared\.b64 \[full\], 1;", "mbarrier.init.shared.b64 [full], 2;"),
    Mutant("bulk copies", "too few bytes expected", r"_, \[full\], 512;", "_, [full], 256;"),
    Mutant("bulk copies", "too many bytes expected", r"_, \[full\], 512;", "_, [full], 528;"),
    Mutant("bulk copies", "the other phase awaited", r"%p2, \[full\], 0;", "%p2, [full], 1;"),
    Mutant("bulk copies", "the copy not awaited", r"mbarrier\.try_wait[^;]*;\s+@!%p2 bra \$wait;"),
    Mutant("bulk copies", "the store not awaited", r"cp\.async\.bulk\.wait_group 0;"),
    Mutant("bulk copies", "the store not closed", r"cp\.async\.bulk\.commit_group;"),
    Mutant("bulk copies", "a tile stored without a fence", r"(\s+)bar\.sync 0;\s+@%p1 bra \$end;", r"\1@!%p1 st.shared.b32 [tile], %r1;\1bar.sync 0;\1@%p1 bra $end;"),
    Mutant("bulk copies", "the tile at the wrong place", r"mov\.b32 %r2, 4;", "mov.b32 %r2, 3;"),
    # Products of four warps
    Mutant("warp groups", "the products not fenced", r"wgmma\.fence[^;]*;"),
    Mutant("warp groups", "a sum changed after the fence", r"(wgmma\.fence[^;]*;)", r"\1\n	add.f32 %f3, %f3, %f2;"),
    Mutant("warp groups", "the products not awaited", r"wgmma\.wait_group[^;]*;"),
    Mutant("warp groups", "one group too few awaited", r"wait_group\.sync\.aligned 0;", "wait_group.sync.aligned 1;"),
    Mutant("warp groups", "the products not closed", r"wgmma\.commit_group[^;]*;"),
    Mutant("warp groups", "a sum that starts from nothing", r"mov\.b32 %f5, 0f00000000;"),
    Mutant("warp groups", "the mbarrier not shown to copies", r"fence\.proxy\.async[^;]*;"),
    Mutant("warp groups", "no barrier after the mbarrier is made", BAR),
    Mutant("warp groups", "the stride of a tile halved", rf"{(64 << 32) + (1 << 62)}", str((32 << 32) + (1 << 62))),
    Mutant("warp groups", "no swizzle", rf"{(64 << 32) + (1 << 62)}", str(64 << 32)),
    Mutant("warp groups", "a step of the wrong length", rf"{2 + (64 << 32) + (1 << 62)}", str(1 + (64 << 32) + (1 << 62))),
    Mutant("warp groups", "an operand written by a thread, unfenced", r"(wgmma\.fence)", r"@!%p1 st.shared.b32 [tiles], %r1;\n	bar.sync 0;\n	\1"),
    Mutant("warp groups", "an operand written too early", r"(wgmma\.wait_group)", r"@!%p1 st.shared.b32 [tiles], 7;\n	\1"),
    # A ring of tiles, and blocks that signal to one another
    Mutant("ring", "a slot given back before its products are awaited", r"(\s+wgmma\.wait_group[^;]*;)(\s+@!%p1 mbarrier\.arrive[^;]*;)", r"\2\1"),
    Mutant("ring", "a slot filled that is not given back", r"mbarrier\.try_wait[^;]*\[%r6\][^;]*;\s+@!%p4 bra \$taken;"),
    Mutant("ring", "a tile read before it is there", r"mbarrier\.try_wait[^;]*\[%r5\][^;]*;\s+@!%p4 bra \$there;"),
    Mutant("ring", "the other phase of a slot awaited", r"xor\.b32 %r4, %r4, 1;"),
    Mutant("ring", "one group too few awaited", r"wait_group\.sync\.aligned 0;", "wait_group.sync.aligned 1;"),
    Mutant("bulk copies", "a tile stored, with a fence of another thread", r"(\s+)bar\.sync 0;\s+@%p1 bra \$end;", r"\1setp.ne.u32 %p2, %r1, 1;\1@!%p2 st.shared.b32 [tile], %r1;\1bar.sync 0;\1@%p1 bra $end;\1fence.proxy.async.shared::cta;"),
    Mutant("bulk copies", "a tile changed before its store is awaited", r"(\s+)(cp\.async\.bulk\.wait_group 0;)", r"\1st.shared.b32 [tile], 0;\1\2"),
    Mutant("last block", "no fence before the signal", r"fence\.acq_rel\.gpu;"),
    Mutant("last block", "no fence after the signal", r"fence\.acq_rel\.gpu;", "", 1),
    Mutant("last block", "a fence of the block's scope", r"fence\.acq_rel\.gpu;", "fence.acq_rel.cta;"),
    Mutant("last block", "no barrier before the signal", BAR),
    Mutant("last block", "no barrier after the signal", r"fence\.acq_rel\.gpu;(\s+st\.shared[^;]*;\s+\$wait:\s+)bar\.sync 0;", r"\1bar.sync 0;", -1),
    Mutant("last block", "a part changed after the signal", r"(\s+)(st\.shared\.b32 \[seen\])", r"\1st.global.b32 [%rd7], %r5;\1\2"),
    Mutant("last block", "a signal that is no atomic operation", r"atom\.global\.inc\.u32 %r5, \[%rd3\], 4;", "ld.global.b32 %r5, [%rd3];\n	add.u32 %r9, %r5, 1;\n	st.global.b32 [%rd3], %r9;"),
    Mutant("last block", "all blocks write one place", r"(\s+)(@%p2 bra \$end;)", r"\1st.global.b32 [%rd4], %r5;\1\2"),
    Mutant("registers", "more registers taken than there are", r"u32 240;", "u32 248;"),
    Mutant("registers", "too few registers given back", r"u32 24;", "u32 40;"),
]  # fmt: skip


def _without(keep: int) -> Callable[[Any], Any]:
    """A barrier that is not emitted when it is asked for the time number `keep`."""

    def make(right: Any) -> Any:
        count = iter(range(10**6))

        def barrier(self: Block) -> None:
            if next(count) != keep:
                right(self)

        return barrier

    return make


def _always_true(right: Any) -> Any:
    return lambda self, x, y: True


def _reversed(right: Any) -> Any:
    return lambda *given: list(reversed(right(*given)))


def _without_pairs(right: Any) -> Any:
    """The neighbours along the depth, in the wrong order."""

    def words(*given: Any) -> Any:
        found = right(*given)
        return [found[i ^ 1] for i in range(len(found))]

    return words


IN_GENERATOR = [
    Patch("product", "no first barrier", Block, "barrier", _without(0)),
    Patch("product", "no second barrier", Block, "barrier", _without(1)),
    Patch("softmax", "no barrier in the reduction", Block, "barrier", _without(0)),
    Patch("matrix instructions", "no first barrier", Block, "barrier", _without(0)),
    Patch("matrix instructions", "no second barrier", Block, "barrier", _without(1)),
    Patch("softmax", "scratch that is thought to be free", Block, "scratch_done", lambda right: lambda self: None),
    Patch("chain", "masks forgotten", Block, "both", _always_true),
    Patch("columns", "masks forgotten", Block, "both", _always_true),
    Patch("matrix instructions", "fragments in the wrong order", products, "read_words", _reversed),
    Patch("matrix instructions", "pairs of fragments swapped", products, "read_words", _without_pairs),
    Patch("product", "columns for rows", products, "_line", lambda right: lambda b, s, l, n, w, k, d: right(b, s, l, n, w, max(k - 1, 0), d)),
]  # fmt: skip

MUTANTS: list[Mutant | Patch] = [*IN_PTX, *IN_GENERATOR]


def outcome(mutant: Mutant | Patch) -> str:
    """`detector: race, ...`, `wrong value` or `missed`, whichever the worst schedule gives."""
    ptx, run = mutant.ptx(), original(mutant.program)[1]
    kinds: set[str] = set()
    worst = ""
    for seed in SCHEDULES:
        try:
            right = run(ptx, seed)
        except SimulationFault as fault:
            kinds.add(fault.kind)
            continue
        if right:
            return "missed"
        worst = "wrong value"
    return worst or f"detector: {', '.join(sorted(kinds))}"


PAGE = Path(__file__).parents[3] / "docs" / "internals" / "planted-bugs.md"
HEAD = "| program | bug in | bug | found by |\n|---|---|---|---|\n"


def line(mutant: Mutant | Patch, found: str) -> str:
    """One line of the table."""
    place = "generator" if isinstance(mutant, Patch) else "PTX"
    return f"| {mutant.program} | {place} | {mutant.bug} | {found} |"


def table() -> list[str]:
    """The lines of the table as the page has it."""
    return PAGE.read_text(encoding="utf-8").partition(HEAD)[2].splitlines()[: len(MUTANTS)]


def main() -> None:
    """Runs all and writes the table anew."""
    found = [outcome(mutant) for mutant in MUTANTS]
    lines = [line(mutant, result) for mutant, result in zip(MUTANTS, found, strict=True)]
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    PAGE.write_text(before + HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    detected = sum(result.startswith("detector") for result in found)
    print(
        f"{len(found)} bugs: {detected} caught by a detector, {found.count('wrong value')} by a wrong value, "
        f"{found.count('missed')} missed"
    )


if __name__ == "__main__":
    main()
