# SPDX-License-Identifier: Apache-2.0
"""What is told of programs before they run."""

from .memory import memory_usage

__all__ = ["memory_usage"]
