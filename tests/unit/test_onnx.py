# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX as people use them: shapes, names, what decides shapes, what is refused and how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load, model  # noqa: E402
from ngmlir.transformers.backends import BACKENDS  # noqa: E402

Info = tuple[str, int, Any]


def _model(
    nodes: list[Any],
    inputs: list[Info],
    outputs: list[Info],
    weights: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> Any:
    def info(each: Info) -> Any:
        return helper.make_tensor_value_info(*each)

    held = [numpy_helper.from_array(a, name) for name, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", list(map(info, inputs)), list(map(info, outputs)), held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], **more)


F = TensorProto.FLOAT
I = TensorProto.INT64


def _gemm() -> Any:
    w, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
    ]
    return _model(nodes, [("x", F, ["batch", 3])], [("y", F, None), ("total", F, None)], {"w": w, "b": b})


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_a_batch_of_any_length(target: str) -> None:
    run = ng.compile(load(_gemm()), target=target)
    for batch in (1, 5, 2):
        x = np.random.default_rng(0).normal(size=(batch, 3)).astype(np.float32)
        expected = np.maximum(x @ np.arange(12, dtype=np.float32).reshape(3, 4) + 1, 0)
        y, total = run(x)
        np.testing.assert_allclose(y, expected, rtol=1e-5)
        np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)
        assert np.array_equal(run(x=x)["y"], y)


def test_a_model_is_read_from_a_path_bytes_and_a_protocol_buffer(tmp_path: Path) -> None:
    onnx.save(_gemm(), tmp_path / "m.onnx")
    x = np.ones((2, 3), np.float32)
    sources = [tmp_path / "m.onnx", str(tmp_path / "m.onnx"), _gemm().SerializeToString(), _gemm()]
    first, *rest = [ng.compile(load(s), target="numpy")(x)[0] for s in sources]
    assert all(np.array_equal(first, other) for other in rest)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "takes 1 inputs, but 0"),
        ([np.ones((2, 4), np.float32)], r"shape \[batch, 3\], not \[2, 4\]"),
        ([np.ones((2, 3), complex)], "takes float32, not complex128"),
        ([np.array([["a", "b", "c"]])], "takes float32"),
        ([np.ones(3, np.float32)], "shape"),
    ],
)
def test_values_that_do_not_fit(values: list[Any], message: str) -> None:
    run = ng.compile(load(_gemm()), target="numpy")
    with pytest.raises(ng.UserError, match=message):
        run(*values)


def test_names_that_are_none() -> None:
    run = ng.compile(load(_gemm()), target="numpy")
    with pytest.raises(ng.UserError, match="no input 'z'"):
        run(z=1)
    with pytest.raises(ng.UserError, match="no output 'totl'"):
        run(np.ones((1, 3), np.float32))["totl"]


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_an_input_that_decides_shapes(target: str) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    run = ng.compile(load(_model(nodes, [("x", F, [6]), ("shape", I, [2])], [("y", F, None)])), target=target)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, -1], [6, 1]):
        assert np.array_equal(run(x, np.array(shape))[0], x.reshape(shape))
    with pytest.raises(ng.UserError, match=r"node 'y' \(Reshape\): .*cannot take the shape"):
        run(x, np.array([4, 4]))


@pytest.mark.parametrize("behind", [0, 1])
def test_inputs_of_any_size_decide_shapes(behind: int) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"]), helper.make_node("Add", ["y", "y"], ["z"])]
    last = "yz"[behind]
    model = load(_model(nodes[: 1 + behind], [("x", F, ["n", "m"])], [(last, I, None)]))
    run = ng.compile(model, target="cpu")
    random = np.random.default_rng(1)
    for shape in ((2, 2), (9, 9), (512, 512), (512, 512)):
        x = (random.random(shape) < 0.3).astype(np.float32)
        assert np.array_equal(run(x)[last], np.array(np.nonzero(x)) * (1 + behind))


def test_any_number_of_elements_may_decide_shapes() -> None:
    model = load(_model([helper.make_node("NonZero", ["x"], ["y"])], [("x", F, ["n"])], [("y", I, None)]))
    x = np.zeros((1 << 24) + 1, np.float32)
    x[[3, -1]] = 1
    assert ng.compile(model, target="numpy")(x)["y"].tolist() == [[3, 1 << 24]]


def test_shapes_are_computed_while_a_model_is_read() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])}
    model = load(_model(nodes, [("x", F, ["n", 2, 3])], [("y", F, None)], weights))
    run = ng.compile(model, target="numpy")
    assert run(np.zeros((4, 2, 3), np.float32))[0].shape == (4, 6)
    assert model.deciding == set()


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_branches_and_loops_of_the_program(target: str) -> None:
    def body(name: str, op: str) -> Any:
        made = helper.make_tensor_value_info(name, F, [2])
        return helper.make_graph([helper.make_node(op, ["x", "x"], [name])], name, [], [made])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=body("a", "Mul"), else_branch=body("b", "Add")),
    ]
    run = ng.compile(
        load(_model(nodes, [("x", F, [2])], [("y", F, None)], {"zero": np.array(0, np.float32)})),
        target=target,
    )
    assert run(np.array([1, 2], np.float32))[0].tolist() == [2, 4]
    assert run(np.array([-1, -2], np.float32))[0].tolist() == [1, 4]


def test_everything_that_lacks_is_said_at_once() -> None:
    nodes = [
        helper.make_node("NoSuchThing", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("StringNormalizer", ["b"], ["c"], name="second"),
        helper.make_node("Cast", ["c"], ["y"], name="third", to=TensorProto.COMPLEX64),
    ]
    stack = nodes[0].metadata_props.add()
    stack.key, stack.value = (
        "pkg.torch.onnx.stack_trace",
        'File "net.py", line 12, in forward\n    y = thing(x)',
    )
    with pytest.raises(ng.Limit) as error:
        load(_model(nodes, [("x", F, [2])], [("y", F, None)]))
    text = str(error.value)
    assert "net.py:12:1: error: node 'first' (NoSuchThing)" in text
    assert (
        "node 'second' (StringNormalizer)" in text
        and "type COMPLEX64" in text
        and len(error.value.diagnostics) == 3
    )


def _external(tmp_path: Path, location: str, **entries: Any) -> Path:
    model = _gemm()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder


def test_weights_beside_the_model(tmp_path: Path) -> None:
    folder = _external(tmp_path, "sub/w.bin", offset=4, length=48)
    (folder / "sub").mkdir()
    (folder / "sub" / "w.bin").write_bytes(b"----" + np.arange(12, dtype=np.float32).tobytes())
    x = np.ones((2, 3), np.float32)
    made = ng.compile(load(folder / "m.onnx"), target="numpy")(x)[0]
    assert np.array_equal(made, ng.compile(load(_gemm()), target="numpy")(x)[0])


@pytest.mark.parametrize(
    ("location", "entries"),
    [
        ("../w.bin", {}),
        ("/etc/hostname", {}),
        ("/dev/zero", {}),
        ("link.bin", {}),
        ("hard.bin", {}),
        ("linked/w.bin", {}),
        ("pipe", {}),
        ("w\0.bin", {}),
        ("", {}),
        ("missing.bin", {}),
        ("own.bin", {"offset": -4}),
        ("own.bin", {"offset": 1}),
        ("own.bin", {"length": 1 << 62}),
        ("own.bin", {"length": "48x"}),
        ("own.bin", {"offset": 1 << 60}),
    ],
)
def test_no_file_but_those_of_the_model_is_read(
    tmp_path: Path, location: str, entries: dict[str, Any]
) -> None:
    folder = _external(tmp_path, location, **entries)
    data = np.arange(12, dtype=np.float32).tobytes()
    (tmp_path / "w.bin").write_bytes(data)
    (folder / "own.bin").write_bytes(data)
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    os.link(tmp_path / "w.bin", folder / "hard.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    with pytest.raises(ng.UserError, match="the tensor 'w'"):
        ng.compile(load(folder / "m.onnx"), target="numpy")(np.ones((2, 3), np.float32))


def test_damaged_files_are_answered_with_a_message(tmp_path: Path) -> None:
    data = _gemm().SerializeToString()
    x = np.ones((2, 3), np.float32)
    rng = np.random.default_rng(1)
    refused = 0
    for i in range(300):
        damaged = bytearray(data)
        if i % 2:
            damaged = damaged[: int(rng.integers(len(data)))]
        else:
            for at in rng.integers(len(data), size=3):
                damaged[at] ^= 1 << int(rng.integers(8))
        try:
            ng.compile(load(bytes(damaged)), target="numpy")(x)
        except ng.NgmlirError as error:
            assert not isinstance(error, ng.Bug), error
            refused += 1
    assert refused > 150


def test_names_that_are_no_text() -> None:
    data = _gemm().SerializeToString()
    assert data.count(b"\n\x01x\x12") == 1
    with pytest.raises(ng.UserError, match="no text"):
        load(data.replace(b"\n\x01x\x12", b"\n\x01\xff\x12"))


def test_a_number_of_threads() -> None:
    x = np.ones((1, 3), np.float32)
    whole = ng.compile(load(_gemm()), target="cpu")(x)[0]
    for threads in (1, 2, 3):
        assert np.array_equal(ng.compile(load(_gemm()), target="cpu", threads=threads)(x)[0], whole)
    with pytest.raises(ng.UserError, match="threads is 0"):
        ng.compile(load(_gemm()), target="cpu", threads=0)


@pytest.mark.parametrize("dims", [[1 << 40], [1 << 32, 1 << 32], [3037000500, 3037000500], [-1], [1 << 62]])
def test_sizes_beyond_any_memory(dims: list[int]) -> None:
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["c", "x"], ["y"])]
    model = load(_model(nodes, [("x", F, [1])], [("y", F, None)], {"s": np.array(dims)}))
    with pytest.raises((ng.UserError, ng.Limit), match="node"):
        ng.compile(model, target="numpy")(np.ones(1, np.float32))


def test_functions_that_call_each_other_in_circles() -> None:
    def function(name: str, callee: str) -> Any:
        node = helper.make_node(callee, ["a"], ["b"], domain="own")
        return helper.make_function("own", name, ["a"], ["b"], [node], [helper.make_opsetid("own", 1)])

    nodes = [helper.make_node("f", ["x"], ["y"], domain="own")]
    with pytest.raises(ng.UserError, match="calls itself"):
        load(
            _model(
                nodes, [("x", F, [1])], [("y", F, None)], functions=[function("f", "g"), function("g", "f")]
            )
        )


def test_functions_that_grow_without_end() -> None:
    def function(name: str, inner: str, own: str = "own") -> Any:
        nodes = [
            helper.make_node(inner, ["a"], ["m"], domain=own),
            helper.make_node(inner, ["m"], ["b"], domain=own),
        ]
        imports = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
        return helper.make_function("own", name, ["a"], ["b"], nodes, imports)

    functions = [function("f0", "Relu", ""), *(function(f"f{i}", f"f{i - 1}") for i in range(1, 40))]
    nodes = [helper.make_node("f39", ["x"], ["y"], domain="own")]
    with pytest.raises(ng.NgmlirError, match="nodes"):
        ng.compile(
            load(_model(nodes, [("x", F, [1])], [("y", F, None)], functions=functions)), target="numpy"
        )


def test_a_function_of_the_model_with_attributes() -> None:
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    reference = node.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function(
        "own", "leak", ["a"], ["b"], [node], [helper.make_opsetid("", 20)], ["slope"]
    )
    nodes = [helper.make_node("leak", ["x"], ["y"], domain="own", slope=0.5)]
    run = ng.compile(
        load(_model(nodes, [("x", F, [2])], [("y", F, None)], functions=[function])), target="numpy"
    )
    assert run(np.array([-2, 2], np.float32))[0].tolist() == [-1, 2]


@pytest.mark.parametrize("source", [b"", b"no model", b"\0" * 100, 7, None, "/no/such/file.onnx"])
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(ng.UserError):
        load(source)


def test_onnx_is_imported_when_a_model_is_read() -> None:
    import subprocess
    import sys

    code = "import ngmlir, ngmlir.frontends.onnx, sys; print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_warning_says_that_programs_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    import ngmlir.frontends.onnx.model as models

    monkeypatch.setattr(models, "_KEPT", 2)
    run = ng.compile(load(_gemm()), target="numpy")
    for batch in (1, 2, 1):
        run(np.ones((batch, 3), np.float32))
    with pytest.warns(UserWarning, match="compiled for 3 shapes of the inputs, and only 2 programs are kept"):
        run(np.ones((3, 3), np.float32))
    run(np.ones((4, 3), np.float32))  # said once


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_what_a_run_decides_is_run_in_two_parts(target: str) -> None:
    """A detector: a convolution, the boxes that are left, and what is read for these. The image is larger than may decide."""
    w = np.random.default_rng(0).normal(size=(5, 3, 4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[4, 4]),
        helper.make_node("Reshape", ["c", "flat"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["columns"], perm=[1, 0]),
        helper.make_node("Split", ["columns", "parts"], ["box", "score"], axis=1),
        helper.make_node("Reshape", ["score", "line"], ["scores"]),
        helper.make_node("Greater", ["scores", "bar"], ["good"]),
        helper.make_node("NonZero", ["good"], ["places"]),
        helper.make_node("Squeeze", ["places", "first"], ["at"]),
        helper.make_node("Gather", ["box", "at"], ["boxes"]),
        helper.make_node("ReduceSum", ["boxes", "first"], ["total"], keepdims=0),
        helper.make_node("Relu", ["scores"], ["shown"]),
    ]
    weights = {
        "w": w,
        "flat": np.array([5, -1]),
        "parts": np.array([4, 1]),
        "line": np.array([-1]),
        "first": np.array([0]),
        "bar": np.float32(15),
    }
    outputs: list[Info] = [("boxes", F, None), ("total", F, None), ("shown", F, None), ("scores", F, None)]
    run = ng.compile(load(_model(nodes, [("x", F, [1, 3, 256, 256])], outputs, weights)), target=target)
    counts: set[int] = set()
    for seed in (1, 2, 1, 1):
        x = np.random.default_rng(seed).normal(size=(1, 3, 256, 256)).astype(np.float32)
        tiles = x.reshape(3, 64, 4, 64, 4).transpose(1, 3, 0, 2, 4).reshape(4096, 48)
        rows = tiles @ w.reshape(5, 48).T
        kept = rows[rows[:, 4] > 15, :4]
        made = run(x)
        np.testing.assert_allclose(made["boxes"], kept, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(made["total"], kept.sum(0), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(made["shown"], np.maximum(rows[:, 4], 0), rtol=1e-4, atol=1e-4)
        counts.add(len(kept))
    assert len(counts) == 2


@pytest.mark.parametrize("width", [8, 64])
def test_what_follows_a_choice_is_compiled_for_its_shape(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where it is heavy, else when a shape comes again; whatever was chosen, and not anew for each choice."""
    monkeypatch.setattr(model, "_HEAVY", 1 << 24)
    compiled: list[str] = []
    backend = BACKENDS["cpu"]

    def counted(module: Any) -> Any:
        compiled.append(str(module.ops[0].block.args[0].type))
        return backend(module)

    monkeypatch.setitem(BACKENDS, "cpu", counted)
    rng = np.random.default_rng(0)
    weights = {
        "bar": np.float32(0),
        "one": np.array([1]),
        "none": np.array([0]),
        "w": rng.normal(size=(256, width)).astype(np.float32),
        "u": rng.normal(size=(width, 256)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ReduceMax", ["x", "one"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "bar"], ["good"]),
        helper.make_node("NonZero", ["good"], ["places"]),
        helper.make_node("Squeeze", ["places", "none"], ["at"]),
        helper.make_node("Gather", ["r", "at"], ["chosen"]),
        helper.make_node("MatMul", ["chosen", "w"], ["wide"]),
        helper.make_node("MatMul", ["wide", "u"], ["y"]),
    ]
    run = ng.compile(load(_model(nodes, [("x", F, [512, 256])], [("y", F, None)], weights)))
    for seed in range(4):
        x = -np.abs(np.random.default_rng(seed).normal(size=(512, 256))).astype(np.float32)
        rows = np.sort(np.random.default_rng(seed).choice(512, 300 + seed // 3, replace=False))
        x[rows] *= -1
        expected = x[rows].astype(np.float64) @ weights["w"] @ weights["u"]
        np.testing.assert_allclose(run(x)[0], expected, rtol=1e-3, atol=1e-2 * width**0.5)
    # 512 rows before the choice; 300 rows three times after it. What is compiled for 301 rows is for any other number too.
    assert len(compiled) == 2, compiled


def test_outputs_are_a_tuple_with_names() -> None:
    made = ng.compile(load(_gemm()), target="numpy")(np.ones((2, 3), np.float32))
    y, total = made
    assert isinstance(made, tuple) and len(made) == 2 and made[-1] is total
    np.testing.assert_array_equal(made["y"], y)
    assert repr(made) == "Outputs(y, total)"
    with pytest.raises(ng.UserError, match="there is no output 'totl'"):
        _ = made["totl"]


def test_calls_after_the_first_look_at_what_is_given_again() -> None:
    a = helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"])
    b = helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "g", [a, b], [y])
    run = ng.compile(load(helper.make_model(graph)), target="cpu")
    three = np.arange(3, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(run(three, three + 1)[0], [-1, -1, -1])
    np.testing.assert_array_equal(run(three.astype(np.float64), three)[0], [0, 0, 0])
    np.testing.assert_array_equal(run([1, 2, 3], three)[0], [1, 1, 1])
    np.testing.assert_array_equal(run(b=three, a=three + 1)["y"], [1, 1, 1])
    np.testing.assert_array_equal(run(three[::-1], three)[0], [2, 0, -2])
    np.testing.assert_array_equal(run(np.ones(5, np.float32), np.ones(5, np.float32))[0], np.zeros(5))
    np.testing.assert_array_equal(run(three, three)[0], [0, 0, 0])
    with pytest.raises(ng.UserError, match="shape"):
        run(three, np.ones(5, np.float32))
    with pytest.raises(ng.UserError, match="2 inputs"):
        run(three)
