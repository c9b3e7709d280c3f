# SPDX-License-Identifier: Apache-2.0
"""`ngmlir.frontends.fluid`: programs as they are written in Python, and what is said of wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import layers
from ngmlir.support.diagnostics import UserError

pytestmark = pytest.mark.usefixtures("programs")


def main() -> fluid.Program:
    return fluid.default_main_program()


# ---- blocks and variables


def test_blocks() -> None:
    program = fluid.Program()
    assert (program.num_blocks, program.global_block().idx, program.global_block().parent_idx) == (1, 0, -1)
    first = program.create_block()
    second = program.create_block()
    assert (first.idx, first.parent_idx, second.idx, second.parent_idx) == (1, 0, 2, 1)
    program.rollback()
    assert program.current_block().idx == 1
    beside = program.create_block(parent_idx=0)
    assert (beside.idx, beside.parent_idx) == (3, 0)


def test_program_guard_puts_the_programs_back() -> None:
    outer = main(), fluid.default_startup_program()
    with pytest.raises(RuntimeError), fluid.program_guard(fluid.Program(), fluid.Program()):
        assert main() is not outer[0]
        raise RuntimeError
    assert (main(), fluid.default_startup_program()) == outer


def test_variables() -> None:
    block = main().global_block()
    made = block.create_var(name="x", shape=[-1, 3], dtype="float32", lod_level=0)
    assert (made.shape, made.dtype, made.lod_level, made.persistable) == (
        (-1, 3),
        fluid.core.VarDesc.VarType.FP32,
        0,
        False,
    )
    assert block.var("x") is made
    assert block.create_var(name="x", shape=[-1, 3], dtype="float32").view is made.view
    assert block.has_var("x") and not block.has_var("y")
    with pytest.raises(ValueError, match="no variable 'y'"):
        block.var("y")
    with pytest.raises(TypeError):
        block.var(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="shape was"):
        block.create_var(name="x", shape=[4, 3])
    with pytest.raises(ValueError, match="dtype was FP32, not INT64"):
        block.create_var(name="x", dtype="int64")
    assert block.create_var().name == "_generated_var_0"


def test_parameters() -> None:
    block = main().global_block()
    decay = fluid.regularizer.L2Decay(0.1)
    made = block.create_parameter(name="w", shape=[3, 4], dtype="float32", trainable=False, regularizer=decay)
    assert made.persistable and not made.trainable
    assert made.optimize_attr == {"learning_rate": 1.0}
    assert block.all_parameters() == [made]
    for shape in (None, [], [0], [-1, 3]):
        with pytest.raises(ValueError):
            block.create_parameter(name="v", shape=shape, dtype="float32")
    again = fluid.Program.parse_from_string(main().serialize_to_string()).global_block().var("w")
    assert isinstance(again, fluid.Parameter)
    assert isinstance(again.regularizer, fluid.regularizer.L2Decay)
    assert again.regularizer.coefficient == 0.1


def test_operators() -> None:
    block = main().global_block()
    x = block.create_var(name="x", shape=[-1, 3], dtype="float32")
    w = block.create_var(name="w", shape=[3, 4], dtype="float32")
    out = block.create_var(name="out")
    made = block.append_op(
        type="mul", inputs={"X": x, "Y": ["w"]}, outputs={"Out": [out]}, attrs={"x_num_col_dims": 1}
    )
    assert out.shape == (-1, 4)
    assert out.op is made
    assert (made.idx, made.input("X"), made.output("Out"), made.input_arg_names) == (
        0,
        ["x"],
        ["out"],
        ["x", "w"],
    )
    assert made.attr("y_num_col_dims") == 1
    assert {"op_role", "op_role_var"} <= set(made.attr_names)
    assert w.name in str(made)
    made.rename_input("w", "x")
    assert main().view.top.operators[0].reads == ["x", "x"]


WRONG = [
    ({"type": None}, "an operator has a type"),
    ({"type": "mull"}, "did you mean mul"),
    ({"type": "mul", "inputs": {"X": ["x"], "Z": ["w"]}}, "operator mul has no input 'Z'"),
    ({"type": "mul", "inputs": {"X": ["x"]}}, "operator mul needs the input 'Y'"),
    ({"type": "mul", "inputs": {"X": ["x", "x"], "Y": ["w"]}}, "is one variable, not 2"),
    ({"type": "mul", "inputs": {"X": ["q"], "Y": ["w"]}}, "there is no variable 'q'"),
    (
        {"type": "mul", "inputs": {"X": ["x"], "Y": ["w"]}, "attrs": {"x_num_col_dim": 1}},
        "did you mean x_num_col_dims",
    ),
    (
        {"type": "mul", "inputs": {"X": ["x"], "Y": ["w"]}, "attrs": {"x_num_col_dims": 0}},
        "must be at least 1, not 0",
    ),
    (
        {"type": "mul", "inputs": {"X": ["x"], "Y": ["w"]}, "attrs": {"x_num_col_dims": "a"}},
        "is an integer of 32 bits",
    ),
    ({"type": "mul", "inputs": {"X": ["w"], "Y": ["w"]}}, "the columns of X are as many as the rows of Y"),
]


@pytest.mark.parametrize(("said", "message"), WRONG)
def test_wrong_operators_are_refused_and_leave_nothing(said: dict[str, object], message: str) -> None:
    block = main().global_block()
    block.create_var(name="x", shape=[-1, 3], dtype="float32")
    block.create_var(name="w", shape=[3, 4], dtype="float32")
    block.create_var(name="out")
    before = str(main())
    with pytest.raises(ValueError, match=message) as error:
        block.append_op(outputs={"Out": ["out"]}, **said)
    assert isinstance(error.value, UserError)
    assert __file__ in str(error.value)
    assert str(main()) == before


def test_names_of_layers() -> None:
    x = layers.data("x", [3])
    y = layers.fc(layers.fc(x, 4, act="relu"), 2)
    assert y.name == "fc_1.tmp_1"
    assert [p.name for p in main().all_parameters()] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
    assert [o.type for o in main().global_block().ops] == [
        "mul",
        "elementwise_add",
        "relu",
        "mul",
        "elementwise_add",
    ]


def test_errors_of_layers_name_the_users_line() -> None:
    x = layers.data("x", [3])
    for wrong in (
        lambda: layers.fc(x, 4, num_flatten_dims=3),
        lambda: layers.conv2d(x, 4, 3),
        lambda: layers.relu(3),
        lambda: layers.fc(x),
        lambda: layers.softmax_with_cross_entropy(x, x),
        lambda: layers.pow(x, factor="a"),
    ):
        with pytest.raises(UserError) as error:
            wrong()
        assert __file__ in str(error.value)


def test_shared_parameters() -> None:
    x = layers.data("x", [3])
    for _ in range(2):
        layers.fc(x, 4, param_attr="shared", bias_attr=False)
    assert [p.name for p in main().all_parameters()] == ["shared"]
    assert len(fluid.default_startup_program().global_block().ops) == 1
    with pytest.raises(ValueError, match="described a second time"):
        layers.fc(x, 5, param_attr="shared")


def test_gradients_that_are_there_stay() -> None:
    """A gradient is fetched after others of the same variables were appended, of a penalty on it too."""
    x = layers.data("x", [2], append_batch_size=False, stop_gradient=False)
    weight = layers.create_parameter([2], "float32", default_initializer=fluid.initializer.Constant(2.0))
    cost = layers.reduce_sum(layers.square(x * weight))
    slope = fluid.calc_gradient(cost, x)
    both = cost + layers.reduce_sum(layers.square(slope))
    again = fluid.calc_gradient(both, x)
    (pair,) = fluid.optimizer.SGD(0.01).minimize(both)[1]
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    given = np.float32([1, -3])
    found = executor.run(feed={"x": given}, fetch_list=[slope, again, pair[1], pair[0]])
    by_weight = 2 * given**2 * 2 + 4 * (2 * given * 4) * given * 2 * 2
    wanted = [2 * given * 4, 2 * given * 4 + 2 * (2 * given * 4) * 8, by_weight, 2 - 0.01 * by_weight]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert [o.type for o in main().clone(for_test=True).global_block().ops][-1] in ("elementwise_add", "sum")


def test_clone_for_test_has_neither_gradients_nor_updates() -> None:
    x, y = layers.data("x", [3]), layers.data("y", [1])
    cost = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(cost)
    test = main().clone(for_test=True)
    assert [o.type for o in test.global_block().ops] == [
        "mul",
        "elementwise_add",
        "elementwise_sub",
        "square",
        "mean",
    ]
    assert not any(v.name.endswith("@GRAD") for v in test.list_vars())
    pruned = main().prune([cost])
    assert [o.type for o in pruned.global_block().ops] == [o.type for o in test.global_block().ops]


# ---- running

PLACES = ("numpy", "cpu", "cuda-sim")


@pytest.mark.parametrize("place", PLACES)
def test_fit_a_line(place: str) -> None:
    x, y = layers.data("x", [13]), layers.data("y", [1])
    cost = layers.mean(
        layers.square_error_cost(layers.fc(x, 1, param_attr=fluid.initializer.Constant(0.0)), y)
    )
    fluid.optimizer.SGD(0.1).minimize(cost)
    draw = np.random.default_rng(0)
    points = draw.normal(size=(20, 13)).astype(np.float32)
    wanted = (points @ draw.normal(size=(13, 1)) + 1).astype(np.float32)
    exe = fluid.Executor(fluid.Place(place))
    exe.run(fluid.default_startup_program())
    weights, bias = np.zeros((13, 1)), np.zeros(1)
    for _ in range(3):
        (loss,) = exe.run(feed={"x": points, "y": wanted}, fetch_list=[cost])
        error = points @ weights + bias - wanted
        assert loss.shape == (1,)
        assert np.allclose(loss, (error**2).mean(), rtol=1e-5)
        weights -= 0.1 * points.T @ (2 * error / 20)
        bias -= 0.1 * (2 * error / 20).sum()
    held = np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor())  # pyright: ignore[reportOptionalMemberAccess]
    assert np.allclose(held, weights, atol=1e-5)


def test_digits() -> None:
    images, labels = layers.data("x", [64]), layers.data("label", [1], dtype="int64")
    hidden = layers.fc(layers.fc(images, 128, act="relu"), 64, act="relu")
    guess = layers.fc(hidden, 10, act="softmax")
    cost = layers.mean(layers.cross_entropy(guess, labels))
    right = layers.accuracy(guess, labels)
    test = main().clone(for_test=True)
    main().random_seed = fluid.default_startup_program().random_seed = 7
    fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.0005)).minimize(cost)
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)[:, None]
    order = np.random.default_rng(0).permutation(len(x))
    held, used = order[:360], order[360:]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for _ in range(6):
        for start in range(0, len(used) - 63, 64):
            rows = used[start : start + 64]
            exe.run(feed={"x": x[rows], "label": y[rows]}, fetch_list=[cost])
    (share,) = exe.run(test, feed={"x": x[held], "label": y[held]}, fetch_list=[right])
    assert share[0] >= 0.93


def test_feeds_and_fetches_are_checked() -> None:
    x = layers.data("x", [3])
    out = layers.fc(x, 2)
    exe = fluid.Executor(fluid.CPUPlace())
    good = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="run the start-up program first"):
        exe.run(feed={"x": good}, fetch_list=[out])
    exe.run(fluid.default_startup_program())
    for feed, message in (
        ({}, "reads 'x', which has no value yet"),
        ({"x": [[1.0, 2.0, 3.0]]}, "says neither shape nor element type"),
        ({"x": good.astype(np.float64)}, "holds float32, and is fed an array of float64"),
        ({"x": good[:, :2]}, "is fed an array of shape"),
        ({"z": good}, "the program has no variable 'z' to feed"),
    ):
        with pytest.raises(ValueError, match=message):
            exe.run(feed=feed, fetch_list=[out])
    with pytest.raises(ValueError, match="there is no variable 'nothing'"):
        exe.run(feed={"x": good}, fetch_list=["nothing"])
    assert exe.run(feed={"x": good}, fetch_list=[out, "x"])[1].shape == (4, 3)


def test_seeds() -> None:
    def drawn(seed: int, times: int = 2) -> list[np.ndarray]:
        program, startup = fluid.Program(), fluid.Program()
        startup.random_seed = seed
        with fluid.program_guard(program, startup), fluid.unique_name.guard():
            layers.fc(layers.data("x", [3]), 50)
        exe = fluid.Executor(fluid.CPUPlace())
        return [exe.run(startup, fetch_list=["fc_0.w_0"])[0] for _ in range(times)]

    first, again = drawn(5)
    assert np.array_equal(first, again)
    assert np.array_equal(first, drawn(5)[0])
    assert not np.array_equal(first, drawn(6)[0])
    fresh = drawn(0)
    assert not np.array_equal(*fresh)
    assert abs(first).max() <= np.sqrt(6 / 53)


def test_a_block_evaluates_targets_by_the_operators_that_they_need() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.layers.data("x", [3])
        guess = fluid.layers.fc(x, 1, bias_attr=False)
        loss = fluid.layers.mean(guess)
        label = fluid.layers.data("label", [1])
        fluid.optimizer.SGD(0.5).minimize(fluid.layers.mean(guess * label))
    executor, scope = fluid.Executor(fluid.NumpyPlace()), fluid.Scope()
    executor.run(startup, scope=scope)
    block, feed = main.global_block(), {"x": np.ones((2, 3), np.float32)}
    weights = np.array(scope.find_var("fc_0.w_0").get_tensor())
    for _ in range(2):  # nothing is trained, and no label is fed
        found, whole = block.eval([loss, "fc_0.tmp_0"], executor, feed, scope)
        np.testing.assert_allclose(whole, feed["x"] @ weights, rtol=1e-6)
        np.testing.assert_allclose(found, whole.mean(keepdims=True)[0], rtol=1e-6)
    with fluid.program_guard(main, startup):
        doubled = fluid.layers.scale(loss, 2.0)
    (twice,) = block.eval(doubled, executor, feed, scope)
    np.testing.assert_allclose(twice, 2 * found, rtol=1e-6)
    with pytest.raises(ValueError, match="is of another program"):
        fluid.Program().global_block().eval(loss, executor)
    with pytest.raises(ValueError, match="runs within the operator that has it"):
        main.create_block().eval(loss, executor)


def test_a_clone_is_pruned_to_variables_of_its_program() -> None:
    x = layers.data("x", [3])
    wanted = layers.relu(x)
    layers.mean(wanted)
    clone = main().clone(for_test=True).prune([wanted])
    assert [op.type for op in clone.global_block().ops] == ["relu"]
    (found,) = fluid.Executor().run(clone, feed={"x": np.full((2, 3), -1, "f")}, fetch_list=[wanted])
    assert not found.any()
