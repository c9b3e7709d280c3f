# SPDX-License-Identifier: Apache-2.0
"""The transformer `numpy`."""

from __future__ import annotations

from .transformer import Transformer


class NumPyTransformer(Transformer):
    """Runs ops one by one in NumPy: the reference."""

    transformer_name = target = "numpy"
