# SPDX-License-Identifier: Apache-2.0
"""Functions with lengths that are taken from the arrays of a call: types leave them open (`?`), or `ng.open` of an argument names
the dimension whose length in the argument's type is only an example."""

from __future__ import annotations

from ..ir.attributes import ArrayAttr, DictAttr
from ..ir.core import Module, Op
from ..ir.types import TensorType

OPEN = "ng.open"


def is_sampled(function: Op) -> bool:
    """Whether a length in the type of an argument is only an example."""
    labels = function.attributes.get("arg_attrs")
    items = labels.items if isinstance(labels, ArrayAttr) else ()
    return any(name == OPEN for each in items if isinstance(each, DictAttr) for name, _ in each.items)


def open_entry(module: Module, entry: str | None) -> Op | None:
    """The function called `entry` (@main, or the only one), if lengths of its arguments are taken from the arrays of a call."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    found = module.lookup(entry or "main") if entry or len(functions) != 1 else functions[0]
    if found is None or found not in functions:
        return None
    open_ = any(isinstance(a.type, TensorType) and not a.type.static for a in found.block.args)
    return found if open_ or is_sampled(found) else None


def of_its_lengths(function: Op) -> Op:
    """The function for exactly the lengths of its types, without `ng.open`; itself if it has none."""
    labels = function.attributes.get("arg_attrs")
    if not isinstance(labels, ArrayAttr) or not is_sampled(function):
        return function
    kept = [
        DictAttr(tuple([item for item in each.items if item[0] != OPEN]))
        if isinstance(each, DictAttr)
        else each
        for each in labels.items
    ]
    return function.rebuilt(attributes={**function.attributes, "arg_attrs": ArrayAttr(tuple(kept))})
