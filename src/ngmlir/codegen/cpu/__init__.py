# SPDX-License-Identifier: Apache-2.0
"""Kernels to LLVM IR for CPUs; one thread runs one program of the grid.

`program` emits the entry functions of a module and `kernel` its kernels; `emitter` lowers a block through the `table`
of lowerings; `tiles` maps a tile to registers; `access` and `lanes` load and store it.
"""

from .program import emit, parts

__all__ = ["emit", "parts"]
