# SPDX-License-Identifier: Apache-2.0
"""How fast the IR is: a module of 10,000 ops parsed, printed, verified, and taken through 15 passes with
verification after each. Thread CPU time, best of several rounds.

    python bench/ir_throughput.py [--ops 10000] [--rounds 5] [--passes ...]

Budgets: parse 30 us/op, print 5 us/op, 15 passes with verification 0.5 s.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

from ngmlir.ir.printer import to_text
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES

#: Fifteen passes: the canonical ones, and again to settle.
FIFTEEN = (
    "inline,decompose,layout,dead-code,shape,prune,fold-constants,fold-empty,common-subexpressions,dead-code,"
    "prune,fold-constants,common-subexpressions,dead-code,layout"
)


def program(ops: int) -> str:
    """Layers of a network, forwards: products, broadcast biases, activations, sums; about `ops` ops."""
    lines = []
    value, n, skip = "%x", 0, "%x"
    matrix, row = "tensor<32x64xf32, #ng.axes<N, C>>", "tensor<64xf32, #ng.axes<C>>"
    while n + 8 <= ops:
        k = n
        lines += [
            f"  %a{k} = ng.broadcast %b dims [1] : ({row}) -> {matrix}",
            f"  %c{k} = ng.add {value}, %a{k} : {matrix}",
            f"  %d{k} = ng.tanh %c{k} : {matrix}",
            f"  %e{k} = ng.multiply %d{k}, {skip} : {matrix}",
            f"  %f{k} = ng.sum %e{k} axes [0] : ({matrix}) -> {row}",
            f"  %g{k} = ng.broadcast %f{k} dims [1] : ({row}) -> {matrix}",
            f"  %h{k} = ng.subtract %e{k}, %g{k} : {matrix}",
            f"  %i{k} = ng.maximum %h{k}, %c{k} : {matrix}",
        ]
        value, skip, n = f"%i{k}", f"%d{k}", n + 8
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: {matrix}, %b: {row}) -> {matrix} {{\n{body}\n  return {value} : {matrix}\n}}\n"
    )


def best(rounds: int, work: Callable[[], Any]) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", default=FIFTEEN)
    options = parser.parse_args()
    text, target = program(options.ops), cpu_target("x86-64-v4")
    count = text.count(" = ng.")
    module = from_text(text)
    print(f"{count} ops")
    print(
        f"parse    {best(options.rounds, lambda: from_text(text, verify=False)) / count * 1e6:6.2f} us/op   (budget 30)"
    )
    print(f"print    {best(options.rounds, lambda: to_text(module)) / count * 1e6:6.2f} us/op   (budget 5)")
    fresh = [from_text(text, verify=False) for _ in range(options.rounds)]
    print(f"verify   {best(options.rounds, lambda: check(fresh.pop())) / count * 1e6:6.2f} us/op")
    names = options.passes.split(",")
    spent: dict[int, float] = {}

    def run() -> None:
        current = from_text(text)
        for i, name in enumerate(names):
            started = time.thread_time()
            current = PASSES[name](current, target)
            check(current, after=name)
            seconds = time.thread_time() - started
            spent[i] = min(seconds, spent.get(i, seconds))

    for _ in range(options.rounds):
        gc.collect()
        run()
    print(f"{len(names)} passes with verification {sum(spent.values()):6.3f} s   (budget 0.5)")
    for i, name in enumerate(names):
        print(f"    {name:24}{spent[i] * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
