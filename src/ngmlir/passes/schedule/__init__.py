# SPDX-License-Identifier: Apache-2.0
"""Schedules of the loops of each fusion: candidates for each family of kernels, their predicted cost, and the choice."""
