# SPDX-License-Identifier: Apache-2.0
"""What every GPU kernel of the op suite, or of programs of `.ngir` files, asks of a GPU, and the time it takes at least: counted by the
simulator, not timed on a device."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from op_cases import cases

from ngmlir.compiler import assemble, lower
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.counted import counted, table


def programs(elements: int, files: Sequence[Path]) -> Iterator[tuple[str, Module]]:
    if not files:
        for case in cases(elements):
            yield case.name, from_text(case.text)
    for path in files:
        yield path.name, from_text(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="programs; without any, the op suite")
    parser.add_argument("--elements", type=int, default=1 << 16, help="of each case of the op suite")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument(
        "--sample", type=int, help="count about so many blocks of each launch for all of them"
    )
    parser.add_argument("--far-off", action="store_true", help="only kernels that are far off the ideal")
    given = parser.parse_args()
    target, first = nvptx_target(given.target), True
    for name, module in programs(given.elements, given.files):
        artifact = assemble(lower(module, target), target)
        kernels = counted(artifact, target.cpu, given.sample)
        head, *lines = table(kernels, target.gpu)
        if first:
            print(f"{target.name}: bounds that follow from counts, not times\n{'program':32}{head}")
            first = False
        for line, kernel in zip(lines, kernels, strict=True):
            if kernel.counters.is_far_off or not given.far_off:
                print(f"{name[:31]:32}{line}", flush=True)


if __name__ == "__main__":
    main()
