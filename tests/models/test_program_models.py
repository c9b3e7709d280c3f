# SPDX-License-Identifier: Apache-2.0
"""The models of `examples/programs` learn: each reaches its bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


@pytest.fixture(autouse=True)
def examples() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def run(name: str, *arguments: Any, **named: Any) -> float:
    return import_module(name).main(*arguments, **named)


def test_fit_a_line() -> None:
    assert run("fit_a_line") <= 3350  # least squares 3250.5


@pytest.mark.parametrize(("network", "bar"), [("mlp", 0.95), ("conv", 0.965)])
def test_recognize_digits(network: str, bar: float) -> None:
    module = import_module("recognize_digits")
    assert module.main(getattr(module, network)) >= bar  # logistic regression 0.975


@pytest.mark.parametrize("network", ["resnet", "vgg"])
def test_image_classification(network: str) -> None:
    module = import_module("image_classification")
    assert module.main(getattr(module, network), passes=3) >= 0.965


def test_word2vec() -> None:
    assert run("word2vec", passes=1) < 5.3  # the frequencies of words 5.93, of pairs 5.28


def test_recommender_system() -> None:
    assert run("recommender_system", passes=2) < 18.8  # the mean of each item 18.86
