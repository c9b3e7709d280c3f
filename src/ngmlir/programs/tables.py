# SPDX-License-Identifier: Apache-2.0
"""Tables of which a rank has a block of rows: lookups, and gradients, among its own rows.

A number of a row becomes that of the row in the block, and one of another block becomes the number behind its last row, which reads as
zeros and gets no gradient (`padding_idx`). Sums over ranks of what they look up are rows of the whole table; gradients and
updates stay where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.attributes import IntegerAttr, boolean
from ..ir.types import i32
from ..support.diagnostics import Diagnostic, UserError
from .attributes import completed
from .catalogue import REGISTRY
from .descriptions import Operator, Program, Variable

#: What is added to the name of numbers of rows where they are those of a block.
_SUFFIX = ".rows"


def looks_up(operator: Operator) -> bool:
    """Whether an operator looks up rows of a table, W, by numbers, Ids, or is the gradient of one: each rank does so among its rows."""
    found = REGISTRY.find(operator.type.removesuffix("_grad"))
    return (
        found is not None
        and found.entry.numbers is not None
        and found.entry.attribute("is_distributed") is not None
    )


def distributed_tables(program: Program) -> dict[str, Operator]:
    """The tables whose rows are divided among ranks, each with the first operator that looks up rows of it."""
    found: dict[str, Operator] = {}
    for operator in program.top.operators:
        if operator.type == "lookup_table" and operator.attribute("is_distributed"):
            found.setdefault(operator.inputs["W"][0], operator)
    return found


def even(length: int, ranks: int) -> tuple[int, ...]:
    """As many for each rank as for any other, or one more for the first ones."""
    whole, rest = divmod(length, ranks)
    return tuple([whole + (rank < rest) for rank in range(ranks)])


def divided(variable: Variable, dimension: int, ranks: int) -> tuple[int, ...]:
    """How many steps of a dimension each rank has. Raises UserError, at the line of the variable, where there are too few."""
    shape = variable.shape
    if not 0 <= dimension < len(shape):
        message = f"'{variable.name}', of shape {list(shape)}, has no dimension {dimension} to divide"
        raise UserError(Diagnostic(message, variable.location, hint=f"sharded is 0 to {len(shape) - 1}"))
    if shape[dimension] < ranks:
        message = f"dimension {dimension} of '{variable.name}' has {shape[dimension]} steps for {ranks} ranks"
        hint = "each rank takes at least one: use fewer ranks, or divide another dimension"
        raise UserError(Diagnostic(message, variable.location, hint=hint))
    return even(shape[dimension], ranks)


#: Inserts an operator at a place: its type, inputs, outputs, attributes.
Insert = Callable[
    [int, str, Mapping[str, Sequence[str]], Mapping[str, Sequence[str]], Mapping[str, Any]], object
]


def exchanged_rows(operator: Operator, start: int, stop: int, rows: int, ranks: int, insert: Insert) -> None:
    """As `local_rows`, where each rank has different row numbers: each looks up those of all ranks, and receives the sums for its own."""
    block = operator.block

    def gathered(name: str) -> str:
        made = f"{name}.all"
        if block.find(made) is None:
            source = block.visible(name)
            block.declare(made, source.type, location=source.location)
            insert(operator.index, "all_gather", {"X": [name]}, {"Out": [made]}, {"ranks": ranks})
        return made

    operator.set_slot("inputs", "Ids", [gathered(operator.inputs["Ids"][0])])
    if operator.type == "lookup_table":
        (name,) = operator.outputs["Out"]
        made, source = f"{name}.sums", block.visible(name)
        block.declare(made, source.type, location=source.location)
        operator.set_slot("outputs", "Out", [made])
        insert(operator.index + 1, "reduce_scatter", {"X": [made]}, {"Out": [name]}, {"ranks": ranks})
    else:
        error = gathered(operator.inputs["Out@GRAD"][0])
        operator.set_slot("inputs", "Out@GRAD", [error])
        insert(operator.index, "scale", {"X": [error]}, {"Out": [error]}, {"scale": 1 / ranks})
    local_rows(operator, start, stop, rows)


def local_rows(operator: Operator, start: int, stop: int, rows: int) -> None:
    """Has a lookup (or its gradient) work on the rows from `start` to `stop` of a table of so many `rows`."""
    block = operator.block
    (ids,), (table,) = operator.inputs["Ids"], operator.inputs["W"]
    padding = operator.attribute("padding_idx")
    made = f"{ids}.{table}{_SUFFIX}" if padding == -1 else f"{ids}.{table}.{padding}{_SUFFIX}"
    if block.find(made) is None:
        source = block.visible(ids)
        block.declare(made, source.type, ragged=source.ragged, location=source.location)
        fields = {
            "start": start, "stop": stop, "rows": rows, "padding_idx": padding, "table": table,
            "op_role": operator.attribute("op_role") or 0,
        }  # fmt: skip
        attributes = completed(REGISTRY.get("shard_index").entry, fields)
        block.insert(
            operator.index, "shard_index", {"X": [ids]}, {"Out": [made]}, attributes, operator.location
        )
    operator.set_slot("inputs", "Ids", [made])
    operator.set_attribute("padding_idx", IntegerAttr(stop - start, i32))
    operator.set_attribute("is_distributed", boolean(False))
