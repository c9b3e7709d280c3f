# SPDX-License-Identifier: Apache-2.0
"""How fast each op is beside NumPy, with results into arrays that are there already.

    python bench/ops.py [--only=REGEX] [--sizes=4K,64K,1M] [--rounds=9] [--json=FILE] [--below=1.0]
    NGMLIR_NUM_THREADS=2 python bench/ops.py ...

One thread, by its CPU time; with more threads (as many for the BLAS of NumPy) by the clock on the wall.

Ours is a call of an executable whose result is bound, as for a variable; NumPy's is its quickest formulation
with `out=` where it has one. Both run in turns, and the median of the rounds counts; both are compared first.
`ratio` is NumPy's time by ours: above 1 ours is faster. `ms` is the time to compile, without the cache of
machine code.
"""

from __future__ import annotations

import os

os.environ["NGMLIR_NUM_THREADS"] = os.environ.get("NGMLIR_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NGMLIR_NUM_THREADS"]  # before NumPy is imported
os.environ["NGMLIR_CACHE"] = "0"

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from op_cases import Case, cases, compare

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import aligned_copy
from ngmlir.runtime.cpu import CpuExecutable

THREADS = int(os.environ["NGMLIR_NUM_THREADS"])
clock = time.thread_time if THREADS == 1 else time.perf_counter

#: Seconds after which the threads of NumPy's BLAS no longer look for work. They keep their cores until then, and our
#: threads, which sleep meanwhile, wake in a burst that does not count.
BLAS_SLEEP = 0.2
#: Seconds of one burst of calls: long against the clock, short against the machine's moods.
BURST = 0.8e-3


class Row(NamedTuple):
    """What one case came to; times in seconds per call."""

    family: str
    name: str
    elements: int
    ours: float
    numpy: float
    ratio: float
    rate: float  # 1e9 operations, or bytes, per second
    unit: str
    compile_ms: float


def burst(call: Callable[..., Any], arguments: Sequence[np.ndarray], count: int) -> float:
    started = clock()
    for _ in range(count):
        call(*arguments)
    return (clock() - started) / count


def measure(case: Case, rounds: int) -> Row:
    started = time.thread_time()
    executable = compile_module(from_text(case.text), "cpu")
    compiled = time.thread_time() - started
    assert isinstance(executable, CpuExecutable)
    # State lies at multiples of 64 bytes; NumPy writes to such a place too.
    mine, out = (aligned_copy(np.zeros(case.shape, case.dtype)) for _ in range(2))
    call = executable.bind({len(case.arguments): mine})
    theirs = (*case.arguments, out)
    call(*case.arguments)
    case.numpy(*theirs)
    compare(case, mine, out)
    counts = [
        max(1, int(BURST / max(1e-8, min(burst(f, a, 1) for _ in range(3)))))
        for f, a in ((call, case.arguments), (case.numpy, theirs))
    ]
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        if case.operations and THREADS > 1:
            time.sleep(BLAS_SLEEP)
            burst(call, case.arguments, counts[0])
        times.append((burst(call, case.arguments, counts[0]), burst(case.numpy, theirs, counts[1])))
    own, other = median(t[0] for t in times), median(t[1] for t in times)
    ratio = median(t[1] / t[0] for t in times)
    work, unit = (case.operations, "GF/s") if case.operations else (case.bytes, "GB/s")
    return Row(
        case.family, case.name, case.elements, own, other, ratio, work / own / 1e9, unit, compiled * 1e3
    )


def number(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def short(elements: int) -> str:
    return f"{elements >> 20}M" if elements % (1 << 20) == 0 else f"{elements >> 10}K"


def geomean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def report(rows: Sequence[Row], below: float) -> str:
    lines = [f"{'op':32}{'size':>6}{'ns/element':>12}{'NumPy':>10}{'rate':>10}      {'ratio':>7}{'ms':>8}"]
    for row in sorted(rows, key=lambda r: r.ratio):
        if row.ratio < below:
            per = 1e9 / row.elements
            lines.append(
                f"{row.name:32}{short(row.elements):>6}{row.ours * per:12.4f}{row.numpy * per:10.4f}"
                f"{row.rate:10.1f} {row.unit}{row.ratio:8.2f}{row.compile_ms:8.1f}"
            )
    lines.append("")
    lines.append(f"{'family':20}{'cases':>6}{'geomean':>9}{'worst':>8}{'below 1':>9}{'most ms':>9}")
    for family in [*dict.fromkeys(r.family for r in rows), "all"]:
        part = [r for r in rows if family in (r.family, "all")]
        slower = sum(r.ratio < 1 for r in part)
        ratios = [r.ratio for r in part]
        most = max(r.compile_ms for r in part)
        lines.append(f"{family:20}{len(part):6}{geomean(ratios):9.2f}{min(ratios):8.2f}{slower:9}{most:9.0f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="measure the cases whose `family name` this finds")
    parser.add_argument("--sizes", default="4K,64K,1M", help="elements, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--below", type=float, default=1e9, help="print only rows with a lower ratio")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    options = parser.parse_args(arguments)
    chosen = re.compile(options.only)
    rows: list[Row] = []
    for size in options.sizes.split(","):
        for case in cases(number(size)):
            if chosen.search(f"{case.family} {case.name}"):
                rows.append(measure(case, options.rounds))
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))
    print(report(rows, options.below) if rows else "no case has such a name")


if __name__ == "__main__":
    main()
