# SPDX-License-Identifier: Apache-2.0
"""The transformers `cuda` and `cuda-sim`."""

from __future__ import annotations

from .transformer import Transformer


class CUDATransformer(Transformer):
    """Compiles for an NVIDIA GPU."""

    transformer_name = target = "cuda"
    table = "nvptx"


class CUDASimTransformer(Transformer):
    """Compiles for an NVIDIA GPU and runs the result on a simulator of one."""

    transformer_name = target = "cuda-sim"
    table = "nvptx"
