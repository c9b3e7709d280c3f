# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers on tables that are looked up: only the rows that are looked up are read and written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import resolve
from ngmlir.frontends import neon
from ngmlir.ir.types import shape_of
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline

HEIGHT, WIDTH, COUNT = 700, 8, 12
TARGETS = ("cpu", "numpy", "cuda-sim")


def _step(rule: str, target: str, steps: int = 3) -> list[np.ndarray]:
    """The loss and the table, with its state where it has one, after some steps."""
    rows, width, batch = ng.make_axis(HEIGHT, "V"), ng.make_axis(WIDTH, "D"), ng.make_axis(COUNT, "N")
    draw = np.random.default_rng(1)
    table = ng.variable([rows, width], initial_value=draw.normal(size=(HEIGHT, WIDTH)))
    state = ng.variable([rows, width], initial_value=np.full((HEIGHT, WIDTH), 0.5))
    rate = ng.variable([], initial_value=0.5)
    first, second = (ng.placeholder([batch], dtype="int64") for _ in range(2))
    weight = ng.placeholder([batch, width])
    found = [ng.lookuptable(table, ids, [batch, width]) for ids in (first, second)]
    loss = ng.sum(found[0] * found[1] * weight, out_axes=())
    gradient = ng.deriv(loss, table)
    if rule == "sgd":
        updates = [ng.assign(table, table - rate * gradient)]
    elif rule == "adagrad":
        total = state + gradient * gradient
        updates = [
            ng.assign(state, total),
            ng.assign(table, table - rate * gradient / (ng.sqrt(total) + 1e-6)),
        ]
    else:
        moved = 0.9 * state + gradient
        updates = [ng.assign(state, moved), ng.assign(table, table - rate * moved)]
    run = ng.compile(ng.sequential([ng.doall(updates), loss]), [first, second, weight], target=target)
    for _ in range(steps):
        # Negative numbers count from the end.
        ids = [draw.integers(-9, 9, COUNT) for _ in range(2)]
        last = run(*ids, draw.normal(size=(COUNT, WIDTH)))
    read = ng.compile([table + 0, state + 0], [], target="numpy")
    return [np.asarray(last), *map(np.asarray, read())]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", ["sgd", "adagrad", "momentum"])
def test_steps_on_rows_equal_the_reference(rule: str, target: str) -> None:
    for found, wanted in zip(_step(rule, target), _step(rule, "numpy"), strict=True):
        assert np.allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_nothing_else_of_the_size_of_the_table_is_computed(kind: str) -> None:
    rows, width = ng.make_axis(HEIGHT, "V"), ng.make_axis(WIDTH, "D")
    neon.ax.N.length = COUNT
    table = ng.variable([rows, width], initial_value=np.zeros((HEIGHT, WIDTH)))
    ids, weight = ng.placeholder([neon.ax.N], dtype="int64"), ng.placeholder([neon.ax.N, width])
    losses = ng.sum(ng.lookuptable(table, ids, [neon.ax.N, width]) * weight, reduction_axes=[width])
    loss = ng.mean(losses, out_axes=())
    update: Any = ng.assign(table, table - 0.1 * ng.deriv(loss, table))
    if kind == "adagrad":
        update = neon.Adagrad(0.1)(losses)
    module = ng.lift([ng.sequential([update, loss])], [ids, weight]).module
    made = parse_pipeline("inline,decompose,update-rows,dead-code", PASSES).run(module, resolve("cpu"))
    block = made.ops[0].block
    wide = {op.name for op in block.ops for r in op.results if shape_of(r.type) == (HEIGHT, WIDTH)}
    assert wide <= {"ng.scatter", "ng.reshape"}
