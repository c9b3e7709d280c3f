# SPDX-License-Identifier: Apache-2.0
"""How operators go where ranks have parts of their variables, and that parts give parts of what the whole gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir.programs.custom import new_operator
from ngmlir.programs.descriptions import Operator
from ngmlir.programs.infer import raggedness_of, types_of
from ngmlir.programs.spreads import Spread, read_places, spreads, sums_kept

layers = fluid.layers


def last(build: Any) -> Operator:
    """The last operator of a program."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        build()
        return fluid.default_main_program().global_block().view.operators[-1]


def signature(operator: Operator) -> Any:
    wanted = frozenset((slot, i) for slot, names in operator.outputs.items() for i in range(len(names)))
    return operator.type, types_of(operator), operator.dictionary, wanted, raggedness_of(operator)


def data(name: str, *shape: int) -> Any:
    return layers.data(name, list(shape), append_batch_size=False, stop_gradient=False)


X, Y, OUT = ("X", 0), ("Y", 0), ("Out", 0)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda: layers.matmul(data("x", 4, 6), data("y", 6, 8)),
            [Spread({X: 0}, {OUT: 0}, frozenset(), 4), Spread({X: 1, Y: 0}, {}, frozenset({OUT}), 6), Spread({Y: 1}, {OUT: 1}, frozenset(), 8)],
        ),
        # Rows of a batch, and no part of what is normalized.
        (lambda: layers.softmax(data("x", 4, 6)), [Spread({X: 0}, {OUT: 0}, frozenset(), 4)]),
        # The first of dimensions that become one; in units of its steps.
        (lambda: layers.reshape(data("x", 4, 6, 5), [24, 5]), [Spread({X: 0}, {OUT: 0}, frozenset(), 4), Spread({X: 2}, {OUT: 1}, frozenset(), 5)]),
        (lambda: layers.reduce_sum(data("x", 4, 6), dim=0), [Spread({X: 0}, {}, frozenset({OUT}), 4), Spread({X: 1}, {OUT: 0}, frozenset(), 6)]),
        # A mean of parts is no part of a sum.
        (lambda: layers.mean(data("x", 4, 6)), []),
        (lambda: layers.reduce_max(data("x", 4, 6), dim=0), [Spread({X: 1}, {OUT: 0}, frozenset(), 6)]),
        (lambda: layers.cumsum(data("x", 4, 6), axis=1), [Spread({X: 0}, {OUT: 0}, frozenset(), 4)]),
        (lambda: layers.transpose(data("x", 4, 6), [1, 0]), [Spread({X: 0}, {OUT: 1}, frozenset(), 4), Spread({X: 1}, {OUT: 0}, frozenset(), 6)]),
    ],
)  # fmt: skip
def test_loops_of_operators(build: Any, expected: list[Spread]) -> None:
    assert [*spreads(*signature(last(build)))] == expected


@pytest.mark.usefixtures("programs")
def test_two_dimensions_of_one_loop_are_not_divided() -> None:
    """A product of rows by the same rows: ranks would have the blocks on its diagonal alone."""

    @new_operator(
        "operator all_products\n  in X: Rows.\n  out Out: A sum.\n  doc The sum of all products of two rows."
    )
    def all_products(x: Any) -> Any:
        return ng.numpy.reshape(ng.numpy.sum(ng.numpy.matmul(x, ng.numpy.transpose(x))), [1])

    assert callable(all_products)
    # Products are sums over columns, and nothing else may be divided.
    assert [*spreads(*signature(last(lambda: layers.all_products(data("x", 4, 6)))))] == [
        Spread({X: 1}, {}, frozenset({OUT}), 6)
    ]


def test_sums_go_through_what_is_linear() -> None:
    added = signature(last(lambda: layers.elementwise_add(data("x", 4), data("y", 4))))
    assert sums_kept(*added, frozenset({X, Y})) == {OUT}
    assert sums_kept(*added, frozenset({X})) is None  # y would be added on each rank
    scaled = signature(last(lambda: layers.elementwise_mul(data("x", 4), data("y", 4))))
    assert sums_kept(*scaled, frozenset({X})) == {OUT}
    assert sums_kept(*scaled, frozenset({X, Y})) is None
    assert sums_kept(*signature(last(lambda: layers.tanh(data("x", 4)))), frozenset({X})) is None


def test_what_a_gradient_reads() -> None:
    def build() -> None:
        made = layers.tanh(layers.matmul(data("x", 4, 6), data("y", 6, 8)))
        fluid.calc_gradient(made, [made.block.var("x"), made.block.var("y")])

    operator = last(build)
    assert operator.type == "matmul_grad"
    assert read_places(*signature(operator)) == {X, Y, ("Out@GRAD", 0)}
    # In a gradient, too, the loop that the operator sums over is one: of what x and y have of it.
    summed = next(s for s in spreads(*signature(operator)) if s.inputs.get(X) == 1)
    assert summed.inputs == {X: 1, Y: 0} and summed.outputs == {("X@GRAD", 0): 1, ("Y@GRAD", 0): 0}
    assert not summed.sums


def test_parts_of_random_programs_give_parts() -> None:
    """Operators with a division by their first spread that is one, run on parts and on the whole."""
    draw = np.random.default_rng(2)
    cases = [
        lambda: layers.matmul(data("x", 4, 6), data("y", 6, 8)),
        lambda: layers.elementwise_add(data("x", 4, 6), data("y", 6), axis=1),
        lambda: layers.relu(data("x", 4, 6)),
        lambda: layers.reshape(data("x", 4, 6, 2), [8, 6]),
        lambda: layers.transpose(data("x", 4, 6), [1, 0]),
        lambda: layers.reduce_sum(data("x", 4, 6), dim=1, keep_dim=True),
        lambda: layers.softmax(data("x", 4, 6)),
    ]
    executor = fluid.Executor(fluid.NumpyPlace())
    for build in cases:
        operator = last(build)
        program = operator.block.program
        arrays = {
            n: draw.integers(-8, 9, program.top.visible(n).shape).astype(np.float32) for n in operator.reads
        }
        (name,) = operator.outputs["Out"]

        def run(given: dict[str, Any], whole: Any = program, out: str = name) -> Any:
            made = whole.copy()
            for key, array in given.items():
                shape = array.shape
                made.top.visible(key).type = type(made.top.visible(key).type)(
                    shape, made.top.visible(key).element
                )
            return executor.run(fluid.Program(made), feed=given, fetch_list=[out])[0]

        expected = run(arrays)
        for spread in spreads(*signature(operator)):
            if operator.type == "reshape":
                continue  # lengths in its attributes
            found = []
            for steps in np.split(np.arange(spread.units), [1]):
                part = dict(arrays)
                for (slot, i), d in spread.inputs.items():
                    key = operator.inputs[slot][i]
                    inner = arrays[key].shape[d] // spread.units
                    at = (steps[:, None] * inner + np.arange(inner)).ravel()
                    part[key] = np.take(arrays[key], at, d)
                found.append(run(part))
            together = sum(found) if OUT in spread.sums else np.concatenate(found, spread.outputs[OUT])
            np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-5)
