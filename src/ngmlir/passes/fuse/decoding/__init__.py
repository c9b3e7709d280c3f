# SPDX-License-Identifier: Apache-2.0
"""Weights that stay narrow: which products decode them, and what their kernels are given."""
