# SPDX-License-Identifier: Apache-2.0
"""Analyses of ops that several passes share: loops, indexing maps, products, reductions. They change nothing."""
