# SPDX-License-Identifier: Apache-2.0
"""What compiling costs, stage by stage: the demo's training step, a network of equal layers, and one in which every
layer has another shape.

    python bench/compile.py [--rounds 5] [--only demo|equal|shapes]

`ms` is thread CPU time, the best of the rounds, in this process alone and without the cache; `kernels` are those that are
compiled, each once. Then seconds on the wall, for whole compilations: cold in this process, cold with the processes that
help, with all kernels in the cache but not the program (as where an op was added), and with the program there.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from growth import training_step

import ngmlir as ng
from ngmlir.codegen import cpu
from ngmlir.compiler import compile_module, lower, resolve
from ngmlir.ir.core import Module
from ngmlir.llvm.cores import available_cores, compile_processes
from ngmlir.llvm.machine import assemble
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.tools import digits


def demo() -> Module:
    network = digits.Network(digits.initial_weights())
    with ng.transformers.make_transformer("cpu") as transformer:
        return transformer.computation(*network.training()).module


def shapes(layers: int = 8) -> Module:
    """A network whose layers grow, with its training step: no product has the shape of another."""
    batch, axes = ng.make_axis(24, "N"), [ng.make_axis(20 + 3 * i, f"H{i}") for i in range(layers + 1)]
    x = ng.placeholder([batch, axes[0]])
    value: Any = x
    weights: list[Any] = []
    for i in range(layers):
        weights.append(ng.variable([axes[i + 1], axes[i]], initial_value=0.1, name=f"w{i}"))
        value = ng.tanh(ng.dot(value, weights[-1]))
    loss = ng.mean(value * value, out_axes=())
    with ng.Op.saved_user_deps():
        step = ng.doall([ng.assign(w, w - 0.01 * ng.deriv(loss, w)) for w in weights])
    return ng.lift([loss, step], [x]).module


PROGRAMS: dict[str, Callable[[], Module]] = {
    "demo": demo,
    "equal": lambda: training_step(22),
    "shapes": shapes,
}


def stages(build: Callable[[], Module]) -> tuple[dict[str, float], int, int]:
    """CPU seconds of each stage; the ops of the program, and how many kernels it has."""
    target = resolve("cpu")
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        seconds[name] = time.thread_time() - started

    with stage("build"):
        module = build()
    with stage("passes"):
        lowered = lower(module, target)
    with stage("emit"):
        parts = cpu.parts(lowered, target)
        texts = [piece.text() for piece in parts.pieces]
    with stage("LLVM"), processes(0):
        *kernels, code = [assemble(text, target) for text in texts]
    with stage("load"):
        load(Artifact("object", code, parts.entries, target.key, parts.constants, kernels=tuple(kernels)))
    return seconds, sum(1 for _ in module.walk()), len(kernels)


@contextmanager
def processes(count: int) -> Iterator[None]:
    """So many processes compile; 0: this one."""
    os.environ["NGMLIR_COMPILE_PROCESSES"] = str(count)
    yield
    del os.environ["NGMLIR_COMPILE_PROCESSES"]


def seconds_to_compile(module: Module) -> float:
    started = time.perf_counter()
    compile_module(module)
    return time.perf_counter() - started


def whole(module: Module, rounds: int) -> dict[str, float]:
    """Seconds of whole compilations, the best of the rounds."""
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = min(best.get(name, seconds), seconds)

    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["NGMLIR_CACHE_DIR"] = folder
            os.environ["NGMLIR_CACHE"] = "0"
            with processes(0):
                note("cold", seconds_to_compile(module))
            note("cold, with helpers", seconds_to_compile(module))
            os.environ["NGMLIR_CACHE"] = "1"
            compile_module(module)
            note("cached", seconds_to_compile(module))
            for entry in Path(folder).iterdir():
                if b'"kind": "kernel"' not in entry.read_bytes():
                    entry.unlink()
            with processes(0):
                note("kernels cached", seconds_to_compile(module))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PROGRAMS)
    options = parser.parse_args()
    os.environ["NGMLIR_CACHE"] = "0"
    for count in (
        0,
        compile_processes(),
    ):  # what only the first program pays: LLVM's targets, the pool, the tables
        with processes(count):
            compile_module(training_step(1))
    print(f"{available_cores()} cores, {compile_processes()} processes may help")
    for name in [options.only] if options.only else PROGRAMS:
        rounds = [stages(PROGRAMS[name]) for _ in range(options.rounds)]
        _, ops, kernels = rounds[0]
        print(f"{name}: {ops} ops, {kernels} kernels")
        least = {stage: min(seconds[stage] for seconds, _, _ in rounds) for stage in rounds[0][0]}
        columns = [f"{stage} {1e3 * seconds:.0f}" for stage, seconds in least.items()]
        total = sum(least.values())
        each = (total - least["build"]) / kernels
        print(f"    CPU ms   {'   '.join(columns)}   total {1e3 * total:.0f}   per kernel {1e3 * each:.1f}")
        times = whole(PROGRAMS[name](), options.rounds)
        print("    wall s   " + "   ".join(f"{case} {seconds:.3f}" for case, seconds in times.items()))


if __name__ == "__main__":
    main()
