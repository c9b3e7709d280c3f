# SPDX-License-Identifier: Apache-2.0
"""The backend of each device: how it runs a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.core import Module
from ..runtime.executable import Prepare
from ..runtime.targets import DEVICES, Device, device_named
from .host_steps import Backend, Bind, Run, Storage, with_host_steps

if TYPE_CHECKING:
    from ..runtime.cpu import CpuExecutable


def _interpreted(module: Module) -> Bind:
    """Op by op in NumPy: slow, but the reference for every op."""
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


def _compiled_in_memory(device: Device, module: Module) -> Bind:
    """Machine code for the CPU."""
    from ..compiler import compile_module
    from ..runtime.cpu import CpuExecutable

    first = compile_module(module, device.name, entry=module.ops[0].symbol)
    assert isinstance(first, CpuExecutable)
    return in_memory(first)


def in_memory(first: CpuExecutable) -> Bind:
    """Functions of a program for the CPU; state is changed in place."""

    def bind(
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        executable = first if first.signature.name == entry else first.entry(entry)
        return executable.bind({i: s.host for i, s in state.items()}, prepare)

    return bind


def _compiled_on_device(device: Device, module: Module) -> Bind:
    """Kernels on a GPU, or on a simulated one; state stays on the device."""
    from ..compiler import compile_module
    from ..runtime.gpu import GpuExecutable
    from ..runtime.gpu_call import GpuCall

    first = compile_module(module, device.name, entry=module.ops[0].symbol)
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


def _backend(device: Device) -> Backend:
    if not device.compiles:
        return _interpreted
    return with_host_steps(partial(_compiled_on_device if device.has_memory else _compiled_in_memory, device))


#: Name of a device -> its backend.
BACKENDS: dict[str, Backend] = {name: _backend(device) for name, device in DEVICES.items()}


def backend_for(target: str) -> Backend:
    """The backend of a target: one of BACKENDS, or that of a GPU by its number (`cuda:1`). UserError if there is none
    of that name."""
    return BACKENDS.get(target) or _backend(device_named(target))
