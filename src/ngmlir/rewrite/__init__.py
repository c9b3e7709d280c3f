# SPDX-License-Identifier: Apache-2.0
"""Layer 4: rewriting of modules: the forward sweep, rules from text, passes and pipelines."""
