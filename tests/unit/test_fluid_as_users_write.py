# SPDX-License-Identifier: Apache-2.0
"""Small programs as the documents describe them, and what is said of those that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from program_helpers import X
from program_helpers import program as program

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers


def _run(fetched: Any, place: Any = None, **feed: Any) -> list[Any]:
    executor = fluid.Executor(place or fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetched)


def _refused(action: Callable[[], Any], message: str, hint: str = "") -> None:
    with pytest.raises(UserError) as caught:
        action()
    first = caught.value.diagnostics[0]
    assert message in first.message and hint in first.hint, str(caught.value)
    assert first.location.file == __file__


def _names() -> list[str]:
    return sorted(p.name for p in fluid.default_main_program().all_parameters())


# ---- parameters


@pytest.mark.parametrize("attr", ["w", fluid.ParamAttr(name="w", learning_rate=0.5)])
def test_one_name_for_the_two_weights_of_a_projected_lstm(attr: Any) -> None:
    x = layers.data("x", [16], lod_level=1)
    layers.dynamic_lstmp(x, 16, 3, param_attr=attr)
    assert _names() == ["lstmp_0.b_0", "w", "w_proj"]
    again, _ = layers.dynamic_lstmp(x, 16, 3, param_attr=attr, bias_attr="lstmp_0.b_0")
    assert _names() == ["lstmp_0.b_0", "w", "w_proj"]  # shared
    rows = fluid.create_lod_tensor(np.ones((5, 16), np.float32), [[2, 3]], fluid.CPUPlace())
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    (found,) = executor.run(feed={"x": rows}, fetch_list=[again], return_numpy=False)
    assert np.array(found).shape == (5, 3)


def test_what_is_said_of_several_weights() -> None:
    x = layers.data("x", [3])
    layers.fc([x, x], 2, param_attr=fluid.WeightNormParamAttr(dim=None), bias_attr=False)
    assert _names() == ["fc_0.w_0_g", "fc_0.w_0_v", "fc_0.w_1_g", "fc_0.w_1_v"]  # all are normalized
    _refused(
        lambda: layers.fc([x, x], 2, param_attr="w"), "several parameters cannot all be called 'w'", "list"
    )
    _refused(lambda: layers.fc([x, x], 2, param_attr=["w"] * 3), "2 parameters, and 3", "one for each")


# ---- constants


@pytest.mark.parametrize("place", [fluid.CPUPlace(), fluid.NumpyPlace()])
def test_arrays_of_each_element_type(place: Any) -> None:
    arrays = [
        np.array([[True, False]]),
        np.array([1, -(2**31)]),
        np.array([[3], [4]], np.int32),
        np.array([0.5, -np.inf], np.float32),
        np.array(True),
    ]
    made = [layers.assign(array) for array in arrays]
    out = layers.create_tensor("bool")
    layers.assign(np.array([False, True]), out)
    text = str(fluid.default_main_program())
    assert str(fluid.Program.parse_from_string(text)) == text
    found = _run([*made, out, layers.logical_not(made[0])], place)
    for array, result in zip([*arrays, np.array([False, True]), ~arrays[0]], found, strict=True):
        assert result.dtype == array.dtype and np.array_equal(result, array)


def test_arrays_that_are_no_attributes() -> None:
    _refused(lambda: layers.assign(np.array([2**31])), "integers that 32 bits hold", "feed")
    _refused(lambda: layers.assign(np.array([0.1])), "not of float64", "astype")


def test_a_division_by_the_number_zero() -> None:
    x = layers.data("x", [3])
    with np.errstate(all="ignore"):
        assert np.array_equal(_run([x / 0], x=X)[0], X / np.float32(0), equal_nan=True)


# ---- blocks


@pytest.mark.parametrize("place", [fluid.CPUPlace(), fluid.NumpyPlace()])
@pytest.mark.parametrize("holds", [True, False])
def test_a_branch_writes_a_variable_without_a_value_before(place: Any, holds: bool) -> None:
    # How long it is, only the block says: where it does not run, there are zeros.
    x = layers.data("x", [3], stop_gradient=False)
    condition = layers.data("condition", [1], dtype="bool", append_batch_size=False)
    out = layers.create_tensor("float32")
    with layers.ConditionalBlock([condition], is_scalar_condition=True).block():
        layers.assign(x * 2.0, out)
    slope = fluid.calc_gradient(layers.reduce_sum(out), x)
    value, gradient = _run([out, slope], place, x=X, condition=np.array([holds]))
    assert np.array_equal(value, X * 2 * holds)
    assert np.array_equal(gradient, np.full_like(X, 2.0 * holds))


@pytest.mark.parametrize("steps", [0, 3])
def test_a_loop_writes_a_variable_without_a_value_before(steps: int) -> None:
    x, count = layers.data("x", [3]), layers.data("count", [1], dtype="int64", append_batch_size=False)
    i, out = layers.fill_constant([1], "int64", 0), layers.create_tensor("float32")
    condition = layers.less_than(i, count)
    with layers.While(condition).block():
        layers.assign(x * layers.cast(i, "float32"), out)
        layers.increment(i, 1.0)
        layers.less_than(i, count, cond=condition)
    (found,) = _run([out], x=X, count=np.array([steps]))
    assert np.array_equal(found, X * max(steps - 1, 0))


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_memory_of_another_shape(kind: str) -> None:
    if kind == "static":
        x, network = layers.data("x", [5, 4, 2], append_batch_size=False), layers.StaticRNN()
        opened = network.step
    else:
        x, network = layers.data("x", [2], lod_level=1), layers.DynamicRNN()
        opened = network.block
    with opened():
        word = network.step_input(x)
        before = (
            network.memory(shape=[-1, 2], batch_ref=word) if kind == "static" else network.memory(shape=[2])
        )
        wide = layers.fc(before, 3)
        _refused(lambda: network.update_memory(before, wide), ", 3], and it begins with [", "init=")
        network.update_memory(before, before + word)


# ---- names and feeds


def test_one_fetch_needs_no_list() -> None:
    x = layers.data("x", [3])
    doubled = x + x
    executor = fluid.Executor()
    for fetched in (doubled, doubled.name, [doubled], (doubled.name,)):
        (found,) = executor.run(feed={"x": X}, fetch_list=fetched)
        assert np.array_equal(found, X + X)
    _refused(
        lambda: executor.run(feed={"x": X}, fetch_list=[3]), "a variable or its name, not 3", "fetch_list="
    )


def test_feeds_that_are_no_dictionary() -> None:
    layers.data("x", [3])
    _refused(lambda: fluid.Executor().run(feed=[X]), "a dictionary of arrays by name, not a list", "feed={")


def test_a_second_description_names_both_lines() -> None:
    layers.data("x", [3])
    with pytest.raises(UserError, match="a second time") as caught:
        layers.data("x", [4])
    (first,) = caught.value.diagnostics
    assert [n.location.line for n in first.notes] == [first.location.line - 2]


def test_a_variable_of_another_program() -> None:
    x = layers.data("x", [3])
    own = x * 2.0
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        _refused(lambda: layers.fc(x, 2), "'x' is of another program", "program_guard")
        _refused(lambda: layers.sums([x, own]), "'x' is of another program")
    clone = fluid.default_main_program().clone()
    with fluid.program_guard(clone):
        assert layers.mean(own).block.program is clone  # which has it too


def test_lengths_that_are_no_integers() -> None:
    _refused(lambda: layers.data("x", "34"), "the lengths of 'x' are integers", "shape=[3]")


def test_a_message_says_nothing_of_lengths_that_it_does_not_name() -> None:
    x, label = layers.data("x", [3]), layers.data("label", [1])
    with pytest.raises(UserError, match="Label chooses each class by its number") as caught:
        layers.cross_entropy(x, label)
    assert "240" not in str(caught.value)


def test_rows_that_do_not_fit() -> None:
    x, label = layers.data("x", [3]), layers.data("label", [1], dtype="int64", lod_level=1)
    feeder = fluid.DataFeeder([x, label], fluid.CPUPlace())
    fed = feeder.feed([([1, 2, 3], [1, 2]), ([4, 5, 6], [3])])
    assert fed["label"].lod() == [[0, 2, 3]] and np.array(fed["label"]).tolist() == [[1], [2], [3]]
    _refused(lambda: feeder.feed([([1, 2], [1])]), "the rows of 'x' have the shape [2]", "layers.data")
    _refused(lambda: feeder.feed([([1, 2, 3], [1]), ([1, 2, 3],)]), "row 1 has 1 values", "x, label")


WRONG: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a dimension that there is not": (
        lambda x: fluid.nets.glu(x, dim=7), "there is no dimension 7 of 'x'", "counts from 0",
    ),
    "windows of what is no image": (
        lambda x: layers.im2sequence(x, [2, 2]), "images have a batch, channels, rows and columns", "",
    ),
    "labels of several columns": (
        lambda x: layers.accuracy(x, x), "the labels of 240 rows have the shape [240, 1], not [240, 4]", "class",
    ),
    "more than there are": (
        lambda x: layers.topk(x, 9), "the 9 largest are asked for, and there are 4", "",
    ),
    "a tensor as an array": (
        lambda x: layers.array_read(x, x), "array_read takes an array, not the tensor 'x'", "create_array",
    ),
    "an initializer that is none": (
        lambda x: layers.fc(x, 2, param_attr=fluid.ParamAttr(initializer=3)), "3 is no initializer", "Xavier",
    ),
    "a regularizer that is none": (
        lambda x: fluid.optimizer.SGD(0.1, regularization=3), "3 is no regularizer", "L2Decay",
    ),
    "an operator alone": (
        lambda x: fluid.op.Operator("scale", X="x", Put="y"), "neither a slot nor an attribute 'Put'", "Out",
    ),
    "a parameter of an open length": (
        lambda x: layers.create_parameter([2, -1], "float32"), "the lengths of a parameter are 1 or more", "-1",
    ),
    "what is no variable": (
        lambda x: layers.fc(3.0, 2), "layer fc takes variables as input, not 3.0", "layers.data",
    ),
    "values between boundaries": (
        lambda x: layers.piecewise_decay([1], [1.0]), "1 boundaries lie between 2 values, not 1", "the last",
    ),
    "a width of gates": (
        lambda x: layers.dynamic_lstm(x, 10), "4 times the width of its states, not 10", "size=4 * width",
    ),
    "lengths of rows": (
        lambda x: fluid.create_lod_tensor(X, [[2, 3]], fluid.CPUPlace()), "4 rows are not cut", "add up",
    ),
    "a name of the original": (lambda x: fluid.ParallelExecutor, "no attribute 'ParallelExecutor'", "DataParallel"),
    "a kind of pool with a slip": (
        lambda x: layers.pool2d(layers.data("i", [1, 4, 4]), 2, "maxx"), "pool_type is max or avg, not 'maxx'", "did you mean max?",
    ),
    "a condition that is no variable": (lambda x: layers.IfElse(True), "IfElse takes a variable as its condition", "less_than"),
    "a condition of a loop that is none": (lambda x: layers.While(True), "While takes a variable as its condition", "less_than"),
    "a layer with a slip": (lambda x: layers.sequence_poool, "no attribute 'sequence_poool'", "did you mean sequence_pool?"),
    "an activation with a slip": (lambda x: layers.sigmoidd, "no attribute 'sigmoidd'", "did you mean sigmoid?"),
    "an optimizer with a slip": (lambda x: fluid.optimizer.Adamm, "no attribute 'Adamm'", "did you mean Adam?"),
    "labels of floats, nce": (lambda x: layers.nce(x, x, 5), "Label chooses each class by its number", "int64"),
    "labels of floats, accuracy": (
        lambda x: layers.accuracy(x, layers.reduce_sum(x, dim=1, keep_dim=True)), "Label chooses each class by its number", "cast",
    ),
    "labels of floats, auc": (
        lambda x: layers.auc(x, layers.reduce_sum(x, dim=1, keep_dim=True)), "Label chooses each class by its number", "cast",
    ),
    "a class of floats": (
        lambda x: layers.one_hot(layers.reduce_sum(x, dim=1, keep_dim=True), 3), "X chooses each class by its number", "cast",
    ),
    "rows by floats": (lambda x: layers.gather(x, x), "Index chooses each row by its number, an integer, and holds f32", "cast"),
    "an input by floats": (
        lambda x: layers.multiplex([x, x], layers.reduce_sum(x, dim=1, keep_dim=True)), "Ids chooses each input", "cast",
    ),
    "a label for nce without rows": (
        lambda x: layers.nce(x, layers.data("y", [], dtype="int64"), 5), "labels of the shape [rows, labels], not [240]", "",
    ),
    "two labels in a tree of classes": (
        lambda x: layers.hsigmoid(x, layers.data("y", [2], dtype="int64"), 5), "a row has one label: the shape [240, 1]", "",
    ),
    "a row that is no sequence": (
        lambda x: fluid.DataFeeder([layers.data("y", [1], lod_level=1)], fluid.CPUPlace()).feed([(3,)]), "not 3", "lod_level=1",
    ),
    "a name with a slip": (lambda x: fluid.Excutor, "no attribute 'Excutor'", "did you mean Executor?"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_of(name: str) -> None:
    action, message, hint = WRONG[name]
    x = layers.data("x", [4])
    _refused(lambda: action(x), message, hint)
    assert not hasattr(fluid, "nothing_of_this_name")


# ---- parts, and operators of Python on shapes of other ranks


@pytest.mark.parametrize("place", [fluid.CPUPlace(), fluid.NumpyPlace()], ids=str)
def test_parts_of_variables(place: Any) -> None:
    x = layers.data("x", [3, 4], stop_gradient=False)
    asked: list[Any] = [0, -1, slice(1, None), slice(None, -1), (slice(None), 1), (slice(None), slice(1, 3), -2), (..., 0), (1, ..., slice(2)),
                        (0, 1, 2), (0, 0), np.int64(1), ...]  # fmt: skip
    parts = [x[at] for at in asked]
    gradient = fluid.calc_gradient(layers.reduce_sum(x[:, 1, 2:]), x)
    for rows in (2, 5):
        array = np.arange(rows * 12, dtype=np.float32).reshape(rows, 3, 4)
        *found, slope = _run([*parts, gradient], place, x=array)
        for at, value in zip(asked, found, strict=True):
            assert np.array_equal(value, np.atleast_1d(array[at])), at
        wanted = np.zeros_like(array)
        wanted[:, 1, 2:] = 1
        assert np.array_equal(slope, wanted)


def test_what_is_said_of_parts() -> None:
    x = layers.data("x", [3, 4])
    _refused(lambda: x[::2], "indexed with the step 2", "layers.reverse")
    _refused(lambda: x[[0, 1]], "indexed with integers and ranges, not [0, 1]", "layers.gather")
    _refused(lambda: x[True], "indexed with integers and ranges", "layers.gather")
    _refused(lambda: x[x], "indexed with integers and ranges", "layers.gather")
    _refused(lambda: x[0, 0, 0, 0], "has 3 dimensions, and is indexed with 4")
    _refused(lambda: x[:, 3], "has no element 3 along dimension 1, which is 3 long")
    with pytest.raises(TypeError, match="not iterable"):
        iter(x)


def test_one_number_of_each_row() -> None:
    """As in later releases: of a batch, where the last dimensions do not fit."""
    x, y, sequence = layers.data("x", [3]), layers.data("y", []), layers.data("s", [-1, -1, 3])
    made = [
        x - y,
        y * x,
        x / layers.reduce_max(x, dim=1),
        layers.reshape(y, [-1, 1]) * y,
        sequence + layers.data("p", [3]),
    ]
    for rows in (2, 3, 5):
        a, b = (
            np.random.default_rng(0).random((rows, 3), np.float32),
            np.arange(1, rows + 1, dtype=np.float32),
        )
        s, p = np.ones((rows, 4, 3), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
        found = _run(made, x=a, y=b, s=s, p=p)
        by_row = b[:, None]
        wanted = [a - by_row, a * by_row, a / a.max(1, keepdims=True), by_row * by_row, s + p]
        assert all(np.allclose(*each) for each in zip(found, wanted, strict=True))


def test_lengths_that_are_computed_of_known_ones() -> None:
    """A range of a computed number, and places of what holds in a tensor of a known shape, have any length."""
    x, few = layers.data("x", [3]), layers.data("few", [6], append_batch_size=False)
    count = layers.cast(layers.shape(x)[0], "int32")
    numbers = layers.range(0, count, 1, "int64")
    places = layers.where(few > 0.5)
    assert numbers.shape == (-1,) and places.shape == (-1, 1)
    best = layers.argmax(x, axis=-1)
    for rows in (4, 2, 7):
        a = np.random.default_rng(rows).random((rows, 3), np.float32)
        f = np.float32([1, 0, 1, 0, 0, 1])
        found, where = _run([numbers * 3 + best, places], x=a, few=f)
        assert np.array_equal(found, np.arange(rows) * 3 + a.argmax(-1)) and where.ravel().tolist() == [
            0,
            2,
            5,
        ]


def test_a_number_for_a_variable_without_dimensions() -> None:
    e = layers.data("e", [], append_batch_size=False)
    for value in (0.5, np.float32(0.5), np.array(0.5, np.float32)):
        assert np.allclose(_run([e * 2.0], e=value)[0], 1.0)


def test_means_of_windows_that_count_what_is_outside() -> None:
    x = layers.data("x", [1, 4, 4])
    made = [
        layers.pool2d(x, 3, "avg", pool_padding=1, exclusive=exclusive) for exclusive in (True, False, 1, 0)
    ]
    found = _run(made, x=np.ones((1, 1, 4, 4), np.float32))
    assert [each[0, 0, 0, 0] for each in found] == [1, np.float32(4 / 9), 1, np.float32(4 / 9)]
    _refused(lambda: layers.pool2d(x, 3, "avg", exclusive=2), "is True or False, not 2")
