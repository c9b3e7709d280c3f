# SPDX-License-Identifier: Apache-2.0
"""Weight normalization, clips inside the backward walk, and variables that are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

Array = np.ndarray[Any, Any]
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]


def _run(
    place: fluid.Place, main: fluid.Program, startup: fluid.Program, x: Array, fetched: Sequence[Any]
) -> tuple[fluid.Scope, list[Array]]:
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        executor = fluid.Executor(place)
        executor.run(startup)
        return scope, executor.run(main, feed={"x": x}, fetch_list=list(fetched))


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_a_normalized_weight(dim: int | None, place: fluid.Place) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data("x", [3])
        attr = fluid.WeightNormParamAttr(dim=dim, name="w")
        out = fluid.layers.fc(x, 4, param_attr=attr, bias_attr=False)
        pairs = fluid.append_backward(fluid.layers.mean(fluid.layers.square(out)))
    assert {p.name for p, _ in pairs} == {"w_g", "w_v"}
    given = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    scope, (y, dg, dv) = _run(place, main, startup, given, [out, "w_g@GRAD", "w_v@GRAD"])
    v, g = (np.array(scope.tensor(name)).astype(np.float64) for name in ("w_v", "w_g"))
    over = tuple(at for at in range(2) if at != dim)
    norm = np.sqrt((v * v).sum(over, keepdims=True))
    assert g.shape == norm.shape and np.allclose(g, norm, rtol=1e-6)
    assert np.allclose(y, given @ v, rtol=1e-5, atol=1e-6)  # at the start w is v
    dw = given.T @ (2 * (given @ v) / 20)
    along = (dw * v / norm).sum(over, keepdims=True)
    assert np.allclose(dg, along, rtol=1e-4, atol=1e-6)
    assert np.allclose(dv, g / norm * (dw - along * v / norm), rtol=1e-4, atol=1e-6)


def test_a_dimension_that_a_weight_does_not_have() -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises(UserError, match="2 dimensions"),
    ):
        fluid.layers.fc(fluid.layers.data("x", [3]), 4, param_attr=fluid.WeightNormParamAttr(dim=2))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_gradient_of_a_variable_is_clipped_before_it_is_read(place: fluid.Place) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data("x", [3])
        hidden = fluid.layers.fc(x, 1, param_attr="w", bias_attr=False)
        hidden.error_clip = fluid.clip.ErrorClipByValue(0.25)
        # Two contributions, 1/2 each, of which the sum is clipped.
        loss = fluid.layers.mean(hidden + fluid.layers.scale(hidden, 1.0))
        fluid.optimizer.SGD(0.0).minimize(loss)
    given = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    _, (dw,) = _run(place, main, startup, given, ["w@GRAD"])
    assert np.allclose(dw[:, 0], 0.25 * given.sum(0))
    assert [o.type for o in main.global_block().ops].count("clip") == 1
    assert "clip" not in [o.type for o in main.clone(for_test=True).global_block().ops]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_variables_and_gradients_are_printed(place: fluid.Place, capsys: pytest.CaptureFixture[str]) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data("x", [3], stop_gradient=False)
        shown = fluid.layers.Print(x, message="here", summarize=2, first_n=2)
        fluid.layers.Print(fluid.layers.scale(x, 2.0), print_phase="forward", print_tensor_type=False)
        fluid.append_backward(fluid.layers.mean(shown))
    executor = fluid.Executor(place)
    for _ in range(3):
        assert executor.run(main, feed={"x": np.array([[1, 2, 3]], np.float32)}) == []
    said = capsys.readouterr().out
    assert said.count("here") == 4  # value and gradient, twice
    assert "variable x\n  element type: float32\n  shape: [1, 3]\n  elements: 1.0, 2.0, ...\n" in said
    assert said.count("variable x@GRAD") == 2
    assert said.count("  shape: [1, 3]\n  elements: 2.0, 4.0, 6.0\n") == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_seed_repeats_what_is_drawn(when: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3 if when == "before" else 0
    with fluid.program_guard(main, startup):
        dropped = fluid.layers.dropout(fluid.layers.fc(fluid.layers.data("x", [64]), 64, param_attr="w"), 0.5)
    main.random_seed = startup.random_seed = 3
    x = np.ones((2, 64), np.float32)
    runs = [_run(place, main, startup, x, [dropped]) for place in (*PLACES, PLACES[0])]
    weights = [np.array(scope.tensor("w")) for scope, _ in runs]
    for (_, (out,)), w in zip(runs, weights, strict=True):
        assert np.array_equal(w, weights[0]) and np.array_equal(out == 0, runs[0][1][0] == 0)
