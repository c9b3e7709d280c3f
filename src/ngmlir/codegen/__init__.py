# SPDX-License-Identifier: Apache-2.0
"""Layer 5: kernels to LLVM IR, for CPUs and for NVIDIA GPUs.

`cpu.emit` and `nvptx.emit` take a module whose memory is planned and give a `Unit` (see `unit`), `cpu.parts` gives the
same in pieces, and `objects` compiles those that were not compiled before. What both share is what the elementwise ops
mean in LLVM instructions (`elementwise`).
"""
