# SPDX-License-Identifier: Apache-2.0
"""Models that say what no operator means, and files that hold no model: refused with what may have happened."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, defs, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.nodes import OPERATORS, WORDS  # noqa: E402

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def _model(*nodes: Any, opset: int = 20, **weights: Any) -> Any:
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])]
    held = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name="y")], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


SCALES = np.array([1, 1, 2, 2], np.float32)
PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
WORD = {
    "Resize mode": (helper.make_node("Resize", ["x", "", "s"], ["y"], mode="liner"), "did you mean linear"),
    "Pad mode": (
        helper.make_node("Pad", ["x", "p"], ["y"], mode="symmetric"),
        "constant, reflect, edge, wrap",
    ),
    "DepthToSpace mode": (helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=1, mode="RCD"), "CRD"),
    "MaxPool auto_pad": (
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME"),
        "NOTSET, SAME_UPPER",
    ),
    "Gelu approximate": (helper.make_node("Gelu", ["x"], ["y"], approximate="Tanh"), "did you mean tanh"),
}


@pytest.mark.parametrize("what", WORD)
def test_words_that_an_attribute_cannot_be(what: str) -> None:
    """They were read as one of the others."""
    node, hint = WORD[what]
    with pytest.raises(ng.UserError, match=f"attribute '{what.split()[1]}' cannot be") as error:
        ng.compile(load(_model(node, s=SCALES, p=PADS)), target="numpy")(X)
    assert hint in str(error.value)


def test_words_are_those_of_operators() -> None:
    """Each entry is of an attribute of the standard, and contains its default in each version that has the attribute."""
    schemas = [s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) in OPERATORS]
    for key, words in WORDS.items():
        op, _, name = key.rpartition(".")
        found = [s for s in schemas if name in s.attributes and op in ("", s.name)]
        assert found, key
        for schema in found:
            own = WORDS.get(f"{schema.name}.{name}", words)
            default = schema.attributes[name].default_value
            if schema.attributes[name].type == schema.AttrType.STRING and default.name:
                assert default.s.decode() in own, (schema.name, schema.since_version, name)


def test_nearest_elements_as_tensorflow_chooses_them() -> None:
    """A transformation of opsets 11 and 12 alone."""
    scales = np.array([1, 1, 0.5, 0.75], np.float32)
    node = helper.make_node(
        "Resize",
        ["x", "r", "s"],
        ["y"],
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode="floor",
    )
    run = ng.compile(load(_model(node, opset=11, s=scales, r=np.zeros(0, np.float32))), target="numpy")
    rows, columns = [1, 3], [0, 2, 3]  # the floor of (i + 0.5) / scale
    np.testing.assert_array_equal(run(X)[0], X[:, :, rows][..., columns])


def test_sizes_of_what_has_no_elements() -> None:
    x = helper.make_tensor_value_info("x", 1, [1, "n", 8])
    y = helper.make_tensor_value_info("y", 1, None)
    sizes = [helper.make_tensor("s", 7, [3], [1, n, 16]) for n in (4, 0)]
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear")
    four, none = (
        ng.compile(load(helper.make_model(helper.make_graph([node], "g", [x], [y], [s])))) for s in sizes
    )
    assert four(np.ones((1, 3, 8), np.float32))[0].shape == (1, 4, 16)
    with pytest.raises(ng.UserError, match="dimension 1 of the operand has no elements"):
        four(np.ones((1, 0, 8), np.float32))
    assert none(np.ones((1, 0, 8), np.float32))[0].shape == (1, 0, 16)


def test_attributes_that_there_are_not() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axes=1)
    with pytest.raises(ng.UserError, match="there is no attribute 'axes'; did you mean axis"):
        load(_model(node))


def test_a_name_that_two_nodes_make() -> None:
    nodes = [helper.make_node(op, ["x"], ["y"], name=op.lower()) for op in ("Relu", "Neg")]
    with pytest.raises(ng.UserError, match=r"'neg' \(Neg\) makes 'y', which node 'relu' \(Relu\) has made"):
        load(_model(*nodes))
    with pytest.raises(ng.UserError, match="makes 'y', which"):
        load(_model(helper.make_node("Split", ["x"], ["y", "y"], axis=3, num_outputs=2)))


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html></html>", "not downloaded"),
        (b"", "no bytes"),
        (_model(helper.make_node("Relu", ["x"], ["y"])).SerializeToString()[:-5], "cut off"),
    ],
)
def test_what_a_file_that_is_no_model_may_be(tmp_path: Path, data: bytes, hint: str) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ng.UserError) as error:
        load(tmp_path / "m.onnx")
    assert hint in str(error.value).partition("hint: ")[2]


def _with_weights(folder: Path, name: str) -> Path:
    w = np.random.default_rng(0).standard_normal((4, 1 << 16)).astype(np.float32)
    made = _model(helper.make_node("MatMul", ["x", "w"], ["y"]), w=w)
    onnx.save(made, folder / f"{name}.onnx", save_as_external_data=True, location=f"{name}.bin")
    return folder / f"{name}.onnx"


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    path = _with_weights(tmp_path, "m")
    with pytest.raises(ng.UserError, match="hint: load the model by its path"):
        ng.compile(load(path.read_bytes()), target="numpy")(X)
    os.truncate(tmp_path / "m.bin", 1000)
    with pytest.raises(ng.UserError, match="hint: the file was cut off"):
        ng.compile(load(path), target="numpy")(X)
    os.remove(tmp_path / "m.bin")
    with pytest.raises(ng.UserError, match="hint: weights of the model are kept in a file of their own"):
        ng.compile(load(path), target="numpy")(X)


def test_weights_equal_to_those_of_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """Equal constants are one object: looking for it must not read beyond the end of a file of another model."""
    first, second = (load(_with_weights(tmp_path, name)) for name in ("a", "b"))
    gc.disable()
    try:
        module = first.module([X])
        os.truncate(tmp_path / "a.bin", 1 << 12)
        made = second.module([X])
    finally:
        gc.enable()
    assert module is not made
    expected = X @ np.random.default_rng(0).standard_normal((4, 1 << 16)).astype(np.float32)
    np.testing.assert_allclose(ng.compile(second, target="numpy")(X)[0], expected, rtol=1e-4, atol=1e-4)
