# SPDX-License-Identifier: Apache-2.0
"""Layer 8: aliases: import paths that existing programs use. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["generics", "names", "ordered", "persist"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
