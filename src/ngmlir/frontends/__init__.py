# SPDX-License-Identifier: Apache-2.0
"""Layer 8: layers, optimizers and training loops, which build op graphs; ONNX models; language models.

Each is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import common as common
    from . import gguf as gguf
    from . import neon as neon
    from . import onnx as onnx
    from . import safetensors as safetensors

__all__ = ["common", "gguf", "neon", "onnx", "safetensors"]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
