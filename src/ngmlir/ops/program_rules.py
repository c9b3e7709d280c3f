# SPDX-License-Identifier: Apache-2.0
"""Rules of the program dialect: what a declaration and an operator are by themselves. `dialects/program.ngd` names them.

Whether the names of an operator are declared, and whether it is used as its definition says, is checked by `ngmlir.programs`.
"""

from __future__ import annotations

from ..ir.attributes import ArrayAttr, Attribute, DictAttr, SymbolRefAttr
from ..ir.definition import Typing
from ..ir.types import TensorType
from .fields import get_i64, get_str, get_type
from .rules import Types, require

#: What a variable may hold.
HOLDS = (
    "tensor", "selected_rows", "tensor_array", "rank_table", "step_scopes", "feed_list", "fetch_list", "reader", "raw",
)  # fmt: skip


def var(t: Typing) -> Types:
    type = get_type(t, "type")
    require(isinstance(type, TensorType), f"a variable is of a tensor type, not {type}")
    require(get_str(t, "holds") in HOLDS, f"a variable holds one of {', '.join(HOLDS)}")
    require(get_i64(t, "ragged") >= 0, "a variable has no negative number of ragged levels")
    parameter = t.attributes.get("parameter")
    require(parameter is None or isinstance(parameter, DictAttr), "'parameter' is a dictionary")
    return ()


def op(t: Typing) -> Types:
    for name in ("inputs", "outputs"):
        slots = t.attributes[name]
        require(
            isinstance(slots, DictAttr) and all(_is_slot(value) for _, value in slots.items),
            f"'{name}' gives each slot its variables, {{X = [@x]}}, not {slots}",
        )
    attrs = t.attributes.get("attrs")
    require(attrs is None or isinstance(attrs, DictAttr), "'attrs' is a dictionary")
    return ()


def _is_slot(value: Attribute) -> bool:
    return isinstance(value, ArrayAttr) and all(
        isinstance(item, SymbolRefAttr) and len(item.path) == 1 for item in value.items
    )
