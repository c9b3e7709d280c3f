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
        ("docs/ranks.md", 25),
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
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 50))
    for number, described, held in rows:
        assert "](" in described, number  # test_docs.py follows the links
        file, tests = None, 0
        for word in re.findall(r"`([^`]+)`", held):
            name, _, test = word.partition("::")
            if name.startswith(("lit_tests/", "tests/")) or name.endswith(".py"):
                file = root / (name if "/" in name else f"tests/unit/{name}")
                assert file.exists(), (number, name)
                tests += file.suffix == ".ngir"
            elif name.startswith("test_"):
                test = name
            if test:
                assert file is not None and f"def {test}(" in file.read_text(encoding="utf-8"), (number, test)
                tests += 1
        assert tests, number
