# SPDX-License-Identifier: Apache-2.0
"""Layer 4: how modules change: the forward sweep, rules from text, passes and pipelines."""
