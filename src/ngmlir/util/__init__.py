# SPDX-License-Identifier: Apache-2.0
"""Layer 8: aliases: import paths that existing programs use. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import generics as generics
    from . import names as names
    from . import ordered as ordered
    from . import persist as persist

__all__ = ["generics", "names", "ordered", "persist"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
