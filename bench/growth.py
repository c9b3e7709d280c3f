# SPDX-License-Identifier: Apache-2.0
"""How compiling grows with the program: the whole pipelines on a training step of many layers, and reading, printing
and verifying its text. Thread CPU time, best of several rounds, also in units of a fixed loop of plain Python, so
that figures of machines of different speed can be compared.

    python bench/growth.py [--layers 20,190,1900] [--rounds 3] [--targets x86-64-v3,sm_90a] [--passes]

Budgets, on a core that runs the loop in 0.2 s (about 4 GHz): a pipeline 1 s for 10,000 ops and at most 11 times that for
ten times the ops; parse 30, print 5, verify 3 us/op.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import ngmlir as ng
from ngmlir.compiler import pipeline_for, resolve
from ngmlir.ir.core import Module
from ngmlir.ir.printer import to_text
from ngmlir.ir.verifier import check
from ngmlir.ops.words import from_text
from ngmlir.rewrite.pipeline import options_of

#: Seconds that the loop takes on the machine for which the budgets are stated.
REFERENCE = 0.2


def loop_seconds() -> float:
    """The time of a fixed loop: how fast this machine runs Python just now."""

    def loop() -> int:
        total = 0
        for i in range(10_000_000):
            total += i
        return total

    return best(3, loop)


def best(rounds: int, work: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def training_step(layers: int, width: int = 16, batch: int = 8) -> Module:
    """Products, biases, activations, normalisations, residual sums; their gradients; and the updates."""
    n, h, g = ng.make_axis(batch, "N"), ng.make_axis(width, "H"), ng.make_axis(width, "G")
    x, y = ng.placeholder([n, h]), ng.placeholder([n, h])
    value, weights = x, []
    for i in range(layers):
        w = ng.variable([g, h], initial_value=0.1, name=f"w{i}")
        b = ng.variable([g], initial_value=0.0, name=f"b{i}")
        weights += [w, b]
        z = ng.cast_axes(ng.tanh(ng.dot(value, w) + b), [n, h])
        centred = z - ng.mean(z, reduction_axes=[h])
        variance = ng.mean(centred * centred, reduction_axes=[h])
        value = value + centred * ng.rsqrt(variance + 1e-5)
    loss = ng.mean((value - y) * (value - y), out_axes=())
    with ng.Op.saved_user_deps():
        step = ng.doall([ng.assign(w, w - 0.01 * ng.deriv(loss, w)) for w in weights])
    return ng.lift([loss, step], [x, y]).module


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", default="20,190,1900")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--targets", default="x86-64-v3,sm_90a")
    parser.add_argument("--passes", action="store_true", help="the time of each pass too")
    options = parser.parse_args()
    loop = loop_seconds()
    scale = loop / REFERENCE
    print(f"loop {loop:.3f} s: times below are also given divided by {scale:.2f}")
    for layers in (int(part) for part in options.layers.split(",")):
        module = training_step(layers)
        ops = sum(1 for _ in module.walk())
        print(f"{layers} layers, {ops} ops")
        text = to_text(module)
        for name, work, budget in (
            ("parse", lambda text=text: from_text(text, verify=False), 30),
            ("print", lambda module=module: to_text(module), 5),
        ):
            spent = best(options.rounds, work) / ops * 1e6
            print(f"    {name:10} {spent:8.2f} us/op {spent / scale:8.2f}   (budget {budget})")
        fresh = [from_text(text, verify=False) for _ in range(options.rounds)]
        spent = best(options.rounds, lambda fresh=fresh: check(fresh.pop())) / ops * 1e6
        print(f"    {'verify':10} {spent:8.2f} us/op {spent / scale:8.2f}   (budget 3)")
        for target in options.targets.split(","):
            pipeline(target, module, ops, options, scale)


def pipeline(name: str, module: Module, ops: int, options: argparse.Namespace, scale: float) -> None:
    target = resolve(name)
    steps = pipeline_for(target)
    spent = best(options.rounds, lambda: steps.run(module, target))
    print(
        f"    {name:10} {spent:8.3f} s     {spent / scale:8.3f}   {spent / ops * 1e6:.0f} us/op   (budget 1 s per 10,000)"
    )
    if not options.passes:
        return
    each: dict[str, float] = {}
    current = module
    for step in steps.steps:
        function = steps.passes[step.name]
        started = time.thread_time()
        current = function(current, target, **options_of(function, step))
        each[step.name] = each.get(step.name, 0) + time.thread_time() - started
    for step_name, seconds in sorted(each.items(), key=lambda pair: -pair[1]):
        print(f"        {step_name:24}{seconds * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
