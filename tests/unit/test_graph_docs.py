# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/graph.md do what the page says."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples() -> None:
    page = Path(__file__).parents[2] / "docs" / "graph.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 30 and result.failed == 0
