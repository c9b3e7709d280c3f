# SPDX-License-Identifier: Apache-2.0
"""Layer 5: kernels to LLVM IR, for CPUs and for NVIDIA GPUs.

`cpu.emit` and `nvptx.emit` turn a module whose memory is planned into a `Unit` (see `unit`). `cpu.parts` gives the same
code as separate parts, one per kernel, and `objects` compiles those that are not in the cache. Both targets share
`elementwise`: the elementwise ops as LLVM instructions.
"""
