# SPDX-License-Identifier: Apache-2.0
"""Schedules of products on GPUs are priced as they are emitted: the parts of a tile that warps and threads compute, the instruction,
the launch, and whether copies are in the background. `./run pytest -s tests/laws/test_partitions.py` prints the counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import pytest

from ngmlir.codegen.nvptx import emit, kernel
from ngmlir.codegen.nvptx.block import Block, Tile
from ngmlir.codegen.nvptx.products import atom_of
from ngmlir.compiler import lower
from ngmlir.ir.core import Module, Op
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops import tile
from ngmlir.ops.fields import get_i64
from ngmlir.ops.layouts import Layout
from ngmlir.ops.schedules import SCHEDULE, Blocks
from ngmlir.ops.words import from_text
from ngmlir.passes.schedule import blocks as model
from ngmlir.passes.schedule.choosing import _product, candidates
from ngmlir.support.machines import MatrixAtom

TARGET = nvptx_target("sm_90a")
#: Products drawn, and of each the candidates that are emitted beside the best.
PRODUCTS, OTHERS = 32, 3
ROWS, DEPTHS = (16, 24, 64, 100, 128, 200, 512, 1024), (16, 32, 48, 64, 100, 256, 1024)
#: The passes before a schedule is chosen.
BEFORE = "canonical, check-target, prepare, split-reductions, short-floats, align-sides, fuse, nest"
#: Elements of both sides and of the result.
ELEMENTS = (
    ("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("i8", "i32"), ("i32", "i32"),
)  # fmt: skip


@dataclass
class Emitted:
    """What one kernel was made with: of its products the layout of the sums and the instruction, and bytes of shared memory."""

    sums: list[tuple[Layout, MatrixAtom | None]]
    shared: int = 0


def drawn(seed: int) -> Module:
    """A product of drawn sizes, elements and orders of its sides."""
    draw = Random(seed)
    m, n, k = draw.choice(ROWS), draw.choice(ROWS), draw.choice(DEPTHS)
    element, result = draw.choice(ELEMENTS)
    left, right = draw.random() < 0.3, draw.random() < 0.5
    x, y = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
    a, b = (f"tensor<{p}x{q}x{element}>" for p, q in (x, y))
    r = f"tensor<{m}x{n}x{result}>"
    return from_text(
        f"func.func @main(%x: {a}, %y: {b}) -> {r} {{\n"
        f"  %r = ng.dot %x, %y contract [{0 if left else 1}] x [{1 if right else 0}] : ({a}, {b}) -> {r}\n"
        f"  return %r : {r}\n}}"
    )


def fusion_of(of: Module) -> Op:
    """The one with the product."""
    (found,) = [
        op for op in of.walk() if op.name == "ng.fusion" and any(o.name == "ng.dot" for o in op.walk())
    ]
    return found


def scheduled(of: Module, fusion: Op, schedule: Blocks) -> Module:
    """The module with a schedule on a fusion of @main."""
    main = of.lookup("main")
    assert main is not None
    out, mapping = main.block.emptied(), {}
    for op in main.block.ops:
        own = {**op.attributes, SCHEDULE: schedule.attribute()} if op is fusion else None
        made = op.rebuilt([mapping.get(v, v) for v in op.operands], attributes=own)
        mapping.update(zip(op.results, made.results, strict=True))
        out.ops.append(made)
    return of.with_ops([main.with_blocks(lambda _: out) if op is main else op for op in of.ops])


def emitted(of: Module, patch: pytest.MonkeyPatch) -> tuple[tile.KernelOp, Emitted]:
    """The kernel of a product, and what its code was made with."""
    found = Emitted([])
    dot, whole = kernel.dot, kernel._Kernel.emit  # pyright: ignore[reportPrivateUsage]

    def noted(block: Block, op: Op, lhs: Tile, rhs: Tile, sums: Tile, gpu: Any) -> Tile:
        found.sums.append((sums.layout, atom_of(op, gpu)))
        return dot(block, op, lhs, rhs, sums, gpu)

    def measured(made: Any) -> int:
        before = len(found.sums)
        bytes = whole(made)
        if len(found.sums) > before:
            found.shared = made.block.shared_bytes
        return bytes

    patch.setattr(kernel, "dot", noted)
    patch.setattr(kernel._Kernel, "emit", measured)
    low = lower(of, TARGET)
    emit(low, TARGET)
    patch.undo()
    (has,) = [
        op for op in low.ops if isinstance(op, tile.KernelOp) and any(o.name == "tile.dot" for o in op.walk())
    ]
    return has, found


def test_what_is_priced_is_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for seed in range(PRODUCTS):
        fused = lower(drawn(seed), TARGET, BEFORE)
        fusion = fusion_of(fused)
        product, every, draw = _product(fusion, TARGET), candidates(fusion, TARGET), Random(seed)
        atom = product.atom(TARGET)
        for made in [every[0], *draw.sample(every[1:], min(OTHERS, len(every) - 1))]:
            schedule, what = made.schedule, f"seed {seed}, {made.schedule}"
            assert isinstance(schedule, Blocks)
            one, found = emitted(scheduled(fused, fusion, schedule), monkeypatch)
            assert found.sums, what
            for layout, instruction in found.sums:
                assert instruction == atom, what
                if atom is not None:
                    assert layout.part(warps=True) == model._warp_tile(schedule.tile, schedule.threads), what
                else:
                    assert layout.part() == model._thread_tile(schedule.tile, schedule.threads), what
            assert get_i64(one, "threads") == schedule.threads, what
            assert prod(one.grid) == model._tiles(product, schedule.tile), what
            copies = any(isinstance(op, tile.CopyAsyncOp) for op in one.walk())
            assert copies == (model._waits(product, TARGET, schedule) and product.depth > schedule.step), what
            counts["by matrix instructions" if atom else "by multiply-adds"] += 1
            counts["with copies in the background"] += copies
            counts["with more shared memory than priced"] += found.shared > model._shared_bytes(
                product, TARGET, schedule
            )
    print(f"\n{PRODUCTS} products, candidates: {', '.join(f'{n} {what}' for what, n in counts.items())}")
    assert (
        counts["by matrix instructions"]
        and counts["by multiply-adds"]
        and counts["with copies in the background"]
    )
