# SPDX-License-Identifier: Apache-2.0
"""Layer 3: what each op means: its type rule, its value in NumPy, its gradient."""
