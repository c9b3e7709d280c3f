# SPDX-License-Identifier: Apache-2.0
"""Lengths that change from call to call: which ops read them row by row, and functions for blocks of rows."""
