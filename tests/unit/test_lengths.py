# SPDX-License-Identifier: Apache-2.0
"""Lengths that come late, or change: graphs are built without them, and each has a program of its own."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.transformers.programs import PROGRAMS_KEPT

Build = Callable[[Any, Any, Any], Any]


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def transformer(request: pytest.FixtureRequest) -> Iterator[ngt.Transformer]:
    with ngt.make_transformer(request.param) as made:
        yield made


def two(name: str) -> Any:
    return ng.constant([0, 0], [ng.make_axis(2, name)], dtype="i32")


#: Of x (N, C): what follows from the length of N in its shape, its places or its values.
PROGRAMS: dict[str, Build] = {
    "from": lambda x, n, c: x[1:],
    "every other": lambda x, n, c: x[::2],
    "backwards": lambda x, n, c: x[::-1],
    "every other backwards": lambda x, n, c: x[::-2],
    "the last": lambda x, n, c: x[-2:],
    "beyond": lambda x, n, c: x[100:],
    "down to": lambda x, n, c: x[5:0:-2],
    "one": lambda x, n, c: x[-1],
    "both": lambda x, n, c: x[1::2, ::-1],
    "slices of slices": lambda x, n, c: x[1:][:-1][::2],
    "differences": lambda x, n, c: x[1:] - x[:-1],
    "padded": lambda x, n, c: ng.pad(x, [(1, 2), 0]),
    "joined": lambda x, n, c: ng.concat_along_axis([x, x * 2, x[1:]], n),
    "moved": lambda x, n, c: ng.pad(x[:-1], [(1, 0), 0]) + ng.concat_along_axis([x[-1:], x[:-1]], n),
    "flat": lambda x, n, c: ng.flatten(x),
    "sums": lambda x, n, c: ng.cumulative_sum(x, n, exclusive=True, reverse=True),
    "products": lambda x, n, c: ng.cumulative_prod(x, n),
    "greatest so far": lambda x, n, c: ng.cumulative_max(x, n),
    "greatest before": lambda x, n, c: ng.cumulative_max(x, n, exclusive=True)[1:],
    "least after": lambda x, n, c: ng.cumulative_min(x, n, exclusive=True, reverse=True)[:-1],
    "gathered": lambda x, n, c: ng.gather(x, two("I"), n),
    "scattered": lambda x, n, c: ng.scatter(
        x, two("I"), ng.cast_role(ng.concat_along_axis([x, x], n)[:2], [ng.make_axis(2, "I"), c]), n
    ),
    "renamed": lambda x, n, c: ng.dot(x, ng.map_roles(x, {n: "M"})),
    "cast": lambda x, n, c: ng.dot(x, ng.cast_axes(x, [ng.make_axis(name="M"), c])),
    "a role": lambda x, n, c: ng.dot(x, ng.cast_role(x, [ng.make_axis(name="M"), c])),
    "shares": lambda x, n, c: ng.softmax(x, normalization_axes=[n]),
    "spread": lambda x, n, c: ng.variance(x, out_axes=[c]),
    "places": lambda x, n, c: x * ng.cast(ng.iota([n], n), "f64") / ng.batch_size(x),
    "steps": lambda x, n, c: ng.scan(
        lambda carried, item: (carried * 0.5 + item, carried * item), ng.broadcast(ng.constant(0), [c]), x[1:], n
    )[1],
}  # fmt: skip


def with_derivatives(build: Build, length: int | None) -> tuple[Any, Any]:
    """A program over N, its first and second derivatives; and its input."""
    n, c = ng.make_axis(length, "N"), ng.make_axis(3, "C")
    x = ng.placeholder([n, c], dtype="f64")
    with ng.default_float("f64"):
        y = build(x, n, c)
        first = ng.deriv(ng.sum(y * y + y * 3, out_axes=()), x)
        second = ng.deriv(ng.sum(first * first, out_axes=()), x)
    return [y, first, second], x


def agree(transformer: ngt.Transformer, name: str, lengths: tuple[int, ...]) -> None:
    """A program built without a length gives what the same gives when it is built with one."""
    late = transformer.computation(*with_derivatives(PROGRAMS[name], None))
    changed = transformer.computation(*with_derivatives(PROGRAMS[name], 3))
    for length in lengths:
        rows = np.random.default_rng(length).standard_normal((length, 3))
        early = transformer.computation(*with_derivatives(PROGRAMS[name], length))(rows)
        for made in (late(rows), changed(rows)):
            for one, other in zip(made, early, strict=True):
                assert one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_is_built_before_lengths_are_known(name: str) -> None:
    with ngt.make_transformer("numpy") as transformer:
        agree(transformer, name, (4, 7, 2))


@pytest.mark.parametrize("name", ["every other backwards", "moved", "least after", "scattered", "steps"])
def test_programs_for_lengths_are_compiled(transformer: ngt.Transformer, name: str) -> None:
    agree(transformer, name, (5, 2))


@pytest.mark.parametrize("name", ["differences", "every other", "joined", "greatest before", "padded"])
def test_a_batch_of_one_or_none(name: str) -> None:
    with ngt.make_transformer("numpy") as transformer:
        agree(transformer, name, (1, 0))


def test_any_batch_may_be_fed(transformer: ngt.Transformer) -> None:
    n, c = ng.make_axis(4, "N"), ng.make_axis(3, "C")
    x = ng.placeholder([n, c])
    w = ng.variable([c], initial_value=1)
    loss = ng.mean(ng.square(ng.dot(x, w) - 1), out_axes=())
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w - 0.1 * ng.deriv(loss, w))
    step = transformer.computation([loss, update], x)
    n.length = 8  # a computation made at one length
    weights, rng = np.ones(3), np.random.default_rng(0)
    for rows in (8, 8, 3, 1, 8, 3):  # is called at any
        fed = rng.standard_normal((rows, 3))
        error = fed @ weights - 1
        np.testing.assert_allclose(step(fed)[0], np.mean(error**2), rtol=1e-4)
        weights = weights - 0.2 * fed.T @ error / rows
    np.testing.assert_allclose(transformer.get_tensor_view_value(w), weights, rtol=1e-4)


def test_what_values_say_about_lengths(transformer: ngt.Transformer) -> None:
    n, c = ng.make_axis(4, "N"), ng.make_axis(3, "C")
    x, mask = ng.placeholder([n, c]), ng.placeholder([n], initial_value=1)
    run = transformer.computation(ng.sum(x * 2, out_axes=[n]), x)
    assert run([[1, 2, 3]]).tolist() == [12]  # one row is one row
    assert run([1, 2, 3]).tolist() == [12] * 4  # without the axis, it is as long as was set
    assert run(np.ones((5, 1))).tolist() == [6] * 5
    n.length = 2
    assert run(1).tolist() == [6, 6]
    both = transformer.computation(ng.sum(x, out_axes=[n]) * mask, x, mask)
    assert both(np.ones((3, 3)), 2).tolist() == [6] * 3
    assert transformer.computation(mask + ng.sum(x, out_axes=[n]), x)(np.ones((5, 3))).tolist() == [4] * 5
    with pytest.raises(ng.AxisLengthError, match="differ along N: 3 for .*, 1 for"):
        both(np.ones((3, 3)), [1])
    with pytest.raises(ng.UserError, match=r"\(N: 3, C: 3\), a value of shape \(3, 4\)"):
        both(np.ones((3, 4)), 1)


def test_what_is_kept_keeps_its_length(transformer: ngt.Transformer) -> None:
    n = ng.make_axis(name="N")
    x = ng.placeholder([n])
    h = ng.persistent_tensor([n], initial_value=1, name="kept")
    run = transformer.computation(ng.sequential([ng.assign(h[1:], x[1:] + h[:-1]), h]), x)
    assert run([1, 2, 3]).tolist() == [1, 3, 4]
    assert run([1, 2, 3]).tolist() == [1, 3, 6]
    for batch in ([1, 2], [1]):
        with pytest.raises(ng.AxisLengthError, match=r"kept\w* holds 3 along N, and cannot be used with"):
            run(batch)
    assert transformer.get_tensor_view_value(h[1:]).tolist() == [3, 6]
    weights = ng.variable([ng.make_axis(4, "N")])
    with pytest.raises(ng.AxisLengthError, match="one row"):
        transformer.computation(weights + 1, weights)([1])
    single = ng.make_axis(1, "N")
    y = ng.placeholder([single])
    constant = transformer.computation(y * ng.constant([5], [single]), y)
    assert constant([2]).tolist() == [10]
    with pytest.raises(ng.AxisLengthError, match="holds 1 along N, but N has 2 now"):
        constant([2, 2])


def test_lengths_that_are_never_said() -> None:
    n, r = ng.make_axis(name="N"), ng.make_axis(name="REC")
    x = ng.placeholder([n])
    y = ng.broadcast(x, [r, n])
    with pytest.raises(
        ng.AxisLengthError, match=r"axis REC is not set[\s\S]*or feed a value that has the axis"
    ):
        ngt.make_transformer("numpy").computation(y, x)([1, 2])
    index = x[3]
    run = ng.compile(index, [x], target="numpy")
    assert run(range(5)) == 3
    with pytest.raises(ng.UserError, match="index 3 of axis N, which has 2 elements"):
        run([1, 2])
    again = ng.make_axis(name="N")  # an axis is its name
    assert ng.compile(x + ng.cast(ng.iota([again], again), "f32"), [x], target="numpy")([0, 0]).tolist() == [
        0,
        1,
    ]


def test_lengths_of_parts_cannot_be_set() -> None:
    n = ng.make_axis(name="N")
    with pytest.raises(ng.AxisLengthError, match=r"is determined by that of N[\s\S]*set the length of N"):
        ng.placeholder([n])[1:].axes[0].length = 3
    with pytest.raises(ng.UserError, match=r"name of axis N cannot change[\s\S]*cast_role"):
        n.name = "M"


def test_programs_are_kept_up_to_a_limit() -> None:
    n = ng.make_axis(4, "N")
    x = ng.placeholder([n])
    run = ng.compile(x + 1, [x], target="numpy")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for length in range(2 * PROGRAMS_KEPT):
            assert run(np.zeros(length)).tolist() == [1] * length
    assert len(run.programs) == PROGRAMS_KEPT
    (warning,) = caught
    assert "lengths of N" in str(warning.message) and warning.filename == __file__


def test_threads_feed_different_lengths(transformer: ngt.Transformer) -> None:
    n = ng.make_axis(4, "N")
    x = ng.placeholder([n])
    run = transformer.computation(ng.sum(x * 2, out_axes=()), x)
    wrong: list[Any] = []

    def feed(first: int) -> None:
        try:
            for i in range(20):
                length = (first + i) % 5 + 1
                if run(np.ones(length, np.float32)) != 2 * length:
                    wrong.append(length)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=feed, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_chains_of_parts() -> None:
    n = ng.make_axis(name="N")
    x = ng.placeholder([n])
    y = x
    for i in range(1500):
        y = y[:-1] if i % 2 else ng.pad(y, [(1, 0)])
    n.length = 5
    assert ng.lift([y], [x]).module.ops and y.axes[0].length == 5


def test_a_single_axis_stays_itself_when_flattened() -> None:
    h, w, n = ng.make_axes({"H": 2, "W": 3, "N": 4})
    x = ng.placeholder([h, w, n])
    assert ng.flatten_at(x, 2).axes.names == ("H.W", "N")
    assert ng.flatten_at(x, 1).axes.names == ("H", "W.N")
    assert ng.flatten_at(ng.placeholder([h, w]), 1).axes == ng.make_axes([h, w])
    assert ng.dot(ng.flatten_at(ng.placeholder([h, w]), 1), ng.placeholder([w])).axes.names == ("H",)
    assert ng.flatten(ng.placeholder([h])).axes.names == ("H",)


def test_numbers_say_no_length(transformer: ngt.Transformer) -> None:
    n = ng.make_axis(4, "N")
    x, y = ng.placeholder([n]), ng.placeholder([n])
    w = ng.variable([n], initial_value=1)
    run, stored = transformer.computation(x + y, x, y), transformer.computation(x + w, x, w)
    given = [
        (1, 2),
        (np.ones(3), 2),
        (1, 2),
        (1, [2, 2, 2, 2, 2]),
        (1.0, 2),
        (np.ones(4, "f4"), 2),
        (np.ones(3), 2),
    ]
    assert [len(run(*values)) for values in given] == [4, 3, 4, 5, 4, 4, 3]
    assert all((run(*values) == 3).all() for values in given)
    assert stored(1, 2).tolist() == [3] * 4 and stored(2, [1, 2, 3, 4]).tolist() == [3, 4, 5, 6]


def test_state_over_a_batch_has_one_length_in_each_transformer() -> None:
    H, N = ng.make_axis(3, "H"), ng.make_axis(name="N")
    x, w = ng.placeholder([N, H]), ng.variable([N, H], initial_value=1)
    for rows in (4, 2):
        with ng.transformers.make_transformer("numpy") as transformer:
            run = transformer.computation(x + w, x)
            assert run(np.zeros((rows, 3))).tolist() == [[1] * 3] * rows
            with pytest.raises(ng.AxisLengthError, match="the shape of state cannot change"):
                run(np.zeros((rows + 1, 3)))
