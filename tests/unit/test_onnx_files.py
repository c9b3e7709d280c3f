# SPDX-License-Identifier: Apache-2.0
"""Weights stay in the file of their model: read where they lie, in memory while somebody reads them, refused where the file
says what cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.tensors import array_of  # noqa: E402
from ngmlir.frontends.onnx.wire import parted  # noqa: E402
from ngmlir.support.mapping import mapping_of  # noqa: E402

RNG = np.random.default_rng(5)
W = RNG.standard_normal((96, 80)).astype(np.float32)
T = RNG.standard_normal((200, 96)).astype(np.float32)
X = RNG.standard_normal((5, 96)).astype(np.float32)
I = RNG.integers(0, 200, 5)


def model(**weights: Any) -> Any:
    """y = (x + t[i]) @ w; names of other weights are of no use to anyone."""
    held = {"w": W, "t": T, **weights}
    nodes = [
        helper.make_node("Gather", ["t", "i"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 96]),
        helper.make_tensor_value_info("i", TensorProto.INT64, ["n"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 80])]
    tensors = [numpy_helper.from_array(a, name) for name, a in held.items()]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors), opset_imports=[helper.make_opsetid("", 20)]
    )


def whole(data: bytes, weights: dict[int, memoryview]) -> ModelProto:
    """A model with the elements put back that it was parted from."""
    made = ModelProto.FromString(data)
    for number, held in weights.items():
        made.graph.initializer[number].raw_data = held.tobytes()
    return made


OTHERS = {
    "empty": np.zeros((0, 4), np.float32),
    "one": np.float64(1.5).reshape(()),
    "flags": RNG.integers(0, 2, 9000).astype(np.bool_),
    "short": RNG.standard_normal(3000).astype(np.float16),
    "brain": RNG.standard_normal(3000).astype(ml_dtypes.bfloat16),
    "double": RNG.standard_normal((3, 700)),
    "long": RNG.integers(-9, 9, 2000),
}


def test_a_model_and_its_weights_are_what_it_was() -> None:
    made = model(**OTHERS)
    for order in range(2):
        data = made.SerializeToString()
        found = parted(memoryview(data))
        assert found is not None
        rest, weights = found
        assert len(weights) == 7 - order and len(rest) < 4000
        assert whole(rest, weights) == made
        del made.graph.initializer[order]


@pytest.mark.parametrize("shift", range(5))
def test_elements_of_all_kinds_wherever_they_lie(tmp_path: Path, shift: int) -> None:
    made = model(**OTHERS)
    made.producer_name = "x" * shift
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    read = load(tmp_path / "m.onnx")
    for name, held in {"w": W, "t": T, **OTHERS}.items():
        found = read.array(name)
        assert found.dtype == held.dtype and found.shape == held.shape
        assert found.tobytes() == held.tobytes()
        in_file = held.nbytes >= 4096 and held.dtype != np.bool_
        assert (mapping_of(found) is not None) == in_file
    for target in ("numpy", "cpu"):
        (y,) = ng.compile(read, target=target)(X, I)
        np.testing.assert_allclose(y, (X + T[I]) @ W, rtol=1e-4, atol=1e-4)


def field(number: int, data: bytes) -> bytes:
    size, head = len(data), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(head) + bytes([size]) + data


def test_forms_that_no_exporter_writes() -> None:
    """Two graphs, which are one; elements twice, of which the last hold; fields that nobody knows."""
    made = model()
    graph, (w, t) = made.graph, made.graph.initializer
    del made.graph.initializer[:]
    raw = w.raw_data
    w.ClearField("raw_data")
    twice = field(9, b"\1" * 5000) + w.SerializeToString() + field(9, raw) + b"\xf8\x07\x96\x01"
    first = field(7, graph.SerializeToString() + field(5, twice))
    made.ClearField("graph")
    data = made.SerializeToString() + first + field(7, field(5, t.SerializeToString()))
    found = parted(memoryview(data))
    assert found is not None and sorted(found[1]) == [0, 1]
    assert whole(*found) == ModelProto.FromString(data)
    (y,) = ng.compile(load(data), target="numpy")(X, I)
    np.testing.assert_allclose(y, (X + T[I]) @ W, rtol=1e-4, atol=1e-4)


def test_a_name_that_stands_twice_is_the_later_tensor() -> None:
    made = model()
    made.graph.initializer.append(made.graph.initializer[0])
    made.graph.initializer[0].dims[:] = [2, 2]
    made.graph.initializer[0].raw_data = bytes(16)
    for each in (made, made.SerializeToString()):
        (y,) = ng.compile(load(each), target="numpy")(X, I)
        np.testing.assert_allclose(y, (X + T[I]) @ W, rtol=1e-4, atol=1e-4)
    made.graph.initializer[2].dims[:] = [4]
    made.graph.initializer[2].raw_data = bytes(16)
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(W, "w"))
    for each in (made, made.SerializeToString()):
        assert load(each).array("w").shape == (4,)


def test_too_many_fields_are_left_to_others() -> None:
    data = model().SerializeToString()
    assert parted(memoryview(data + b"\x08\1" * (1 << 19))) is None
    assert load(data + b"\x08\1" * (1 << 19)).array("w").tobytes() == W.tobytes()
    assert parted(memoryview(data + b"\x0b\x0c")) is None  # a group


def test_damaged_files_say_what_the_whole_would(tmp_path: Path) -> None:
    """Bits flipped and ends cut off around the weights: the same tensors, or no model, as when all is parsed."""
    data = model().SerializeToString()
    inside = {
        at for a in (W, T) for at in range(data.find(a.tobytes()) + 8, data.find(a.tobytes()) + a.nbytes - 8)
    }
    spots = [at for at in range(len(data)) if at not in inside]
    rng = np.random.default_rng(2)
    refused = 0
    for i in range(400):
        damaged = bytearray(data)
        if i % 4 == 0:
            damaged = damaged[: int(rng.integers(len(data)))]
        else:
            for at in rng.choice(spots, 2):
                damaged[at] ^= 1 << int(rng.integers(8))
        (tmp_path / "m.onnx").write_bytes(damaged)
        try:
            read = load(tmp_path / "m.onnx")
            found = {name: read.array(name).tobytes() for name in read.initializers}
        except ng.NgmlirError as error:
            assert not isinstance(error, ng.Bug), error
            refused += 1
            continue
        parsed = ModelProto.FromString(bytes(damaged))
        assert found == {t.name: array_of(t, None).tobytes() for t in parsed.graph.initializer}
    assert 100 < refused < 390


@pytest.mark.parametrize("beside", [False, True])
def test_a_file_that_was_cut_off(tmp_path: Path, beside: bool) -> None:
    """To read on would end the process, and nobody would know why."""
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=beside, location="w.bin")
    read = load(tmp_path / "m.onnx")
    run = ng.compile(read, target="cpu")
    expected = run(X, I)[0]
    file = tmp_path / ("w.bin" if beside else "m.onnx")
    other = tmp_path / "other"
    other.write_bytes(b"")
    kept = file.read_bytes()
    os.truncate(file, 1000)
    for shapes in ((X, I), (X[:2], I[:2])):
        with pytest.raises(ng.UserError, match="shorter than it was"):
            run(*shapes)
    file.write_bytes(kept)
    assert np.array_equal(run(X, I)[0], expected)
    os.replace(other, file)  # a new file of that name is nobody's business
    assert np.array_equal(run(X, I)[0], expected)
    np.testing.assert_allclose(run(X[:2], I[:2])[0], expected[:2], rtol=1e-4, atol=1e-4)


BIG = """
import sys, numpy as np
import ngmlir as ng
from ngmlir.frontends.onnx import load

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key + ":"))

model = load(sys.argv[1])
ng.compile(np_add := ng.constant(np.ones(4, np.float32)) + 1)()
before = status("VmRSS")
run = ng.compile(model)
y = run(np.ones((4, 1024), np.float32))[0]
print((status("VmHWM") - before) // 1024, float(y[0, 0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
@pytest.mark.parametrize("shift", [0, 1])
def test_weights_are_in_memory_once(tmp_path: Path, shift: int) -> None:
    """64 MB of weights in 16 products: packed where they are read; nothing else of that size is ever there."""
    eye = np.eye(1024, dtype=np.float32)
    weights = [numpy_helper.from_array(eye * (i + 2), f"w{i}") for i in range(16)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(16)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [4, 1024])],
        [helper.make_tensor_value_info("x16", TensorProto.FLOAT, [4, 1024])],
        weights,
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="x" * (8 + shift)
    )
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    answer = subprocess.run(
        [sys.executable, "-c", BIG, str(tmp_path / "m.onnx")], capture_output=True, text=True, check=True
    )
    peak, value = answer.stdout.split()
    assert float(value) == pytest.approx(np.prod(np.arange(2, 18, dtype=np.float64)), rel=1e-5)
    assert int(peak) < 64 + 48


@pytest.mark.parametrize("how", ["bytes", "path", "beside", "proto"])
@pytest.mark.parametrize("kind", ["INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2"])
def test_elements_of_fewer_bits_wherever_they_lie(tmp_path: Path, kind: str, how: str) -> None:
    """Few and many of them: from some size on, weights are left where they lie."""
    if not hasattr(TensorProto, kind):
        pytest.skip(f"this onnx has no {kind}")
    number = getattr(TensorProto, kind)
    width = 2 if kind.endswith("2") else 4
    for size in (3, 64 * 64 + 1, 513 * 511):
        codes = np.random.default_rng(size).integers(0, 1 << width, size).astype(np.uint8)
        each = 8 // width
        filled = np.concatenate([codes, np.zeros(-size % each, np.uint8)]).reshape(-1, each)
        packed = (filled << (np.arange(each, dtype=np.uint8) * width)).sum(1).astype(np.uint8)
        tensor = TensorProto(name="w", data_type=number, dims=[size], raw_data=packed.tobytes())
        graph = helper.make_graph(
            [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)],
            "g",
            [],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])],
            [tensor],
        )
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 25 if "2" in kind[-1:] else 21)]
        )
        path = tmp_path / f"{size}.onnx"
        onnx.save(made, path, save_as_external_data=how == "beside", size_threshold=0)
        source = {"bytes": made.SerializeToString(), "proto": made}.get(how, path)
        found = ng.compile(load(source), target="numpy")()[0]
        whole_numbers = codes.astype(np.int64)
        if kind.startswith("INT"):
            whole_numbers -= (whole_numbers >= 1 << (width - 1)) << width
        wanted = whole_numbers.astype(np.float32)
        if kind.startswith("FLOAT"):
            wanted = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)[
                codes
            ]
        assert np.array_equal(found, wanted)


def test_nodes_out_of_order_are_sorted() -> None:
    """Also in graphs of nodes, where what stands around is read; what stands in order stays as it is."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["p", "late"], ["q"]), helper.make_node("Neg", ["x"], ["p"])],
        "then",
        [],
        [helper.make_tensor_value_info("q", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["r"])],
        "else",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        helper.make_node("Mul", ["x", "early"], ["late"]),
        helper.make_node("Exp", ["x"], ["early"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    before = made.SerializeToString()
    x = np.array([1, 2, 3], np.float32)
    with pytest.warns(UserWarning, match="the nodes of the model stand out of order"):
        run = ng.compile(load(made), target="numpy")
    assert made.SerializeToString() == before
    np.testing.assert_allclose(run(x, np.array(True))[0], x * np.exp(x) - x, rtol=1e-6)
    assert np.array_equal(run(x, np.array(False))[0], x)
    made.graph.node[2].input[0] = "y"
    with pytest.raises(ng.UserError, match=r"node '\w+' \(\w+\) waits for what is made of its own outputs"):
        load(made)


def test_lengths_of_minus_one_are_not_known() -> None:
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, 3])
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [port],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [-1, 3])],
    )
    run = ng.compile(
        load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])), target="numpy"
    )
    for n in (2, 5):
        assert run(np.ones((n, 3), np.float32))[0].shape == (n, 3)
    with pytest.raises(ng.UserError, match=r"has the shape \[\?, 3\], not"):
        run(np.ones((2, 4), np.float32))
