# SPDX-License-Identifier: Apache-2.0
"""Models whose lengths are known only at the call, beside ONNX Runtime, one thread.

    python bench/open_lengths.py [--only REGEX] [--calls 200]      (needs onnx and onnxruntime)

Each model is called with lengths drawn at random, the decoder with a cache that grows by one token. A call by each program follows
one by the other. Printed are how many programs were compiled for lengths `alone` and for `all`, and `last`, the number of the call that
compiled the last one; the CPU milliseconds of the first call, and the mean of all later ones; `ratio`, ONNX Runtime's time by ours; of calls that compile
nothing, its median and the value that a tenth of them are below; the greatest difference over the greatest value; and the megabytes
that the process has gained by our calls.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NGMLIR_NUM_THREADS", "1")
os.environ["NGMLIR_CACHE"] = "0"
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from compilations import compilations  # noqa: E402
from quantised_models import Graph, bert, resnet18  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load  # noqa: E402

Feeds = dict[str, Any]
draw = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return draw.standard_normal(shape).astype(np.float32)


def lstm() -> Any:
    """Two layers of 128 over [S, B, 64]."""
    g, x, width = Graph(), "x", 64
    for _ in range(2):
        y = g.add(
            "LSTM", x, g.normal(1, 512, width, scale=0.1), g.normal(1, 512, 128, scale=0.1), hidden_size=128
        )
        x, width = g.add("Squeeze", y, g.weight(np.array([1]))), 128
    return g.model({"x": ("S", "B", 64)}, x)


def convolutional() -> Any:
    """Images of any size: halved twice, and brought back."""
    g, x, width = Graph(), "x", 3
    for size, stride in ((32, 2), (64, 2), (64, 1), (64, 1)):
        filters = g.normal(size, width, 3, 3, scale=(2 / (9 * width)) ** 0.5)
        x = g.add("Relu", g.add("Conv", x, filters, g.normal(size), strides=[stride] * 2, pads=[1] * 4))
        width = size
    for size in (32, 8):
        filters = g.normal(width, size, 2, 2, scale=0.1)
        x, width = g.add("Relu", g.add("ConvTranspose", x, filters, strides=[2, 2])), size
    return g.model({"x": ("B", 3, "H", "W")}, x)


def decoder(layers: int = 6, width: int = 512, words: int = 4096) -> Any:
    """One token at a time after those whose keys and values are given; of each layer, the next call's."""
    g, heads, each = Graph(), width // 64, 64
    x = g.add("Gather", g.normal(words, width), "ids")
    ports: dict[str, tuple[int | str, ...]] = {"ids": (1, 1)}
    made: list[str] = []
    ones, zeros = g.weight(np.ones(width, np.float32)), g.weight(np.zeros(width, np.float32))

    def linear(value: str, inner: int, size: int) -> str:
        return g.add("MatMul", value, g.normal(inner, size, scale=inner**-0.5))

    def split(value: str) -> str:
        return g.add(
            "Transpose", g.add("Reshape", value, g.weight(np.array([1, 1, heads, each]))), perm=[0, 2, 1, 3]
        )

    for i in range(layers):
        y = g.add("LayerNormalization", x, ones, zeros, axis=-1)
        query, *new = (split(linear(y, width, width)) for _ in range(3))
        kept: list[str] = []
        for part, value in zip(("key", "value"), new, strict=True):
            ports[f"past_{i}_{part}"] = (1, heads, "P", each)
            kept.append(g.add("Concat", f"past_{i}_{part}", value, axis=2))
        made += kept
        scores = g.add("MatMul", query, g.add("Transpose", kept[0], perm=[0, 1, 3, 2]))
        scores = g.add("Softmax", g.add("Mul", scores, g.weight(np.float32(0.125))), axis=-1)
        mixed = g.add("Transpose", g.add("MatMul", scores, kept[1]), perm=[0, 2, 1, 3])
        mixed = g.add("Reshape", mixed, g.weight(np.array([1, 1, width])))
        x = g.add("Add", x, linear(mixed, width, width))
        y = g.add("LayerNormalization", x, ones, zeros, axis=-1)
        y = g.add("Relu", linear(y, width, 4 * width))
        x = g.add("Add", x, linear(y, 4 * width, width))
    return g.model(ports, linear(x, width, words), *made)


@dataclass
class Case:
    """A model, and what it is called with after what it gave last."""

    model: Any
    feeds: Callable[[list[Any]], Feeds]


def _decoder() -> Case:
    model = decoder()
    names = [port.name for port in model.graph.input][1:]

    def feeds(last: list[Any]) -> Feeds:
        past = last[1:] or [np.zeros((1, 8, 0, 64), np.float32) for _ in names]
        return {"ids": draw.integers(0, 4096, (1, 1)), **dict(zip(names, past, strict=True))}

    return Case(model, feeds)


def _of(
    model: Any,
    *bounds: tuple[int, int],
    times: int = 1,
    then: tuple[int, ...] = (),
    first: tuple[int, ...] = (),
) -> Case:
    """A model of one input: its first dimensions, lengths between bounds, and its last."""

    def feeds(_: list[Any]) -> Feeds:
        return {"x": normal(*first, *[times * int(draw.integers(a, b + 1)) for a, b in bounds], *then)}

    return Case(model, feeds)


CASES: dict[str, Callable[[], Case]] = {
    "decoder": _decoder,
    "bert": lambda: _of(bert(batch="B", length="S"), (1, 8), (1, 256), then=(256,)),
    "lstm": lambda: _of(lstm(), (1, 128), (1, 16), then=(64,)),
    "convolutional": lambda: _of(convolutional(), (8, 56), (8, 56), times=4, first=(1, 3)),
    "resnet18": lambda: _of(resnet18("B"), (1, 12), then=(3, 224, 224)),
}


def resident() -> float:
    """Megabytes of the process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def timed(call: Callable[[], Any]) -> tuple[list[Any], float]:
    """What a call gives, and its CPU milliseconds."""
    start = time.process_time()
    result = call()
    return list(result), (time.process_time() - start) * 1e3


def measured(name: str, calls: int) -> str:
    case = CASES[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        run = ng.compile(load(path))
    times: list[tuple[float, float]] = []
    ready: list[float] = []  # of calls that compile nothing: theirs by ours
    seen, last, worst, gained, last_compiled = compilations(), list[Any](), 0.0, 0.0, 0
    for number in range(calls + 1):
        feeds = case.feeds(last)
        theirs, before = timed(partial(session.run, None, feeds))
        count, there = len(seen), resident()
        ours, after = timed(partial(run, **feeds))
        gained += resident() - there
        if len(seen) > count:
            last_compiled = number + 1
        else:
            ready.append(before / after)
        worst = max(
            worst, *(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True))
        )
        times.append((after, before))
        last = theirs
    (first, _), *rest = times
    mine, other = (sum(each) for each in zip(*rest, strict=True))
    ready.sort()
    tenth = ready[len(ready) // 10] if ready else nan
    median = ready[len(ready) // 2] if ready else nan
    return (
        f"{name:14} {seen.count('alone'):5} {seen.count('all'):3} {last_compiled:4} {first:8.0f} {mine / len(rest):9.3f} {other / len(rest):9.3f} "
        f"{other / mine:6.2f} {median:7.2f} {tenth:6.2f} {worst:9.1e} {gained:7.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    print("model          alone all last first ms  ngmlir ms  ort ms  ratio   ready  tenth    error      MB")
    for name in CASES:
        if re.search(given.only, name):
            print(measured(name, given.calls), flush=True)


if __name__ == "__main__":
    main()
