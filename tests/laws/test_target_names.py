# SPDX-License-Identifier: Apache-2.0
"""Names of targets are compared only where targets are described; all others ask a `Device` or a `Target` what it has. Passes have
one question for whether threads share tiles, and numbers about machines say where they come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ngmlir.runtime.targets import DEVICES
from ngmlir.support.machines import machines

SOURCE = Path(__file__).parents[2] / "src" / "ngmlir"
#: Where targets are described, and where LLVM is told which one it is.
DESCRIBED = {
    "runtime/targets.py",
    "support/target.py",
    "support/machines.py",
    "llvm/machine.py",
    "llvm/native.py",
}
NAMES = {*DEVICES, "nvptx", *machines().named}
#: What the names of several targets begin with.
BEGINS = ("cuda", "nvptx", "sm_", "x86-64", "x86_64", "aarch64")
#: Methods of strings that look for a part.
PARTS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "find", "index"}


def words(node: ast.AST) -> Iterator[str]:
    """The texts that a comparison is with."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from words(part)
        case _:
            pass


def comparisons(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of each comparison with the name of a target."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                found = [w for each in (left, *others) for w in words(each) if w in NAMES]
            case ast.MatchValue(value=value):
                found = [w for w in words(value) if w in NAMES]
            case ast.Call(func=ast.Attribute(attr=method), args=arguments) if method in PARTS:
                found = [w for each in arguments for w in words(each) if w in NAMES or w.startswith(BEGINS)]
            case _:
                continue
        yield from ((getattr(node, "lineno", 0), word) for word in found)


def test_names_of_targets_are_compared_where_targets_are_described() -> None:
    found = [
        f"{place}:{line}: {name!r}"
        for file in sorted(SOURCE.rglob("*.py"))
        if (place := file.relative_to(SOURCE).as_posix()) not in DESCRIBED
        for line, name in comparisons(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not found, "ask the device or the target what it has:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "if target == 'cpu': pass",
        "ok = 'numpy' != self.target",
        "ok = kind in ('cuda', 'other')",
        "ok = target.code == 'nvptx'",
        "ok = name.startswith('cuda:')",
        "number = name.removeprefix('sm_')",
        "match target:\n  case 'cuda-sim': pass",
        "ok = target.name == 'x86-64-v3'",
    ],
)
def test_the_law_sees(code: str) -> None:
    assert len(list(comparisons(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code", ["target = 'cpu'", "ok = place == 'moon'", "f(target='cpu')", "x = {'cpu': 1}"]
)
def test_the_law_leaves_alone(code: str) -> None:
    assert not list(comparisons(ast.parse(code)))


#: Counts and kinds that are zero, or no, on CPUs: to ask whether they are is to ask `has_thread_blocks` in other words.
ALIASES = {"multiprocessors", "is_gpu", "shared_bytes"}


def truths(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, attribute) of what is asked for being true."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                asked = [test]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                asked = [operand]
            case ast.BoolOp(values=values):
                asked = values
            case _:
                continue
        yield from ((each.lineno, each.attr) for each in asked if isinstance(each, ast.Attribute))


def test_passes_ask_in_one_way_whether_threads_share_tiles() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {name}"
        for file in sorted((SOURCE / "passes").rglob("*.py"))
        for line, name in truths(ast.parse(file.read_text(encoding="utf-8")))
        if name in ALIASES
    ]
    assert not found, "ask has_thread_blocks, or what is needed of the target:\n" + "\n".join(found)
    assert [*truths(ast.parse("if not target.multiprocessors: pass"))] == [(1, "multiprocessors")]


def test_numbers_about_machines_say_where_they_come_from() -> None:
    text = (SOURCE / "support" / "machines.py").read_text(encoding="utf-8")
    found = re.findall(r"((?:^#:.*\n)+)^([A-Z][A-Z_, ]+) = ", text, re.MULTILINE)
    assert len(found) == len(re.findall(r"^[A-Z][A-Z_, ]+ = ", text, re.MULTILINE)) > 5
    told = ("#: *Hardware:*", "#: *Measured on a device", "#: *Simulated", "#: *Guessed:*")
    assert [name for comment, name in found if not comment.startswith(told)] == []
