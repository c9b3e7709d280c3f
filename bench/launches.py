# SPDX-License-Identifier: Apache-2.0
"""What a step on a GPU asks of the driver, and the time that Python takes for it: counted and timed on a driver that does
nothing (`tests/device/fake_cuda`), so without any time of a GPU or of the driver."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "device"))

from fake_cuda import Machine, fake, missing

import ngmlir as ng
from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text
from ngmlir.runtime.gpu import DeviceBuffer, GpuExecutable, to_device

#: What does nothing while it is timed.
QUIET = (
    "cuCtxPushCurrent cuCtxPopCurrent cuLaunchKernel cuGraphLaunch cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuEventRecord "
    "cuEventSynchronize cuEventCreate cuStreamSynchronize"
).split()


def products(count: int) -> GpuExecutable:
    """So many kernels, each of which wants all of what the one before gives."""
    type = "tensor<16x16xf32>"
    lines = [
        f"%{i + 1} = ng.dot %{i}, %w contract [1] x [0] : ({type}, {type}) -> {type}" for i in range(count)
    ]
    text = f"func.func @main(%0: {type}, %w: {type}) -> {type} {{\n" + "\n".join(lines)
    made = compile_module(from_text(text + f"\nreturn %{count} : {type}\n}}"), "cuda")
    assert isinstance(made, GpuExecutable)
    return made


def steps() -> dict[str, Callable[[], Any]]:
    """Name -> a step, as programs do it."""
    found: dict[str, Callable[[], Any]] = {}
    for count in (1, 2, 8, 40):
        run = products(count)
        held = [to_device(run.device, np.ones((16, 16), np.float32), "f32") for _ in range(2)]
        out = [DeviceBuffer(run.device, "f32", (16, 16))]
        found[f"{count} kernels, arrays on the GPU"] = lambda run=run, held=held, out=out: run.run(held, out)
        (piece,) = run._bind(held, out)  # pyright: ignore[reportPrivateUsage]
        found[f"{count} kernels, the launch alone"] = piece
    N, C, H = (ng.make_axis(n, name=name) for n, name in ((8, "N"), (5, "C"), (6, "H")))
    x, t = ng.placeholder([C, N]), ng.placeholder([N])
    w1, w2 = (ng.variable(a, initial_value=np.full([b.length for b in a], 0.1)) for a in ([C, H], [H]))
    loss = ng.mean(ng.square(ng.dot(w2, ng.tanh(ng.dot(w1, x))) - t), out_axes=())
    updates = ng.doall([ng.assign(v, v - 0.1 * ng.deriv(loss, v)) for v in (w1, w2)])
    step = ng.compile([loss, updates], [x, t], target="cuda")
    data = np.ones((5, 8), np.float32), np.ones(8, np.float32)
    found["a training step: 2 values fed, the loss read"] = lambda: step(*data)
    given = [ng.placeholder([C, N]), ng.placeholder([N])]
    there = ng.compile([-value for value in given], given, target="cuda").on_device(*data)
    found["the same, fed from the GPU"] = lambda: step(*there)
    return found


def microseconds(call: Callable[[], Any], rounds: int = 300, calls: int = 10) -> float:
    """The least time of a call, in bursts too short for others to come between."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begun) / calls)
    return best * 1e6


def told(counts: Counter[str]) -> str:
    shown = {n.removeprefix("cu"): c for n, c in counts.items() if not n.startswith("cuCtx")}
    return ", ".join(f"{c} {n}" for n, c in sorted(shown.items()))


def main() -> None:
    if reason := missing():
        print(reason)
        return
    with fake().using(Machine()) as machine:
        for name, step in steps().items():
            for _ in range(3):
                step()
            before = machine.counts.copy()
            step()
            asked = machine.counts - before
            with fake().quiet(QUIET):
                taken = microseconds(step)
            print(f"{name:46} {taken:6.2f} us   {told(asked)}")
    print("the time of Python and of the bindings; not yet timed on a device")


if __name__ == "__main__":
    main()
