# SPDX-License-Identifier: Apache-2.0
"""How ops are grouped into kernels."""
