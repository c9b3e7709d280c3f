# SPDX-License-Identifier: Apache-2.0
"""Layer 1: LLVM IR as text. `types` and `text` build it, `machine` compiles it by llvmlite."""
