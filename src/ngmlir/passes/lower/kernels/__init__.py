# SPDX-License-Identifier: Apache-2.0
"""From a fusion to a kernel: one module per kind of kernel. The pass is passes/lower/to_kernels.py."""
