# SPDX-License-Identifier: Apache-2.0
"""The structure of a program, without names and locations: equal structures get equal code.

The names and locations of values, and the `ng.name` of arguments, are not part of it; symbols are, except
that of the op itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from hashlib import sha256

from .attributes import ArrayAttr, Attribute, DictAttr, dictionary_text
from .core import Block, Op, Value, described, op_name
from .elements import ElementsAttr

_AXIS_NAMES = re.compile(r"#ng\.axes<[^<>]*>")


def structure(op: Op) -> Hashable:
    """A key that is equal for ops of equal structure, without its symbol; it refers to no value and no op."""
    return tuple(_items(op, _kind_of))


def fingerprint(op: Op) -> tuple[str, tuple[ElementsAttr, ...]]:
    """A digest of the structure (the same in every process), and the opaque constants of the program. The names of axes are not part of it:
    code does not depend on them, and many count the axes of a process.

    The digest has the type of an opaque constant and its index in this tuple, where equal constants occur once.
    """
    numbers: dict[ElementsAttr, int] = {}

    def constant(attribute: Attribute) -> str:
        assert isinstance(attribute, ElementsAttr)
        if not attribute.opaque:
            return attribute.text
        return f"constant {numbers.setdefault(attribute, len(numbers))} : {attribute.type}"

    known: dict[object, str] = {}

    def describe(op: Op) -> str:
        if op.regions:
            return _text_of(op, constant)
        text = known.get(op.kind)
        if text is None:
            # Constants have kinds of their own, so their numbers never change.
            text = known[op.kind] = _text_of(op, constant)
        return text

    digest = sha256()
    for item in _items(op, describe):
        digest.update(_AXIS_NAMES.sub("#ng.axes", f"{item}\n").encode())
    return digest.hexdigest(), tuple(numbers)


def _kind_of(op: Op) -> Hashable:
    if not op.regions:
        return op.kind
    types = tuple([v.type for v in (*op.operands, *op.results)])
    return op_name(op), types, _unnamed(op)


def _text_of(op: Op, constant: Callable[[Attribute], str]) -> str:
    types = ", ".join([v.type.text for v in (*op.operands, *op.results)])
    kept = _unnamed(op) if op.regions else tuple(described(op).items())
    return f"{op_name(op)} : {types} {dictionary_text(kept, constant)}"


def _unnamed(op: Op) -> tuple[tuple[str, Attribute], ...]:
    """The attributes of an op with regions, without its symbol and the names of a function's arguments."""
    kept: list[tuple[str, Attribute]] = []
    for name, value in described(op).items():
        if name in ("arg_attrs", "res_attrs") and isinstance(value, ArrayAttr):
            items = [_without_name(each) for each in value.items]
            if any(isinstance(each, DictAttr) and each.items for each in items):
                kept.append((name, ArrayAttr(tuple(items))))
        elif name != "sym_name":
            kept.append((name, value))
    return tuple(kept)


def _without_name(details: Attribute) -> Attribute:
    if not isinstance(details, DictAttr):
        return details
    return DictAttr(tuple([(k, v) for k, v in details.items if k != "ng.name"]))


def _items(top: Op, describe: Callable[[Op], Hashable]) -> Iterator[Hashable]:
    """Every op below and including `top` in text order, with the numbers of its operands and results, and the counts that
    distinguish nestings."""
    numbers: dict[Value, int] = {}
    blocks: dict[Block, int] = {}
    stack: list[Op | Block] = [top]
    while stack:
        item = stack.pop()
        if isinstance(item, Block):
            yield tuple([a.type for a in item.args])
            yield len(item.ops)
            for argument in item.args:
                numbers[argument] = len(numbers)
            stack += reversed(item.ops)
            continue
        if item is not top and item.regions:
            yield item.symbol
        yield describe(item)
        for operand in item.operands:
            # A value that is defined later (in another block) is numbered at its first use.
            yield numbers.setdefault(operand, len(numbers))
        for result in item.results:
            yield numbers.setdefault(result, len(numbers))
        for successor in item.successors:
            yield blocks.setdefault(successor, len(blocks))
        for region in item.regions:
            yield len(region.blocks)
            for block in region.blocks:
                yield blocks.setdefault(block, len(blocks))
        for region in reversed(item.regions):
            stack += reversed(region.blocks)
