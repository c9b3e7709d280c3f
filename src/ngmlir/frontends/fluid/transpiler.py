# SPDX-License-Identifier: Apache-2.0
"""Programs made to take less memory."""

from .memory import memory_optimize, release_memory

__all__ = ["memory_optimize", "release_memory"]
