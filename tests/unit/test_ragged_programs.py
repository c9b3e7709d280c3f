# SPDX-License-Identifier: Apache-2.0
"""Ragged variables of programs: what is fed and fetched, what keeps its raggedness, and offsets that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import layers
from ngmlir.support.diagnostics import UserError

pytestmark = pytest.mark.usefixtures("programs")


def tensor(rows: Any, lengths: Sequence[Sequence[int]]) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.asarray(rows), lengths, fluid.CPUPlace())


def run(feed: dict[str, Any], fetch: Sequence[Any]) -> list[Any]:
    return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=fetch, return_numpy=False)


def test_offsets_of_the_document() -> None:
    made = tensor(np.zeros((15, 1), np.float32), [[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    assert made.lod() == [[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]]


def test_rows_keep_their_raggedness() -> None:
    x = layers.data("x", [3], lod_level=2, stop_gradient=False)
    once = layers.fc(x, 4, act="tanh")
    twice = layers.elementwise_add(once, once)
    loss = layers.mean(twice)
    fluid.append_backward(loss)
    assert [v.lod_level for v in (once, twice, loss)] == [2, 2, 0]
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    lengths = [[2, 0, 1], [2, 0, 3]]
    for found in run({"x": tensor(np.ones((5, 3), np.float32), lengths)}, [twice, "x@GRAD"]):
        assert found.recursive_sequence_lengths() == lengths
    assert run({"x": tensor(np.ones((5, 3), np.float32), lengths)}, [loss])[0].lod() == []


@pytest.mark.parametrize("lengths", [[3, 0, 1], [4], [0, 0], []])
def test_any_number_of_sequences(lengths: list[int]) -> None:
    x = layers.data("x", [2], lod_level=1)
    y = layers.scale(x, 2.0)
    rows = np.arange(2.0 * sum(lengths), dtype=np.float32).reshape(-1, 2)
    (found,) = run({"x": tensor(rows, [lengths])}, [y])
    assert np.array_equal(np.array(found), 2 * rows)
    assert found.recursive_sequence_lengths() == [lengths]


def test_a_ragged_result_is_no_array() -> None:
    x = layers.data("x", [2], lod_level=1)
    y = layers.scale(x, 2.0)
    with pytest.raises(UserError, match=r"is ragged, and an array has no offsets[\s\S]*return_numpy=False"):
        fluid.Executor(fluid.CPUPlace()).run(
            feed={"x": tensor(np.zeros((1, 2), np.float32), [[1]])}, fetch_list=[y]
        )


WRONG = [
    ([[0, 2, 4]], "the offsets of level 0 of 'x' end with 4, and there are 5 rows"),
    ([[0, 2, 5], [0, 2, 5]], "'x' has 1 ragged level, and is fed a tensor with 2 ragged levels"),
    ([], "'x' has 1 ragged level, and is fed a tensor with no ragged levels"),
    ([[1, 5]], "the offsets of level 0 of 'x' begin with 1, not with 0"),
    ([[0, 4, 2, 5]], "the offsets of level 0 of 'x' fall from 4 to 2 at position 2"),
]  # fmt: skip


@pytest.mark.parametrize(("lod", "message"), WRONG)
def test_offsets_that_do_not_fit_are_refused(lod: list[list[int]], message: str) -> None:
    x = layers.data("x", [1], lod_level=1)
    total = layers.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    layers.assign(layers.elementwise_add(total, layers.reduce_sum(x)), total)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fed = fluid.LoDTensor(np.ones((5, 1), np.float32))
    fed._lod = lod  # what set_lod itself would refuse
    with pytest.raises(UserError) as caught:
        executor.run(feed={"x": fed})
    (found,) = caught.value.diagnostics
    assert found.message == message
    assert found.hint
    assert found.location.file == __file__
    assert np.array(fluid.global_scope().find_var("total").get_tensor()) == [0]


def test_levels_that_disagree_are_refused() -> None:
    layers.data("x", [1], lod_level=2)
    fed = fluid.LoDTensor(np.ones((5, 1), np.float32))
    fed.set_lod([[0, 2, 3], [0, 2, 5]])
    with pytest.raises(UserError, match="level 0 of 'x' end with 3, and there are 2 sequences of level 1"):
        fluid.Executor(fluid.CPUPlace()).run(feed={"x": fed})


def test_a_feeder_takes_lists_of_lists() -> None:
    words = layers.data("words", [1], dtype="int64", lod_level=2)
    fed = fluid.DataFeeder([words], fluid.CPUPlace()).feed([([[1, 2], [3]],), ([],), ([[4, 5, 6]],)])
    (found,) = run(fed, [layers.scale(layers.cast(words, "float32"), 1.0)])
    assert found.recursive_sequence_lengths() == [[2, 0, 1], [2, 1, 3]]
    assert np.array(found).ravel().tolist() == [1, 2, 3, 4, 5, 6]


def test_an_operator_by_itself_keeps_offsets() -> None:
    scope = fluid.Scope()
    given = scope.var("x").get_tensor()
    given.set(np.ones((3, 2), np.float32), fluid.CPUPlace())
    given.set_lod([[0, 1, 3]])
    scope.var("y").get_tensor()
    fluid.op.Operator("relu", X="x", Out="y").run(scope, fluid.CPUPlace())
    assert scope.find_var("y").get_tensor().lod() == [[0, 1, 3]]


def test_a_saved_program_takes_offsets(tmp_path: Path) -> None:
    x = layers.data("x", [2], lod_level=1)
    y = layers.fc(x, 3)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["x"], [y], executor)
    fed = tensor(np.ones((3, 2), np.float32), [[1, 2]])
    (wanted,) = run({"x": fed}, [y])
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), executor)
    assert feeds == ["x"]
    (found,) = executor.run(program, {"x": fed}, fetches, return_numpy=False)
    assert found.lod() == wanted.lod()
    assert np.array_equal(np.array(found), np.array(wanted))
    rows, offsets = ng.compile(ng.load(tmp_path))(np.ones((3, 2), np.float32), np.array([0, 1, 3], np.int32))
    assert np.array_equal(rows, np.array(wanted))
    assert offsets.tolist() == [0, 1, 3]
