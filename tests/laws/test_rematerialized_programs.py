# SPDX-License-Identifier: Apache-2.0
"""Rematerialization of programs with hard lives: updates of variables, loops, branches, and layers in less and less memory."""

from __future__ import annotations

import random

import pytest
import test_memory_plan
from comparing import assert_same_bits
from generators import arguments
from keeping import CPU, until
from watching import check_plan

from ngmlir.ir.core import Block, Module, Op
from ngmlir.ir.types import TensorType
from ngmlir.ops import ng
from ngmlir.ops.fields import attributes_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.lower.plan_memory import plan_memory, planned_bytes
from ngmlir.passes.lower.rematerialize import rematerialize
from ngmlir.support.diagnostics import UserError


def noted(of: Module, seed: int) -> Module:
    """The program with notes behind some of its ops, about values that are there by then."""
    draw = random.Random(seed)

    def block(source: Block) -> Block:
        out = source.emptied()
        known = [a for a in source.args if isinstance(a.type, TensorType)]
        for op in source.ops:
            out.ops.append(op)
            known += [r for r in op.results if isinstance(r.type, TensorType)]
            if "terminator" not in op.traits and known and draw.random() < 0.3:
                values, sources = (draw.sample(known, draw.randint(n, min(2, len(known)))) for n in (1, 0))
                fields = attributes_of(ng.RecomputeOp, {"given": len(values)})
                out.ops.append(ng.RecomputeOp([*values, *sources], (), fields))
        return out

    def function(op: Op) -> Op:
        return op.with_blocks(block) if op.name == "func.func" and op.symbol == "main" else op

    return of.with_ops([function(op) for op in of.ops])


def chain(length: int, updates: bool) -> Module:
    """Layers h -> tanh(h w) and their gradients, each of which may be what a variable becomes."""
    names = range(length)
    type, weight = "tensor<8x16xf32>", "tensor<16x16xf32>"
    lines: list[str] = []
    for i in names:
        lines.append(f"%d{i} = ng.dot %h{i}, %w{i} contract [1] x [0] : ({type}, {weight}) -> {type}")
        lines.append(f"%h{i + 1} = ng.tanh %d{i} : {type}")
    lines.append(f"%g{length} = ng.multiply %h{length}, %h{length} : {type}")
    for i in reversed(names):
        lines.append(f"%s{i} = ng.multiply %h{i + 1}, %g{i + 1} : {type}")
        lines.append(f"%g{i} = ng.dot %s{i}, %w{i} contract [1] x [1] : ({type}, {weight}) -> {type}")
        lines.append(f"%u{i} = ng.dot %h{i}, %s{i} contract [0] x [0] : ({type}, {type}) -> {weight}")
    pairs = ", ".join(f"{i}, {i + 1}" for i in names) if updates else ""
    attributes = f" attributes {{ng.tied = array<i64: {pairs}>}}" if pairs else ""
    return from_text(
        f"func.func @main(%h0: {type}, {', '.join(f'%w{i}: {weight}' for i in names)}) -> ({', '.join([weight] * length)})"
        f"{attributes} {{\n" + "\n".join(lines) + f"\nreturn {', '.join(f'%u{i}' for i in names)} : "
        f"{', '.join([weight] * length)} }}"
    )


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("share", [0.6, 0.4, 0.25, 0.15])
def test_layers_in_less_and_less_memory(updates: bool, share: float) -> None:
    of = chain(24, updates)
    before = until("rematerialize", of, CPU)
    peak = planned_bytes(plan_memory(before, CPU))
    after = rematerialize(before, CPU, limit=int(peak * share))
    planned = plan_memory(after, CPU)
    assert planned_bytes(planned) <= peak * share
    assert_same_bits(run(planned, *arguments(of)), run(before, *arguments(of)))
    calls = [sum(op.name == "tile.call" for op in m.ops[0].walk()) for m in (before, after)]
    assert calls[0] <= calls[1] < calls[0] * 3
    assert rematerialize(after, CPU, limit=int(peak * share)) == after


@pytest.mark.parametrize("text", test_memory_plan.HARD.values(), ids=test_memory_plan.HARD)
def test_hard_programs(text: str) -> None:
    of = test_memory_plan.program(text)
    arrays = arguments(of, 3)
    wanted = run(of, *arrays)
    for seed in range(3):
        before = until("rematerialize", noted(of, seed) if seed else of, CPU)
        free = rematerialize(before, CPU)
        assert_same_bits(run(free, *arrays), wanted)
        size = planned_bytes(plan_memory(free, CPU))
        for limit in {size - 1, size // 2} if size else ():
            try:
                after = rematerialize(before, CPU, limit=max(limit, 1))
            except UserError:
                continue
            planned = plan_memory(after, CPU)
            assert planned_bytes(planned) <= limit
            check_plan(after, planned, arrays, CPU.alignment)
            assert_same_bits(run(planned, *arrays), wanted)


@pytest.mark.parametrize("share", [0.12, 0.1, 0.08, 0.05])
def test_what_cannot_be_held(share: float) -> None:
    before = until("rematerialize", chain(24, False), CPU)
    peak = planned_bytes(plan_memory(before, CPU))
    with pytest.raises(UserError, match="bytes of memory"):
        rematerialize(before, CPU, limit=int(peak * share))


#: %h is computed from a variable that changes at once, so it stays; the new value is read by two steps that a third one reads.
CHANGED = """
  func.func @main(%w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) attributes {ng.tied = array<i64: 0, 0>} {
    %h = ng.cumulative_sum %w axis 0 : tensor<64x64xf32>
    %u = ng.cumulative_sum %w axis 1 : tensor<64x64xf32>
    %a = ng.cumulative_max %u axis 0 : tensor<64x64xf32>
    %b = ng.cumulative_max %u axis 1 : tensor<64x64xf32>
    %c = ng.dot %a, %b contract [1] x [0] : tensor<64x64xf32>
    ng.recompute %c from()
    %d = ng.cumulative_sum %c axis 0 : tensor<64x64xf32>
    %e = ng.dot %d, %c contract [1] x [0] : tensor<64x64xf32>
    %f = ng.dot %e, %b contract [1] x [0] : tensor<64x64xf32>
    %g = ng.dot %f, %u contract [1] x [0] : tensor<64x64xf32>
    %i = ng.dot %g, %h contract [1] x [0] : tensor<64x64xf32>
    ng.recompute %i from(%c)
    %j = ng.dot %i, %h contract [1] x [0] : tensor<64x64xf32>
    return %u, %j : tensor<64x64xf32>, tensor<64x64xf32>
  }"""


def test_what_a_variable_was_is_not_read_when_it_has_changed() -> None:
    of = from_text(CHANGED)
    arrays = arguments(of)
    before = until("rematerialize", of, CPU)
    free = rematerialize(before, CPU)
    size = planned_bytes(plan_memory(free, CPU))
    for limit in (size - 1, size * 7 // 8, size * 3 // 4, size // 2):
        try:
            after = rematerialize(before, CPU, limit=limit)
        except UserError:
            continue
        assert planned_bytes(plan_memory(after, CPU)) <= limit
        assert_same_bits(run(after, *arrays), run(before, *arrays))
    assert_same_bits(run(free, *arrays), run(before, *arrays))


def test_nothing_is_computed_again_without_end() -> None:
    before = until("rematerialize", chain(100, False), CPU)
    held = 0
    for limit in (1600, 2100, 2600, 3100, 4200):
        try:
            after = rematerialize(before, CPU, limit=limit)
        except UserError:
            continue
        held += 1
        assert len(after.ops[0].block.ops) <= 8 * len(before.ops[0].block.ops)
    assert held


#: Scans whose steps others read back: each gives what the gradients of a recurrent network read.
SCANS = {
    "the states with which steps begin": """
  func.func @main(%x: tensor<16x64xf32>, %h0: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %h, %s = ng.scan iter(%a = %h0) over(%t: tensor<64xf32> = %x) -> (tensor<64xf32>, tensor<16x64xf32>) {
      %b = ng.tanh %a : tensor<64xf32>
      %c = ng.add %b, %t : tensor<64xf32>
      ng.yield %c, %a : tensor<64xf32>, tensor<64xf32>
    }
    %d = ng.scan iter(%e = %h) over(%t: tensor<64xf32> = %x, %a: tensor<64xf32> = %s) {reverse = true} -> (tensor<64xf32>) {
      %f = ng.multiply %e, %a : tensor<64xf32>
      %g = ng.cumulative_sum %f axis 0 : tensor<64xf32>
      %i = ng.add %g, %t : tensor<64xf32>
      ng.yield %i : tensor<64xf32>
    }
    return %h, %d : tensor<64xf32>, tensor<64xf32>
  }""",
    "results of all steps, of steps in no whole number of blocks": """
  func.func @main(%x: tensor<11x64xf32>, %h0: tensor<64xf32>) -> (tensor<11x64xf32>, tensor<64xf32>) {
    %h, %s, %y = ng.scan iter(%a = %h0) over(%t: tensor<64xf32> = %x) {reverse = true} -> (tensor<64xf32>, tensor<11x64xf32>, tensor<11x64xf32>) {
      %b = ng.tanh %a : tensor<64xf32>
      %c = ng.add %b, %t : tensor<64xf32>
      ng.yield %c, %b, %c : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
    }
    %w = ng.sum %y axes [0] : (tensor<11x64xf32>) -> tensor<64xf32>
    %r = ng.reshape %s : (tensor<11x64xf32>) -> tensor<11x8x8xf32>
    %d, %z = ng.scan iter(%e = %w) over(%a: tensor<8x8xf32> = %r, %c: tensor<64xf32> = %y) -> (tensor<64xf32>, tensor<11x64xf32>) {
      %v = ng.reshape %a : (tensor<8x8xf32>) -> tensor<64xf32>
      %f = ng.multiply %e, %v : tensor<64xf32>
      %g = ng.cumulative_sum %f axis 0 : tensor<64xf32>
      %i = ng.add %g, %c : tensor<64xf32>
      ng.yield %i, %g : tensor<64xf32>, tensor<64xf32>
    }
    %u = ng.cumulative_sum %z axis 0 : tensor<11x64xf32>
    return %u, %d : tensor<11x64xf32>, tensor<64xf32>
  }""",
    "scans that read back scans that read back": """
  func.func @main(%x: tensor<9x64xf32>, %h0: tensor<64xf32>) -> (tensor<9x64xf32>, tensor<64xf32>) {
    %h, %s, %y = ng.scan iter(%a = %h0) over(%t: tensor<64xf32> = %x) -> (tensor<64xf32>, tensor<9x64xf32>, tensor<9x64xf32>) {
      %b = ng.tanh %a : tensor<64xf32>
      %c = ng.cumulative_sum %b axis 0 : tensor<64xf32>
      ng.yield %c, %a, %b : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
    }
    %k, %q = ng.scan iter(%a = %h) over(%t: tensor<64xf32> = %y) -> (tensor<64xf32>, tensor<9x64xf32>) {
      %b = ng.sin %t : tensor<64xf32>
      %c = ng.add %b, %a : tensor<64xf32>
      ng.yield %c, %a : tensor<64xf32>, tensor<64xf32>
    }
    %d, %z = ng.scan iter(%e = %k) over(%a: tensor<64xf32> = %s, %b: tensor<64xf32> = %q, %c: tensor<64xf32> = %y) {reverse = true} -> (tensor<64xf32>, tensor<9x64xf32>) {
      %f = ng.multiply %e, %a : tensor<64xf32>
      %g = ng.cumulative_sum %f axis 0 : tensor<64xf32>
      %i = ng.add %g, %b : tensor<64xf32>
      %j = ng.add %i, %c : tensor<64xf32>
      ng.yield %j, %g : tensor<64xf32>, tensor<64xf32>
    }
    %l, %m = ng.scan iter(%a = %d) over(%t: tensor<64xf32> = %z, %n: tensor<64xf32> = %x) -> (tensor<64xf32>, tensor<9x64xf32>) {
      %b = ng.cos %t : tensor<64xf32>
      %c = ng.subtract %b, %a : tensor<64xf32>
      %o = ng.subtract %c, %n : tensor<64xf32>
      ng.yield %o, %c : tensor<64xf32>, tensor<64xf32>
    }
    return %m, %l : tensor<9x64xf32>, tensor<64xf32>
  }""",
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_in_blocks_of_steps(name: str) -> None:
    of = from_text(SCANS[name])
    arrays = arguments(of)
    before = until("rematerialize", of, CPU)
    wanted = run(before, *arrays)
    size = planned_bytes(plan_memory(before, CPU))
    scans = [sum(op.name == "ng.scan" for op in before.walk())]
    for share in (95, 90, 85, 80, 75, 70, 65, 60, 55, 50, 45, 40):
        try:
            after = rematerialize(before, CPU, limit=size * share // 100)
        except UserError:
            continue
        planned = plan_memory(after, CPU)
        assert planned_bytes(planned) <= size * share // 100
        check_plan(after, planned, arrays, CPU.alignment)
        assert_same_bits(run(planned, *arrays), wanted)
        scans.append(sum(op.name == "ng.scan" for op in after.walk()))
    assert max(scans) > scans[0]
