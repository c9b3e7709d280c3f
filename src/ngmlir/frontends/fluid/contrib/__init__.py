# SPDX-License-Identifier: Apache-2.0
"""Estimates about programs before they run, and training in 16 bits."""

from __future__ import annotations

from ..memory import memory_usage
from . import mixed_precision

__all__ = ["memory_usage", "mixed_precision"]
