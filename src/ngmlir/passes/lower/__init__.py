# SPDX-License-Identifier: Apache-2.0
"""Lowers scheduled fusions to kernels, and plans all memory: one module per pass."""
