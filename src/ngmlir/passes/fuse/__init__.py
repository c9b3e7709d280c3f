# SPDX-License-Identifier: Apache-2.0
"""Passes from tensor ops to fusions with loop nests: one module per pass, and modules that they share."""
