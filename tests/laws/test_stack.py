# SPDX-License-Identifier: Apache-2.0
"""No hot loop touches the stack: what a tile holds stays in registers, on every machine that code is made for.

Read off the assembly: an innermost loop (a jump back to a label with no label between) that stores to or loads from
the stack holds more than the registers do, or has been unrolled into that. Transcendental functions are no part of this:
of tiles of theirs the wider ones, which spill, are the faster ones.
"""

from __future__ import annotations

import re

import pytest

from ngmlir.compiler import emit_text, resolve
from ngmlir.ops.words import from_text

#: machine: how it names a place on the stack (one with an index is in a kernel's own scratch).
MACHINES = {"x86-64-v3": r"\(%rsp\)", "x86-64-v4": r"\(%rsp\)", "aarch64": r"\[sp\b(?!, x)"}
_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+(?:j\w+|b|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.L\w+)")


def product(
    m: int, k: int, n: int, sides: str = "NN", kind: str = "f32", batch: int = 0, to: str = ""
) -> str:
    first, b = int(bool(batch)), f"{batch}x" if batch else ""
    lhs = f"tensor<{b}{m}x{k}x{kind}>" if sides[0] == "N" else f"tensor<{b}{k}x{m}x{kind}>"
    rhs = f"tensor<{b}{k}x{n}x{kind}>" if sides[1] == "N" else f"tensor<{b}{n}x{k}x{kind}>"
    result = f"tensor<{b}{m}x{n}x{to or kind}>"
    batches = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
    places = f"[{first + (sides[0] == 'N')}] x [{first + (sides[1] == 'T')}]"
    return f"""func.func @main(%a: {lhs}, %b: {rhs}) -> {result} {{
  %p = ng.dot %a, %b contract {places}{batches} : ({lhs}, {rhs}) -> {result}
  return %p : {result}
}}"""


def loop(*ops: str, shape: str = "1000x1000", kind: str = "f32") -> str:
    """A chain of elementwise ops; `%x` stands for the value before."""
    x = f"tensor<{shape}x{kind}>"
    lines, before = [], "%x"
    for at, op in enumerate(ops):
        lines.append(f"  %{at} = {op.replace('%x', before)} : {x}")
        before = f"%{at}"
    return (
        f"func.func @main(%x: {x}, %y: {x}) -> {x} {{\n" + "\n".join(lines) + f"\n  return {before} : {x}\n}}"
    )


def reduced(op: str, axis: int, shape: tuple[int, int] = (1000, 1000), kind: str = "f32") -> str:
    x, r = f"tensor<{shape[0]}x{shape[1]}x{kind}>", f"tensor<{shape[1 - axis]}x{kind}>"
    return f"func.func @main(%x: {x}) -> {r} {{\n  %0 = ng.{op} %x axes [{axis}] : ({x}) -> {r}\n  return %0 : {r}\n}}"


def of_a_product(then: str, result: str) -> str:
    """A product, of which programs take strips of rows on to what follows."""
    a, b, s, r = (f"tensor<{shape}xf32>" for shape in ("4096x32", "32x512", "4096x512", result))
    return f"""func.func @main(%a: {a}, %b: {b}, %c: tensor<512x48xf32>) -> {r} {{
  %p = ng.dot %a, %b contract [1] x [0] : ({a}, {b}) -> {s}
  %q = {then} -> {r}
  return %q : {r}
}}"""


PROGRAMS = {
    **{
        f"dot {m}x{k}x{n} {sides} {kind}": product(m, k, n, sides, kind)
        for m, k, n, sides, kind in [
            (256, 256, 256, "NN", "f32"), (512, 512, 512, "NT", "f32"), (1024, 1024, 1024, "TN", "f32"),
            (2048, 2048, 2048, "TT", "f32"), (32, 768, 3072, "NN", "f32"), (1, 768, 3072, "NN", "f32"),
            (16, 768, 768, "NT", "f32"), (1024, 1024, 8, "NN", "f32"), (128, 100, 70, "NN", "f32"),
            (512, 512, 512, "NN", "f64"), (1000, 1000, 1000, "TT", "f64"), (512, 512, 512, "NN", "bf16"),
            (300, 300, 300, "NN", "i32"), (13, 77, 101, "NN", "f32"),
        ]
    },
    **{
        f"dot {sides} i8 to i32": product(256, 256, 256, sides, "i8", to="i32")
        for sides in ("NN", "NT", "TN", "TT")
    },
    "batched dot": product(128, 64, 128, "NN", "f32", 12),
    "max of a product": of_a_product("ng.max %p axes [1] : (tensor<4096x512xf32>)", "4096"),
    "product of a product": of_a_product(
        "ng.dot %p, %c contract [1] x [0] : (tensor<4096x512xf32>, tensor<512x48xf32>)", "4096x48"
    ),
    "add": loop("ng.add %x, %y"),
    "chain": loop("ng.multiply %x, %y", "ng.add %x, %y", "ng.maximum %x, %y", "ng.subtract %x, %y"),
    "chain f64": loop("ng.multiply %x, %y", "ng.add %x, %y", kind="f64"),
    "sqrt": loop("ng.sqrt %x", "ng.reciprocal %x"),
    "sum of rows": reduced("sum", 1),
    "sum of columns": reduced("sum", 0),
    "max of rows": reduced("max", 1),
    "sum of rows f64": reduced("sum", 1, kind="f64"),
    "sum of rows i32": reduced("sum", 1, kind="i32"),
    "product of columns": reduced("product", 0),
}  # fmt: skip


def innermost_loops(assembly: str) -> list[list[str]]:
    lines = assembly.splitlines()
    places: dict[str, int] = {}
    found: list[list[str]] = []
    for at, line in enumerate(lines):
        if label := _LABEL.match(line):
            places[label[1]] = at
        elif (jump := _JUMP.match(line)) and jump[1] in places:
            body = lines[places[jump[1]] + 1 : at + 1]
            if not any(_LABEL.match(each) for each in body):
                found.append(body)
    return found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_hot_loop_touches_the_stack(name: str, machine: str) -> None:
    loops = innermost_loops(emit_text(from_text(PROGRAMS[name]), resolve(machine), "asm"))
    assert loops
    stack = re.compile(MACHINES[machine])
    touched = [[line.strip() for line in body if stack.search(line)] for body in loops]
    assert not any(touched), [t for t in touched if t]
