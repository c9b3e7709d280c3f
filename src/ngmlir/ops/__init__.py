# SPDX-License-Identifier: Apache-2.0
"""Layer 3: the semantics of each op: its type rule, its value in NumPy, its gradient."""
