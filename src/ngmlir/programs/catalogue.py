# SPDX-License-Identifier: Apache-2.0
"""All operators that come with ngmlir, registered; `REGISTRY` with whatever users add."""

from __future__ import annotations

from .operators import (  # noqa: F401  (each registers what is in it)
    activations,
    beams,
    cells,
    collectives,
    comparisons,
    control,
    elementwise,
    files,
    filling,
    functions,
    images,
    labelling,
    losses,
    metrics,
    normalization,
    on_rows,
    products,
    recurrent,
    reductions,
    sequences,
    shaping,
    tables,
    updates,
)
from .registry import REGISTRY

__all__ = ["REGISTRY"]
