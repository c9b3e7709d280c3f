# SPDX-License-Identifier: Apache-2.0
"""What holds for every pass on every program: it keeps the meaning, its output is well-formed and can be
written down, it leaves its input alone, and it does the same each time."""

from __future__ import annotations

import pytest
from comparing import assert_close, assert_same_bits, largest_number
from generators import arguments, modules
from hypothesis import given
from keeping import CPU, GPU, LATE, SETTLING, assert_well_formed, stages
from tables import compiled

from ngmlir.compiler import pipeline_for
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.support.target import Target


@pytest.mark.parametrize("name", [p for p in PASSES if p not in LATE])
@given(of=modules(exact=True))
def test_pass_keeps_every_bit(name: str, of: Module) -> None:
    arrays = arguments(of)
    made = PASSES[name](of, CPU)
    assert_well_formed(made)
    if name != "expand-math":  # random_normal
        assert_same_bits(run(made, *arrays), run(of, *arrays), name)


@given(of=modules(exact=True))
def test_way_to_the_cpu_keeps_every_bit(of: Module) -> None:
    arrays = arguments(of)
    wanted = run(of, *arrays)
    for name, stage in stages(of, CPU):
        assert_same_bits(run(stage, *arrays), wanted, name)


@given(of=modules(exact=True, control=False))
def test_way_to_a_gpu_keeps_every_bit(of: Module) -> None:
    arrays = arguments(of)
    wanted = run(of, *arrays)
    for name, stage in stages(of, GPU):
        assert_same_bits(run(stage, *arrays), wanted, name)


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@given(of=modules(control=False))
def test_way_down_keeps_numbers(target: Target, of: Module) -> None:
    """With sums, products and functions whose last bits depend on the order and on the library."""
    arrays = arguments(of)
    wanted, scale = run(of, *arrays), largest_number(of, arrays)
    for name, stage in stages(of, target):
        assert_close(run(stage, *arrays), wanted, scale, name)


@given(of=modules())
def test_way_down_keeps_numbers_in_loops(of: Module) -> None:
    arrays = arguments(of)
    wanted, scale = run(of, *arrays), largest_number(of, arrays)
    *_, (name, last) = stages(of, CPU)
    assert_close(run(last, *arrays), wanted, scale, name)


@given(of=modules(exact=True))
def test_programs_of_a_kernel_may_run_in_any_order(of: Module) -> None:
    arrays = arguments(of)
    *_, (_, last) = stages(of, CPU)
    assert_same_bits(run(last, *arrays, order=1), run(last, *arrays))


#: What makes it hard to choose kernels -> a program (without loops, if a GPU is to take it too).
HARD = {
    "a product's side is added to it": """(%a: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %x = ng.square %a : tensor<8x8xf32>
        %y = ng.dot %x, %w contract [1] x [0] : tensor<8x8xf32>
        %z = ng.add %y, %x : tensor<8x8xf32>
        return %z : tensor<8x8xf32> }""",
    "a product's sides are repeated by its epilogue": """(%c: tensor<4x4xi1>) -> tensor<4x4xf32> {
        %k = ng.constant dense<2.0> : tensor<4x4xf32>
        %i = ng.iota {dimension = 1 : i64} : tensor<4x4xf32>
        %y = ng.dot %k, %i contract [1] x [1] : tensor<4x4xf32>
        %s = ng.select %c, %y, %k : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        %z = ng.add %s, %i : tensor<4x4xf32>
        return %z : tensor<4x4xf32> }""",
    "a product of one row": """(%a: tensor<1x5xf32>, %w: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<1x7xf32> {
        %y = ng.dot %a, %w contract [1] x [0] : (tensor<1x5xf32>, tensor<5x7xf32>) -> tensor<1x7xf32>
        %c = ng.broadcast %b dims [1] : (tensor<7xf32>) -> tensor<1x7xf32>
        %z = ng.add %y, %c : tensor<1x7xf32>
        return %z : tensor<1x7xf32> }""",
    "a product of one number": """(%a: tensor<6x5xf32>) -> tensor<f32> {
        %y = ng.dot %a, %a contract [0, 1] x [0, 1] : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<f32>
        %z = ng.negative %y : tensor<f32>
        return %z : tensor<f32> }""",
    "the product of nothing, in a short type": """(%a: tensor<0x3xf16>) -> (tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) {
        %p = ng.product %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        %s = ng.sum %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        %m = ng.max %a axes [0] : (tensor<0x3xf16>) -> tensor<3xf16>
        return %p, %s, %m : tensor<3xf16> }""",
    "nothing scattered": """(%a: tensor<3xf32>, %i: tensor<0xi32>, %u: tensor<0xf32>) -> tensor<3xf32> {
        %b = ng.scatter %a[%i], %u axis 0 : (tensor<3xf32>, tensor<0xi32>, tensor<0xf32>) -> tensor<3xf32>
        %c = ng.add %b, %b : tensor<3xf32>
        return %c : tensor<3xf32> }""",
    "a value on both sides of a transpose": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
        %b = ng.square %a : tensor<6x6xf32>
        %c = ng.transpose %b perm [1, 0] : tensor<6x6xf32>
        %d = ng.subtract %b, %c : tensor<6x6xf32>
        return %d : tensor<6x6xf32> }""",
    "a value under uneven shapes": """(%a: tensor<2x3x4xf32>) -> tensor<24xf32> {
        %b = ng.square %a : tensor<2x3x4xf32>
        %c = ng.reshape %b : (tensor<2x3x4xf32>) -> tensor<8x3xf32>
        %d = ng.max %c axes [1] : (tensor<8x3xf32>) -> tensor<8xf32>
        %e = ng.broadcast %d dims [0] : (tensor<8xf32>) -> tensor<8x3xf32>
        %f = ng.reshape %e : (tensor<8x3xf32>) -> tensor<24xf32>
        %g = ng.reshape %b : (tensor<2x3x4xf32>) -> tensor<24xf32>
        %h = ng.subtract %f, %g : tensor<24xf32>
        return %h : tensor<24xf32> }""",
    "sums over either dimension, each needing the other": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
        %r = ng.sum %a axes [1] : (tensor<6x6xf32>) -> tensor<6xf32>
        %s = ng.broadcast %r dims [0] : (tensor<6xf32>) -> tensor<6x6xf32>
        %b = ng.subtract %a, %s : tensor<6x6xf32>
        %c = ng.sum %b axes [0] : (tensor<6x6xf32>) -> tensor<6xf32>
        %t = ng.broadcast %c dims [1] : (tensor<6xf32>) -> tensor<6x6xf32>
        %d = ng.add %b, %t : tensor<6x6xf32>
        %e = ng.subtract %d, %s : tensor<6x6xf32>
        return %e : tensor<6x6xf32> }""",
}
WITH_LOOPS = {
    "a loop between two maps over one space": """(%a: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
        %0 = ng.constant dense<0> : tensor<i32>
        %1 = ng.constant dense<1> : tensor<i32>
        %3 = ng.constant dense<3> : tensor<i32>
        %b = ng.square %a : tensor<6xf32>
        %m = ng.max %b axes [0] : (tensor<6xf32>) -> tensor<f32>
        %k, %c, %n = ng.while %0, %b, %m : (tensor<i32>, tensor<6xf32>, tensor<f32>) -> (tensor<i32>, tensor<6xf32>, tensor<f32>) {
        ^bb0(%i: tensor<i32>, %x: tensor<6xf32>, %y: tensor<f32>):
          %t = ng.less %i, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          ng.yield %t : tensor<i1>
        } {
        ^bb0(%i: tensor<i32>, %x: tensor<6xf32>, %y: tensor<f32>):
          %j = ng.add %i, %1 : tensor<i32>
          %u = ng.negative %x : tensor<6xf32>
          %unused = ng.negative %y : tensor<f32>
          %w = ng.add %y, %y : tensor<f32>
          ng.yield %j, %u, %w : tensor<i32>, tensor<6xf32>, tensor<f32>
        }
        %d = ng.negative %c : tensor<6xf32>
        %e = ng.subtract %d, %b : tensor<6xf32>
        return %d, %e : tensor<6xf32> }""",
}


@pytest.mark.parametrize("text", [*HARD.values(), *WITH_LOOPS.values()], ids=[*HARD, *WITH_LOOPS])
def test_hard_program(text: str) -> None:
    of = from_text(f"func.func @main{text}")
    arrays = arguments(of, 5)
    wanted = run(of, *arrays)
    for target in (CPU, GPU) if text in HARD.values() else (CPU,):
        for name, stage in stages(of, target):
            assert_same_bits(run(stage, *arrays), wanted, f"{target.name} after {name}")
    assert_same_bits(compiled(of, arrays), wanted, "compiled")


@pytest.mark.parametrize("name", [n for n in SETTLING if n in PASSES])
@given(of=modules())
def test_pass_settles(name: str, of: Module) -> None:
    once = PASSES[name](of, CPU)
    assert to_text(PASSES[name](once, CPU)) == to_text(once)


def test_every_pass_is_on_some_way() -> None:
    used = {step.name for target in (CPU, GPU) for step in pipeline_for(target, checked=True).steps}
    assert used == set(PASSES)
