# SPDX-License-Identifier: Apache-2.0
"""The functions that build operators, by subject. Tensors are those of `ng.numpy`: axes by position, NumPy's rules."""
