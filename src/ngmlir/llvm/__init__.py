# SPDX-License-Identifier: Apache-2.0
"""Layer 1: LLVM IR as text. `types` and `text` write it, `machine` has llvmlite assemble it."""
