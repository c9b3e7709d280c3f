# SPDX-License-Identifier: Apache-2.0
"""Graphs and weights as bytes, under the paths that programs know."""
