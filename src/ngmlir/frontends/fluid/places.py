# SPDX-License-Identifier: Apache-2.0
"""Where programs run."""

from __future__ import annotations

from ...runtime.targets import DEVICES, find_device
from ...support.diagnostics import UserError


class Place:
    """A place by the name of its target: `cpu`, `cuda` (`cuda:1` ...), `cuda-sim` (a simulated GPU), `numpy` (the reference, op by
    op)."""

    def __init__(self, target: str = "cpu"):
        if find_device(target) is None:
            raise UserError(f"there is no place '{target}'", hint=f"places are {', '.join(DEVICES)}")
        self.target = target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.target == self.target

    def __hash__(self) -> int:
        return hash(self.target)

    def __repr__(self) -> str:
        return f"Place({self.target!r})"


class CPUPlace(Place):
    """The CPU."""

    def __init__(self) -> None:
        super().__init__("cpu")


class CUDAPlace(Place):
    """A GPU by its number."""

    def __init__(self, device: int = 0):
        super().__init__(f"cuda:{device}" if device else "cuda")


class CUDAPinnedPlace(Place):
    """Memory of the CPU that GPUs copy from fast; programs run on the CPU there."""

    def __init__(self) -> None:
        super().__init__("cpu")


class NumpyPlace(Place):
    """The reference: every op by itself, in NumPy."""

    def __init__(self) -> None:
        super().__init__("numpy")
