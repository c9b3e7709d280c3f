# SPDX-License-Identifier: Apache-2.0
"""The transformers `cuda` and `cuda-sim`."""

from __future__ import annotations

from collections.abc import Iterable

from .passes.registered import PassLike
from .transformer import Transformer


class CUDATransformer(Transformer):
    """Compiles for an NVIDIA GPU: the first one, or number `device`. The constructor raises UserError if there is none."""

    transformer_name = target = "cuda"
    table = "nvptx"

    def __init__(
        self,
        passes: Iterable[PassLike] | None = None,
        device: int = 0,
        memory_limit: int | None = None,
    ) -> None:
        from ..compiler import resolve  # imports LLVM

        if device:
            self.target = f"cuda:{device}"
        resolve(self.target)
        super().__init__(passes, memory_limit=memory_limit)


#: The name that existing programs use.
GPUTransformer = CUDATransformer


class CUDASimTransformer(Transformer):
    """Compiles for an NVIDIA GPU and runs the kernels on a simulated one."""

    transformer_name = target = "cuda-sim"
    table = "nvptx"
