# SPDX-License-Identifier: Apache-2.0
"""The classes of ops, and the paths under which programs know them."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph.axes import TensorDescription
from ngmlir.op_graph.classes import ALIASES, class_named

C, H, N = ng.make_axis(3, "C"), ng.make_axis(4, "H"), ng.make_axis(2, "N")


def test_the_class_of_a_sum_is_that_of_the_document() -> None:
    from ngmlir.op_graph.op_graph import Add, AddOp, Op

    total = ng.add(ng.constant(0), ng.constant(1))
    assert type(total) is AddOp is Add is ng.Add is ng.AddOp
    assert str(type(total)) == "<class 'ngmlir.op_graph.op_graph.AddOp'>"
    assert isinstance(total, Op) and issubclass(AddOp, Op)
    assert isinstance(total, ng.BinaryElementWiseOp) and not isinstance(total, ng.UnaryElementWiseOp)


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda x: x - 1, "Subtract ElementWiseOp"),
        (lambda x: x * 2, "Multiply"),
        (lambda x: x / 2, "Divide DivideOp"),
        (lambda x: x // 2, "FloorDivide"),
        (lambda x: x % 2, "Mod"),
        (lambda x: x**2, "Power"),
        (lambda x: -x, "NegativeOp UnaryElementWiseOp"),
        (lambda x: ng.maximum(x, 0), "Maximum"),
        (lambda x: x < 1, "Less"),
        (lambda x: ng.equal(x, 1), "Equal"),
        (lambda x: ng.exp(x), "ExpOp"),
        (lambda x: ng.sigmoid(x), "SigmoidOp SigmoidAtomicOp"),
        (lambda x: ng.softmax(x), "SoftmaxOp"),
        (lambda x: ng.cross_entropy_binary_inner(ng.sigmoid(x), x), "CrossEntropyBinaryInnerOp"),
        (lambda x: ng.sum(x), "Sum ReductionOp"),
        (lambda x: ng.prod(x, "C"), "Prod ReductionOp"),
        (lambda x: ng.max(x, "C"), "Max ReductionOp"),
        (lambda x: ng.argmax(x, reduction_axes="C"), "Argmax"),
        (lambda x: ng.dot(x, x), "DotOp DotLowDimension"),
        (lambda x: ng.broadcast(x, [N, C, H]), "BroadcastOp ExpandDims IndexOp"),
        (lambda x: x[0:2], "TensorSliceOp IndexOp"),
        (lambda x: ng.flatten(x), "Flatten Unflatten"),
        (lambda x: ng.axes_with_order(x, [H, C]), "ReorderAxes"),
        (lambda x: ng.cast_role(x, ["A", "B"]), "RoleCastOp AxesCastOp MapRolesOp"),
        (lambda x: ng.stack([x, x], ng.make_axis(2, "S")), "StackOp"),
        (lambda x: ng.concat_along_axis([x, x], "C"), "ConcatOp"),
        (lambda x: ng.one_hot(x[0, 0], ng.make_axis(9, "K")), "OneHotOp OneHotTwoDimOp"),
        (lambda x: ng.uniform(x), "RngOp"),
        (lambda x: ng.tensor_size(x), "TensorSizeOp"),
        (lambda x: ng.stop_gradient(x), "StopGradient"),
        (lambda x: ng.constant(1), "ConstantOp LiteralScalarOp TensorOp"),
        (lambda x: x, "AssignableTensorOp TensorOp"),
        (lambda x: ng.value_of(x), "ReadOp TensorValueOp ValueOp"),
        (lambda x: ng.assign(ng.variable([C, H]), x), "AssignOp WriteOp AssignOneDOp AssignTwoDOp"),
        (lambda x: ng.doall([x]), "ParallelOp ControlBlockOp"),
        (lambda x: ng.sequential([x]), "SequentialOp ValueOp"),
        (lambda x: ng.computation(x, x), "ComputationOp ControlBlockOp"),
    ],
)  # fmt: skip
def test_ops_are_of_the_classes_that_programs_know(make: object, names: str) -> None:
    assert callable(make)
    made = make(ng.placeholder([C, H]))
    for name in names.split():
        assert isinstance(made, getattr(ng, name)), name
        assert getattr(importlib.import_module("ngmlir.op_graph.op_graph"), name) is getattr(ng, name)
    assert not isinstance(made, ng.TanhOp)


def test_every_alias_stands_for_something() -> None:
    assert all(class_named(name) is not None for name in ALIASES)
    with pytest.raises(AttributeError, match="TanhOp|no attribute 'Tanhh'"):
        ng.Tanhh  # noqa: B018


@pytest.mark.parametrize(
    "path, names",
    [
        ("ngmlir.op_graph.op_graph", "max_adjoints min_adjoints sum_adjoints prod_adjoints create_reduction_op Op add placeholder variable constant AddOp OrderedSet deriv assign"),
        (
            "ngmlir.op_graph.axes",
            "Axis Axes FlattenedAxis AxesMap TensorDescription slice_axis IncompatibleAxesError UnmatchedAxesError DuplicateAxisNames",
        ),
        ("ngmlir.op_graph.convolution", "convolution deconvolution ConvolutionOp DeconvolutionOp bprop_conv update_conv DeconvDerivOp"),
        ("ngmlir.op_graph.pooling", "pooling PoolingOp BpropPoolOp"),
        ("ngmlir.op_graph.ctc", "ctc CTCOp"),
        ("ngmlir.op_graph.lookuptable", "lookuptable LookupTableOp lookuptable_update update_lut bprop_lut"),
        ("ngmlir.op_graph.names", "NameableValue NameScope name_scope"),
        ("ngmlir.op_graph.nodes", "DebugInfo"),
        ("ngmlir.op_graph.serde.serde", "serialize_graph deserialize_graph"),
        ("ngmlir.op_graph.serde.serde_weights", "serialize_weights deserialize_weights extract_op extract_ops set_op_value set_op_values read_np_values write_np_values json_dumps_manifest"),
        ("ngmlir.util.ordered", "OrderedSet"),
        ("ngmlir.util.names", "NameableValue NameScope name_scope"),
        ("ngmlir.util.generics", "generic_method"),
        ("ngmlir.transformers.nptransform", "NumPyTransformer"),
        ("ngmlir.transformers.cputransform", "CPUTransformer"),
        ("ngmlir.transformers.gputransform", "GPUTransformer"),
        ("ngmlir.transformers.base", "Transformer Computation DeviceComputation DeviceBufferStorage DeviceTensor make_transformer make_transformer_factory set_transformer_factory transformer_choices allocate_transformer UnsupportedTransformerException"),
        ("ngmlir.transformers.passes.passes", "GraphPass PeepholeGraphPass GraphRewritePass SimplePrune RequiredTensorShaping CPUTensorShaping"),
    ],
)  # fmt: skip
def test_paths(path: str, names: str) -> None:
    module = importlib.import_module(path)
    for name in names.split():
        assert getattr(module, name) is not None


def test_ops_have_names_and_know_their_place() -> None:
    from ngmlir.op_graph.names import NameableValue
    from ngmlir.op_graph.nodes import DebugInfo

    x = ng.constant(1)
    assert isinstance(x, NameableValue) and isinstance(x, DebugInfo)
    assert x.name != ng.constant(1).name
    with ng.name_scope("encoder"):
        x.name = "a"
        y = ng.constant(2).named("w 1")
    assert (x.name, y.name, y.short_name, y.unscoped_name, y.safe_name) == ("a", "encoder/w 1", "w 1", "w 1", "encoder_w_1")  # fmt: skip
    assert type(ng.add(1, 2).other_deps) is importlib.import_module("ngmlir.util.ordered").OrderedSet


def test_scopes_of_names_are_entered_again() -> None:
    from ngmlir.util.names import NameScope

    with ng.name_scope("encoder"), ng.name_scope("layer0") as layer:
        assert NameScope.current() == layer == "encoder/layer0"
    assert NameScope.current() is None and layer.parent == "encoder" and layer.short_name == "layer0"
    assert NameScope("encoder").parent is None and NameScope("layer0", "encoder") == layer
    with ng.name_scope("elsewhere"):
        with ng.name_scope(layer):
            assert ng.constant(1).named("w").name == "encoder/layer0/w"
        assert ng.constant(1).named("w").name == "elsewhere/w"
    with pytest.raises(ng.UserError, match="not the name of a scope"):
        NameScope("/")


def test_classes_of_ops_make_none() -> None:
    x = ng.placeholder([C])
    with pytest.raises(ng.UserError, match=r"AddOp is the class of a function's result[\s\S]*ng.add\("):
        ng.Add(x, x)

    class Mine(ng.TensorOp):
        def __init__(self, x: ng.Tensor):
            super().__init__(args=(x,), axes=x.axes, dtype=np.float32)

    with pytest.raises(ng.UserError, match=r"Mine does not define[\s\S]*ng.composite_op"):
        Mine(x)


def test_convolution_and_pooling_are_ops_with_gradients_of_their_own_names() -> None:
    from ngmlir.op_graph.convolution import ConvolutionOp, bprop_conv, update_conv
    from ngmlir.op_graph.functions.five_axes import pooling
    from ngmlir.op_graph.pooling import BpropPoolOp, PoolingOp

    lengths = {"C": 2, "D": 1, "H": 5, "W": 5, "N": 3}
    x = ng.placeholder(ng.make_axes(lengths))
    filters = ng.variable(
        ng.make_axes({"C": 2, "T": 1, "R": 3, "S": 3, "K": 4}),
        initial_value=np.random.default_rng(0).normal(size=(2, 1, 3, 3, 4)),
    )
    every = {f"{kind}_{d}": int(kind != "pad") for kind in ("pad", "str", "dil") for d in "cdhw"}
    y = ng.convolution(every, x, filters, axes=ng.make_axes({"K": 4, "D": 1, "H": 3, "W": 3, "N": 3}))
    z = pooling(
        {**every, "op": "max", "J": 1, "T": 1, "R": 3, "S": 3},
        y,
        axes=map(ng.make_axis, (4, 1, 1, 1, 3), "KDHWN"),
    )
    assert type(y) is ConvolutionOp and y.args == (x, filters) and isinstance(z, PoolingOp)
    ones = ng.constant(1, y.axes)
    asked = [
        update_conv(ones, x, filters, y),
        bprop_conv(ones, x, filters, y),
        BpropPoolOp(ng.constant(1, z.axes), y, z),
    ]
    plain = [
        ng.deriv(ng.sum(y, out_axes=()), filters),
        ng.deriv(ng.sum(y, out_axes=()), x),
        ng.deriv(ng.sum(z, out_axes=()), y),
    ]
    run = ng.transformers.make_transformer("numpy").computation([*asked, *plain], x)
    found = run(np.random.default_rng(1).normal(size=(2, 1, 5, 5, 3)))
    for one, other in zip(found[:3], found[3:], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.any()


def test_print_op_prints_what_goes_through_it(capfd: pytest.CaptureFixture[str]) -> None:
    x = ng.placeholder([C])
    y = ng.sum(ng.PrintOp(x * 2, "twice") * x, out_axes=())
    run = ng.transformers.make_transformer("cpu").computation([y, ng.deriv(y, x)], x)
    assert capfd.readouterr().out == ""
    value, slope = run(np.arange(C.known_length))
    assert capfd.readouterr().out == f"twice: {np.arange(C.known_length, dtype='float32') * 2}\n"
    assert float(value) == 2 * sum(i * i for i in range(C.known_length)) and slope.tolist() == [
        4 * i for i in range(C.known_length)
    ]


def test_ops_say_which_state_they_read_and_write() -> None:
    w, x = ng.variable([C], initial_value=1), ng.placeholder([C])
    part, total, write = w[1:], x[1:] + w[1:], ng.assign(w, x)
    assert w.is_state_op and not total.is_state_op and not part.is_device_op and total.is_device_op
    assert total.states_read == {x, w} and write.states_written == {w} and write.states_read == {x}
    assert write.has_side_effects and not total.has_side_effects and total.is_commutative
    assert total.uuid == total.uuid != part.uuid
    with ng.Op.all_ops() as ops:
        made = x * 3
        assert ng.Op.get_all_ops() is ops
    assert made in ops and {x, made} <= ng.Op.all_op_references([made])


# ---- descriptions


def test_a_description_says_how_a_tensor_lies() -> None:
    x = ng.placeholder([C, H], dtype="f64")
    found = x.tensor_description()
    assert isinstance(found, ng.TensorDescription) and found.axes == x.axes and found.dtype == np.float64
    assert (found.shape, found.strides, found.offset, found.sizes) == ((3, 4), (32, 8), 0, (3, 4))
    assert found.c_contiguous and found.broadcast_contiguous and found.tensor_size == 96 and found.ndim == 2
    assert (x + 1).tensor_description().c_contiguous


@pytest.mark.parametrize(
    "view, numpy",
    [
        (lambda x: x[1:3, ::2], lambda a: a[1:3, ::2]),
        (lambda x: x[2], lambda a: a[2]),
        (lambda x: x[::-1, 1], lambda a: a[::-1, 1]),
        (lambda x: ng.Transpose(x), lambda a: a.T),
        (lambda x: ng.flatten(x), lambda a: a.reshape(-1)),
        (lambda x: ng.flatten(x[1:]), lambda a: a[1:].reshape(-1)),
        (lambda x: ng.broadcast(x[1], [N, H]), lambda a: np.broadcast_to(a[1], (2, 4))),
        (lambda x: ng.broadcast(x, [H, N, C]), lambda a: np.broadcast_to(a.T[:, None], (4, 2, 3))),
        (lambda x: ng.cast_role(x, ["A", "B"])[1:, 0], lambda a: a[1:, 0]),
        (lambda x: x[3:], lambda a: a[3:]),
    ],
)
def test_views_have_the_strides_that_numpy_gives(view: object, numpy: object) -> None:
    assert callable(view) and callable(numpy)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    shown = numpy(array)
    found = view(ng.placeholder([C, H])).tensor_description()
    assert found.shape == shown.shape
    if shown.size:
        assert found.offset == shown.__array_interface__["data"][0] - array.ctypes.data
    assert all(n < 2 or a == b for n, a, b in zip(shown.shape, found.strides, shown.strides, strict=True))
    assert found.c_contiguous == shown.flags.c_contiguous
    assert found.base.shape == (3, 4) and not found.is_base()


def test_descriptions_can_be_viewed_by_hand() -> None:
    whole = TensorDescription(ng.make_axes([C, H]), np.float32)
    assert whole.transpose().strides == (4, 16) and not whole.transpose().c_contiguous
    wide = whole.broadcast(ng.make_axes([N, C, H]))
    assert wide.strides == (0, 16, 4) and wide.sizes == (1, 3, 4)
    assert not wide.c_contiguous and wide.broadcast_contiguous
    assert whole.reorder_and_broadcast(ng.make_axes([H, N, C])).strides == (4, 0, 16)
    flat = whole.flatten(ng.make_axes([ng.FlattenedAxis([C, H])]))
    assert flat.shape == (12,) and flat.unflatten(whole.axes).strides == whole.strides
    part = whole.slice([1, slice(0, 4, 3)], ng.make_axes([ng.make_axis(2, "H")]))
    assert (part.shape, part.strides, part.offset) == ((2,), (12,), 16)
    assert (
        flat.full_sizes == ((3, 4),) and flat.full_strides == ((16, 4),) and wide.full_strides == wide.strides
    )
    nested = wide.flatten(ng.make_axes([N, ng.FlattenedAxis([C, H])]))
    assert nested.full_sizes == (1, (3, 4)) and nested.full_strides == (0, (16, 4))
    assert whole.clone().shape == whole.shape and whole.cast(ng.make_axes([ng.make_axis(3, "A"), H])).axes.names == ("A", "H")  # fmt: skip
    for wrong in (
        lambda: whole.reorder(ng.make_axes([C])),
        lambda: whole.broadcast(ng.make_axes([C])),
        lambda: whole.cast(ng.make_axes([H, C])),
        lambda: whole.transpose().flatten(ng.make_axes([ng.make_axis(12, "F")])),
        lambda: whole.flatten(ng.make_axes([ng.make_axis(11, "F")])),
        lambda: whole.slice([0], whole.axes),
        lambda: whole.slice([slice(None), slice(None)], ng.make_axes([C, C.named("D")])),
    ):
        with pytest.raises(ng.UserError):
            wrong()
    with pytest.raises(ng.AxisLengthError):
        ng.placeholder([ng.make_axis(name="T")]).tensor_description()
