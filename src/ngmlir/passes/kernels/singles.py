# SPDX-License-Identifier: Apache-2.0
"""Kernels of ops that are not fused: data movement, access by index, cumulative ops, positions of extremes."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...support.target import Target

#: Op name -> function that gives its kernel (named `k`), with one buffer per operand and per result.
SINGLES: dict[str, Callable[[Op, Target], Op]] = {}
