# SPDX-License-Identifier: Apache-2.0
"""How the loops of each fusion run: candidates for each family of kernels, what they are predicted to cost, and the choice."""
