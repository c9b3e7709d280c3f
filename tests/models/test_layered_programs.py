# SPDX-License-Identifier: Apache-2.0
"""Programs in the style of the original layers, of which only the import lines are ours, each run as a script in a short form."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.transformers as ngt

PROGRAMS = Path(__file__).parent / "layered"


@pytest.fixture(autouse=True)
def as_a_script(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of the programs comes first, and the transformer that they set is put back."""
    before = ngt.make_transformer().transformer_name
    monkeypatch.syspath_prepend(str(PROGRAMS))
    yield
    ngt.set_transformer_factory(ngt.make_transformer_factory(before))
    sys.modules.pop("data", None)


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str, backend: str = "cpu") -> dict[str, Any]:
    """What a program has defined when it ends; `python name.py -b BACKEND -r 0 ARGUMENTS`."""
    path = PROGRAMS / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), "-b", backend, "-r", "0", *arguments])
    return runpy.run_path(str(path), run_name="__main__")


def test_every_program_is_run() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'monkeypatch, "{path.stem}"' in text for path in PROGRAMS.glob("*.py") if path.stem != "data")


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_mlp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str) -> None:
    pytest.importorskip("sklearn")
    saved = str(tmp_path / "weights")
    short = ("-z", "64", "-t", "300", "--iter_interval", "100")
    first = run(monkeypatch, "mlp", *short, "--save_file", saved, backend=backend)
    assert len(first["costs"]) == 300 and first["misclassified"][-1] < 0.1
    again = run(
        monkeypatch,
        "mlp",
        "-z",
        "64",
        "-t",
        "2",
        "--iter_interval",
        "1",
        "--load_file",
        saved,
        backend=backend,
    )
    assert again["misclassified"][-1] < 0.1  # with the weights of the first run


@pytest.mark.parametrize("options", [[], ["--use_batch_norm"]])
def test_convolutions(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    pytest.importorskip("sklearn")
    found = run(monkeypatch, "convolutions", "-z", "32", "-t", "120", *options)
    assert found["evaluated"]["misclass"] < 0.12 and np.mean(found["costs"][-10:]) < 0.5 < found["costs"][0]


@pytest.mark.parametrize("options", [["--layer_type", "lstm"], ["--layer_type", "rnn", "--use_lut"]])
def test_char_lstm(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    found = run(monkeypatch, "char_lstm", "-z", "16", "-t", "250", "--iter_interval", "250", *options)
    assert np.mean(found["costs"][-10:]) < 1.5 < 4 < found["costs"][0]
    assert found["generated"].startswith("the old king")


@pytest.mark.parametrize("layer", ["birnn", "birnn_concat", "rnn"])
def test_bidirectional_rnn(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    found = run(monkeypatch, "bidirectional_rnn", "-z", "32", "-t", "120", "--layer_type", layer)
    assert found["evaluated"]["misclass"] < 0.1 and np.mean(found["costs"][-10:]) < 0.3


def test_sequence_autoencoder(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, "sequence_autoencoder", "-z", "32", "-t", "400")
    assert np.mean(found["right"][-20:]) > 0.8 > 0.3 > found["right"][0]


def test_gan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(monkeypatch, "gan", "-z", "64", "-t", "300", "--iter_interval", "100")
    assert 0.7 < np.mean(found["radii"][-100:]) < 1.3
    assert capsys.readouterr().out.count("mean radius") == 3


@pytest.mark.parametrize("options", [[], ["--predict_seq"]])
def test_time_series(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    found = run(monkeypatch, "time_series", "-z", "16", "-t", "250", "--iter_interval", "250", *options)
    steps = 20 if options else 1
    assert found["evaluated"]["l2_loss"] < 0.05 * steps and found["drift"] < 0.3
