# SPDX-License-Identifier: Apache-2.0
"""Quantization of models that are written in unusual ways: the result is near f32 in every mode that finds something to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402
from quantized_networks import Net, snr  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load, quantize  # noqa: E402
from ngmlir.support.diagnostics import UserError  # noqa: E402

X = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
CASES: dict[str, Callable[[Net], ModelProto]] = {}


def case(build: Callable[[Net], ModelProto]) -> Callable[[Net], ModelProto]:
    CASES[build.__name__] = build
    return build


def product(net: Net, x: str, inner: int, size: int = 4) -> str:
    return net.add("MatMul", x, net.normal(inner, size))


def signal(net: Net, channels: int = 2) -> str:
    """The input as signals."""
    return net.add("Reshape", "x", net.hold(np.array([-1, channels, 8 // channels])))


@case
def inputs_and_weights_are_outputs(net: Net) -> ModelProto:
    return net.model(["n", 8], "x", product(net, "x", 8), "w0")


@case
def what_is_in_codes_is_an_output(net: Net) -> ModelProto:
    inner = net.add("Relu", product(net, "x", 8, 8))
    return net.model(["n", 8], inner, product(net, inner, 8))


@case
def a_bound_is_left_out(net: Net) -> ModelProto:
    held = net.add("Clip", product(net, "x", 8, 8), "", net.hold(np.float32(1)))
    return net.model(["n", 8], product(net, held, 8))


@case
def a_bound_is_computed(net: Net) -> ModelProto:
    held = net.add("Clip", "x", net.hold(np.float32(-1)), net.add("ReduceMax", "x", keepdims=0))
    return net.model(["n", 8], product(net, held, 8))


@case
def a_function_of_the_model(net: Net) -> ModelProto:
    w = numpy_helper.from_array(np.eye(8, dtype=np.float32))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=w),
        helper.make_node("MatMul", ["p", "w"], ["q"], "inner"),
    ]
    made = net.model(["n", 8], product(net, net.add("Mine", "x", domain="my"), 8))
    made.opset_import.append(helper.make_opsetid("my", 1))
    made.functions.append(
        helper.make_function("my", "Mine", ["p"], ["q"], nodes, [helper.make_opsetid("", 17)])
    )
    return made


@case
def an_old_version(net: Net) -> ModelProto:
    return net.model(["n", 8], product(net, "x", 8), opset=7, format=3, stated=True)


@case
def a_turned_left_side(net: Net) -> ModelProto:
    return net.model([20, 8], net.add("Gemm", "x", net.normal(20, 4), transA=1))


@case
def a_bias_that_is_computed(net: Net) -> ModelProto:
    bias = net.add("ReduceMean", "x", axes=[0, 1], keepdims=0)
    return net.model(["n", 8], net.add("Gemm", "x", net.normal(8, 4), bias))


@case
def a_vector(net: Net) -> ModelProto:
    return net.model(["n", 8], net.add("MatMul", "x", net.normal(8)))


@case
def weights_that_are_widened(net: Net) -> ModelProto:
    half = net.hold(net.draw.standard_normal((8, 4)).astype(np.float16))
    return net.model(["n", 8], net.add("MatMul", "x", net.add("Cast", half, to=TensorProto.FLOAT)))


@case
def half_precision(net: Net) -> ModelProto:
    half = net.hold(net.draw.standard_normal((8, 4)).astype(np.float16))
    y = net.add("MatMul", net.add("Cast", "x", to=TensorProto.FLOAT16), half)
    return net.model(["n", 8], net.add("Cast", y, to=TensorProto.FLOAT))


@case
def parts_of_a_split(net: Net) -> ModelProto:
    first = net.add("Split", product(net, "x", 8, 8), net.hold(np.array([4, 4])), outputs=2, axis=1)
    return net.model(["n", 8], product(net, first, 4), product(net, f"{first}_1", 4))


@case
def one_part_twice(net: Net) -> ModelProto:
    return net.model(["n", 8], product(net, net.add("Concat", "x", "x", axis=1), 16))


@case
def concatenations_in_concatenations(net: Net) -> ModelProto:
    inner = net.add("Concat", "x", net.add("Relu", "x"), axis=1)
    whole = net.add("Concat", inner, net.add("Neg", "x"), axis=1)
    return net.model(["n", 8], product(net, net.add("Reshape", whole, net.hold(np.array([-1, 12]))), 12))


@case
def a_pool_that_tells_places(net: Net) -> ModelProto:
    pool = net.add("MaxPool", signal(net), kernel_shape=[2], outputs=2)
    return net.model(["n", 8], net.add("Conv", pool, net.normal(3, 2, 1)))


@case
def a_transposed_convolution(net: Net) -> ModelProto:
    return net.model(["n", 8], net.add("ConvTranspose", signal(net), net.normal(2, 3, 3)))


@case
def a_bias_of_numbers_in_an_attribute(net: Net) -> ModelProto:
    bias = net.add("Constant", value_floats=[1.0, 2.0, 3.0])
    return net.model(["n", 8], net.add("Relu", net.add("Conv", signal(net), net.normal(3, 2, 1), bias)))


@case
def a_mask_in_a_table(net: Net) -> ModelProto:
    table = net.hold(np.array([[0.0], [-np.inf]], np.float32))
    places = net.add(
        "Cast", net.add("Greater", product(net, "x", 8), net.hold(np.float32(0))), to=TensorProto.INT64
    )
    masked = net.add("Squeeze", net.add("Gather", table, places), net.hold(np.array([2])))
    return net.model(["n", 8], net.add("Exp", masked), product(net, "x", 8))


#: Modes that find nothing to quantize.
NOTHING = {
    "half_precision": {"static", "dynamic", "weights"},
    "a_turned_left_side": {"dynamic"},
    "a_pool_that_tells_places": {"dynamic"},
    "a_transposed_convolution": {"static", "dynamic"},
    "a_bias_of_numbers_in_an_attribute": {"dynamic"},
}


@pytest.mark.parametrize("mode", ["static", "dynamic", "weights"])
@pytest.mark.parametrize("name", CASES)
def test_models_that_are_written_in_unusual_ways(name: str, mode: str) -> None:
    model = CASES[name](Net())
    if mode in NOTHING.get(name, ()):
        with pytest.raises(UserError, match="the model has nothing to quantize"):
            quantize(model, X, mode=mode)
        return
    made = quantize(model, X, mode=mode)
    assert [o.name for o in made.model.graph.output] == [o.name for o in model.graph.output]
    for wide, narrow in zip(ng.compile(load(model))(X), ng.compile(load(made.model))(X), strict=True):
        same: Any = wide == narrow
        assert same.mean() > 0.95 or snr(wide, narrow) > 25
