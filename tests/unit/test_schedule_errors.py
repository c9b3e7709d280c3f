# SPDX-License-Identifier: Apache-2.0
"""Schedules of programs in text: where they go, what is refused, and what is told of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ngmlir.compiler import resolve
from ngmlir.decl.pipeline_text import named_pipelines
from ngmlir.ir.core import Module, Op, Value
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.builder import Builder
from ngmlir.ops.stated_schedules import given_by
from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES
from ngmlir.passes.schedule.choosing import candidates
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.rewrite.remarks import listening, remark
from ngmlir.rewrite.sweep import sweep
from ngmlir.support.diagnostics import UNKNOWN, Diagnostic, UserError


def product(schedule: str = "", m: int = 30, k: int = 70, n: int = 50) -> str:
    a, b, r = f"tensor<{m}x{k}xf32>", f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    given = f" {{ng.schedule = {{{schedule}}}}}" if schedule else ""
    return f"""func.func @main(%a: {a}, %b: {b}) -> {r} {{
  %p = ng.dot %a, %b contract [1] x [0]{given} : ({a}, {b}) -> {r}
  %q = ng.tanh %p : {r}
  return %q : {r}
}}"""


def loops(op: str, schedule: str = "", shape: str = "70x130", result: str = "") -> str:
    x, r = f"tensor<{shape}xf32>", f"tensor<{result or shape}xf32>"
    given = f" {{ng.schedule = {{{schedule}}}}}" if schedule else ""
    types = f"({x}) -> {r}" if result else x
    return f"func.func @main(%x: {x}) -> {r} {{\n  %0 = ng.{op}{given} : {types}\n  return %0 : {r}\n}}"


def windows(schedule: str, kind: str = "f32", across: bool = False) -> str:
    """A convolution along one dimension."""
    x, w, n, r = (
        f"tensor<40x6x{kind}>",
        f"tensor<3x6x8x{kind}>",
        f"tensor<3x38x6x{kind}>",
        f"tensor<38x8x{kind}>",
    )
    if across:
        x, w, n, r = (
            f"tensor<6x40x{kind}>",
            f"tensor<8x3x6x{kind}>",
            f"tensor<3x6x38x{kind}>",
            f"tensor<8x38x{kind}>",
        )
    axis, sides = int(across), "%w, %n" if across else "%n, %w"
    where, types = ("[1, 2] x [0, 1]", f"({w}, {n})") if across else ("[0, 2] x [0, 1]", f"({n}, {w})")
    return f"""func.func @main(%x: {x}, %w: {w}) -> {r} {{
  %n = ng.windows %x axes [{axis}] steps [1] dilations [1] : ({x}) -> {n}
  %d = ng.dot {sides} contract {where} {{ng.schedule = {{{schedule}}}}} : {types} -> {r}
  return %d : {r}
}}"""


def fused(text: str) -> Module:
    steps = parse_pipeline(named_pipelines().expanded("canonical, fuse"), PASSES)
    of = from_text(text)
    return steps.from_stage_of(of).run(of, cpu_target("x86-64-v3"), verify=True)


def scheduled(text: str, target: str = "x86-64-v3") -> list[Op]:
    """The fusions of a program, cut."""
    made = parse_pipeline("schedule", PASSES).run(fused(text), resolve(target), verify=True)
    return [op for op in made.walk() if op.name == "ng.fusion"]


@pytest.mark.parametrize(
    ("schedule", "message", "hint"),
    [
        ("til = 4", "a schedule has no setting 'til' here", "did you mean tile?"),
        ('by = "panel"', "there are no kernels by 'panel'", "did you mean panels?"),
        ("tile = [4]", "setting 'tile' takes", ""),
        ("tile = [4, 0]", "not [4, 0]", ""),
        ("unroll = true", "setting 'unroll' takes a number, 1 or more, not true", ""),
        ('pack = ["middle"]', "setting 'pack' takes a list of some of left, right", ""),
        ("depth = dense<1> : tensor<2xi64>", "setting 'depth' takes a number", ""),
        (
            "depth = 2, tile = 4",
            "no kind of kernel has all of the settings depth, tile with these values",
            "",
        ),
        ("threads = 64, tile = 8, part = 0", "", ""),
    ],
)
def test_what_no_kernel_has_is_refused_by_the_verifier(schedule: str, message: str, hint: str) -> None:
    found = _violations(product(schedule))
    if not message:
        assert not found
        return
    assert any(message in text for text, _ in found), found
    assert any(hint in each for _, each in found)


def _violations(text: str) -> list[tuple[str, str]]:
    try:
        from_text(text)
    except UserError as error:
        return [(d.message, d.hint) for d in error.diagnostics]
    return []


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (product("tile = [4, 24], part = 32"), "x86-64-v3", "a part of 32 columns is not a multiple of the tiles of 24"),
        (product("tile = [4, 24], block = [30, 50]"), "x86-64-v3", "a block of 50 columns is not a multiple of the tiles"),
        (product('by = "along"'), "x86-64-v3", "computes this product by panels, not by along"),
        (product('by = "blocks"'), "x86-64-v3", "computes this product by panels, not by blocks"),
        (product("unroll = 2"), "sm_80", "computes this product by blocks, not by panels"),
        (product("tile = [24, 64]"), "sm_80", "must be a power of two, not 24"),
        (windows('pack = ["left"]'), "x86-64-v3", "the left operand consists of windows, which each program packs itself"),
        (windows('by = "along"'), "x86-64-v3", "computes this product by panels, not by along"),
        (windows('by = "along", tile = [2, 8], block = 4, batch = 1'), "x86-64-v3", "products of windows use 'panels', not 'along'"),
        (windows("part = 0", "bf16"), "x86-64-v3", "windows are packed as f32, and the other operand"),
        (windows("part = 0", across=True), "x86-64-v3", "which a program packs part by part"),
        (loops("exp %x", "threads = 64"), "x86-64-v3", "is run by one thread, not by 64"),
        (loops("exp %x", "tile = 100000"), "x86-64-v3", "a tile has at most 8192 elements"),
        (loops("exp %x", "threads = 48"), "sm_80", "in whole warps of 32, not 48"),
        (loops("exp %x", "keep = false"), "x86-64-v3", "a schedule has no setting 'keep' here"),
        (loops("sum %x axes [0]", "tile = 16, stripe = 40", result="130"), "x86-64-v3", "not a multiple of the tiles of 16"),
        (loops("sum %x axes [1]", "rows = 6, unroll = 4", "70x13", "70"), "x86-64-v3", "rows = 6 must be a multiple of unroll = 4"),
        (loops("sum %x axes [1]", "rows = 8, unroll = 4", "70x13", "70"), "sm_80", "unroll = 4 needs tiles in registers"),
        (loops("max %x axes [1]", "rows = 3", "9x5x6", "9x6"), "sm_80", "must be a power of two, not 3"),
        (loops("max %x axes [1]", "rows = 4, band = 4", "9x5x6", "9x6"), "sm_80", "cannot have both band and rows above 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused_at_the_users_line(text: str, target: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        scheduled(text, target)
    assert any(message in d.message for d in caught.value.diagnostics), caught.value
    assert caught.value.diagnostics[0].location.line in (2, 3)


def test_what_is_given_of_columns_decides_what_is_left() -> None:
    """A band is of one row of results, and rows of several leave none, however they would be cut otherwise."""
    for given, wanted in (
        ("band = 4", {"band": 4, "rows": 1}),
        ("rows = 2", {"band": 0, "rows": 2}),
    ):
        for steps in (5, 700):
            (made,) = scheduled(loops("max %x axes [1]", given, f"9000x{steps}x6", "9000x6"), "sm_90a")
            assert wanted.items() <= given_by(made).items()


def test_ops_that_share_a_kernel_must_agree() -> None:
    text = loops("exp %x", "tile = 8").replace(
        "return %0", "%1 = ng.negative %0 {ng.schedule = {tile = 16}} : tensor<70x130xf32>\n  return %1"
    )
    with pytest.raises(
        UserError, match="'ng.negative' is fused with an op whose schedule says otherwise: tile = 16"
    ):
        fused(text)
    (fusion,) = scheduled(text.replace("tile = 16", "part = 3"))
    assert {**given_by(fusion)} == {"by": "tiles", "tile": 8, "part": 3}


def test_a_kernel_of_its_own_has_no_knobs() -> None:
    text = loops("cumulative_sum %x axis 1", "tile = 8")
    with pytest.raises(UserError, match="has a schedule, but it is in no fusion"):
        scheduled(text)


def test_what_is_cut_stays_so() -> None:
    made = parse_pipeline("schedule", PASSES).run(fused(product()), resolve("x86-64-v3"), verify=True)
    assert parse_pipeline("schedule", PASSES).run(made, resolve("x86-64-v3"), verify=True) is made


@pytest.mark.parametrize(
    "text", [loops("exp %x", "tile = 8"), loops("exp %x"), product(), loops("max %x axes [1]", result="70")]
)
def test_those_who_ask_are_told(text: str) -> None:
    told: list[Diagnostic] = []
    with listening(["schedule"], told.append):
        scheduled(text)
        remark("fuse", "not asked for", UNKNOWN)
    remark("schedule", "too late", UNKNOWN)
    (found,) = told
    assert found.severity == "remark" and found.location.line in (2, 3) and "% of the roof" in found.message
    assert ("tile as stated" in found.message) == ("tile = 8" in text)
    assert ("next best" in found.message) != ("tile = 8" in text)


def test_a_schedule_goes_to_what_takes_the_place_of_its_op() -> None:
    """Also where more is made of the new op before the result is there."""
    of = from_text(loops("exp %x", "tile = 8"))

    def twice(op: Op, b: Builder) -> Sequence[Value]:
        new = b.exp(b.negative(op.operands[0]))
        return [b.add(b.negative(new), b.negative(op.operands[0]))]

    made = sweep(of, twice, frozenset({"ng.exp"}))
    (of_exp,) = [op for op in made.walk() if op.name == "ng.exp"]
    assert {**given_by(of_exp)} == {"tile": 8}
    assert all(not given_by(op) for op in made.walk() if op.name != "ng.exp")
    parse_pipeline("shape", PASSES).run(made, resolve("x86-64-v3"), verify=True)

    gone = sweep(of, lambda op, b: [op.operands[0]], frozenset({"ng.exp"}))
    assert not any(given_by(op) for op in gone.walk())


def test_a_fusion_by_hand_asks_for_what_its_kind_has() -> None:
    (fusion,) = scheduled(loops("exp %x"))
    bad = fusion.rebuilt(
        attributes={
            **fusion.attributes,
            **scheduled(product())[0].attributes,
            "kind": fusion.attributes["kind"],
        }
    )
    with pytest.raises(UserError, match="no kernels of fusions of kind 'map' by 'panels'"):
        candidates(bad, resolve("x86-64-v3"))
    with pytest.raises(UserError, match="is run by a block of threads, not by one"):
        parse_pipeline("to-kernels", PASSES).run(
            parse_pipeline("schedule", PASSES).run(fused(loops("exp %x")), resolve("x86-64-v3")),
            resolve("sm_80"),
        )
