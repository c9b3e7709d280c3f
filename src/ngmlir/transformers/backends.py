# SPDX-License-Identifier: Apache-2.0
"""How each transformer runs a module: one entry per name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir.core import Module
from ..runtime.executable import Prepare
from .host_steps import Backend, Run, with_host_steps
from .storage import DeviceBufferStorage


def _interpreted(
    module: Module,
    state: Mapping[int, DeviceBufferStorage],
    tied: Sequence[tuple[int, int]],
    prepare: Prepare,
) -> Run:
    """Op by op in NumPy: slow, and the meaning of every op."""
    from ..ops.interpreter import run

    overwritten = dict(tied)

    def call(*values: Any) -> Sequence[Any]:
        given = iter(prepare(values))
        count = len(state) + len(values)
        results = run(module, *[state[i].host if i in state else next(given) for i in range(count)])
        # All results are copied before any state changes: they may be the arguments themselves.
        free = [np.array(r) for i, r in enumerate(results) if i not in overwritten]
        kept = [(state[overwritten[i]], np.array(r)) for i, r in enumerate(results) if i in overwritten]
        for storage, value in kept:
            storage.host[...] = value
        return free

    return call


def _compiled_for_cpu(
    module: Module,
    state: Mapping[int, DeviceBufferStorage],
    tied: Sequence[tuple[int, int]],
    prepare: Prepare,
) -> Run:
    """Machine code; state is changed where it lies."""
    from ..compiler import compile_module
    from ..runtime.cpu import CpuExecutable

    executable = compile_module(module, "cpu")
    assert isinstance(executable, CpuExecutable)
    return executable.bind({i: s.host for i, s in state.items()}, prepare)


def _compiled_for_gpu(
    target: str,
    module: Module,
    state: Mapping[int, DeviceBufferStorage],
    tied: Sequence[tuple[int, int]],
    prepare: Prepare,
) -> Run:
    """Kernels on a GPU, or on the simulator of one; state stays there."""
    from ..compiler import compile_module
    from ..runtime.gpu import GpuExecutable

    executable = compile_module(module, target)
    assert isinstance(executable, GpuExecutable)
    overwritten = dict(tied)
    held = {i: s.on(executable.device) for i, s in state.items()}

    def call(*values: Any) -> Sequence[Any]:
        given = iter(prepare(values))
        count = len(held) + len(values)
        results = executable(*[held[i] if i in held else next(given) for i in range(count)])
        return [r for i, r in enumerate(results) if i not in overwritten]

    return call


#: Transformer name -> its backend.
BACKENDS: dict[str, Backend] = {
    "numpy": _interpreted,
    "cpu": with_host_steps(_compiled_for_cpu),
    "cuda": with_host_steps(partial(_compiled_for_gpu, "cuda")),
    "cuda-sim": with_host_steps(partial(_compiled_for_gpu, "cuda-sim")),
}
