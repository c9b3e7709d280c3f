# SPDX-License-Identifier: Apache-2.0
"""The Python examples of the README and of the documents do what the pages say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "page, least",
    [
        ("README.md", 10),
        ("docs/families.md", 50),
        ("docs/from-pytorch.md", 60),
        ("docs/graph.md", 30),
        ("docs/ir.md", 3),
        ("docs/language-models.md", 15),
        ("docs/layers.md", 40),
        ("docs/networks.md", 5),
        ("docs/operators-of-your-own.md", 12),
        ("docs/numpy.md", 30),
        ("docs/programs.md", 17),
        ("docs/quantised.md", 22),
        ("docs/ragged.md", 30),
        ("docs/simple.md", 25),
        ("docs/sizes.md", 8),
    ],
)
@pytest.mark.usefixtures("programs")
def test_examples(page: str, least: int) -> None:
    result = doctest.testfile(str(Path(__file__).parents[2] / page), module_relative=False)
    assert result.attempted > least and result.failed == 0


def test_the_capabilities_of_programs_have_the_tests_that_are_named() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "internals" / "program-capabilities.md").read_text(encoding="utf-8")
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == list(range(1, 50))
    for name in re.findall(r"`((?:lit_tests|tests)/[^`]+)`", page):
        assert (root / name).exists(), name
    for file, test in re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", page):
        text = (root / "tests" / "unit" / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, test
