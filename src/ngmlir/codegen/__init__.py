# SPDX-License-Identifier: Apache-2.0
"""Rank 5: kernels to LLVM IR, for CPUs and for NVIDIA GPUs."""
