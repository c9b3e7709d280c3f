# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/, with less training than a person would give them, and bars to match.

Their pages in docs/examples tell what a whole run reaches.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install 'ngmlir[demo]'")

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGES = Path(__file__).parents[2] / "docs" / "examples"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_every_program_has_a_page_and_a_test(path: Path) -> None:
    page = PAGES / f"{path.stem}.md"
    assert f"./run python examples/{path.name}" in page.read_text(encoding="utf-8")
    assert f"({page.name})" in (PAGES / "README.md").read_text(encoding="utf-8")
    assert f'program("{path.stem}")' in Path(__file__).read_text(encoding="utf-8")


def test_digits_mlp(capsys: pytest.CaptureFixture[str]) -> None:
    assert program("digits_mlp").main(epochs=25) >= 0.96  # 0.993 in the end
    assert "held-out digits are recognized" in capsys.readouterr().out


def test_digits_convnet() -> None:
    assert program("digits_convnet").main(epochs=8) >= 0.965  # 0.989 in the end


@pytest.mark.slow
def test_characters_lstm(capsys: pytest.CaptureFixture[str]) -> None:
    reached, bigrams = program("characters_lstm").main(iterations=300, length=200_000)
    assert reached < 0.9 * bigrams  # a fifth of the training, and of the text; 0.63 in the end
    assert len(capsys.readouterr().out.split("def ", 1)[1]) >= 300


@pytest.mark.slow
def test_digits_gan() -> None:
    far, kinds = program("digits_gan").main(iterations=150)
    assert far < 1.8 and kinds > 7  # 3.3 and 3.6 at the start; 1.2 and 9.9 in the end


def test_digits_autoencoder() -> None:
    reached, principal = program("digits_autoencoder").main(epochs=40)
    assert reached < 0.85 * principal


@pytest.mark.slow
def test_strings_ctc() -> None:
    assert program("strings_ctc").main(iterations=400) < 0.15  # 0.018 in the end


def test_edits_are_levenshteins() -> None:
    edits = program("strings_ctc").edits
    assert edits([], []) == 0 and edits([1, 2], []) == 2 and edits([], [3]) == 1
    assert (
        edits([1, 2, 3], [1, 3]) == 1 and edits([1, 2, 3], [2, 3, 1]) == 2 and edits([5, 5], [5, 6, 5]) == 1
    )
    draw = np.random.default_rng(0)
    for _ in range(20):  # the distance is symmetric, and no greater than the longer string
        a, b = ([*map(int, draw.integers(0, 3, draw.integers(0, 6)))] for _ in range(2))
        assert edits(a, b) == edits(b, a) <= max(len(a), len(b))


def test_language_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert program("language_model").main(prompt="vw") == "xyz"
    assert capsys.readouterr().out == "vwxyz\n"
