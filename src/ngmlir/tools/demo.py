# SPDX-License-Identifier: Apache-2.0
"""`ngmlir demo`: trains a network on handwritten digits, prints its accuracy and speed, and writes the program at each stage."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ngmlir as ng

from ..ir.printer import to_text
from ..support.progress import Progress
from ..transformers.report import Report
from . import digits
from .shell import flags, positive, write_output
from .streams import streams

#: How many kernels are listed, those that take longest.
_KERNELS = 6


def main(arguments: Sequence[str]) -> int:
    parser = flags("ngmlir demo", __doc__ or "")
    parser.add_argument(
        "--target",
        default="cpu",
        choices=("cpu", "numpy", "cuda", "cuda-sim"),
        help="what runs the program (default: cpu)",
    )
    parser.add_argument(
        "--epochs", type=positive, default=60, help="passes over the training images (default: 60)"
    )
    parser.add_argument("--save", metavar="FILE", help="write the training step as .ngir, for ngopt")
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        help="folder for the report and the stages (default: a new temporary folder)",
    )
    options = parser.read(arguments)
    data = digits.load()
    network = digits.Network(digits.initial_weights())
    returns, images, labels = network.training()
    predicted, test_images = network.prediction(len(data.test_labels))
    with ng.transformers.make_transformer(options.target) as transformer:
        train = transformer.computation(returns, images, labels)
        predict = transformer.computation(predicted, test_images)
        report = train.report()
        say(f"A network for handwritten digits. One training step:\n{report.summary}")
        if options.save:
            write_output(options.save, to_text(train.module), streams())
        steps = options.epochs * (len(data.train_labels) // digits.BATCH)
        started = time.perf_counter()
        train.transform()
        compiled = time.perf_counter() - started
        say(f"compiled in {compiled:.2f} s")
        losses: list[float] = []
        with Progress(steps, "training") as progress:
            for batch in digits.batches(data, options.epochs):
                losses.append(float(train(*batch)[0]))
                progress.step(f"loss {losses[-1]:.4f}")
        accuracy = float(np.mean(np.equal(predict(data.test_images), data.test_labels)))
        say(f"test accuracy: {accuracy:.2%} on {len(data.test_labels)} images that were not trained on")
    ours, numpy_s = compare(options.target, (returns, images, labels), data)
    if report.times:
        say("")
        say("\n".join(report.table().splitlines()[: 1 + _KERNELS]))
    report.title = "ngmlir demo: handwritten digits, one training step"
    report.curves["training loss"] = losses
    report.facts.update(
        {
            f"test accuracy ({len(data.test_labels)} images)": f"{accuracy:.2%}",
            "time per training step": f"{ours * 1e6:.0f} \u00b5s",
            "the same step in NumPy": f"{numpy_s * 1e6:.0f} \u00b5s",
            "compile time": f"{compiled:.2f} s",
            "peak temporary memory": f"{report.peak / 1024:,.0f} KiB",
            "kernel launches per step": str(len(report.launches)),
        }
    )
    where_next(report, options.to, options.save)
    return 0 if accuracy >= 0.97 or options.epochs < 60 else 1


def say(text: str) -> None:
    print(text, flush=True)


def where_next(report: Report, folder: str | None, saved: str | None) -> None:
    """Writes the stages and the report, and prints where they are and what to try."""
    folder = folder or tempfile.mkdtemp(prefix="ngmlir-demo-")
    files = report.write(folder)
    say(
        f"\nLook next at\n  {files[-1]}   loss curve, graph, kernels, memory and code, beside the Python source"
    )
    say(f"  {folder}   {', '.join(file.name for file in files[:-1])}")
    step = saved or files[0]
    say(f"  ngopt {step} -p cpu --print-ir-after-change   what each pass does")
    say("  docs/graph.md   how such a network is written")


def compare(target: str, graph: Sequence[Any], data: digits.Digits, rounds: int = 60) -> tuple[float, float]:
    """Seconds per step here, and of the same model in NumPy: the minimum of each over interleaved rounds.

    Both start from the initial weights: the small gradients of a trained network make arithmetic slower.
    """
    step = digits.numpy_step(digits.initial_weights())
    batch = next(digits.batches(data, 1))
    ours: list[float] = []
    theirs: list[float] = []
    with ng.transformers.make_transformer(target) as transformer:
        train = transformer.computation(*graph)
        for _ in range(rounds):
            ours.append(seconds_per_call(lambda: train(*batch)))
            theirs.append(seconds_per_call(lambda: step(*batch)))
    mine, other = min(ours), min(theirs)
    say(
        f"time per step: ngmlir {mine * 1e6:.0f} us, NumPy {other * 1e6:.0f} us: {other / mine:.2f} times as fast"
    )
    return mine, other


def seconds_per_call(call: Callable[[], object], budget: float = 0.01) -> float:
    call()
    started, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < budget or calls == 0:
        call()
        calls += 1
    return elapsed / calls


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
