# SPDX-License-Identifier: Apache-2.0
"""Operators on sequences in the order of their lengths, and on their steps."""

from __future__ import annotations

from collections.abc import Callable

from .. import numpy as np
from ..ir.literals import dtype_of
from ..op_graph.tensor import Tensor
from ..support.diagnostics import UserError
from .arrays import StackedArray, TensorArray
from .beams import beam_search_decode
from .block_values import Lowering, called, kept
from .definition import Levels
from .descriptions import Operator
from .rank_tables import RankTable, rank_table
from .vartypes import element_of


def _input(lowering: Lowering, operator: Operator, slot: str) -> str:
    (name,) = operator.inputs[slot]
    return name


def _tensor(lowering: Lowering, operator: Operator, slot: str) -> Tensor:
    name = _input(lowering, operator, slot)
    held = kept(lowering.read(operator, name))
    if not isinstance(held, Tensor):
        raise UserError(f"operator {operator.type} takes a tensor as {slot}, and '{name}' is {called(held)}")
    return held


def table_of(lowering: Lowering, operator: Operator) -> RankTable:
    name = _input(lowering, operator, "RankTable")
    held = lowering.read(operator, name)
    if not isinstance(held, RankTable):
        raise UserError(
            f"operator {operator.type} takes a rank table, and '{name}' is {called(held)}",
            hint="layers.lod_rank_table(x) makes one of a ragged variable",
        )
    return held


def _give(lowering: Lowering, operator: Operator, slot: str, value: Tensor, levels: Levels = ()) -> None:
    (name,) = operator.outputs[slot]
    lowering.write(operator, name, value, levels)


def _ragged(lowering: Lowering, operator: Operator) -> Levels:
    name = _input(lowering, operator, "X")
    levels = lowering.levels_of(operator, name)
    if not levels:
        raise UserError(
            f"operator {operator.type} takes sequences, and '{name}' is not ragged",
            hint="declare it with lod_level=1",
        )
    return levels


def lod_rank_table(lowering: Lowering, operator: Operator) -> None:
    levels, level = _ragged(lowering, operator), operator.attribute("level") or 0
    if level >= len(levels):
        raise UserError(
            f"'{_input(lowering, operator, 'X')}' has {len(levels)} ragged levels, and level is {level}"
        )
    offsets = levels[level]
    deeper = levels[level + 1 :]
    items = deeper[0].type.shape[0] - 1 if deeper else _tensor(lowering, operator, "X").type.shape[0]
    (name,) = operator.outputs["Out"]
    lowering.write(operator, name, rank_table(offsets, items, lambda: lowering.longest(offsets)))


def max_sequence_len(lowering: Lowering, operator: Operator) -> None:
    table = table_of(lowering, operator)
    inside = table.offsets in lowering.bounds
    length = np.reshape(np.max(table.lengths), [1]) if inside else np.asarray([table.longest])
    _give(lowering, operator, "Out", np.astype(length, "int64"))


def lod_tensor_to_array(lowering: Lowering, operator: Operator) -> None:
    table, x = table_of(lowering, operator), _tensor(lowering, operator, "X")
    levels = lowering.levels_of(operator, _input(lowering, operator, "X"))
    if len(levels) > 2:
        raise UserError(f"the steps of at most two levels are taken apart, and there are {len(levels)}")
    if table.offsets in levels[1:]:
        message = f"the rank table is of level {levels.index(table.offsets)} of '{_input(lowering, operator, 'X')}', and its steps are of level 0"
        hint = "layers.lod_rank_table(x) is of level 0; layers.lod_reset(x, y) gives rows the sequences of y alone"
        raise UserError(message, hint=hint)
    for own in levels[:1]:
        lowering.agree(own, table.offsets)
    (name,) = operator.outputs["Out"]
    lowering.write(operator, name, table.steps(x, levels[1:], lowering.size))


def array_to_lod_tensor(lowering: Lowering, operator: Operator) -> None:
    table, name = table_of(lowering, operator), _input(lowering, operator, "X")
    held = lowering.read(operator, name)
    if isinstance(held, TensorArray):
        held = held.stacked(table.longest)
    if not isinstance(held, StackedArray):
        raise UserError(f"operator array_to_lod_tensor takes an array, and '{name}' is {called(held)}")
    _give(lowering, operator, "Out", *table.sequences(held, lowering.size))


def shrink_rnn_memory(lowering: Lowering, operator: Operator) -> None:
    table = table_of(lowering, operator)
    _give(
        lowering,
        operator,
        "Out",
        table.shrunk(_tensor(lowering, operator, "X"), _tensor(lowering, operator, "I")),
    )


def running_rows(lowering: Lowering, operator: Operator) -> None:
    table, turn = table_of(lowering, operator), lowering.turns[-1]
    assert turn is not None
    rows = np.less(np.arange(table.count, dtype="int32"), table.running(turn))
    _give(lowering, operator, "Out", np.astype(np.expand_dims(rows, -1), "int32"))


def fill_constant_by_rank_table(lowering: Lowering, operator: Operator) -> None:
    shape = [table_of(lowering, operator).count, *operator.attribute("shape")]
    dtype = dtype_of(element_of(operator.attribute("dtype")))
    _give(lowering, operator, "Out", np.full(shape, operator.attribute("value"), dtype))


def reorder_lod_tensor_by_rank(lowering: Lowering, operator: Operator) -> None:
    table, x = table_of(lowering, operator), _tensor(lowering, operator, "X")
    levels = lowering.levels_of(operator, _input(lowering, operator, "X"))
    _give(lowering, operator, "Out", *table.ordered(x, levels, is_back=bool(operator.attribute("back"))))


RANK_OPERATORS: dict[str, Callable[[Lowering, Operator], None]] = {
    "lod_rank_table": lod_rank_table,
    "max_sequence_len": max_sequence_len,
    "lod_tensor_to_array": lod_tensor_to_array,
    "array_to_lod_tensor": array_to_lod_tensor,
    "fill_constant_by_rank_table": fill_constant_by_rank_table,
    "shrink_rnn_memory": shrink_rnn_memory,
    "running_rows": running_rows,
    "reorder_lod_tensor_by_rank": reorder_lod_tensor_by_rank,
    "beam_search_decode": beam_search_decode,
}
