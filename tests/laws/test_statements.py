# SPDX-License-Identifier: Apache-2.0
"""docs/nervana.md has every statement of the Nervana documents, with the tests that hold it, or says what holds instead."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "nervana.md").read_text(encoding="utf-8")
PROGRAMS = (ROOT / "tests" / "unit" / "test_nervana_documents.py").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([TBG]\d\d) \| (.+?) \| (.*?) ?\| (.+) \|$", re.MULTILINE)
STATEMENTS = {"T": 70, "B": 43, "G": 33}


def test_the_page_has_every_statement_once_and_in_order() -> None:
    expected = [f"{letter}{i:02}" for letter, last in STATEMENTS.items() for i in range(1, last + 1)]
    assert [row[0] for row in ROW.findall(PAGE)] == expected


def test_every_statement_has_the_tests_that_are_named_by_it() -> None:
    held: dict[str, list[str]] = defaultdict(list)
    for name, statements in re.findall(r"^def (test_((?:[TBG]\d\d_)+)\w+)", PROGRAMS, re.MULTILINE):
        for statement in statements.rstrip("_").split("_"):
            held[statement].append(name)
    assert {row[0]: re.findall(r"`(\w+)`", row[3]) for row in ROW.findall(PAGE)} == held


def test_what_differs_leads_to_the_reason() -> None:
    reasons = {title.rstrip(".") for title in re.findall(r"^- \*\*(.+?)\*\*", PAGE, re.MULTILINE)}
    assert {row[2] for row in ROW.findall(PAGE)} - {""} <= reasons
