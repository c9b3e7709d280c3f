# SPDX-License-Identifier: Apache-2.0
"""The transformer `cpu`."""

from __future__ import annotations

from .transformer import Transformer


class CPUTransformer(Transformer):
    """Compiles for this machine's CPU."""

    transformer_name = target = table = "cpu"
