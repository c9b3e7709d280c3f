# SPDX-License-Identifier: Apache-2.0
"""State in the bodies of loops and branches: writes, storage made there, random numbers; and gradients beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import Tensor
from ngmlir.ops.words import to_text

T, U, H = (ng.make_axis(n, name) for n, name in ((4, "T"), (2, "U"), (3, "H")))
SERIES = [1.0, 2.0, 3.0, 4.0]


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def run(request: pytest.FixtureRequest) -> Callable[..., Callable[..., Any]]:
    """A computation on one of the targets, whose results are lists."""
    transformer = ng.transformers.make_transformer(request.param)

    def computation(returns: Any, *parameters: Tensor) -> Callable[..., Any]:
        compiled = transformer.computation(returns, *parameters)

        def call(*given: Any) -> Any:
            made = compiled(*given)
            return [np.asarray(m).tolist() for m in made] if isinstance(made, tuple) else made.tolist()

        return call

    return computation


def number(value: Any = 0) -> Tensor:
    return ng.variable((), initial_value=value)


def series() -> Tensor:
    return ng.constant(SERIES, [T])


def test_a_write_goes_round_with_the_scan(run: Any) -> None:
    n = number(1)
    ng.assign(n, n + 10)

    def body(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        before = n + 0
        ng.assign(n, n + x)
        return total + n, before

    total, before = ng.scan(body, ng.constant(0), series(), T)
    ng.assign(n, n * 2)
    assert run([total, before, n])() == [12 + 14 + 17 + 21, [11, 12, 14, 17], 42]


def test_writes_are_waited_for_as_elsewhere(run: Any) -> None:
    n = number(1)
    with ng.Op.saved_user_deps():
        total, _ = ng.scan(lambda c, x: (ng.assign(n, n + 1), (c + n, ()))[1], ng.constant(0), series(), T)
    read, step = run(n), run([total, n])
    assert (read(), step(), read(), step()) == (1, [14, 5], 5, [30, 9])

    def guarded(c: Tensor, x: Tensor) -> tuple[Tensor, tuple[()]]:
        with ng.Op.saved_user_deps():
            ng.assign(n, n + 100)
        return c + n, ()

    assert run([ng.scan(guarded, ng.constant(0), series(), T)[0], n])() == [36, 9]


def test_scans_in_scans(run: Any) -> None:
    n = number()

    def inner(c: Tensor, u: Tensor) -> tuple[Tensor, tuple[()]]:
        ng.assign(n, n + 1)
        return c + u * n, ()

    def outer(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        c, _ = ng.scan(inner, c, ng.constant([10, 20], [U]), U)
        ng.assign(n, n * 2)
        return c + x * n, n + 0

    total, counts = ng.scan(outer, ng.constant(0), series(), T)
    want, count, seen = 0.0, 0, list[float]()
    for x in SERIES:
        for u in (10, 20):
            count += 1
            want += u * count
        count *= 2
        want += x * count
        seen.append(count)
    assert run([total, counts, n])() == [want, seen, count]


def test_views_of_what_is_written(run: Any) -> None:
    table = ng.variable([T, H], initial_value=0)
    part = table[1:3]

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, tuple[()]]:
        table[1] = x
        table[0:4:2, 1] = c
        return c + ng.sum(part, out_axes=()) + ng.sum(table[:, 0], out_axes=()), ()

    last, _ = ng.scan(body, ng.constant(0), series(), T)
    total, contents = 0.0, np.zeros((4, 3))
    for x in SERIES:
        contents[1] = x
        contents[0:4:2, 1] = total
        total += contents[1:3].sum() + contents[:, 0].sum()
    assert run([last, table])() == [total, contents.tolist()]


def test_two_storages_change_places(run: Any) -> None:
    a, b = number(1), number(2)

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, tuple[()]]:
        kept = ng.value_of(a)
        ng.assign(a, b + 0)
        ng.assign(b, kept)
        return c, ()

    ng.scan(body, ng.constant(0), ng.constant([1, 2, 3], [H]), H)
    assert run([a, b])() == [2, 1]


def test_each_step_draws_anew_and_the_gradient_sees_the_same_numbers(run: Any) -> None:
    w = ng.variable([H], initial_value=[1, 2, 3])

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, Any]:
        kept = ng.uniform(x) > 0.5
        return c + x * w * kept, (kept * 1.0, ng.uniform(w))

    last, (masks, others) = ng.scan(body, ng.constant(0, [H]), ng.constant(np.ones((4, 3)), [T, H]), T)
    slope = ng.deriv(ng.sum(last, out_axes=()), w)
    both, alone = run([slope, masks, others]), run(slope)
    first, second = both(), both()
    for got, mask, _ in (first, second):
        assert got == np.sum(mask, 0).tolist()
    assert first[1] != second[1]
    drawn = np.concatenate([first[2], second[2]]).ravel()
    assert len(set(drawn)) == drawn.size
    assert len({tuple(alone()) for _ in range(8)}) > 1  # the gradient alone moves the counter too


def test_second_derivatives_through_a_recurrence_with_dropout(run: Any) -> None:
    with ng.default_float("f64"):
        w = ng.variable([H], initial_value=[0.1, 0.2, 0.3])

        def body(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            mask = (ng.uniform(c, seed=5) > 0.3) * 1.0
            return ng.tanh(c * w + x) * mask + c, mask

        last, masks = ng.scan(body, ng.constant(np.ones(3), [H]), series(), T)
        slope = ng.deriv(ng.sum(last * last, out_axes=()), w)
        bend = ng.deriv(ng.sum(slope * slope, out_axes=()), w)
    once, twice, drawn = map(np.array, run([slope, bend, masks])())

    def total(v: Any) -> float:
        c = np.ones(3)
        for x, mask in zip(SERIES, drawn, strict=True):
            c = np.tanh(c * v + x) * mask + c
        return float((c * c).sum())

    def differences(f: Callable[[Any], Any], step: float, at: Any = (0.1, 0.2, 0.3)) -> Any:
        return np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(3)])

    assert 0 < drawn.sum() < drawn.size
    np.testing.assert_allclose(once, differences(total, 1e-5), rtol=1e-6, atol=1e-8)
    steepness = lambda v: float((differences(total, 1e-5, v) ** 2).sum())  # noqa: E731
    np.testing.assert_allclose(twice, differences(steepness, 1e-4), rtol=1e-5, atol=1e-5)


def test_a_layer_makes_its_weights_in_the_body(run: Any) -> None:
    held: list[Tensor] = []

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, tuple[()]]:
        if not held:
            held.append(ng.variable([H], initial_value=[1, 2, 3]))
        return c + x * held[0], ()

    rows = np.arange(12.0).reshape(4, 3)
    last, _ = ng.scan(body, ng.constant(0, [H]), ng.constant(rows, [T, H]), T)
    loss = ng.sum(last, out_axes=())
    assert loss.variables() == held and held[0].region is None
    assert run([loss, ng.deriv(loss, held[0])])() == [140, rows.sum(0).tolist()]


def test_derivatives_by_what_the_body_writes(run: Any) -> None:
    # As elsewhere: they follow what is read, and nothing flows along a write.
    n = number(2)
    last, _ = ng.scan(lambda c, x: (ng.assign(n, n + 1), (c + n * n * x, ()))[1], ng.constant(0), series(), T)
    once = ng.deriv(last, n)
    assert run([once, ng.deriv(once, n)])() == [2 * (3 * 1 + 4 * 2 + 5 * 3 + 6 * 4), 20]


def test_training_inside_a_scan(run: Any) -> None:
    random = np.random.RandomState(0)
    xs, ys = random.randn(4, 2, 3), random.randn(4, 2)
    w = ng.variable([H], initial_value=0)

    def body(c: Any, batch: Any) -> tuple[Any, Tensor]:
        x, y = batch
        loss = ng.sum(ng.square(ng.dot(x, w) - y), out_axes=())
        ng.assign(w, w - 0.05 * ng.deriv(loss, w))
        return c, loss

    _, losses = ng.scan(body, (), (ng.constant(xs, [T, U, H]), ng.constant(ys, [T, U])), T)
    step, weights, want = run([losses, w]), np.zeros(3), list[float]()
    for _ in range(2):
        got = step()
        want.clear()
        for x, y in zip(xs, ys, strict=True):
            error = x @ weights - y
            want.append((error**2).sum())
            weights = weights - 0.05 * 2 * x.T @ error
        np.testing.assert_allclose(got[0], want, rtol=1e-4)
        np.testing.assert_allclose(got[1], weights, rtol=1e-4)


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(run: Any, steps: int) -> None:
    R = ng.make_axis(steps, "R")
    n = number(7)

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        ng.assign(n, n + 1)
        return c + n * n, ng.uniform(x)

    last, drawn = ng.scan(body, ng.constant(3), ng.constant(np.zeros(steps), [R]), R)
    made = run([last, n, drawn])()
    assert made[:2] == [3 + 64 * steps, 7 + steps] and len(made[2]) == steps
    assert run(ng.deriv(last, n))() == 2 * (made[1] + 1) * steps


def test_a_body_that_fails_leaves_no_write_behind() -> None:
    n = number(5)

    def fails(c: Tensor, x: Tensor) -> Any:
        ng.assign(n, n + 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ng.scan(fails, ng.constant(0), series(), T)
    assert not n.user_deps
    assert ng.compile(n + 0)() == 5


def test_names_of_the_body_stay() -> None:
    def body(c: Tensor, x: Tensor) -> tuple[Tensor, tuple[()]]:
        return c + ng.exp(x).named("grown") * ng.uniform(x), ()

    assert "%grown = ng.exp" in to_text(ng.lift([ng.scan(body, ng.constant(0), series(), T)[0]]).module)


# ---- branches and loops whose conditions the program decides


def test_a_branch_writes_where_it_is_taken(run: Any) -> None:
    w, c = number(1), ng.placeholder(())
    ng.cond(c > 0, lambda: ng.assign(w, w * 2), lambda: None)
    read = run(w, c)
    assert [read(1), read(-1), read(1)] == [2, 2, 4]


def test_what_a_branch_writes_in_a_sequence(run: Any) -> None:
    w, c = number(1), ng.placeholder(())
    group = ng.cond(c > 0, lambda: ng.assign(w, w * 2), lambda: ng.doall([ng.assign(w, w + 1)]))
    after = run(ng.sequential([group, w + 0]), c)
    assert [after(1), after(-1), run(w)(), run(w)()] == [2, 3, 3, 3]
    with pytest.raises(ng.UserError, match="gives 0 values, the other 1"):
        ng.cond(c > 0, lambda: ng.assign(w, w * 2), lambda: w)


def test_a_branch_in_a_scan_writes_in_one_of_its_arms(run: Any) -> None:
    n = number()

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = ng.cond(x > 2, lambda: ng.sequential([ng.assign(n, n + x), n * 10]), lambda: c - 1)
        return c + y, n + 0

    total, seen = ng.scan(body, ng.constant(0), series(), T)
    read, step = run(n), run([total, seen, n])
    assert (read(), step(), read()) == (0, [97, [0, 0, 3, 7], 7], 7)  # a sequence keeps its writes to itself


def test_draws_in_a_branch_and_their_gradient(run: Any) -> None:
    w, c = ng.variable([H], initial_value=[1, 2, 3]), ng.placeholder(())

    def taken() -> tuple[Tensor, Tensor]:
        mask = ng.uniform(w) > 0.5
        return w * w * mask, mask * 1.0

    y, mask = ng.cond(c > 0, taken, lambda: (w, w * 0))
    slope = ng.deriv(ng.sum(y, out_axes=()), w)
    both, alone = run([slope, mask], c), run(slope, c)
    for _ in range(3):
        got, drawn = both(1)
        assert got == (2 * np.array([1, 2, 3]) * drawn).tolist()
    assert both(-1) == [[1, 1, 1], [0, 0, 0]]
    assert len({tuple(alone(1)) for _ in range(8)}) > 1


def test_loops_that_write(run: Any) -> None:
    w = number(1)

    def body(v: Tensor) -> Tensor:
        ng.assign(w, w * 2)
        return v + w

    step = run([ng.while_loop(lambda v: v < 20, body, ng.constant(0)), w])
    assert (step(), step()) == ([30, 16], [32, 32])


def test_a_condition_that_writes_is_asked_once_more_than_the_body_runs(run: Any) -> None:
    n = number()

    def asked(v: Tensor) -> Tensor:
        ng.assign(n, n + 1)
        return n < 5

    step = run([ng.while_loop(asked, lambda v: v + n, ng.constant(0)), n])
    assert (step(), step()) == ([10, 5], [0, 6])


def test_a_loop_of_nothing_but_writes(run: Any) -> None:
    n = number()
    ng.while_loop(lambda: n < 5, lambda: ng.assign(n, n + 2), ())
    read = run(n)
    assert [read(), read()] == [6, 6]


def test_loops_and_branches_in_a_scan(run: Any) -> None:
    most = number()

    def body(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        counted = ng.while_loop(lambda v: v < x, lambda v: v + 1 + ng.uniform(v) * 0, ng.constant(0))
        ng.cond(counted > 2, lambda: ng.assign(most, most + counted), lambda: ())
        return c + counted, most + 0

    total, seen = ng.scan(body, ng.constant(0), series(), T)
    assert run([total, seen, most])() == [10, [0, 0, 3, 7], 7]
