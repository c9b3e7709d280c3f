# SPDX-License-Identifier: Apache-2.0
"""Operators that only what runs a program carries out."""

from __future__ import annotations

from ..registry import without_value

without_value("feed", "fetch")
