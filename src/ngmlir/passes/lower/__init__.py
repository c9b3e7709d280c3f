# SPDX-License-Identifier: Apache-2.0
"""From scheduled fusions to kernels, and one plan for all memory: one module per pass."""
