# SPDX-License-Identifier: Apache-2.0
"""Texts made to be slow, large or deep: reading them takes time and memory in proportion to their length."""

from __future__ import annotations

import io
import re
import time
import tracemalloc
from collections.abc import Callable

import pytest

from ngmlir.ir.core import Block, ModuleOp, Op, Region
from ngmlir.ir.printer import to_text
from ngmlir.ops import ng
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError
from ngmlir.tools import ngopt

N = 5000
HEAD = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
TAIL = "  return %x : tensor<4xf32>\n}\n"


def each(line: Callable[[int], str], count: int = N) -> str:
    return "\n".join(map(line, range(count))) + "\n"


def within(body: str, result: str = "") -> str:
    return f"func.func @f(%x: tensor<4xf32>, %c: i1) {{\n{body}  return\n}}\n{result}"


TEXTS: dict[str, Callable[[], str]] = {
    "forward references": lambda: within(
        each(lambda i: f"%b{i} = ng.exp %a{i} : f32") + each(lambda i: f"%a{i} = ng.constant 1.0 : f32")
    ),
    "forward references to one value": lambda: within(
        each(lambda i: f"%b{i} = ng.exp %a : f32") + "%a = ng.constant 1.0 : f32\n"
    ),
    "forward references of one op": lambda: (
        f'"x.y"({", ".join(f"%a{i}" for i in range(N))}) : ({", ".join(["f32"] * N)}) -> ()\n'
        + each(lambda i: f'%a{i} = "x.z"() : () -> f32')
    ),
    "forward references of another type": lambda: within(
        each(lambda i: f"%b{i} = ng.exp %a{i} : f32") + each(lambda i: f"%a{i} = ng.constant 1 : i8")
    ),
    "undefined values": lambda: within(each(lambda i: f"%b{i} = ng.exp %a{i} : tensor<4xf32>")),
    "undefined values in many functions": lambda: each(
        lambda i: f"func.func @f{i}() {{\n %z = ng.exp %zz : f32\n return\n}}"
    ),
    "ill-typed ops": lambda: within(
        each(lambda i: f"%b{i} = ng.sum %x axes [7] : (tensor<4xf32>) -> tensor<f32>")
    ),
    "ill-typed ops on one line": lambda: within(
        " ".join(f"%b{i} = ng.sum %x axes [7] : (tensor<4xf32>) -> tensor<f32>" for i in range(N))
    ),
    "unknown ops": lambda: within(each(lambda i: f"%b{i} = ng.expp{i} %x : tensor<4xf32>")),
    "one name for all": lambda: within(each(lambda i: "%r = ng.exp %x : tensor<4xf32>")),
    "one symbol for all": lambda: each(lambda i: "func.func @f() {\n return\n}"),
    "calls of nothing": lambda: within(each(lambda i: "call @g() : () -> ()")),
    "many terminators": lambda: within(each(lambda i: "return")),
    "one name in many regions": lambda: within(
        each(lambda i: "ng.if %c {\n %k = ng.constant 1 : i8\n ng.yield\n} else {\n ng.yield\n}", N // 2)
    ),
    "a chain of blocks": lambda: (
        '"m.g"() ({\n'
        + each(lambda i: f'^b{i}:\n %v{i} = ng.constant 1 : i8\n "x.br"()[^b{i + 1}] : () -> ()')
        + f'^b{N}:\n "x.end"() : () -> ()\n}}) : () -> ()'
    ),
    "a tangle of blocks": lambda: (
        '"m.g"() ({\n "x.br"()[^a0, ^b0] : () -> ()\n'
        + each(
            lambda i: f'^a{i}:\n "x.br"()[^a{i + 1}, ^b{N - 1 - i}] : () -> ()\n^b{i}:\n "x.br"()[^b{i + 1}, ^a{N - 1 - i}] : () -> ()'
        )
        + f'^a{N}:\n "x.e"() : () -> ()\n^b{N}:\n "x.e"() : () -> ()\n}}) : () -> ()'
    ),
    "blocks that are nowhere": lambda: within(each(lambda i: f'"x.br"()[^b{i}] : () -> ()')),
    "braces": lambda: "}" * N * 10,
    "angles": lambda: "func.func @f(%x: !d.t" + "<" * N * 20 + ")",
    "types in types": lambda: "func.func @f(%x: " + "tensor<" * N * 20,
    "dimensions": lambda: "func.func @f(%x: tensor<" + "1x" * N * 20 + "f32>)",
    "a long string": lambda: within("").replace("{\n", 'attributes {n.a = "' + "\\c3\\a4b" * N * 10 + '"} {\n', 1),
    "a long string that is not closed": lambda: '"' + "\\c3\\a4b" * N * 20,
    "comments before a wrong character": lambda: "// x\n" * N * 10 + "\x01",
    "constants that are not closed": lambda: within(each(lambda i: "%c = ng.constant dense<1 : tensor<1xi8>")),
    "integers as wide as they get": lambda: each(lambda i: f'"x.y"() {{a = {i} : i16777215}} : () -> ()'),
    "programs with errors": lambda: "// -----\n".join(
        ["func.func @f() {\n  %z = ng.exp %nope : f32\n return\n}\n"] * N
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_time_is_linear(name: str) -> None:
    """Each of these takes a second or less; what grows with the square of the length takes half a minute."""
    text, errors = TEXTS[name](), io.StringIO()
    started = time.process_time()
    code = ngopt.main(
        ["--allow-unregistered-dialect", "--split-input-file"], io.StringIO(text), io.StringIO(), errors
    )
    assert time.process_time() - started < 6
    assert code in (0, 1)
    assert code == 0 or re.search(r"<stdin>:\d+:\d+: error: ", errors.getvalue())


def test_aliases_that_double() -> None:
    """Thirty lines may stand for a billion characters: they are counted, not written out."""
    attributes = "#a0 = [1]\n" + each(lambda i: f"#a{i + 1} = [#a{i}, #a{i}]", 30)
    types = "!t0 = (f32) -> ()\n" + each(lambda i: f"!t{i + 1} = (!t{i}, !t{i}) -> ()", 30)
    tensor = each(lambda i: '"x.y"() : () -> tensor<4xf32, #a15>', 1000)
    tracemalloc.start()
    for text in (
        attributes + "func.func @f() attributes {n.a = #a30} {return}",
        types + "func.func private @f(!t30)",
        attributes.replace("#a16 = [#a15, #a15]", tensor),
    ):
        with pytest.raises(UserError, match=r"f.ngir:\d+:\d+: error: aliases stand for more than \d+ chara"):
            from_text(text, file="f.ngir", unregistered=True)
    assert tracemalloc.get_traced_memory()[1] < 300e6
    tracemalloc.stop()
    with pytest.raises(UserError) as caught:
        from_text(attributes + "%c = ng.constant 1 : tensor<4xf32, #a15>")
    assert len(str(caught.value)) < 3000
    used = "#a = [1]\n" + each(lambda i: f'"x.y"() {{a = #a}} : () -> () loc(#l{i % 3})')
    used += each(lambda i: f'#l{i} = loc("f":{i + 1}:1)', 3)
    assert len(from_text(used, unregistered=True).ops) == N


def test_names_are_made_unique_in_linear_time() -> None:
    def constants(count: int) -> list[Op]:
        return [op for _ in range(count) for op in from_text("%k = ng.constant 1 : i8").ops[:1]]

    module = ModuleOp((), (), {}, (Region(Block(ops=constants(4 * N))),))
    started = time.process_time()
    text = to_text(module)
    assert time.process_time() - started < 2
    assert f"%k_{4 * N - 2} = " in text
    assert isinstance(module.ops[0], ng.ConstantOp)
    assert to_text(from_text(text)) == text


def test_names_are_free_again_behind_their_region() -> None:
    branch = "{\n    %k = ng.constant 1 : i8\n    %k_0 = ng.constant 1 : i8\n    ng.yield\n  }"
    text = (
        f"func.func @f(%c: i1) {{\n  ng.if %c {branch} else {branch}\n  %k = ng.constant 2 : i8\n  return\n}}"
    )
    printed = to_text(from_text(text))
    assert printed.count("%k = ") == 3 and printed.count("%k_0 = ") == 2
    assert to_text(from_text(printed)) == printed
