# SPDX-License-Identifier: Apache-2.0
"""What an entry of a dialect says about numbers is read, and what is wrong is told at its line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ngmlir.decl.dialect_text import KINDS, OpText, read_dialect
from ngmlir.ir.definition import (
    CONTAINER_WORDS,
    CONTAINERS,
    ELEMENT_WORDS,
    ELEMENTS,
    KIND_WORDS,
    Constraint,
    Domain,
)
from ngmlir.ops.words import WORDS
from ngmlir.support.diagnostics import UserError

ENTRY = """dialect d "One sentence."
op pair(lhs: T, rhs: T) -> T
  where T: value(float)
  traits pure elementwise
  {}
  doc Something.
  example %r = d.pair %a, %b : f32
"""


def read(folder: Path, line: str) -> OpText:
    path = folder / "d.ngd"
    path.write_text(ENTRY.format(line), encoding="utf-8")
    (op,) = read_dialect(path).ops
    return op


def test_an_operand_without_a_line_is_at_home_everywhere(tmp_path: Path) -> None:
    op = read(tmp_path, "domain rhs: 0.5..4 ordinary")
    assert [o.domain for o in op.operands] == [Domain(-4, 4, True), Domain(0.5, 4, False)]


def test_both_operands_on_one_line(tmp_path: Path) -> None:
    op = read(tmp_path, "domain lhs: -1e-3..1e3 ordinary  rhs: -.5..2")
    assert [o.domain for o in op.operands] == [Domain(-0.001, 1000, False), Domain(-0.5, 2, True)]


def test_errors_and_points(tmp_path: Path) -> None:
    assert read(tmp_path, "error f32 1.5, f64 0.5").errors == [("f32", 1.5), ("f64", 0.5)]
    ((given, found), other) = read(tmp_path, "at -0.0 -1 = -inf, nan 0 = 1").points
    assert given == (0, -1) and math.copysign(1, given[0]) == -1 and found == -math.inf
    assert math.isnan(other[0][0]) and other[1] == 1


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("domain left: 0..1", "op pair has no operand 'left'", "lhs, rhs"),
        ("domain lhs: 0", "expected 'operand: low..high [ordinary|rising]' at 'lhs: 0'", "domain input"),
        ("domain lhs: 0..1 usual", "expected 'operand: low..high [ordinary|rising]' at 'usual'", ""),
        ("domain lhs: 4..1", "4..1 is no range", "the lesser first"),
        ("domain lhs: 0..inf", "0..inf is no range", ""),
        ("domain lhs: nan..1", "nan..1 is no range", ""),
        ("domain lhs: zero..1", "'zero' is not a number", ""),
        ("domain lhs: 0..1..2", "'1..2' is not a number", ""),
        ("error f32", "expected 'element ulps', found 'f32'", "error f32 1.5"),
        ("error i32 1", "expected 'element ulps', found 'i32 1'", ""),
        ("error f32 0.25", "no rounding errs by only 0.25", ""),
        ("error f32 nan", "no rounding errs by only nan", ""),
        ("at 0 = 1", "expected 2 numbers, '=' and the result, found '0 = 1'", ""),
        ("at 0 0", "expected 2 numbers", ""),
        ("at 0 pi = 1", "'pi' is not a number", ""),
        ("domein lhs: 0..1", "unknown word 'domein'", "domain"),
    ],
)
def test_a_wrong_line(tmp_path: Path, line: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, line)
    (found,) = caught.value.diagnostics
    assert message in found.message and hint in found.hint
    assert (found.location.file, found.location.line) == (str(tmp_path / "d.ngd"), 5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("traits math", "does not say its error in f32 and f64"),
        ("traits flat stops", "is either flat or stops gradients"),
        ("function a b", "'a b' is no name of a function"),
    ],
)
def test_a_wrong_entry(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, line)


def test_messages_say_every_notation_in_words() -> None:
    """What an operand or an attribute must be is never told in the notation of the dialect files."""
    assert CONTAINER_WORDS.keys() == CONTAINERS.keys() and ELEMENT_WORDS.keys() == ELEMENTS.keys()
    assert set(KINDS) == KIND_WORDS.keys()
    assert Constraint("value(float)", "value", "float").words == "a tensor, vector or scalar of floats"
    assert Constraint("any(token)", "any", "token").words == "!tile.token"
    for op in WORDS.values():
        assert op.definition is not None
        for operand in op.definition.operands + op.definition.results:
            assert "(" not in operand.constraint.words
        for field in op.definition.attributes:
            assert field.words != field.kind and "|" not in field.words
