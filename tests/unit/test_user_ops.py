# SPDX-License-Identifier: Apache-2.0
"""Ops that users define: compositions and functions of arrays, with derivatives of their own."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.ops.words import from_text, to_text

TARGETS = ["numpy", "cpu", "cuda-sim"]
C, N, T = ng.make_axis(3, "C"), ng.make_axis(2, "N"), ng.make_axis(4, "T")


@pytest.fixture(params=TARGETS)
def transformer(request: Any) -> Any:
    with ng.transformers.make_transformer(request.param) as made:
        yield made


def run(*results: Any) -> Any:
    return ng.transformers.make_transformer("numpy").computation(list(results))()


@ng.composite_op
def swish(x: ng.Tensor, beta: float = 1.0) -> ng.Tensor:
    """x times its sigmoid."""
    return x * ng.sigmoid(x * beta)


@ng.host_op
def softsign(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.abs(x))


@softsign.gradient
def _(delta: ng.Tensor, y: ng.Tensor, x: ng.Tensor) -> ng.Tensor:
    return delta * ng.square(1 - ng.absolute(y))


# ---- compositions


def test_a_composition_is_one_op(transformer: Any) -> None:
    x = ng.variable([C], initial_value=[-1, 0.5, 2])
    y = swish(x, beta=2.0, name="s", metadata={"layer": 1})
    assert (type(y).__name__, y.name, y.args, y.metadata) == ("SwishOp", "s", (x,), {"layer": 1})
    assert isinstance(y, swish.op_class)
    assert ng.select_ops(y, kind="Swish") == [y]
    assert swish.__doc__ == "x times its sigmoid."
    numbers = np.array([-1, 0.5, 2])
    value, slope = transformer.computation([y, ng.deriv(ng.sum(y, out_axes=()), x)])()
    sigmoid = 1 / (1 + np.exp(-2 * numbers))
    assert np.allclose(value, numbers * sigmoid, rtol=1e-5)
    assert np.allclose(slope, sigmoid + 2 * numbers * sigmoid * (1 - sigmoid), rtol=1e-5)
    assert transformer.computation(swish(x, axes=["C"]))().shape == (3,)


def test_errors_come_from_where_a_composition_is_used() -> None:
    @ng.composite_op
    def scaled(x: Any) -> Any:
        return x + ng.temporary([C])

    place = ng.Op().lineno + 1
    made = scaled(ng.constant([1, 2, 3], [C]))
    with pytest.raises(ng.UserError) as raised:
        run(made)
    assert all(op.lineno == place for op in ng.Op.ordered_ops([made]) if op.args)
    assert raised.value.diagnostics

    @ng.composite_op
    def broken(x: Any) -> Any:
        return ng.sum(x, "K")

    with pytest.raises(ng.AxisNotFound) as unknown:
        broken(ng.constant([1, 2, 3], [C]))
    assert any("in the op broken, used at" in note for note in unknown.value.__notes__)


def test_a_composition_may_state_its_gradient(transformer: Any) -> None:
    @ng.composite_op
    def clipped(x: Any, low: float, high: float) -> Any:
        return ng.minimum(ng.maximum(x, low), high)

    @clipped.gradient
    def straight_through(delta: Any, y: Any, x: Any, low: float, high: float) -> Any:
        return delta * (high - low)

    x = ng.variable([C], initial_value=[-5, 0.5, 2])
    slope = ng.deriv(ng.sum(clipped(x * 2, -1, 1), out_axes=()), x)
    assert transformer.computation(slope)().tolist() == [4, 4, 4]


def test_gradients_of_several_operands_and_second_ones() -> None:
    @ng.composite_op
    def cubed_product(pair: list[Any], scale: Any) -> Any:
        return pair[0] ** 3 * pair[1] * scale

    @cubed_product.gradient
    def _(delta: Any, y: Any, pair: list[Any], scale: Any) -> Any:
        a, b = pair
        return [delta * 3 * a * a * b * scale, ng.sum(delta * a**3 * scale, out_axes=b.axes), None]

    a, b = ng.variable([C], initial_value=[1, 2, 3]), ng.variable((), initial_value=2)
    scale = ng.variable((), initial_value=5)
    y = ng.sum(cubed_product([a, b], scale), out_axes=())
    once = ng.deriv(y, a)
    twice = ng.deriv(ng.sum(once, out_axes=()), a)
    found = run(once, ng.deriv(y, b), ng.deriv(y, scale), twice)
    assert found[0].tolist() == [30, 120, 270]
    assert float(found[1]) == 36 * 5
    assert float(found[2]) == 0
    assert found[3].tolist() == [60, 120, 180]


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda delta, y, x: [delta, delta], "gives 2 values for 1 operand"),
        (lambda delta, y, x: ng.sum(delta, out_axes=()) * ng.constant([1, 2], [N]), r"has axes \(N\), the operand \(C\)"),
    ],
)  # fmt: skip
def test_wrong_gradients_are_refused(gradient: Any, message: str) -> None:
    twice = ng.composite_op(lambda x: x * 2)
    twice.gradient(gradient)
    x = ng.variable([C], initial_value=1)
    with pytest.raises(ng.UserError, match=message):
        ng.deriv(ng.sum(twice(x), out_axes=()), x)


def test_compositions_of_several_values_and_what_is_refused() -> None:
    @ng.composite_op
    def both(x: Any) -> Any:
        return x + 1, x * 2

    x = ng.constant([1, 2, 3], [C])
    a, b = both(x)
    assert [v.tolist() for v in run(a, b, a.copy_with_args([b]))] == [[2, 3, 4], [2, 4, 6], [3, 5, 7]]
    both.gradient(lambda delta, y, x: delta)
    with pytest.raises(ng.UserError, match="gives 2 values, and defines a gradient"):
        both(x)
    with pytest.raises(ng.UserError, match="has no value"):
        ng.composite_op(lambda x: ng.doall([x]))(x)
    with pytest.raises(ng.UserError, match="not a function"):
        ng.composite_op(3)
    with pytest.raises(ng.UserError, match="not a function"):
        swish.gradient(3)


def test_a_composition_of_a_tensor_alone_and_of_none() -> None:
    same = ng.composite_op(lambda x: x)
    x = ng.variable([C], initial_value=[1, 2, 3], name="x")
    y = same(x, name="same")
    assert (x.name, y.name) == ("x", "same")
    assert run(y, ng.deriv(ng.sum(y * y, out_axes=()), x))[1].tolist() == [2, 4, 6]
    assert float(run(ng.composite_op(lambda: 3)())[0]) == 3


def test_a_composition_may_write_and_give_storage(transformer: Any) -> None:
    w = ng.variable((), initial_value=1)

    @ng.composite_op
    def counted(x: Any) -> Any:
        ng.assign(w, w + x)
        return w

    with ng.Op.saved_user_deps():
        computation = transformer.computation([counted(ng.constant(2)), counted(ng.constant(5)) * 1])
    assert [float(v) for v in computation()] == [3, 8]
    assert [float(v) for v in computation()] == [10, 15]


def test_user_ops_in_loops_and_their_gradients(transformer: Any) -> None:
    @ng.composite_op
    def doubled(x: Any) -> Any:
        return x * 2

    @doubled.gradient
    def _(delta: Any, y: Any, x: Any) -> Any:
        return delta * 10

    w, count = ng.variable((), initial_value=1), ng.variable((), initial_value=0)
    series = ng.variable([T], initial_value=[1, 2, 3, 4])

    def step(total: Any, item: Any) -> Any:
        ng.assign(count, count + 1)
        return total + doubled(item) * w, total

    with ng.Op.saved_user_deps():
        last, _ = ng.scan(step, ng.constant(0), series, T)
        found = transformer.computation([last, ng.deriv(last, w), ng.deriv(last, series)])()
    assert (float(found[0]), float(found[1])) == (20, 20)
    assert found[2].tolist() == [10] * 4
    branch = ng.cond(w > 0, lambda: swish(w), lambda: w)
    value, slope = transformer.computation([branch, ng.deriv(branch, w)])()
    assert np.allclose([value, slope], [0.7310586, 0.9276706], rtol=1e-5)


# ---- schemas


class Halved(ng.Schema):
    def __init__(self, x: ng.Tensor):
        self.operands = (x,)

    def gradient(self, op: ng.Tensor, delta: ng.Tensor) -> ng.Tensor:
        return delta * 0.5


def test_a_schema_of_a_users_says_the_derivative() -> None:
    x = ng.variable([C], initial_value=[1, 4, 9])
    y = ng.sqrt(x)
    y.schemas.append(Halved(x))
    assert run(ng.deriv(ng.sum(y * 3, out_axes=()), x))[0].tolist() == [1.5] * 3


def test_a_schema_without_a_derivative_changes_none() -> None:
    class Marked(ng.Schema):
        pass

    x = ng.variable((), initial_value=4)
    y = ng.sqrt(x)
    y.schemas.append(Marked())
    assert not y.schemas[0].is_derivative
    assert float(run(ng.deriv(y, x))[0]) == 0.25


def test_schemas_go_into_loops_that_are_made_again() -> None:
    series, count = ng.variable([T], initial_value=[1, 2, 3, 4]), ng.variable((), initial_value=0)

    def step(total: Any, item: Any) -> Any:
        ng.assign(count, count + 1)
        y = item * item
        y.schemas.append(Halved(item))
        return total + y, total

    last, _ = ng.scan(step, ng.constant(0), series, T)
    assert run(ng.deriv(last, series))[0].tolist() == [0.5] * 4


# ---- functions of arrays


def test_a_function_of_arrays_runs_in_programs(transformer: Any) -> None:
    x, p = ng.variable([C], initial_value=[-1, 0.5, 2]), ng.placeholder([C])
    before = ng.exp(p)
    made = softsign(before * x, name="soft")
    computation = transformer.computation([ng.tanh(made) + before, made, p], p)
    fed = np.array([0.1, 0.2, 0.3], np.float32)
    want = np.exp(fed) * np.array([-1, 0.5, 2])
    want = want / (1 + np.abs(want))
    for _ in range(2):
        found = computation(fed)
        assert np.allclose(found[0], np.tanh(want) + np.exp(fed), rtol=1e-5)
        assert np.allclose(found[1], want, rtol=1e-5)
        assert np.array_equal(found[2], fed)
        assert not np.shares_memory(found[2], fed)
    assert (type(made).__name__, made.name) == ("SoftsignOp", "soft")


def test_its_gradient_is_the_one_that_is_stated(transformer: Any) -> None:
    x = ng.variable([C], initial_value=[-1, 0.5, 3])
    slope = ng.deriv(ng.sum(softsign(x * 2), out_axes=()), x)
    want = 2 / (1 + np.abs(2 * np.array([-1, 0.5, 3]))) ** 2
    assert np.allclose(transformer.computation(slope)(), want, rtol=1e-5)


def test_without_one_a_derivative_is_refused() -> None:
    cumulated = ng.host_op(np.cumsum)
    x = ng.variable([C], initial_value=1)
    y = cumulated(x)
    assert run(y)[0].tolist() == [1, 2, 3]
    with pytest.raises(ng.NotDifferentiable, match="host op cumsum has no gradient"):
        ng.deriv(ng.sum(y, out_axes=()), x)
    assert run(ng.deriv(ng.sum(x * ng.stop_gradient(y), out_axes=()), x))[0].tolist() == [1, 2, 3]
    data = ng.placeholder([C], initial_value=[1, 2, 3])
    loss = ng.sum(x * cumulated(data), out_axes=())  # what it is computed from is not asked about
    assert run(ng.deriv(loss, x))[0].tolist() == [1, 3, 6]
    with pytest.raises(ng.NotDifferentiable, match="host op cumsum"):
        ng.deriv(loss, data)
    inside, _ = ng.scan(lambda t, item: (t + ng.sum(cumulated(x * item)), t), ng.constant(0), data, C)
    with pytest.raises(ng.NotDifferentiable, match="host op cumsum"):
        ng.deriv(inside, x)


def test_axes_and_elements_are_declared(transformer: Any) -> None:
    @ng.host_op(axes=lambda x, axis, **_: x.axes - axis, dtype="i32")
    def count_above(x: Any, axis: Any, limit: float = 0.0) -> Any:
        return (x > limit).sum(0).astype(np.int32)

    @ng.host_op(axes=[N, C], dtype=lambda x: x.dtype)
    def repeated(x: Any) -> Any:
        return np.stack([x, x * 2])

    x = ng.constant([[1, -2, 3], [4, 5, -6]], [N, C])
    first = count_above(x, N)
    assert (first.axes.names, first.dtype) == (("C",), np.int32)
    second = count_above(x, "N", limit=3.5)
    third = repeated(ng.constant([1, 2, 3], [C], dtype="f64"))
    found = transformer.computation([first, second, third, first + 1])()
    assert [v.tolist() for v in found] == [[2, 1, 1], [1, 1, 0], [[1, 2, 3], [2, 4, 6]], [3, 2, 2]]
    assert [v.dtype for v in found[:3]] == [np.int32, np.int32, np.float64]


def test_arrays_and_several_tensors_are_operands(transformer: Any) -> None:
    @ng.host_op(axes=lambda pair, z: pair[0].axes)
    def combined(pair: Any, z: Any) -> Any:
        return pair[0] * pair[1] + z

    x = ng.placeholder([C])
    made = combined([x, x + 1], np.float32(1) * np.ones(3, np.float32))
    assert transformer.computation(made, x)([1, 2, 3]).tolist() == [3, 7, 13]


@pytest.mark.parametrize(
    ("function", "dtype", "message"),
    [
        (lambda x: x[:2], None, r"gave float32 of shape \(2,\), not float32 of shape \(3,\)"),
        (lambda x: x > 0, None, r"gave bool of shape \(3,\), not float32"),
        (lambda x: None, None, "gave None"),
        (lambda x: "text", None, "gave a str"),
        (lambda x: [[1], [1, 2]], None, "gave a list"),
        (lambda x: x * 1j, None, "gave complex64"),
        (lambda x: x, "i32", "gave float32 .* not int32"),
        (lambda x: x.astype(np.int64) * 2**40, "i32", "int32 cannot hold"),
        (lambda x: float(x.sum()), None, "gave a float, not"),
    ],
)  # fmt: skip
def test_what_a_function_gives_is_checked(transformer: Any, function: Any, dtype: Any, message: str) -> None:
    made = ng.host_op(function, dtype=dtype)
    x = ng.placeholder([C])
    line = ng.Op().lineno + 1
    y = made(x)
    with pytest.raises(ng.UserError, match=message) as raised:
        transformer.computation(y, x)([1, 2, 3])
    assert raised.value.diagnostics[0].location.line == line


def test_floats_are_rounded_to_what_is_declared(transformer: Any) -> None:
    wide = ng.host_op(lambda x: np.asarray(x, np.float64) / 3)
    assert transformer.computation(wide(ng.constant([1, 2, 3], [C])))().dtype == np.float32


def test_what_a_function_raises_comes_through_and_nothing_has_changed(transformer: Any) -> None:
    class Mine(Exception):
        pass

    fails = [True]

    @ng.host_op
    def moody(x: Any) -> Any:
        if fails[0]:
            raise Mine("not today")
        return x + 1

    w, v = ng.variable([C], initial_value=1), ng.variable([C], initial_value=1)
    with ng.Op.saved_user_deps():
        step = ng.sequential([ng.assign(v, v * 2), ng.assign(w, moody(w)), w])
    computation = transformer.computation(step)
    with pytest.raises(Mine, match="not today") as raised:
        computation()
    assert any("in the host op moody, used at" in note for note in raised.value.__notes__)
    assert transformer.get_tensor_view_value(v).tolist() == [1] * 3
    fails[0] = False
    assert computation().tolist() == [2] * 3
    assert computation().tolist() == [3] * 3
    assert transformer.get_tensor_view_value(v).tolist() == [4] * 3


def test_a_function_cannot_change_what_it_is_given(transformer: Any) -> None:
    @ng.host_op
    def greedy(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        transformer.computation(greedy(ng.variable([C], initial_value=1)))()


def test_what_a_function_keeps_is_its_own(transformer: Any) -> None:
    kept = np.zeros(3, np.float32)

    @ng.host_op
    def cached(x: Any) -> Any:
        kept[:] += 1
        return kept

    computation = transformer.computation(cached(ng.placeholder([C], initial_value=0)))
    first = computation()
    assert (first.tolist(), computation().tolist(), first.tolist()) == ([1] * 3, [2] * 3, [1] * 3)


def test_inside_loops_and_branches(transformer: Any) -> None:
    series = ng.placeholder([T])
    scale = ng.variable((), initial_value=2)
    last, parts = ng.scan(
        lambda total, item: (total + softsign(item) * scale, softsign(item)),
        ng.constant(0),
        ng.exp(series),
        T,
    )
    after = ng.tanh(last) + ng.sum(parts, out_axes=())
    branch = ng.cond(last > 0, lambda: softsign(last), lambda: last)
    slope = ng.deriv(last, scale)
    numbers = np.array([0.1, -1, 2, 0], np.float32)
    soft = np.exp(numbers) / (1 + np.exp(numbers))
    total = 2 * soft.sum()
    want = [np.tanh(total) + soft.sum(), total / (1 + total), soft.sum()]
    found = transformer.computation([after, branch, slope], series)(numbers)
    assert np.allclose(found, want, rtol=1e-5)


def test_chains_of_functions_and_state_between_them(transformer: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    y: Any = w
    for _ in range(4):
        y = softsign(y * 3 + w) + 1
    with ng.Op.saved_user_deps():
        both = ng.sequential([ng.assign(w, y), ng.assign(w, softsign(w)), w, y])
        computation = transformer.computation([both, w, y])
    state = np.array([1, 2, 3], np.float64)

    def sign(x: Any) -> Any:
        return x / (1 + np.abs(x))

    for _ in range(3):
        found = computation()
        value = state
        for _ in range(4):
            value = sign(value * 3 + state) + 1
        state = sign(value)
        assert np.allclose(found[0], value, rtol=1e-5)
        assert np.allclose(found[1], state, rtol=1e-5)


def test_text_names_the_function_and_does_not_hold_it() -> None:
    def local(x: Any) -> Any:
        return x + 41

    added = ng.host_op(local)
    x = ng.placeholder([C], name="x")
    module = ng.lift([added(x), added(ng.constant([[1, 2, 3]] * 2, [N, C]))], [x]).module
    text = to_text(module)
    assert (
        'func.func private @host_local(tensor<3xf32, #ng.axes<C>>) -> tensor<3xf32, #ng.axes<C>> attributes {ng.host = "local"}'
        in text
    )
    assert "@host_local_1(tensor<2x3xf32" in text
    again = from_text(text)
    assert to_text(again) == text
    from ngmlir.ops.interpreter import run as interpret

    assert interpret(again, np.zeros(3, np.float32))[0].tolist() == [41] * 3
    with pytest.raises(ng.Limit, match="is the Python function local: no compiled code can hold it"):
        ng.compiler.compile_module(again)
    elsewhere = from_text(text.replace('"local"', '"function_of_another_program"'))
    with pytest.raises(
        ng.UserError, match="the Python function function_of_another_program, which text does not contain"
    ):
        interpret(elsewhere, np.zeros(3, np.float32))


def test_functions_of_one_name_are_told_apart(transformer: Any) -> None:
    def made(number: float) -> Any:
        @ng.host_op
        def plus(x: Any) -> Any:
            return x + np.float32(number)

        return plus

    one, two = made(1), made(2)
    x = ng.placeholder([C], initial_value=0)
    assert [v.tolist() for v in transformer.computation([one(x), two(x)])()] == [[1] * 3, [2] * 3]
    # the same graph but for the function: what is cached for one must not serve the other
    assert transformer.computation(one(x) * 2)().tolist() == [2] * 3
    assert transformer.computation(two(x) * 2)().tolist() == [4] * 3


def test_functions_go_with_the_graph() -> None:
    from ngmlir.ops import hosts

    gc.collect()
    before = len(hosts._known)
    made = ng.host_op(lambda x: x + 1)
    y = made(ng.constant([1, 2, 3], [C]))
    assert len(hosts._known) == before + 1
    del made
    gc.collect()
    assert run(y)[0].tolist() == [2, 3, 4]
    del y
    gc.collect()
    assert len(hosts._known) == before


def test_threads_call_functions_at_once() -> None:
    transformer = ng.transformers.make_transformer("cpu")
    x = ng.placeholder([C])
    computation = transformer.computation(softsign(x * 2) + 1, x)
    computation(np.zeros(3))
    wrong: list[Any] = []

    def work(number: int) -> None:
        for i in range(30):
            fed = np.full(3, number + i, np.float32)
            if not np.allclose(computation(fed), 2 * fed / (1 + 2 * fed) + 1, rtol=1e-5):
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_any_batch_may_be_fed(transformer: Any) -> None:
    B = ng.make_axis(name="N")
    x = ng.placeholder([B, C])
    computation = transformer.computation(ng.sum(softsign(x), out_axes=[B]), x)
    for rows in (2, 5, 1):
        assert np.allclose(computation(np.ones((rows, 3))), [1.5] * rows)


def test_a_class_of_a_users_own_is_told_what_to_do() -> None:
    class Own(ng.Tensor):
        pass

    with pytest.raises(ng.UserError, match="is of a class of your own, Own") as raised:
        ng.compile(Own([], None, ng.make_axes([C]), ng.constant(1).element))
    assert "ng.composite_op" in raised.value.diagnostics[0].hint


def test_nothing_says_which_axes() -> None:
    with pytest.raises(ng.UserError, match="the axes of"):
        ng.host_op(lambda: 3)()
    assert float(run(ng.host_op(lambda: np.float32(3), axes=())())[0]) == 3


# ---- functions of arrays with several results


def test_a_host_op_of_several_results_is_called_once(transformer: Any) -> None:
    calls: list[int] = []

    @ng.host_op(results=2, axes=lambda x: (x.axes, x.axes[:1]), dtype=("f32", "i32"))
    def in_order_with_places(x: np.ndarray) -> Any:
        calls.append(1)
        return np.sort(x, axis=1), x.argmax(1)

    x = ng.placeholder([N, C])
    ordered, place = in_order_with_places(x)
    compute = transformer.computation([ordered * 2, place], x)
    array = np.array([[3, 1, 2], [1, 5, 4]])
    for i in range(1, 4):
        found = compute(array * i)
        assert len(calls) == i
        assert found[0].tolist() == (np.sort(array) * 2 * i).tolist() and found[1].tolist() == [0, 1]
    one = transformer.computation(place, x)
    assert one(array).tolist() == one(array).tolist() == [0, 1]


def test_gradients_of_several_results(transformer: Any) -> None:
    @ng.host_op(results=2)
    def polar(x: np.ndarray, y: np.ndarray) -> Any:
        return np.hypot(x, y), np.arctan2(y, x)

    @polar.gradient
    def _(deltas: Any, results: Any, x: ng.Tensor, y: ng.Tensor) -> Any:
        (to_length, to_angle), (length, _) = deltas, results
        turned = to_angle / ng.square(length)
        return to_length * x / length - turned * y, to_length * y / length + turned * x

    def loss(length: Any, angle: Any) -> Any:
        return length * length * angle + angle

    def body(state: Any, z: Any) -> Any:
        length, angle = polar(state + 1, z)
        return length, angle

    x, y = ng.placeholder([C], dtype="f64"), ng.placeholder([T, C], dtype="f64")
    with ng.default_float("f64"):
        last, angles = ng.scan(body, x, y, T)
        total = ng.sum(loss(*polar(x, last)), out_axes=()) + ng.sum(angles, out_axes=())
        compute = transformer.computation([total, ng.deriv(total, x), ng.deriv(total, y)], x, y)
    at, step = (np.array([0.5, 1, 2]), np.arange(1, 13).reshape(4, 3) / 7), 1e-6
    _, by_x, by_y = compute(*at)
    for way, slope in ((0, by_x), (1, by_y)):
        for place in np.ndindex(at[way].shape):
            moved = [[a.copy() for a in at] for _ in range(2)]
            moved[0][way][place] += step
            moved[1][way][place] -= step
            difference = (float(compute(*moved[0])[0]) - float(compute(*moved[1])[0])) / (2 * step)
            assert slope[place] == pytest.approx(difference, rel=1e-6)


def test_what_is_said_of_several_results_is_held() -> None:
    x = ng.variable([C], initial_value=[1, 2, 3])
    with pytest.raises(ng.UserError, match="dtype of sort is not of 2 results"):
        ng.host_op(results=2, dtype=("f32",))(np.sort)(x)
    with pytest.raises(ng.UserError, match="cannot have 0 results"):
        ng.host_op(results=0)(np.sort)
    with pytest.raises(ng.UserError, match="gave ndarray, not 2 arrays"):
        run(*ng.host_op(results=2)(np.sort)(x))
    with pytest.raises(ng.NotDifferentiable, match="sort has no gradient"):
        ng.deriv(ng.sum(ng.host_op(results=2)(np.sort)(x)[0], out_axes=()), x)
