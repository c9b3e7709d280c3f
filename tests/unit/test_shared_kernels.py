# SPDX-License-Identifier: Apache-2.0
"""Computations that have a part of the graph in common compile its kernels once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.codegen import objects as objects_module


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts of the kernels that LLVM is given from now on."""
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))
    seen: list[str] = []
    known = objects_module.assemble_all

    def watched(texts: Sequence[str], *rest: Any, **options: Any) -> list[bytes]:
        seen.extend(t for t in texts if ".entry(" not in t)  # the entries are of one program each
        return known(texts, *rest, **options)

    monkeypatch.setattr(objects_module, "assemble_all", watched)
    return seen


def test_what_two_computations_cut_alike_is_compiled_once(compiled: list[str]) -> None:
    N, C, K = (ng.make_axis(n, name) for n, name in ((5, "N"), (7, "C"), (3, "K")))
    x, w = ng.placeholder([N, C]), ng.variable([C, K], initial_value=np.arange(21).reshape(7, 3))
    loss = ng.mean(ng.square(ng.tanh(ng.dot(x, w))), out_axes=())
    transformer = ng.transformers.make_transformer_factory("cpu")()
    training = transformer.computation([loss, ng.deriv(loss, w)], x)
    value = transformer.computation(loss, x)
    array = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)
    first = training(array)[0]
    in_training = len(compiled)
    assert value(array) == first
    # The step also keeps what its gradient needs, so the product differs; the mean of what it gives does not.
    assert [in_training, len(compiled) - in_training] == [3, 1]
    transformer.computation([loss, ng.deriv(loss, w)], x)(array)
    assert len(compiled) == 4


def test_another_transformer_finds_them_too(compiled: list[str]) -> None:
    C = ng.make_axis(11, "C")
    x = ng.placeholder([C])
    y = ng.exp(x) * 3
    for _ in range(2):
        transformer = ng.transformers.make_transformer_factory("cpu")()
        np.testing.assert_allclose(
            transformer.computation(y, x)(np.ones(11)), np.full(11, 3 * np.e), rtol=1e-6
        )
    assert len(compiled) == 1
