# SPDX-License-Identifier: Apache-2.0
"""How fast each op is beside NumPy, with results into arrays that are there already.

    python bench/ops.py [--only=REGEX] [--sizes=4K,64K,1M] [--rounds=9] [--json=FILE] [--below=1.0]
    python bench/ops.py --gate
    NGMLIR_NUM_THREADS=2 python bench/ops.py ...

One thread, by its CPU time; with more threads (as many for the BLAS of NumPy) by the clock on the wall.

Ours is a call of an executable whose result is bound, as for a variable; NumPy's is its quickest formulation
with `out=` where it has one. Both run in turns, and the median of the rounds counts; both are compared first.
`ratio` is NumPy's time by ours: above 1 ours is faster. `ms` is the time to compile, without the cache of
machine code.

`--gate` measures what the bars of bench/gate.py are about, says how each stands, names the rows below theirs,
and exits with 1 if one fails.
"""

from __future__ import annotations

import os

os.environ["NGMLIR_NUM_THREADS"] = os.environ.get("NGMLIR_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NGMLIR_NUM_THREADS"]  # before NumPy is imported
os.environ["NGMLIR_CACHE"] = "0"

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gate import BARS, Row, geomean, judge, told
from gate_cases import products
from op_cases import Case, cases, compare
from window_cases import windows

from ngmlir.compiler import compile_module, resolve
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


def burst(call: Callable[..., Any], arguments: Sequence[np.ndarray], count: int) -> float:
    """Seconds of one call. A shared machine's CPU clock stands still at times: such a burst is no measurement."""
    elapsed = 0.0
    while elapsed <= 0:
        started = clock()
        for _ in range(count):
            call(*arguments)
        elapsed = clock() - started
    return elapsed / count


def compiled(text: str) -> CpuExecutable:
    executable = compile_module(from_text(text), "cpu")
    assert isinstance(executable, CpuExecutable)
    return executable


def opponent(case: Case) -> tuple[Callable[..., Any], tuple[np.ndarray, ...], np.ndarray]:
    """What ours is measured beside, its arguments, and where it writes."""
    if not case.rival:
        out = aligned_copy(np.zeros(case.shape, case.dtype))
        return case.numpy, (*case.arguments, out), out
    out = aligned_copy(np.zeros(case.shape, np.float32))
    arguments = tuple(a.astype(np.float32) for a in case.arguments)
    return compiled(case.rival).bind({len(arguments): out}), arguments, out


def measure(case: Case, rounds: int) -> Row:
    started = time.thread_time()
    executable = compiled(case.text)
    compile_time = time.thread_time() - started
    # State lies at multiples of 64 bytes; NumPy writes to such a place too.
    mine = aligned_copy(np.zeros(case.shape, case.dtype))
    call = executable.bind({len(case.arguments): mine})
    rival, theirs, out = opponent(case)
    call(*case.arguments)
    rival(*theirs)
    compare(case, mine, out)
    counts = [
        max(1, int(BURST / max(1e-8, min(burst(f, a, 1) for _ in range(3)))))
        for f, a in ((call, case.arguments), (rival, theirs))
    ]
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        if case.operations and THREADS > 1:
            time.sleep(BLAS_SLEEP)
            burst(call, case.arguments, counts[0])
        times.append((burst(call, case.arguments, counts[0]), burst(rival, theirs, counts[1])))
    own, other = median(t[0] for t in times), median(t[1] for t in times)
    ratio = median(t[1] / t[0] for t in times)
    work, unit = (case.operations, "GF/s") if case.operations else (case.bytes, "GB/s")
    return Row(
        case.family, case.name, case.elements, own, other, ratio, work / own / 1e9, unit, compile_time * 1e3
    )


def number(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def short(elements: int) -> str:
    return f"{elements >> 20}M" if elements % (1 << 20) == 0 else f"{elements >> 10}K"


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


def header() -> str:
    """The machine, and the instructions that each side uses on it."""
    from numpy._core import (
        _multiarray_umath as numpy_core,
    )  # the only place where NumPy tells what it runs on

    target = resolve("cpu")
    asked = frozenset[str]().union(*target.architecture.capabilities.values())
    known: dict[str, bool] = numpy_core.__cpu_features__
    built: list[str] = [*numpy_core.__cpu_baseline__, *numpy_core.__cpu_dispatch__]
    return (
        f"{target.cpu}, {target.cores} cores, {target.l1_bytes >> 10}K L1, {target.l2_bytes >> 10}K L2, {THREADS} thread(s)\n"
        f"ours: {target.vector_registers} vectors of {target.vector_bytes} bytes, {' '.join(sorted(asked & target.enabled))}\n"
        f"NumPy {np.__version__}: {' '.join(f for f in built if known.get(f))}; BLAS: {_blas_core()}\n"
    )


def _blas_core() -> str:
    """The processor whose code the BLAS of NumPy has chosen."""
    if find_spec("threadpoolctl") is None:
        return "not known without threadpoolctl"
    from threadpoolctl import threadpool_info  # pyright: ignore[reportMissingTypeStubs]

    found: list[dict[str, Any]] = threadpool_info()
    cores = {f"{i['internal_api']} for {i.get('architecture')}" for i in found if i["user_api"] == "blas"}
    return ", ".join(sorted(cores)) or "none"


def every_case(sizes: Sequence[int], gate: bool) -> Iterator[Case]:
    """The cases of some numbers of elements; for the gate those on which there is a bar, and its products."""
    barred = {family for bar in BARS for family in bar.families}
    for size in sizes:
        yield from (case for case in cases(size) if not gate or case.family in barred)
    yield from (case for case in windows() if not gate or case.family in barred)
    if gate:
        yield from products()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="measure the cases whose `family name` this finds")
    parser.add_argument("--sizes", default="4K,64K,1M", help="elements, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--below", type=float, default=1e9, help="print only rows with a lower ratio")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--gate", action="store_true", help="hold the rows to their bars")
    options = parser.parse_args(arguments)
    print(header())
    chosen = re.compile(options.only)
    sizes = [number(size) for size in options.sizes.split(",")]
    rows = [
        measure(case, options.rounds)
        for case in every_case(sizes, options.gate)
        if chosen.search(f"{case.family} {case.name}")
    ]
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))
    if not rows:
        print("no case has such a name")
        return int(options.gate)
    print(report(rows, options.below))
    if not options.gate:
        return 0
    verdicts = judge(rows)
    print(f"\n{told(verdicts)}")
    return int(not all(verdict.passed for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
