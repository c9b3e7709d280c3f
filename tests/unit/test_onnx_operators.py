# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX against NumPy, where the suite that ships with onnx says little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.support.diagnostics import NgmlirError  # noqa: E402


def ran(
    op: str,
    inputs: dict[str, Any],
    outputs: int = 1,
    opset: int = 22,
    target: str = "numpy",
    domain: str = "",
    **attributes: Any,
) -> Any:
    """What one operator gives; arrays of inputs that begin with a capital letter are weights of the model."""
    arrays = {name: np.asarray(a) for name, a in inputs.items()}
    names = [f"out{i}" for i in range(outputs)]
    held = [numpy_helper.from_array(a, name) for name, a in arrays.items() if name[0].isupper()]
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in arrays.items()
        if not name[0].isupper()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, list(arrays), names, domain=domain, **attributes)],
        "g",
        ports,
        [onnx.ValueInfoProto(name=name) for name in names],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
    run = ng.compile(load(model), target=target)
    made = run(*[a for name, a in arrays.items() if not name[0].isupper()])
    return made[0] if outputs == 1 else list(made)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape)


@pytest.mark.parametrize("length", [1, 6, 521, 1000, 1042, 2048])
def test_transforms_of_every_length(length: int) -> None:
    x = _random(2, length, 2)
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    made = ran("DFT", {"x": x})
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], expected, atol=1e-12 * length)
    np.testing.assert_allclose(ran("DFT", {"x": made}, inverse=1), x, atol=1e-12)


@pytest.mark.parametrize(("length", "asked"), [(6, 6), (7, 7), (600, 600), (7, 9), (9, 4), (521, 700)])
def test_one_side_of_real_numbers_and_back(length: int, asked: int) -> None:
    x = _random(3, length, 2, 1)
    expected = np.fft.rfft(x[..., 0], asked, axis=1)
    made = ran("DFT", {"x": x, "Length": np.int64(asked), "Axis": np.int64(1)}, onesided=1)
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], expected, atol=1e-11)
    back = ran("DFT", {"x": made, "Length": np.int64(asked), "Axis": np.int64(1)}, onesided=1, inverse=1)
    np.testing.assert_allclose(back[..., 0], np.fft.irfft(expected, asked, axis=1), atol=1e-12)
    assert back.shape == (3, asked, 2, 1)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_greatest_of_many(largest: int) -> None:
    x = np.random.default_rng(1).integers(-500, 500, size=(2, 9000, 3)).astype(np.int32)
    values, places = ran("TopK", {"x": x, "K": np.array([40])}, 2, axis=1, largest=largest)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :40]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_more_of_the_greatest_than_there_are() -> None:
    with pytest.raises(NgmlirError, match="the 5 greatest of 4"):
        ran("TopK", {"x": np.zeros(4, np.float32), "K": np.array([5])}, 2)


# ---- random numbers


def test_random_numbers_have_the_form_and_spread_that_are_asked_for() -> None:
    x = np.zeros((50, 40), np.float32)
    normal = ran("RandomNormalLike", {"x": x}, mean=3.0, scale=2.0)
    assert normal.shape == x.shape and abs(normal.mean() - 3) < 0.2 and abs(normal.std() - 2) < 0.1
    uniform = ran(
        "RandomUniform", {}, shape=[2000], low=-1.0, high=5.0, dtype=onnx.TensorProto.DOUBLE, seed=1.0
    )
    assert uniform.dtype == np.float64 and -1 <= uniform.min() < -0.9 < 4.9 < uniform.max() < 5
    again = ran(
        "RandomUniform", {}, shape=[2000], low=-1.0, high=5.0, dtype=onnx.TensorProto.DOUBLE, seed=1.0
    )
    other = ran(
        "RandomUniform", {}, shape=[2000], low=-1.0, high=5.0, dtype=onnx.TensorProto.DOUBLE, seed=2.0
    )
    np.testing.assert_array_equal(uniform, again)
    assert not np.array_equal(uniform, other)


def test_bernoulli_and_multinomial_follow_their_chances() -> None:
    chance = np.linspace(0, 1, 5, dtype=np.float32).repeat(1000)
    made = ran("Bernoulli", {"x": chance}).reshape(5, 1000).mean(1)
    np.testing.assert_allclose(made, np.linspace(0, 1, 5), atol=0.06)
    share = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-20]], np.float32)
    drawn = ran("Multinomial", {"x": np.log(share)}, sample_size=4000, dtype=onnx.TensorProto.INT64)
    assert drawn.shape == (2, 4000) and drawn.dtype == np.int64
    counts = np.stack([(drawn == k).mean(1) for k in range(3)], 1)
    np.testing.assert_allclose(counts, share, atol=0.03)


def test_dropout_while_training() -> None:
    x = np.ones((100, 50), np.float32)
    made, kept = ran("Dropout", {"x": x, "Ratio": np.float32(0.25), "Training": np.True_}, 2)
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_allclose(made, kept / np.float32(0.75), rtol=1e-6)
    made, kept = ran("Dropout", {"x": x, "Ratio": np.float32(0.25), "Training": np.False_}, 2)
    assert kept.all() and (made == 1).all()


# ---- regions


def _mean_of_cell(image: np.ndarray, top: float, left: float, high: float, wide: float, counts: Any) -> Any:
    """The mean of a grid of places between elements."""
    rows, columns = counts
    total = np.zeros(image.shape[0])
    for i in range(rows):
        for j in range(columns):
            y, x = top + (i + 0.5) * high / rows, left + (j + 0.5) * wide / columns
            if not (-1 <= y <= image.shape[1] and -1 <= x <= image.shape[2]):
                continue
            y, x = min(max(y, 0), image.shape[1] - 1), min(max(x, 0), image.shape[2] - 1)
            a, b = int(y), int(x)
            c, d = min(a + 1, image.shape[1] - 1), min(b + 1, image.shape[2] - 1)
            upper = image[:, a, b] * (1 - x + b) + image[:, a, d] * (x - b)
            lower = image[:, c, b] * (1 - x + b) + image[:, c, d] * (x - b)
            total += upper * (1 - y + a) + lower * (y - a)
    return total / (rows * columns)


@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_of_many_sizes(ratio: int) -> None:
    x = _random(2, 3, 9, 7)
    boxes = np.array([[0, 0, 6, 8], [1.5, 2, 3, 4], [-3, 1, 9, 20], [2, 2, 2.5, 2.5], [0, 0, 6, 4]])
    images = np.array([0, 1, 1, 0, 1])
    made = ran(
        "RoiAlign",
        {"x": x, "boxes": boxes, "images": images},
        output_height=2,
        output_width=3,
        sampling_ratio=ratio,
    )
    expected = np.zeros((5, 3, 2, 3))
    for k, (left, top, right, bottom) in enumerate(boxes - 0.5):
        high, wide = (bottom - top) / 2, (right - left) / 3
        counts = (ratio, ratio) if ratio else (int(np.ceil(high)), int(np.ceil(wide)))
        for i in range(2):
            for j in range(3):
                expected[k, :, i, j] = _mean_of_cell(
                    x[images[k]], top + i * high, left + j * wide, high, wide, counts
                )
    np.testing.assert_allclose(made, expected, atol=1e-12)


def test_maxima_of_regions() -> None:
    x = np.arange(2 * 6 * 6, dtype=np.float32).reshape(1, 2, 6, 6)
    boxes = np.array([[0, 0, 0, 5, 5], [0, 2, 3, 3, 3]], np.float32)
    made = ran("MaxRoiPool", {"x": x, "boxes": boxes}, pooled_shape=[2, 2])
    np.testing.assert_array_equal(made[0, 0], [[14, 17], [32, 35]])
    np.testing.assert_array_equal(made[1, 1], [[56, 57], [56, 57]])


def test_a_deformed_convolution_whose_offsets_are_zero() -> None:
    x, w, b = _random(2, 4, 7, 8), _random(6, 2, 3, 3), _random(6)
    more: dict[str, Any] = {"pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2], "group": 2}
    plain = ran("Conv", {"x": x, "w": w, "b": b}, **more)
    offsets, mask = np.zeros((2, 2 * 9 * 2, *plain.shape[2:])), np.full((2, 2 * 9, *plain.shape[2:]), 0.5)
    given = {"x": x, "w": w, "o": offsets, "b": b, "m": mask}
    made = ran("DeformConv", given, offset_group=2, **more)
    np.testing.assert_allclose(made, (plain + b[:, None, None]) / 2, atol=1e-12)


@pytest.mark.parametrize("pads", [[12, 12], [0, 20], [21, 1], [3, 40]])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 12), (3, 6), (2, 5)])
def test_taps_that_reach_no_element(pads: list[int], stride: int, dilation: int) -> None:
    x, w = _random(2, 3, 5), _random(4, 3, 3)
    wide = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[1])])
    span = 2 * dilation + 1
    places = np.arange(0, wide.shape[2] - span + 1, stride)
    expected = sum(np.einsum("ncp,mc->nmp", wide[:, :, places + t * dilation], w[:, :, t]) for t in range(3))
    made = ran("Conv", {"x": x, "w": w}, pads=pads, strides=[stride], dilations=[dilation])
    np.testing.assert_allclose(made, expected, atol=1e-12)


# ---- trees, encoders


def test_trees_that_are_told_in_lists() -> None:
    # Tree 0: x0 <= 0.5 ? (x1 < 2 ? 1 : 2) : 4.   Tree 3: x1 >= 1 ? 10 : 20, and NaN goes the way of true.
    trees: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 3, 3, 3],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 1, 0, 0, 0, 1, 0, 0],
        "nodes_values": [0.5, 2.0, 0, 0, 0, 1.0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF", "BRANCH_GTE", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [0, 0, 0, 0, 0, 1, 0, 0],
    }
    x = np.array([[0.5, 2.0], [0.4, 1.0], [0.6, 0.0], [np.nan, np.nan]], np.float32)
    leaves: dict[str, Any] = {
        "target_treeids": [0, 0, 0, 3, 3],
        "target_nodeids": [2, 3, 4, 1, 2],
        "target_ids": [0] * 5,
        "target_weights": [1.0, 2.0, 4.0, 10.0, 20.0],
    }
    domain = "ai.onnx.ml"
    made = ran(
        "TreeEnsembleRegressor", {"x": x}, opset=3, domain=domain, base_values=[0.5], **trees, **leaves
    )
    np.testing.assert_array_equal(made, [[12.5], [11.5], [24.5], [14.5]])
    classes = {key.replace("target", "class"): value for key, value in leaves.items()}
    classes["class_ids"] = [0, 1, 2, 2, 1]
    label, scores = ran(
        "TreeEnsembleClassifier",
        {"x": x},
        2,
        opset=3,
        domain=domain,
        classlabels_int64s=[7, 8, 9],
        **trees,
        **classes,
    )
    np.testing.assert_array_equal(scores, [[0, 2, 10], [1, 0, 10], [0, 20, 4], [0, 0, 14]])
    np.testing.assert_array_equal(label, [9, 9, 8, 9])


def test_trees_that_go_in_circles() -> None:
    with pytest.raises(NgmlirError, match="circles"):
        ran(
            "TreeEnsembleRegressor",
            {"x": np.zeros((1, 1), np.float32)},
            opset=3,
            domain="ai.onnx.ml",
            nodes_treeids=[0, 0, 0],
            nodes_nodeids=[0, 1, 2],
            nodes_featureids=[0, 0, 0],
            nodes_values=[0.0, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ"],
            nodes_truenodeids=[1, 2, 1],
            nodes_falsenodeids=[2, 2, 1],
        )


def test_models_of_scikit_learn() -> None:
    x, domain = _random(5, 3).astype(np.float32), "ai.onnx.ml"
    weights = _random(2, 3).astype(np.float32)
    more: dict[str, Any] = {"opset": 3, "domain": domain}
    made = ran(
        "LinearRegressor",
        {"x": x},
        targets=2,
        coefficients=weights.reshape(-1).tolist(),
        intercepts=[1.0, 2.0],
        **more,
    )
    np.testing.assert_allclose(made, x @ weights.T + np.float32([1, 2]), rtol=1e-5, atol=1e-6)
    scaled = ran("Scaler", {"x": x}, offset=[1.0, 2.0, 3.0], scale=[0.5], **more)
    np.testing.assert_allclose(scaled, (x - np.float32([1, 2, 3])) / 2, rtol=1e-6)
    np.testing.assert_allclose(
        ran("Normalizer", {"x": x}, norm="L2", **more),
        x / np.linalg.norm(x, axis=1, keepdims=True),
        rtol=1e-5,
    )
    hot = ran("OneHotEncoder", {"x": np.array([[3, 5], [9, 3]])}, cats_int64s=[3, 9], **more)
    np.testing.assert_array_equal(hot, [[[1, 0], [0, 0]], [[0, 1], [1, 0]]])
    label, scores = ran(
        "LinearClassifier",
        {"x": x},
        2,
        coefficients=[1.0, 0, 0, 0, 1, 0, 0, 0, 1],
        intercepts=[0.0] * 3,
        classlabels_ints=[4, 5, 6],
        post_transform="SOFTMAX",
        **more,
    )
    np.testing.assert_array_equal(label, x.argmax(1) + 4)
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-6)
    filled = ran(
        "Imputer",
        {"x": np.float32([[np.nan, 1], [2, np.nan]])},
        imputed_value_floats=[8.0, 9.0],
        replaced_value_float=float("nan"),
        **more,
    )
    np.testing.assert_array_equal(filled, [[8, 1], [2, 9]])


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_what_is_no_number_is_found_as_numpy_does(target: str) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)
    x[0, 0, 2, 3] = x[0, 1, 5, 0] = np.nan
    x[0, 1, 0] = np.nan
    blocks = x.reshape(1, 2, 3, 2, 3, 2)
    cases: list[tuple[str, dict[str, Any], Any]] = [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, blocks.max((3, 5))),
        ("GlobalMaxPool", {}, x.max((2, 3), keepdims=True)),
        ("ArgMax", {"axis": 3}, np.argmax(x, 3)[..., None]),
        ("ArgMin", {"axis": 2}, np.argmin(x, 2)[:, :, None]),
        ("ReduceMin", {}, x.min(keepdims=True)),
        ("Relu", {}, np.maximum(x, 0)),
    ]
    for op, options, expected in cases:
        made = ran(op, {"x": x}, target=target, **options)
        np.testing.assert_array_equal(made[0] if isinstance(made, tuple) else made, expected, op)


def test_bits_of_signed_numbers() -> None:
    """Since opset 28 the sign moves in from above, also where the shift is wider than the number, or negative."""
    x, by = np.array([-8, -1, -128, 64], np.int8), np.array([1, 3, 9, -1], np.int8)
    assert ran("BitShift", {"x": x, "by": by}, direction="RIGHT").tolist() == [-4, -1, -1, 0]
    assert ran("BitShift", {"x": x, "by": by}, direction="LEFT").tolist() == [-16, -8, 0, 0]
    x, by = np.array([200, 255], np.uint8), np.array([2], np.uint8)
    assert ran("BitShift", {"x": x, "by": by}, direction="RIGHT").tolist() == [50, 63]


def test_space_to_depth_in_either_order() -> None:
    x = _random(2, 3, 4, 6)
    parts = x.reshape(2, 3, 2, 2, 3, 2)
    for mode, order in (("DCR", [0, 3, 5, 1, 2, 4]), ("CRD", [0, 1, 3, 5, 2, 4])):
        made = ran("SpaceToDepth", {"x": x}, opset=28, blocksize=2, mode=mode)
        np.testing.assert_array_equal(made, parts.transpose(order).reshape(2, 12, 2, 3))


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_reductions_of_integers(kind: str) -> None:
    """What is no integer is rounded towards zero."""
    random = np.random.default_rng(3)
    x = random.integers(0 if kind[0] == "u" else -9, 10, (4, 5, 3)).astype(kind)
    wide = x.astype(np.float64).sum((0, 2))
    found = {
        op: ran(op, {"x": x, "Axes": np.array([0, 2])}, opset=20, target="cpu", keepdims=0)
        for op in ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceL1", "ReduceSum")
    }
    assert all(f.dtype == x.dtype for f in found.values())
    assert found["ReduceMean"].tolist() == np.trunc(wide / 12).tolist()
    squares = (x.astype(np.float64) ** 2).sum((0, 2))
    assert found["ReduceL2"].astype(float).tolist() == [
        min(np.trunc(np.sqrt(s)), np.iinfo(kind).max) for s in squares
    ]
    exps = np.trunc(np.log(np.exp(x.astype(np.float64)).sum((0, 2))))
    assert found["ReduceLogSumExp"].tolist() == exps.tolist()
    some = wide > 0
    assert found["ReduceLogSum"][some].tolist() == np.trunc(np.log(wide[some])).tolist()
    largest = np.full((1, 2), np.iinfo(np.int32).max, np.int32)
    assert ran("ReduceMean", {"x": largest}, keepdims=0) == np.iinfo(np.int32).max


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Pad", {"x": np.ones(3), "P": np.array([-2, -2])}, {}, "takes more from axis 0 than its 3 elements"),
        ("Pad", {"x": np.ones((2, 0)), "P": np.array([0, 1, 0, 1])}, {"mode": "reflect"}, "no elements to pad"),
        ("Range", {"A": np.array(0), "B": np.array(3), "C": np.array(0)}, {}, "the step of a range is 0"),
        ("Range", {"A": np.array(0.0), "B": np.array(3.0), "C": np.array(-0.0)}, {}, "the step of a range is 0"),
        ("Tile", {"x": np.ones(3), "R": np.array([-1])}, {}, "cannot be repeated"),
        ("Not", {"x": np.ones(3, np.float32)}, {}, "Not takes truth values, not f32"),
        ("Or", {"x": np.array([True]), "y": np.ones(1, np.int8)}, {}, "Or takes truth values, not i8"),
        ("Tile", {"x": np.ones(3), "R": np.array([2, 2])}, {}, "cannot be repeated"),
        ("Expand", {"x": np.ones(3), "S": np.array([-1])}, {}, "cannot have the shape"),
        ("ConstantOfShape", {"S": np.array([-1])}, {}, "cannot have the shape"),
        ("OneHot", {"x": np.array([1]), "D": np.array(0), "V": np.array([0, 1])}, {}, "the depth is 0"),
        ("Slice", {"x": np.ones(3), "A": np.array([0]), "B": np.array([3]), "C": np.array([0]), "D": np.array([0])}, {}, "step"),
        ("Split", {"x": np.ones(5), "S": np.array([6, -1])}, {}, "do not make 5"),
        ("Reshape", {"x": np.ones(6), "S": np.array([-2, 3])}, {}, "cannot take the shape"),
        ("TopK", {"x": np.ones(3), "K": np.array([5])}, {}, "5"),
        ("TopK", {"x": np.ones(3), "K": np.array([-1])}, {}, "-1"),
        ("DepthToSpace", {"x": np.ones((1, 4, 1, 1))}, {"blocksize": 3}, ""),
        ("DepthToSpace", {"x": np.ones((1, 4, 1, 1))}, {"blocksize": 0}, ""),
        ("MaxPool", {"x": np.ones((1, 1, 2, 2))}, {"kernel_shape": [3, 3]}, ""),
        ("Conv", {"x": np.ones((1, 1, 2, 2)), "W": np.ones((1, 1, 3, 3))}, {}, ""),
        ("LSTM", {"x": np.ones((2, 1, 3)), "W": np.ones((1, 16, 3)), "R": np.ones((1, 16, 4)), "B": np.ones((1, 32)),
                  "L": np.array([2], np.int32), "H": np.ones((1, 1, 2))}, {}, "initial_h has 2 elements for 4 hidden ones"),
    ],
)  # fmt: skip
def test_numbers_that_no_tensor_can_have_are_refused(
    op: str, inputs: dict[str, Any], attributes: dict[str, Any], message: str
) -> None:
    outputs = 2 if op in ("Split", "TopK") else 1
    with pytest.raises(NgmlirError, match=rf"node 'out0' \({op}\): .*{message}"):
        ran(op, inputs, outputs=outputs, opset=18, target="cpu", **attributes)


def test_long_ranges_of_integers_are_exact() -> None:
    start = (1 << 62) + 1
    made = ran("Range", {"A": np.array(start), "B": np.array(start + 3), "C": np.array(1)})
    assert made.tolist() == [start, start + 1, start + 2]


def test_padding_that_moves_past_all_elements() -> None:
    assert ran("Pad", {"x": np.ones(3, np.float32), "P": np.array([-5, 3])}).tolist() == [0.0]


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_outputs_that_are_known_stand_beside_computed_ones(target: str) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["known"]), helper.make_node("Neg", ["x"], ["computed"])]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("known", "computed")]
    port = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])
    model = helper.make_model(helper.make_graph(nodes, "g", [port], outputs))
    run = ng.compile(load(model), target=target)
    for _ in range(2):
        known, computed = run(np.ones((2, 3), np.float32))
        assert known.tolist() == [2, 3] and computed.tolist() == [[-1] * 3] * 2


def test_backward_slices_begin_at_the_first_element_and_nothing_stays_nothing() -> None:
    x = np.arange(6.0).reshape(2, 3)
    bounds = {"Starts": np.array([-9]), "Ends": np.array([-99]), "Axes": np.array([1])}
    np.testing.assert_array_equal(ran("Slice", {"x": x, **bounds, "Steps": np.array([-2])}), x[:, :1])
    assert ran("Slice", {"x": x[:, :0], **bounds, "Steps": np.array([-1])}).shape == (2, 0)
    assert ran("Hardmax", {"x": x[:, :0]}).shape == (2, 0)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("NOTSET", [12.0, 123, 230, 300]),
        ("SAME_LOWER", [12, 123, 230, 300]),
        ("SAME_UPPER", [1, 12, 123, 230]),
    ],
)
def test_odd_padding_of_a_stated_output_shape(rule: str, expected: list[float]) -> None:
    inputs = {"x": np.float32([[[1, 10, 100]]]), "W": np.float32([[[1, 2, 3]]])}
    made = ran("ConvTranspose", inputs, output_shape=[4], auto_pad=rule)
    np.testing.assert_array_equal(made, [[expected]])


def test_lengths_of_upsampled_images_are_computed_in_f32() -> None:
    scales = np.array([1, 1, 13 / 7], np.float32)
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    assert ran("Upsample", {"x": x, "Scales": scales}, opset=9).shape == (1, 1, 13)
    assert ran("Resize", {"x": x, "Roi": np.zeros(0, np.float32), "Scales": scales}).shape == (1, 1, 13)


def test_images_of_early_models_are_resized() -> None:
    """Scales in attributes; places between elements are rounded up where the image gets smaller."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    made = ran("Upsample", {"x": x}, opset=1, height_scale=2.0, width_scale=1.5)
    np.testing.assert_array_equal(made[0, 0, ::2], [[1, 1, 2, 3, 3, 4], [5, 5, 6, 7, 7, 8]])
    np.testing.assert_array_equal(made[0, 0, 1::2], made[0, 0, ::2])
    scales = np.array([1, 1, 0.6, 0.6], np.float32)
    np.testing.assert_array_equal(ran("Resize", {"x": x, "Scales": scales}, opset=10), [[[[1, 3]]]])


def test_early_models_tile_one_axis() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = ran(
        "Tile", {"x": x, "Tiles": np.array([2.0], np.float32), "Axis": np.array([1.0], np.float32)}, opset=1
    )
    np.testing.assert_array_equal(made, np.tile(x, (1, 2)))


def test_places_of_scaled_images_are_computed_in_f32() -> None:
    """11 divided by the nearest f32 to 2.2 is less than 5 in f64."""
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    made = ran("Upsample", {"x": x, "Scales": np.array([1, 1, 2.2], np.float32)}, opset=9)
    np.testing.assert_array_equal(made[0, 0], [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7])


def test_inputs_of_strings_are_refused_with_what_to_do() -> None:
    node = helper.make_node(
        "LabelEncoder", ["s"], ["y"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1]
    )
    info = helper.make_tensor_value_info
    ends = [info("s", onnx.TensorProto.STRING, [2])], [info("y", onnx.TensorProto.INT64, [2])]
    model = helper.make_model(
        helper.make_graph([node], "g", *ends), opset_imports=[helper.make_opsetid("ai.onnx.ml", 2)]
    )
    with pytest.raises(
        NgmlirError, match=r"'s' has elements of type STRING(.|\n)*cut the model behind the encoders"
    ):
        load(model)
