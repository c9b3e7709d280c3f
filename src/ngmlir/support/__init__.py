# SPDX-License-Identifier: Apache-2.0
"""Rank 0: the plain records that cross borders. Imports nothing of the project."""
