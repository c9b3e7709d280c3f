# SPDX-License-Identifier: Apache-2.0
"""Layer 5: one module per pass. `PASSES` (passes/registry.py) names them all."""
