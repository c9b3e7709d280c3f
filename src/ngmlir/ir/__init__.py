# SPDX-License-Identifier: Apache-2.0
"""Layer 1: types, attributes, ops, blocks, modules; their text; their verifier. In MLIR's model and syntax."""
