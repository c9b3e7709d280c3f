# SPDX-License-Identifier: Apache-2.0
"""`ngmlir demo`: trains a network on handwritten digits, tells its sizes and speed, and writes what it is at each stage."""

from __future__ import annotations

import argparse
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
from .shell import write_output
from .streams import streams

#: So many kernels are listed, those that take longest.
_KERNELS = 6


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="ngmlir demo", description=__doc__)
    parser.add_argument(
        "--target",
        default="cpu",
        choices=("cpu", "numpy", "cuda", "cuda-sim"),
        help="what runs the program (default: cpu)",
    )
    parser.add_argument("--epochs", type=int, default=60, help="times over the training images (default: 60)")
    parser.add_argument("--save", metavar="FILE", help="write the training step as .ngir, for ngopt")
    parser.add_argument(
        "--to", metavar="FOLDER", help="where the stages and the page go (default: a new temporary folder)"
    )
    options = parser.parse_args(arguments)
    data = digits.load()
    network = digits.Network(digits.initial_weights())
    returns, images, labels = network.training()
    predicted, test_images = network.prediction(len(data.test_labels))
    with ng.transformers.make_transformer(options.target) as transformer:
        train = transformer.computation(returns, images, labels)
        predict = transformer.computation(predicted, test_images)
        report = train.report()
        say(f"a network for handwritten digits, one step of its training:\n{report.summary}")
        if options.save:
            write_output(options.save, to_text(train.module), streams())
        steps = options.epochs * (len(data.train_labels) // digits.BATCH)
        started = time.perf_counter()
        train.transform()
        say(f"compiled in {time.perf_counter() - started:.2f} s")
        with Progress(steps, "training") as progress:
            for batch in digits.batches(data, options.epochs):
                loss, _ = train(*batch)
                progress.step(f"loss {float(loss):.4f}")
        accuracy = float(np.mean(np.equal(predict(data.test_images), data.test_labels)))
        say(f"test accuracy: {accuracy:.4f} on {len(data.test_labels)} images that were held out")
    compare(options.target, (returns, images, labels), data)
    if report.times:
        say("")
        say("\n".join(report.table().splitlines()[: 1 + _KERNELS]))
    where_next(report, options.to, options.save)
    return 0 if accuracy >= 0.97 or options.epochs < 60 else 1


def say(text: str) -> None:
    print(text, flush=True)


def where_next(report: Report, folder: str | None, saved: str | None) -> None:
    """Writes the stages and the page, and says where they are and what to try."""
    folder = folder or tempfile.mkdtemp(prefix="ngmlir-demo-")
    files = report.write(folder)
    say(
        f"\nlook next at\n  {files[-1]}   graph, memory, kernels and code, beside the Python that they are from"
    )
    say(f"  {folder}   {', '.join(file.name for file in files[:-1])}")
    step = saved or files[0]
    say(f"  ngopt {step} -p cpu --print-ir-after-change   what each pass does")
    say("  docs/graph.md   how such a network is written")


def compare(target: str, graph: Sequence[Any], data: digits.Digits, rounds: int = 60) -> None:
    """Time per step against the same model in NumPy: bursts in turn, the best of each, since a busy machine only adds.

    Both begin with the initial weights, which a new transformer for the same graph has: those that are trained have
    gradients so small that arithmetic is slower.
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


def seconds_per_call(call: Callable[[], object], budget: float = 0.01) -> float:
    call()
    started, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < budget or calls == 0:
        call()
        calls += 1
    return elapsed / calls


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
