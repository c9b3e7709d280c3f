# SPDX-License-Identifier: Apache-2.0
"""Rank 8: what a person runs from a shell. Argument parsing, reading and writing; the work is done below."""
