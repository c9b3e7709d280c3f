# SPDX-License-Identifier: Apache-2.0
"""Layer 8: the command-line tools: argument parsing, reading and writing."""
