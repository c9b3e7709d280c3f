# SPDX-License-Identifier: Apache-2.0
"""All operators that come with ngmlir, registered; `REGISTRY` with whatever users add."""

from __future__ import annotations

from .operators import (  # noqa: F401  (each registers what is in it)
    activations,
    control,
    elementwise,
    filling,
    images,
    losses,
    metrics,
    products,
    reductions,
    shaping,
    updates,
)
from .registry import REGISTRY

__all__ = ["REGISTRY"]
