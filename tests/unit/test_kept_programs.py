# SPDX-License-Identifier: Apache-2.0
"""Programs of models that are found on disk: the right ones, or none. What was read before is not read again; whatever changed is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import ngmlir.frontends.onnx.parsing as parsing  # noqa: E402
from ngmlir.compiler import compile_artifact  # noqa: E402
from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.runtime.cache import default_cache  # noqa: E402
from ngmlir.tools.models import Function  # noqa: E402
from ngmlir.tools.streams import Streams  # noqa: E402

RNG = np.random.default_rng(3)
W = RNG.standard_normal((600, 512)).astype(np.float32)  # more than a MiB: worth to be kept
T = RNG.standard_normal((50, 600)).astype(np.float32)
X = RNG.standard_normal((5, 600)).astype(np.float32)
I = np.array([3, 0, 49, 7, 7])

Cold = Callable[[], int]


def model(w: np.ndarray = W, n: Any = 5, shift: int = 0, op: str = "Add") -> Any:
    """y = (x + t[i]) @ w"""
    nodes = [
        helper.make_node("Gather", ["t", "i"], ["rows"]),
        helper.make_node(op, ["x", "rows"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, 600]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [n]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, w.shape[1]])]
    tensors = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(T, "t")]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors),
        opset_imports=[helper.make_opsetid("", 20)],
        producer_name="p" * shift,
    )


def written(path: Path, made: Any) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def run(path: Path, x: np.ndarray = X, i: np.ndarray = I, **options: Any) -> np.ndarray:
    return ng.compile(load(path), **options)(x, i)[0]


def close(found: np.ndarray, w: np.ndarray = W, x: np.ndarray = X, i: np.ndarray = I) -> None:
    np.testing.assert_allclose(found, (x + T[i]) @ w, rtol=1e-4, atol=1e-3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    found = tmp_path / "cache"
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(found))
    return found


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Cold:
    """How many models were read by the package onnx since it was last asked."""
    before, count = parsing.parsed, [0]

    def parsed(of: Any) -> Any:
        count[0] += 1
        return before(of)

    def asked() -> int:
        found, count[0] = count[0], 0
        return found

    monkeypatch.setattr(parsing, "parsed", parsed)
    return asked


@pytest.mark.parametrize("shift", range(4))
def test_what_was_compiled_is_found(tmp_path: Path, folder: Path, cold: Cold, shift: int) -> None:
    """Wherever in its file the tensors lie."""
    path = written(tmp_path / "m.onnx", model(shift=shift))
    first = run(path)
    close(first)
    assert cold() == 1 and len(list(folder.glob("*.weights"))) == 1
    made = ng.compile(load(path))
    for _ in range(2):
        assert np.array_equal(made(X, I)[0], first)
    assert np.array_equal(made(x=X, i=I)["y"], first)
    other = tmp_path / "other" / "name.onnx"
    other.parent.mkdir()
    assert np.array_equal(run(Path(shutil.copy(path, other))), first)
    assert np.array_equal(run(path.read_bytes()), first)  # pyright: ignore[reportArgumentType]
    assert cold() == 0
    with pytest.raises(ng.UserError, match="the model takes 2 inputs"):
        made(X)
    with pytest.raises(ng.UserError, match=r"the input 'x' has the shape \[5, 600\]"):
        made(X[:2], I[:2])


def test_weights_that_changed_in_place_are_other_weights(tmp_path: Path, folder: Path, cold: Cold) -> None:
    """With the same size and time, and while the model that was read before is there."""
    path = written(tmp_path / "m.onnx", model())
    status = path.stat()
    held = ng.compile(load(path))
    held(X, I)
    for w in (W + 1, W):
        with path.open("r+b") as stream:
            stream.write(model(w).SerializeToString())
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_mtime_ns == status.st_mtime_ns and path.stat().st_size == status.st_size
        close(run(path), w)
    one = W.copy()
    one[-1, -1] = np.nextafter(one[-1, -1], np.float32(9))  # one bit of all
    cold()
    again = run(written(path, model(one)))
    assert cold() == 1
    assert np.array_equal(again[:, :-1], held(X, I)[0][:, :-1])


def test_programs_that_read_the_same_weights_keep_one_file(tmp_path: Path, folder: Path) -> None:
    for n in (5, 6):
        path = written(tmp_path / f"{n}.onnx", model(n=n))
        x, i = RNG.standard_normal((n, 600)).astype(np.float32), np.arange(n)
        close(run(path, x, i), x=x, i=i)
    assert len([*folder.glob("*.weights")]) == 1


def test_a_file_that_is_mapped_for_writing(tmp_path: Path, folder: Path) -> None:
    """No time tells that such a page was written to."""
    path = written(tmp_path / "m.onnx", model())
    data = np.memmap(path, np.uint8, "r+")
    at = path.read_bytes().find(W.tobytes())
    for scale in (1, 2, 3, 1):
        data[at : at + W.nbytes] = np.frombuffer((W * scale).tobytes(), np.uint8)
        close(run(path), W * scale)


def test_graphs_that_differ(tmp_path: Path, folder: Path) -> None:
    close(run(written(tmp_path / "m.onnx", model())))
    found = run(written(tmp_path / "m.onnx", model(op="Sub")))
    np.testing.assert_allclose(found, (X - T[I]) @ W, rtol=1e-4, atol=1e-3)


def test_files_beside_the_model(tmp_path: Path, folder: Path, cold: Cold) -> None:
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    first = run(tmp_path / "m.onnx")
    assert np.array_equal(run(tmp_path / "m.onnx"), first) and cold() == 1
    data = bytearray((tmp_path / "w.bin").read_bytes())
    at = data.find(W.tobytes())
    data[at : at + W.nbytes] = (W * 2).tobytes()
    (tmp_path / "w.bin").write_bytes(data)
    close(run(tmp_path / "m.onnx"), W * 2)
    # What must not be read is not read of a model that is known either.
    os.rename(tmp_path / "w.bin", tmp_path / "elsewhere.bin")
    with pytest.raises(ng.UserError, match="names the file"):
        run(tmp_path / "m.onnx")
    os.symlink(tmp_path / "elsewhere.bin", tmp_path / "w.bin")
    with pytest.raises(ng.UserError, match="reached by a link"):
        run(tmp_path / "m.onnx")
    os.unlink(tmp_path / "w.bin")
    (tmp_path / "w.bin").write_bytes(data[:-1])
    with pytest.raises(ng.UserError, match="ends at byte"):
        run(tmp_path / "m.onnx")


@pytest.mark.parametrize("ending", ["entry", "weights"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "foreign", "longer"])
def test_damaged_files_are_no_programs(
    tmp_path: Path, folder: Path, cold: Cold, ending: str, harm: str
) -> None:
    path = written(tmp_path / "m.onnx", model())
    first = run(path)
    others = written(tmp_path / "o.onnx", model(W * 2))
    run(others)
    files = sorted(folder.glob(f"*.{ending}"))
    contents = {file: file.read_bytes() for file in files}
    for file, data in contents.items():
        if harm == "flip":
            file.write_bytes(
                data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
            )
        elif harm == "cut":
            file.write_bytes(data[:-1])
        elif harm == "empty":
            file.write_bytes(b"")
        elif harm == "longer":
            file.write_bytes(data + b"\0" * 64)
        elif (
            ending == "weights"
        ):  # an entry says what it is about; the weights of another model are right in all but what they hold
            file.write_bytes(next(d for f, d in contents.items() if f != file))
    cold()
    for _ in range(2):
        assert np.array_equal(run(path), first)
        close(run(others), W * 2)
    assert cold() == (2 if ending == "entry" and harm != "foreign" else 0)


def test_weights_that_went_come_back(tmp_path: Path, folder: Path, cold: Cold) -> None:
    path = written(tmp_path / "m.onnx", model())
    first = run(path)
    (weights,) = folder.glob("*.weights")
    weights.unlink()
    assert np.array_equal(run(path), first)
    assert weights.exists() and cold() == 1


def test_weights_have_a_limit(
    tmp_path: Path, folder: Path, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [written(tmp_path / f"{i}.onnx", model(W * i)) for i in range(1, 4)]
    monkeypatch.setenv("NGMLIR_CACHE_WEIGHTS", "0")
    close(run(paths[0]))
    assert not list(folder.glob("*.weights"))
    monkeypatch.setenv("NGMLIR_CACHE_WEIGHTS", "3")
    for i, path in enumerate(paths, 1):
        close(run(path), W * i)
        close(run(path), W * i)
    assert len(list(folder.glob("*.weights"))) == 2
    monkeypatch.setenv("NGMLIR_CACHE_WEIGHTS", "many")
    with pytest.raises(ng.UserError, match="NGMLIR_CACHE_WEIGHTS is 'many'"):
        run(paths[0])


def test_weights_that_are_used_may_go(tmp_path: Path, folder: Path) -> None:
    path = written(tmp_path / "m.onnx", model())
    first = run(path)
    made = ng.compile(load(path))
    for file in folder.iterdir():
        file.unlink()
    assert np.array_equal(made(X, I)[0], first)


def test_options_and_sizes(tmp_path: Path, folder: Path, cold: Cold, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "m.onnx", model())
    first = run(path, threads=1)
    assert np.array_equal(run(path, threads=2), first) and cold() == 1
    close(run(path, target="numpy"))
    assert cold() == 1
    monkeypatch.setenv("NGMLIR_CPU", "x86-64-v2")
    try:
        close(run(path))
        assert cold() == 1
    except ng.UserError:  # another kind of machine
        pass
    monkeypatch.delenv("NGMLIR_CPU")
    profiled = ng.compile(load(path), profile=True)
    assert np.array_equal(profiled(X, I)[0], first)
    assert profiled.profile is not None and profiled.profile.to_json()["kernels"]
    monkeypatch.setenv("NGMLIR_CHECK", "1")
    close(run(path))
    monkeypatch.delenv("NGMLIR_CHECK")
    cold()
    monkeypatch.setenv("NGMLIR_CACHE", "0")
    close(run(path))
    assert cold() == 1


def test_lengths_that_the_model_leaves_open(tmp_path: Path, folder: Path, cold: Cold) -> None:
    path = written(tmp_path / "m.onnx", model(n="n"))
    for _ in range(2):
        for n in (5, 3, 1):
            close(run(path, X[:n], I[:n]), x=X[:n], i=I[:n])
        made = ng.compile(load(path))
        for n in (2, 5, 4, 2):
            close(made(X[:n], I[:n])[0], x=X[:n], i=I[:n])


def _columns(tmp_path: Path) -> Path:
    """y = softmax(x, axis 0) of any number of columns and rows: a program for each shape."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    return written(tmp_path / "c.onnx", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def test_a_program_for_each_shape(tmp_path: Path, folder: Path, cold: Cold) -> None:
    path = _columns(tmp_path)
    first = ng.compile(load(path))
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 3), (1, 1), (12, 1))]
    expected = [first(a)[0] for a in arrays]
    cold()
    again = ng.compile(load(path))
    for a, e in zip(arrays, expected, strict=True):
        (found,) = again(a)
        assert found.shape == a.shape and np.array_equal(found, e)


def test_elements_that_decide(tmp_path: Path, folder: Path) -> None:
    """Shapes that follow from elements: no program is right for others, also when it was found for zeros."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Squeeze", ["at", "zeros"], ["places"]),
        helper.make_node("Gather", ["x", "places"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([0]), "zeros")],
    )
    path = written(tmp_path / "m.onnx", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    for x in ([1, 0, 2, 0, 0, 3], [0, 0, 0, 0, 0, 7], [1, 0, 2, 0, 0, 3], [0, 4, 5, 0, 0, 3]):
        (found,) = ng.compile(load(path))(np.array(x, np.float32))
        assert found.tolist() == [v for v in x if v]


def test_folders_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "m.onnx", model())
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path / "file"))
    close(run(path))
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(shared))
    close(run(path))
    shared.chmod(0o777)  # others may have written what is there
    store = default_cache()
    assert store is not None
    (weights,) = shared.glob("*.weights")
    weights.write_bytes(bytes(weights.stat().st_size))
    close(run(path))
    shared.chmod(0o500)
    close(run(path))
    shared.chmod(0o700)


BOTH = """
import sys, numpy as np, ngmlir as ng
from ngmlir.frontends.onnx import load
x, i = np.load(sys.argv[2]), np.load(sys.argv[3])
np.save(sys.argv[4], ng.compile(load(sys.argv[1]))(x, i)[0])
print([name for name in ("onnx", "llvmlite", "google.protobuf") if name in sys.modules])
"""


def test_two_processes_at_once(tmp_path: Path, folder: Path) -> None:
    """Started together on an empty folder; a third needs neither the package onnx nor the compiler."""
    path = written(tmp_path / "m.onnx", model())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "i.npy", I)

    def start(n: int) -> Any:
        names = [path, tmp_path / "x.npy", tmp_path / "i.npy", tmp_path / f"{n}.npy"]
        return subprocess.Popen(
            [sys.executable, "-c", BOTH, *map(str, names)], stdout=subprocess.PIPE, text=True
        )

    for process in [start(0), start(1)]:
        assert process.wait() == 0
    last = start(2)
    assert last.communicate()[0] == "[]\n"
    close(np.load(tmp_path / "0.npy"))
    for n in (1, 2):
        assert np.array_equal(np.load(tmp_path / f"{n}.npy"), np.load(tmp_path / "0.npy"))


def test_an_empty_tensor_in_a_file_beside(tmp_path: Path, folder: Path, cold: Cold) -> None:
    made = model()
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 600), np.float32), "none"))
    made.graph.node[1].input[1] = "all"
    made.graph.node.insert(1, helper.make_node("Concat", ["rows", "none"], ["all"], axis=0))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    first = run(tmp_path / "m.onnx")
    close(first)
    assert np.array_equal(run(tmp_path / "m.onnx"), first) and cold() == 1


@pytest.mark.parametrize("when", ["compile_artifact", "load"])
def test_a_file_that_changes_meanwhile(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What is made of half of one and half of the other is no program of either."""
    import ngmlir.transformers.kept as kept

    path = written(tmp_path / "m.onnx", model())
    before = getattr(kept, when)

    def changed(*args: Any, **named: Any) -> Any:
        with path.open("r+b") as stream:
            stream.write(model(W * 2).SerializeToString())
        return before(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(kept, when, changed)
        run(path)
    assert not list(folder.glob("*.weights"))
    for scale in (2, 1, 2):
        close(run(written(path, model(W * scale))), W * scale)


def test_text_and_what_lies_beside_it(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `.ngir` file whose constants lie in a file beside it: another file, text or function is another program."""
    compiled: list[str] = []
    monkeypatch.setattr(
        "ngmlir.transformers.kept.compile_artifact",
        lambda module, target: compiled.append(target) or compile_artifact(module, target),
    )
    text = """module {{
  func.func @main(%x: tensor<5x600xf32>) -> tensor<5x512xf32> {{
    %w = ng.constant dense_resource<w> : tensor<600x512xf32>
    %y = ng.dot %x, %w contract [1] x [0] : (tensor<5x600xf32>, tensor<600x512xf32>) -> tensor<5x512xf32>
    %z = ng.{op} %y : tensor<5x512xf32>
    return %z : tensor<5x512xf32>
  }}
  func.func @twice(%x: tensor<5xf32>) -> tensor<5xf32> {{
    %y = ng.add %x, %x : tensor<5xf32>
    return %y : tensor<5xf32>
  }}
}}

{{-#
  external_resources: {{
    ngmlir: {{
      w: "w.bin@0+{size}"
    }}
  }}
#-}}
"""
    path = tmp_path / "m.ngir"

    def made(entry: str, x: np.ndarray) -> np.ndarray:
        return Function(str(path), entry, Streams(sys.stdin, sys.stdout, sys.stderr)).on("cpu")([x])[0]

    for w, op in ((W, "negative"), (W, "absolute"), (W + 1, "absolute")):
        (tmp_path / "w.bin").write_bytes(w.tobytes())
        path.write_text(text.format(op=op, size=w.nbytes))
        first, count = made("main", X), len(compiled)
        np.testing.assert_allclose(first, getattr(np, op)(X @ w), rtol=1e-4, atol=1e-3)
        assert np.array_equal(made("main", X), first) and len(compiled) == count
        np.testing.assert_array_equal(made("twice", X[:, 0]), 2 * X[:, 0])
    assert len(compiled) == 3
