# SPDX-License-Identifier: Apache-2.0
"""The memory plan: no value is overwritten before its last use, variables change where they lie, and nothing
takes more memory than it must."""

from __future__ import annotations

import pytest
from branches import BRANCHES, choices
from comparing import assert_same_bits
from generators import arguments, modules
from hypothesis import given
from keeping import CPU, GPU, until
from tables import compiled
from watching import check_plan, tied_pairs

from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.lower.plan_memory import plan_memory, planned_bytes
from ngmlir.support.target import Target


def checked(of: Module, target: Target) -> Module:
    before = until("plan-memory", of, target)
    planned = plan_memory(before, target)
    check_plan(before, planned, arguments(of), target.alignment)
    return planned


@given(of=modules(exact=True))
def test_plan_for_a_cpu(of: Module) -> None:
    checked(of, CPU)


@given(of=modules(exact=True, control=False))
def test_plan_for_a_gpu(of: Module) -> None:
    checked(of, GPU)


#: What is hard about it -> a program on tensors t = tensor<6xf32> and s = tensor<5x6xf32>.
HARD = {
    "argument returned": "(%a: t) -> t { return %a : t }",
    "argument returned twice": "(%a: t) -> (t, t) { return %a, %a : t }",
    "constant returned": "(%a: t) -> (t, t) { %c = ng.constant dense<2.5> : t\n return %c, %c : t }",
    "value returned twice": "(%a: t) -> (t, t) { %b = ng.exp2 %a : t\n return %b, %b : t }",
    "value returned under two shapes": """(%a: s) -> (s, tensor<6x5xf32>, s) {
        %b = ng.negative %a : s
        %c = ng.reshape %b : (s) -> tensor<6x5xf32>
        return %b, %c, %b : s, tensor<6x5xf32>, s }""",
    "update": "(%a: t) -> t tied [0, 0] { %b = ng.add %a, %a : t\n return %b : t }",
    "variable that stays": "(%a: t) -> t tied [0, 0] { return %a : t }",
    "variable set to a constant": "(%a: t) -> t tied [0, 0] { %c = ng.constant dense<2.5> : t\n return %c : t }",
    "variable set to an argument": "(%a: t, %x: t) -> t tied [0, 0] { return %x : t }",
    "two variables swapped": "(%a: t, %b: t) -> (t, t) tied [0, 0, 1, 1] { return %b, %a : t }",
    "three variables in a ring": "(%a: t, %b: t, %c: t) -> (t, t, t) tied [0, 0, 1, 1, 2, 2] { return %b, %c, %a : t }",
    "swapped and changed": """(%a: t, %b: t) -> (t, t) tied [0, 0, 1, 1] {
        %c = ng.negative %a : t
        return %b, %c : t }""",
    "both depend on both": """(%a: t, %b: t) -> (t, t) tied [0, 0, 1, 1] {
        %c = ng.add %a, %b : t
        %d = ng.subtract %a, %b : t
        return %c, %d : t }""",
    "one new value for two variables": """(%a: t, %b: t) -> (t, t) tied [0, 0, 1, 1] {
        %c = ng.subtract %a, %b : t
        return %c, %c : t }""",
    "old and new value returned": """(%a: t) -> (t, t) tied [0, 0] {
        %b = ng.add %a, %a : t
        return %b, %a : t }""",
    "new value returned too": """(%a: t) -> (t, t) tied [1, 0] {
        %b = ng.add %a, %a : t
        return %b, %b : t }""",
    "old value used after the update": """(%a: t, %m: tensor<6x6xf32>) -> (t, t) tied [0, 0] {
        %b = ng.add %a, %a : t
        %y = ng.dot %m, %b contract [1] x [0] : (tensor<6x6xf32>, t) -> t
        %z = ng.add %y, %a : t
        return %b, %z : t }""",
    "update used by later ops": """(%a: t, %m: tensor<6x6xf32>) -> (t, t) tied [0, 0] {
        %b = ng.add %a, %a : t
        %y = ng.dot %m, %b contract [1] x [0] : (tensor<6x6xf32>, t) -> t
        return %b, %y : t }""",
    "update by a product of itself": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> tied [0, 0] {
        %b = ng.dot %a, %a contract [1] x [0] : tensor<6x6xf32>
        return %b : tensor<6x6xf32> }""",
    "update by its own transpose": """(%a: tensor<6x6xf32>) -> tensor<6x6xf32> tied [0, 0] {
        %b = ng.transpose %a perm [1, 0] : tensor<6x6xf32>
        return %b : tensor<6x6xf32> }""",
    "update by its own turn": """(%a: t) -> t tied [0, 0] {
        %b = ng.slice %a from [5] to [-1] step [-1] : t
        return %b : t }""",
    "update in place by index": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> s tied [0, 0] {
        %b = ng.scatter %a[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        return %b : s }""",
    "update by index, old value needed": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 0] {
        %b = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %c = ng.subtract %b, %a : s
        return %b, %c : s }""",
    "update by index of rows of itself": """(%a: s, %i: tensor<2xi32>) -> s tied [0, 0] {
        %u = ng.slice %a from [1, 0] to [3, 6] step [1, 1] : (s) -> tensor<2x6xf32>
        %b = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        return %b : s }""",
    "updates by index, one after the other": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, t) tied [0, 0] {
        %b = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %r = ng.max %b axes [0] : (s) -> t
        %c = ng.scatter %b[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        return %c, %r : s, t }""",
    "updates by index, the one between them needed": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 0] {
        %b = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %c = ng.scatter %b[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        return %c, %b : s, s }""",
    "two updates by index of one value": """(%a: s, %d: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 0, 1, 1] {
        %b = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %c = ng.scatter %a[%i], %u axis 0 {combine = "max"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        return %b, %c : s, s }""",
    "a row is replaced": """(%a: s, %u: tensor<1x6xf32>) -> s tied [0, 0] {
        %x = ng.slice %a from [0, 0] to [2, 6] step [1, 1] : (s) -> tensor<2x6xf32>
        %y = ng.slice %a from [3, 0] to [5, 6] step [1, 1] : (s) -> tensor<2x6xf32>
        %b = ng.concatenate %x, %u, %y axis 0 : (tensor<2x6xf32>, tensor<1x6xf32>, tensor<2x6xf32>) -> s
        return %b : s }""",
    "rows are written in a loop": """(%a: s, %u: tensor<6xf32>, %n: tensor<i32>) -> s tied [0, 0] {
        %0 = ng.constant dense<0> : tensor<i32>
        %1 = ng.constant dense<1> : tensor<i32>
        %i, %r = ng.while iter(%k = %0, %c = %a) -> (tensor<i32>, s) {
          %t = ng.less %k, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          ng.yield %t : tensor<i1>
        } do {
          %d = ng.scatter %c[%k], %u axis 0 : (s, tensor<i32>, tensor<6xf32>) -> s
          %j = ng.add %k, %1 : tensor<i32>
          %e = ng.scatter %d[%j], %u axis 0 {combine = "add"} : (s, tensor<i32>, tensor<6xf32>) -> s
          ng.yield %j, %e : tensor<i32>, s
        }
        return %r : s }""",
    "rows are written in a loop that reads the old ones": """(%a: s, %x: s, %k: tensor<i32>) -> (s, tensor<5x5x6xf32>) tied [0, 0] {
        %r, %y = ng.scan iter(%c = %a) over(%u: t = %x) -> (s, tensor<5x5x6xf32>) {
          %d = ng.scatter %c[%k], %u axis 0 : (s, tensor<i32>, t) -> s
          %e = ng.scatter %d[%k], %u axis 0 {combine = "add"} : (s, tensor<i32>, t) -> s
          %z = ng.subtract %e, %c : s
          ng.yield %d, %z : s
        }
        return %r, %y : s, tensor<5x5x6xf32> }""",
    "update under another shape": """(%a: s) -> s tied [0, 0] {
        %f = ng.reshape %a : (s) -> tensor<30xf32>
        %g = ng.square %f : tensor<30xf32>
        %b = ng.reshape %g : (tensor<30xf32>) -> s
        return %b : s }""",
    "momentum": """(%w: t, %v: t, %g: t) -> (t, t) tied [0, 0, 1, 1] {
        %c = ng.constant dense<0.5> : t
        %1 = ng.multiply %v, %c : t
        %n = ng.subtract %1, %g : t
        %x = ng.add %w, %n : t
        return %x, %n : t }""",
    "a long chain": "(%a: s) -> s { "
    + "\n".join(f"%{i} = ng.cumulative_sum %{'a' if i == 0 else i - 1} axis 1 : s" for i in range(9))
    + "\n return %8 : s }",
    "carried values swapped": """(%a: t, %b: t, %s: s) -> (t, t) {
        %x, %y = ng.scan iter(%p = %a, %q = %b) over(%r: t = %s) -> (t, t) {
          ng.yield %q, %p : t
        }
        return %x, %y : t }""",
    "carried values in a ring, all stacked": """(%a: t, %b: t, %c: t, %s: s) -> (t, t, t, s, s) {
        %x, %y, %z, %u, %v = ng.scan iter(%p = %a, %q = %b, %w = %c) over(%r: t = %s) -> (t, t, t, s, s) {
          %n = ng.add %p, %r : t
          ng.yield %q, %w, %n, %p, %n : t
        }
        return %x, %y, %z, %u, %v : t, t, t, s, s }""",
    "one init for two carried values": """(%a: t, %s: s) -> (t, t, t) {
        %x, %y = ng.scan iter(%p = %a, %q = %a) over(%r: t = %s) -> (t, t) {
          %n = ng.add %p, %r : t
          ng.yield %n, %p : t
        }
        return %x, %y, %a : t }""",
    "a slice is handed on": """(%a: t, %s: s) -> (t, s) {
        %x, %u = ng.scan iter(%p = %a) over(%r: t = %s) {reverse = true} -> (t, s) {
          ng.yield %r, %p : t
        }
        return %x, %u : t, s }""",
    "a variable goes round": """(%a: t, %s: s) -> (t, s) tied [0, 0] {
        %x, %u = ng.scan iter(%p = %a) over(%r: t = %s) -> (t, s) {
          %n = ng.multiply %p, %r : t
          ng.yield %n, %a : t
        }
        return %x, %u : t, s }""",
    "a sequence is a variable": """(%a: t, %s: s) -> (t, s) tied [1, 1] {
        %x, %u = ng.scan iter(%p = %a) over(%r: t = %s) -> (t, s) {
          %n = ng.add %p, %r : t
          ng.yield %n, %p : t
        }
        return %x, %u : t, s }""",
    "the same sequence twice, under another shape": """(%f: tensor<30xf32>) -> (s, t) {
        %g = ng.negative %f : tensor<30xf32>
        %s = ng.reshape %g : (tensor<30xf32>) -> s
        %z = ng.constant dense<0.0> : t
        %x, %u = ng.scan iter(%p = %z) over(%r: t = %s, %q: t = %s) -> (t, s) {
          %n = ng.add %p, %r : t
          %m = ng.multiply %q, %r : t
          ng.yield %n, %m : t
        }
        return %u, %x : s, t }""",
    "a value from before is read early in every round": """(%a: t, %s: s) -> (s, t) {
        %d = ng.cumulative_sum %a axis 0 : t
        %e = ng.cumulative_sum %d axis 0 : t
        %u = ng.scan over(%r: t = %s) -> s {
          %1 = ng.cumulative_max %d axis 0 : t
          %2 = ng.cumulative_sum %1 axis 0 : t
          %3 = ng.cumulative_min %2 axis 0 : t
          %4 = ng.add %3, %r : t
          ng.yield %4 : t
        }
        return %u, %e : s, t }""",
    "a stack grows beside the values of the body": """(%s: s) -> s {
        %u = ng.scan over(%r: t = %s) -> s {
          %1 = ng.cumulative_max %r axis 0 : t
          %2 = ng.cumulative_sum %1 axis 0 : t
          %3 = ng.cumulative_min %2 axis 0 : t
          ng.yield %3 : t
        }
        %v = ng.cumulative_sum %u axis 0 : s
        return %v : s }""",
    "no round at all": """(%a: t, %s: tensor<0x6xf32>) -> (t, tensor<0x6xf32>) {
        %x, %u = ng.scan iter(%p = %a) over(%r: t = %s) -> (t, tensor<0x6xf32>) {
          %n = ng.add %p, %r : t
          ng.yield %n, %p : t
        }
        return %x, %u : t, tensor<0x6xf32> }""",
    "loops in loops": """(%a: t, %b: t, %s: tensor<3x5x6xf32>) -> (t, t, tensor<3x5x6xf32>) {
        %x, %y, %u = ng.scan iter(%p = %a, %q = %b) over(%r: s = %s) -> (t, t, tensor<3x5x6xf32>) {
          %h = ng.add %p, %b : t
          %i, %j, %v = ng.scan iter(%k = %h, %l = %q) over(%m: t = %r) -> (t, t, s) {
            %n = ng.add %k, %m : t
            %o = ng.subtract %h, %l : t
            ng.yield %l, %n, %o : t
          }
          %w = ng.add %j, %h : t
          ng.yield %j, %w, %v : t, t, s
        }
        return %x, %y, %u : t, t, tensor<3x5x6xf32> }""",
    "while, swapped, with a value from before": """(%a: t, %b: t) -> (t, t) {
        %0 = ng.constant dense<0> : tensor<i32>
        %1 = ng.constant dense<1> : tensor<i32>
        %3 = ng.constant dense<3> : tensor<i32>
        %d = ng.negative %b : t
        %i, %x, %y = ng.while iter(%k = %0, %p = %a, %q = %d) -> (tensor<i32>, t, t) {
          %c = ng.less %k, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          ng.yield %c : tensor<i1>
        } do {
          %n = ng.add %k, %1 : tensor<i32>
          %m = ng.add %q, %d : t
          ng.yield %n, %m, %p : tensor<i32>, t, t
        }
        return %x, %y : t }""",
    "a value from before is asked for in every round": """(%a: t, %b: t) -> t {
        %d = ng.cumulative_sum %b axis 0 : t
        %x, %z = ng.while iter(%p = %a, %q = %b) -> (t, t) {
          %1 = ng.max %d axes [0] : (t) -> tensor<f32>
          %2 = ng.min %p axes [0] : (t) -> tensor<f32>
          %3 = ng.absolute %1 : tensor<f32>
          %c = ng.less %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
          ng.yield %c : tensor<i1>
        } do {
          %1 = ng.constant dense<1.0> : t
          %2 = ng.add %p, %1 : t
          %3 = ng.cumulative_max %2 axis 0 : t
          %4 = ng.cumulative_max %q axis 0 : t
          ng.yield %3, %4 : t
        }
        return %x : t }""",
    "while asks for what it carries": """(%a: t) -> t {
        %c = ng.constant dense<true> : tensor<i1>
        %x, %y = ng.while iter(%k = %c, %p = %a) -> (tensor<i1>, t) {
          ng.yield %k : tensor<i1>
        } do {
          %n = ng.bitwise_not %k : tensor<i1>
          %q = ng.negative %p : t
          ng.yield %n, %q : tensor<i1>, t
        }
        return %y : t }""",
    "either branch gives what it finds": """(%c: tensor<i1>, %a: t, %b: t) -> (t, t, t) tied [2, 2] {
        %d = ng.add %a, %b : t
        %x, %y, %z = ng.if %c -> (t, t, t) {
          ng.yield %a, %a, %d : t
        } else {
          %e = ng.add %d, %d : t
          ng.yield %e, %d, %b : t
        }
        return %x, %y, %z : t }""",
    "a branch in a loop": """(%a: t, %s: s, %c: tensor<5xi1>) -> (t, s) {
        %x, %u = ng.scan iter(%p = %a) over(%r: t = %s, %f: tensor<i1> = %c) -> (t, s) {
          %n = ng.add %p, %r : t
          %o = ng.if %f -> t {
            %m = ng.multiply %n, %p : t
            ng.yield %m : t
          } else {
            ng.yield %p : t
          }
          ng.yield %o, %n : t
        }
        return %x, %u : t, s }""",
    **BRANCHES,
    "nothing in it": "(%a: tensor<0x6xf32>) -> tensor<0x6xf32> tied [0, 0] { %b = ng.exp2 %a : tensor<0x6xf32>\n return %b : tensor<0x6xf32> }",
}


def program(text: str) -> Module:
    """`(arguments) -> results tied [..] { body }` as a module, with the short names of types."""
    head, _, body = text.partition("{")
    head, _, pairs = head.partition("tied")
    attributes = f" attributes {{ng.tied = array<i64: {pairs.strip()[1:-1]}>}}" if pairs else ""
    whole = f"func.func @main{head}{attributes} {{{body}"
    for short, long in (("t", "tensor<6xf32>"), ("s", "tensor<5x6xf32>")):
        for before in (": ", "(", ", ", "-> "):
            for after in (",", ")", " ", "\n"):
                while before + short + after in whole:
                    whole = whole.replace(before + short + after, before + long + after)
    return from_text(whole)


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_hard_case(text: str) -> None:
    of = program(text)
    arrays = arguments(of, 3)
    planned = checked(of, CPU)
    wanted = run(of, *arrays)
    assert_same_bits(run(planned, *arrays), wanted)
    assert_same_bits(compiled(of, arrays), wanted, "compiled")


@pytest.mark.parametrize("seed", range(200))
def test_choices(seed: int) -> None:
    of = program(choices(seed))
    arrays = arguments(of, seed)
    assert_same_bits(run(checked(of, CPU), *arrays), run(of, *arrays))


def copies(planned: Module) -> int:
    """Of whole values; those in kernels that scatter do nothing in place."""
    main = planned.lookup("main")
    assert main is not None
    return sum(op.name == "tile.copy" for op in main.walk())


@pytest.mark.parametrize(
    "name",
    [
        "update",
        "update under another shape",
        "momentum",
        "variable that stays",
        "rows are written in a branch",
        "rows are written in both branches",
        "rows are written in branches of branches",
        "rows are written in a branch of a loop",
    ],
)
def test_variables_change_where_they_lie(name: str) -> None:
    of = program(HARD[name])
    planned = checked(of, CPU)
    assert copies(planned) == 0
    main = planned.lookup("main")
    assert main is not None and tied_pairs(main)


@pytest.mark.parametrize(
    ("name", "bytes"),
    [
        ("update", 0),
        ("momentum", 0),
        ("a long chain", 2 * 128),
        ("two variables swapped", 2 * 64),
        ("argument returned", 0),
    ],
)
def test_arena_is_no_larger_than_needed(name: str, bytes: int) -> None:
    assert planned_bytes(checked(program(HARD[name]), CPU)) <= bytes


def test_a_chain_of_maps_needs_no_memory() -> None:
    """Each overwrites its input, and the last writes where the result is wanted."""
    kernel = """
      tile.kernel @k ins(%a: memref<16xf32>) outs(%b: memref<16xf32>) in_place(%a -> %b) {
        %0 = ng.constant 0 : index
        %1 = tile.load %a[%0] : memref<16xf32>, vector<16xf32>
        %2 = ng.add %1, %1 : vector<16xf32>
        tile.store %2, %b[%0] : vector<16xf32>, memref<16xf32>
        tile.return
      }"""
    lines = [f"%{i + 1} = tile.call @k ins(%{i}) -> tensor<16xf32>" for i in range(9)]
    text = (
        "func.func @main(%0: tensor<16xf32>) -> tensor<16xf32> {\n"
        + "\n".join(lines)
        + "\n return %9 : tensor<16xf32> }"
    )
    before = from_text(text + kernel)
    planned = plan_memory(before, CPU)
    check_plan(before, planned, arguments(before), CPU.alignment)
    assert planned_bytes(planned) <= 64
