# SPDX-License-Identifier: Apache-2.0
"""Kernels to PTX: tiles are distributed over the threads of a block by linear layouts.

emit: launches and signature from the entry function, LLVM IR for the kernels
  kernel: lowers op by op; facts, access: what is known of indices and memory accesses; assign: a layout for each tile
    memory, indexed, reductions, products: the ops on tiles; convert: conversions between layouts
      block: the threads of a block, their shared memory and shuffles; grid: the blocks
"""

from .emit import emit

__all__ = ["emit"]
