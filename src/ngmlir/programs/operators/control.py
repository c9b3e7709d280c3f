# SPDX-License-Identifier: Apache-2.0
"""Operators that run blocks, that choose rows for branches, and that hold tensors in arrays."""

from __future__ import annotations

from ... import numpy as np
from ...ir.types import FloatType
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..definition import GradientOp
from ..descriptions import Operator
from ..names import gradient_name
from ..registry import gradient_maker, operator, without_value

without_value(
    "feed", "fetch", "while", "conditional_block", "recurrent",
    "write_to_array", "read_from_array", "clear_in_array", "lod_array_length",
    "lod_rank_table", "max_sequence_len", "lod_tensor_to_array", "array_to_lod_tensor", "shrink_rnn_memory", "running_rows",
    "reorder_lod_tensor_by_rank", "fill_constant_by_rank_table",
    "beam_search_decode",
)  # fmt: skip


@operator
def split_lod_tensor(x: Tensor, mask: Tensor, *, level: int) -> tuple[Tensor, Tensor]:
    if mask.type.shape[0] != x.type.shape[0]:
        raise UserError(
            f"a mask of {mask.type.shape[0]} rows chooses among {x.type.shape[0]}",
            hint="one bool for each row; layers.sequence_expand(mask, x) gives each row the bool of its sequence",
        )
    # Rows keep their places. Those that are not of a branch are rows that are, so that it computes nothing that it was not to.
    holds = np.reshape(mask, [mask.type.shape[0]])
    return _chosen(x, holds), _chosen(x, np.logical_not(holds))


def _chosen(x: Tensor, holds: Tensor) -> Tensor:
    if not x.type.shape[0]:
        return x
    first = np.argmax(np.astype(holds, "int32"))
    rows = np.arange(x.type.shape[0], dtype="int32")
    taken = np.take(x, np.where(holds, rows, np.astype(first, "int32")), axis=0, mode="clip")
    # A branch without rows computes something too: at 1, where most functions have slopes, and with the first row of tables.
    nothing = np.full_like(taken, 1 if isinstance(x.element, FloatType) else 0)
    return np.where(np.any(holds), taken, nothing)


@operator
def merge_lod_tensor(x: Tensor, mask: Tensor, in_true: Tensor, in_false: Tensor, *, level: int) -> Tensor:
    rank = len(in_true.type.shape)
    return np.where(np.reshape(mask, [mask.type.shape[0], *[1] * (rank - 1)]), in_true, in_false)


@gradient_maker("write_to_array")
def _written(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    error, at = gradient_name(out), op.inputs["I"]
    return [
        GradientOp("read_from_array", {"X": [error], "I": at}, {"Out": [gradient_name(x)]}),
        # What the array was before had another element there, or none.
        GradientOp("clear_in_array", {"X": [error], "I": at}, {"Out": [error]}),
    ]


@gradient_maker("read_from_array")
def _read(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    return [
        GradientOp(
            "write_to_array", {"X": [gradient_name(out)], "I": op.inputs["I"]}, {"Out": [gradient_name(x)]}
        )
    ]


def _through(type: str, back: str) -> None:
    """Registers an operator whose gradient is another one, with the same table."""

    def maker(op: Operator) -> list[GradientOp]:
        (x,), (out,) = op.inputs["X"], op.outputs["Out"]
        others = {slot: names for slot, names in op.inputs.items() if slot != "X"}
        return [GradientOp(back, {"X": [gradient_name(out)], **others}, {"Out": [gradient_name(x)]})]

    gradient_maker(type)(maker)


_through("lod_tensor_to_array", "array_to_lod_tensor")
_through("array_to_lod_tensor", "lod_tensor_to_array")
_through("shrink_rnn_memory", "shrink_rnn_memory")


@gradient_maker("reorder_lod_tensor_by_rank")
def _ordered(op: Operator) -> list[GradientOp]:
    (x,), (out,), table = op.inputs["X"], op.outputs["Out"], op.inputs["RankTable"]
    inputs = {"X": [gradient_name(out)], "RankTable": table}
    back = {"back": not op.attribute("back")}
    return [GradientOp("reorder_lod_tensor_by_rank", inputs, {"Out": [gradient_name(x)]}, back)]
