# SPDX-License-Identifier: Apache-2.0
"""Type rules of loop nests (ir/nest.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ir.attributes import Attribute
from ..ir.definition import Typing
from ..ir.nest import NEST, NestAttr, complaint
from ..ir.types import Type, element_type
from ..support.diagnostics import Diagnostic
from .rules import require


def nest_complaints(name: str, attributes: Mapping[str, Attribute]) -> Iterator[Diagnostic]:
    """Errors in the attribute by itself."""
    if name != "ng.fusion":
        yield Diagnostic(f"has '{NEST}', which only ng.fusion has")
    elif not isinstance(attributes[NEST], NestAttr):
        yield Diagnostic(f"'{NEST}' must be #ng.nest<...>, not {attributes[NEST]}")


def inside(t: Typing) -> tuple[Sequence[Type], Sequence[Type]]:
    """The types of a fusion's operands and results inside it."""
    nest = t.attributes.get(NEST)
    if not isinstance(nest, NestAttr):
        return t.operands, t.results
    why = complaint(nest, t.operands, t.results)
    require(not why, why)
    given = [nest.type_over(m.used, element_type(r)) for m, r in zip(nest.writes, t.results, strict=True)]
    return nest.inside(t.operands), given
