# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX whose batches may be of any length: one program, whatever their nodes compute with shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import compiler

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402

F = TensorProto.FLOAT


def attention(layers: int, width: int, heads: int, steps: int | str) -> Any:
    """A model like BERT, as exporters write it: lengths come from Shape, Gather and Concat."""
    random = np.random.default_rng(0)
    weights: dict[str, Any] = {
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "heads": np.array([heads, width // heads], np.int64),
        "width": np.array([width], np.int64),
        "scale": np.array(1 / np.sqrt(width // heads), np.float32),
    }
    nodes: list[Any] = []

    def add(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(name: str, *shape: int) -> str:
        weights[name] = (random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        return name

    shape = add("Shape", ["x"], "shape")
    batch = add("Gather", [shape, "zero"], "batch_length", axis=0)
    length = add("Gather", [shape, "one"], "step_count", axis=0)
    split = add("Concat", [batch, length, "heads"], "split", axis=0)
    joined = add("Concat", [batch, length, "width"], "joined", axis=0)
    x = "x"
    for i in range(layers):
        parts: list[str] = []
        for part in "qkv":
            made = add("MatMul", [x, weight(f"{part}{i}", width, width)], f"{part}_{i}")
            made = add("Add", [made, weight(f"{part}b{i}", width)], f"{part}_b_{i}")
            made = add("Reshape", [made, split], f"{part}_s_{i}")
            order = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
            parts.append(add("Transpose", [made], f"{part}_t_{i}", perm=order))
        scores = add("Mul", [add("MatMul", parts[:2], f"scores_{i}"), "scale"], f"scaled_{i}")
        mixed = add("MatMul", [add("Softmax", [scores], f"shares_{i}", axis=-1), parts[2]], f"mixed_{i}")
        mixed = add(
            "Reshape", [add("Transpose", [mixed], f"back_{i}", perm=[0, 2, 1, 3]), joined], f"whole_{i}"
        )
        x = add("Add", [x, add("MatMul", [mixed, weight(f"o{i}", width, width)], f"out_{i}")], f"sum_{i}")
        x = add("LayerNormalization", [x, weight(f"g{i}", width), weight(f"h{i}", width)], f"normal_{i}")
        wide = add("Gelu", [add("MatMul", [x, weight(f"w{i}", width, 4 * width)], f"wide_{i}")], f"gelu_{i}")
        x = add(
            "Add", [x, add("MatMul", [wide, weight(f"n{i}", 4 * width, width)], f"narrow_{i}")], f"end_{i}"
        )
    first = add("Gather", [x, "first"], "cls", axis=1)
    weights["first"] = np.array(0, np.int64)
    add("MatMul", [first, weight("classes", width, 2)], "y")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["batch", steps, width])],
        [helper.make_tensor_value_info("y", F, ["batch", 2])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled."""
    made: list[Any] = []
    real = compiler.compile_artifact

    def noted(of: Any, *rest: Any, **more: Any) -> Any:
        made.append(of)
        return real(of, *rest, **more)

    monkeypatch.setattr(compiler, "compile_artifact", noted)
    return made


def test_a_batch_of_any_length_is_one_program(compiled: list[Any]) -> None:
    model = attention(2, 16, 2, 6)
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    for batch in (1, 2, 3, 7, 9, 0, 20):
        x = np.random.default_rng(batch).normal(size=(batch, 6, 16)).astype(np.float32)
        found, wanted = run(x)[0], reference(x)[0]
        assert found.shape == wanted.shape == (batch, 2)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1


def test_one_program_for_all_batches_and_numbers_of_steps(compiled: list[Any]) -> None:
    model = attention(1, 16, 2, "steps")
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    for batch, steps in ((1, 4), (5, 4), (2, 7), (9, 7), (3, 4)):
        x = np.random.default_rng(batch).normal(size=(batch, steps, 16)).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1, "the first lengths have one of their own"


def test_one_sample_has_a_program_for_all_numbers_of_steps(compiled: list[Any]) -> None:
    model = attention(1, 16, 2, "steps")
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    for batch, steps in ((3, 4), (2, 7), (1, 9), (1, 5), (1, 12), (4, 6), (1, 31)):
        x = np.random.default_rng(steps).normal(size=(batch, steps, 16)).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-4, atol=1e-5)
    assert len(compiled) == 2, "the first lengths of several samples and of one have one of their own"


def test_calls_of_one_sample_and_of_several_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    model = attention(1, 16, 2, "steps")
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    draw = np.random.default_rng(0)

    def given(batch: int, steps: int) -> Any:
        return draw.normal(size=(batch, steps, 16)).astype(np.float32)

    for lengths in ((3, 4), (2, 7), (1, 9), (1, 5), (4, 12), (1, 12)):
        run(given(*lengths))
    arrays = [given(*lengths) for lengths in ((2, 5), (1, 7), (3, 6), (1, 4), (1, 7), (4, 9), (2, 9))]
    wanted = [reference(x)[0] for x in arrays]

    def slowly(*_: Any) -> Any:
        raise AssertionError("lengths for which there is room need no Python")

    monkeypatch.setattr(type(run), "_results", slowly)
    for x, each in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(run(x)[0], each, rtol=1e-4, atol=1e-5)


def test_nodes_that_compute_with_the_length_itself(compiled: list[Any]) -> None:
    """What a model does with the number of its rows is different for each."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["length"], axis=0),
        helper.make_node("Cast", ["length"], ["number"], to=F),
        helper.make_node("Div", ["x", "number"], ["shared"]),
        helper.make_node("Slice", ["shared", "zeros", "most"], ["y"]),
    ]
    held = {"zero": np.array(0, np.int64), "zeros": np.array([0], np.int64), "most": np.array([4], np.int64)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["batch", 3])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    run = ng.compile(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))
    for batch in (1, 2, 3, 5, 8, 2):
        x = np.random.default_rng(batch).normal(size=(batch, 3)).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], (x / batch)[:4], rtol=1e-6)


Attributes = dict[str, Any]


def slid(kind: str, channels: int, shape: tuple[int, ...], dims: list[int | str], **attributes: Any) -> Any:
    """A node that slides windows over images [dims[0], channels, H, W]; with filters of a shape, if it has some."""
    draw = np.random.default_rng(0)
    held: dict[str, Any] = {}
    if "Conv" in kind:
        held["w"] = draw.normal(size=shape).astype(np.float32)
        outputs = attributes.get("group", 1) * shape[1] if kind == "ConvTranspose" else shape[0]
        held["b"] = draw.normal(size=outputs).astype(np.float32)
    else:
        attributes["kernel_shape"] = shape
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *held], ["y"], **attributes), helper.make_node("Relu", ["y"], ["z"])],
        "g",
        [helper.make_tensor_value_info("x", F, [dims[0], channels, *dims[1:]])],
        [helper.make_tensor_value_info("z", F, None)],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


@pytest.mark.parametrize(
    ("kind", "channels", "shape", "attributes", "codes"),
    [
        ("Conv", 3, (16, 3, 3, 3), {"pads": [1] * 4}, 1),
        ("Conv", 3, (16, 3, 3, 3), {}, 1),
        ("Conv", 8, (33, 8, 5, 5), {"pads": [2] * 4, "strides": [2, 2], "dilations": [2, 2]}, 1),
        ("Conv", 8, (33, 8, 1, 1), {"strides": [3, 3]}, 1),
        ("Conv", 8, (16, 1, 3, 3), {"pads": [1] * 4, "group": 8}, 1),
        ("ConvTranspose", 8, (8, 5, 2, 2), {"strides": [2, 2]}, 1),
        ("ConvTranspose", 8, (8, 5, 2, 3), {"strides": [3, 3]}, 1),
        ("ConvTranspose", 8, (8, 5, 3, 3), {"strides": [2, 2], "pads": [1] * 4}, 1),
        ("MaxPool", 7, (3, 3), {"strides": [2, 2], "pads": [1] * 4}, 1),
        ("AveragePool", 7, (5, 5), {"strides": [2, 2]}, 1),
        ("AveragePool", 7, (3, 3), {"pads": [1] * 4}, 1),
        ("AveragePool", 7, (3, 3), {"pads": [1] * 4, "count_include_pad": 1}, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("batch", ["B", 1])
def test_images_of_any_size_are_one_program(
    kind: str, channels: int, shape: tuple[int, ...], attributes: Attributes, codes: int, batch: int | str,
    compiled: list[Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    opened = list[Any]()
    real = compiler.compile_open
    monkeypatch.setattr(compiler, "compile_open", lambda *a, **k: opened.append(a) or real(*a, **k))
    model = slid(kind, channels, shape, [batch, "H", "W"], **attributes)
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    sizes = [(20, 31), (24, 17), (40, 57), (17, 130), (64, 64), (33, 19)]
    few = [(9, 9), (10, 13), (11, 9)]  # of which some windows reach over all
    for height, width in [*sizes, *few]:
        x = np.random.default_rng(height).normal(size=(2 if batch == "B" else 1, channels, height, width))
        found, wanted = run(x.astype(np.float32))[0], reference(x.astype(np.float32))[0]
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)
        if (height, width) == sizes[-1]:
            assert (len(compiled), len(opened)) == (1, codes), "the first size has one of its own"


def test_constants_that_follow_from_lengths_are_not_those_of_one(compiled: list[Any]) -> None:
    """A constant index of two dimensions is a position that depends on the second one's length."""
    held = {"index": np.array([[0, 1], [1, 0]], np.int64), "rows": np.ones((2, 4), np.float32)}
    graph = helper.make_graph(
        [helper.make_node("ScatterND", ["x", *held], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", F, ["B", "S", 4])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    run = ng.compile(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))
    for batch, steps in ((2, 7), (3, 12), (5, 9), (4, 33)):
        wanted = np.zeros((batch, steps, 4), np.float32)
        wanted[[0, 1], [1, 0]] = 1
        np.testing.assert_array_equal(run(np.zeros_like(wanted))[0], wanted)
    assert len(compiled) == 1, "the first lengths have one of their own"


@pytest.mark.parametrize(
    ("mode", "transform"),
    [
        ("nearest", "asymmetric"),
        ("linear", "half_pixel"),
        ("cubic", "align_corners"),
        ("linear", "pytorch_half_pixel"),
    ],
)
@pytest.mark.parametrize("scale", [2.0, 0.5, None])
def test_images_of_any_size_are_resized_by_one_program(
    mode: str, transform: str, scale: float | None, compiled: list[Any]
) -> None:
    given: dict[str, Any] = {"scales": np.array([scale, scale], np.float32)} if scale else {}
    given |= {} if scale else {"sizes": np.array([20, 31])}
    names = ["x", "", *([*given] if scale else ["", *given])]
    attributes = {"mode": mode, "coordinate_transformation_mode": transform, "axes": [2, 3]}
    graph = helper.make_graph(
        [helper.make_node("Resize", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", F, ["B", 2, "H", "W"])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(a, name) for name, a in given.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    run = ng.compile(load(model))
    for shape in ((1, 2, 9, 13), (2, 2, 14, 10), (3, 2, 21, 16), (2, 2, 33, 8)):
        x = np.random.default_rng(shape[2]).normal(size=shape).astype(np.float32)
        (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(run(x)[0], wanted, rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1, "the first size has one of its own"


def test_networks_that_halve_images_are_one_program_for_even_ones(compiled: list[Any]) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["half", "", "scales"], ["whole"], mode="linear"),
        helper.make_node("Concat", ["x", "whole"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["B", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    for shape in ((2, 3, 8, 12), (3, 3, 14, 10), (2, 3, 20, 36), (5, 3, 64, 22), (2, 3, 34, 6)):
        x = np.random.default_rng(shape[2]).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-5, atol=1e-6)
    assert len(compiled) == 1, "the first size has one of its own"
    with pytest.raises(ng.UserError, match=r"Concat"):
        run(np.zeros((2, 3, 9, 12), np.float32))


def test_small_images_that_are_asked_for_are_served_by_the_program_for_all(compiled: list[Any]) -> None:
    """Depthwise filters beyond an image of 2 by 2 are cut, so that larger ones show what holds for all."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["half", "w"], ["deep"], group=3, pads=[2, 2, 2, 2]),
        helper.make_node("Resize", ["deep", "", "scales"], ["whole"], mode="nearest"),
        helper.make_node("Add", ["x", "whole"], ["y"]),
    ]
    weights = np.random.default_rng(5).normal(size=(3, 1, 5, 5)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["B", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", F, None)],
        [
            numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
            numpy_helper.from_array(weights, "w"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    run, reference = ng.compile(load(model)), ng.compile(load(model), target="numpy")
    for shape in ((2, 3, 20, 12), (3, 3, 8, 10), (2, 3, 12, 36), (5, 3, 64, 22)):
        x = np.random.default_rng(shape[2]).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], reference(x)[0], rtol=1e-5, atol=1e-5)
    assert len(compiled) == 1, "the first size has one of its own"


def test_lengths_named_by_a_question_mark_differ_and_one_of_them_stays(compiled: list[Any]) -> None:
    """Images of text are of one height, which the model does not say."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["row"], kernel_shape=[8, 1], strides=[8, 1]),
        helper.make_node("Squeeze", ["row", "axis"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["?", 3, "?", "?"])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(np.array([2], np.int64), "axis")],
    )
    run = ng.compile(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])))
    for shape in ((2, 3, 8, 20), (4, 3, 8, 24), (3, 3, 8, 13), (5, 3, 8, 31)):
        x = np.random.default_rng(shape[3]).normal(size=shape).astype(np.float32)
        np.testing.assert_array_equal(run(x)[0], x.max(2))
    assert len(compiled) == 1, "the first size has one of its own"


def test_lengths_beyond_those_that_were_read_are_served_by_the_program_for_all(compiled: list[Any]) -> None:
    """Windows of a sound: how many there are is computed in floats, so that programs for some lengths show what holds for all."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=1),
        helper.make_node("Cast", ["shape"], ["long"], to=F),
        helper.make_node("Mul", ["long", "half"], ["part"]),
        helper.make_node("Floor", ["part"], ["floor"]),
        helper.make_node("Cast", ["floor"], ["end"], to=onnx.TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "end", "one"], ["y"]),
    ]
    held = {"half": np.array([0.5], np.float32), "zero": np.array([0]), "one": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, ["B", "N"])],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    run = ng.compile(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])))
    for batch, length in ((2, 7), (3, 24321), (2, 8000), (5, 60000), (4, 99)):
        x = np.random.default_rng(length).normal(size=(batch, length)).astype(np.float32)
        np.testing.assert_array_equal(run(x)[0], x[:, : length // 2])
    assert len(compiled) == 1, "the first lengths have one of their own"
