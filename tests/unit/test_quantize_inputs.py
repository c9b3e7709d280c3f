# SPDX-License-Identifier: Apache-2.0
"""Quantization of what cannot be quantised: data, models and command lines that are wrong, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from quantized_networks import Net, convolutions, images, run, snr  # noqa: E402

from ngmlir.frontends.onnx import load, quantize  # noqa: E402
from ngmlir.support.diagnostics import UserError  # noqa: E402
from ngmlir.tools import umbrella  # noqa: E402


def product(rows: Any = "n", depth: int = 8) -> Any:
    net = Net()
    return net.model([rows, depth], net.add("MatMul", "x", net.normal(depth, 4)))


def two_inputs() -> Any:
    net = Net()
    y = net.add("MatMul", net.add("Mul", "x", "mask"), net.normal(8, 4))
    made = net.model(["n", 8], y)
    made.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["n", 8]))
    return made


def said(model: Any, data: Any, **settings: Any) -> str:
    with pytest.raises(UserError) as error:
        quantize(model, data, **settings)
    return str(error.value)


X = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
BAD_DATA: list[tuple[Any, str]] = [
    (None, "needs calibration data"),
    ([], "holds no samples"),
    (X[:0], "holds no samples"),
    ({}, "no values for the input 'x'"),
    ({"y": X}, "there is no input 'y'"),
    ({"x": X, "other": X}, "there is no input 'other'"),
    ({"x": X[:, :5]}, "has the shape [n, 8], not [4, 5]"),
    ({"x": X[0]}, "has the shape [n, 8], not [8]"),
    ({"x": X.astype(np.complex64)}, "takes float32, not complex64"),
    ({"x": np.array([["a"] * 8])}, "takes float32"),
    ({"x": np.where(X > 2, np.nan, X)}, "for 'x' hold NaN or infinities"),
    ([{"x": X}, {"x": X * np.inf}], "batch 1 of the calibration data: the values for 'x' hold NaN"),
    (7, "calibration data is no int"),
]


@pytest.mark.parametrize(("data", "message"), BAD_DATA, ids=[m for _, m in BAD_DATA])
def test_bad_data_is_refused(data: Any, message: str) -> None:
    assert message in said(product(), data)


def test_data_of_several_inputs_is_named() -> None:
    model, mask = two_inputs(), np.ones((20, 8), np.float32)
    assert "takes 2 inputs" in said(model, X)
    assert "no values for the input 'mask'" in said(model, {"x": X})
    assert "hint: name them: x, mask" in said(model, X)
    assert "[n, 8]" in said(model, {"x": X, "mask": mask[:3]})
    made = quantize(model, [{"x": X, "mask": mask}] * 2)
    assert made.report.calibrated + made.report.compared == 40


def test_data_is_taken_apart_by_what_the_model_states() -> None:
    for rows, held in (("n", 4), (None, 4), (4, 4), (10, 10), (1, 4), (20, 20)):
        report = quantize(product(rows), X).report
        assert (report.calibrated, report.compared) == (20 - held or 20, held), rows
    assert "has the shape [3, 8], not [20, 8]" in said(product(3), X)
    assert "the samples are those of one call" in "".join(quantize(product(20), X).report.notes)


def test_bad_models_are_refused() -> None:
    made = quantize(product(), X)
    assert "node 'x_quantize' (QuantizeLinear): the model is quantised already" in said(made.model, X)
    net = Net()
    assert "nothing to quantize" in said(net.model(["n", 8], net.add("Relu", "x")), X)
    net = Net()
    w = np.ones((8, 4), np.float32)
    w[3, 2] = np.nan
    bad = net.model(["n", 8], net.add("MatMul", "x", net.hold(w)))
    for mode in ("static", "dynamic", "weights"):
        text = said(bad, X, mode=mode)
        assert "node 'MatMul_0' (MatMul): its weight 'w0' holds NaN or infinities" in text
        assert "hint: --keep MatMul_0" in text
    net = Net()
    net.normal(8, 4)
    none = net.model([], net.add("ReduceSum", "w0"))
    del none.graph.input[:]
    assert "takes no inputs" in said(none, X)
    assert "holds no ONNX model" in said(made.model.SerializeToString()[:99], X)


def test_tensors_between_that_are_not_finite_are_named() -> None:
    net = Net()
    y = net.add("MatMul", net.add("Log", "x"), net.normal(8, 4))
    text = said(net.model(["n", 8], y), np.abs(X) * (np.arange(20) != 5)[:, None])
    assert "the tensor 'log0' holds NaN or infinities for one of the samples 4 to 7" in text


def test_settings_are_checked() -> None:
    for settings, message in (
        ({"mode": "statik"}, "did you mean static?"),
        ({"method": "entropy"}, "methods are minmax, percentile"),
        ({"bits": 4}, "--mode weights --bits 4"),
        ({"bits": 2, "mode": "weights"}, "4 or 8 bits, not 2"),
        ({"bits": 4, "mode": "weights", "block": 48}, "not 48"),
        ({"random": -1}, "is -1"),
        ({"keep": ["MatMul_1"]}, "did you mean MatMul_0?"),
    ):
        assert message in said(product(), X, **settings)


def test_nodes_are_kept_by_name_or_pattern() -> None:
    model, x = convolutions(), images()
    names = [layer.name for layer in quantize(model, x).report.layers]
    made = quantize(model, x, keep=["Conv_*"])
    assert [layer.name for layer in made.report.layers] == ["Gemm_12"]
    assert made.report.left == [f"{name} (Conv): kept" for name in names if name.startswith("Conv")]
    assert "hint: keep fewer nodes" in said(model, x, keep=["*"])
    # A layer that is kept is as good as in f32.
    worst = quantize(model, x).report.worst(1)[0]
    kept = quantize(model, x, keep=[worst.name])
    assert worst.name not in [layer.name for layer in kept.report.layers]
    assert snr(run(model, x), run(kept.model, x)) > 25


def test_a_model_that_was_loaded_is_quantised_too() -> None:
    again = quantize(load(product()), X)
    assert again.model == quantize(product(), X).model


def test_the_report_is_text_and_data() -> None:
    report = quantize(product(), X, timed=True).report
    text = str(report)
    assert "layers: 1 in 8 bits" in text and "--keep MatMul_0" in text and "times as fast" in text
    data = json.loads(report.json())
    assert data["outputs"][0]["name"] == "matmul0" and data["outputs"][0]["top1"] >= 0.5
    assert data["bytes_after"] == report.bytes_after and data["seconds_before"] > 0
    plain = quantize(product(), mode="weights").report
    assert plain.outputs == [] and plain.layers[0].snr is None
    assert "accuracy" not in str(plain)
    same = quantize(product(), X * 0, mode="weights").report
    assert json.loads(same.json())["outputs"][0]["snr"] is None


# ---- the command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(product(), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=X)
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def command(capfd: Any, *words: str | Path) -> tuple[int, str, str]:
    code = umbrella.main(["quantize", *map(str, words)])
    out, errors = capfd.readouterr()
    return code, out, errors


def test_the_command_writes_a_model_and_a_report(folder: Path, capfd: Any) -> None:
    for data in ("data.npz", "x.npy"):
        code, out, errors = command(
            capfd, folder / "net.onnx", "--calibration", folder / data, "--report", folder / "r.json"
        )
        assert code == 0 and "size:" in out and "same top-1" in out
        assert f"wrote {folder / 'net-static.onnx'} and {folder / 'r.json'}" in errors
        assert json.loads((folder / "r.json").read_text())["mode"] == "static"
    by_name = command(
        capfd, folder / "net.onnx", "--calibration", f"x={folder / 'x.npy'}", "-o", folder / "b.onnx"
    )
    assert by_name[0] == 0
    assert (folder / "b.onnx").read_bytes() == (folder / "net-static.onnx").read_bytes()


def test_a_folder_holds_samples(folder: Path, capfd: Any) -> None:
    samples = folder / "samples"
    samples.mkdir()
    assert "holds no .npz" in command(capfd, folder / "net.onnx", "--calibration", samples)[2]
    for i in range(3):
        np.savez(samples / f"{i}.npz", x=X[i : i + 1])
    np.save(samples / "3.npy", X[3:5])
    code, out, _ = command(capfd, folder / "net.onnx", "--calibration", samples)
    assert code == 0 and "calibrated with 4 samples, compared over 1" in out


def test_the_command_writes_nothing_where_something_is_wrong(folder: Path, capfd: Any) -> None:
    before = sorted(folder.iterdir())
    (folder / "cut.npz").write_bytes((folder / "data.npz").read_bytes()[:200])
    np.savez(folder / "objects.npz", x=np.array([{}], object))
    net = (folder / "net.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(net[:-40])
    expected = sorted([*before, folder / "cut.npz", folder / "objects.npz", folder / "cut.onnx"])
    data = ("--calibration", folder / "data.npz")
    for words, message in (
        ((folder / "net.onnx",), "needs calibration data"),
        ((folder / "no.onnx", *data), "cannot be read"),
        ((folder / "cut.onnx", *data), "holds no ONNX model"),
        ((folder / "data.npz", *data), "is no .onnx file"),
        ((folder / "net.onnx", "--calibration", folder / "cut.npz"), "holds no arrays"),
        ((folder / "net.onnx", "--calibration", folder / "objects.npz"), "Python objects are not read"),
        ((folder / "net.onnx", "--calibration", folder / "no.npz"), "cannot read"),
        ((folder / "net.onnx", *data, "--random", "3"), "both given"),
        ((folder / "net.onnx", *data, "-o", folder / "net.onnx"), "would replace the model"),
        ((folder / "net.onnx", *data, "--mode", "4bit"), "there is no mode '4bit'"),
        ((folder / "net.onnx", *data, "-o", folder / "no" / "a.onnx"), "cannot open output file"),
    ):
        code, out, errors = command(capfd, *words)
        assert (code, out) == (1, "") and message in errors, words
        assert "tools/quantizing.py" not in errors
        assert sorted(folder.iterdir()) == expected
    assert (folder / "net.onnx").read_bytes() == net


def test_random_samples_come_with_a_warning(folder: Path, capfd: Any) -> None:
    code, out, _ = command(capfd, folder / "net.onnx", "--random", "4")
    assert code == 0 and "note: the samples were random" in out
