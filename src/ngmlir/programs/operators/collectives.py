# SPDX-License-Identifier: Apache-2.0
"""Operators between the programs of several ranks: what runs these programs carries them out."""

from __future__ import annotations

from ..registry import without_value

#: All of them, by type.
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "send", "recv")

without_value(*COLLECTIVES)
