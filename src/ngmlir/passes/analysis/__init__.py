# SPDX-License-Identifier: Apache-2.0
"""What passes ask of ops, and change nothing: loops, access maps, products, reductions."""
