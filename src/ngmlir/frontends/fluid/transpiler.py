# SPDX-License-Identifier: Apache-2.0
"""Programs made to take less memory, and less time."""

from .inference_transpiler import InferenceTranspiler
from .memory import memory_optimize, release_memory

__all__ = ["InferenceTranspiler", "memory_optimize", "release_memory"]
