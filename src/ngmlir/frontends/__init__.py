# SPDX-License-Identifier: Apache-2.0
"""Rank 8: layers, optimizers and training loops that build graphs, and nothing else: what they cannot say is an op."""

from __future__ import annotations

from . import common, neon

__all__ = ["common", "neon"]
