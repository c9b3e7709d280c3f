# SPDX-License-Identifier: Apache-2.0
"""Layer 8: aliases: import paths that existing programs use. It has no code."""
