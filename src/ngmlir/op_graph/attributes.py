# SPDX-License-Identifier: Apache-2.0
"""Attributes of nodes, whose values may tell of lengths that are not known yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import cast as cast_type

from ..ir.types import DYNAMIC
from ..ops.lengths import Length
from .axes import Axis


def resolved(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attribute values in which an axis or a `Length` stands for the length that it has now."""
    made = dict(attributes)
    for name, value in attributes.items():
        if isinstance(value, tuple):
            made[name] = tuple([_resolved(v) for v in cast_type("tuple[Any, ...]", value)])
        elif isinstance(value, Length):
            made[name] = value.length
    return made


def _resolved(value: Any) -> Any:
    if not isinstance(value, (Axis, Length)):
        return value
    length = value.length
    return DYNAMIC if length is None else length


def all_known(attributes: Mapping[str, Any]) -> bool:
    """Whether all lengths that attributes tell of are known now."""
    for value in attributes.values():
        for part in cast_type("tuple[Any, ...]", value if isinstance(value, tuple) else (value,)):
            if isinstance(part, (Axis, Length)) and part.length is None:
                return False
    return True
