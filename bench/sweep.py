# SPDX-License-Identifier: Apache-2.0
"""Random single ops, shapes, element types and layouts, beside torch, ONNX Runtime and NumPy: what is slow that nobody chose.

    python bench/sweep.py [--seed 0] [--rows 200] [--family REGEX] [--rounds 7] [--least 0] [--json FILE]

Each row is drawn from a seed of its own, `--seed` plus its number, so that `--seed S --rows 1` repeats it (of all families, unless
`--family` was given then too). Every program runs on one thread; bursts of all of them alternate, and the least CPU time of each
counts. Results are compared in passing. `ratio` is the time of the quickest of the others by ours: below 1 ours is slower. The
geometric mean of each family is printed, and the ten worst rows. What is not installed is left out, and so is what returns a view of
its input. Exits with 1 where a result is wrong. Rows that take the quickest less than `--least` microseconds are left out: calls are what takes their time.
"""

from __future__ import annotations

import os

# Before anything is imported.
os.environ["NGMLIR_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["NGMLIR_CACHE"] = "0"

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper
from sweep_cases import FAMILIES, Case, draw

import ngmlir as ng
from ngmlir.frontends import onnx as frontend

#: Seconds of one burst of calls.
BURST = 1e-3

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]


@dataclass
class Row:
    """What was measured: microseconds of a call by each program."""

    seed: int
    family: str
    what: str
    micros: dict[str, float] = field(default_factory=dict[str, float])
    error: str = ""

    @property
    def ratio(self) -> float:
        return min(t for name, t in self.micros.items() if name != "ngmlir") / self.micros["ngmlir"]


def model(case: Case) -> Any:
    """The case as a model of ONNX; constants are initializers."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in case.inputs.items()}
    inputs = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in case.inputs.items()]
    weights = [numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in case.constants.items()]
    outputs = [helper.make_empty_tensor_value_info(n) for n in case.outputs]
    graph = helper.make_graph(case.nodes, "case", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def programs(case: Case) -> dict[str, Call]:
    """A call without arguments of each program that is there."""
    arrays = [*case.inputs.values()]
    made = model(case)
    ours = ng.compile(frontend.load(made))
    found: dict[str, Call] = {"ngmlir": lambda: ours(*arrays)}
    if case.numpy is not None:
        numpy = case.numpy
        found["numpy"] = lambda: numpy(*arrays)
    try:
        import onnxruntime as runtime

        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = runtime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
        feeds = dict(zip(case.inputs, arrays, strict=True))
        session.run(None, feeds)
        found["onnxruntime"] = lambda: session.run(None, feeds)
    except Exception:  # it is not installed, or has no kernel for these elements
        pass
    try:
        import torch

        if case.torch is not None:
            torch.set_num_threads(1)
            tensors, function = [torch.from_numpy(a) for a in arrays], case.torch

            def call() -> Any:
                with torch.no_grad():
                    return function(torch, *tensors)

            call()
            found["torch"] = call
    except Exception:
        pass
    return found


def first(result: Any) -> Array:
    """The first array of what a program gives."""
    while isinstance(result, (list, tuple)) or type(result).__module__.startswith("torch.return"):
        result = result[0]
    if isinstance(result, Mapping):
        result = next(iter(result.values()))
    return np.asarray(result)


def difference(case: Case, ours: Array, other: Array) -> str:
    """What is wrong with a result; empty where it is right."""
    if ours.shape != other.shape:
        return f"shape {ours.shape}, not {other.shape}"
    if ours.dtype.kind not in "fV":
        return "" if np.array_equal(ours, other) else "other elements"
    wide, expected = ours.astype(np.float64), other.astype(np.float64)
    scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0))
    good = np.isclose(wide, expected, rtol=case.tolerance, atol=case.tolerance * scale, equal_nan=True)
    return "" if good.all() else f"{(~good).sum()} of {good.size} elements differ"


def seconds(call: Call, count: int) -> float:
    elapsed = 0.0
    while elapsed <= 0:
        started = time.thread_time()
        for _ in range(count):
            call()
        elapsed = time.thread_time() - started
    return elapsed / count


def measure(seed: int, chosen: re.Pattern[str], rounds: int) -> Row:
    case = draw(np.random.default_rng(seed), [f for f in FAMILIES if chosen.search(f)])
    row = Row(seed, case.family, case.what)
    calls = programs(case)
    results = {name: first(call()) for name, call in calls.items()}
    for name, result in [*results.items()]:
        if any(np.may_share_memory(result, array) for array in case.inputs.values()):
            del results[name], calls[name]  # a view of an input: nothing was computed
    ours = results.pop("ngmlir")
    wrong = {name: difference(case, ours, other) for name, other in results.items()}
    if results and all(wrong.values()):  # others differ among themselves where the standard leaves it open
        row.error = "; ".join(f"{name}: {what}" for name, what in wrong.items())
    counts = {name: max(1, int(BURST / max(seconds(call, 1), 1e-7))) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(call, counts[name]))
    row.micros = {name: 1e6 * value for name, value in best.items()}
    return row


def told(row: Row) -> str:
    times = "  ".join(f"{name} {value:.1f}" for name, value in row.micros.items())
    return f"{row.ratio:6.2f}  {row.family}: {row.what}  [{times} us]  --seed {row.seed}"


def report(rows: list[Row]) -> str:
    lines = [f"{'family':14}{'rows':>6}{'geomean':>9}{'worst':>8}{'below 1':>9}{'below 0.5':>11}"]
    for family in [*sorted({r.family for r in rows}), "all"]:
        ratios = [r.ratio for r in rows if family in (r.family, "all")]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        below = [sum(r < bar for r in ratios) for bar in (1, 0.5)]
        lines.append(f"{family:14}{len(ratios):6}{mean:9.2f}{min(ratios):8.2f}{below[0]:9}{below[1]:11}")
    lines += ["", "the worst:", *map(told, sorted(rows, key=lambda r: r.ratio)[:10])]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="that of the first row")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--family", default="", help=f"those that this finds: {', '.join(FAMILIES)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least", type=float, default=0, help="microseconds of the quickest other program")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    options = parser.parse_args()
    chosen = re.compile(options.family)
    if not any(map(chosen.search, FAMILIES)):
        print(f"no family has such a name; there are {', '.join(FAMILIES)}")
        return 1
    rows: list[Row] = []
    errors: list[Row] = []
    for seed in range(options.seed, options.seed + options.rows):
        row = measure(seed, chosen, options.rounds)
        if row.error:
            errors.append(row)
            print(f"WRONG  {row.family}: {row.what}  ({row.error})  --seed {row.seed}")
        others = [t for name, t in row.micros.items() if name != "ngmlir"]
        if others and min(others) >= options.least:
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print(report(rows) if rows else "no row was measured")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
