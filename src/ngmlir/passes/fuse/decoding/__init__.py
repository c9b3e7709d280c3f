# SPDX-License-Identifier: Apache-2.0
"""Narrow weights: finds how they are decoded, and builds the fusions that decode them."""
