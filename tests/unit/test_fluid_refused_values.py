# SPDX-License-Identifier: Apache-2.0
"""Values that operators cannot take: runs that are refused before anything changes. Lengths that depend on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers
from ngmlir.frontends.fluid.layer_helper import one_op
from ngmlir.support.diagnostics import UserError

Array = np.ndarray
RNG = np.random.default_rng(0)


def ragged(rows: Any, *lengths: list[int], dtype: Any = np.float32) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.asarray(rows, dtype).reshape(len(rows), -1), list(lengths), None)


def integers(*numbers: int, lengths: list[int]) -> fluid.LoDTensor:
    return ragged(numbers, lengths, dtype=np.int64)


def text(name: str, dtype: str = "int64") -> fluid.Variable:
    return layers.data(name, [1], dtype=dtype, lod_level=1)


def rows(name: str, width: int = 2) -> fluid.Variable:
    return layers.data(name, [width], lod_level=1)


def erased(x: fluid.Variable, *tokens: int) -> fluid.Variable:
    return one_op("sequence_erase", {"X": x}, {"Out": x.dtype}, {"tokens": list(tokens)})


def reset() -> fluid.Variable:
    y = layers.data("y", [3], dtype="int32", append_batch_size=False)
    return layers.sequence_pool(layers.lod_reset(rows("x"), y), "sum")


def scores() -> fluid.Variable:
    return layers.data("scores", [3])


def labels(dtype: str = "int64") -> fluid.Variable:
    return layers.data("labels", [1], dtype=dtype)


X = ragged(RNG.normal(size=(6, 2)), [3, 0, 2, 1])
SCORES = RNG.normal(size=(2, 3)).astype(np.float32)


def chosen(*numbers: int, dtype: Any = np.int64) -> dict[str, Any]:
    return {"scores": SCORES, "labels": np.asarray([numbers], dtype).T}


def of_sequences(*numbers: int, dtype: Any) -> dict[str, Any]:
    return {
        "x": ragged(RNG.normal(size=(4, 3)), [1, 0, 3]),
        "labels": ragged(numbers, [1, 0, len(numbers) - 1], dtype=dtype),
    }


EMPTY = "one of the references is empty"
OFFSETS = "the elements of Y are no offsets"
#: What is built, what it takes, what it does not take, and the message about that.
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any], dict[str, Any], str]] = {
    "edit_distance": (
        lambda: layers.edit_distance(text("h"), text("r"))[0],
        {"h": integers(1, 2, lengths=[2, 0]), "r": integers(1, 2, lengths=[1, 1])},
        {"h": integers(1, 2, lengths=[1, 1]), "r": integers(1, 2, lengths=[2, 0])},
        EMPTY,
    ),
    "edit_distance without tokens": (
        lambda: layers.edit_distance(text("h"), text("r"), ignored_tokens=[2])[0],
        {"h": integers(1, 2, lengths=[1, 1]), "r": integers(1, 3, lengths=[1, 1])},
        {"h": integers(1, 1, lengths=[1, 1]), "r": integers(1, 2, lengths=[1, 1])},
        EMPTY,
    ),
    "sequence_reshape": (
        lambda: layers.sequence_reshape(rows("x"), 4),
        {"x": ragged(np.ones((6, 2)), [4, 0, 2])},
        {"x": X},
        "a sequence of rows of 2 elements is not cut into rows of 4",
    ),
    "lod_reset, short": (reset, {"x": X, "y": np.int32([0, 4, 6])}, {"x": X, "y": np.int32([0, 4, 5])}, OFFSETS),
    "lod_reset, falling": (reset, {"x": X, "y": np.int32([0, 0, 6])}, {"x": X, "y": np.int32([0, 7, 6])}, OFFSETS),
    "lod_reset, from 1": (reset, {"x": X, "y": np.int32([0, 6, 6])}, {"x": X, "y": np.int32([1, 4, 6])}, OFFSETS),
    "lod_reset, other rows": (
        lambda: layers.lod_reset(rows("x"), rows("y")),
        {"x": X, "y": ragged(np.ones((6, 2)), [5, 1])},
        {"x": X, "y": ragged(np.ones((5, 2)), [4, 1])},
        "6 rows are not cut as 5 rows are",
    ),
    "one_hot": (
        lambda: layers.one_hot(labels(), 3),
        {"labels": np.int64([[0], [2]])}, {"labels": np.int64([[0], [3]])}, "there is no class 3",
    ),
    "cross_entropy": (
        lambda: layers.cross_entropy(layers.softmax(scores()), layers.reshape(labels(), [-1, 1])),
        chosen(2, 0), chosen(0, -1), "there is no class -1",
    ),
    "softmax_with_cross_entropy": (
        lambda: layers.softmax_with_cross_entropy(scores(), labels()), chosen(2, 0), chosen(3, 0), "there is no class 3",
    ),
    "multiplex": (
        lambda: layers.multiplex([scores(), layers.relu(scores())], labels("int32")),
        chosen(1, 0, dtype=np.int32), chosen(1, 2, dtype=np.int32), "there is no input 2",
    ),
    "hsigmoid": (lambda: layers.hsigmoid(scores(), labels(), 4), chosen(3, 0), chosen(4, 0), "there is no class 4"),
    "nce": (lambda: layers.nce(scores(), labels(), 5), chosen(4, 0), chosen(4, 5), "there is no class 5"),
    "linear_chain_crf": (
        lambda: layers.linear_chain_crf(rows("x", 3), text("labels")),
        of_sequences(2, 0, 1, 1, dtype=np.int64), of_sequences(3, 0, 1, 1, dtype=np.int64), "there is no class 3",
    ),
    "warpctc": (
        lambda: layers.warpctc(rows("x", 3), text("labels", "int32")),
        of_sequences(2, 1, dtype=np.int32), of_sequences(2, 7, dtype=np.int32), "there is no class 7",
    ),
    "warpctc, pairs": (
        lambda: layers.warpctc(rows("x", 3), text("labels", "int32")),
        of_sequences(2, 1, dtype=np.int32),
        {"x": ragged(RNG.normal(size=(4, 3)), [1, 0, 3]), "labels": ragged([2, 1], [1, 1], dtype=np.int32)},
        "3 sequences go with 2",
    ),
    "sequence_concat": (
        lambda: _joined(rows("x"), rows("y")),
        {"x": X, "y": X}, {"x": X, "y": ragged(np.ones((6, 2)), [3, 1, 1, 1])}, "have the lengths [3, 1, 1, 1]",
    ),
}  # fmt: skip


def _joined(x: fluid.Variable, y: fluid.Variable) -> fluid.Variable:
    made = x.block.create_var(name="joined", dtype=x.dtype, lod_level=1)
    x.block.append_op(
        type="sequence_concat", inputs={"X": [x, y]}, outputs={"Out": [made]}, attrs={"axis": 1, "level": 0}
    )
    return made


@pytest.mark.parametrize("place", [fluid.CPUPlace(), fluid.NumpyPlace(), fluid.Place("cuda-sim")], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_refused_run_changes_nothing(name: str, place: fluid.Place) -> None:
    build, right, wrong, message = CASES[name]
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        with fluid.unique_name.guard():
            runs = layers.create_global_var([1], 0.0, "float32", persistable=True, name="runs")
            layers.increment(runs)
            made = build()
        executor = fluid.Executor(place)
        executor.run(fluid.default_startup_program())

        def run(feed: dict[str, Any]) -> Any:
            return executor.run(feed=feed, fetch_list=[made], return_numpy=False)

        first = np.array(run(right)[0])
        with pytest.raises(UserError) as caught:
            run(wrong)
        (found,) = caught.value.diagnostics
        assert message in found.message
        assert found.location.file == __file__ and found.location.known
        again = np.array(run(right)[0])
        assert name == "nce" or np.array_equal(again, first)  # nce draws other samples in each run
        assert np.array(fluid.global_scope().find_var("runs").get_tensor()).tolist() == [2.0]


@pytest.mark.parametrize("place", [fluid.CPUPlace(), fluid.NumpyPlace()], ids=str)
def test_lengths_of_several_operators_on_one_variable(place: fluid.Place) -> None:
    """Each operator has lengths of its own, also where only an attribute differs."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = text("x")
        found = [erased(x, 1), erased(x, 2, 3), erased(x), erased(erased(x, 1), 1)]
        executor = fluid.Executor(place)
        for lengths in ([2, 0, 3], [4, 1, 1], [5, 5, 2], [7, 3, 9]):
            numbers = RNG.integers(0, 4, sum(lengths))
            feed = {"x": integers(*numbers, lengths=lengths)}
            made = executor.run(feed=feed, fetch_list=found, return_numpy=False)
            for got, gone in zip(made, ((1,), (2, 3), (), (1,)), strict=True):
                is_left = ~np.isin(numbers, gone)
                assert np.array(got).ravel().tolist() == numbers[is_left].tolist()
                parts = np.split(is_left, np.cumsum(lengths)[:-1])
                assert got.recursive_sequence_lengths() == [[int(p.sum()) for p in parts]]


def test_rows_are_told_for_all_lengths() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        at = layers.data("at", [-1], dtype="int32", append_batch_size=False)
        made = layers.gather(scores(), at)
        executor = fluid.Executor(fluid.CPUPlace())
        for count in (5, 7, 9, 3):
            table, places = RNG.normal(size=(count, 3)).astype(np.float32), np.arange(count, dtype=np.int32)
            (got,) = executor.run(feed={"scores": table, "at": places}, fetch_list=[made])
            assert np.array_equal(got, table)
            with pytest.raises(
                UserError, match=f"there is no row {count} in 'scores', which has {count} rows"
            ):
                executor.run(feed={"scores": table, "at": places + 1}, fetch_list=[made])
