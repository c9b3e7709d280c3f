# SPDX-License-Identifier: Apache-2.0
"""The names that `target=` accepts: devices that programs run on here (`cpu`, `cuda:1` ...), and machines to compile
for (`sm_80` ...).

Names are compared only here; other modules query the properties of a `Device` or a `Target`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from ..support.artifact import Artifact
from ..support.diagnostics import Limit, UserError
from ..support.machines import machines
from ..support.spelling import did_you_mean
from ..support.target import Target
from . import profile, timing

if TYPE_CHECKING:
    from .cpu import CpuExecutable
    from .cuda import CudaDevice
    from .cuda_sim import CudaSimDevice
    from .gpu import GpuExecutable


@dataclass(frozen=True)
class Device:
    """What programs run on: one of `DEVICES`, or another GPU by its number."""

    kind: str
    compiles: bool = True  # to machine code; else NumPy computes programs op by op
    has_memory: bool = False  # of its own, to which arrays are copied, and where they may stay
    number: int = 0  # of several of a kind

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind

    @property
    def runs_on_host(self) -> bool:
        """Whether programs are machine code that uses arrays in host memory."""
        return self.compiles and not self.has_memory


DEVICES = {
    each.kind: each
    for each in (
        Device("numpy", compiles=False),
        Device("cpu"),
        Device("cuda", has_memory=True),
        Device("cuda-sim", has_memory=True),
    )
}

#: The devices that programs are compiled for.
TARGETS = tuple([name for name, device in DEVICES.items() if device.compiles])

_NUMBERED = re.compile(r"cuda:(\d+)")

_opened: dict[Device, CudaDevice | CudaSimDevice] = {}
_lock = Lock()


def find_device(name: str) -> Device | None:
    """A device by the name that `target=` takes; `cuda:1` is the second GPU. None if there is none of that name."""
    if isinstance(name, str) and (found := _NUMBERED.fullmatch(name)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return replace(DEVICES["cuda"], number=int(found[1]))
    return DEVICES.get(name)


def device_named(name: str) -> Device:
    """As `find_device`. UserError if there is none of that name."""
    found = find_device(name)
    if found is None:
        hint = did_you_mean(str(name), DEVICES, f"one of {', '.join(DEVICES)}")
        raise UserError(f"there is no target '{name}'", hint=hint)
    return found


def compiling_device(name: str) -> Device:
    """As `device_named`, of devices that programs are compiled for. UserError for others."""
    found = find_device(name)
    if found is None or not found.compiles:
        raise UserError(
            f"programs for this target cannot run here: '{name}'",
            hint=did_you_mean(str(name), TARGETS, f"choose {', '.join(TARGETS)}"),
        )
    return found


def resolve(target: Target | str) -> Target:
    """A target by name: `cpu` (this machine), `cuda`, `cuda:1`, `cuda-sim`, `x86-64-v3`, `aarch64`, `sm_80` ...; with
    debug info if programs are profiled (NGMLIR_PROFILE). Raises UserError for an unknown name, and for `cuda` if there
    is no GPU."""
    if isinstance(target, Target):
        return target
    found = _resolve(target)
    listener = timing.current()
    timed = listener is not None and listener.counts == found.is_gpu
    return replace(found, debug=profile.wanted(), timed=timed)


def _resolve(name: str) -> Target:
    from ..llvm.machine import cpu_target, host_target, nvptx_target

    device = find_device(name)
    if device is not None and device.runs_on_host:
        return host_target()
    if device is not None and device.kind == "cuda":
        major, minor = opened(device).describe().capability
        # The architecture's own instructions (wgmma and the like) are in the "a" variant.
        return nvptx_target(f"sm_{major}{minor}{'a' if major >= 9 else ''}")
    if device is not None and device.kind == "cuda-sim":
        return nvptx_target()
    if name.startswith("sm_"):
        return nvptx_target(name)
    if name not in machines().named and (near := did_you_mean(name, TARGETS)):
        raise UserError(f"there is no target '{name}'", hint=near)
    return cpu_target(name)


def machine_of(device: Device) -> Target:
    """The target that passes query for the capabilities of a device; if NumPy computes its programs, that of this
    machine."""
    return resolve(device.name if device.compiles else "cpu")


def profile_for(target: str, threads: int | None = None) -> timing.Profile:
    """A profile for a target: on `cpu` it times programs, on `cuda-sim` it counts the costs of kernels on a GPU. Limit
    for others."""
    if target == "cpu":
        return timing.Profile(threads)
    if target == "cuda-sim":
        from .gpu_profile import GpuProfile

        return GpuProfile(resolve(target).gpu)
    raise Limit(
        f"programs for {target} are not timed",
        hint='give target="cpu", or "cuda-sim" for counts and predicted bounds',
    )


def opened(device: Device) -> CudaDevice | CudaSimDevice:
    """A GPU, the same object for all programs and threads, so that buffers can be passed between programs. One that has
    stopped is opened again."""
    with _lock:
        if device not in _opened or _opened[device].lost:
            if device.kind == "cuda":
                from .cuda import CudaDevice

                _opened[device] = CudaDevice(device.number)
            else:
                from .cuda_sim import CudaSimDevice

                _opened[device] = CudaSimDevice()
        return _opened[device]


def load(artifact: Artifact, device: Device, entry: str | None = None) -> CpuExecutable | GpuExecutable:
    """The executable of an artifact: of @main (or the only entry), or of the entry asked for."""
    if device.has_memory:
        from . import gpu

        return gpu.load(artifact, opened(device), entry=entry)
    from . import cpu

    return cpu.load(artifact, entry=entry)
