# SPDX-License-Identifier: Apache-2.0
"""Quantization of models: what the quantised model computes, beside the standard's evaluator, NumPy and f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import ModelProto, TensorProto, checker, helper, numpy_helper, shape_inference  # noqa: E402
from quantized_networks import Net, convolutions, images, operators, reference, run, snr  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load, quantize  # noqa: E402


def rows(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def steps_apart(a: Any, b: Any) -> float:
    """How far two results are, as a part of the greatest."""
    return float(np.abs(a - b).max() / np.abs(b).max())


# ---- static


def test_static_convolutions_compute_what_the_standard_says() -> None:
    model, x = convolutions(), images()
    made = quantize(model, x)
    checker.check_model(shape_inference.infer_shapes(made.model))
    wanted = reference(made.model, x)
    assert steps_apart(run(made.model, x, target="numpy", exact=True), wanted) < 1e-5
    assert steps_apart(run(made.model, x), wanted) < 0.02
    assert snr(run(model, x), wanted) > 25


def test_what_lies_between_convolutions_stays_in_codes() -> None:
    made = quantize(convolutions(), images()).model
    ops = operators(made)
    # Both activations are what the codes hold anyway, but the one behind the sum, which has codes of its own.
    assert "Clip" not in ops and "Relu" not in ops
    makers = {name: node for node in made.graph.node for name in node.output}
    pool = next(node for node in made.graph.node if node.op_type == "MaxPool")
    assert makers[pool.input[0]].op_type == "QuantizeLinear"
    total = next(node for node in made.graph.node if node.op_type == "Add")
    assert {makers[name].op_type for name in total.input} == {"DequantizeLinear"}
    mean = next(node for node in made.graph.node if node.op_type == "GlobalAveragePool")
    assert makers[mean.input[0]].op_type == "DequantizeLinear"
    for node in made.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            assert [makers[name].op_type for name in node.input] == ["DequantizeLinear"] * 3


def test_weights_have_scales_by_channel_and_biases_the_product_of_scales() -> None:
    made = quantize(convolutions(), images()).model
    held = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    makers = {name: node for node in made.graph.node for name in node.output}
    for node in made.graph.node:
        if node.op_type == "Conv":
            x, w, b = (makers[name] for name in node.input)
            codes, scale, zero = (held[name] for name in w.input)
            assert codes.dtype == np.int8 and scale.shape == (len(codes),) and not zero.any()
            assert np.abs(codes).reshape(len(codes), -1).max(1).tolist() == [127] * len(codes)
            assert held[b.input[0]].dtype == np.int32
            assert np.array_equal(held[b.input[1]], scale * held[x.input[1]])


def test_concatenated_codes_share_their_range() -> None:
    net = Net()
    parts = [
        net.add("Relu", net.add("Conv", "x", net.normal(4, 3, 1, 1, scale=s), net.normal(4))) for s in (1, 4)
    ]
    y = net.add("Conv", net.add("Concat", *parts, axis=1), net.normal(2, 8, 1, 1))
    model, x = net.model(["n", 3, 9, 9], y), images()
    made = quantize(model, x)
    makers = {name: node for node in made.model.graph.node for name in node.output}
    (whole,) = (node for node in made.model.graph.node if node.op_type == "Concat")
    quantizers = [makers[name] for name in whole.input]
    assert [q.op_type for q in quantizers] == ["QuantizeLinear"] * 2
    assert quantizers[0].input[1:] == quantizers[1].input[1:]
    assert steps_apart(run(made.model, x), reference(made.model, x)) < 0.02
    assert snr(run(model, x), run(made.model, x)) > 30


def test_parts_that_others_read_are_not_moved_to_the_range_of_the_whole() -> None:
    net = Net()
    small, large = (net.add("Conv", "x", net.normal(4, 3, 1, 1, scale=s)) for s in (0.01, 9))
    whole = net.add("Concat", small, large, axis=1)
    y = net.add("Conv", whole, net.normal(2, 8, 1, 1))
    z = net.add("Conv", small, net.normal(2, 4, 1, 1))
    model, x = net.model(["n", 3, 9, 9], z, y), images()
    assert snr(run(model, x), run(quantize(model, x).model, x)) > 30


def test_moves_are_done_on_codes() -> None:
    net = Net()
    y = net.add("Conv", "x", net.normal(4, 3, 1, 1))
    y = net.add("Transpose", y, perm=[0, 2, 3, 1])
    y = net.add("Reshape", y, net.hold(np.array([0, -1, 4])))
    y = net.add("Slice", y, net.hold(np.array([1])), net.hold(np.array([80])), net.hold(np.array([1])))
    y = net.add("MatMul", y, net.normal(4, 7))
    model, x = net.model(["n", 3, 9, 9], y), images()
    made = quantize(model, x).model
    assert operators(made).count("QuantizeLinear") == 2
    assert steps_apart(run(made, x), reference(made, x)) < 0.02


def test_attention_and_norms_stay_in_f32() -> None:
    net = Net()
    q, k, v = (net.add("Add", net.add("MatMul", "x", net.normal(8, 8)), net.normal(8)) for _ in range(3))
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])))
    mixed = net.add("Add", net.add("MatMul", net.add("MatMul", scores, v), net.normal(8, 8)), "x")
    y = net.add(
        "LayerNormalization", mixed, net.hold(np.ones(8, np.float32)), net.hold(np.zeros(8, np.float32))
    )
    y = net.add("MatMul", y, net.normal(8, 3))
    model, x = net.model(["n", 5, 8], y), rows(20, 5, 8)
    made = quantize(model, x)
    assert operators(made.model).count("QuantizeLinear") == 3  # x, the mixed values, the norm
    assert [layer.op for layer in made.report.layers] == ["MatMul"] * 5
    assert [text.split(": ")[1] for text in made.report.left] == ["no side is constant"] * 2
    assert steps_apart(run(made.model, x), reference(made.model, x)) < 0.02
    assert made.report.outputs[0].snr > 20


def test_what_scales_and_moves_channels_is_folded_into_convolutions() -> None:
    net = Net()
    y = net.add("Conv", "x", net.normal(4, 3, 3, 3))
    terms = [
        net.hold(np.array(t, np.float32)) for t in ([1, 2, -3, 0], [1, 0, 2, 1], [0, 1, 2, 3], [1, 4, 2, 0.1])
    ]
    y = net.add("BatchNormalization", y, *terms, epsilon=1e-3)
    y = net.add("Mul", net.add("Unsqueeze", net.normal(4), axes=[1, 2]), y)  # the constant comes first
    y = net.add("Relu", net.add("Dropout", net.add("Add", y, net.normal(1, 4, 1, 1)), ratio=0.3))
    z = net.add("Conv", y, net.normal(4, 4, 1, 1))
    y = net.add("Conv", net.add("Sum", net.add("Identity", z), y), net.normal(2, 4, 1, 1))
    model, x = net.model(["n", 3, 9, 9], y, opset=9, format=3, stated=True), images()
    made = quantize(model, x)
    assert {"Conv", "Add", "QuantizeLinear", "DequantizeLinear"} == set(operators(made.model))
    assert made.report.notes[0] == "3 nodes that scale or move channels were folded into convolutions"
    assert [i.name for i in made.model.graph.input] == ["x"]
    assert snr(run(model, x), run(made.model, x)) > 25
    kept = quantize(model, x, keep=["BatchNormalization_1"]).model
    assert "BatchNormalization" in operators(kept) and snr(run(model, x), run(kept, x)) > 25


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2, 6])
def test_convolutions_of_any_rank_and_groups(rank: int, group: int) -> None:
    net = Net(rank)
    w, b = net.normal(12, 6 // group, *[3] * rank), net.normal(12)
    y = net.add("Conv", "x", w, b, group=group, strides=[2] * rank, dilations=[1] * rank, pads=[1] * 2 * rank)
    model, x = net.model(["n", 6, *[7] * rank], net.add("Softplus", y)), rows(100, 6, *[7] * rank)
    made = quantize(model, x)
    assert steps_apart(run(made.model, x), reference(made.model, x)) < 0.02
    assert made.report.outputs[0].snr > 25


def test_percentile_leaves_out_what_is_rare() -> None:
    net = Net()
    model = net.model(["n", 8], net.add("MatMul", "x", net.normal(8, 4)))
    x = rows(4000, 8)
    x[3, 2] = 1e4
    common = rows(50, 8, seed=3)
    by_ends, by_share = (quantize(model, x, method=m).model for m in ("minmax", "percentile"))
    assert snr(run(model, common), run(by_ends, common)) < 5
    assert snr(run(model, common), run(by_share, common)) > 30


# ---- dynamic, and weights alone


def gemms(net: Net) -> str:
    y = net.add("Gemm", "x", net.normal(24, 32), net.normal(24), transB=1, alpha=0.5, beta=2.0)
    y = net.add("Gemm", net.add("Relu", y), net.normal(24, 20))
    return net.add(
        "MatMul", net.add("Add", net.normal(20), net.add("MatMul", y, net.normal(20, 20))), net.normal(20)
    )


@pytest.mark.parametrize("mode", ["static", "dynamic", "weights"])
def test_products_of_every_form(mode: str) -> None:
    net = Net()
    model, x = net.model(["n", 32], gemms(net)), rows(20, 32)
    made = quantize(model, x, mode=mode)
    checker.check_model(shape_inference.infer_shapes(made.model))
    wanted = reference(made.model, x)
    assert steps_apart(run(made.model, x), wanted) < 0.02
    assert snr(run(model, x), wanted) > 25
    assert [layer.bits for layer in made.report.layers] == [8] * 4
    assert made.report.bytes_after < made.report.bytes_before


@pytest.mark.parametrize("mode", ["static", "dynamic", "weights"])
def test_a_constant_on_the_left(mode: str) -> None:
    net = Net()
    model, x = net.model(["n", 9, 5], net.add("MatMul", net.normal(7, 9), "x")), rows(20, 9, 5)
    made = quantize(model, x, mode=mode).model
    assert steps_apart(run(made, x), reference(made, x)) < 0.01
    assert snr(run(model, x), run(made, x)) > 30


def test_dynamic_leaves_convolutions_and_says_so() -> None:
    made = quantize(convolutions(), images(), mode="dynamic")
    assert operators(made.model).count("Conv") == 4 and operators(made.model).count("MatMulInteger") == 1
    assert made.report.left[0] == "Conv_0 (Conv): the mode dynamic leaves it"


@pytest.mark.parametrize(("block", "depth"), [(16, 32), (32, 40), (128, 96), (256, 300)])
def test_weights_of_4_bits(block: int, depth: int) -> None:
    net = Net()
    y = net.add("Gemm", "x", net.normal(24, depth), net.normal(24), transB=1, alpha=2.0)
    model, x = net.model(["n", depth], net.add("MatMul", y, net.normal(24, 9))), rows(20, depth)
    made = quantize(model, x, mode="weights", bits=4, block=block)
    assert operators(made.model) == ["MatMulNBits", "Add", "MatMulNBits"]
    assert [layer.bits for layer in made.report.layers] == [4, 4]
    assert snr(run(model, x), run(made.model, x)) > 13
    assert steps_apart(run(made.model, x), run(made.model, x, target="numpy")) < 1e-5


def test_recurrent_layers_and_embeddings_hold_narrow_weights() -> None:
    net = Net()
    taken = net.add("Gather", net.normal(50, 6), "x")
    steps = net.add("Transpose", taken, perm=[1, 0, 2])
    y = net.add("LSTM", steps, net.normal(1, 16, 6), net.normal(1, 16, 4), net.normal(1, 32), hidden_size=4)
    model = net.model(["n", 7], net.add("Squeeze", y, net.hold(np.array([1]))), kind=TensorProto.INT64)
    x = np.random.default_rng(0).integers(0, 50, (6, 7))
    made = quantize(model, x, mode="weights")
    assert [layer.op for layer in made.report.layers] == ["Gather", "LSTM"]
    assert made.report.outputs[0].snr > 30
    assert steps_apart(run(made.model, x), reference(made.model, x)) < 1e-4
    for mode in ("static", "dynamic"):
        made = quantize(model, [x[i : i + 1] for i in range(6)], mode=mode)
        assert [layer.op for layer in made.report.layers] == ["Gather"]
        assert made.report.left == [f"LSTM_2 (LSTM): the mode {mode} leaves it"]


# ---- models as exporters write them


def test_weights_that_nodes_make() -> None:
    net = Net()
    w = net.draw.standard_normal((8, 6)).astype(np.float32)
    net.nodes.append(helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(w.T.copy())))
    made_of = net.add("Identity", net.add("Transpose", "c", perm=[1, 0]))
    y = net.add(
        "MatMul", net.add("Relu", net.add("MatMul", "x", made_of)), net.add("Identity", net.normal(6, 3))
    )
    model, x = net.model(["n", 8], y), rows(20, 8)
    made = quantize(model, x)
    assert set(operators(made.model)) == {"QuantizeLinear", "DequantizeLinear", "MatMul"}
    assert steps_apart(run(made.model, x), reference(made.model, x)) < 0.02


def test_shared_weights_are_held_once() -> None:
    net = Net()
    w = net.normal(8, 8)
    y = net.add("MatMul", net.add("Relu", net.add("MatMul", "x", w)), w)
    model, x = net.model(["n", 8], y), rows(20, 8)
    for mode in ("static", "dynamic", "weights"):
        made = quantize(model, x, mode=mode).model
        assert (
            sum(t.data_type == TensorProto.INT8 and list(t.dims) == [8, 8] for t in made.graph.initializer)
            == 1
        )
    kept = quantize(model, x, keep=["MatMul_0"]).model
    assert {tuple(t.dims): t.data_type for t in kept.graph.initializer if t.name == w} == {
        (8, 8): TensorProto.FLOAT
    }


def test_bodies_of_control_flow_are_left_alone_and_told() -> None:
    net = Net()
    y = net.add("MatMul", "x", net.normal(8, 8))
    inner = Net()
    inner.nodes.append(helper.make_node("MatMul", [y, "w_inner"], ["inside"], "inner_product"))
    inner.normal(8, 8, name="w_inner")
    value = [helper.make_tensor_value_info("inside", TensorProto.FLOAT, None)]
    then = helper.make_graph(inner.nodes, "then", [], value, inner.held)
    other = helper.make_graph([helper.make_node("Neg", [y], ["inside"])], "else", [], value)
    total = net.add("ReduceSum", y, keepdims=0)
    z = net.add("If", net.add("Greater", total, net.hold(np.float32(0))), then_branch=then, else_branch=other)
    model, x = net.model(["n", 8], z), rows(3, 8)
    made = quantize(model, [x[:1], x[1:2], x[2:]])
    assert made.report.left == ["inner_product: in control flow or in a function of the model"]
    assert snr(run(model, x[:1]), run(made.model, x[:1])) > 25


def test_weights_beside_the_model_and_files(tmp_path: Any) -> None:
    model, x = convolutions(), images()
    other = ModelProto()
    other.CopyFrom(model)
    path = tmp_path / "wide" / "net.onnx"
    path.parent.mkdir()
    onnx.save(other, path, save_as_external_data=True, location="net.data", size_threshold=64)
    made = quantize(path, x)
    assert np.array_equal(run(made.model, x), run(quantize(model, x).model, x))
    out = tmp_path / "narrow.onnx"
    made.save(out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["narrow.onnx", "narrow.onnx.data", "wide"]
    again = ng.compile(load(out))(x)[0]
    assert np.array_equal(again, run(made.model, x))
    assert snr(run(model, x), again) > 25


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["static", "dynamic", "weights"])
def test_a_file_holds_what_was_made(seed: int, mode: str, tmp_path: Any) -> None:
    made = quantize(convolutions(seed), images(), mode=mode)
    made.save(tmp_path / "net.onnx")
    assert load(tmp_path / "net.onnx").input_names == ["x"]
    assert np.array_equal(ng.compile(load(tmp_path / "net.onnx"))(images())[0], run(made.model, images()))


def test_other_names_of_the_model_are_not_taken() -> None:
    net = Net()
    y = net.add("MatMul", "x", net.normal(8, 8, name="x_scale"))
    y = net.add("MatMul", y, net.normal(8, 8, name="x_quantized"))
    model, x = net.model(["n", 8], net.add("Identity", y)), rows(20, 8)
    made = quantize(model, x).model
    names = [name for node in made.graph.node for name in node.output] + [
        t.name for t in made.graph.initializer
    ]
    assert len(names) == len(set(names))
    assert snr(run(model, x), run(made, x)) > 30


def test_numbers_of_any_size() -> None:
    """Zero weights, a channel of tiny numbers with a large bias, an input that is always 0, one element."""
    net = Net()
    w = np.zeros((4, 3, 1, 1), np.float32)
    w[1], w[2], w[3, 0] = 1e-36, 1e20, 1e-3
    y = net.add("Conv", "x", net.hold(w), net.hold(np.array([1, 1e6, -1, 0], np.float32)))
    model, x = net.model(["n", 3, 9, 9], y), images()
    for data in (x, x * 0, x * np.float32(1e-20)):
        made = quantize(model, data).model
        wanted, found = run(model, data), run(made, data)
        for channel in range(4):
            scale = np.abs(wanted[:, channel]).max()
            assert np.abs(wanted[:, channel] - found[:, channel]).max() <= 0.02 * scale
    small = Net()
    tiny = small.model([1, 1], small.add("MatMul", "x", small.hold(np.full((1, 1), 2, np.float32))))
    three = np.full((1, 1), 3, np.float32)
    assert abs(run(quantize(tiny, three).model, three).item() - 6) < 0.05
