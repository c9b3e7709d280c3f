# SPDX-License-Identifier: Apache-2.0
"""Ops by CSS selectors: an element is an op (its type), `#` its name, `.` its label, `[key=value]` its metadata, and its
ancestors are the scopes that it was made in, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.state import AssignableTensorOp
from ..common.slots import own_name

_NAME = r"[\w-]+"
_SIMPLE = re.compile(
    rf"(?P<any>\*)|(?P<type>{_NAME})|#(?P<id>{_NAME})|\.(?P<class>{_NAME})"
    rf"|\[\s*(?P<key>{_NAME})\s*(?:(?P<by>[\^$*~]?=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\]\s]+)\s*)?\]"
)
_BETWEEN = re.compile(r"\s*(?P<child>>)\s*|\s+")
_COMPARE: dict[str, Callable[[str, str], bool]] = {
    "=": lambda have, asked: have == asked,
    "^=": lambda have, asked: have.startswith(asked),
    "$=": lambda have, asked: have.endswith(asked),
    "*=": lambda have, asked: asked in have,
    "~=": lambda have, asked: asked in have.split(),
}


@dataclass(frozen=True)
class Element:
    """What a part of a selector is held against: an op, or a scope."""

    types: frozenset[str]
    names: frozenset[str]
    labels: frozenset[str]
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Compound:
    """Parts of a selector that one element must all satisfy; `child` where its parent is the compound before."""

    parts: tuple[re.Match[str], ...]
    child: bool

    def matches(self, element: Element) -> bool:
        return all(_matches(part, element) for part in self.parts)


def _matches(part: re.Match[str], element: Element) -> bool:
    if part["any"]:
        return True
    if part["type"]:
        return part["type"] in element.types
    if part["id"]:
        return part["id"] in element.names
    if part["class"]:
        return part["class"] in element.labels
    if part["key"] not in element.metadata:
        return False
    asked = part["value"]
    if asked is None:
        return True
    asked = asked[1:-1] if asked[0] in "\"'" else asked
    return _COMPARE[part["by"]](str(element.metadata[part["key"]]), asked)


def _parsed(selector: str) -> list[Compound]:
    chain: list[Compound] = []
    parts: list[re.Match[str]] = []
    at, child = 0, False
    while at < len(selector):
        if found := _SIMPLE.match(selector, at):
            parts.append(found)
        elif parts and (found := _BETWEEN.match(selector, at)):
            chain.append(Compound(tuple(parts), child))
            parts, child = [], found["child"] is not None
        else:
            break
        at = found.end()
    if at < len(selector) or not parts:
        fail(
            UserError,
            f"{selector!r} is no selector of ops, from {selector[at:]!r} on"
            if parts or selector
            else "a selector is empty",
            "write 'DotOp', '#W', '.weight', '[mode=inference]', or several: 'Affine > Linear .weight, .bias'",
        )
    return [*chain, Compound(tuple(parts), child)]


def _element(op: Op) -> Element:
    types = {kind.__name__ for kind in type(op).__mro__}
    if isinstance(op, AssignableTensorOp):
        types.add(op.role.value)
    label: Any = op.metadata.get("label", ())
    labels = [label] if isinstance(label, str) else label
    return Element(frozenset(types), frozenset({op.name, own_name(op)}), frozenset(labels), op.metadata)


def _scopes(op: Op) -> list[Element]:
    """The scopes around an op, outermost first; one that is numbered (`Affine_1`) has the type before the number too."""
    names = op.scope.split("/") if op.scope else []
    return [
        Element(frozenset({name, re.sub(r"_\d+$", "", name)}), frozenset({name}), frozenset(), {})
        for name in names
    ]


def _leads(chain: Sequence[Compound], around: Sequence[Element], direct: bool) -> bool:
    """Whether the compounds of a chain are found, in their order, among what is around."""
    if not chain:
        return True
    last = chain[-1]
    for at in range(len(around) - 1, -1, -1):
        if last.matches(around[at]) and _leads(chain[:-1], around[:at], last.child):
            return True
        if direct:
            return False
    return False


def selected(ops: Sequence[Op], css: str) -> list[Op]:
    """The ops that a selector (or one of several, between commas) matches. UserError for what is no selector."""
    if not isinstance(css, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"a selector is a string, not {css!r}")
    chains = [_parsed(each.strip()) for each in css.split(",")]
    return [
        op
        for op in ops
        if any(c[-1].matches(_element(op)) and _leads(c[:-1], _scopes(op), c[-1].child) for c in chains)
    ]
