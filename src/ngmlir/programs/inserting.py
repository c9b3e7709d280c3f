# SPDX-License-Identifier: Apache-2.0
"""Insertion of operators next to an operator: variables in another form, and the operators that convert between forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir.types import TensorType
from .attributes import completed
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator


def declare_like(
    block: BlockView, name: str, type: TensorType, first: str, separator: str, flags: Iterable[str] = ()
) -> str:
    """Declares a variable for another one in another form: under the name `first`, with a number behind the separator where that is
    taken."""
    source = block.visible(name)
    made, number = first, 0
    while block.find(made) is not None:
        number += 1
        made = f"{first}{separator}{number}"
    block.declare(made, type, flags=flags, ragged=source.ragged, location=source.location)
    return made


def insert_for(
    operator: Operator, at: int, type: str, source: str, target: str, given: Mapping[str, Any]
) -> None:
    """Inserts an operator from X to Out that belongs to another."""
    insert_like(operator, operator.block, at, type, {"X": [source]}, {"Out": [target]}, given)


def insert_like(
    operator: Operator,
    block: BlockView,
    at: int,
    type: str,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    given: Mapping[str, Any],
) -> None:
    """Inserts an operator into a block that has the line of another one, and the role, where `given` says no other."""
    role = operator.attribute("op_role")
    attributes = completed(REGISTRY.get(type).entry, {**({} if role is None else {"op_role": role}), **given})
    block.insert(at, type, inputs, outputs, attributes, operator.location)
