# SPDX-License-Identifier: Apache-2.0
"""Background copies of kernels: tokens go round loops and through branches, and a wait leaves under way what it may."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from kernel_text import agree as agree_on_cpu
from kernel_text import interpreted, planned

from ngmlir.codegen.nvptx import emit
from ngmlir.codegen.nvptx.pending import unfinished
from ngmlir.ir.core import Block, Op, Value
from ngmlir.ir.types import token
from ngmlir.llvm.machine import assembly
from ngmlir.ops import ng, tile
from ngmlir.ops.words import from_text
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.artifact import Artifact
from ngmlir.support.target import Target

TARGET = Target("sm_90a", "nvptx64-nvidia-cuda", "sm_90a", "+ptx80", threads=64, shared_bytes=49152)
TOKEN = "!tile.token"


def on_simulator(text: str, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """The results, in two orders of warps, and the PTX. A read of what is still under way is an error there."""
    # The simulator is to see what the verifier would.
    unit = emit(from_text(text, verify=False), TARGET)
    ptx = assembly(unit.llvm, TARGET)
    artifact = Artifact("ptx", ptx.encode(), unit.entries, TARGET.key, unit.constants)
    first, second = (load(artifact, CudaSimDevice(seed=seed)).run(arrays) for seed in (None, 5))
    assert all(map(np.array_equal, first, second))
    return first, ptx


def ring(stages: int, columns: int, rounds: int, *, each: str = "tile.wait %s0 : !tile.token") -> str:
    """The sums of the rows of a matrix, added up row by row; `stages - 1` rows are under way ahead."""
    window = f"memref<1x{columns}xf32, strided<[{columns}, 1], offset: ?>>"
    slot = f"memref<1x{columns}xf32, strided<[{columns}, 1], offset: ?>, 3>"
    ahead = stages - 1

    def start(name: str, row: str, place: str) -> str:
        return f"""
  %from{name} = tile.subview %a[{row}, %c0] : memref<{rounds}x{columns}xf32>, {window}
  %to{name} = tile.subview %ring[{place}, %c0] : memref<{stages}x{columns}xf32, 3>, {slot}
  %t{name} = tile.copy_async %from{name}, %to{name} : {window}, {slot}"""

    def add(place: str, total: str, more: str) -> str:
        return f"""
  %x{more} = tile.load %ring[{place}, %c0] : memref<{stages}x{columns}xf32, 3>, vector<{columns}xf32>
  %{more} = ng.add {total}, %x{more} : vector<{columns}xf32>"""

    prologue = "".join(start(str(i), f"%c{i}", f"%c{i}") for i in range(ahead))
    carried = [f"%s{i}" for i in range(ahead)]
    tokens = [f"{s} = %t{i}" for i, s in enumerate(carried)]
    types = ", ".join(["index", f"vector<{columns}xf32>", *[TOKEN] * ahead])
    results = [f"%e{i}" for i in range(ahead)]
    tail = ""
    total = "%sum"
    for i, each_token in enumerate(results):
        row = rounds - ahead + i
        tail += f"\n  tile.wait {each_token} : {TOKEN}" + add(f"%c{row % stages}", total, f"tail{i}") + "\n"
        total = f"%tail{i}"
    body = f"""
  %zero = ng.constant dense<0.0> : vector<{columns}xf32>
  %ring = tile.alloc : memref<{stages}x{columns}xf32, 3>{prologue}
  %at, %sum, {", ".join(results)} = tile.for %k = 0 to {rounds - ahead} iter(%now = %c0, %acc = %zero, {", ".join(tokens)}) -> ({types}) {{
    %row = ng.add %k, %c{ahead} : index
    %free = ng.remainder %row, %c{stages} : index{start("n", "%row", "%free")}
    {each}{add("%now", "%acc", "more")}
    %after = ng.add %now, %c1 : index
    %next = ng.remainder %after, %c{stages} : index
    tile.barrier
    ng.yield %next, %more, {", ".join([*carried[1:], "%tn"])} : {types}
  }}{tail}
  tile.store {total}, %r[%c0] : vector<{columns}xf32>, memref<{columns}xf32>"""
    return planned({"a": f"memref<{rounds}x{columns}xf32>"}, {"r": f"memref<{columns}xf32>"}, body)


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("columns", [64, 37])
def test_a_ring_of_stages(stages: int, columns: int) -> None:
    text = ring(stages, columns, 11)
    a = np.random.default_rng(0).normal(size=(11, columns)).astype(np.float32)
    got, ptx = on_simulator(text, [a])
    np.testing.assert_array_equal(got[0], interpreted(text, [a])[0])
    agree_on_cpu(text, a)
    waits = [int(n) for n in re.findall(r"cp\.async\.wait_group\s+(\d+);", ptx)]
    if columns == 64:
        # In the loop the newest copies stay under way, all but the one that is read; then fewer and fewer.
        assert waits == [stages - 1, *reversed(range(stages - 1))]
    else:
        assert "cp.async.cg" not in ptx


def test_a_ring_that_does_not_wait_reads_what_is_under_way() -> None:
    """The tests above would see it."""
    with pytest.raises(SimulationFault, match="in flight"):
        on_simulator(ring(3, 64, 11, each=""), [np.ones((11, 64), np.float32)])


# ---- the count itself, over random programs


class Programs:
    """Random kernels of copies, waits, loops and branches, which hand tokens around in any order."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.number = 0
        self.lines: list[str] = []

    def name(self) -> str:
        self.number += 1
        return f"%v{self.number}"

    def block(self, known: list[str], depth: int) -> list[str]:
        """Writes some ops; gives the tokens that may be used behind them."""
        known = list(known)
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(["copy", "copy", "wait", "for", "if"] if depth else ["copy", "wait"])
            some = [self.random.choice(known) for _ in range(self.random.randint(1, 2))]
            if kind == "copy":
                known.append(self.copy())
            elif kind == "wait":
                self.lines.append(f"tile.wait {', '.join(some)} : {TOKEN}")
            elif kind == "for":
                known += self.loop(known, some, depth)
            else:
                known += self.branch(known, len(some), depth)
        return known

    def copy(self) -> str:
        name, source = self.name(), self.random.choice(["%a", "%a", "%slow"])
        type = "memref<4xf32>" if source == "%a" else "memref<3xf32>"
        self.lines.append(f"{name} = tile.copy_async {source}, {source} : {type}, {type}")
        return name

    def loop(self, known: list[str], some: list[str], depth: int) -> list[str]:
        types = ", ".join([TOKEN] * len(some))
        results, arguments = [self.name() for _ in some], [self.name() for _ in some]
        carried = ", ".join(f"{a} = {s}" for a, s in zip(arguments, some, strict=True))
        head = f"tile.for {self.name()} = 0 to 3 iter({carried})"
        self.lines.append(f"{', '.join(results)} = {head} -> ({types}) {{")
        inner = self.block(known + arguments, depth - 1)
        self.end(inner, len(some))
        self.lines.append("}")
        return results

    def branch(self, known: list[str], count: int, depth: int) -> list[str]:
        results, types = [self.name() for _ in range(count)], ", ".join([TOKEN] * count)
        self.lines.append(f"{', '.join(results)} = ng.if %true -> ({types}) {{")
        self.end(self.block(known, depth - 1), count)
        self.lines.append("} else {")
        self.end(self.block(known, depth - 1), count)
        self.lines.append("}")
        return results

    def end(self, inner: list[str], count: int) -> None:
        out = ", ".join(self.random.choice(inner) for _ in range(count))
        self.lines.append(f"ng.yield {out} : {', '.join([TOKEN] * count)}")

    def text(self) -> str:
        self.block([self.copy()], 3)
        body = "\n".join(self.lines)
        return f"""
func.func @main(%a: memref<4xf32>, %slow: memref<3xf32>) {{
%c0 = ng.constant 0 : index
%c1 = ng.constant 1 : index
%c3 = ng.constant 3 : index
%true = ng.constant true : i1
{body}
func.return
}}"""


class Machine:
    """Runs such a program with any number of rounds and any branches; counts groups as the hardware does."""

    def __init__(self, seed: int, in_background: Callable[[tile.CopyAsyncOp], bool], left: dict[Op, int]):
        self.random = random.Random(seed)
        self.in_background = in_background
        self.left = left
        self.groups = 0
        self.tokens: dict[
            Value, int
        ] = {}  # how many groups there were when the copies of a token had started
        self.waits = self.exact = 0

    def run(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, tile.CopyAsyncOp):
                self.groups += self.in_background(op)
                self.tokens[op.result] = self.groups
            elif isinstance(op, tile.WaitOp):
                after = min(self.groups - self.tokens[value] for value in op.operands)
                assert self.left[op] <= after, "a wait that leaves its own copies under way"
                self.waits += 1
                self.exact += self.left[op] == after
            elif isinstance(op, tile.ForOp):
                body = op.body.block
                state = [self.tokens[value] for value in op.inits]
                for _ in range(self.random.randint(0, 3)):
                    self.tokens.update(zip(body.args[1:], state, strict=True))
                    self.run(body)
                    state = [self.tokens[value] for value in body.ops[-1].operands]
                self.tokens.update(zip(op.results, state, strict=True))
            elif isinstance(op, ng.IfOp):
                chosen = self.random.choice(op.regions).block
                self.run(chosen)
                state = [self.tokens[value] for value in chosen.ops[-1].operands]
                self.tokens.update(zip(op.results, state, strict=True))


def test_no_wait_leaves_what_it_waits_for() -> None:
    waits = exact = positive = 0
    for seed in range(150):
        module = from_text(Programs(seed).text())
        main = module.lookup("main")
        assert main is not None
        body = main.regions[0].block
        assert any(v.type is token for op in main.walk() for v in op.results)

        def fast(op: tile.CopyAsyncOp) -> bool:
            return op.operands[0].type.shape == (4,)  # type: ignore[union-attr]

        left = unfinished(body, fast)
        positive += sum(number > 0 for number in left.values())
        for run in range(5):
            machine = Machine(run, fast, left)
            machine.run(body)
            exact += machine.exact
            waits += machine.waits
    assert positive > 50 and exact > waits / 2, "the count is hardly ever better than waiting for everything"
