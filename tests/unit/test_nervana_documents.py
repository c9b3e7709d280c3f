# SPDX-License-Identifier: Apache-2.0
"""What the three Nervana documents say, statement by statement, as programs.

The statements of each document are numbered in its order: T of "Transformer Implementation", B of "Building graphs",
G of "Operational Graph". A test is named by the statements that it shows. docs/nervana.md has them one by one, and says why
where one holds in another way; tests/laws/test_statements.py compares that page with this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.numpy as nn
import ngmlir.simple as ns
from ngmlir import transformers as ngt
from ngmlir.compiler import lower, resolve
from ngmlir.frontends.neon import GradientDescentMomentum, ax
from ngmlir.op_graph.digraph import Digraph
from ngmlir.op_graph.op_graph import Add, AddOp, Invalid, Op, Softmax
from ngmlir.ops.words import to_text
from ngmlir.passes.registry import PASSES
from ngmlir.transformers.nptransform import NumPyTransformer
from ngmlir.transformers.passes.passes import (
    CPUTensorShaping,
    GraphPass,
    PeepholeGraphPass,
    RequiredTensorShaping,
    SimplePrune,
    visit,
)
from ngmlir.transformers.storage import DeviceBufferStorage, DeviceTensor
from ngmlir.util.ordered import OrderedSet

C, H = ng.make_axis(3, "C"), ng.make_axis(2, "H")


@pytest.fixture
def transformer() -> Iterator[Any]:
    with closing(NumPyTransformer()) as made:
        yield made


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def each(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A transformer of each kind that needs no GPU, for statements about results."""
    with closing(ngt.make_transformer(request.param)) as made:
        yield made


def with_passes(*passes: Any, name: str = "numpy") -> Any:
    return closing(ngt.make_transformer_factory(name, passes=[*passes])())


def counter() -> tuple[Any, Any]:
    """The program of "Building graphs": a variable, and the write that adds one to it."""
    w = ng.variable((), initial_value=0)
    return w, ng.assign(w, w + 1)


# ---- Transformer Implementation: creation


def test_T01_T02_T05_T07_computations_and_all_results(transformer: Any) -> None:
    x = ng.placeholder([C])
    y, z = x + 1, x * 2
    assert transformer.computations == set() and transformer.all_results == set()
    one = transformer.computation(y, x)
    other = transformer.computation([z, y], x)
    assert transformer.computations == {one, other}
    assert transformer.all_results == {y, z}


def test_T03_T32_passes_of_the_constructor_and_registered_ones() -> None:
    with with_passes(SimplePrune()) as made:
        made.register_graph_pass(RequiredTensorShaping())
        assert [type(p) for p in made.graph_passes] == [SimplePrune, RequiredTensorShaping]
    assert [type(p) for p in NumPyTransformer(passes=[SimplePrune()]).graph_passes] == [SimplePrune]


def test_T04_a_transformer_knows_what_its_device_can_do() -> None:
    bases = {name: ngt.make_transformer(name).base_set() for name in ("numpy", "cpu", "cuda-sim")}
    assert bases["cpu"] and bases["cuda-sim"] and bases["cpu"] < bases["numpy"]

    class Asking(NumPyTransformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_softmax = "ng.softmax" in self.base_set()
            self.register_graph_pass(SimplePrune())

    made = Asking()
    assert made.has_softmax and any(isinstance(each, SimplePrune) for each in made.graph_passes)


def test_T06_a_computation_is_lightweight_until_it_is_called(transformer: Any) -> None:
    x = ng.placeholder([C])
    run = transformer.computation(x + 1, x)
    assert run.executor is None and not transformer.initialized
    run([1, 2, 3])
    assert run.executor is not None and transformer.initialized


def test_T08_a_computation_knows_all_ops_that_its_results_depend_on(transformer: Any) -> None:
    x, w = ng.placeholder([C]), ng.variable([C], initial_value=1)
    product = x * w
    y = product + 1
    unused = x - w
    ops = transformer.computation(y, x).ops
    assert {x, w, product, y} <= ops and unused not in ops


def test_T09_computations_may_be_made_at_any_time(each: Any) -> None:
    w, _ = counter()
    assert float(each.computation(w)()) == 1
    assert float(each.computation(w * 10)()) == 20


# ---- Transformer Implementation: initialization and passes


def test_T10_T11_T12_T13_initialization_by_hand_and_by_the_first_evaluation() -> None:
    told: list[str] = []

    class Telling(NumPyTransformer):
        transformer_name = "telling"

        def run_registered_graph_passes(self, ops: Any) -> None:
            told.append("passes")
            super().run_registered_graph_passes(ops)

        def _transform_computations(self) -> None:
            told.append("transform")
            super()._transform_computations()

    try:
        w = ng.variable([C], initial_value=[1, 2, 3])
        by_hand, by_itself = Telling(), Telling()
        never = by_itself.computation(w - 1)
        run = by_hand.computation(w * 2)
        by_hand.initialize()
        assert told == ["passes", "transform"] and run.executor is not None
        assert by_hand.get_tensor_view_value(w).tolist() == [1, 2, 3]
        assert run().tolist() == [2, 4, 6]
        assert by_itself.computation(w * 2)().tolist() == [2, 4, 6]
        assert by_itself.initialized and told == ["passes", "transform", "passes"]
        assert never.executor is None  # only what was called is compiled
    finally:
        del ngt.Transformer.transformers["telling"]


def test_T14_T15_storage_is_allocated_once_and_by_one_function(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    run = each.computation(w * 2)
    each.initialize()
    each.allocate_storage()
    each.allocate()
    assert [buffer.is_allocated for buffer in each.device_buffers] == [True]
    assert type(each).allocate_storage is ngt.Transformer.allocate_storage
    assert run().tolist() == [2, 4, 6]


def test_T16_constants_are_in_the_program(each: Any) -> None:
    w, k = ng.variable([C], initial_value=[1, 2, 3]), ng.constant([4, 5, 6], [C])
    run = each.computation(w + k)
    assert "dense<[4.0, 5.0, 6.0]>" in to_text(run.module)
    each.initialize()
    assert [*each.device_buffers] == [each.device_buffers[w]] and run().tolist() == [5, 7, 9]


def test_T17_initial_values_are_computed_by_initialize(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    late = ng.variable([C], initial_value=w * 2)
    each.computation(w + late)
    each.initialize()
    assert each.get_tensor_view_value(late).tolist() == [2, 4, 6]


def test_T18_run_registered_graph_passes() -> None:
    y = ng.placeholder([C]) + 0
    with with_passes(SimplePrune()) as made:
        made.computation(y, y.args[0])
        made.run_registered_graph_passes(made.all_results)
    assert y.forward is y.args[0]


def test_T19_T20_T21_passes_replace_remove_and_splice_in_ops() -> None:
    class Altering(PeepholeGraphPass):
        @visit.on_type(ng.Multiply)
        def visit(self, op: Any) -> None:
            if op.args[0] is op.args[1]:
                self.replace_op(op, ng.square(op.args[0]))

        @visit.on_type(ng.NegativeOp)
        def visit(self, op: Any) -> None:
            self.replace_op(op, op.args[0])

        @visit.on_type(ng.LogOp)
        def visit(self, op: Any) -> None:
            if not isinstance(op.args[0], ng.Maximum):
                self.replace_op(op, ng.log(ng.maximum(op.args[0], 1)))

    x = ng.placeholder([C])
    square, opposite, log = x * x, -x, ng.log(x)
    with with_passes(Altering()) as made:
        values = made.computation([square, opposite, log], x)([-1, 0, 1])
    assert [v.tolist() for v in values] == [[1, 0, 1], [-1, 0, 1], [0, 0, 0]]
    assert isinstance(square.forwarded, ng.SquareOp) and opposite.forwarded is x
    assert isinstance(log.forwarded, ng.LogOp) and isinstance(log.forwarded.args[0], ng.Maximum)


def test_T22_simple_prune() -> None:
    x = ng.placeholder([C])
    y = (x + 0) * 2
    with with_passes(SimplePrune()) as made:
        assert made.computation(y, x)([1, 2, 3]).tolist() == [2, 4, 6]
    assert y.args[0] is x


@pytest.mark.parametrize("shaping", [CPUTensorShaping, RequiredTensorShaping])
def test_T23_T25_tensor_shaping(shaping: Any) -> None:
    x = ng.placeholder([C, H])
    y = ng.sum(ng.exp(x), out_axes=[C])
    for name in ("numpy", "cpu", "cuda-sim"):
        with with_passes(shaping(), name=name) as made:
            values = made.computation(y, x)(np.zeros((3, 2)))
            assert values.tolist() == [2, 2, 2]


def test_T26_graph_passes_implement_do_pass() -> None:
    seen: list[Any] = []

    class Looking(GraphPass):
        def do_pass(self, ops: Any) -> None:
            seen.extend(ops)

    x = ng.placeholder(())
    with with_passes(Looking()) as made:
        made.computation(x + 1, x)(1)
    assert [type(op) for op in seen] == [AddOp] and issubclass(PeepholeGraphPass, GraphPass)
    with pytest.raises(TypeError, match="do_pass"):
        GraphPass()  # type: ignore[abstract]


def test_T27_T28_T29_T30_T31_the_pass_of_the_document(each: Any) -> None:
    class WithoutZeros(PeepholeGraphPass):
        @visit.on_type(Add)
        def visit(self, op: Any) -> None:
            x, y = op.args
            rep = None
            if x.is_scalar and x.is_constant:
                if x.const == 0:
                    rep = y
            elif y.is_scalar and y.is_constant:
                if y.const == 0:
                    rep = x
            if rep is not None:
                self.replace_op(op, rep)

    x = ng.placeholder(())
    left, right, kept = 0 + x, x + 0, x + 1
    each.register_graph_pass(WithoutZeros())
    assert [float(v) for v in each.computation([left, right, kept], x)(4)] == [4, 4, 5]
    assert left.forward is x and right.forward is x and kept.forward is None


def arena_and_kernels(result: Any, *parameters: Any) -> tuple[int, int]:
    """Of a program for a CPU: the bytes that its intermediate values lie in, and how many kernels are launched."""
    with closing(ngt.make_transformer("cpu")) as made:
        ops = [*lower(made.computation(result, *parameters).module, resolve("cpu")).walk()]
    main = next(op for op in ops if op.name == "func.func")
    (arena,) = re.findall(r"%arena: memref<(\d+)xi8>", to_text(main))
    return int(arena), sum(op.name == "tile.launch" for op in ops)


def test_T33_B36_several_ops_are_one_kernel_that_works_in_place() -> None:
    n = ng.make_axis(4096, "n")
    x = ng.placeholder([n])
    x1 = x + x
    assert arena_and_kernels(x1 * x1 - x, x) == (0, 1)


def test_T34_values_that_are_not_alive_together_share_memory() -> None:
    i, j, k = (ng.make_axis(64, name) for name in "ijk")
    w, a = ng.placeholder([i, j]), ng.placeholder([j, k])
    y = a
    for _ in range(6):
        y = ng.cast_axes(ng.tanh(ng.dot(w, y)), [j, k])
    arena, kernels = arena_and_kernels(y, w, a)
    assert kernels >= 6 and arena < 3 * 64 * 64 * 4  # five values lie between, of which two live at a time


def test_T24_elementwise_kernels_have_one_dimension_and_reductions_two() -> None:
    x = ng.placeholder([ng.make_axis(n, f"a{n}") for n in (8, 16, 32)])
    for y, shape in ((ng.exp(x) + x, "4096"), (ng.sum(x, ["a32"]), "128x32")):
        with closing(ngt.make_transformer("cpu")) as made:
            text = to_text(lower(made.computation(y, x).module, resolve("cpu")))
        assert re.findall(r"tile.kernel @\w+ ins\(%\w+: memref<(\w+)xf32>\)", text) == [shape]


# ---- Transformer Implementation: the initialization computation


def test_T35_T37_T38_an_init_computation_as_the_document_writes_it(each: Any) -> None:
    w, v = ng.variable([C], initial_value=[1, 2, 3]), ng.variable((), initial_value=4)
    y = w * v
    with ng.Op.saved_user_deps():
        spoil = each.computation(ng.doall([ng.assign(w, w * 0), ng.assign(v, v * 0)]))
    run = each.computation(y)
    all_ops = OrderedSet(Op.ordered_ops(each.all_results))
    assert {init for op in all_ops for init in op.initializers} >= {*w.initializers, *v.initializers}
    init_op = ng.doall(each.ordered_initializers(all_ops))
    init_op.update_forwards()
    init = each.computation(init_op, name="again")
    spoil()
    assert run().tolist() == [0, 0, 0]
    init()
    assert run().tolist() == [4, 8, 12]


def test_T36_ordered_initializers(transformer: Any) -> None:
    first = ng.variable([C], initial_value=[1, 2, 3])
    second = ng.variable([C], initial_value=first * 2)
    found = transformer.ordered_initializers(Op.ordered_ops([second + 0]))
    assert [op.written for op in found] == [first, second]
    assert all(isinstance(op, ng.InitTensorOp) for op in found)


def test_T39_update_forwards() -> None:
    x = ng.placeholder([C])
    y = x + 0
    z = y * 2
    y.forward = x
    z.update_forwards()
    assert z.args[0] is x


def test_T40_T41_the_init_computation_is_a_computation(transformer: Any) -> None:
    w = ng.variable([C], initial_value=ng.uniform(ng.placeholder([C]), seed=1) * 0 + 5)
    run = transformer.computation(w, name="show")
    assert run.name == "show" and transformer.init_computation is None
    transformer.initialize()
    init = transformer.init_computation
    assert init.name == "init" and type(init) is type(run) and w.initializers <= init.ops
    assert "@initialize" in to_text(transformer.module)
    assert run().tolist() == [5, 5, 5]


# ---- Transformer Implementation: tensors and their memory


def test_T42_T43_T46_T47_T56_T57_buffers_are_made_and_allocated_later(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    each.initialize_tensor_descriptions([w])
    buffer = each.device_buffers[w]
    assert isinstance(buffer, DeviceBufferStorage) and not buffer.is_allocated
    assert buffer in each.device_buffers
    each.start_transform_allocate()
    for device_buffer in each.device_buffers:
        device_buffer.transform_allocate()
    each.finish_transform_allocate()
    assert not buffer.is_allocated
    each.allocate_storage()
    assert buffer.is_allocated and each.get_tensor_view_value(w).tolist() == [1, 2, 3]


def whole_and_column(transformer: Any) -> tuple[Any, Any]:
    """Two tensors of one buffer: a variable of 3x2 numbers, and its second column from the second row on."""
    w = ng.variable([C, H], initial_value=np.arange(6).reshape(3, 2))
    whole, column = transformer.get_op_tensor_view(w), transformer.get_op_tensor_view(w[1:, 1])
    assert whole.device_buffer is transformer.device_buffers[w]
    return whole, column


def test_T44_T48_T52_tensors_are_views_of_one_buffer(each: Any) -> None:
    whole, column = whole_and_column(each)
    assert isinstance(whole, DeviceTensor) and isinstance(column, DeviceTensor)
    assert column.device_buffer is whole.device_buffer
    assert not whole.device_buffer.is_allocated
    assert column.get().tolist() == [3, 5] and whole.device_buffer.is_allocated


def test_T49_T50_T51_tensors_know_shape_element_type_offset_and_strides(each: Any) -> None:
    whole, column = whole_and_column(each)
    assert (whole.shape, whole.dtype, whole.offset, whole.strides) == ((3, 2), np.float32, 0, (8, 4))
    assert (column.shape, column.dtype, column.offset, column.strides) == ((2,), np.float32, 12, (8,))


def test_T53_T54_tensors_are_copied_to_arrays_and_from_them(each: Any) -> None:
    whole, column = whole_and_column(each)
    assert column.get().tolist() == [3, 5]
    column[...] = np.array([-3, -5])
    assert whole.get().tolist() == [[0, 1], [2, -3], [4, -5]]


def test_T45_every_tensor_has_a_description() -> None:
    x = ng.placeholder([C, H])
    for op in (x, x * 2, ng.sum(x, out_axes=[C]), x[1:]):
        description = op.tensor_description()
        assert isinstance(description, ng.TensorDescription)
        assert (description.axes, description.dtype) == (op.axes, np.float32)


def test_T45_only_storage_has_a_buffer(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    assert each.computation(ng.square(w) * 2)().tolist() == [2, 8, 18]
    assert [*each.device_buffers] == [each.device_buffers[w]]


def test_T55_values_of_arguments_and_of_results(each: Any) -> None:
    x = ng.placeholder([C], initial_value=0)
    run = each.computation(x * 2, x)
    assert run([1, 2, 3]).tolist() == [2, 4, 6]
    each.host_to_device(run, [x], [[4, 5, 6]])
    assert each.device_to_host(run, x).tolist() == [4, 5, 6]


# ---- Transformer Implementation: transformation and execution


def test_T58_each_computation_is_transformed(transformer: Any) -> None:
    x = ng.placeholder([C])
    made = [transformer.computation(x + 1, x), transformer.computation(x * 2, x)]
    for computation in transformer.computations:
        computation.transform()
    assert all(computation.executor is not None for computation in made)


def test_T59_what_was_replaced_is_not_transformed(each: Any) -> None:
    x = ng.placeholder([C])
    y = x + 1
    z = y * 2
    y.forward = x - 1
    run = each.computation(z, x)
    assert y not in run.ops and y.forwarded in run.ops
    assert run([1, 2, 3]).tolist() == [0, 2, 4]
    w = ng.variable([C], initial_value=1)
    other = ng.variable([C], initial_value=2)
    with ng.Op.saved_user_deps():
        write = ng.assign(w, w + 5)
    w.forward = other
    assert each.computation([other, write])()[0].tolist() == [7, 7, 7]


def test_T60_T61_the_order_meets_all_dependencies(each: Any) -> None:
    x = ng.variable((), initial_value=1)
    y = x + 0
    ng.fill(x, 7)
    z = x + 0
    order = Op.ordered_ops([y, z])
    assert all(order.index(dep) < order.index(op) for op in order for dep in op.all_deps)
    needed = Digraph(lambda op: op.all_deps)
    assert needed.can_reach(z, x) and not needed.can_reach(y, z)
    assert not any(needed.can_reach(a, b) for i, a in enumerate(order) for b in order[i + 1 :])
    assert [float(v) for v in each.computation([y, z])()] == [1, 7]


def test_T62_transform_ordered_ops_of_a_transformer() -> None:
    seen: list[str] = []

    class Watching(NumPyTransformer):
        transformer_name = "watching"

        def transform_ordered_ops(self, ordered_ops: Any, name: str = "main") -> Any:
            seen.extend(type(op).__name__ for op in ordered_ops)
            return super().transform_ordered_ops(ordered_ops, name)

    try:
        x = ng.placeholder(())
        assert float(Watching().computation(ng.exp(x) * 2, x)(0)) == 2
    finally:
        del ngt.Transformer.transformers["watching"]
    assert seen.index("ExpOp") < seen.index("MultiplyOp")


def test_T63_T64_T69_T70_the_executor_is_called(transformer: Any) -> None:
    x = ng.placeholder([C])
    run = transformer.computation(ng.exp(x) + 1, x)
    run.transform()
    assert callable(run.executor) and run([0, 0, 0]).tolist() == [2, 2, 2]


def test_T65_T66_elementwise_ops_are_one_generated_kernel_of_a_gpu() -> None:
    x = ng.placeholder([C])
    with closing(ngt.make_transformer("cuda-sim")) as made:
        run = made.computation(ng.tanh(x * 2 - 2), x)
        assert run([1, 1, 1]).tolist() == [0, 0, 0]
        (kernel,) = run.report().kernels
        assert f".entry {kernel}" in run.report().assembly


def test_T67_products_on_a_gpu() -> None:
    a, b = ng.placeholder([C, H]), ng.placeholder([H, ax.N])
    with closing(ngt.make_transformer("cuda-sim")) as made:
        run = made.computation(ng.tanh(ng.dot(a, b) - 6), a, b)
        np.testing.assert_allclose(run(np.full((3, 2), 3), np.ones((2, 4))), np.zeros((3, 4)))


def test_T68_convolution_on_a_gpu() -> None:
    image = ng.constant(1, [ng.make_axis(n, name) for n, name in ((1, "N"), (4, "H"), (4, "W"), (2, "C"))])
    filters = ng.constant(1, [ng.make_axis(n, name) for n, name in ((3, "R"), (3, "S"), (2, "C"), (1, "K"))])
    y = ng.convolve(image, filters, {"H": "R", "W": "S"})
    with closing(ngt.make_transformer("cuda-sim")) as made:
        assert made.computation(y)().ravel().tolist() == [18] * 4


# ---- Building graphs


def test_B01_B02_B03_B04_B05_a_sum_of_constants() -> None:
    x = ng.constant(0)
    y = ng.constant(1)
    mysum = ng.add(x, y)
    assert type(mysum) is AddOp and type(mysum).__name__ == "AddOp"
    assert type(mysum).__module__ == "ngmlir.op_graph.op_graph"
    assert isinstance(mysum, Op) and issubclass(type(mysum), Op)
    assert mysum.args == (x, y)


def test_B06_constants_are_constant_ops() -> None:
    x = ng.constant(0)
    assert type(x) is ng.ConstantOp and x.is_constant and x.const == 0 and "= 0.0>" in repr(x)


def test_B07_B08_B09_B10_B11_initializers() -> None:
    x = ng.constant(0)
    assert ng.add(x, 1).initializers == set()
    for op in (x, ng.variable([C], initial_value=[1, 2, 3]), ng.placeholder((), initial_value=0)):
        (init,) = op.initializers
        assert type(init).__name__ == "InitTensorOp"
        assert op in Op.ordered_ops([init])
    w = ng.variable([C, H], initial_value=[1, 2])
    assert [type(op) for op in Op.ordered_ops(w.initializers)] == [
        ng.AssignableTensorOp, ng.ConstantOp, ng.BroadcastOp, ng.InitTensorOp,
    ]  # fmt: skip


def test_B12_B13_B14_assignments_come_in_the_order_of_creation(each: Any) -> None:
    x = ng.placeholder((), initial_value=0)
    a = ng.assign(x, 5)
    z = x + 1
    assert z.other_deps == {a} and type(z.other_deps) is OrderedSet
    assert OrderedSet.__module__.startswith("ngmlir.")
    assert float(each.computation(z)()) == 6
    assert z.other_deps.pop() is a


def test_B15_B16_reading_runs_the_update(each: Any) -> None:
    w, _ = counter()
    w_comp = each.computation(w)
    assert [float(w_comp()) for _ in range(3)] == [1, 2, 3]
    assert float(NumPyTransformer().computation(w)()) == 1


def test_B17_B18_the_guard_and_naming_the_update(each: Any) -> None:
    w = ng.variable((), initial_value=0)
    with ng.Op.saved_user_deps():
        update_op = ng.assign(w, w + 1)
    w_comp = each.computation(w)
    assert [float(w_comp()) for _ in range(3)] == [0, 0, 0]
    w_comp = each.computation([w, update_op])
    assert [float(w_comp()[0]) for _ in range(3)] == [1, 2, 3]


def test_B19_optimizers_keep_their_updates_apart(transformer: Any) -> None:
    w = ng.variable((), initial_value=1)
    cost = w * w
    update = GradientDescentMomentum(0.25, momentum_coef=0.5)(cost)
    step, read = transformer.computation(update), transformer.computation(w)
    assert float(read()) == float(read()) == 1
    step()
    assert float(read()) == 0.5


def test_B20_B21_B29_names_and_places() -> None:
    from ngmlir.op_graph.names import NameableValue
    from ngmlir.op_graph.nodes import DebugInfo

    x, y = ng.constant(0), ng.constant(0)
    assert issubclass(Op, NameableValue) and issubclass(Op, DebugInfo) and x.name != y.name
    assert x.filename == __file__ and x.lineno == y.lineno > 0
    assert __file__ in x.file_info and str(x.lineno) in x.file_info


def test_B22_B23_axes_are_read_and_given() -> None:
    x, y = ng.placeholder([C, H]), ng.placeholder([H])
    assert (x + y).axes == ng.make_axes([C, H])
    assert ng.add(x, y, axes=[H, C]).axes == ng.make_axes([H, C])


def test_B24_B25_B26_B27_B28_names_and_metadata() -> None:
    x = ng.placeholder([C], name="x", metadata={"stochastic": "dropout"})
    y = ng.exp(x)
    y.name = "y"
    with ng.metadata(layer="1"):
        z = y + 1
    assert (x.name, y.name, x.metadata, z.metadata) == ("x", "y", {"stochastic": "dropout"}, {"layer": "1"})
    assert ng.find_op(z, "y") is y
    assert ng.select_ops(z, metadata={"stochastic": "dropout"}) == [x]
    assert ng.select_ops(Op.ordered_ops([z]), metadata={"layer": "1"}, name="*", kind=Add) == [z]


def test_B30_functions_hide_the_classes() -> None:
    x = ng.placeholder([C])
    for op in (ng.add(x, 1), ng.exp(x), ng.sum(x, out_axes=()), ng.assign(ng.variable([C]), x)):
        assert type(op) is not Op and isinstance(op, Op)


def test_B31_B32_B33_placeholders_and_the_axes_of_the_front_end() -> None:
    x = ng.placeholder((ax.C, ax.W, ax.H, ax.N))
    assert type(x).__name__ == "AssignableTensorOp" and x.axes.names == ("C", "W", "H", "N")
    assert ax.Y.name == "Y"
    before = x
    x = x + x
    assert isinstance(x, Add) and x.args == (before, before)


def test_B32_lengths_may_be_missing_until_values_say_them(each: Any) -> None:
    free = ng.make_axis(name="free")
    p = ng.placeholder([free])
    joined = ng.concat_along_axis([p[1:], ng.pad(p, [(1, 0)])], "free")
    assert each.computation(joined, p)([1, 2, 3]).tolist() == [2, 3, 0, 1, 2, 3]


def test_B34_set_item_doubles_the_placeholder(each: Any) -> None:
    x = ng.placeholder((), initial_value=3)
    with ng.Op.saved_user_deps():
        double = ng.SetItem(x, x + x)
    assert [float(each.computation([x, double])()[0]) for _ in range(2)] == [6, 12]


def test_B35_B37_what_is_shared_is_computed_once(each: Any) -> None:
    x = ng.placeholder([C])
    x1 = x + x
    y = x1 * x1 - x
    run = each.computation(y, x)
    assert to_text(run.module).count("ng.add") == 1
    assert run([1, 2, 3]).tolist() == [3, 14, 33]
    values = each.computation([y, x1], x)([1, 2, 3])
    assert values[0].tolist() == [3, 14, 33] and values[1].tolist() == [2, 4, 6]


def test_B38_B39_B40_the_derivative_of_the_document(each: Any) -> None:
    x = ng.placeholder((ax.C, ax.W, ax.H, ax.N))
    y0 = ng.placeholder((ax.Y, ax.N))
    w = ng.variable((ax.C, ax.W, ax.H, ax.Y), initial_value=0)
    b = ng.variable((ax.Y,), initial_value=0)
    y = ng.tanh(ng.dot(w, x) + b)
    c = ng.squared_L2(y - y0)
    d = ng.deriv(c, w)
    assert list(c.variables()) == [w, b] and isinstance(d, Op) and d.axes == w.axes
    before = [(axis, axis.length) for axis in (ax.C, ax.W, ax.H, ax.Y)]
    try:
        for axis, length in zip((ax.C, ax.W, ax.H, ax.Y), (3, 2, 2, 5), strict=True):
            axis.length = length
        inputs, targets = np.arange(48).reshape(3, 2, 2, 4), np.ones((5, 4))
        found = each.computation(d, x, y0)(inputs, targets)
        np.testing.assert_allclose(found, np.einsum("cwhn,yn->cwhy", inputs, -2 * targets), rtol=1e-5)
    finally:
        for axis, length in before:
            axis.length = length


def test_B41_B42_softmax_says_what_it_is() -> None:
    x = ng.placeholder(ng.make_axis(20, "C"))
    s = ng.softmax(x)
    assert [type(schema) for schema in s.schemas] == [Softmax]
    assert isinstance(s, ng.SoftmaxOp)


def test_B43_the_gradient_of_cross_entropy_is_stable(each: Any) -> None:
    x = ng.variable([C], initial_value=[1e4, 0, -1e4])
    loss = ng.cross_entropy_multi(ng.softmax(x), ng.constant([0, 1, 0], [C]))
    values = each.computation([loss, ng.deriv(loss, x)])()
    assert float(values[0]) == 1e4 and values[1].tolist() == [1, -1, 0]


# ---- Operational Graph


def test_G01_transformers_lower_what_front_ends_build(each: Any) -> None:
    x = ng.placeholder([C])
    y = ng.softmax(x)
    assert "ng.softmax" in to_text(ng.lift([y], [x]).module)
    np.testing.assert_allclose(each.computation(y, x)([1, 1, 1]), [1 / 3] * 3, rtol=1e-6)


def test_G02_G03_ops_and_transformations_of_a_front_end(each: Any) -> None:
    @ng.composite_op
    def silu(x: Any) -> Any:
        return x * ng.sigmoid(x)

    x = ng.variable([C], initial_value=[-1, 0, 2])
    y = silu(x)
    assert type(y).__name__ == "SiluOp" and y.args == (x,)
    expected = [-0.26894143, 0, 1.7615942]
    np.testing.assert_allclose(each.computation(y)(), expected, rtol=1e-5)

    class Written(PeepholeGraphPass):
        @visit.on_type(type(y))
        def visit(self, op: Any) -> None:
            self.replace_op(op, op.args[0] / (1 + ng.exp(-op.args[0])))

    with with_passes(Written()) as made:
        np.testing.assert_allclose(made.computation(y)(), expected, rtol=1e-5)
    assert isinstance(y.forwarded, ng.Divide)


def test_G04_G05_ops_of_a_transformer_developer(each: Any) -> None:
    @ng.host_op
    def sorted_down(x: Any) -> Any:
        return -np.sort(-x)

    by_a_kernel = ng.tile_op(
        "by_a_kernel",
        """
        tile.kernel @twice ins(%x: memref<3xf32>) outs(%y: memref<3xf32>) {
          %0 = ng.constant 0 : index
          %1 = tile.load %x[%0] : memref<3xf32>, vector<3xf32>
          %2 = ng.add %1, %1 : vector<3xf32>
          tile.store %2, %y[%0] : vector<3xf32>, memref<3xf32>
          tile.return
        }
        """,
    )
    x = ng.placeholder([C])
    assert each.computation(sorted_down(x * 2) + 1, x)([1, 3, 2]).tolist() == [7, 5, 3]
    assert each.computation(by_a_kernel(x + 1) - 1, x)([1, 3, 2]).tolist() == [3, 7, 5]


def test_G06_G07_ops_of_the_base_set_stay_and_others_are_written_in_terms_of_it() -> None:
    base = {name: ngt.Transformer.transformers[name].base_set() for name in ("numpy", "cpu", "cuda-sim")}
    assert all("ng.add" in names for names in base.values())
    assert "ng.softmax" in base["numpy"] and not base["cpu"] & {"ng.softmax", "ng.squared_L2"}
    x = ng.placeholder([C])
    module = ng.lift([ng.softmax(x), ng.maximum(x, 1)], [x]).module
    for name in ("cpu", "cuda-sim"):
        text = to_text(PASSES["decompose"](module, resolve(name)))
        assert set(re.findall(r"= (ng\.\w+)", text)) <= base[name]
        assert "ng.softmax" not in text and "ng.maximum" in text


def test_G08_semi_primitives_work_on_few_dimensions_in_row_major_order() -> None:
    x = ng.placeholder([ng.make_axis(n, f"a{n}") for n in (8, 16, 32, 4)])
    with closing(ngt.make_transformer("cpu")) as made:
        text = made.computation(ng.sum(ng.exp(x) * 2, ["a4"]), x).report().stages["plain"]
    assert re.findall(r"ng.(exp|multiply|sum) .*tensor<(\w+)xf32>\n", text) == [
        ("exp", "16384"), ("multiply", "16384"), ("sum", "4096"),
    ]  # fmt: skip
    assert re.search(r"ng.sum %\w+ axes \[1\] : \(tensor<4096x4xf32>\)", text)


def test_G09_allocation_and_views_are_seen_to_by_the_lowering() -> None:
    x = ng.placeholder([ng.make_axis(64, "i")])
    module = ng.lift([ng.softmax(ng.tanh(x))[32:]], [x]).module
    text = to_text(lower(module, resolve("cpu")))
    (arena,) = re.findall(r"%arena: memref<(\d+)xi8>", text)
    views = re.findall(r"tile.view %arena at (\d+) : memref<(\w+)>", text)
    assert ("128", "32xf32") in views  # the half of the 64 numbers at 0
    assert all(int(start) < int(arena) for start, _ in views)


def test_G10_transfers_to_and_from_the_device(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    run = each.computation(w[1:] * 2)
    tensor = each.get_op_tensor_view(w)
    tensor[...] = np.array([4, 5, 6])
    assert run().tolist() == [10, 12] and tensor.get().tolist() == [4, 5, 6]


def test_G11_a_family_of_functions_of_numpy(each: Any) -> None:
    array = nn.array([1, 2, 3], "float32")
    results = each.computation([array * array[::-1] + 1, nn.cumsum(array), nn.stack([array, array]).T])()
    assert [v.tolist() for v in results] == [[4, 5, 4], [1, 3, 6], [[1, 1], [2, 2], [3, 3]]]


def test_G16_G18_the_axes_of_a_tensor_say_its_family(each: Any) -> None:
    named, array = ng.constant([1, 2, 3], [C]), nn.array([1, 2, 3], "float32")
    other, column = ng.constant([10, 20], [H]), nn.array([[10], [20]], "float32")
    assert named.family is not array.family and (ng.constant(2) * array).family is array.family
    by_name, by_position = named + other, array + column
    assert type(by_name) is type(by_position) is AddOp
    assert by_name.tensor_description().axes == ng.make_axes([C, H]) and by_position.shape == (2, 3)
    values = each.computation([by_name, by_position])()
    assert [v.tolist() for v in values] == [[[11, 21], [12, 22], [13, 23]], [[11, 12, 13], [21, 22, 23]]]


def test_G19_between_families_values_are_converted_or_refused(each: Any) -> None:
    named, array = ng.constant([1, 2, 3], [C]), nn.array([1, 2, 3], "float32")
    with pytest.raises(ng.IncompatibleAxesError, match="asarray|famil|array"):
        array + named
    assert each.computation(array + nn.asarray(named))().tolist() == [2, 4, 6]
    assert each.computation(ng.constant(2) * array)().tolist() == [2, 4, 6]


def test_G12_G13_simple_axes(each: Any) -> None:
    x = ns.placeholder((2,), steps=True)
    last, sums = ns.scan(lambda total, now: (total + now, total + now), ns.step(x, 0) * 0, x)
    y = ns.mean(last @ np.eye(2), "N")
    values = np.arange(24).reshape(3, 4, 2)
    found = each.computation([last, sums, y], x)(values)
    assert found[0].tolist() == values.sum(1).tolist() and found[1].tolist() == values.cumsum(1).tolist()
    assert found[2].tolist() == values.sum(1).mean(0).tolist()
    # The target says where samples and steps lie.
    given, cpu = ns.placeholder((2,), samples=3, steps=4), resolve("cpu")
    module = ng.lift([ns.exp(given)], [given]).module
    assert (cpu.architecture.samples, cpu.architecture.steps) == ("first", "first")
    placed = to_text(PASSES["place-samples"](module, cpu))
    assert re.search(r"ng.exp %\w+ : tensor<4x3x2xf32, #ng.axes<REC, N, _0>>", placed)


def test_G14_G15_tensors_match_by_axes_and_have_operators(each: Any) -> None:
    x, y = ng.constant([[1, 2], [3, 4], [5, 6]], [C, H]), ng.constant([10, 20], [H])
    both = each.computation([y + x, -x % 4, 2 - y, +y, x[0] ** 2])()
    assert [v.tolist() for v in both] == [
        [[11, 22], [13, 24], [15, 26]], [[3, 2], [1, 0], [3, 2]], [-8, -18], [10, 20], [1, 4],
    ]  # fmt: skip
    i = ng.constant([6, 3], [H], dtype="i32")
    bits = each.computation([5 & i, 8 | i, i ^ 1, i << 1, i >> 1])()
    assert [v.tolist() for v in bits] == [[4, 1], [14, 11], [7, 2], [12, 6], [3, 1]]
    whole, rest = divmod(y, 7)
    assert [v.tolist() for v in each.computation([whole, rest])()] == [[1, 2], [3, 6]]


def test_G17_descriptions_of_tensors() -> None:
    description = ng.placeholder([C, H], dtype="f64").tensor_description()
    assert (description.shape, description.strides, description.dtype) == ((3, 2), (16, 8), np.float64)


def test_G20_G21_G22_writes_pass_on_as_dependencies() -> None:
    w, update = counter()
    assert w.user_deps == {update}
    y = w * 2
    assert y.args[0] is w and y.other_deps == {update} and y.user_deps == set()


def test_G31_user_deps_are_only_read_while_the_graph_is_made(each: Any) -> None:
    w, update = counter()
    y = w * 2
    w.user_deps = OrderedSet()
    assert y.other_deps == {update} and float(each.computation(y)()) == 2
    assert (w * 2).other_deps == set()


def test_G23_handles_stand_for_values(each: Any) -> None:
    w = ng.variable([C], initial_value=[1, 2, 3])
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w * 2)
    each.computation(update)()
    assert each.get_tensor_view_value(w).tolist() == [2, 4, 6]
    with pytest.raises(
        ng.UserError, match="return it from a computation, or inspect it with transformer.stepped"
    ):
        each.get_tensor_view_value(update.args[1])


def test_G24_stepped_debugging_probes_values(each: Any) -> None:
    x = ng.placeholder([C])
    inner = ng.exp(x)
    y = inner + 1
    stepper = each.stepped(y, x)
    stepper.break_at(inner)
    stepper.start([0, 0, 0]).run()
    assert stepper.value(inner).tolist() == [1, 1, 1]
    assert stepper.finish().tolist() == [2, 2, 2]


def test_G25_G26_G27_forward_is_followed_by_the_front_end() -> None:
    x = ng.placeholder([C])
    inner = ng.exp(x)
    y = ng.log(inner)
    assert y.forward is None and x.forward is None
    with with_passes(SimplePrune()) as made:
        both = made.computation([y, inner], x)([0, 1, 2])
    assert y.forward is x and inner.forward is None
    assert both[0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(both[1], np.exp([0, 1, 2]), rtol=1e-6)


def test_G28_G32_invalid_is_an_error_only_where_the_value_is_wanted(transformer: Any) -> None:
    x = ng.placeholder([C])
    y, gone = ng.exp(x), ng.log(x)
    y.forward, gone.forward = x, Invalid
    assert y.snap() is x and gone.snap() is gone
    with pytest.raises(ng.UserError):
        transformer.computation(gone, x)([1, 2, 3])


def test_G29_forward_may_be_an_op_of_the_host(each: Any) -> None:
    @ng.host_op
    def recomputed(x: Any) -> Any:
        return np.exp(x)

    x = ng.placeholder([C])
    y = ng.exp(x)
    y.forward = recomputed(x)
    np.testing.assert_allclose(each.computation(y + 1, x)([0, 1, 2]), np.exp([0, 1, 2]) + 1, rtol=1e-6)


def test_G30_users_of_what_was_replaced_are_updated() -> None:
    x = ng.placeholder([C])
    y = x + 0
    z = y * 2
    SimplePrune().do_pass([z])
    assert z.args[0] is x
    w, update = counter()
    read = w * 2
    with ng.Op.saved_user_deps():
        update.forward = ng.assign(w, w + 3)
    read.update_forwards()
    assert read.other_deps == {update.forward}


def test_G33_functions_attach_what_is_known_about_their_op(each: Any) -> None:
    class Doubled(ng.Schema):
        def __init__(self, x: Any):
            self.operands = (x,)

        def gradient(self, op: Any, delta: Any) -> list[Any]:
            return [delta * 10]

    x = ng.variable((), initial_value=3)
    plain, y = x * 2, x * 2
    y.schemas.append(Doubled(x))
    values = each.computation([y, ng.deriv(plain, x), ng.deriv(y, x)])()
    assert [float(v) for v in values] == [6, 2, 10]
