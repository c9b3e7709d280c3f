# SPDX-License-Identifier: Apache-2.0
"""Loops, branches, arrays and recurrent networks of programs: values, gradients, text, programs made of them, and bad input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends import fluid
from ngmlir.support.diagnostics import Limit, UserError

pytestmark = pytest.mark.usefixtures("programs")
layers = fluid.layers
PLACES = {"numpy": fluid.NumpyPlace(), "cpu": fluid.CPUPlace(), "cuda-sim": fluid.Place("cuda-sim")}


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Any:
    return PLACES[request.param]


def numbers(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def data(name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
    return layers.data(name, list(shape), dtype=dtype, append_batch_size=False, stop_gradient=False)


def run(place: Any, feed: dict[str, Any], *fetches: Any) -> list[Any]:
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=list(fetches))


def zero(shape: Sequence[int], dtype: str = "float32") -> Any:
    made = layers.fill_constant(shape, dtype, 0.0)
    made.stop_gradient = False
    return made


def counter(limit: Any) -> tuple[Any, Any, Any]:
    """A counter from 0, its limit, and whether it is below."""
    i = layers.fill_constant([1], "int64", 0)
    n = layers.fill_constant([1], "int64", limit) if isinstance(limit, int) else limit
    return i, n, layers.less_than(i, n)


def repeated(limit: Any, body: Callable[[Any], Any]) -> Any:
    """A loop over a counter: its last value."""
    i, n, more = counter(limit)
    with layers.While(more).block():
        body(i)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    return i


def check(loss: Any, by: Sequence[Any], feed: dict[str, Any], place: Any) -> None:
    """The gradients of a loss agree with differences of it."""
    rng = np.random.default_rng(0)
    slopes = fluid.calc_gradient(loss, list(by))
    slopes = slopes if isinstance(slopes, list) else [slopes]
    ways = {v.name: rng.normal(size=v.shape) for v in by}
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())

    def value(move: float, name: str) -> float:
        moved = {**feed, name: feed[name] + move * ways[name]}
        return float(executor.run(feed=moved, fetch_list=[loss])[0].sum())

    found = executor.run(feed=feed, fetch_list=slopes)
    for variable, slope in zip(by, found, strict=True):
        along = (value(1e-6, variable.name) - value(-1e-6, variable.name)) / 2e-6
        np.testing.assert_allclose((slope * ways[variable.name]).sum(), along, rtol=1e-6, atol=1e-8)


# ---- values of the design documents


def test_rows_of_two_branches(place: Any) -> None:
    x, z, y = data("x", [3, 1]), data("z", [3, 1]), data("y", [1])
    choice = layers.IfElse(x > layers.fill_constant([1], "float32", 15.0))
    with choice.true_block():
        added = choice.input(x) + y
        choice.output(added, layers.softmax(added))
    with choice.false_block():
        d = layers.scale(choice.input(z), 2.0) + 1.0
        choice.output(d, d + 1.0)
    first, second = choice()
    slopes = fluid.calc_gradient(layers.reduce_sum(first), [x, z, y])
    column = numbers([[10], [20], [30]])
    found = run(place, {"x": column, "z": column, "y": numbers([1])}, first, second, *slopes)
    assert [v.ravel().tolist() for v in found] == [[21, 21, 31], [22, 1, 1], [0, 1, 1], [2, 0, 0], [2]]


def test_one_branch_alone_leaves_zeros(place: Any) -> None:
    x = data("x", [3, 1])
    choice = layers.IfElse(x > layers.fill_constant([1], "float32", 15.0))
    with choice.true_block():
        choice.output(layers.log(choice.input(x)))
    (out,) = choice()
    (slope,) = [fluid.calc_gradient(out, x)]
    found = run(place, {"x": numbers([[0], [20], [30]])}, out, slope)
    np.testing.assert_allclose(found[0].ravel(), [0, np.log(20), np.log(30)], rtol=1e-6)
    np.testing.assert_allclose(
        found[1].ravel(), [0, 1 / 20, 1 / 30], rtol=1e-6
    )  # not NaN, where log 0 is not asked for


@pytest.mark.parametrize("given", [[], [4], [-4], [-1, -4], [1, 4], [4, -1, 9]])
def test_branches_without_rows_and_their_gradients(given: list[float], place: Any) -> None:
    """What a branch without rows would compute is in no gradient."""
    x = data("x", [-1, 1])
    choice = layers.IfElse(x > layers.fill_constant([1], "float32", 0.0))
    with choice.true_block():
        choice.output(layers.sqrt(choice.input(x)))
    with choice.false_block():
        choice.output(choice.input(x) * 2.0)
    (rows,) = choice()
    slope = fluid.calc_gradient(rows, x)
    fed = np.float32(given).reshape(-1, 1)
    made, slopes = run(place, {"x": fed}, rows, slope)
    root = np.sqrt(np.abs(fed))
    assert np.allclose(made, np.where(fed > 0, root, 2 * fed))
    assert np.allclose(slopes, np.where(fed > 0, 0.5 / root, 2))


def test_the_recurrence_of_the_design_document(place: Any) -> None:
    x = data("x", [3, 1], "float64")
    w, u = (layers.fill_constant([1], "float64", v) for v in (0.314, 0.375))
    boot = zero([1], "float64")
    rnn = layers.StaticRNN()
    with rnn.step():
        step, before = rnn.step_input(x), rnn.memory(init=boot)
        a, b = step * w, before * u
        hidden = layers.sigmoid(a + b)
        rnn.update_memory(before, hidden)
        rnn.output(a, b, hidden)
    found = run(place, {"x": np.array([[10.0], [20], [30]])}, *rnn())
    np.testing.assert_allclose(found[0].ravel(), [3.14, 6.28, 9.42], rtol=1e-12)
    np.testing.assert_allclose(found[1].ravel(), [0, 0.35944233026186406, 0.3745102318711285], rtol=1e-12)
    wanted = [0.9585128806983042, 0.9986939516563426, 0.9999442462556789]
    np.testing.assert_allclose(found[2].ravel(), wanted, rtol=1e-12)


# ---- loops


def test_a_loop_over_arrays_and_its_gradient(place: Any) -> None:
    rows = [data(f"x{k}", [4]) for k in range(3)]
    i = layers.zeros([1], "int64")
    given = layers.create_array("float32")
    for k, row in enumerate(rows):
        layers.array_write(row, layers.fill_constant([1], "int64", k), array=given)
    sums = layers.array_write(zero([4]), i)

    def body(i: Any) -> None:
        total = layers.sums([layers.array_read(given, i), layers.array_read(sums, i)])
        layers.array_write(total, layers.increment(i, in_place=False), array=sums)

    last = repeated(3, body)
    out = layers.array_read(sums, last)
    slopes = fluid.calc_gradient(layers.mean(out), rows)
    values = {f"x{k}": np.random.default_rng(k).normal(size=4).astype(np.float32) for k in range(3)}
    found = run(place, values, out, layers.array_length(sums), *slopes)
    np.testing.assert_allclose(found[0], sum(values.values()), rtol=1e-6)
    assert found[1].tolist() == [4]
    for slope in found[2:]:
        np.testing.assert_allclose(slope, np.full(4, 0.25))


def test_elements_that_nothing_reads_have_no_gradient(place: Any) -> None:
    """One is replaced before it is read, one is read twice, one never."""
    x = data("x", [2], "float64")
    places = [layers.fill_constant([1], "int64", k) for k in range(3)]
    array = layers.create_array("float64")
    for scale, at in ((3.0, 0), (5.0, 1), (7.0, 2)):
        layers.array_write(layers.scale(x, scale), places[at], array=array)
    layers.array_write(layers.square(x), places[1], array=array)
    first, second, again = (layers.array_read(array, places[at]) for at in (0, 1, 1))
    loss = layers.reduce_sum(first * second * again)
    check(loss, [x], {"x": np.array([0.3, -1.2])}, place)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_whose_trip_count_is_fed(count: int, place: Any) -> None:
    x, n = data("x", [3], "float64"), layers.data("n", [1], dtype="int64", append_batch_size=False)
    y = layers.assign(x)
    repeated(n, lambda i: layers.assign(layers.sin(y) * x, y))
    feed = {"x": np.array([0.3, 0.7, 1.1]), "n": np.array([count])}
    check(layers.reduce_sum(layers.square(y)), [x], feed, place)


def test_a_loop_in_a_loop_and_a_branch_in_it(place: Any) -> None:
    x = data("x", [2], "float64")
    y = layers.assign(x)
    half = layers.fill_constant([1], "float64", 0.5)

    def inner(i: Any) -> None:
        with layers.Switch() as switch:
            with switch.case(layers.less_than(layers.reduce_sum(y), half)):
                layers.assign(layers.tanh(y + x), y)
            with switch.default():
                layers.assign(layers.sin(y) * x, y)

    repeated(3, lambda i: repeated(2, inner) and None)
    check(layers.reduce_sum(y), [x], {"x": np.array([0.4, 0.9])}, place)


def test_a_condition_of_several_parts_ends_a_loop_early(place: Any) -> None:
    x = data("x", [1])
    found = layers.create_array("float32")
    i, n, more = counter(10)
    y = layers.assign(x)
    with layers.While(more).block():
        layers.array_write(y, i, array=found)
        layers.assign(y * 2.0, y)
        layers.increment(i)
        small = layers.less_than(y, layers.fill_constant([1], "float32", 20.0))
        layers.assign(layers.logical_and(layers.less_than(i, n), small), more)
    at = layers.fill_constant([1], "int64", 2)
    out = run(place, {"x": numbers([3])}, y, i, layers.array_length(found), layers.array_read(found, at))
    assert [v.tolist() for v in out] == [[24], [3], [3], [12]]


def test_the_first_case_that_holds_runs(place: Any) -> None:
    x = data("x", [1])
    rate = zero([1])
    one, two = (layers.fill_constant([1], "float32", v) for v in (1.0, 2.0))
    with layers.Switch() as switch:
        with switch.case(layers.less_than(x, one)):
            layers.assign(x * 3.0, rate)
        with switch.case(layers.less_than(x, two)):
            layers.assign(x * x, rate)
        with switch.default():
            layers.assign(x * 0.5, rate)
    slope = fluid.calc_gradient(rate, x)
    for value, wanted in ((0.5, [1.5, 3]), (1.5, [2.25, 3]), (4.0, [2, 0.5])):
        assert [float(v[0]) for v in run(place, {"x": numbers([value])}, rate, slope)] == wanted


def test_a_branch_that_did_not_run_leaves_what_was_there(place: Any) -> None:
    x, flag = data("x", [2]), layers.data("flag", [1], dtype="bool", append_batch_size=False)
    y = layers.assign(x)
    with layers.ConditionalBlock([flag], is_scalar_condition=True).block():
        layers.assign(y * y, y)
    slope = fluid.calc_gradient(layers.reduce_sum(y), x)
    for holds, value, steep in ((True, [9, 16], [6, 8]), (False, [3, 4], [1, 1])):
        found = run(place, {"x": numbers([3, 4]), "flag": np.array([holds])}, y, slope)
        assert [v.tolist() for v in found] == [value, steep]


def test_state_that_a_loop_writes_is_kept(place: Any) -> None:
    total = layers.create_global_var([1], 1.0, "float32", persistable=True)
    repeated(3, lambda i: layers.assign(total * 2.0, total))
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    assert [float(executor.run(fetch_list=[total])[0][0]) for _ in range(3)] == [8, 64, 512]


def test_iterations_draw_numbers_of_their_own(place: Any) -> None:
    drawn = layers.create_array("float32")
    repeated(4, lambda i: layers.array_write(layers.uniform_random([8]), i, array=drawn))
    found = run(
        place, {}, *[layers.array_read(drawn, layers.fill_constant([1], "int64", k)) for k in range(4)]
    )
    assert len({tuple(v.tolist()) for v in found}) == 4


# ---- recurrent networks


def network(x: Any, size: int) -> Any:
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[-1, size], batch_ref=word)
        hidden = layers.fc(
            [word, before],
            size,
            act="tanh",
            param_attr=[fluid.ParamAttr("w"), fluid.ParamAttr("u")],
            bias_attr=fluid.ParamAttr("b"),
        )
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    return rnn()


def unrolled(x: Any, size: int, steps: int) -> Any:
    hidden = layers.fill_constant([x.shape[1], size], "float32", 0.0)
    made: list[Any] = []
    for t in range(steps):
        word = layers.reshape(layers.slice(x, axes=[0], starts=[t], ends=[t + 1]), [x.shape[1], x.shape[2]])
        hidden = layers.fc(
            [word, hidden],
            size,
            act="tanh",
            param_attr=[fluid.ParamAttr("w"), fluid.ParamAttr("u")],
            bias_attr=fluid.ParamAttr("b"),
        )
        made.append(layers.reshape(hidden, [1, x.shape[1], size]))
    return layers.concat(made, axis=0)


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_recurrent_network_is_its_unrolled_form(steps: int) -> None:
    values = np.random.default_rng(steps).normal(size=(steps, 2, 3)).astype(np.float32)
    found: list[list[Any]] = []
    for make in (lambda x: network(x, 4), lambda x: unrolled(x, 4, steps)):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            fluid.default_startup_program().random_seed = 3
            x = data("x", [steps, 2, 3])
            out = make(x)
            loss = layers.mean(layers.square(out))
            pairs = fluid.append_backward(loss)
            assert sorted(p.name for p, _ in pairs) == ["b", "u", "w"]
            slopes = [g for _, g in sorted(pairs, key=lambda pair: pair[0].name)]
            whole = fluid.default_main_program().global_block()
            found.append(run(fluid.CPUPlace(), {"x": values}, out, whole.var("x@GRAD"), *slopes))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["constant", "fed", "array"])
def test_second_derivatives_of_a_loop(kind: str, place: Any) -> None:
    x, w = data("x", [2], "float64"), data("w", [2], "float64")
    limit = layers.data("n", [1], dtype="int64", append_batch_size=False) if kind == "fed" else 3
    made = layers.assign(x)
    steps = layers.array_write(x, layers.fill_constant([1], "int64", 0))

    def body(i: Any) -> None:
        if kind == "array":
            value = layers.tanh(layers.array_read(steps, i) * w) + x
            layers.array_write(value, layers.increment(i, in_place=False), array=steps)
        else:
            layers.assign(layers.tanh(made * w) + x, made)

    end = repeated(limit, body)
    last = layers.array_read(steps, end) if kind == "array" else made
    slopes = fluid.calc_gradient(layers.reduce_sum(layers.square(last)), [x, w])
    feed = {"x": np.array([1.5, -0.7]), "w": np.array([0.3, 0.9])}
    feed |= {"n": np.array([4])} if kind == "fed" else {}
    check(layers.reduce_sum(layers.square(slopes[0]) + layers.square(slopes[1])), [w, x], feed, place)


@pytest.mark.parametrize("by", ["w", "x"])
def test_second_derivatives_of_a_recurrent_network(by: str, place: Any) -> None:
    x, w = data("x", [4, 2], "float64"), data("w", [2], "float64")
    boot = zero([2], "float64")
    rnn = layers.StaticRNN()
    with rnn.step():
        step, before = rnn.step_input(x), rnn.memory(init=boot)
        hidden = layers.tanh(step + before * w)
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    slope = fluid.calc_gradient(layers.reduce_sum(layers.square(rnn())), {"w": w, "x": x}[by])
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(4, 2)), "w": np.array([0.3, -0.6])}
    check(layers.reduce_sum(layers.square(slope)), [w, x], feed, place)


def test_steps_read_the_whole_sequence_too(place: Any) -> None:
    x = data("x", [4, 2], "float64")
    boot = zero([2], "float64")
    rnn = layers.StaticRNN()
    with rnn.step():
        step, before = rnn.step_input(x), rnn.memory(init=boot)
        hidden = layers.tanh(step + before + layers.reduce_max(x, 0))
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    feed = {"x": np.random.default_rng(0).normal(size=(4, 2))}
    (found,) = run(place, feed, rnn())
    wanted = np.zeros(2)
    for at, row in enumerate(feed["x"]):
        wanted = np.tanh(row + wanted + feed["x"].max(0))
        np.testing.assert_allclose(found[at], wanted, rtol=1e-6)
    check(layers.reduce_sum(layers.square(rnn())), [x], feed, place)


def test_a_training_step_through_a_recurrent_network_falls() -> None:
    x, y = data("x", [5, 2, 3]), data("y", [2, 4])
    last = layers.reduce_sum(network(x, 4), dim=[0])
    cost = layers.mean(layers.square_error_cost(last, y))
    fluid.optimizer.SGD(0.2).minimize(cost)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    rng = np.random.default_rng(0)
    feed = {
        "x": rng.normal(size=(5, 2, 3)).astype(np.float32),
        "y": rng.uniform(-1, 1, (2, 4)).astype(np.float32),
    }
    costs = [float(executor.run(feed=feed, fetch_list=[cost])[0][0]) for _ in range(60)]
    assert costs[-1] < 0.05 * costs[0]


# ---- programs with blocks


def test_programs_with_blocks_as_text_and_pruned_and_for_test(tmp_path: Path) -> None:
    x = data("x", [3])
    y = layers.assign(x)
    repeated(3, lambda i: layers.assign(layers.dropout(y, 0.5) + x, y))
    unused = layers.exp(x)
    cost = layers.mean(y)
    program = fluid.default_main_program()
    test = program.clone(for_test=True)
    fluid.append_backward(cost, parameter_list=["x"])
    for made in (program, test):
        again = fluid.Program.parse_from_string(made.serialize_to_string())
        assert str(again) == str(made) and again.num_blocks == 2
    (loop,) = [op for op in test.global_block().ops if op.type == "while"]
    assert loop.attr("is_test") and test.block(1).ops[0].attr("is_test")
    kept = [op.type for op in program.prune(cost).global_block().ops]
    assert "while" in kept and "exp" not in kept and "while_grad" not in kept
    executor = fluid.Executor(fluid.CPUPlace())
    value = numbers([1, 2, 4])
    (before,) = executor.run(test, feed={"x": value}, fetch_list=[cost.name])
    fluid.io.save_inference_model(str(tmp_path), ["x"], [cost], executor, test)
    assert unused.name not in (tmp_path / "__model__").read_text()
    (after,) = ng.compile(ng.load(str(tmp_path)), target="cpu")(value)
    np.testing.assert_array_equal(before, after)


def test_operator_by_operator(place: Any) -> None:
    x = data("x", [2])
    y = layers.assign(x)
    repeated(2, lambda i: layers.assign(y * x, y))
    steps: list[Any] = []
    executor = fluid.Executor(place)
    (found,) = executor.run(feed={"x": numbers([2, 3])}, fetch_list=[y], stepped=steps.append)
    assert found.tolist() == [8, 27]
    (loop,) = [step for step in steps if step.type == "while"]
    assert loop.values[y.name].tolist() == [8, 27]


# ---- bad input


def refused(match: str, make: Callable[[], Any]) -> UserError:
    program = fluid.default_main_program()
    before, current = str(program), program.current_block().idx
    with pytest.raises((UserError, Limit), match=match) as caught:
        make()
    assert str(program) == before and program.current_block().idx == current
    assert "test_fluid_control_flow.py" in str(caught.value) and "hint:" in str(caught.value)
    return caught.value  # type: ignore[return-value]


def test_a_loop_that_never_writes_its_condition() -> None:
    i, _, more = counter(3)

    def make() -> None:
        with layers.While(more).block():
            layers.increment(i)

    refused("never writes its condition", make)


def test_a_memory_that_is_never_updated() -> None:
    x = data("x", [3, 2])

    def make() -> None:
        rnn = layers.StaticRNN()
        with rnn.step():
            rnn.step_output(rnn.step_input(x) + rnn.memory(init=start))

    start = zero([2])
    refused("is never updated", make)


def test_positions_that_no_round_has_written(place: Any) -> None:
    x = data("x", [2])
    array = layers.array_write(x, layers.zeros([1], "int64"))
    out = zero([2])
    repeated(3, lambda i: layers.assign(layers.array_read(array, i), out))
    program = fluid.default_main_program()
    text = str(program)
    with pytest.raises(
        UserError,
        match="position 1 of the array 'array_0.out' is read, and it has 1 element in that iteration",
    ) as caught:
        run(place, {"x": numbers([1, 2])}, out)
    assert "test_fluid_control_flow.py" in str(caught.value) and "hint:" in str(caught.value)
    assert str(program) == text


def test_a_position_past_the_end_outside_of_loops() -> None:
    array = layers.array_write(data("x", [2]), layers.zeros([1], "int64"))
    out = layers.array_read(array, layers.fill_constant([1], "int64", 4))
    with pytest.raises(UserError, match="position 4 of the array is read, and it has 1 element") as caught:
        run(fluid.CPUPlace(), {"x": numbers([1, 2])}, out)
    assert "test_fluid_control_flow.py" in str(caught.value) and "hint:" in str(caught.value)


def test_a_step_that_reads_a_later_value() -> None:
    x = data("x", [3, 2])
    boot = zero([2])
    rnn = layers.StaticRNN()
    with rnn.step():
        step, before = rnn.step_input(x), rnn.memory(init=boot)
        hidden = layers.tanh(step + before)
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    block = fluid.default_main_program().block(1)
    first = block.ops[0]
    first.rename_input(first.input("X")[0], hidden.name)
    with pytest.raises(UserError, match=f"reads '{hidden.name}', which has no value yet"):
        run(fluid.CPUPlace(), {"x": np.zeros((3, 2), np.float32)}, rnn())


@pytest.mark.parametrize(
    ("match", "make"),
    [
        ("the condition of While is one bool", lambda x: layers.While(x)),
        ("While takes a variable", lambda x: layers.While(x.name)),
        ("the condition of IfElse is one bool for each row", lambda x: layers.IfElse(x)),
        ("takes an array, not 'x' is a tensor|takes an array", lambda x: layers.array_read(x, x)),
        ("a case stands inside of its Switch", lambda x: layers.Switch().case(x).__enter__()),
        ("is given inside the block of the step", lambda x: layers.StaticRNN().step_input(x)),
        ("gives something when its step is filled", lambda x: layers.StaticRNN()()),
    ],
)
def test_layers_that_are_used_wrongly(match: str, make: Callable[[Any], Any]) -> None:
    x = data("x", [3, 2])
    with pytest.raises(UserError, match=match):
        make(x)


def test_a_value_that_changes_its_shape_from_round_to_round() -> None:
    y = layers.assign(data("x", [2]))
    repeated(3, lambda i: layers.concat([y, y]) and layers.assign(layers.concat([y, y]), y))
    with pytest.raises(UserError, match="with the shape") as caught:
        run(fluid.CPUPlace(), {"x": numbers([1, 2])}, y)
    assert "hint:" in str(caught.value)


def test_results_are_written_to_variables_that_are_there(place: Any) -> None:
    """`out=`, as the condition of a loop of several conditions."""
    i, n, most = (layers.fill_constant([1], "int64", value) for value in (0, 9, 4))
    more = layers.less_than(i, n)
    with layers.While(more).block():
        layers.increment(i, in_place=True)
        given = layers.logical_and(layers.less_than(i, n), layers.less_than(i, most), out=more)
        assert given is more
    square = layers.create_tensor("float32")
    layers.square(layers.cast(i, "float32"), out=[square])
    found = fluid.Executor(place).run(fetch_list=[i, square])
    assert [float(each[0]) for each in found] == [4, 16]
    with pytest.raises(UserError, match="layer square writes its result to a variable, not 'square'"):
        layers.square(square, out="square")
