# SPDX-License-Identifier: Apache-2.0
"""What arguments are that may be one thing or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_several(value: Any) -> bool:
    """Whether a tuple or a list is given."""
    return isinstance(value, (tuple, list))


def is_named(value: Any) -> bool:
    """Whether a dictionary is given."""
    return isinstance(value, Mapping)
