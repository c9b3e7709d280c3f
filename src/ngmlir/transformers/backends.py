# SPDX-License-Identifier: Apache-2.0
"""How each transformer runs a module: one entry per name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.core import Module
from ..runtime.executable import Prepare
from .host_steps import Backend, Bind, Run, Storage, with_host_steps

if TYPE_CHECKING:
    from ..runtime.cpu import CpuExecutable


def _interpreted(module: Module) -> Bind:
    """Op by op in NumPy: slow, and the meaning of every op."""
    from ..ops.interpreter import run

    def bind(
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        overwritten = dict(tied)

        def call(*values: Any) -> Sequence[Any]:
            given = iter(prepare(values))
            count = len(state) + len(values)
            arrays = [state[i].host if i in state else next(given) for i in range(count)]
            results = run(module, *arrays, entry=entry)
            # All results are copied before any state changes: they may be the arguments themselves.
            free = [np.array(r) for i, r in enumerate(results) if i not in overwritten]
            kept = [(state[overwritten[i]], np.array(r)) for i, r in enumerate(results) if i in overwritten]
            for storage, value in kept:
                storage.host[...] = value
            return free

        return call

    return bind


def _compiled_for_cpu(module: Module) -> Bind:
    """Machine code."""
    from ..compiler import compile_module
    from ..runtime.cpu import CpuExecutable

    first = compile_module(module, "cpu", entry=module.ops[0].symbol)
    assert isinstance(first, CpuExecutable)
    return in_memory(first)


def in_memory(first: CpuExecutable) -> Bind:
    """Functions of a program for the CPU; state is changed where it lies."""

    def bind(
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        executable = first if first.signature.name == entry else first.entry(entry)
        return executable.bind({i: s.host for i, s in state.items()}, prepare)

    return bind


def _compiled_for_gpu(target: str, module: Module) -> Bind:
    """Kernels on a GPU, or on the simulator of one; state stays there."""
    from ..compiler import compile_module
    from ..runtime.gpu import GpuExecutable
    from ..runtime.gpu_call import GpuCall

    first = compile_module(module, target, entry=module.ops[0].symbol)
    assert isinstance(first, GpuExecutable)

    def bind(
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        executable = first if first.signature.name == entry else first.entry(entry)
        held = {i: storage.on(executable.device) for i, storage in state.items()}
        return GpuCall(executable, held, prepare)

    return bind


#: Target -> its backend.
BACKENDS: dict[str, Backend] = {
    "numpy": _interpreted,
    "cpu": with_host_steps(_compiled_for_cpu),
    "cuda": with_host_steps(partial(_compiled_for_gpu, "cuda")),
    "cuda-sim": with_host_steps(partial(_compiled_for_gpu, "cuda-sim")),
}


def backend_for(target: str) -> Backend | None:
    """The backend of a target: one of BACKENDS, or a GPU by its number (`cuda:1`); None where there is none such."""
    number = target.removeprefix("cuda:")
    if number != target and number.isdecimal():
        return with_host_steps(partial(_compiled_for_gpu, target))
    return BACKENDS.get(target)
