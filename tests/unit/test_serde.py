# SPDX-License-Identifier: Apache-2.0
"""Graphs and weights as bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph.serde.serde import deserialize_graph, serialize_graph
from ngmlir.op_graph.serde.serde_weights import (
    deserialize_weights,
    extract_op,
    extract_ops,
    json_dumps_manifest,
    read_np_values,
    serialize_weights,
    set_op_value,
    set_op_values,
    write_np_values,
)

C, N = ng.make_axis(3, "C"), ng.make_axis(2, "N")


def test_graphs_come_back() -> None:
    x, w = ng.placeholder([C, N], name="x"), ng.variable([C], initial_value=[1, 2, 3], name="w")
    y = ng.tanh(ng.dot(w, x)).named("y")
    slope = ng.deriv(ng.sum(y, out_axes=()), w)
    data = serialize_graph([y, slope, w], only_return_handle_ops=True)
    assert isinstance(data, bytes)
    again, other, state = deserialize_graph(data)
    assert isinstance(again, ng.Tensor) and isinstance(other, ng.Tensor)
    assert again.axes == y.axes and other.axes == slope.axes and isinstance(state, ng.AssignableTensorOp)
    (fed,) = [op for op in again.placeholders() if op.name == "x"]
    values = np.arange(6.0).reshape(3, 2) / 6
    for one, two in zip(
        ng.compile([y, slope], [x])(values), ng.compile([again, other], [fed])(values), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    # Gradients go on from there, and so do variables.
    assert [v.name for v in again.variables()] == ["w"]
    np.testing.assert_array_equal(
        ng.compile(ng.deriv(ng.sum(again, out_axes=()), again.variables()[0]), [fed])(values),
        ng.compile(slope, [x])(values),
    )


def test_all_ops_come_back_unless_handles_are_asked_for() -> None:
    x = ng.placeholder([C], name="x")
    y = ng.exp(x) + 1
    found = deserialize_graph(serialize_graph(y))
    assert [type(op).__name__ for op in found if isinstance(op, (ng.ExpOp, ng.Add))] == ["ExpOp", "AddOp"]
    assert len(found) > 2


def test_writes_come_back() -> None:
    w = ng.variable((), initial_value=1, name="w")
    step = ng.sequential([ng.assign(w, w * 2), w])
    value, *_ = deserialize_graph(serialize_graph([step], only_return_handle_ops=True))
    assert [float(ng.compile(step)()) for _ in range(2)] == [2, 2]
    run = ng.transformers.make_transformer("cpu").computation(value)
    assert float(run()) == 2


def test_what_is_no_graph_is_refused() -> None:
    for wrong in (b"\xff\xfe", b"module {", "text", b"module { func.func @f() { func.return } }"):
        with pytest.raises(ng.UserError):
            deserialize_graph(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_weights_go_and_come_back(target: str, tmp_path: Path) -> None:
    with ng.name_scope("layer"):
        w = ng.variable([C], initial_value=[1, 2, 3], name="w")
    b = ng.variable([N], initial_value=5, name="b")
    y = w + b
    first, second = (ng.transformers.make_transformer(target) for _ in range(2))
    runs = [t.computation(y) for t in (first, second)]
    for run in runs:
        run()
    set_op_value(first, w, [7, 8, 9])
    assert extract_op(first, w).tolist() == [7, 8, 9]
    found = extract_ops(first, y)
    assert sorted(found) == ["b", "layer/w"] and '"shape": [\n      3\n    ]' in json_dumps_manifest(found)
    deserialize_weights(second, [y], serialize_weights(first, [y]))
    np.testing.assert_array_equal(runs[0](), runs[1]())
    write_np_values({"b": [1, 2]}, tmp_path / "b.npz")
    set_op_values(second, y, read_np_values(tmp_path / "b.npz"))
    assert extract_op(second, b).tolist() == [1, 2]
    with pytest.raises(ng.UserError, match=r"there is no state called 'layer/v'[\s\S]*did you mean layer/w"):
        set_op_values(second, y, {"layer/v": 1})
