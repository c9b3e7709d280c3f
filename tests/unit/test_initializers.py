# SPDX-License-Identifier: Apache-2.0
"""Initial values as graphs, and the life of a transformer, sentence by sentence of the documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.op_graph.lift import Lifted
from ngmlir.op_graph.ordered import OrderedSet
from ngmlir.ops.words import to_text
from ngmlir.transformers.nptransform import NumPyTransformer

C, H = ng.make_axis(3, "C"), ng.make_axis(2, "H")


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def transformer(request: pytest.FixtureRequest) -> Iterator[Any]:
    with closing(ngt.make_transformer(request.param)) as made:
        yield made


# ---- initializers are graphs


def test_a_constant_and_storage_have_initializers_and_a_sum_has_none() -> None:
    x, y = ng.constant(0), ng.constant(1)
    assert (x + y).initializers == set()
    for op in (x, ng.variable([C], initial_value=1), ng.placeholder((), initial_value=2)):
        (init,) = op.initializers
        assert type(init).__name__ == "InitTensorOp" and isinstance(init, ng.InitTensorOp)
        assert init in op.initializers and init.args[0] is op
    assert ng.variable([C]).initializers == set()


@pytest.mark.parametrize(
    "value, kinds",
    [
        (5, "AssignableTensorOp ConstantOp InitTensorOp"),
        ([[1, 2], [3, 4], [5, 6]], "AssignableTensorOp ConstantOp InitTensorOp"),
        ([7, 8], "AssignableTensorOp ConstantOp BroadcastOp InitTensorOp"),
        (lambda axes: np.ones(axes.lengths), "AssignableTensorOp FollowingOp InitTensorOp"),
    ],
)
def test_what_an_initializer_is_made_of_can_be_traversed(value: Any, kinds: str) -> None:
    w = ng.variable([C, H], initial_value=value)
    assert [type(op).__name__ for op in ng.Op.ordered_ops(w.initializers)] == kinds.split()
    (init,) = w.initializers
    assert isinstance(init, ng.AssignOp) and init.written is w


def test_initializers_run_when_they_are_asked_for(transformer: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    read, again = transformer.computation(w), transformer.computation(ng.doall(w.initializers))
    step = transformer.computation(ng.sequential([ng.assign(w, w * 10), w]))
    assert step().tolist() == [10, 20, 30]
    assert again() is None
    assert read().tolist() == [1, 2, 3]


def test_making_storage_waits_for_no_write_and_is_not_recorded() -> None:
    w = ng.variable((), initial_value=1)
    ng.assign(w, 2)
    with ng.Op.all_ops() as ops:
        v = ng.variable((), initial_value=3)
    assert ops == [v] and v.user_deps == set() and ng.placeholder((), initial_value=w * 2).other_deps == set()


def test_initial_values_may_be_computed(transformer: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    twice = ng.variable([C, H], initial_value=w * 2)
    sums = ng.persistent_tensor([H], initial_value=ng.sum(twice, out_axes=[H]), dtype="f64")
    noise = ng.variable([C], initial_value=ng.uniform(w, seed=7))
    run = transformer.computation([twice, sums, noise + 0])
    first = run()
    assert first[0].tolist() == [[2, 2], [4, 4], [6, 6]] and first[1].tolist() == [12, 12]
    assert 0 <= first[2].min() < first[2].max() < 1
    assert np.array_equal(run()[2], first[2])  # drawn once
    with closing(ngt.make_transformer("numpy")) as other:
        np.testing.assert_allclose(other.computation(noise + 0)(), first[2], rtol=1e-6)
        assert other.get_tensor_view_value(sums).tolist() == [12, 12]


def test_computed_initial_values_that_cannot_be_are_refused() -> None:
    x = ng.placeholder([C])
    with pytest.raises(ng.UserError, match="must be known when it is created, but .* depends on x"):
        ng.variable([C], initial_value=x + 1)
    with pytest.raises(ng.IncompatibleAxesError):
        ng.variable([H], initial_value=ng.variable([C], initial_value=1) + 1)


def test_initial_values_of_state_whose_lengths_come_later(transformer: Any) -> None:
    N = ng.make_axis(name="N")
    calls: list[tuple[int, ...]] = []

    def ones(axes: Any) -> Any:
        calls.append(axes.lengths)
        return np.ones(axes.lengths)

    kept, x = ng.persistent_tensor([N], initial_value=ones), ng.placeholder([N])
    double = ng.persistent_tensor([N], initial_value=kept * 2)
    run = transformer.computation(ng.sequential([ng.assign(kept, kept + x), kept + double]), x)
    assert run([1, 2, 3, 4]).tolist() == [4, 5, 6, 7]
    assert run([1, 2, 3, 4]).tolist() == [5, 7, 9, 11]
    assert calls == [(4,)]


def test_a_function_that_fails_leaves_nothing_behind() -> None:
    values = iter([ValueError("no file"), [1, 2, 3]])

    def value(axes: Any) -> Any:
        found = next(values)
        if isinstance(found, Exception):
            raise found
        return found

    later = ng.make_axis(name="C")  # its length comes later: the function is called when the value is needed
    w = ng.variable([later], initial_value=value)
    later.length = 3
    with closing(ngt.make_transformer("cpu")) as transformer:
        run = transformer.computation(w * 2)
        with pytest.raises(ValueError, match="no file"):
            run()
        assert run().tolist() == [2, 4, 6]
    values = iter([ValueError("no file")])
    with pytest.raises(ValueError, match="no file"):
        ng.variable([C], initial_value=value)  # at once


def counted() -> tuple[list[Any], Any]:
    """(the lengths for which it was called, an initial value that draws)."""
    calls: list[Any] = []

    def draw(axes: Any) -> Any:
        calls.append(axes.lengths)
        return np.random.normal(size=axes.lengths)

    return calls, draw


def test_initial_values_are_drawn_once_when_the_variable_is_made(tmp_path: Path) -> None:
    """Transformers, compiled functions and files of one graph begin with the same values."""
    calls, draw = counted()
    np.random.seed(5)
    w = ng.variable([C, H], initial_value=draw)
    assert calls == [(3, 2)]
    np.random.seed(5)
    wanted = np.random.normal(size=(3, 2)).astype(np.float32)
    path = tmp_path / "graph.ngir"
    ng.save(path, w * 1)
    found = [ng.compile(w * 1)(), ng.compile(w * 1, target="numpy")(), ng.compile(ng.load(path))()]
    for name in ("cpu", "numpy"):
        with closing(ngt.make_transformer(name)) as transformer:
            found += [transformer.computation(w * 1)(), transformer.get_tensor_view_value(w)]
    for value in found:
        np.testing.assert_array_equal(value, wanted)
    assert len(calls) == 1


def test_initial_values_are_drawn_once_for_each_length() -> None:
    calls, draw = counted()
    later = ng.make_axis(name="L")
    w = ng.variable([later], initial_value=draw)
    assert calls == []
    first: dict[int, Any] = {}
    for length in (2, 3, 2):
        later.length = length
        with closing(ngt.make_transformer("numpy")) as transformer:
            value = transformer.computation(w * 1)()
        np.testing.assert_array_equal(value, first.setdefault(length, value))
    assert calls == [(2,), (3,)]


def test_a_constant_of_a_list_may_be_an_initial_value() -> None:
    for given in (ng.constant([1, 2, 3]), ng.constant([1, 2, 3], [C])):
        assert ng.compile(ng.variable([C], initial_value=given) * 1)().tolist() == [1, 2, 3]
    with pytest.raises(ng.AxisLengthError):
        ng.variable([C], initial_value=ng.constant([1, 2]))
    with pytest.raises(ng.IncompatibleAxesError):
        ng.variable([C], initial_value=ng.constant([1, 2, 3], [ng.make_axis(3, "other")]))


# ---- the life of a transformer


def test_creation_of_computations(transformer: Any) -> None:
    x, w = ng.placeholder([C]), ng.variable([C], initial_value=1)
    y, z = x * w, x + w
    one = transformer.computation(y, x, name="product")
    other = transformer.computation([z, y], x)
    assert transformer.computations == OrderedSet([one, other])
    assert transformer.all_results == OrderedSet([y, z])
    assert one.ops == OrderedSet([x, w, y]) and one.parameters == (x,) and other.returns == (z, y)
    assert one.name == "product" and other.name != one.name and "product" in repr(one)
    assert one.executor is None and not transformer.initialized
    assert to_text(one.module).splitlines()[1].startswith("  func.func @product(")
    assert "@main(" in to_text(other.module)
    third = transformer.computation(y - 1, x)  # also after the first ones ran
    assert one([1, 2, 3]).tolist() == [1, 2, 3] and third([1, 2, 3]).tolist() == [0, 1, 2]


def test_initialize_by_hand(transformer: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    with ng.Op.saved_user_deps():
        step = ng.assign(w, w + 1)
    double, update = transformer.computation(w * 2, name="double"), transformer.computation([w, step])
    transformer.initialize()
    assert transformer.initialized and callable(double.executor) and callable(update.executor)
    assert isinstance(transformer.init_computation, ngt.DeviceComputation)
    assert transformer.init_computation.name == "init"
    assert transformer.get_tensor_view_value(w).tolist() == [1, 2, 3]
    assert update()[0].tolist() == [2, 3, 4] and double().tolist() == [4, 6, 8]
    transformer.initialize()  # only what is new
    assert double().tolist() == [4, 6, 8]
    transformer.init_computation()
    assert double().tolist() == [2, 4, 6]


def test_the_first_call_initializes(transformer: Any) -> None:
    w, v = ng.variable((), initial_value=1), ng.variable((), initial_value=lambda axes: 2)
    first, second = transformer.computation(w), transformer.computation(v)
    assert first() == 1 and transformer.initialized
    inits = transformer.ordered_initializers(ng.Op.ordered_ops(transformer.all_results))
    assert inits == [*w.initializers, *v.initializers]
    assert set(ng.Op.ordered_ops(transformer.init_computation.returns)) >= set(inits)
    assert second() == 2


def test_computations_that_are_transformed_together_are_one_module() -> None:
    w, x = ng.variable([C], initial_value=1), ng.placeholder([C])
    seen: list[Any] = []

    def watch(module: Any) -> Any:
        seen.append([op.symbol for op in module.ops])
        return module

    with closing(ngt.make_transformer_factory("cpu", passes=[watch])()) as transformer:
        runs = [
            transformer.computation(w * x, x, name="train"),
            transformer.computation(w + 1),
            transformer.computation(w + 2),
        ]
        transformer.initialize()
        assert seen == [["train", "main", "main_1"]]
        assert [run([1, 2, 3]).tolist() if i == 0 else run().tolist() for i, run in enumerate(runs)] == [
            [1, 2, 3], [2, 2, 2], [3, 3, 3],
        ]  # fmt: skip


def test_the_module_of_a_transformer_has_all_functions(transformer: Any) -> None:
    w, x = ng.variable([C], initial_value=[1, 2, 3]), ng.placeholder([C])
    transformer.computation(w * x, x)
    transformer.computation(w + 1, name="next")
    text = to_text(transformer.module)
    assert [line.split("(")[0].split()[1] for line in text.splitlines() if "func.func" in line] == [
        "@initialize", "@main", "@next",
    ]  # fmt: skip
    assert "ng.tied" in text and "dense<[1.0, 2.0, 3.0]>" in text


def test_buffers_are_made_before_they_are_allocated(transformer: Any) -> None:
    w, v = ng.variable([C], initial_value=2), ng.persistent_tensor([H])
    ops = ng.Op.ordered_ops([w, v])
    transformer.initialize_tensor_descriptions(ops)
    assert [b.op for b in transformer.device_buffers] == [w, v]
    assert all(
        isinstance(b, ngt.DeviceBufferStorage) and not b.is_allocated for b in transformer.device_buffers
    )
    transformer.start_transform_allocate()
    for device_buffer in transformer.device_buffers:
        device_buffer.transform_allocate()
    transformer.finish_transform_allocate()
    assert not any(b.is_allocated for b in transformer.device_buffers)
    transformer.allocate_storage()
    assert all(b.is_allocated for b in transformer.device_buffers)
    assert transformer.get_tensor_view_value(w).tolist() == [2, 2, 2]
    transformer.allocate()


def test_computations_are_transformed_one_by_one(transformer: Any) -> None:
    x = ng.placeholder([C])
    transformer.computation(x + 1, x)
    transformer.computation(x + 2, x)
    for computation in transformer.computations:
        computation.transform()
        assert callable(computation.executor)
    assert [c([0, 0, 0])[0] for c in transformer.computations] == [1, 2]


def test_a_transformer_may_look_at_the_ops_in_their_order() -> None:
    seen: list[list[str]] = []

    class Watching(NumPyTransformer):
        def transform_ordered_ops(self, ordered_ops: Any, name: str = "main") -> Lifted:
            seen.append([type(op).__name__ for op in ordered_ops])
            return super().transform_ordered_ops(ordered_ops, name)

    x = ng.placeholder([C])
    assert Watching().computation(ng.exp(x) + 1, x, name="f")([0, 0, 0]).tolist() == [2, 2, 2]
    assert seen == [["AssignableTensorOp", "ExpOp", "ConstantOp", "AddOp", "Computation"]]
    assert type(ngt.make_transformer("numpy")) is NumPyTransformer
    assert "numpy" in ngt.transformer_choices() and Watching.transformer_name == "numpy"
    lifted = NumPyTransformer().transform_ordered_ops(ng.Op.ordered_ops([ng.exp(x) + 1]), name="f")
    assert [op.symbol for op in lifted.module.ops] == ["f"] and lifted.arguments == (x,)


def test_ops_follow_what_replaced_others() -> None:
    x = ng.placeholder([C])
    old = x + 1
    user = old * 2
    old.forward = x - 1
    assert user.args[0] is old
    user.update_forwards()
    assert user.args[0] is old.forward and user.args[1] is not old


def test_a_program_of_the_documents() -> None:
    from ngmlir.transformers.nptransform import NumPyTransformer

    w = ng.variable((), initial_value=0)
    update_op = ng.assign(w, w + 1)
    transformer = NumPyTransformer()
    w_comp = transformer.computation(w)
    assert [int(w_comp()) for _ in range(3)] == [1, 2, 3]
    w = ng.variable((), initial_value=0)
    with ng.Op.saved_user_deps():
        update_op = ng.assign(w, w + 1)
    transformer = NumPyTransformer()
    w_comp = transformer.computation(w)
    assert [int(w_comp()) for _ in range(3)] == [0, 0, 0]
    w_comp = transformer.computation([w, update_op])
    assert [int(w_comp()[0]) for _ in range(3)] == [1, 2, 3]
