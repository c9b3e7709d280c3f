# SPDX-License-Identifier: Apache-2.0
"""What the real mlir-opt makes of our text, and we of its: all examples and all programs of the text tests."""

from __future__ import annotations

import glob
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from examples import OPS, wrapped

from ngmlir.decl import irdl
from ngmlir.ir.attributes import Attribute, DictAttr, FloatAttr
from ngmlir.ir.core import Block, Module, Op, Region, UnregisteredOp, Value, module, op_name
from ngmlir.ir.elements import elements
from ngmlir.ir.types import bf16, f16, f32
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.words import from_text, to_text
from ngmlir.support.diagnostics import UserError
from ngmlir.tools.chunks import split

ROOT = Path(__file__).parents[2]


def tool(name: str) -> str | None:
    """The newest of a stock MLIR tool: on the path or where Debian puts it."""
    installed = sorted(glob.glob(f"/usr/lib/llvm-*/bin/{name}"))
    return shutil.which(name) or (installed[-1] if installed else None)


pytestmark = pytest.mark.skipif(tool("mlir-opt") is None, reason="no mlir-opt here")


def mlir_opt(texts: list[str], *flags: str) -> tuple[list[str], str]:
    """The programs as mlir-opt prints them, and its messages."""
    path = tool("mlir-opt")
    assert path is not None
    done = subprocess.run(
        [path, "--split-input-file", *flags, "-"],
        input="\n// -----\n".join(texts), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.split("// -----"), done.stderr


@cache
def programs() -> dict[str, Module]:
    """Every program of the text tests and examples that is valid, by its place; and the examples of all ops."""
    found = {name: from_text(wrapped(op)) for name, op in OPS.items()}
    for path in sorted([*ROOT.glob("lit_tests/**/*.ngir"), *ROOT.glob("examples/**/*.ngir")]):
        for chunk in split(path.read_text(encoding="utf-8")):
            try:
                found[f"{path.name}:{chunk.line}"] = from_text(chunk.text, unregistered=True)
            except UserError:
                continue  # a test of a message
    assert len(found) > 250
    return found


def unordered(attribute: Attribute) -> object:
    """MLIR sorts the names of a dictionary."""
    return dict(attribute.items) if isinstance(attribute, DictAttr) else attribute


def assert_alike(one: Op, other: Op) -> None:
    """The same ops, types, attributes and uses; names and the order of attributes are free."""
    same: dict[Value, Value] = {}

    def blocks(a: Block, b: Block) -> None:
        assert [v.type for v in a.args] == [v.type for v in b.args]
        same.update(zip(a.args, b.args, strict=True))
        for p, q in zip(a.ops, b.ops, strict=True):
            ops(p, q)

    def ops(p: Op, q: Op) -> None:
        assert op_name(p) == op_name(q)
        assert {n: unordered(a) for n, a in p.attributes.items()} == {
            n: unordered(a) for n, a in q.attributes.items()
        }
        assert [same[o] for o in p.operands] == [o for o in q.operands]
        assert [r.type for r in p.results] == [r.type for r in q.results]
        same.update(zip(p.results, q.results, strict=True))
        for r, s in zip(p.regions, q.regions, strict=True):
            for a, b in zip(r.blocks, s.blocks, strict=True):
                blocks(a, b)

    ops(one, other)


def _holding(literals: list[Attribute]) -> Block:
    block = Block()
    builder = Builder(block)
    for literal in literals:
        builder.constant(type=literal.type, value=literal)  # type: ignore[attr-defined]
    builder.end(func.ReturnOp)
    return block


def _constants() -> Module:
    """Every kind of constant."""
    rng = np.random.default_rng(2)
    literals: list[Attribute] = [
        FloatAttr(b, f32) for b in (0x80000000, 0x7F800000, 0xFFC00001, 1, 0x3DCCCCCD)
    ]
    literals += [FloatAttr(int(b), f16) for b in rng.integers(0, 1 << 16, 50)] + [
        FloatAttr(int(b), bf16) for b in rng.integers(0, 1 << 16, 50)
    ]
    literals += [
        elements(rng.normal(size=s).astype(d))
        for s in ((2, 3), (100,), ())
        for d in (np.float32, np.float16, np.float64)
    ]
    literals += [
        elements(np.array([[True, False]])),
        elements(np.arange(-3, 3)),
        elements(np.zeros((0, 2), np.int8)),
    ]
    return module([function("constants", _holding(literals))])


@pytest.mark.parametrize("flags", [["--mlir-print-op-generic"], [], ["--mlir-print-debuginfo"]], ids=str)
def test_generic_form(flags: list[str]) -> None:
    """Our generic form goes to mlir-opt, and what it prints comes back as the same program."""
    mine = [*programs().values(), _constants()]
    texts = [to_text(m, generic=True) for m in mine]
    theirs, messages = mlir_opt(texts, "--allow-unregistered-dialect", *flags)
    assert messages == ""
    for one, other in zip(mine, theirs, strict=True):
        assert_alike(one, from_text(other, unregistered=True))


def without_dialects(op: Op) -> Op:
    """The op with all that is not MLIR's own unregistered, so that it is printed in generic form."""
    regions = [Region(*[_rest_of(b) for b in r.blocks]) for r in op.regions]
    if op.name == "builtin.module" or op.name.startswith("func."):
        return op.rebuilt(regions=regions)
    made = UnregisteredOp(op.operands, [r.type for r in op.results], op.attributes, regions, op.location)
    made.full_name = op_name(op)
    made.results = op.results
    return made


def _rest_of(block: Block) -> Block:
    made = block.emptied()
    made.ops = [without_dialects(op) for op in block.ops]
    for op, was in zip(made.ops, block.ops, strict=True):
        op.results = was.results
    return made


def test_custom_form_of_functions() -> None:
    """`func.func`, `func.call` and `func.return` as we print them, and as mlir-opt does."""
    mine = list(programs().values())
    texts = [to_text(without_dialects(m)) for m in mine]
    theirs, messages = mlir_opt(texts, "--allow-unregistered-dialect")
    assert messages == ""
    for one, other in zip(mine, theirs, strict=True):
        assert_alike(one, from_text(other, unregistered=True))


FUNCTIONS = """
func.func private @declared(tensor<4xf32> {my.a}, f32) -> (tensor<4xf32> {my.r = 1 : i64}, i32)
func.func private @nothing()
func.func nested @"odd name"(%arg0: f32 {my.x = "y"}) -> (f32 {my.z}) attributes {my.t = (f32) -> f32} {
  return %arg0 : f32
}
func.func @functions(%arg0: (f32) -> f32, %arg1: () -> ()) -> ((f32) -> f32, () -> ()) {
  return %arg0, %arg1 : (f32) -> f32, () -> ()
}
func.func @one_function(%arg0: () -> ()) -> (() -> ()) {
  return %arg0 : () -> ()
}
func.func @calls(%arg0: f32, %arg1: tensor<4xf32>) -> (f32, tensor<4xf32>) {
  %0:2 = call @declared(%arg1, %arg0) : (tensor<4xf32>, f32) -> (tensor<4xf32>, i32)
  call @nothing() : () -> ()
  %1 = call @"odd name"(%arg0) : (f32) -> f32
  %2:2 = func.call @calls(%1, %0#0) {my.k = 3 : i32} : (f32, tensor<4xf32>) -> (f32, tensor<4xf32>)
  return {my.end} %2#0, %2#1 : f32, tensor<4xf32>
}
func.func @attributes() {
  return {my.end = [@declared, @m::@n, unit, {a, "odd key" = 1 : i8}]}
}
"""


def test_every_part_of_a_function() -> None:
    (theirs,), messages = mlir_opt([FUNCTIONS], "--allow-unregistered-dialect")
    assert messages == ""
    mine = to_text(from_text(theirs))
    (again,), messages = mlir_opt([mine], "--allow-unregistered-dialect")
    assert (again, messages) == (theirs, "")


def _reason(program: Module) -> str:
    """Why IRDL cannot speak of a program, or ''."""
    if "#ng.axes" in to_text(program, generic=True):
        return "axes"
    for op in program.walk():
        definition = op.definition
        if definition is None or definition.dialect not in irdl.DIALECTS:
            if isinstance(op, UnregisteredOp):
                return "unknown ops"
            continue
        if op.regions:
            return "regions"
        groups = definition.operand_groups(len(op.operands)) or []
        if any(len({o.type for o in op.operands[a:b]}) > 1 for _, a, b in groups):
            return "variadic operands of several types"
    return ""


def test_irdl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With our dialects as IRDL, mlir-opt verifies every program that IRDL can speak of."""
    file = tmp_path / "ngmlir.irdl.mlir"
    file.write_text(irdl.export(), encoding="utf-8")
    reasons = {name: _reason(program) for name, program in programs().items()}
    spoken = [programs()[name] for name, reason in reasons.items() if not reason]
    verified, messages = mlir_opt([to_text(m, generic=True) for m in spoken], f"--irdl-file={file}")
    assert messages == ""
    for one, other in zip(spoken, verified, strict=True):
        assert_alike(one, from_text(other))
    left = Counter(reason for reason in reasons.values() if reason)
    with capsys.disabled():
        rest = ", ".join(f"{count} have {reason}" for reason, count in sorted(left.items()))
        print(f"\nIRDL: mlir-opt verifies {len(spoken)} of {len(reasons)} programs; {rest}")
