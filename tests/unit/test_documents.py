# SPDX-License-Identifier: Apache-2.0
"""The Python examples of the README and of the documents do what the pages say."""

from __future__ import annotations

import doctest
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
        ("docs/layers.md", 40),
        ("docs/networks.md", 5),
        ("docs/numpy.md", 30),
        ("docs/programs.md", 15),
        ("docs/simple.md", 25),
        ("docs/sizes.md", 8),
    ],
)
def test_examples(page: str, least: int) -> None:
    result = doctest.testfile(str(Path(__file__).parents[2] / page), module_relative=False)
    assert result.attempted > least and result.failed == 0
