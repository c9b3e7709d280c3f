# SPDX-License-Identifier: Apache-2.0
"""Names of values and spellings of attributes in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .attributes import (
    Attribute,
    DenseArrayAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    dictionary_text,
)
from .core import Op, Value
from .definition import OpDefinition
from .elements import LISTED, ElementsAttr
from .resources import ELIDED, resource_name
from .types import FunctionType, Type, index

_FREE_NAME = re.compile(r"[A-Za-z_$.\-][\w$.\-]*\Z")


class Wording:
    """The names of values, and the spelling of attributes, in one text."""

    def __init__(self, elide: int | None, has_section: bool):
        self.elide = elide
        self.has_section = has_section
        self.resources: dict[ElementsAttr, str] = {}
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.given: list[tuple[str, str, int]] = []  # (made, wanted, n) of the names in `taken`, in order
        self.suffixes: dict[str, int] = {}  # the first n for which `name_n` may be free
        self.next_number = 0
        self.aliases: dict[Type, str] = {}  # types with an alias, which is defined before the text

    def spelled(self, type: Type) -> str:
        """A type, or its alias."""
        return self.aliases.get(type) or type.text

    def signature(self, inputs: Sequence[Type], results: Sequence[Type]) -> str:
        """`(A, B) -> C`, the type of a function."""
        if not self.aliases:
            return FunctionType(tuple(inputs), tuple(results)).text
        one = len(results) == 1 and not isinstance(results[0], FunctionType)
        out = ", ".join(map(self.spelled, results))
        return f"({', '.join(map(self.spelled, inputs))}) -> {out if one else f'({out})'}"

    def name(self, value: Value) -> str:
        """`%name`, made unique among the visible names; a number if the value has no name."""
        found = self.names.get(value)
        if found is not None:
            return found
        wanted = value.name or _named_by_number(value)
        if wanted and _FREE_NAME.match(wanted):
            made, n = wanted, -1
            if made in self.taken:
                n = self.suffixes.get(wanted, 0)
                while (made := f"{wanted}_{n}") in self.taken:
                    n += 1
                self.suffixes[wanted] = n + 1
            self.taken.add(made)
            self.given.append((made, wanted, n))
        else:
            while (made := str(self.next_number)) in self.taken:
                self.next_number += 1
            self.next_number += 1
        made = "%" + made
        self.names[value] = made
        return made

    def literal(self, attribute: Attribute) -> str:
        """A constant array without its type."""
        assert isinstance(attribute, ElementsAttr)
        count = attribute.type.size
        if attribute.splat:
            return attribute.literal
        if self.elide is not None and count > self.elide:
            return f"dense_resource<{ELIDED}>"
        if not self.has_section or count <= LISTED:
            return attribute.literal
        name = self.resources.setdefault(attribute, f"constant_{len(self.resources)}")
        return f"dense_resource<{resource_name(name)}>"

    def constant(self, attribute: Attribute) -> str:
        assert isinstance(attribute, ElementsAttr)
        return f"{self.literal(attribute)} : {attribute.type}"

    def dictionary(self, items: Iterable[tuple[str, Attribute]]) -> str:
        return dictionary_text(tuple(items), self.constant)

    def release(self, mark: int) -> None:
        """Releases all names but the first `mark`."""
        for made, wanted, n in self.given[mark:]:
            self.taken.discard(made)
            if n >= 0:
                self.suffixes[wanted] = min(n, self.suffixes.get(wanted, n))
        del self.given[mark:]

    def short(self, attribute: Attribute | None) -> str:
        """The spelling of an attribute inside a form, where its kind is known."""
        match attribute:
            case None:
                return ""
            case DenseArrayAttr():
                return f"[{', '.join(map(str, attribute.values))}]"
            case ElementsAttr():
                return self.literal(attribute)
            case OpaqueAttr():
                return attribute.text
            case StringAttr() if attribute.value.isidentifier():
                return attribute.value
            case IntegerAttr() | FloatAttr():
                return attribute.text.partition(" :")[0]
            case _:
                return attribute.text


def _named_by_number(value: Value) -> str:
    """`c4` for a constant index, as in MLIR; '' for other values."""
    owner = value.owner
    if value.type is not index or not isinstance(owner, Op) or "constant" not in owner.traits:
        return ""
    number = owner.attributes.get("value")
    return f"c{number.value}" if isinstance(number, IntegerAttr) else ""


def is_default(definition: OpDefinition, name: str, value: Attribute) -> bool:
    field = definition.attribute_field(name)
    return field is not None and field.default is value
