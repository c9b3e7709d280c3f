# SPDX-License-Identifier: Apache-2.0
"""The target tables of lowering/ are true: what they call legal compiles, and every op has its place in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import OPS, wrapped

from ngmlir.compiler import emit, lower, resolve
from ngmlir.decl.target_text import load_target, read_target
from ngmlir.ir.core import Block, Module, Op, module
from ngmlir.ir.types import (
    TensorType,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    ui8,
    ui16,
    ui32,
    ui64,
)
from ngmlir.ir.verifier import check
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.decompositions import DECOMPOSITIONS
from ngmlir.ops.library import LIBRARY
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

TARGETS = {"cpu": "x86-64-v3", "nvptx": "sm_90a"}
TYPES: tuple[Type, ...] = (f16, bf16, f32, f64, i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1)
PRIMITIVE = {name: op for name, op in OPS.items() if name.startswith("ng.") and name not in DECOMPOSITIONS}


def traits(op: type[Op]) -> frozenset[str]:
    assert op.definition is not None
    return op.definition.traits


ELEMENTWISE = [name for name, op in PRIMITIVE.items() if "elementwise" in traits(op)]


def program(op: type[Op], element: Type) -> Module | None:
    """The op alone on tensors of one element type; None where it takes none of these."""
    definition = op.definition
    assert definition is not None
    wide = TensorType((33,), element)
    types = [TensorType((33,), i1) if o.constraint.element == "bool" else wide for o in definition.operands]
    if not all(o.constraint.accepts(t) for o, t in zip(definition.operands, types, strict=True)):
        return None
    block = Block(types, [o.name for o in definition.operands])
    builder = Builder(block)
    results = builder.build(op, block.args, {}, types=[wide] if "stated" in definition.traits else None)
    builder.end(func.ReturnOp, *results)
    made = module([function("main", block)])
    check(made)
    return made


@pytest.mark.parametrize("name", TARGETS)
def test_every_primitive_op_has_its_place(name: str) -> None:
    known = {op for op in OPS if op.startswith("ng.")}
    assert set(PRIMITIVE) <= set(load_target(name).ops) <= known


@pytest.mark.parametrize("name", TARGETS)
def test_the_library_has_the_ops_of_mathematics(name: str) -> None:
    table = load_target(name)
    library = {op for op, entries in table.ops.items() if entries[0].how == "library"}
    assert library == LIBRARY & set(PRIMITIVE)


@pytest.mark.parametrize("op", ELEMENTWISE)
@pytest.mark.parametrize("name", TARGETS)
def test_elementwise_ops_compile_as_the_table_says(name: str, op: str) -> None:
    table, target = load_target(name), resolve(TARGETS[name])
    taken = 0
    for element in TYPES:
        made = program(PRIMITIVE[op], element)
        if made is None:
            continue
        taken += 1
        assert table.how(op, element) in ("legal", "library"), (
            f"{op} of {element} has no place in {name}.target"
        )
        emit(lower(made, target), target)
    assert taken


@pytest.mark.parametrize(
    "op", sorted(set(PRIMITIVE) - set(ELEMENTWISE) - {"ng.constant", "ng.yield", "ng.fusion"})
)
@pytest.mark.parametrize("name", TARGETS)
def test_examples_compile_as_the_table_says(name: str, op: str) -> None:
    target = resolve(TARGETS[name])
    example = from_text(wrapped(PRIMITIVE[op]), file="f.ngir")
    emit(lower(example, target), target)


def test_a_later_line_decides(tmp_path: Path) -> None:
    (tmp_path / "a.target").write_text("legal float: ng.exp ng.log\nlibrary f64: ng.exp\n")
    (tmp_path / "b.target").write_text("refused f32:\n    ng.log\nas a\n")
    table = read_target(tmp_path / "b.target", OPS)
    assert (table.how("ng.exp", f32), table.how("ng.exp", f64)) == ("legal", "library")
    assert (table.how("ng.log", f32), table.how("ng.log", f16), table.how("ng.exp", i8)) == (
        "refused",
        "legal",
        None,
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("legal float ng.exp", "expected: legal element ...: op ...", "the first word: as, legal"),
        ("legal: ng.exp", "expected: legal element", ""),
        ("legl float: ng.exp", "unknown word 'legl'", "one of as, legal, library, refused"),
        ("legal flot: ng.exp", "unknown element 'flot'", "did you mean float?"),
        ("legal float: ng.expo", "unknown op 'ng.expo'", "did you mean ng.exp"),
        ("as nothing", "there is no other table 'nothing.target'", ""),
        ("as x", "there is no other table 'x.target'", ""),
    ],
)
def test_a_wrong_line(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = tmp_path / "x.target"
    path.write_text(f"# one\n{text}\n")
    with pytest.raises(UserError) as caught:
        read_target(path, OPS)
    (found,) = caught.value.diagnostics
    assert message in found.message and hint in found.hint and found.location.line == 2
