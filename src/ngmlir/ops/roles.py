# SPDX-License-Identifier: Apache-2.0
"""What names of axes say: which axis is that of samples, which that of steps, and which ones are features by place."""

from __future__ import annotations

import re

SAMPLES, STEPS = "N", "REC"

_FEATURE = re.compile(r"_(\d+)\Z")


def feature_name(number: int) -> str:
    """The name of a feature that so many stand after."""
    return f"_{number}"


def feature_number(name: str) -> int | None:
    """How many features stand after the one of this name; None for the name of no feature."""
    found = _FEATURE.match(name)
    return int(found[1]) if found else None


def by_place(name: str) -> bool:
    """Whether an axis is known by its place: features, and what functions of features call them in between."""
    return name.startswith("_")
