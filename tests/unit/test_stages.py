# SPDX-License-Identifier: Apache-2.0
"""What each stage of a program refuses, and what pipelines, options and rules refuse."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest

from ngmlir.ir.core import Module
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite import rules as engine
from ngmlir.rewrite.advice import pass_for, way_to
from ngmlir.rewrite.contracts import STAGES, Stage
from ngmlir.rewrite.options import declared_options
from ngmlir.rewrite.pipeline import Pipeline, Step
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.rewrite.stages import violations
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target

TARGET = cpu_target("x86-64-v3")
TENSOR = "(%x: tensor<4xf32>) -> tensor<4xf32>"
RETURN = "{ return %x : tensor<4xf32> }"
PLANNED = "ng.arguments = 1 : i64, ng.results = 1 : i64"
BUFFERS = "(%x: memref<4xf32>, %r: memref<4xf32>, %arena: memref<0xi8>)"

#: stage | a function | what is wrong with it.
WRONG: list[tuple[Stage, str, str]] = [
    ("named", f"@main{TENSOR} {{ %0 = ng.fusion map(%a = %x) -> tensor<4xf32> {{ ng.yield %a : tensor<4xf32> }} return %0 : tensor<4xf32> }}", "'ng.fusion' is not allowed before the pass fuse"),
    ("named", "@main(%x: memref<4xf32>) { return }", "'func.func' works on memory before the pass plan-memory"),
    ("plain", "@main(%x: tensor<4xf32, #ng.axes<N>>) { return }", "'func.func' has axis names: tensor<4xf32, #ng.axes<N>>"),
    ("fused", f"@main{TENSOR} attributes {{{PLANNED}}} {RETURN}", "the memory of @main is planned"),
    ("kernels", f"@main{TENSOR} {{ %0 = ng.exp %x : tensor<4xf32> return %0 : tensor<4xf32> }}", "'ng.exp' is not in a kernel"),
    ("kernels", "@main(%x: f32) { return }", "'func.func' holds f32, but functions can only hold tensors"),
    ("kernels", "@main(%x: tensor<?xf32>) { return }", "'func.func' holds tensor<?xf32>, whose size is not known"),
    ("kernels", "@main(%x: tensor<4xf80>) { return }", "nothing computes with f80"),
    ("planned", f"@main{TENSOR} {RETURN}", "the memory of @main is not planned"),
    ("planned", f"@main{BUFFERS} attributes {{ng.arguments = -1 : i64, ng.results = 1 : i64}} {{ return }}", "'ng.arguments' must be a non-negative i64"),
    ("planned", f"@main{BUFFERS} attributes {{ng.arguments = 1 : i64}} {{ return }}", "'ng.results' must be a non-negative i64"),
    ("planned", f"@main{BUFFERS} attributes {{{PLANNED}, ng.constants = 3 : i64}} {{ return }}", "'ng.constants' must be a list of dense<...>"),
    ("planned", f"private @main{BUFFERS} attributes {{{PLANNED}}}", "is planned but has no body"),
    ("planned", f"@main(%x: memref<4xf32>, %r: memref<4xf32>, %arena: memref<0xi8>) -> memref<4xf32> attributes {{{PLANNED}}} {{ return %r : memref<4xf32> }}", "must return results in buffers, not as values"),
    ("planned", f"@main(%x: memref<4xf32>) attributes {{{PLANNED}}} {{ return }}", "takes 1 buffers, but its attributes say 3"),
    ("planned", f"@main(%x: memref<?xf32>, %r: memref<4xf32>, %arena: memref<0xi8>) attributes {{{PLANNED}}} {{ return }}", "takes a buffer of a static shape at position 0, not memref<?xf32>"),
    ("planned", f"@main(%x: memref<4xf32>, %r: memref<4xf32>, %arena: memref<0xi16>) attributes {{{PLANNED}}} {{ return }}", "must be memref<...xi8>, not memref<0xi16>"),
    ("planned", f"@main(%x: memref<4xf32>, %r: memref<4xf32>, %c: memref<3xf32>, %arena: memref<0xi8>) attributes {{{PLANNED}, ng.constants = [dense<1.0> : tensor<4xf32>]}} {{ return }}", "holds a constant of tensor<4xf32> in memref<3xf32>"),
    ("planned", f"@main{BUFFERS} attributes {{{PLANNED}}} {{ %0 = ng.constant dense<1.0> : tensor<4xf32> return }}", "'ng.constant' makes a tensor after the pass plan-memory"),
    ("plain", f"@main{TENSOR} attributes {{ng.tied = 3 : i64}} {RETURN}", "'ng.tied' must be array<i64: result, argument, ...>"),
    ("plain", f"@main{TENSOR} attributes {{ng.tied = array<i64: 0>}} {RETURN}", "'ng.tied' must be array<i64: result, argument, ...>"),
    ("plain", f"@main{TENSOR} attributes {{ng.tied = array<i64: 0, 1>}} {RETURN}", "'ng.tied' pairs result 0 with argument 1, which are not both there"),
    ("plain", "@main(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<4xf32> attributes {ng.tied = array<i64: 0, 1>} { return %x : tensor<4xf32> }", "'ng.tied' pairs tensor<4xf32> with tensor<3xf32>"),
    ("plain", "@main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {ng.tied = array<i64: 0, 1, 0, 0>} { return %x : tensor<4xf32> }", "'ng.tied' pairs a result twice"),
    ("plain", "@main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {ng.tied = array<i64: 0, 0, 1, 0>} { return %x, %x : tensor<4xf32>, tensor<4xf32> }", "'ng.tied' pairs an argument twice"),
]  # fmt: skip


@pytest.mark.parametrize("stage, function, message", WRONG, ids=[w[2][:40] for w in WRONG])
def test_what_a_stage_refuses(stage: Stage, function: str, message: str) -> None:
    found = violations(from_text(f"func.func {function}"), stage)
    assert any(message in d.message for d in found), [d.message for d in found]
    assert all(d.location.line == 1 for d in found)


def test_what_each_stage_takes() -> None:
    tensors = from_text(
        f"func.func @main{TENSOR} {RETURN}\ntile.kernel @k() attributes {{grid = array<i64>, outputs = 0 : i64}} {{ tile.return }}"
    )
    assert [stage for stage in STAGES if not violations(tensors, stage)] == [
        "named",
        "plain",
        "fused",
        "kernels",
    ]
    planned = from_text(
        f"func.func @main{BUFFERS} attributes {{{PLANNED}}} {{ return }}\nfunc.func private @f()"
    )
    assert [stage for stage in STAGES if not violations(planned, stage)] == ["planned"]


# ---- pipelines


def some(
    module: Module,
    target: Target,
    *,
    big: bool = False,
    size: int = 1,
    share: float = 0.5,
    text: str = "",
    way: Literal["up", "down"] = "up",
) -> Module:
    """A pass that has every kind of option."""
    assert isinstance(big, bool) and isinstance(size, int) and isinstance(share, float)
    return module


def deep(module: Module, target: Target) -> Module:
    """A pass for which any program is too deep."""
    raise RecursionError("maximum recursion depth exceeded")


PLAIN = {"some": some, "deep": deep}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("some{big=yes}", "must be true or false, not 'yes'"),
        ("some{size=big}", "must be a number, not 'big'"),
        ("some{share=1.x}", "must be a number, not '1.x'"),
        ("some{size=1 size=2}", "is given twice"),
        ("some{way=left}", "cannot be 'left': it must be one of up, down"),
        ("some{size=1", "'{' is not closed"),
        ("some)", "unexpected ')'"),
        ("builtin.module(some", "expected ')'"),
        ("builtin.module(" * 18 + "some" + ")" * 18, "anchors nested too deeply"),
    ],
)
def test_a_pipeline_is_refused_where_it_is_written(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        parse_pipeline(text, PLAIN)


def test_options_of_every_kind() -> None:
    of = from_text(f"func.func @main{TENSOR} {RETURN}")
    pipeline = parse_pipeline("some{big=true size=3 share=0.25 text=x way=down},some{big=0}", PLAIN)
    assert pipeline.run(of, TARGET) is of
    known = declared_options(some)
    assert known["way"].help == "one of up, down" and known["size"].help == ""
    assert known["big"].assignment == "big=false"


def test_a_program_too_deep_for_a_pass() -> None:
    of = from_text(f"func.func @main{TENSOR} {RETURN}")
    with pytest.raises(UserError, match="nested too deeply"):
        Pipeline((Step("deep"),), PLAIN).run(of, TARGET)


def test_what_no_pass_of_the_way_takes() -> None:
    of = from_text("func.func @main(%x: tensor<4xf80>) -> tensor<4xf80> { return %x : tensor<4xf80> }")
    with pytest.raises(UserError, match="nothing computes with f80"):
        Pipeline((Step("plan-memory"),), PASSES).run(of, TARGET)


# ---- rules


def program(body: str, type: str = "tensor<4xf32>") -> Module:
    return from_text(f"func.func @main(%x: {type}) -> {type} {{ {body} return %0 : {type} }}")


def rules_of(text: str) -> engine.Rules:
    """What is read of a file of rules."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(engine, "folder", lambda _: Path(folder)):
        (Path(folder) / "some.rules").write_text(text)
        return engine.load_rules.__wrapped__("some")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: ng.exp(x) => ng.sum(x)", "builds ng.sum without its attributes"),
        ("a: ng.exp(x) => ng.negative(ng.cast(x))", "builds ng.cast of an unknown type"),
    ],
)
def test_what_a_rule_cannot_build(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        rules_of(text)


def test_rules_that_go_in_circles() -> None:
    found = rules_of("one: ng.add(x, y) => ng.subtract(x, y)\ntwo: ng.subtract(x, y) => ng.add(x, y)")
    fired: list[str] = []
    with pytest.raises(UserError, match="the rules do not terminate"):
        engine.apply_rules(
            program("%0 = ng.add %x, %x : tensor<4xf32>"), found, observer=lambda r, op: fired.append(r.name)
        )
    assert fired[:3] == ["one", "two", "one"] and len(fired) == engine.MOST_STEPS


def test_a_number_that_the_type_cannot_hold_replaces_nothing() -> None:
    found = rules_of("a: ng.negative(x) => 300")
    small = program("%0 = ng.negative %x : tensor<4xi8>", "tensor<4xi8>")
    assert engine.apply_rules(small, found) is small
    large = program("%0 = ng.negative %x : tensor<4xi32>", "tensor<4xi32>")
    assert engine.apply_rules(large, found) is not large


def test_what_to_run_first() -> None:
    """For a pass in a named pipeline, for one in none, for one that comes too late, and for ops without code."""
    assert (
        way_to("fuse", PASSES, ("plain",))
        == "run canonical,narrow-weights,check-target,prepare,split-reductions,select-parts,short-floats,align-sides,attention before fuse, as the pipeline cpu does"
    )
    assert way_to("check-bounds", PASSES, ("kernels",)) == "run plan-memory before check-bounds"
    assert way_to("shape", PASSES, ("planned",)) == "run shape before plan-memory"
    of = from_text(
        "func.func @main(%x: tensor<4xf32>) {\n%0 = ng.exp %x : tensor<4xf32>\n"
        "%1 = ng.softmax %x axes [0] : tensor<4xf32>\n%2 = ng.add %x, %x : tensor<4xf32>\nreturn }"
    )
    assert [pass_for(op).split(" first")[0] for op in of.ops[0].block.ops[:3]] == [
        "run expand-math",
        "run decompose",
        "",
    ]


ONCE = """
func.func @main(%x: memref<4xf32>, %0: memref<4xf32>, %p: memref<PARTxf32>, %arena: memref<0xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64, ng.prepared = [@once]} {
  tile.launch @add ins(%x, %p) outs(%0)
  func.return
}
func.func private @once(%0: memref<4xf32>, %arena: memref<0xi8>) attributes {ng.arguments = 0 : i64, ng.results = 1 : i64MORE} {
  tile.launch @count ins() outs(%0)
  func.return
}
tile.kernel @add ins(%a: memref<4xf32>, %b: memref<4xf32>) outs(%o: memref<4xf32>) {
  %c0 = ng.constant 0 : index
  %0 = tile.load %a[%c0] : memref<4xf32>, vector<4xf32>
  %1 = tile.load %b[%c0] : memref<4xf32>, vector<4xf32>
  %2 = ng.add %0, %1 : vector<4xf32>
  tile.store %2, %o[%c0] : vector<4xf32>, memref<4xf32>
  tile.return
}
tile.kernel @count outs(%o: memref<4xf32>) {
  %c0 = ng.constant 0 : index
  %0 = ng.iota {dimension = 0 : i64} : vector<4xi32>
  %1 = ng.cast %0 : (vector<4xi32>) -> vector<4xf32>
  tile.store %1, %o[%c0] : vector<4xf32>, memref<4xf32>
  tile.return
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("PART", "5", "takes what is prepared as memref<5xf32>, but it is memref<4xf32>"),
        ("[@once]", "[@twice]", "names @twice, which is no planned function without arguments"),
        ("MORE", ", ng.prepared = [@main]", "names @main, which is no planned function"),
        ("i64MORE", "i64, ng.prepared = [@onceMORE]", "names @once, which has prepared constants itself"),
        ("[@once]", "[]", "its attributes say 3: 1 arguments, 1 results, 0 constants and the arena"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(old: str, new: str, message: str) -> None:
    text = ONCE.replace(old, new).replace("PART", "4").replace("MORE", "")
    found = violations(from_text(text, verify=False), "planned")
    assert any(message in d.message for d in found), found
