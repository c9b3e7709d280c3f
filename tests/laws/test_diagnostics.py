# SPDX-License-Identifier: Apache-2.0
"""Every message of the verifier and of the type rules is met by a text test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("ir/verifier.py", "ops/ng_rules.py", "ops/tile_rules.py")
#: The functions that report, and which of their arguments is the message.
REPORTS = {"require": 1, "fits": 0, "say": 1, "Diagnostic": 0, "append": 0}


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, pattern) of each message that a module writes; what it fills in can be anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in REPORTS:
                yield from _pattern(node.args[REPORTS[name]])
        elif isinstance(node, ast.List):  # a function that gives all that it has to complain about
            for item in node.elts:
                yield from _pattern(item)


def _pattern(node: ast.expr) -> Iterator[tuple[int, str]]:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    if all(isinstance(p, (ast.FormattedValue, ast.Constant)) for p in parts):
        texts = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts)
        yield node.lineno, "".join(texts)


def announced() -> str:
    """What the text tests say that a run will say."""
    texts = (
        file.read_text(encoding="utf-8")
        for ending in ("ngir", "test")
        for file in sorted((ROOT / "lit_tests").rglob(f"*.{ending}"))
    )
    return "\n".join(line for text in texts for line in re.findall(r"(?:expected-|CHECK).*", text))


@pytest.mark.parametrize("source", SOURCES)
def test_every_message_is_announced(source: str) -> None:
    text, said = (ROOT / "src" / "ngmlir" / source).read_text(encoding="utf-8"), announced()
    missing = [f"{source}:{n}: {p}" for n, p in messages(ast.parse(text)) if not re.search(p, said)]
    assert missing == []


def test_the_law_sees_messages() -> None:
    text = 'say(op, "one")\nx.require(a < b, f"two {a} words")\nbad = [f"{three}!"]\nsay(op, message)\n'
    assert sorted(messages(ast.parse(text))) == [(1, "one"), (2, r"two\ .+\ words"), (3, ".+!")]
