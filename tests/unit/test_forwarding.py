# SPDX-License-Identifier: Apache-2.0
"""Replacements: reads, writes and feeds go to what stands in the place of an op; one that cannot is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt

C, D = ng.make_axis(3, "C"), ng.make_axis(2, "D")


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def transformer(request: pytest.FixtureRequest) -> Iterator[ngt.Transformer]:
    with ngt.make_transformer(request.param) as made:
        yield made


def two() -> tuple[Any, Any]:
    return (
        ng.variable([C], initial_value=[1, 2, 3], name="old"),
        ng.variable([C], initial_value=[10, 20, 30], name="new"),
    )


def written_before(x: Any, y: Any) -> Any:
    ng.assign(x, x + 5)
    x.forward = y
    return y * 1


def written_after(x: Any, y: Any) -> Any:
    x.forward = y
    ng.assign(x, 5)
    return y * 1


def part_before(x: Any, y: Any) -> Any:
    part = x[1:]
    x.forward = y
    ng.assign(part, 9)
    return y * 1


def part_after(x: Any, y: Any) -> Any:
    part = x[1:]
    ng.assign(part, 9)
    x.forward = y
    return y * 1


def part_replaced(x: Any, y: Any) -> Any:
    part = x[1:]
    part.forward = y[:2]
    ng.fill(part, 9)
    return y * 1


def in_a_list(x: Any, y: Any) -> Any:
    run = ng.sequential([ng.assign(x, 1), y * 2, ng.assign(y, 3), x * 1])
    x.forward = y
    return run


@pytest.mark.parametrize(
    "build, expected",
    [
        (written_before, [15, 25, 35]),
        (written_after, [5, 5, 5]),
        (part_before, [10, 9, 9]),
        (part_after, [10, 9, 9]),
        (part_replaced, [9, 9, 30]),
        (in_a_list, [3, 3, 3]),
    ],
)
def test_writes_follow_replacements(
    transformer: ngt.Transformer, build: Callable[[Any, Any], Any], expected: list[int]
) -> None:
    x, y = two()
    run = transformer.computation(build(x, y))
    assert run().tolist() == expected
    assert run.state()["new"].tolist() == expected and "old" not in run.state()
    assert transformer.get_tensor_view_value(y).tolist() == expected


def test_feeds_and_looks_follow_replacements(transformer: ngt.Transformer) -> None:
    x, y = two()
    run = transformer.computation(x * 2, x)
    x.forward = y
    assert run([1, 1, 2]).tolist() == [2, 2, 4]
    assert run(feed_dict={x: [2, 2, 3]}).tolist() == [4, 4, 6]
    assert run(feed_dict={y: 1}).tolist() == [2, 2, 2]
    transformer.get_op_tensor_view(x[1:])[0] = 7
    assert transformer.get_tensor_view_value(y).tolist() == [1, 7, 1]


def test_what_is_replaced_by_a_computed_value_cannot_be_written() -> None:
    x, y = two()
    read, write = x * 2, ng.assign(x, 1)
    with ng.Op.saved_user_deps():
        x.forward = y + 1
        run = ngt.make_transformer("numpy").computation
        assert run(read)().tolist() == [22, 42, 62]
        with pytest.raises(
            ng.NotAssignable, match=r"is computed and cannot be assigned to[\s\S]*it replaces old"
        ):
            run(write)()
        with pytest.raises(ng.NotAssignable, match="it replaces old"):
            ng.assign(x, 1)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ng.variable([D]), r"old has axes \(C: 3\), what is to replace it \(D: 2\)"),
        (lambda: ng.variable([ng.make_axis(4, "C")]), r"what is to replace it \(C: 4\)"),
        (lambda: ng.constant(1), r"what is to replace it \(\)"),
        (lambda: ng.variable([C], dtype="f64"), r"holds f32, what is to replace it f64[\s\S]*ng.cast"),
        (lambda: ng.assign(ng.variable([C]), 2), "has a value, so .* cannot replace it"),
        (lambda: ng.sequential([ng.assign(ng.variable([C]), 2)]), "has a value, so .* cannot replace it"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_made(make: Callable[[], Any], message: str) -> None:
    x, _ = two()
    with pytest.raises(ng.UserError, match=message) as error:
        x.forward = make()
    assert error.value.diagnostics[0].location.file == __file__
    assert x.forward is None
    wide = ng.variable([C, D])
    with pytest.raises(ng.IncompatibleAxesError, match="in this order"):
        wide.replace_self(ng.variable([D, C]))
    late = ng.variable([C])
    late.replace_self(ng.variable([ng.make_axis(name="C")]))  # a length that is not set yet fits
    ng.assign(late, np.zeros(3)).replace_self(ng.doall([]))
