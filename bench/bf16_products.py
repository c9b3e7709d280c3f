# SPDX-License-Identifier: Apache-2.0
"""Square products of bf16 beside PyTorch's, one thread.

python bench/bf16_products.py [--sizes 256,512,1024,2048] [--seconds 4]   (needs torch)

Prints the least CPU time of calls in turn.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("NGMLIR_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from ngmlir.compiler import compile_artifact, resolve  # noqa: E402
from ngmlir.ops.words import from_text  # noqa: E402
from ngmlir.runtime.cpu import load  # noqa: E402
from ngmlir.support.artifact import Artifact  # noqa: E402

#: Multiplications of all calls between two looks at the clock.
TOGETHER = 3e8


def line(size: int, seconds: float) -> str:
    draw, type = np.random.default_rng(0), f"tensor<{size}x{size}xbf16>"
    a, b = (draw.standard_normal((size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    artifact = compile_artifact(
        from_text(
            f"func.func @main(%a: {type}, %b: {type}) -> {type} {{\n"
            f"  %p = ng.dot %a, %b contract [1] x [0] : ({type}, {type}) -> {type}\n  return %p : {type}\n}}\n"
        ),
        resolve("cpu"),
    )
    assert isinstance(artifact, Artifact)
    mine, theirs = load(artifact), [torch.from_numpy(v.view(np.int16)).view(torch.bfloat16) for v in (a, b)]
    calls: list[Callable[[], Any]] = [lambda: mine(a, b), lambda: torch.mm(*theirs)]
    found, wanted = (np.asarray(v, np.float32) for v in (mine(a, b)[0], torch.mm(*theirs).float()))
    best, together, end = [float("inf")] * 2, max(1, int(TOGETHER / size**3)), time.monotonic() + seconds
    while time.monotonic() < end:
        for i, call in enumerate(calls):
            start = time.process_time()
            for _ in range(together):
                call()
            best[i] = min(best[i], (time.process_time() - start) / together * 1e3)
    ours, other = best
    return (
        f"{size:5d}  ours {ours:8.3f} ms  PyTorch {other:8.3f} ms  {other / ours:5.2f} times as fast"
        f"  {2e-6 * size**3 / ours:4.0f} Gflop/s  apart {np.abs(found - wanted).max() / np.abs(wanted).max():.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="256,512,1024,2048")
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for size in map(int, given.sizes.split(",")):
        print(line(size, given.seconds), flush=True)


if __name__ == "__main__":
    main()
