# SPDX-License-Identifier: Apache-2.0
"""What is fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....programs.vartypes import VarType
from ..framework import Variable, default_main_program

__all__ = ["data"]


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: VarType = VarType.LOD_TENSOR,
    stop_gradient: bool = True,
) -> Variable:
    """A variable that is fed: `feed={name: array}`. A length of -1, for the batch, is put before the shape, unless one of its lengths is
    -1 or `append_batch_size` is off. No gradient flows to it, unless `stop_gradient` is off."""
    lengths = list(shape)
    if append_batch_size and -1 not in lengths:
        lengths = [-1, *lengths]
    return (
        default_main_program()
        .global_block()
        .create_var(
            name=name,
            shape=lengths,
            dtype=dtype,
            type=type,
            lod_level=lod_level,
            stop_gradient=stop_gradient,
            is_data=True,
        )
    )
