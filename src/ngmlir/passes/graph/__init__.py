# SPDX-License-Identifier: Apache-2.0
"""Passes on programs of tensor ops: simplification, decomposition into primitive ops, layout. One module per pass."""
