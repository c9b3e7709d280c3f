# SPDX-License-Identifier: Apache-2.0
"""The meaning of axis names: the axis of samples, the axis of steps, and features, which are identified by position."""

from __future__ import annotations

import re

SAMPLES, STEPS = "N", "REC"

_FEATURE = re.compile(r"_(\d+)\Z")


def feature_name(number: int) -> str:
    """The name of the feature axis with `number` feature axes after it."""
    return f"_{number}"


def feature_number(name: str) -> int | None:
    """How many feature axes follow the one of this name; None if it is not a feature."""
    found = _FEATURE.match(name)
    return int(found[1]) if found else None


def by_place(name: str) -> bool:
    """Whether an axis is identified by its position: features, and axes that functions of features name temporarily."""
    return name.startswith("_")
