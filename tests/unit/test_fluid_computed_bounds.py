# SPDX-License-Identifier: Apache-2.0
"""Loops that write arrays and that only a number of the run bounds: values, gradients, one program for all numbers, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_helpers import program as program

from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import executor as executors
from ngmlir.support.diagnostics import Limit, UserError

layers = fluid.layers
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]
X = np.float32([[1.5, -0.5, 2.0], [0.5, 1.0, -1.0]])


def _number(name: str) -> Any:
    return layers.data(name, [1], dtype="int64", append_batch_size=False)


def _numbers(**values: int) -> dict[str, Any]:
    return {name: np.array([value], np.int64) for name, value in values.items()}


def _powers(n: Any, x: Any) -> Any:
    """x, x^2, ... as an array of n elements."""
    i, power, powers = layers.zeros([1], "int64"), layers.assign(x), layers.create_array("float32")
    more = layers.less_than(i, n)
    with layers.While(more).block():
        layers.array_write(power, i, array=powers)
        layers.assign(power * x, power)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    return powers


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_bound_that_is_fed(place: Any) -> None:
    n, at, x = _number("n"), _number("at"), layers.data("x", [3], stop_gradient=False)
    powers = _powers(n, x)
    length, read = layers.array_length(powers), layers.array_read(powers, at)
    slope = fluid.calc_gradient(layers.reduce_sum(read), x)
    executor = fluid.Executor(place)
    for count, index, rows in ((3, 1, 2), (5, 4, 2), (2, 0, 1), (1, 0, 2), (40, 6, 2), (9, 8, 1)):
        feed = {"x": X[:rows], **_numbers(n=count, at=index)}
        many, found, by_x = executor.run(feed=feed, fetch_list=[length, read, slope])
        assert many.tolist() == [count]
        assert np.allclose(found, X[:rows] ** (index + 1), rtol=1e-5)
        assert np.allclose(by_x, (index + 1) * X[:rows] ** index, rtol=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("count", [0, -3])
def test_a_loop_that_does_not_run(count: int, place: Any) -> None:
    x = layers.data("x", [3])
    length = layers.array_length(_powers(_number("n"), x))
    (found,) = fluid.Executor(place).run(feed={"x": X, **_numbers(n=count)}, fetch_list=[length])
    assert found.tolist() == [0]


def test_one_program_for_all_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    n, x = _number("n"), layers.data("x", [3])
    powers = _powers(n, x)
    last = layers.array_read(powers, layers.elementwise_sub(n, layers.ones([1], "int64")))
    executor, made = fluid.Executor(), []
    one = executors.compiled
    monkeypatch.setattr(executors, "compiled", lambda *given: made.append(given) or one(*given))
    for count in (3, 5, 6, 17, 2, 33):
        (found,) = executor.run(feed={"x": X, **_numbers(n=count)}, fetch_list=[last])
        assert np.allclose(found, X**count, rtol=1e-5)
    assert len(made) == 1  # what counts for the first bound


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_loop_over_what_a_loop_wrote(place: Any) -> None:
    """The second one runs as often as the array of the first is long, and that writes to an array that has an element."""
    n, x = _number("n"), layers.data("x", [3], stop_gradient=False)
    i, steps, doubled = (
        layers.zeros([1], "int64"),
        layers.create_array("float32"),
        layers.create_array("float32"),
    )
    layers.array_write(x, i, array=steps)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        step = layers.array_read(steps, i)
        layers.increment(i)
        layers.array_write(layers.tanh(step), i, array=steps)
        layers.less_than(i, n, cond=more)
    j, total = layers.zeros([1], "int64"), layers.fill_constant([1], "float32", 0.0)
    total.stop_gradient = False
    length = layers.array_length(steps)
    more = layers.less_than(j, length)
    with layers.While(more).block():
        layers.array_write(layers.array_read(steps, j) * 2.0, j, array=doubled)
        layers.assign(total + layers.reduce_sum(layers.array_read(doubled, j)), total)
        layers.increment(j)
        layers.less_than(j, length, cond=more)
    slope = fluid.calc_gradient(total, x)
    executor = fluid.Executor(place)
    for count in (1, 3, 6, 4):
        found, by_x, many = executor.run(
            feed={"x": X, **_numbers(n=count)}, fetch_list=[total, slope, layers.array_length(doubled)]
        )
        value, wanted, by = X, X.copy(), np.ones_like(X)
        gradient = by.copy()
        for _ in range(count):
            value = np.tanh(value)
            by = by * (1 - value**2)
            wanted, gradient = wanted + value, gradient + by
        assert np.allclose(found, 2 * wanted.sum(), rtol=1e-4) and many.tolist() == [count + 1]
        assert np.allclose(by_x, 2 * gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_loops_in_loops(place: Any) -> None:
    n, m, x = _number("n"), _number("m"), layers.data("x", [3])
    i, total = layers.zeros([1], "int64"), layers.zeros([1], "int64")
    sums, more = layers.create_array("int64"), layers.less_than(i, n)
    with layers.While(more).block():
        inner = layers.array_length(_powers(m, x))
        layers.assign(total + inner, total)
        layers.array_write(total, i, array=sums)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    executor = fluid.Executor(place)
    for outer, inner in ((3, 2), (2, 5), (1, 1), (0, 4)):
        found = executor.run(
            feed={"x": X, **_numbers(n=outer, m=inner)}, fetch_list=[total, layers.array_length(sums)]
        )
        assert [each.tolist() for each in found] == [[outer * inner], [outer]]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_further_condition(place: Any) -> None:
    """What is computed of tensors ends the loop before the number does."""
    n, x = _number("n"), layers.data("x", [3])
    i, value, found = layers.zeros([1], "int64"), layers.assign(x), layers.create_array("float32")
    most = layers.fill_constant([1], "float32", 40.0)
    more = layers.logical_and(layers.less_than(i, n), layers.less_than(layers.reduce_sum(value), most))
    with layers.While(more).block():
        layers.array_write(value, i, array=found)
        layers.increment(i)
        layers.assign(value * 2.0, value)
        is_small = layers.less_than(layers.reduce_sum(value), most)
        layers.logical_and(layers.less_than(i, n), is_small, out=more)
    length, executor = layers.array_length(found), fluid.Executor(place)
    for count, wanted in ((2, 2), (100, 4), (4, 4)):
        (many,) = executor.run(feed={"x": X, **_numbers(n=count)}, fetch_list=[length])
        assert many.tolist() == [wanted]  # 3.5 at first, and 56 behind the fourth


def test_a_loop_without_end() -> None:
    x = layers.data("x", [3])
    length = layers.array_length(_powers(_number("n"), x))
    with pytest.raises(UserError, match="does not end within 1048576 iterations") as caught:
        fluid.Executor().run(feed={"x": X, **_numbers(n=2**40)}, fetch_list=[length])
    assert "test_fluid_computed_bounds.py" in str(caught.value) and "hint:" in str(caught.value)


def test_what_only_tensors_bound() -> None:
    x = layers.data("x", [3])
    i, value, found = layers.zeros([1], "int64"), layers.assign(x), layers.create_array("float32")
    most = layers.fill_constant([1], "float32", 40.0)
    more = layers.less_than(layers.reduce_sum(value), most)
    with layers.While(more).block():
        layers.array_write(value, i, array=found)
        layers.increment(i)
        layers.assign(value * 2.0, value)
        layers.less_than(layers.reduce_sum(value), most, cond=more)
    with pytest.raises(Limit, match="no number that is there before the loop bounds it") as caught:
        fluid.Executor().run(feed={"x": X}, fetch_list=[layers.array_length(found)])
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("written", ["before", "in a loop"])
def test_a_position_that_an_array_does_not_have(written: str, place: Any) -> None:
    """What is read at a position that only the run knows is there, or the run is refused; a parameter is left as it was."""
    x, at = layers.data("x", [3]), _number("at")
    if written == "before":
        array = layers.create_array("float32")
        for i in range(3):
            layers.array_write(layers.fc(x, 2), layers.fill_constant([1], "int64", i), array=array)
    else:
        array = _powers(_number("n"), layers.fc(x, 3))
    loss = layers.mean(layers.array_read(array, at))
    fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    numbers = {} if written == "before" else _numbers(n=3)
    executor.run(feed={"x": X, **numbers, **_numbers(at=2)}, fetch_list=[loss])
    name = fluid.default_main_program().all_parameters()[0].name
    kept = np.array(fluid.global_scope().find_var(name).get_tensor())
    for outside in (3, -1):
        with pytest.raises(UserError, match=f"no position {outside} in .* which has 3 positions") as caught:
            executor.run(feed={"x": X, **numbers, **_numbers(at=outside)}, fetch_list=[loss])
        assert "hint:" in str(caught.value) and "array_read(array, at)" in str(caught.value)
    assert np.array_equal(kept, np.array(fluid.global_scope().find_var(name).get_tensor()))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_loop_that_reads_beyond_an_array(place: Any) -> None:
    """A number of the run says how often the loop runs, and so how far it reads."""
    n, x = _number("n"), layers.data("x", [3])
    array, i, total = (
        layers.create_array("float32"),
        layers.zeros([1], "int64"),
        layers.zeros([1], "float32"),
    )
    for at in range(3):
        layers.array_write(x * float(at + 1), layers.fill_constant([1], "int64", at), array=array)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        layers.assign(total + layers.reduce_sum(layers.array_read(array, i)), total)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    executor = fluid.Executor(place)
    for count, times in ((3, 6), (1, 1), (0, 0)):
        (found,) = executor.run(feed={"x": X, **_numbers(n=count)}, fetch_list=[total])
        assert np.allclose(found, times * X.sum())
    with pytest.raises(UserError, match="no position 3 in .* which has 3 positions"):
        executor.run(feed={"x": X, **_numbers(n=4)}, fetch_list=[total])


def _nested(outer: Any, inner: Any, x: Any, array: Any, reads: bool = False) -> Any:
    """A loop in a loop writes the next element in each of its iterations: x times its position, or the element before it plus x."""
    i, position = layers.zeros([1], "int64"), layers.zeros([1], "int64")
    more = layers.less_than(i, outer)
    with layers.While(more).block():
        j = layers.zeros([1], "int64")
        again = layers.less_than(j, inner(i))
        with layers.While(again).block():
            if reads:
                value = layers.array_read(array, position) + x
                layers.increment(position)
            else:
                value = x * layers.cast(position, "float32")
            layers.array_write(value, position, array=array)
            if not reads:
                layers.increment(position)
            layers.increment(j)
            layers.less_than(j, inner(i), cond=again)
        layers.increment(i)
        layers.less_than(i, outer, cond=more)
    return position


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_an_array_that_only_an_inner_loop_writes(place: Any) -> None:
    """Of fed numbers, and of constants; the gradient too."""
    x, n, m = layers.data("x", [3], stop_gradient=False), _number("n"), _number("m")
    array, known = layers.create_array("float32"), layers.create_array("float32")
    _nested(n, lambda i: m, x, array)
    three = layers.fill_constant([1], "int64", 3)
    _nested(three, lambda i: three, x, known)
    last = layers.array_read(array, n * m - layers.ones([1], "int64"))
    slope = fluid.calc_gradient(layers.reduce_sum(last), x)
    lengths = [layers.array_length(array), layers.array_length(known)]
    executor = fluid.Executor(place)
    for outer, inner in ((2, 3), (3, 3), (1, 5), (4, 1)):
        found = executor.run(feed={"x": X, **_numbers(n=outer, m=inner)}, fetch_list=[*lengths, last, slope])
        count = outer * inner
        assert [each.tolist() for each in found[:2]] == [[count], [9]]
        assert np.allclose(found[2], X * (count - 1)) and np.allclose(found[3], count - 1)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("counts", ["by a number", "by the outer counter"])
def test_an_inner_loop_reads_what_it_wrote(counts: str, place: Any) -> None:
    x, n, array = layers.data("x", [3]), _number("n"), layers.create_array("float32")
    layers.array_write(x, layers.zeros([1], "int64"), array=array)
    inner = (lambda i: n) if counts == "by a number" else (lambda i: i)
    position = _nested(n, inner, x, array, reads=True)
    fetched = [layers.array_length(array), layers.array_read(array, position)]
    executor = fluid.Executor(place)
    for count in (3, 5, 2, 4):
        found = executor.run(feed={"x": X, **_numbers(n=count)}, fetch_list=fetched)
        steps = count * count if counts == "by a number" else count * (count - 1) // 2
        assert found[0].tolist() == [steps + 1] and np.allclose(found[1], X * (steps + 1))


def test_an_inner_loop_without_end() -> None:
    n, x, array = _number("n"), layers.data("x", [3]), layers.create_array("float32")
    i, j = layers.zeros([1], "int64"), layers.zeros([1], "int64")
    more = layers.less_than(i, n)
    with layers.While(more).block():
        again = layers.less_than(i, n)
        with layers.While(again).block():
            layers.array_write(x, j, array=array)
            layers.increment(j)
            layers.less_than(i, n, cond=again)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    with pytest.raises(UserError, match="does not end within 1048576 iterations"):
        fluid.Executor().run(feed={"x": X, **_numbers(n=2)}, fetch_list=[layers.array_length(array)])
