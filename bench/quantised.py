# SPDX-License-Identifier: Apache-2.0
"""Quantised models beside ONNX Runtime, one thread: networks of quantised_models.py, quantised by ONNX Runtime's own tools.

python bench/quantised.py [--only 'bert'] [--forms u8s8,s8s8,dynamic]      (needs onnx and onnxruntime)

Prints of each the milliseconds of ours in f32, ours quantised, and ONNX Runtime's; how many times as fast as its int8 and
as our own f32 ours is; and how far both are from f32, as the greatest difference over the greatest value.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NGMLIR_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnxruntime import quantization as q  # noqa: E402
from quantised_models import MODELS  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load  # noqa: E402

#: Element types of activations and weights, and whether weights have a scale for each channel.
FORMS = {"u8s8": ("QUInt8", "QInt8", False), "s8s8": ("QInt8", "QInt8", True)}


class Samples:
    """Calibration data."""

    def __init__(self, samples: list[dict[str, Any]]):
        self.rest = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        return next(self.rest, None)


def quantised(source: Path, form: str, samples: list[dict[str, Any]]) -> Path:
    """The model in 8 bits, in a file beside it."""
    made = source.with_name(f"{source.stem}-{form}.onnx")
    if form == "dynamic":
        q.quantize_dynamic(source, made, weight_type=q.QuantType.QInt8)
        return made
    activations, weights, channels = FORMS[form]
    q.quantize_static(
        source,
        made,
        Samples(samples),
        quant_format=q.QuantFormat.QDQ,
        activation_type=getattr(q.QuantType, activations),
        weight_type=getattr(q.QuantType, weights),
        per_channel=channels,
    )
    return made


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def times(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least CPU milliseconds of each, in turn."""
    best = [float("inf")] * len(calls)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i, call in enumerate(calls):
            for _ in range(3):
                start = time.thread_time_ns()
                call()
                best[i] = min(best[i], (time.thread_time_ns() - start) / 1e6)
    return best


def far(a: Any, b: Any) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def line(name: str, form: str, folder: Path, seconds: float) -> str:
    source = folder / f"{name}.onnx"
    if not source.exists():
        onnx.save(MODELS[name](), source)
    plain = session(source)
    (taken,) = plain.get_inputs()
    draw = np.random.default_rng(1)
    samples = [{taken.name: draw.standard_normal(taken.shape).astype(np.float32)} for _ in range(4)]
    path = quantised(source, form, samples)
    theirs, x = session(path), samples[0]
    ours, own = (ng.compile(load(p), target="cpu") for p in (path, source))
    exact, got, other = own(*x.values())[0], ours(*x.values())[0], theirs.run(None, x)[0]
    wide, mine, their = times(
        [lambda: own(*x.values()), lambda: ours(*x.values()), lambda: theirs.run(None, x)], seconds
    )
    return (
        f"{name:10s} {form:8s} f32 {wide:8.3f} ms  ours {mine:8.3f} ms  ONNX Runtime {their:8.3f} ms"
        f"  {their / mine:5.2f} of its int8  {wide / mine:5.2f} of our f32"
        f"  apart {far(got, exact):.1e} / {far(other, exact):.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--forms", default="u8s8,s8s8,dynamic")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--keep", default="", help="a folder for the models")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.keep or made)
        folder.mkdir(parents=True, exist_ok=True)
        for name in MODELS:
            for form in given.forms.split(","):
                if re.search(given.only, name):
                    print(line(name, form, folder, given.seconds), flush=True)


if __name__ == "__main__":
    main()
