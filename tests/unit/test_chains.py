# SPDX-License-Identifier: Apache-2.0
"""Chains: fusions that follow each other row by row, as one kernel whose programs own strips of rows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from comparing import assert_same_bits

from ngmlir.compiler import compile_module, resolve
from ngmlir.decl.pipeline_text import named_pipelines
from ngmlir.ir.core import Module, Op
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import FloatType, element_type, shape_of
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.stated_schedules import given_by
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import UserError


def fused(text: str, then: str = "", near: int = 1 << 13) -> Module:
    """A program in fusions, for a machine whose near cache holds next to nothing."""
    machine = replace(resolve("cpu"), l2_bytes=near)
    steps = parse_pipeline(named_pipelines().expanded(f"canonical, prepare, dead-code, fuse{then}"), PASSES)
    return steps.run(from_text(text), machine, verify=True)


def chains(of: Module) -> list[list[str]]:
    """The kinds of the fusions of each chain."""
    found = [op for op in of.walk() if op.name == "ng.fusion" and _kind(op) == "chain"]
    return [[_kind(op) for op in chain.block.ops if op.name == "ng.fusion"] for chain in found]


def _kind(op: Op) -> str:
    return op.attributes["kind"].text.strip('"')


def arguments(of: Module, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    made: list[Any] = []
    for value in of.lookup("main").block.args:  # type: ignore[union-attr]
        element, shape = element_type(value.type), shape_of(value.type)
        values = (
            random.standard_normal(shape) if isinstance(element, FloatType) else random.integers(-3, 4, shape)
        )
        made.append(np.asarray(values).astype(dtype_of(element)))
    return made


def agrees(
    text: str,
    expected: list[list[str]],
    given: list[Any] | None = None,
    rows: int = 0,
    near: int = 1 << 13,
) -> list[Any]:
    """Compiles a program in chains and without: both give the same bits, about those of NumPy; they are given back."""
    parted, whole = fused(text), fused(text, ", chain", near)
    assert chains(whole) == expected, to_text(whole)
    if rows:
        cut = re.sub(
            r"(ng\.fusion chain\([^)]*\))", rf"\1 {{ng.schedule = {{rows = {rows}}}}}", to_text(whole)
        )
        whole = from_text(cut)
    given = arguments(parted) if given is None else given
    got: Any = compile_module(whole, "cpu")(*given)
    want: Any = compile_module(parted, "cpu")(*given)
    with np.errstate(all="ignore"):
        about = interpret(from_text(text), *given)
    assert_same_bits(got, want)
    for ours, numbers in zip(got, about, strict=True):
        np.testing.assert_allclose(ours, numbers, rtol=1e-4, atol=1e-4)
    return list(got)


def program(arguments: str, results: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {results} {{\n{body}\n}}"


def product(name: str, a: str, b: str, r: str, kind: str = "f32", right: int = 0) -> str:
    batch = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if r.count("x") == 2 else ""
    lhs, (left, lt), (other, rt) = r.count("x"), a.split(":"), b.split(":")
    types = f"(tensor<{lt}x{kind}>, tensor<{rt}x{kind}>) -> tensor<{r}x{kind}>"
    return f"%{name} = ng.dot {left}, {other} contract [{lhs}] x [{right}]{batch} : {types}"


def attention(
    batch: int, rows: int, keys: int, depth: int, width: int, kind: str = "f32", mask: str = ""
) -> str:
    """Heads of queries, keys and values; `mask`: the shape of what is added to the scores of each of them."""
    q, k, v = (f"{batch}x{a}x{b}" for a, b in ((rows, depth), (keys, depth), (keys, width)))
    s, o = f"{batch}x{rows}x{keys}", f"{batch}x{rows}x{width}"
    t = f"tensor<{s}x{kind}>"
    dims = {1: "[2]", 2: "[1, 2]", 3: "[0, 1, 2]"}.get(mask.count("x") + 1 if mask else 0, "")
    masked = (
        f"""%n = ng.broadcast %m dims {dims} : (tensor<{mask}x{kind}>) -> {t}
  %z = ng.add %c, %n : {t}"""
        if mask
        else f"%z = ng.add %c, %c : {t}"
    )
    given = [
        f"%{n}: tensor<{shape}x{kind}>" for n, shape in zip("qkvm", (q, k, v, mask), strict=True) if shape
    ]
    return program(
        ", ".join(given),
        f"tensor<{o}x{kind}>",
        f"""  {product("s", f"%q:{q}", f"%k:{k}", s, kind, 2)}
  %h = ng.constant dense<0.25> : {t}
  %c = ng.multiply %s, %h : {t}
  {masked}
  %p = ng.softmax %z axes [2] : {t}
  {product("o", f"%p:{s}", f"%v:{v}", o, kind, 1)}
  return %o : tensor<{o}x{kind}>""",
    )


ATTENTION = ["dot", "rows", "dot"]


@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_attention_is_one_kernel(rows: int) -> None:
    agrees(attention(3, 70, 90, 20, 24), [ATTENTION], rows=rows)


@pytest.mark.parametrize("mask", ["53", "37x53", "4x37x53"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_attention_with_what_is_added(mask: str, kind: str) -> None:
    agrees(attention(4, 37, 53, 9, 33, kind, mask), [ATTENTION])


def test_rows_without_any_key_are_what_they_are_alone() -> None:
    text = attention(2, 33, 40, 8, 16, mask="33x40")
    given = arguments(fused(text))
    given[3][5] = -np.inf
    given[3][7, 3:] = -np.inf
    given[0][1, 9, 0], given[1][0, 2, 1], given[2][0, 3, 2] = np.nan, np.inf, np.inf
    (out,) = agrees(text, [ATTENTION], given)
    assert np.isnan(out[:, 5]).all() and not np.isnan(out[1, 7]).any()


def test_long_rows_are_walked_in_parts_of_the_depth() -> None:
    agrees(attention(1, 60, 1700, 3, 90), [ATTENTION], near=1 << 17)


def test_reductions_after_a_product() -> None:
    for rows, depth, near in ((90, 12, 1 << 13), (480, 700, 1 << 17)):
        t, r = f"tensor<{rows}x70xf32>", f"tensor<{rows}xf32>"
        text = program(
            f"%x: tensor<{rows}x{depth}xf32>, %w: tensor<{depth}x70xf32>, %b: tensor<70xf32>",
            f"({r}, {r})",
            f"""  {product("s", f"%x:{rows}x{depth}", f"%w:{depth}x70", f"{rows}x70")}
  %c = ng.broadcast %b dims [1] : (tensor<70xf32>) -> {t}
  %a = ng.add %s, %c : {t}
  %m = ng.max %a axes [1] : ({t}) -> {r}
  %mm = ng.broadcast %m dims [0] : ({r}) -> {t}
  %d = ng.subtract %a, %mm : {t}
  %e = ng.exp %d : {t}
  %u = ng.sum %e axes [1] : ({t}) -> {r}
  %l = ng.log %u : {r}
  %o = ng.add %l, %m : {r}
  return %o, %m : {r}, {r}""",
        )
        agrees(text, [["dot", "rows"]], near=near)


def test_right_sides_that_each_strip_would_read_again() -> None:
    """A chain pays where what is handed on weighs more than what is read for it."""

    def network(rows: int, inner: int, wide: int, outer: int) -> Module:
        t = f"tensor<{rows}x{wide}xf32>"
        return fused(
            program(
                f"%x: tensor<{rows}x{inner}xf32>, %w: tensor<{inner}x{wide}xf32>, %v: tensor<{wide}x{outer}xf32>",
                f"tensor<{rows}x{outer}xf32>",
                f"""  {product("s", f"%x:{rows}x{inner}", f"%w:{inner}x{wide}", f"{rows}x{wide}")}
  %h = ng.tanh %s : {t}
  {product("o", f"%h:{rows}x{wide}", f"%v:{wide}x{outer}", f"{rows}x{outer}")}
  return %o : tensor<{rows}x{outer}xf32>""",
            ),
            ", chain",
            near=1 << 20,
        )

    assert chains(network(128, 768, 3072, 768)) == []
    assert chains(network(8192, 768, 3072, 768)) == []
    assert chains(network(8192, 64, 256, 64)) == [["dot", "dot"]]


def test_normalised_rows_on_both_sides_of_products() -> None:
    t = "tensor<64x96xf32>"
    text = program(
        f"%x: {t}, %w: tensor<96x96xf32>, %v: tensor<96x40xf32>, %g: tensor<96xf32>",
        "tensor<64x40xf32>",
        f"""  %n = ng.normalize %x axes [1] {{epsilon = 0.001 : f32}} : {t}
  {product("s", "%n:64x96", "%w:96x96", "64x96")}
  %r = ng.add %s, %x : {t}
  %h = ng.normalize %r axes [1] {{epsilon = 0.001 : f32}} : {t}
  %b = ng.broadcast %g dims [1] : (tensor<96xf32>) -> {t}
  %y = ng.multiply %h, %b : {t}
  {product("u", "%y:64x96", "%v:96x40", "64x40")}
  %o = ng.tanh %u : tensor<64x40xf32>
  return %o : tensor<64x40xf32>""",
    )
    for rows in (0, 5):
        agrees(text, [["rows", "dot", "rows", "dot"]], rows=rows, near=1 << 14)


@pytest.mark.parametrize(("end", "kinds"), [("%d", ["dot", "dot", "rows"]), ("%e", ["dot", "rows"])])
def test_two_products_side_by_side(end: str, kinds: list[str]) -> None:
    """The one is added to the other; or their rows are reduced beside each other, and a fusion stands in one chain."""
    t = "tensor<60x48xf32>"
    text = program(
        "%x: tensor<60x20xf32>, %w: tensor<20x48xf32>, %y: tensor<60x9xf32>, %u: tensor<9x48xf32>",
        t,
        f"""  {product("a", "%x:60x20", "%w:20x48", "60x48")}
  {product("b", "%y:60x9", "%u:9x48", "60x48")}
  %c = ng.add %a, %b : {t}
  %d = ng.softmax %c axes [1] : {t}
  %s = ng.softmax %a axes [1] : {t}
  %r = ng.softmax %b axes [1] : {t}
  %e = ng.subtract %s, %r : {t}
  return {end} : {t}""",
    )
    agrees(text, [kinds])


def test_a_product_of_a_product_of_whole_numbers() -> None:
    text = program(
        "%x: tensor<60x30xi32>, %w: tensor<30x40xi32>, %v: tensor<40x20xi32>",
        "tensor<60xi32>",
        f"""  {product("s", "%x:60x30", "%w:30x40", "60x40", "i32")}
  {product("u", "%s:60x40", "%v:40x20", "60x20", "i32")}
  %o = ng.max %u axes [1] : (tensor<60x20xi32>) -> tensor<60xi32>
  return %o : tensor<60xi32>""",
    )
    agrees(text, [["dot", "dot", "rows"]], near=1 << 12)


def test_heads_are_read_and_written_where_they_lie() -> None:
    """Queries, keys and values are slices of one product, and heads stand side by side in what comes of them."""
    cut = "\n  ".join(
        f"""%{n}s = ng.slice %x from [0, {at}, 0] to [40, {at + 3}, 16] step [1, 1, 1] : (tensor<40x9x16xf32>) -> tensor<40x3x16xf32>
  %{n} = ng.transpose %{n}s perm [1, 0, 2] : (tensor<40x3x16xf32>) -> tensor<3x40x16xf32>"""
        for n, at in (("q", 0), ("k", 3), ("v", 6))
    )
    text = program(
        "%x: tensor<40x9x16xf32>",
        "tensor<40x3x16xf32>",
        f"""  {cut}
  {product("s", "%q:3x40x16", "%k:3x40x16", "3x40x40", right=2)}
  %p = ng.softmax %s axes [2] : tensor<3x40x40xf32>
  {product("o", "%p:3x40x40", "%v:3x40x16", "3x40x16", right=1)}
  %t = ng.transpose %o perm [1, 0, 2] : (tensor<3x40x16xf32>) -> tensor<40x3x16xf32>
  return %t : tensor<40x3x16xf32>""",
    )
    agrees(text, [ATTENTION])


REFUSED = {
    "what others read as well": program(
        "%x: tensor<50x30xf32>, %w: tensor<30x40xf32>",
        "(tensor<50x40xf32>, tensor<50xf32>)",
        f"""  {product("s", "%x:50x30", "%w:30x40", "50x40")}
  %m = ng.max %s axes [1] : (tensor<50x40xf32>) -> tensor<50xf32>
  return %s, %m : tensor<50x40xf32>, tensor<50xf32>""",
    ),
    "a reduction of columns": program(
        "%x: tensor<50x30xf32>, %w: tensor<30x40xf32>",
        "tensor<40xf32>",
        f"""  {product("s", "%x:50x30", "%w:30x40", "50x40")}
  %m = ng.max %s axes [0] : (tensor<50x40xf32>) -> tensor<40xf32>
  return %m : tensor<40xf32>""",
    ),
    "a right side": program(
        "%x: tensor<60x30xf32>, %w: tensor<30x40xf32>, %y: tensor<60x60xf32>",
        "tensor<60x40xf32>",
        f"""  {product("s", "%x:60x30", "%w:30x40", "60x40")}
  {product("o", "%y:60x60", "%s:60x40", "60x40")}
  return %o : tensor<60x40xf32>""",
    ),
    "a part of each row": program(
        "%x: tensor<60x30xf32>, %w: tensor<30x40xf32>",
        "tensor<60xf32>",
        f"""  {product("s", "%x:60x30", "%w:30x40", "60x40")}
  %p = ng.slice %s from [0, 8] to [60, 40] step [1, 1] : (tensor<60x40xf32>) -> tensor<60x32xf32>
  %m = ng.max %p axes [1] : (tensor<60x32xf32>) -> tensor<60xf32>
  return %m : tensor<60xf32>""",
    ),
    "rows that change places": program(
        "%x: tensor<3x40x30xf32>, %w: tensor<3x30x40xf32>",
        "tensor<120x40xf32>",
        f"""  {product("s", "%x:3x40x30", "%w:3x30x40", "3x40x40", right=1)}
  %t = ng.transpose %s perm [1, 0, 2] : (tensor<3x40x40xf32>) -> tensor<40x3x40xf32>
  %r = ng.reshape %t : (tensor<40x3x40xf32>) -> tensor<120x40xf32>
  %m = ng.softmax %r axes [1] : tensor<120x40xf32>
  return %m : tensor<120x40xf32>""",
    ),
    "few rows of many products": attention(40, 8, 50, 16, 16),
    "a left side that is turned": program(
        "%x: tensor<50x30xf32>, %w: tensor<30x50xf32>, %y: tensor<50x40xf32>",
        "tensor<50x40xf32>",
        f"""  {product("s", "%x:50x30", "%w:30x50", "50x50")}
  %o = ng.dot %s, %y contract [0] x [0] : (tensor<50x50xf32>, tensor<50x40xf32>) -> tensor<50x40xf32>
  return %o : tensor<50x40xf32>""",
    ),
    "a reduction of other rows": program(
        "%x: tensor<50x30xf32>, %w: tensor<30x40xf32>",
        "tensor<25xf32>",
        f"""  {product("s", "%x:50x30", "%w:30x40", "50x40")}
  %r = ng.reshape %s : (tensor<50x40xf32>) -> tensor<25x80xf32>
  %m = ng.max %r axes [1] : (tensor<25x80xf32>) -> tensor<25xf32>
  return %m : tensor<25xf32>""",
    ),
    "one column": program(
        "%x: tensor<500x30xf32>, %w: tensor<30x1xf32>, %v: tensor<1x40xf32>",
        "tensor<500x40xf32>",
        f"""  {product("s", "%x:500x30", "%w:30x1", "500x1")}
  {product("o", "%s:500x1", "%v:1x40", "500x40")}
  return %o : tensor<500x40xf32>""",
    ),
    "rows too long for any cache": program(
        "%x: tensor<50x3xf32>, %w: tensor<3x4000xf32>",
        "tensor<50xf32>",
        f"""  {product("s", "%x:50x3", "%w:3x4000", "50x4000")}
  %m = ng.max %s axes [1] : (tensor<50x4000xf32>) -> tensor<50xf32>
  return %m : tensor<50xf32>""",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_stays_apart(what: str) -> None:
    agrees(REFUSED[what], [])


def test_elements_that_are_widened_stay_apart() -> None:
    """The scores and their softmax are one kernel; the second product reads its left side packed."""
    text = fused(attention(2, 40, 40, 16, 16, "f16"), ", chain")
    assert chains(text) == [["dot", "rows"]]


def test_what_the_near_cache_holds_stays_apart() -> None:
    steps = parse_pipeline(named_pipelines().expanded("canonical, prepare, fuse, chain"), PASSES)
    assert chains(steps.run(from_text(attention(3, 70, 90, 20, 24)), resolve("cpu"), verify=True)) == []


def test_blocks_of_threads_have_no_strips() -> None:
    whole = fused(attention(3, 70, 90, 20, 24), ", chain")
    text = to_text(whole)
    with pytest.raises(UserError, match="no temporary memory of its own for a chain"):
        PASSES["schedule"](from_text(text), resolve("sm_80"))
    parted = fused(attention(3, 70, 90, 20, 24))
    assert PASSES["chain"](parted, resolve("sm_80")) is parted


def test_each_fusion_says_how_it_is_cut() -> None:
    whole = fused(attention(3, 70, 90, 20, 24), ", chain")
    made = PASSES["schedule"](whole, resolve("x86-64-v3"))
    cuts = [given_by(op) for op in made.walk() if op.name == "ng.fusion"]
    assert [cut["by"] for cut in cuts] == ["strips", "panels", "rows", "panels"]
    rows = cuts[0]["rows"]
    assert [cuts[1]["block"][0], cuts[2]["rows"], cuts[3]["block"][0]] == [rows] * 3  # type: ignore[index]
    assert to_text(PASSES["schedule"](made, resolve("x86-64-v3"))) == to_text(made)


def test_rows_of_a_batch_are_not_those_of_all() -> None:
    text = program(
        "%x: tensor<2x40x30xf32>, %w: tensor<2x30x40xf32>, %v: tensor<40x20xf32>",
        "tensor<80x20xf32>",
        f"""  {product("s", "%x:2x40x30", "%w:2x30x40", "2x40x40", right=1)}
  %p = ng.softmax %s axes [2] : tensor<2x40x40xf32>
  %r = ng.reshape %p : (tensor<2x40x40xf32>) -> tensor<80x40xf32>
  {product("o", "%r:80x40", "%v:40x20", "80x20")}
  return %o : tensor<80x20xf32>""",
    )
    agrees(text, [["dot", "rows"]])


def test_what_is_handed_on_is_not_packed_before() -> None:
    text = to_text(fused(attention(3, 70, 90, 20, 24), ", chain"))
    first, second, third = text.split("ng.fusion dot(")
    sides = 'ng.schedule = {pack = ["left", "right"]}'
    marked = [each.replace(">} -> ", f">, {sides}}} -> ", 1) for each in (second, third)]
    PASSES["schedule"](from_text("ng.fusion dot(".join([first, marked[0], third])), resolve("x86-64-v3"))
    with pytest.raises(UserError, match="computed in the chain is not packed before"):
        PASSES["schedule"](from_text("ng.fusion dot(".join([first, second, marked[1]])), resolve("x86-64-v3"))
    along = second.replace(">} -> ", '>, ng.schedule = {by = "along"}} -> ', 1)
    with pytest.raises(UserError, match="in a chain products must use 'panels'"):
        PASSES["schedule"](from_text("ng.fusion dot(".join([first, along, third])), resolve("x86-64-v3"))


def cut(schedule: str, inner: str = "") -> str:
    """A chain that a person has written."""
    x, w, s, r = "tensor<50x30xf32>", "tensor<30x40xf32>", "tensor<50x40xf32>", "tensor<50xf32>"
    return f"""func.func @main(%x: {x}, %w: {w}) -> {r} {{
  %0 = ng.fusion chain(%x, %w) {{ng.schedule = {{{schedule}}}}} -> {r} {{
    %1 = ng.fusion dot(%x, %w) {inner} -> {s} {{
      %2 = ng.dot %x, %w contract [1] x [0] : ({x}, {w}) -> {s}
      ng.yield %2 : {s}
    }}
    %3 = ng.fusion rows(%1) -> {r} {{
      %4 = ng.max %1 axes [1] : ({s}) -> {r}
      ng.yield %4 : {r}
    }}
    ng.yield %3 : {r}
  }}
  return %0 : {r}
}}"""


def test_a_chain_by_hand() -> None:
    for schedule, inner in (("rows = 12", ""), ("", "{ng.schedule = {tile = [4, 8]}}"), ("rows = 50", "")):
        x, w = arguments(of := from_text(cut(schedule, inner)))
        got: Any = compile_module(of, "cpu")(x, w)[0]
        np.testing.assert_allclose(got, (x @ w).max(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "inner", "message"),
    [
        ("rows = 51", "", "a strip of 51 rows of 50"),
        ("rows = 10", "{ng.schedule = {block = [20, 40]}}", r"block is .*, but in strips of the chain it is"),
        ("tile = 3", "", "no setting 'tile'"),
        ("", '{ng.schedule = {by = "along"}}', "by panels, not by along"),
    ],
)
def test_what_no_chain_can_be_cut_as(schedule: str, inner: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        PASSES["schedule"](from_text(cut(schedule, inner)), resolve("x86-64-v3"))


FAULTS = {
    "two or more fusions of kind 'dot' and 'rows'": [("ng.fusion rows(%1)", "ng.fusion map(%1)")],
    "the one has 50 rows, the other 25": [
        ("ng.max %1 axes [1] : (tensor<50x40xf32>)", "ng.max %5 axes [1] : (tensor<25x80xf32>)"),
        ("%4 =", "%5 = ng.reshape %1 : (tensor<50x40xf32>) -> tensor<25x80xf32>\n      %4 ="),
        ("tensor<50xf32>", "tensor<25xf32>"),
    ],
    "not given back as well": [
        ("-> tensor<50xf32> {", "-> (tensor<50xf32>, tensor<50x40xf32>) {"),
        ("%0 = ng.fusion chain", "%0, %9 = ng.fusion chain"),
        ("ng.yield %3 : tensor<50xf32>", "ng.yield %3, %1 : tensor<50xf32>, tensor<50x40xf32>"),
        ("return %0 : tensor<50xf32>", "return %0, %9 : tensor<50xf32>, tensor<50x40xf32>"),
        ("ng.fusion rows(%1) -> (tensor<50xf32>, tensor<50x40xf32>)", "ng.fusion rows(%1) -> tensor<50xf32>"),
    ],
}


@pytest.mark.parametrize("why", FAULTS)
def test_what_is_no_chain(why: str) -> None:
    text = cut("rows = 10")
    for old, new in FAULTS[why]:
        text = text.replace(old, new)
    with pytest.raises(UserError, match=why):
        PASSES["schedule"](from_text(text), resolve("x86-64-v3"))
