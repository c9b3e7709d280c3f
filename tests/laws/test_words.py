# SPDX-License-Identifier: Apache-2.0
"""Documents, help, messages and comments use standard terms: the tables have expressions that readers of MLIR, LLVM, CUDA, NumPy and
PyTorch had to look up, and what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    p
    for pattern in ("*.md", "docs/**/*.md", "dialects/*.md", "lowering/*.md", "bench/*.md")
    for p in ROOT.glob(pattern)
    if p.name != "CHANGELOG.md"
)
SOURCES = sorted((ROOT / "src" / "ngmlir").rglob("*.py"))
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Expression -> standard term.
TERMS = {
    r"\blistens? to\b": "reads (environment variables)",
    r"\blandings?\b": "stage",
    r"\bno whole number of\b": "not a multiple of",
    r"\bas a rule\b": "usually, or median",
    r"\bwhat lacks\b": "unsupported",
    r"\b(?:is|are) cut (?:as|by|so)\b": "has the schedule, is tiled",
    r"\bkept from call to call\b": "kept between calls",
    r"\b(?:lies?|lie) row by row\b": "is contiguous",
    r"\bin one piece\b": "contiguous",
    r"\bcomputed apart\b": "independent",
    r"\b(?:does|do|will) not come to an end\b": "does not terminate",
    r"\bnothing is called\b": "there is no ... called",
    r"\bknown while compiling\b": "at compile time",
    r"\bunder way\b": "in flight, running",
    r"\bmen(?:d|ds|ded) (?:the|it)\b": "fix",
    r"\bwritten down\b|\bwrote down\b": "recorded",
    r"\bthe house\b|\bthe walk of\b": "architecture, path",
    r"\bspares? both\b": "leaves both in place",
    r"\bleft out of the ways?\b": "omitted",
}
#: The same for comments and docstrings.
COMMENT_TERMS = {
    r"\bin vain\b": "unused",
    r"\banother matter\b|\bto and fro\b": "(say what differs)",
    r"\bturned round\b": "reversed, negated",
    r"\bas (?:it|they) lies?\b": "in memory order, without a copy",
    r"\blies? (?:in|at|where|beside|behind|apart|side)\b": "is in, is contiguous along",
    r"\bwhat stands\b": "the elements, the op",
    r"\bcosts? nothing\b": "is free",
    r"\bhand(?:ed|s)? on\b": "carries, propagates, passes",
    r"\banew\b": "again",
    r"(?<!`)\bbeside\b(?!`)": "next to, in addition to",
    r"\bnobody\b": "not ... (passive)",
    r"\bside by side\b": "adjacent, in parallel",
    r"\bnear cache\b": "L1 cache",
}


def prose(path: Path) -> str:
    """A page without its code."""
    return FENCE.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of the strings of a module that are sentences: docstrings and embedded programs aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    aside = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in aside:
            if " " in node.value and node.value.count("\n") < 3:
                yield node.lineno, node.value


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_use_standard_terms(path: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {term!r}"
        for number, line in enumerate(prose(path).splitlines(), 1)
        for pattern, term in TERMS.items()
        if (match := re.search(pattern, line, re.IGNORECASE))
    ]
    assert not found, "\n".join(found)


def test_messages_use_standard_terms() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {term!r}"
        for path in SOURCES
        for number, text in messages(path)
        for pattern, term in TERMS.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ]
    assert not found, "\n".join(found)


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of the docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield node.body[0].lineno if node.body else 1, ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_comments_use_standard_terms() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {term!r}"
        for path in SOURCES
        for number, text in comments(path)
        for pattern, term in {**TERMS, **COMMENT_TERMS}.items()
        if (match := re.search(pattern, " ".join(text.split()), re.IGNORECASE))
    ]
    assert not found, "\n".join(found)
