# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX that compute with their own lengths in ways of their own: still one program for all lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import compiler

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402

F, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
Inputs = dict[str, tuple[Any, Sequence[Any]]]


def model(
    nodes: Sequence[Any], inputs: Inputs, outputs: Sequence[str], held: dict[str, Any] | None = None
) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *each) for name, each in inputs.items()],
        [helper.make_tensor_value_info(name, F, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (held or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def branches() -> tuple[Any, list[Any]]:
    """Branches that add small weights, of which the sum for few samples is small as well."""
    weights = {"w": floats(8, 8), "b": floats(8)}
    yes = helper.make_graph(
        [node("Gemm", ["x", "w", "b"], ["p"]), node("Relu", ["p"], ["t"])],
        "yes",
        [],
        [helper.make_tensor_value_info("t", F, None)],
    )
    no = helper.make_graph(
        [node("Gemm", ["x", "w"], ["e"])], "no", [], [helper.make_tensor_value_info("e", F, None)]
    )
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], then_branch=yes, else_branch=no),
    ]
    zero = {"zero": np.float32(0)}
    return model(nodes, {"x": (F, ["N", 8])}, ["y"], weights | zero), [[floats(n, 8)] for n in (4, 7, 13, 2)]


def held_outputs() -> tuple[Any, list[Any]]:
    """An output that is an initializer, and one that is a constant of the length."""
    nodes = [
        node("Add", ["x", "w"], ["y"]),
        node("Shape", ["x"], ["shape"]),
        node("Expand", ["one", "shape"], ["ones"]),
    ]
    held = {"w": floats(3), "one": np.float32(1)}
    return model(nodes, {"x": (F, ["N", 3])}, ["y", "w", "ones"], held), [
        [floats(n, 3)] for n in (4, 7, 13, 2)
    ]


def ceiling_pools() -> tuple[Any, list[Any]]:
    """Pooling whose last windows reach beyond the image, or would begin beyond it."""
    nodes = [
        node("MaxPool", ["x"], ["a"], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 0], ceil_mode=1),
        node("AveragePool", ["x"], ["b"], kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1], ceil_mode=1),
        node("MaxPool", ["x"], ["c", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Cast", ["places"], ["d"], to=F),
    ]  # fmt: skip
    sizes = [(11, 14), (12, 13), (9, 15), (16, 16)]
    return model(nodes, {"x": (F, ["N", 2, "H", "W"])}, ["a", "b", "c", "d"]), [
        [floats(2, 2, *s)] for s in sizes
    ]


def windows_of_lengths() -> tuple[Any, list[Any]]:
    """Twice a quotient of a length, less one: distances of steps behind a convolution; and a large stride."""
    nodes = [
        node("Conv", ["x", "f"], ["c"], strides=[2]),
        node("Shape", ["c"], ["shape"], start=2, end=3),
        node("Mul", ["shape", "two"], ["twice"]),
        node("Sub", ["twice", "one"], ["count"]),
        node("Expand", ["half", "count"], ["y"]),
        node("MaxPool", ["x"], ["z"], kernel_shape=[24], strides=[24]),
    ]
    held = {
        "f": floats(4, 3, 3),
        "two": np.array([2], np.int64),
        "one": np.array([1], np.int64),
        "half": np.float32(0.5),
    }
    calls = [[floats(2, 3, n)] for n in (48, 61, 97, 200, 51)]
    return model(nodes, {"x": (F, ["N", 3, "T"])}, ["y", "z", "c"], held), calls


def positions_of_rows() -> tuple[Any, list[Any]]:
    """Sums of rows in columns of their own: the places are a progression along both dimensions."""
    nodes = [
        node("Shape", ["i"], ["count"]),
        node("Concat", ["count", "four"], ["shape"], axis=0),
        node("Unsqueeze", ["i", "last"], ["column"]),
        node("Expand", ["column", "shape"], ["index"]),
        node("ScatterElements", ["x", "index", "u"], ["y"], axis=0, reduction="add"),
    ]
    held = {"four": np.array([4], np.int64), "last": np.array([1], np.int64)}
    inputs: Inputs = {"x": (F, ["N", 4]), "i": (I64, ["E"]), "u": (F, ["E", 4])}
    calls = [
        [floats(n, 4), np.random.default_rng(e).integers(0, n, e), floats(e, 4)]
        for n, e in ((5, 9), (7, 31), (23, 11), (3, 100))
    ]
    return model(nodes, inputs, ["y"], held), calls


def halved_images() -> tuple[Any, list[Any]]:
    """A network that accepts multiples of 2 only, of any number of samples."""
    nodes = [
        node("AveragePool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["a", "", "scales"], ["b"], mode="nearest", coordinate_transformation_mode="asymmetric"),
        node("Concat", ["x", "b"], ["y"], axis=1),
        node("Shape", ["y"], ["shape"]),
        node("Expand", ["one", "shape"], ["z"]),
    ]  # fmt: skip
    held = {"scales": np.array([1, 1, 2, 2], np.float32), "one": np.float32(1)}
    sizes = [(2, 32, 64), (2, 64, 32), (3, 6, 16), (2, 70, 130)]
    return model(nodes, {"x": (F, ["N", 2, "H", "W"])}, ["y", "z"], held), [
        [floats(n, 2, h, w)] for n, h, w in sizes
    ]


def pyramid() -> tuple[Any, list[Any]]:
    """Windows of step 2, and what they give brought back and added: of multiples of 4 along both dimensions, of any number of samples."""
    nodes = [
        node("Conv", ["x", "w"], ["half"], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["half", "w"], ["low"], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["low", "wide"], ["far"], pads=[8] * 4, dilations=[8, 8], group=2),
        node("Resize", ["far", "", "scales"], ["up"], mode="nearest", coordinate_transformation_mode="asymmetric"),
        node("Add", ["half", "up"], ["y"]),
    ]  # fmt: skip
    held = {"scales": np.array([1, 1, 2, 2], np.float32), "w": floats(2, 2, 3, 3), "wide": floats(2, 1, 3, 3)}
    sizes = [(2, 32, 64), (2, 64, 32), (3, 12, 80), (2, 8, 72), (5, 44, 8)]
    return model(nodes, {"x": (F, ["N", 2, "H", "W"])}, ["y"], held), [
        [floats(n, 2, h, w)] for n, h, w in sizes
    ]


def test_the_least_multiples_are_compiled_alone_and_others_are_refused() -> None:
    proto, calls = pyramid()
    run, reference = ng.compile(load(proto)), ng.compile(load(proto), target="numpy")
    for call in calls[:2]:
        run(*call)
    seen = list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        real = compiler.compile_open
        patch.setattr(compiler, "compile_open", lambda *a, **k: seen.append(a) or real(*a, **k))
        for shape in ((2, 2, 4, 64), (2, 2, 4, 4)):
            x = floats(*shape)
            np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-4, atol=1e-4)
        assert not seen
    for shape in ((2, 2, 34, 64), (2, 2, 32, 65)):
        with pytest.raises(ng.UserError, match="broadcast"):
            run(floats(*shape))
    for x in (floats(2, 2, 32, 63), *calls[2]):  # no multiple that is accepted all the same, and multiples
        np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-4, atol=1e-4)


def named_apart() -> tuple[Any, list[Any]]:
    """Lengths of two names that have to be equal: keys and values of a cache."""
    nodes = [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["shares"]),
        node("MatMul", ["shares", "v"], ["y"]),
    ]
    inputs: Inputs = {"q": (F, [4, 8]), "k": (F, [8, "P"]), "v": (F, ["Q", 8])}
    return model(nodes, inputs, ["y"]), [[floats(4, 8), floats(8, p), floats(p, 8)] for p in (5, 9, 17, 40)]


@pytest.mark.parametrize(
    "made",
    [
        branches,
        held_outputs,
        ceiling_pools,
        windows_of_lengths,
        positions_of_rows,
        halved_images,
        pyramid,
        named_apart,
    ],
)
def test_one_program_for_all_lengths(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list[Any]()
    real = compiler.assemble
    monkeypatch.setattr(compiler, "assemble", lambda *a, **k: alone.append(a) or real(*a, **k))
    proto, calls = made()
    run, reference = ng.compile(load(proto)), ng.compile(load(proto), target="numpy")
    for call in calls:
        for found, wanted in zip(run(*call), reference(*call), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(alone) <= 1, "the first lengths have a program of their own"


def test_a_bound_on_lengths_leaves_one_program_below_it() -> None:
    """`min(n, 1000)` has one form for lengths up to 1000."""
    nodes = [node("Slice", ["x", "start", "end"], ["s"]), node("Shape", ["s"], ["shape"])]
    nodes += [node("Expand", ["one", "shape"], ["y"])]
    held = {"start": np.array([1], np.int64), "end": np.array([1000], np.int64), "one": np.float32(1)}
    run = ng.compile(load(model(nodes, {"x": (F, ["N", 3])}, ["s", "y"], held)))
    for n in (5, 9, 40, 1200, 1000):
        x = floats(n, 3)
        np.testing.assert_array_equal(run(x)["s"], x[1:1000])
        assert run(x)["y"].shape == x[1:1000].shape
