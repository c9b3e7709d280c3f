# SPDX-License-Identifier: Apache-2.0
"""Kernels to LLVM IR for CPUs, one thread per program.

`program` writes the entries of a module and `kernel` its kernels; `emitter` runs a block through the `table` of lowerings; `tiles` says
how a tile lies in registers, `access` and `lanes` how it comes from memory.
"""

from .program import emit, parts

__all__ = ["emit", "parts"]
