# SPDX-License-Identifier: Apache-2.0
"""Compiled programs are found on disk by their text: the right ones, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir.programs.definition import Definition
from ngmlir.programs.registry import REGISTRY
from ngmlir.transformers import compiled_programs

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The programs that were lowered, with a cache that begins empty."""
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path / "cache"))
    seen: list[Any] = []
    lower = compiled_programs.lower
    monkeypatch.setattr(
        compiled_programs, "lower", lambda program, **how: (seen.append(program), lower(program, **how))[1]
    )
    yield seen


def network(scale: float = 2.0) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.layers.data("x", [4])
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.scale(x, scale), 3, act="tanh"))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return main, startup, loss


def trained(place: fluid.Place | None = None, **changes: Any) -> list[float]:
    main, startup, loss = network(**changes)
    exe, scope = fluid.Executor(place or fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    return [float(exe.run(main, {"x": X}, [loss], scope=scope)[0][0]) for _ in range(3)]


def test_a_program_of_the_same_text_is_not_lowered_again(lowered: list[Any]) -> None:
    first = trained()
    assert len(lowered) == 2  # the start-up program and the step
    assert trained() == first and len(lowered) == 2


def test_a_program_that_changed_is_another_one(lowered: list[Any]) -> None:
    first = trained()
    assert trained(scale=2.5) != first and len(lowered) == 3  # the start-up program is the same


def test_each_first_shape_and_fetch_is_a_program(lowered: list[Any]) -> None:
    main, startup, loss = network()
    for _ in range(2):
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(startup, scope=scope)
        exe.run(main, {"x": X}, [loss], scope=scope)
        exe.run(main, {"x": X}, [loss, "x"], scope=scope)
        fluid.Executor().run(main, {"x": X[:2]}, [loss], scope=scope)
        assert len(lowered) == 4


def test_an_uninitialized_variable_is_told_of_a_program_from_disk(lowered: list[Any]) -> None:
    trained()
    main, _, loss = network()
    with pytest.raises(ng.UserError) as found:
        fluid.Executor().run(main, {"x": X}, [loss], scope=fluid.Scope())
    assert "has no value in this scope" in str(found.value) and "start-up program" in str(found.value)
    assert len(lowered) == 2


def test_what_users_register_is_not_kept(lowered: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    known = REGISTRY.get("scale")
    own = Definition(known.entry, lambda x, **named: known.build(x, **named))  # pyright: ignore[reportOptionalCall]
    monkeypatch.setitem(REGISTRY.definitions, "scale", own)
    first = trained()
    assert trained() == first and len(lowered) == 3  # the start-up program has none


def test_other_targets_are_not_kept(lowered: list[Any]) -> None:
    trained(fluid.NumpyPlace())
    trained(fluid.NumpyPlace())
    assert len(lowered) == 4
