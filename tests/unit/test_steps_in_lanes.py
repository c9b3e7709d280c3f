# SPDX-License-Identifier: Apache-2.0
"""Steps of recurrent networks in lanes: which steps compute each row by itself, and that these give what steps of all sequences give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.programs import recurrent

layers = fluid.layers
LENGTHS = [3, 0, 7, 1, 2, 2, 5, 1]
#: A step: of the network, a row, a memory, and the inputs of the network beside its sequences.
Step = Callable[[Any, Any, Any, dict[str, Any]], Any]


def fc(x: Any, name: str) -> Any:
    return layers.fc(x, 4, param_attr=fluid.ParamAttr(name=name), bias_attr=False, act="tanh")


def simple(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row + before * 0.5)


def parameters(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.softmax(fc(row, "w") + fc(before, "w") * 2.0) * layers.reduce_sum(before, 1, keep_dim=True)


def fixed(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row + before * layers.sigmoid(fc(rnn.static_input(beside["rows"]), "w")))


def what_memories_begin_as(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row + before * beside["begin"])


def in_parts(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    parts = layers.reshape(layers.concat([row, before], axis=1), [-1, 2, 4])
    return layers.reduce_max(layers.transpose(parts, [0, 2, 1]), 2)


def means_of_all(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row - layers.reduce_mean(before, 0) + before)


def sums_so_far(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row + layers.cumsum(before, axis=0) * 0.1)


def products_of_rows(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(layers.matmul(layers.matmul(row, before, transpose_y=True), before) + row)


def the_whole(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(row + before + layers.reduce_sum(beside["x"]) * 0.1)


def as_many_sequences(rnn: Any, row: Any, before: Any, beside: dict[str, Any]) -> Any:
    return layers.tanh(layers.reshape(layers.reshape(row, [2 * len(LENGTHS), -1]), [-1, 4]) + before)


APART: list[Step] = [simple, parameters, fixed, what_memories_begin_as, in_parts, the_whole]
TOGETHER: list[Step] = [means_of_all, sums_so_far, products_of_rows, as_many_sequences]


def built(step: Step) -> tuple[Any, list[Any]]:
    """What a network over such steps gives, and its first and second derivatives."""
    x = layers.data("x", [4], dtype="float64", lod_level=1, stop_gradient=False)
    rows = layers.data("rows", [4], dtype="float64", stop_gradient=False)
    begin = layers.data("begin", [4], dtype="float64", stop_gradient=False)
    rnn = layers.DynamicRNN()
    with rnn.block():
        row, before = rnn.step_input(x), rnn.memory(init=begin)
        hidden = step(rnn, row, before, {"x": x, "rows": rows, "begin": begin})
        rnn.update_memory(before, hidden)
        rnn.output(hidden, before)
    out, seen = rnn()
    loss = layers.reduce_sum(layers.square(out)) + layers.reduce_sum(seen)
    slopes = [s for s in fluid.calc_gradient(loss, [x, rows, begin]) if s is not None]
    size = layers.sums([layers.reduce_sum(layers.square(s)) for s in slopes])
    again = [s for s in fluid.calc_gradient(size, [x, rows, begin]) if s is not None]
    return out, [seen, *slopes, *again]


def results(step: Step, place: Any, lengths: Sequence[int], used: list[bool]) -> list[Any]:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        out, others = built(step)
        rng, executor = np.random.default_rng(0), fluid.Executor(place)
        executor.run(fluid.default_startup_program())
        for name in fluid.global_scope().local_var_names():
            held = fluid.global_scope().find_var(name).get_tensor()
            if np.array(held).ndim == 2:
                held.set(rng.normal(size=np.array(held).shape), place)
        x = fluid.create_lod_tensor(rng.normal(size=(sum(lengths), 4)), [list(lengths)], place)
        beside = {n: rng.normal(size=(len(lengths), 4)) for n in ("rows", "begin")}
        found = executor.run(feed={"x": x, **beside}, fetch_list=[out, *others], return_numpy=False)
        return [np.array(each) for each in found]


@pytest.mark.parametrize("step", [*APART, *TOGETHER], ids=lambda step: step.__name__)
@pytest.mark.parametrize("place", [fluid.NumpyPlace(), fluid.CPUPlace()], ids=["numpy", "cpu"])
def test_lanes_give_what_sequences_give(step: Step, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bool] = []
    whole = recurrent._in_lanes  # pyright: ignore[reportPrivateUsage]

    def watched(*given: Any) -> Any:
        made = whole(*given)
        used.append(made is not None)
        return made

    monkeypatch.setattr(recurrent, "_in_lanes", watched)
    found = results(step, place, LENGTHS, used)
    # The program that runs is the last one that was built; those before find out which lengths are one.
    assert used[-1] if step in APART else not any(used)
    monkeypatch.setattr(recurrent, "_in_lanes", lambda *given: None)  # pyright: ignore[reportUnknownLambdaType]
    for one, other in zip(found, results(step, place, LENGTHS, used), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
