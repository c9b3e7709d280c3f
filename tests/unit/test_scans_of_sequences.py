# SPDX-License-Identifier: Apache-2.0
"""`ng.scan` along ragged axes: which bodies go in lanes, and that these give what steps of all sequences give, gradients too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph.functions import scans
from ngmlir.ops.rows import MixesRows

Array = np.ndarray[Any, Any]
WIDTH = 3
C = ng.make_axis(WIDTH, name="C")
#: What a body is given besides state and row: what each sequence has, what all share, and the axis of the sequences.
Body = Callable[[ng.Tensor, ng.Tensor, "Around"], Any]


class Around:
    def __init__(self, count: int | None = None):
        self.N = ng.make_axis(count, name="N")
        self.T = ng.ragged_axis(self.N, "T")
        P = self.P = ng.make_axis(WIDTH, name="P")
        self.x = ng.ragged([self.T, C], dtype="f64", name="x")
        self.each = ng.placeholder([self.N, C], dtype="f64", name="each")
        self.turned = ng.placeholder([C, self.N], dtype="f64", name="turned")
        self.w = ng.placeholder([C, P], dtype="f64", name="w")
        self.bias = ng.placeholder([C], dtype="f64", name="bias")

    @property
    def parameters(self) -> list[ng.Tensor]:
        return [self.x, self.each, self.turned, self.w, self.bias]


def product(h: ng.Tensor, around: Around) -> ng.Tensor:
    return ng.dot(ng.cast_axes(h, [around.N, around.P]), around.w)


def simple(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.tanh(h * 0.5 + row), h + row


def layer(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    h = ng.tanh(product(h, around) + row + around.bias)
    return h, h


def beside(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    h = ng.tanh(h * around.each + row)
    return h, ng.square(around.each) * h


def parts(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    first, last = (ng.slice_along_axis(h, C, at) for at in (0, -1))
    return h * 0.25 + row + ng.sigmoid(first) * ng.constant(2.0, dtype="f64"), last


def softmax(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    h = ng.softmax(product(h, around) + row, C)
    return h, ng.max(h, C) / (1 + ng.sum(h, C))


def flat(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    both = ng.stack([h, row], ng.make_axis(2, name="K"))
    return ng.mean(both, out_axes=[around.N, C]), ng.constant(7.0, dtype="f64")


def all_of_each(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    """The sum over all sequences of what each has is no row."""
    return ng.tanh(h + row * ng.sum(ng.stop_gradient(around.bias), out_axes=())), row


def centred(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.tanh(h - ng.mean(h, around.N) + row), h


def sums_of_others(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.tanh(h + row * ng.sum(ng.square(around.each), around.N)), h


def numbered(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.tanh(h + row * ng.cast(ng.iota([around.N], around.N), "f64")), h


def counted(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    ones = ng.broadcast(ng.constant(1.0, dtype="f64"), [around.N])
    return ng.tanh(h + row / ng.sum(ones, out_axes=())), h


def in_other_order(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.tanh(h + row * around.turned), h


def choosing(h: ng.Tensor, row: ng.Tensor, around: Around) -> Any:
    return ng.cond(ng.sum(around.bias, out_axes=()) > 0, lambda: h + row, lambda: h - row), h


APART: list[Body] = [simple, layer, beside, parts, softmax, flat, all_of_each]
TOGETHER: list[Body] = [centred, sums_of_others, numbered, counted, in_other_order, choosing]
LENGTHS = [[3, 0, 7, 1, 2], [1], [0, 0], [4, 4, 4]]


def results(body: Body, lengths: Sequence[int], target: str, reverse: bool, known: bool) -> list[Array]:
    """What a scan gives, and its derivatives."""
    around = Around(len(lengths) if known else None)
    begin = ng.placeholder([around.N, C], dtype="f64", name="begin")
    last, outputs = ng.scan(lambda h, row: body(h, row, around), begin, around.x, around.T, reverse)
    cost = ng.sum(ng.square(last), out_axes=()) + ng.sum(ng.square(outputs), out_axes=())
    given = [*around.parameters, begin]
    slopes = [ng.deriv(cost, p) for p in given if p in _needed(cost)]
    rng = np.random.default_rng(5)
    fed: list[Any] = [[rng.normal(size=(n, WIDTH)) for n in lengths]]
    shapes = [(len(lengths), WIDTH), (WIDTH, len(lengths)), (WIDTH, WIDTH), (WIDTH,), (len(lengths), WIDTH)]
    fed += [rng.normal(size=shape) for shape in shapes]
    found = ng.compile([last, outputs, *slopes], given, target=target)(*fed)
    return [
        np.concatenate([np.ravel(part) for part in each]) if isinstance(each, list) else each
        for each in found
    ]


def _needed(cost: ng.Tensor) -> set[Any]:
    from ngmlir.op_graph.node import closure

    return set(closure([cost]))


@pytest.mark.parametrize("body", [*APART, *TOGETHER], ids=lambda body: body.__name__)
@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_lanes_give_what_steps_give(body: Body, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The third number of sequences is that of the features.
    for lengths in [*LENGTHS, [2, 1, 5]] if target == "numpy" else LENGTHS[:1]:
        for reverse, known in ((False, False), (True, True)):
            found = results(body, lengths, target, reverse, known)
            with monkeypatch.context() as context:
                context.setattr(scans._Sequences, "_in_lanes", _refused)  # pyright: ignore[reportPrivateUsage]
                wanted = results(body, lengths, target, reverse, known)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def _refused(*given: Any) -> Any:
    raise MixesRows("is to go by steps")


@pytest.mark.parametrize("body", [*APART, *TOGETHER], ids=lambda body: body.__name__)
def test_which_bodies_go_in_lanes(body: Body) -> None:
    around = Around()
    last, outputs = ng.scan(
        lambda h, row: body(h, row, around),
        ng.constant(np.zeros(WIDTH), [C], dtype="f64"),
        around.x,
        around.T,
    )
    used = _needed(last) | _needed(ng.as_op(outputs))
    assert (around.T.lanes in used) == (body in APART)
    assert (around.T.steps in used) == (body in TOGETHER)


def test_a_body_is_built_once() -> None:
    around, built = Around(), list[int]()

    def body(h: ng.Tensor, row: ng.Tensor) -> Any:
        built.append(1)
        return h + row, h

    ng.scan(body, ng.constant(0.0, [C], dtype="f64"), around.x, around.T)
    assert built == [1]
