# SPDX-License-Identifier: Apache-2.0
"""Layer 4: the op graph that a user writes: named axes, tensors, state and its order, autodiff, lifting to `ng`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """`ngmlir.op_graph.op_graph`, which programs name after `import ngmlir` alone."""
    if name == "op_graph":
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
