# SPDX-License-Identifier: Apache-2.0
"""Layer 1: types, attributes, ops, blocks and modules in MLIR's model and syntax; their parser, printer and verifier."""
