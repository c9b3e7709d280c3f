# SPDX-License-Identifier: Apache-2.0
"""The demo's network: it learns, and every target takes the same steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import compiler
from ngmlir.runtime import ptxas

pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install 'ngmlir[demo]'")
from ngmlir.tools import demo, digits


@pytest.fixture(scope="module")
def data() -> digits.Digits:
    return digits.load()


def train(target: str, data: digits.Digits, steps: int) -> tuple[list[float], list[np.ndarray]]:
    """Losses of the first steps, and the parameters after them."""
    network = digits.Network(digits.initial_weights())
    returns, images, labels = network.training()
    with ng.transformers.make_transformer(target) as transformer:
        step = transformer.computation(returns, images, labels)
        stream = digits.batches(data, 1 + steps * digits.BATCH // len(data.train_labels))
        losses = [float(step(*next(stream))[0]) for _ in range(steps)]
        return losses, [transformer.get_tensor_view_value(p) for p in network.parameters]


def test_training_reaches_the_demos_accuracy(data: digits.Digits) -> None:
    network = digits.Network(digits.initial_weights())
    returns, images, labels = network.training()
    predicted, test_images = network.prediction(len(data.test_labels))
    with ng.transformers.make_transformer("cpu") as transformer:
        step = transformer.computation(returns, images, labels)
        predict = transformer.computation(predicted, test_images)
        for batch in digits.batches(data, 60):
            step(*batch)
        assert np.mean(predict(data.test_images) == data.test_labels) >= 0.97


def test_cpu_takes_the_steps_of_the_reference_and_of_numpy(data: digits.Digits) -> None:
    losses, parameters = train("cpu", data, 5)
    reference, expected = train("numpy", data, 5)
    np.testing.assert_allclose(losses, reference, rtol=1e-5)
    for ours, theirs in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    weights = digits.initial_weights()
    step, stream = digits.numpy_step(weights), digits.batches(data, 1)
    np.testing.assert_allclose([step(*next(stream)) for _ in range(5)], losses, rtol=1e-4)
    for ours, theirs in zip(parameters, weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_simulated_gpu_takes_the_first_20_steps_of_the_cpu(data: digits.Digits) -> None:
    losses, parameters = train("cpu", data, 20)
    simulated, values = train("cuda-sim", data, 20)
    np.testing.assert_allclose(simulated, losses, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(values, parameters, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not ptxas.available(), reason="ptxas is not installed: pip install nvidia-cuda-nvcc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_the_kernels_of_a_step_assemble_without_spills(architecture: str) -> None:
    returns, images, labels = digits.Network(digits.initial_weights()).training()
    artifact = compiler.compile_artifact(ng.lift(returns, [images, labels]).module, architecture)
    report = ptxas.assemble(artifact.code.decode(), architecture)
    assert set(report.kernels) == {launch.kernel for launch in artifact.entry().launches}
    assert not report.warnings
    for kernel in report.kernels.values():
        assert kernel.spill_stores == kernel.spill_loads == kernel.stack_bytes == 0


def test_the_demo_is_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--epochs=1", "--target=cpu", "--to", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert any("test accuracy" in line for line in lines) and any("digits.py" in line for line in lines)
    assert {"1-named.ngir", "5-planned.ngir", "7-code.s", "report.html"} <= {
        f.name for f in tmp_path.iterdir()
    }
