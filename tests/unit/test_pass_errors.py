# SPDX-License-Identifier: Apache-2.0
"""Programs edited by hand that meet a pass half-way: what it takes of them, and what it refuses at the user's line."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_checked_programs import program as accessing

from ngmlir.compiler import compile_module
from ngmlir.decl.target_text import TargetText, load_target
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.graph.known_lengths import Opened
from ngmlir.passes.lower.plan_memory import planned_bytes
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import Limit, NgmlirError, UserError

TARGET = cpu_target("x86-64-v3")


def passed(pipeline: str, text: str) -> Module:
    of = from_text(text, unregistered=True)
    return parse_pipeline(pipeline, PASSES).run(of, TARGET, verify=True)


def fused(body: str, result: str, *arguments: str, kind: str = "map") -> str:
    names = [f"%a{i}" for i in range(len(arguments))]
    given = ", ".join(f"{n}: {t}" for n, t in zip(names, arguments, strict=True))
    outer = ", ".join(names)
    return f"""func.func @main({given}) -> {result} {{
  %r = ng.fusion {kind}({outer}) -> {result} {{
    {body}
  }}
  return %r : {result}
}}"""


#: pipeline | program | message
REFUSED = [
    ("inline", """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }""", "@main -> @main: recursion is not supported"),
    ("inline", """func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }""", "@f has no body here"),
    ("inline", """func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes {ng.host = "softsign"}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }""", "@f is the Python function softsign: no compiled code can hold it"),
    ("emulate-narrow", """func.func @main(%x: tensor<?xf8E5M2>) -> tensor<?xf32> {
  %y = ng.cast %x : (tensor<?xf8E5M2>) -> tensor<?xf32>
  return %y : tensor<?xf32> }""", "a cast from tensor<?xf8E5M2> to tensor<?xf32>: the length must be known"),
    ("to-kernels", """func.func @main(%x: tensor<4xui32>) -> tensor<4xi32> {
  %y = ng.argsort %x axis 0 : (tensor<4xui32>) -> tensor<4xi32>
  return %y : tensor<4xi32> }""", "kernels sort signed integers in ascending order"),
    ("to-kernels", "func.func @main(%x: f32) -> f32 { return %x : f32 }", "'func.func' holds f32, but functions can only hold tensors"),
    ("to-kernels", """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = ng.softmax %x axes [0] : tensor<4xf32>
  return %y : tensor<4xf32> }""", "'ng.softmax' cannot be compiled for"),
    ("to-kernels", """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "my.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }""", "'my.op' cannot be compiled for"),
    ("plan-memory", """func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }""", "func.call has no place in a memory plan"),
    ("to-kernels", fused("%x = ng.exp %a0 : tensor<4xf32>\n%y = ng.slice %x from [0] to [2] step [1] : (tensor<4xf32>) -> tensor<2xf32>\nng.yield %y : tensor<2xf32>", "tensor<2xf32>", "tensor<4xf32>"),
     "the loops of the ops of this fusion do not match"),
    ("to-kernels", fused("%d = ng.dot %a0, %a1 contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x6x5xf32>, tensor<2x5x4xf32>) -> tensor<2x6x4xf32>\n%q = ng.reshape %d : (tensor<2x6x4xf32>) -> tensor<3x4x4xf32>\n%t = ng.transpose %q perm [1, 0, 2] : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>\nng.yield %t : tensor<4x3x4xf32>", "tensor<4x3x4xf32>", "tensor<2x6x5xf32>", "tensor<2x5x4xf32>", kind="dot"),
     "the loops of the layout ops of this fusion do not match"),
    ("to-kernels", """func.func @main(%a: tensor<4x3xf32>, %w: tensor<3x6xf32>) -> (tensor<2x2x6xf32>, tensor<2x2x6xf32>) {
  %p, %q = ng.fusion dot(%a, %w) -> (tensor<2x2x6xf32>, tensor<2x2x6xf32>) {
    %d = ng.dot %a, %w contract [1] x [0] : (tensor<4x3xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
    %e = ng.reshape %d : (tensor<4x6xf32>) -> tensor<24xf32>
    %f = ng.negative %e : tensor<24xf32>
    %r = ng.reshape %f : (tensor<24xf32>) -> tensor<2x2x6xf32>
    %t = ng.transpose %r perm [1, 0, 2] : tensor<2x2x6xf32>
    %u = ng.transpose %r perm [1, 0, 2] : tensor<2x2x6xf32>
    ng.yield %t, %u : tensor<2x2x6xf32>, tensor<2x2x6xf32>
  }
  return %p, %q : tensor<2x2x6xf32>, tensor<2x2x6xf32>
}""", "the loops of the ops of this fusion do not match"),
    ("to-kernels", fused("%y = ng.reshape %a0 : (tensor<6x20xf32>) -> tensor<?xf32>\n%z = ng.reshape %y : (tensor<?xf32>) -> tensor<6x20xf32>\n"
      "%r = ng.sum %z axes [1] : (tensor<6x20xf32>) -> tensor<6xf32>\nng.yield %r : tensor<6xf32>", "tensor<6xf32>", "tensor<6x20xf32>", kind="rows"),
     "the loops of the ops of this fusion do not match"),
    ("to-kernels", fused("%p = ng.reshape %a0 : (tensor<6x4xf32>) -> tensor<24xf32>\n%q = ng.reshape %a1 : (tensor<8x3xf32>) -> tensor<24xf32>\n%y = ng.add %p, %q : tensor<24xf32>\nng.yield %y : tensor<24xf32>", "tensor<24xf32>", "tensor<6x4xf32>", "tensor<8x3xf32>"),
     "the loops of the ops of this fusion do not match"),
    ("to-kernels", fused("%p = ng.reshape %a0 : (tensor<6x4xf32>) -> tensor<8x3xf32>\n%y = ng.add %p, %a1 : tensor<8x3xf32>\nng.yield %y : tensor<8x3xf32>", "tensor<8x3xf32>", "tensor<6x4xf32>", "tensor<8x3xf32>"),
     "the loops of the ops of this fusion do not match"),
    ("to-kernels", fused("""%d = ng.broadcast %a0 dims [0] : (tensor<4xf32>) -> tensor<4x2xf32>
    %e = ng.negative %a1 : tensor<3x4xf32>
    %y = ng.broadcast %a0 dims [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %z = ng.negative %y : tensor<2x4xf32>
    ng.yield %d : tensor<4x2xf32>""", "tensor<4x2xf32>", "tensor<4xf32>", "tensor<3x4xf32>"), "have no common loops"),
]  # fmt: skip


@pytest.mark.parametrize("pipeline, text, message", REFUSED, ids=[r[2][:40] for r in REFUSED])
def test_what_a_pass_refuses(pipeline: str, text: str, message: str) -> None:
    with pytest.raises(NgmlirError, match=re.escape(message)) as caught:
        passed(pipeline, text)
    assert caught.value.diagnostics[0].location.line > 0
    assert "bug" not in type(caught.value).__name__.lower()


@pytest.mark.parametrize(
    "pipeline, message",
    [
        ("func.func(cpu)", "pipeline 'cpu' runs on builtin.module, not on func.func"),
        ("cpu{a=1}", "pipeline 'cpu' takes no options"),
        ("split-reductions{elements=-1}", "must be a number from 0 on, not '-1'"),
    ],
)
def test_what_a_pipeline_refuses(pipeline: str, message: str) -> None:
    with pytest.raises(NgmlirError, match=re.escape(message)):
        parse_pipeline(pipeline, PASSES)


def test_a_fusion_with_a_transpose_which_no_pass_of_ours_makes() -> None:
    text = fused(
        "%t = ng.transpose %a0 perm [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>\n"
        "%y = ng.negative %t : tensor<3x4xf32>\nng.yield %y : tensor<3x4xf32>",
        "tensor<3x4xf32>",
        "tensor<4x3xf32>",
    )
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    planned = passed("to-kernels,plan-memory", text)
    (wanted,), (got,) = run(from_text(text), x), run(planned, x)
    np.testing.assert_array_equal(got, wanted)
    assert planned_bytes(planned) >= 0


def test_declarations_stay_as_they_are() -> None:
    text = "func.func private @f(tensor<4xf32>) -> tensor<4xf32>"
    assert to_text(passed("layout,shape", text)) == to_text(from_text(text))


def test_functions_of_scalars_keep_their_shape() -> None:
    text = "func.func @main(%x: f32) -> f32 { %y = ng.exp %x : f32 return %y : f32 }"
    assert to_text(passed("shape", text)) == to_text(from_text(text))


def test_what_needs_no_checks_of_bounds() -> None:
    check_bounds = PASSES["check-bounds"]
    checked = check_bounds(accessing("%v = tile.load %y[%i] : memref<8xf32>, f32"), TARGET)
    assert check_bounds(checked, TARGET) is checked
    known = accessing("%c = ng.constant 7 : index\n%v = tile.load %y[%c] : memref<8xf32>, f32")
    assert check_bounds(known, TARGET) is known


def test_bounds_of_one_place_and_of_no_place() -> None:
    scattered = accessing(
        "%v = ng.constant 1.0 : f32\n%t = ng.broadcast %v dims [] : (f32) -> vector<4xf32>\n"
        "%m = ng.constant dense<[true, false, true, false]> : vector<4xi1>\n"
        "tile.scatter %t, %m, %z[%i] : vector<4xf32>, memref<8xf32>"
    )
    assert "touches element" in to_text(PASSES["check-bounds"](scattered, TARGET))
    nothing = "%e = tile.alloc : memref<0xf32, 3>\n%v = tile.gather %e[%i] : memref<0xf32, 3>, f32"
    with pytest.raises(NgmlirError, match="touches element 0 of dimension 0 of %e"):
        PASSES["check-bounds"](accessing(nothing), TARGET)


def test_blocks_that_jump_are_left_alone() -> None:
    text = """func.func @main(%x: tensor<4xf32>) {
  %y = ng.exp %x : tensor<4xf32>
  "my.jump"()[^bb1] : () -> ()
^bb1:
  func.return
}"""
    assert "ng.exp" in to_text(passed("dead-code", text))


def test_what_a_table_does_not_name_is_refused() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = ng.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32> }"""
    table = load_target("cpu")
    smaller = TargetText("cpu", {op: entries for op, entries in table.ops.items() if op != "ng.add"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ngmlir.passes.fuse.check_target.load_target", lambda name: smaller)
        with pytest.raises(
            Limit, match=r":2:3: error: ng\.add of f32 is not supported on target 'x86-64-v3' yet"
        ):
            passed("check-target", text)


def test_lengths_that_are_not_known_are_refused() -> None:
    text = """func.func @main(%x: tensor<?x4xf32>) -> tensor<4xf32> {
  %y = ng.sum %x axes [0] : (tensor<?x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32> }"""
    with pytest.raises(
        Limit, match=r"takes tensor<\?x4xf32>, whose length has no name[\s\S]*run name-lengths first"
    ):
        passed("check-target", text)


@pytest.mark.parametrize(("shape", "axis"), [("4097", 0), ("4x5", 0)])
def test_what_a_block_of_threads_does_not_sort(shape: str, axis: int) -> None:
    text = f"""func.func @main(%x: tensor<{shape}xi32>) -> tensor<{shape}xi32> {{
  %y = ng.argsort %x axis {axis} : (tensor<{shape}xi32>) -> tensor<{shape}xi32>
  return %y : tensor<{shape}xi32> }}"""
    of = from_text(text)
    with pytest.raises(Limit, match=r"up to 4096 elements that are contiguous[\s\S]*sorting-networks"):
        parse_pipeline("to-kernels", PASSES).run(of, nvptx_target("sm_90a"))


def test_a_function_for_lengths_that_are_known() -> None:
    opened = Opened(
        from_text("""func.func @main(%x: tensor<[2*N + 1]xf32>, %y: tensor<[N]x?xf32>) -> tensor<[N]xf32> {
  %z = ng.constant dense<0.5> : tensor<[N]xf32>
  %n = ng.extent {value = [N + 1] : i64} : tensor<[N]xf32>
  %s = ng.slice %x from [1] to [[2*N + 1]] step [2] : (tensor<[2*N + 1]xf32>) -> tensor<[N]xf32>
  %a = ng.add %s, %z : tensor<[N]xf32>
  ng.recompute %a from()
  %m = ng.max %y axes [1] : (tensor<[N]x?xf32>) -> tensor<[N]xf32>
  %b = ng.multiply %m, %n : tensor<[N]xf32>
  %0 = ng.add %a, %b : tensor<[N]xf32>
  return %0 : tensor<[N]xf32> }"""),
        "main",
    )
    assert [(length.name, length.is_one) for length in opened.lengths] == [
        ("N", True),
        ("dimension_1", False),
    ]
    of_seven = opened.module({"N": 3, "dimension_1": 5})
    assert "[" not in to_text(of_seven).replace("[1]", "").replace("[2]", "").replace("[7]", "")
    assert "ng.constant dense<4.0> : tensor<3xf32>" in to_text(of_seven)
    x, y = np.arange(7, dtype="f"), np.arange(15, dtype="f").reshape(3, 5)
    np.testing.assert_array_equal(run(of_seven, x, y)[0], x[1::2] + 0.5 + 4 * y.max(1))


def test_a_length_that_no_argument_has() -> None:
    text = """func.func @main(%x: tensor<[N*M]xf32>) -> tensor<[N*M]xf32> {
  %0 = ng.exp %x : tensor<[N*M]xf32>
  return %0 : tensor<[N*M]xf32> }"""
    with pytest.raises(
        UserError, match=r":1:1: error: no argument of @main has the length M[\s\S]*\[2\*M \+ 1\]"
    ):
        Opened(from_text(text), "main")


@pytest.mark.parametrize("pipeline", ["cpu", "canonical,fuse,nest"])
def test_a_lowered_program_of_open_lengths_is_refused(pipeline: str) -> None:
    lowered = passed(
        pipeline,
        """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = ng.exp %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32> }""",
    )
    with pytest.raises(Limit, match=r"@main has open lengths, and is lowered for these[\s\S]*before fuse"):
        compile_module(lowered)
