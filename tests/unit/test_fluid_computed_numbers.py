# SPDX-License-Identifier: Apache-2.0
"""Numbers that programs compute and choose by, also in loops and branches: one that is outside is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
import ngmlir.numpy as nn
from ngmlir.frontends.fluid import layers
from ngmlir.frontends.fluid.layer_helper import one_op
from ngmlir.programs.custom import new_operator
from ngmlir.support.diagnostics import UserError

Variable = fluid.Variable
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
PLACES = pytest.mark.parametrize("place", ["cpu", "numpy", "cuda-sim"])


def number(value: int) -> Variable:
    return layers.fill_constant([1], "int64", value)


def zeros(*shape: int) -> Variable:
    made = layers.fill_constant(list(shape), "float32", 0)
    made.stop_gradient = False
    return made


def ids(*shape: int, **how: Any) -> Variable:
    return layers.data("x", list(shape), dtype="int64", **how)


def looked_up(rows: Variable) -> Variable:
    return layers.embedding(rows, [4, 3], param_attr="table")


def repeated(times: int, body: Callable[[], Any]) -> None:
    i, end = number(0), number(times)
    more = layers.less_than(i, end)
    with layers.While(more).block():
        body()
        layers.increment(i)
        layers.less_than(i, end, cond=more)


def in_a_loop(times: int = 1) -> Variable:
    now, total = layers.assign(ids(2, 1, append_batch_size=False)), zeros(2, 3)

    def body() -> None:
        layers.assign(total + looked_up(now), total)
        layers.assign(now + number(1), now)

    repeated(times, lambda: repeated(3 // times, body))
    return total


def in_steps() -> Variable:
    rnn, start = layers.StaticRNN(), zeros(2, 3)
    with rnn.step():
        word = rnn.step_input(ids(3, 2, 1, append_batch_size=False))
        total = rnn.memory(init=start)
        rnn.update_memory(total, total + looked_up(word + number(1)))
        rnn.step_output(total + looked_up(word))
    return rnn()


def in_steps_in_a_loop() -> Variable:
    x = ids(3, 2, 1, append_batch_size=False)
    now, total = layers.assign(x), zeros(3, 2, 3)

    def body() -> None:
        rnn, start = layers.StaticRNN(), zeros(2, 3)
        with rnn.step():
            word = rnn.step_input(now)
            before = rnn.memory(init=start)
            rnn.update_memory(before, before + 1.0)
            rnn.step_output(before + looked_up(word))
        layers.assign(total + rnn(), total)
        layers.assign(now + number(1), now)

    repeated(2, body)
    return total


def in_ragged_steps(mixes: bool = False) -> Variable:
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(ids(1, lod_level=1))
        before = rnn.memory(shape=[3], value=0.0)
        row = looked_up(word + number(1))
        row = row + layers.mean(before) if mixes else row
        rnn.update_memory(before, before + row)
        rnn.output(before + row)
    return rnn()


def in_a_branch() -> Variable:
    x, total = ids(2, 1, append_batch_size=False), zeros(2, 3)
    is_small = layers.less_than(layers.reduce_sum(x), number(10))
    with layers.Switch() as switch:
        with switch.case(is_small):
            layers.assign(looked_up(x), total)
        with switch.default():
            layers.assign(total + 7.0, total)
    return total


def by_rows() -> Variable:
    x = ids(1)
    choice = layers.IfElse(layers.less_than(x, number(4)))
    with choice.true_block():
        choice.output(looked_up(choice.input(x)))
    with choice.false_block():
        choice.output(layers.cast(layers.expand(choice.input(x), [1, 3]), "float32"))
    return choice()[0]


def known_table() -> Variable:
    return layers.assign(TABLE)


def of_values() -> Variable:
    """The table is computed too."""
    table = layers.gather(known_table(), ids(2, append_batch_size=False))
    return layers.gather(table, layers.argmax(layers.data("scores", [3]), axis=1)) + looked_up(number(0))


def add_two_rows(before: Variable, now: Variable) -> Variable:
    """Adds, in a loop, a row of the table and the next one."""
    total = layers.assign(before)

    def body() -> None:
        layers.assign(total + looked_up(now), total)
        layers.assign(now + number(1), now)

    repeated(2, body)
    return total


def in_a_loop_in_steps() -> Variable:
    rnn = layers.StaticRNN()
    x, start = ids(3, 2, 1, append_batch_size=False), zeros(2, 3)
    with rnn.step():
        now, before = layers.assign(rnn.step_input(x)), rnn.memory(init=start)
        total = add_two_rows(before, now)
        rnn.update_memory(before, total)
        rnn.step_output(total)
    return rnn()


def in_a_loop_in_ragged_steps() -> Variable:
    """Rows of sequences that have ended are zeros, and there is no row -1."""
    rnn = layers.DynamicRNN()
    with rnn.block():
        now = layers.assign(rnn.step_input(ids(1, lod_level=1)) - number(1))
        before = rnn.memory(shape=[3], value=0.0)
        total = add_two_rows(before, now)
        rnn.update_memory(before, total)
        rnn.output(total)
    return rnn()


def in_a_branch_in_a_loop_in_steps_in_a_loop() -> Variable:
    x, total = ids(3, 2, 1, append_batch_size=False), zeros(3, 2, 3)
    now = layers.assign(x)

    def body() -> None:
        rnn, start = layers.StaticRNN(), zeros(2, 3)
        with rnn.step():
            word = rnn.step_input(now)
            before = rnn.memory(init=start)
            held = layers.assign(before)

            def inner() -> None:
                with layers.Switch() as switch:
                    with switch.case(layers.less_than(layers.reduce_sum(word), number(6))):
                        layers.assign(held + looked_up(word), held)
                    with switch.default():
                        layers.assign(held + 1.0, held)

            repeated(2, inner)
            rnn.update_memory(before, held)
            rnn.step_output(held)
        layers.assign(total + rnn(), total)
        layers.assign(now + number(1), now)

    repeated(2, body)
    return total


def of_a_step() -> Variable:
    """Each step has other sequences to choose of."""
    rnn = layers.DynamicRNN()
    words = layers.data("words", [3], lod_level=2)
    at = layers.reshape(layers.cast(ids(1, 1, append_batch_size=False), "int64"), [1])
    with rnn.block():
        sentence, before = rnn.step_input(words), rnn.memory(shape=[3], value=0.0)
        row = layers.gather(sentence, at + number(0))
        rnn.update_memory(before, before + layers.reduce_sum(row, 0, keep_dim=True))
        rnn.output(before + layers.reduce_sum(row, 0, keep_dim=True))
    return rnn() + looked_up(number(0))


def pointing(to: int) -> dict[str, Any]:
    words = fluid.create_lod_tensor(np.ones((5, 3), "f"), [[2], [3, 2]], None)
    return {"x": np.int64([[to]]), "words": words}


def array(*numbers: int, shape: tuple[int, ...] = (-1, 1)) -> dict[str, Any]:
    return {"x": np.int64(numbers).reshape(shape)}


def sequences(*numbers: int, lengths: list[int]) -> dict[str, Any]:
    return {"x": fluid.create_lod_tensor(np.int64(numbers).reshape(-1, 1), [lengths], None)}


def scored(*rows: tuple[float, ...]) -> dict[str, Any]:
    return {"x": np.int64([3, 1]), "scores": np.float32(rows)}


STEPS = (3, 2, 1)
#: What is built; what it takes; what it refuses, with the number and its place.
CASES: dict[str, tuple[Callable[[], Variable], list[dict[str, Any]], list[tuple[dict[str, Any], int, list[int]]]]] = {
    "a loop": (in_a_loop, [array(0, 1)], [(array(0, 2), 4, [1, 0]), (array(-1, 0), -1, [0, 0])]),
    "a loop in a loop": (lambda: in_a_loop(3), [array(0, 1)], [(array(0, 2), 4, [1, 0])]),
    "steps": (in_steps, [array(0, 1, 2, 2, 1, 0, shape=STEPS)], [(array(0, 1, 2, 2, 3, 0, shape=STEPS), 4, [2, 0, 0])]),
    "steps in a loop": (
        in_steps_in_a_loop,
        [array(0, 1, 2, 2, 1, 0, shape=STEPS)],
        [(array(0, 1, 2, 2, 1, 3, shape=STEPS), 4, [2, 1, 0])],
    ),
    "ragged steps": (
        in_ragged_steps,
        [sequences(0, 1, 2, lengths=[2, 1]), sequences(0, 1, 2, 2, 1, lengths=[1, 0, 4])],
        [(sequences(0, 1, 3, 2, lengths=[3, 1]), 4, [2, 0]), (sequences(-2, lengths=[0, 1]), -1, [0, 0])],
    ),
    "ragged steps that mix rows": (
        lambda: in_ragged_steps(mixes=True),
        [sequences(0, 1, 2, lengths=[2, 1])],
        [(sequences(0, 1, 3, 2, lengths=[3, 1]), 4, [2, 0])],
    ),
    "a loop in steps": (
        in_a_loop_in_steps,
        [array(0, 1, 2, 2, 1, 0, shape=STEPS)],
        [(array(0, 1, 2, 2, 1, 3, shape=STEPS), 4, [1, 0]), (array(0, 1, 2, -2, 1, 3, shape=STEPS), -2, [1, 0])],
    ),
    "a loop in ragged steps": (
        in_a_loop_in_ragged_steps,
        [sequences(1, 2, 3, lengths=[2, 1]), sequences(3, 1, 2, 2, 1, lengths=[1, 0, 4])],
        [(sequences(1, 1, 4, 2, lengths=[3, 1]), 4, [0, 0]), (sequences(0, lengths=[0, 1]), -1, [0, 0])],
    ),
    "a branch in a loop in steps in a loop": (
        in_a_branch_in_a_loop_in_steps_in_a_loop,
        [array(0, 1, 2, 2, 1, 0, shape=STEPS), array(4, 4, 4, 5, 1, 0, shape=STEPS)],
        [(array(0, 1, 2, 2, 0, 3, shape=STEPS), 4, [1, 0]), (array(0, 4, 2, 2, 4, 3, shape=STEPS), 4, [1, 0])],
    ),
    "rows of a step": (of_a_step, [pointing(0), pointing(1)], [(pointing(2), 2, [1]), (pointing(4), 4, [0])]),
    "a branch": (in_a_branch, [array(0, 3), array(50, 4)], [(array(0, 4), 4, [1, 0])]),
    "branches of rows": (by_rows, [array(0, 6), array(1, 2), array(7, 9)], [(array(-7, 9), -7, [0, 0])]),
    "computed rows": (of_values, [scored((2, 1, 0), (0, 1, 0))], [(scored((2, 1, 0), (0, 1, 3)), 2, [1])]),
}  # fmt: skip


@PLACES
@pytest.mark.parametrize("trains", [False, True], ids=["run", "trained"])
@pytest.mark.parametrize("name", CASES)
def test_a_number_outside_is_refused_and_changes_nothing(name: str, trains: bool, place: str) -> None:
    build, right, wrong = CASES[name]
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        with fluid.unique_name.guard():
            made = build()
            if trains:
                fluid.optimizer.SGD(0.1).minimize(layers.mean(made))
        executor = fluid.Executor(fluid.Place(place))
        executor.run(fluid.default_startup_program())

        def table() -> Any:
            return np.array(fluid.global_scope().find_var("table").get_tensor())

        def run(feed: dict[str, Any]) -> Any:
            return np.array(executor.run(feed=feed, fetch_list=[made], return_numpy=False)[0])

        for each in right:
            assert np.isfinite(run(each)).all()
        before = table()
        for each, outside, where in wrong:
            with pytest.raises(UserError, match=f"there is no row {outside} in ") as caught:
                run(each)
            (said,) = caught.value.diagnostics
            assert said.location.file == __file__ and said.hint.startswith(f"it is the number at {where} of ")
            assert np.array_equal(table(), before)
        run(right[0])
        assert np.array_equal(table(), before) != trains


@PLACES
def test_programs_that_find_numbers_outside_give_what_they_gave(place: str) -> None:
    """What they look for is no result of them."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        scores = layers.data("scores", [3])
        best = layers.argmax(scores, axis=1)
        rows = layers.gather(known_table(), best)
        executor = fluid.Executor(fluid.Place(place))
        given = np.float32([[1, 2, 0], [3, 1, 1], [0, 0, 5]])
        for count in (3, 2, 1):
            feed = {"scores": given[:count]}
            for stepped in (False, True):
                found = executor.run(feed=feed, fetch_list=[rows, best], stepped=stepped)
                assert len(found) == 2
                assert found[1].tolist() == given[:count].argmax(1).tolist()
                assert np.array_equal(found[0], TABLE[found[1]])


@PLACES
def test_an_operator_of_users_says_by_one_line_that_it_chooses(place: str) -> None:
    @new_operator(
        "operator chosen_of_tests\n  in X: Rows.\n  in At: Numbers.\n  out Out: Rows.\n  gradient X\n  numbers At: row of X\n  doc Rows."
    )
    def chosen(x: Any, at: Any) -> Any:
        return nn.take(x, at, axis=0)

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        at = ids(-1, append_batch_size=False)
        made = one_op("chosen_of_tests", {"X": known_table(), "At": at}, {"Out": "float32"}, {})
        executor = fluid.Executor(fluid.Place(place))
        (found,) = executor.run(feed=array(3, 0, shape=(2,)), fetch_list=[made])
        assert np.array_equal(found, TABLE[[3, 0]])
        with pytest.raises(UserError, match="there is no row 4 in"):
            executor.run(feed=array(3, 4, shape=(2,)), fetch_list=[made])
