# SPDX-License-Identifier: Apache-2.0
"""State and its order: writes in order of creation, the guard, sequences."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng


def scalar(value: float = 0) -> ng.Tensor:
    return ng.variable((), initial_value=value)


def runner(*arguments: Any) -> Callable[[], Any]:
    """A computation on a transformer of its own, which gives Python numbers."""
    return on(ng.transformers.make_transformer("numpy"), *arguments)


def on(transformer: Any, returns: Any, *parameters: Any) -> Callable[..., Any]:
    computation = transformer.computation(returns, *parameters)

    def call(*values: Any) -> Any:
        made = computation(*values)
        return (
            tuple(None if m is None else float(m) for m in made)
            if isinstance(made, tuple)
            else None
            if made is None
            else float(made)
        )

    return call


def test_an_op_waits_for_the_assignment_before_it() -> None:
    x = ng.placeholder((), initial_value=0)
    a = ng.assign(x, 5)
    z = x + 1
    assert list(z.other_deps) == [a]
    assert z.other_deps.pop() is a
    assert z.control_deps == z.other_deps
    assert runner(z)() == 6


def test_reading_a_variable_pulls_its_update() -> None:
    w = scalar()
    ng.assign(w, w + 1)
    read = runner(w)
    assert [read(), read(), read()] == [1, 2, 3]


def test_the_guard_keeps_an_update_apart() -> None:
    w = scalar()
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w + 1)
    read, both = runner(w), runner([w, update])
    assert [read(), read(), read()] == [0, 0, 0]
    assert [both(), both(), both()] == [(1, None), (2, None), (3, None)]


def test_the_guard_hides_the_outside_too() -> None:
    w = scalar()
    first = ng.assign(w, 5)
    with ng.Op.saved_user_deps():
        inside = w + 1
        with ng.Op.saved_user_deps():
            ng.assign(w, 7)
        assert list(w.user_deps) == []
    assert not inside.other_deps
    assert list(w.user_deps) == [first]
    with pytest.raises(KeyError), ng.Op.saved_user_deps():
        ng.assign(w, 9)
        raise KeyError
    assert list(w.user_deps) == [first]


def test_a_given_map_is_used_by_the_guard() -> None:
    w = scalar()
    with ng.Op.saved_user_deps() as pending:
        update = ng.assign(w, w + 1)
    with ng.Op.saved_user_deps(pending):
        assert list(w.user_deps) == [update]


def test_another_thread_has_its_own_order() -> None:
    w = scalar()
    update = ng.assign(w, w + 1)
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append((w + 1).other_deps))
    thread.start()
    thread.join()
    assert list(seen[0]) == []
    assert list(w.user_deps) == [update]


def test_what_an_op_waits_for_is_settled_when_it_is_made() -> None:
    w = scalar()
    early = w + 0
    computation = runner(w)
    ng.assign(w, w + 1)
    assert not early.other_deps
    assert computation() == 0  # made before the assignment


def test_writes_follow_each_other() -> None:
    w = scalar(1)
    ng.assign(w, w + 1)
    ng.assign(w, w * 10)
    read = runner(w)
    assert [read(), read()] == [20, 210]


def test_writes_cross() -> None:
    a, b = scalar(1), scalar(2)
    ng.assign(a, b)
    ng.assign(b, a)
    assert runner([a, b])() == (2, 2)


def test_a_reader_made_before_a_write_sees_the_old_value() -> None:
    x = scalar(1)
    y = x + 0
    ng.fill(x, 7)
    z = x + 0
    assert runner([y, z, x])() == (1, 7, 7)
    w = scalar(0)
    y = w + 1
    a = ng.assign(w, 5)
    assert runner([y, a])() == (1, None)


def test_a_view_shares_the_order_of_its_storage() -> None:
    x = ng.variable([ng.make_axis(3, "A")], initial_value=[1, 2, 3])
    part = x[1:]
    update = ng.assign(x, x * 10)
    late = part + 0  # the view is older than the write, its reader is not
    assert list(late.other_deps) == [update]
    assert ng.transformers.make_transformer("numpy").computation(late)().tolist() == [20, 30]


def test_storage_as_a_result_is_read_last() -> None:
    w = scalar()
    assert runner([w, w + 10, ng.assign(w, w + 1)])() == (1, 10, None)


# ---- sequences


def test_a_sequence_leaks_nothing() -> None:
    w = scalar()
    s = ng.sequential([ng.assign(w, w + 1), w])
    transformer = ng.transformers.make_transformer("numpy")
    c, d = on(transformer, w), on(transformer, s)
    assert [c(), c(), d(), d(), c()] == [0, 0, 1, 2, 2]


def test_reads_in_a_sequence_see_their_place() -> None:
    x = scalar()
    x0, x1 = x + x, x + x
    p = ng.sequential([x0, ng.assign(x, 2), x1, x0])
    assert runner([x0, x1, p])() == (0, 4, 0)


def test_a_sequence_takes_over_a_write_made_before_it() -> None:
    x = scalar()
    a = ng.assign(x, 2)
    y = x + x
    assert list(y.other_deps) == [a]
    p = ng.sequential([y, a])
    assert not y.other_deps
    assert runner([y, p, x])() == (0, None, 2)


def test_a_withdrawn_write_gives_way_to_those_before_it() -> None:
    x = scalar(1)
    plain = ng.assign(x, x + 1)
    taken = ng.assign(x, 50)
    late = ng.assign(x, x * 10)
    ng.sequential([taken])
    assert list(late.other_deps) == [plain]
    assert runner(x)() == 20


def test_sequences_within_sequences() -> None:
    x = scalar()
    inner = ng.sequential([ng.assign(x, x + 1), x])
    outer = ng.sequential([inner, ng.assign(x, x * 10), x])
    assert runner([inner, outer])() == (1, 10)
    assert runner(outer + 0)() == 10


def test_an_op_twice_in_a_sequence_runs_once() -> None:
    x = scalar()
    step = ng.assign(x, x + 1)
    assert runner(ng.sequential([step, step, x]))() == 1


def test_value_of_is_a_snapshot() -> None:
    x = scalar(3)
    before = ng.value_of(x)
    s = ng.sequential([before, ng.assign(x, 8), before])
    assert runner([s, x])() == (3, 8)


def test_doall_runs_all_in_order_of_creation() -> None:
    a, b = scalar(1), scalar(2)
    both = ng.doall([ng.assign(a, b), ng.assign(b, a)])
    assert runner([both, a, b])() == (None, 2, 2)
    assert runner(both)() is None


def test_doall_in_a_sequence_is_taken_over() -> None:
    a = scalar(1)
    s = ng.sequential([ng.doall([ng.assign(a, a + 1)]), a])
    assert runner(a)() == 1
    assert runner(s)() == 2


def test_gradients_do_not_follow_order() -> None:
    w = scalar(3)
    ng.assign(w, w * 2)
    y = w * w
    assert runner(ng.deriv(y, w))() == 12  # at the new value
    s = ng.sequential([ng.assign(w, w + 1), w * w])
    assert runner(ng.deriv(s, w))() == 12


def test_explicit_dependencies() -> None:
    w = scalar(1)
    with ng.Op.saved_user_deps():
        update = ng.assign(w, 4)
    y = w + 1
    y.add_control_dep(update)
    assert list(y.other_deps) == [update]
    assert runner(y)() == 5


def test_a_cycle_is_refused() -> None:
    x = scalar()
    y = x + 1
    z = y + 1
    y.add_control_dep(z)
    with pytest.raises(ng.CycleError, match=r"test_graph_order.py:\d+"):
        runner(z)()


# ---- writes to parts


def test_writes_through_views_reach_the_storage() -> None:
    rows, columns = ng.make_axis(3, "R"), ng.make_axis(4, "C")
    start = np.arange(12.0).reshape(3, 4)

    def after(write: Callable[[Any], Any]) -> Any:
        x = ng.variable([rows, columns], initial_value=start)
        write(x)
        return ng.transformers.make_transformer("numpy").computation(x)()

    def expected(change: Callable[[Any], None]) -> Any:
        array = start.astype(np.float32)
        change(array)
        return array

    def put(item: Any, value: Any) -> tuple[Any, Any]:
        return after(lambda x: ng.set_item(x, item, value)), expected(lambda a: a.__setitem__(item, value))

    for item in (
        slice(1, 2),
        (slice(None), 1),
        (0, slice(1, 3)),
        (-1, -1),
        (slice(0, 3, 2), slice(1, 4, 2)),
        (slice(2, 2),),
    ):
        np.testing.assert_array_equal(*put(item, 100))
    np.testing.assert_array_equal(after(lambda x: ng.fill(x[:, 1], 0))[:, 1], 0)
    np.testing.assert_array_equal(
        after(lambda x: ng.assign(ng.axes_with_order(x, [columns, rows]), np.ones((4, 3)))), np.ones((3, 4))
    )
    np.testing.assert_array_equal(after(lambda x: ng.assign(ng.flatten(x), 2.0)), np.full((3, 4), 2))
    np.testing.assert_array_equal(after(lambda x: ng.SetItem(x, x + x)), 2 * start)
    by_item = after(lambda x: x.__setitem__((slice(None), 0), 5))
    np.testing.assert_array_equal(by_item[:, 0], 5)
    with pytest.raises(ng.UserError, match="positive"):
        put(slice(None, None, -1), 0)


def test_in_place_operators_build_assignments() -> None:
    w = scalar(5)
    read = w
    w += 2
    assert type(w).__name__ == "AssignOp"
    assert runner(read)() == 7
    y = read * 1
    y += 1  # of a computed value, Python's meaning
    assert type(y).__name__ == "AddOp"


def test_assignments_broadcast_to_their_target() -> None:
    a, b = ng.make_axis(2, "A"), ng.make_axis(3, "B")
    x = ng.variable([a, b], initial_value=0)
    ng.assign(x, ng.constant([1, 2, 3], [b]))
    assert ng.transformers.make_transformer("numpy").computation(x)().tolist() == [[1, 2, 3]] * 2
    with pytest.raises(ng.IncompatibleAxesError, match="lost"):
        ng.assign(x, ng.constant(1, [ng.make_axis(4, "Z")]))


@pytest.mark.parametrize("target", [lambda: ng.constant(1), lambda: scalar() + 1, lambda: 5])
def test_only_storage_can_be_assigned_to(target: Callable[[], Any]) -> None:
    with pytest.raises(ng.NotAssignable, match=r"test_graph_order.py:\d+"):
        ng.assign(target(), 2)


def test_random_draws_anew_and_moves_on_once_per_run() -> None:
    x = ng.placeholder([ng.make_axis(1000, "A")])
    u, n = ng.uniform(x, 2, 4, seed=1), ng.normal(x, 10, 3, seed=2)
    computation = ng.transformers.make_transformer("numpy").computation([u, u + 0, n])
    first, second = computation(), computation()
    np.testing.assert_array_equal(first[0], first[1])
    assert not np.array_equal(first[0], second[0])
    assert first[0].min() >= 2 and first[0].max() < 4
    assert abs(first[2].mean() - 10) < 0.5 and abs(first[2].std() - 3) < 0.3
    again = ng.transformers.make_transformer("numpy").computation(ng.uniform(x, 2, 4, seed=1))
    np.testing.assert_array_equal(again(), first[0])
    np.testing.assert_array_equal(again(), second[0])


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s + 1,
        lambda s: 1 - s,
        lambda s: ng.exp(s),
        lambda s: ng.sum(s),
        lambda s: ng.value_of(s),
        lambda s: ng.broadcast(s, []),
        lambda s: ng.assign(ng.variable(()), s),
        lambda s: ng.deriv(s, ng.variable(())),
        lambda s: ng.cond(s, lambda: ng.constant(1), lambda: ng.constant(2)),
        lambda s: s.mean(),
    ],
)
def test_what_has_no_value_is_refused_where_it_is_used(use: Callable[[Any], Any]) -> None:
    w = ng.variable((), initial_value=1)
    step = ng.sequential([ng.assign(w, w + 1)])
    group = ng.sequential([ng.doall([ng.assign(w, 2)])])
    for given in (step, group):
        message = r"SequentialOp_\d+ has no value: [\s\S]*put the result at the end of the list"
        with pytest.raises(ng.UserError, match=message) as error:
            use(given)
        assert error.value.diagnostics[0].location.file == __file__
    assert ng.sequential([step, w]).is_tensor_op
    with pytest.raises(ng.UserError, match="is an assignment or a group, which has no value"):
        ng.add(ng.assign(w, 2), 1)


# ---- derivatives and what is written between


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def each(request: pytest.FixtureRequest) -> Any:
    return ng.transformers.make_transformer(request.param)


def test_a_derivative_is_at_what_its_dependent_was_computed_from(each: Any) -> None:
    w = scalar(2)
    y = w * w * w
    ng.assign(w, 6)
    slope = ng.deriv(y, w)
    assert on(each, [y, slope, ng.deriv(slope, w), w])() == (8, 12, 12, 6)
    assert on(each, slope)() == 108  # at what the write before has left


@pytest.mark.parametrize("built", ["before the write", "before the sequence", "in the sequence", "after it"])
@pytest.mark.parametrize("written", ["before", "after"])
def test_what_a_sequence_has_read_its_derivative_reads(each: Any, written: str, built: str) -> None:
    w = scalar(2)
    y = w * w * w
    slopes = [ng.deriv(y, w)] if built == "before the write" else []
    write = ng.assign(w, 6)
    slopes += [ng.deriv(y, w)] if built == "before the sequence" else []
    listed = [write, y] if written == "before" else [y, write, y]
    if built == "in the sequence":
        slopes.append(ng.deriv(y, w))
        listed.append(slopes[0])
    sequence = ng.sequential(listed)
    slopes += [ng.deriv(y, w)] if built == "after it" else []
    assert on(each, [sequence, y, *slopes, w])()[1:] == ((216, 108, 6) if written == "before" else (8, 12, 6))


def test_a_step_that_assigns_one_parameter_after_another(each: Any) -> None:
    parameters = [scalar(i + 1) for i in range(3)]
    loss = parameters[0] * parameters[1] * parameters[2]
    for parameter in parameters:
        ng.assign(parameter, parameter - 0.1 * ng.deriv(loss, parameter))
    np.testing.assert_allclose(on(each, [loss, *parameters])(), [6, 0.4, 1.7, 2.8], rtol=1e-6)


def test_a_derivative_in_a_guard_waits_for_what_its_dependent_waits_for(each: Any) -> None:
    w = scalar(2)
    ng.assign(w, 3)
    y = w * w * w
    with ng.Op.saved_user_deps():
        slope = ng.deriv(y, w)
    assert on(each, slope)() == 27


def test_such_derivatives_of_views_compositions_and_losses(each: Any) -> None:
    @ng.composite_op
    def cube(x: ng.Tensor) -> ng.Tensor:
        return x * x * x

    @cube.gradient
    def _(delta: ng.Tensor, y: ng.Tensor, x: ng.Tensor) -> ng.Tensor:
        return delta * 3 * x * x

    axis = ng.make_axis(3, "C")
    target = ng.constant([1, 0, 0], [axis])

    def losses(w: ng.Tensor, write: Callable[[], Any]) -> list[ng.Tensor]:
        distribution, chance = ng.softmax(w), ng.sigmoid(w)
        products, cubes = w[1:] * w[:2], cube(w)
        write()
        made = [ng.cross_entropy_multi(distribution, target), ng.cross_entropy_binary(chance, target)]
        made += [ng.sum(t, out_axes=()) for t in (products, cubes)]
        return [*made, *(ng.deriv(y, w) for y in made)]

    changed = ng.variable([axis], initial_value=[1, 2, 3])
    plain = ng.variable([axis], initial_value=[1, 2, 3])
    found = each.computation(losses(changed, lambda: ng.assign(changed[1:], [5, 0.5])))()
    wanted = each.computation(losses(plain, lambda: None))()
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_derivative_needs_no_more_than_the_op_reads() -> None:
    x, y = ng.placeholder(()), ng.placeholder(())
    assert on(ng.transformers.make_transformer("numpy"), ng.deriv(x * y, x), y)(3) == 3


def test_a_value_listed_after_the_step_that_its_derivative_takes(each: Any) -> None:
    w, x = scalar(2), scalar(3)
    cost = w * x  # whose derivative needs no value of it, but reads w
    with ng.Op.saved_user_deps():
        step = ng.sequential([ng.assign(x, x - ng.deriv(cost, x)), ng.assign(w, w + 1), 0])
        listed = ng.sequential([step, cost])
    assert on(each, [listed, x, w])() == (3, 1, 3)
    again = ng.sequential([ng.deriv(cost, w), step, cost])
    assert on(ng.transformers.make_transformer("numpy"), [again, x, w])() == (3, 1, 3)


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_assignments_under_a_condition_keep_what_is_there(target: str) -> None:
    """Of storage of any elements, of views of it, and under conditions inside others."""
    from ngmlir.op_graph.building import assigning_where

    A = ng.make_axis(3, "A")
    first, second = ng.placeholder((), dtype="i1"), ng.placeholder((), dtype="i1")
    wide = ng.persistent_tensor([A], dtype="ui64", initial_value=np.array([2**63 + 1, 5, 7], np.uint64))
    narrow = ng.persistent_tensor([A], dtype="bf16", initial_value=1)
    row = ng.numpy.persistent_tensor(np.zeros(3))
    with assigning_where(first):
        one = [ng.assign(wide, ng.add(wide, 1, dtype="ui64")), ng.assign(row[1:], row[1:] + 1)]
        with assigning_where(second):
            two = [ng.assign(narrow, narrow + 1)]
    group = ng.doall([*one, *two])
    run = ng.compile(ng.sequential([group, wide]), [first, second], target=target)
    for given in ((0, 0), (0, 1), (1, 0), (1, 1)):
        run(*given)
    found = run.state()
    assert found["wide"].tolist() == [2**63 + 3, 7, 9] and found["narrow"].astype(float).tolist() == [2, 2, 2]
    assert found["row"].tolist() == [0, 2, 2]
