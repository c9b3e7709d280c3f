# SPDX-License-Identifier: Apache-2.0
"""Kernels to LLVM IR for CPUs, one thread per program.

`program` writes the functions of a module, `emitter` runs a block through the `table` of lowerings; `tiles` says
how a tile lies in registers, `access` and `lanes` how it comes from memory.
"""

from .program import emit

__all__ = ["emit"]
