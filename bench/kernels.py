# SPDX-License-Identifier: Apache-2.0
"""Writes docs/internals/kernels.md: registers, counts, predicted bounds and errors of the GPU kernels of the demo, the op suite and
large programs.

    python bench/kernels.py --write              # the whole page
    python bench/kernels.py --only='^softmax'    # rows of programs whose names match, to the terminal

Counts and bounds are of the simulator, of a sample of blocks; nothing is timed on a device. Errors are of small programs of the
same kind, run whole, against NumPy in float64.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from op_cases import Case, cases

import ngmlir as ng
from ngmlir.compiler import assemble, lower
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.counted import Counted, counted
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.tools import digits

PAGE = Path(__file__).parents[1] / "docs" / "internals" / "kernels.md"
ARCH = "sm_90a"
#: Elements of a case of the op suite; of one that is run whole for its error; blocks that are counted.
ELEMENTS, SMALL, SAMPLE = 1 << 16, 1 << 12, 16

HEAD = """# GPU kernels: counts and predicted bounds

Written by `python bench/kernels.py --write`. [The simulator](../simulator.md) explains the columns. **Nothing here was measured on a
GPU**: counts come from the simulator (from a sample of the blocks), registers from `ptxas`, and bounds follow from both. `error` is
the largest difference from NumPy in float64, relative to the largest element of the result, in small programs of the same kind
(about {small} elements).
"""
COLUMNS = "| program | kernel | blocks | threads | regs | occ. | useful | sectors | banks | in flight | us at least | bound by | error |"
LARGE_HEAD = """
## Large programs

`share` compares the bound of all launches with `of`: copying the arguments and results at the bandwidth of memory, or the matrix
instructions at their peak (on sm_90a the peak of `wgmma`, which the `mma.sync` of these kernels does not reach).

| program | on | kernels | us at least | bound by | share | of |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Program:
    """A program whose kernels are shown; `small` gives its error."""

    name: str
    module: Callable[[], Module]
    small: Case | None = None


def demo() -> Iterator[Program]:
    network = digits.Network(digits.initial_weights())
    returns, images, labels = network.training()
    predicted, test_images = network.prediction(360)

    def module(results: object, *parameters: object) -> Module:
        return ng.transformers.make_transformer("numpy").computation(results, *parameters).module

    yield Program("training step", lambda: module(returns, images, labels))
    yield Program("prediction", lambda: module(predicted, test_images))


def suite() -> Iterator[Program]:
    for case, small in zip(cases(ELEMENTS), cases(SMALL), strict=True):
        if not re.search(r"_(f64|f16|ui\d+|i\d+)$", case.name) or case.family == "dot":
            text = case.text
            yield Program(case.name, lambda text=text: from_text(text), small)


def large() -> Iterator[tuple[str, str, float, bool, int]]:
    """Name, text, what is moved or computed, whether that is matrix instructions, and blocks that are counted."""
    n, row = 1 << 24, "tensor<4096xf32>"
    flat, square = f"tensor<{n}xf32>", "tensor<4096x4096xf32>"

    def of(takes: str, gives: str, body: str) -> str:
        return f"func.func @main({takes}) -> {gives} {{\n %r = {body}\n func.return %r : {gives}\n}}"

    yield "tanh of 16M", of(f"%a: {flat}", flat, f"ng.tanh %a : {flat}"), 8.0 * n, False, 8
    yield "add of 16M", of(f"%a: {flat}, %b: {flat}", flat, f"ng.add %a, %b : {flat}"), 12.0 * n, False, 8
    for axis, name in ((1, "rows"), (0, "columns")):
        body = f"ng.sum %a axes [{axis}] : ({square}) -> {row}"
        yield f"sum of {name}, 4096x4096", of(f"%a: {square}", row, body), 4.0 * n, False, 8
    odd, line = "tensor<4099x4099xf32>", "tensor<4099xf32>"
    body = f"ng.sum %a axes [0] : ({odd}) -> {line}"
    yield "sum of columns, 4099x4099", of(f"%a: {odd}", line, body), 4.0 * 4099**2, False, 8
    body = "ng.argmax %a axes [1] : (tensor<4096x8192xbf16>) -> tensor<4096xi64>"
    yield (
        "argmax of rows of bf16, 4096x8192",
        of("%a: tensor<4096x8192xbf16>", "tensor<4096xi64>", body),
        4.0 * n,
        False,
        8,
    )
    for size in (1000, 1024, 4096):
        a, c = f"tensor<{size}x{size}xbf16>", f"tensor<{size}x{size}xf32>"
        body = f"ng.dot %a, %b contract [1] x [0] : ({a}, {a}) -> {c}"
        yield (
            f"product of bf16, {size}x{size}x{size}",
            of(f"%a: {a}, %b: {a}", c, body),
            2.0 * size**3,
            True,
            3,
        )


def kernels(module: Module, arch: str = ARCH, sample: int = SAMPLE) -> list[Counted]:
    target = nvptx_target(arch)
    return counted(assemble(lower(module, target), target), arch, sample)


def error(case: Case) -> float | None:
    """The largest difference from NumPy in float64; None where results are no floats."""
    if case.dtype.kind != "f":
        return None
    target = nvptx_target(ARCH)
    executable = load(assemble(lower(from_text(case.text), target), target), CudaSimDevice(check_races=False))
    (ours,) = executable.run([*case.arguments, np.zeros(case.shape, case.dtype)])
    exact = np.zeros(case.shape, np.float64)
    with np.errstate(all="ignore"):
        case.numpy(*[a.astype(np.float64) if a.dtype.kind == "f" else a for a in case.arguments], exact)
    both = np.isfinite(exact) & np.isfinite(ours)
    largest = np.abs(exact[both]).max(initial=0.0)
    return float(np.abs(ours.astype(np.float64) - exact)[both].max(initial=0.0) / (largest or 1.0))


def rows(program: Program) -> Iterator[str]:
    gpu = nvptx_target(ARCH).gpu
    off = error(program.small) if program.small is not None else None
    for each in kernels(program.module()):
        c, (seconds, what) = each.counters, each.bound(gpu)
        registers = "-" if each.registers is None else f"{each.registers}" + " (spills)" * bool(each.spills)
        told = "-" if off is None else f"{off:.1e}"
        yield (
            f"| {program.name} | {c.kernel} | {c.blocks // c.launches} | {c.threads} | {registers} | {each.occupancy(gpu):.0%} | {c.useful_threads:.0%} "
            f"| {c.globally_asked.ratio:.2f} | {c.shared.ratio:.2f} | {each.bytes_in_flight(gpu) >> 10}K | {1e6 * seconds:.2f} | {what} | {told} |"
        )


def large_rows() -> Iterator[str]:
    for name, text, work, matrix, sample in large():
        for arch in ("sm_80", ARCH):
            gpu, found = nvptx_target(arch).gpu, kernels(from_text(text), arch, sample)
            peak = gpu.matrix_flops * gpu.multiprocessors * gpu.clock * 1e6 if matrix else gpu.bandwidth * 1e9
            seconds = sum(each.seconds(gpu) for each in found)
            binds = max(found, key=lambda each: each.seconds(gpu)).bound(gpu)[1]
            of = "matrix peak" if matrix else "copy"
            share = min(1.0, work / peak / seconds)
            yield f"| {name} | {arch} | {len(found)} | {1e6 * seconds:.1f} | {binds} | {share:.2f} | {of} |"


def page() -> Iterator[str]:
    yield HEAD.format(small=SMALL)
    for title, programs in (
        (f"The demo, on {ARCH}", demo()),
        (f"The op suite, on {ARCH}: {ELEMENTS} elements", suite()),
    ):
        yield f"## {title}\n\n{COLUMNS}\n{'|---' * 13}|"
        for program in programs:
            yield from rows(program)
        yield ""
    yield LARGE_HEAD.strip("\n")
    yield from large_rows()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--only", default="", help="programs of the demo and the suite whose names match")
    given = parser.parse_args()
    if given.write:
        PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
        return
    for program in (*demo(), *suite()):
        if re.search(given.only, program.name):
            print("\n".join(rows(program)), flush=True)


if __name__ == "__main__":
    main()
