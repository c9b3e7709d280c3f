# SPDX-License-Identifier: Apache-2.0
"""Operators that read and write files, and that print: what runs a program carries them out."""

from __future__ import annotations

from ...op_graph.tensor import Tensor
from ..registry import operator, without_value

without_value("save", "save_combine", "load", "load_combine", "delete_var", "recompute")


@operator
def print(input: Tensor, **attributes: object) -> Tensor:
    return input
