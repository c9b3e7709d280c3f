# SPDX-License-Identifier: Apache-2.0
"""`DynamicRNN`: a block that runs for each step of sequences of different lengths; and rank tables, which order them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ....programs.vartypes import VarType, vartype
from ....support.diagnostics import UserError
from .. import unique_name
from ..framework import Block, Variable
from ..layer_helper import LayerHelper, one_op
from .static_rnn import Network
from .sub_blocks import filled_by_user

__all__ = [
    "DynamicRNN", "array_to_lod_tensor", "lod_rank_table", "lod_tensor_to_array", "max_sequence_len",
    "reorder_lod_tensor_by_rank", "shrink_memory",
]  # fmt: skip


class DynamicRNN(Network):
    """A recurrent network over sequences of different lengths; all steps share their parameters.

    rnn = DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[8])
        hidden = layers.fc(input=[word, before], size=8)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    outputs = rnn()

    In a step there is a row for each sequence, the longest first; the rows of sequences that have ended come last, and what is
    computed of them is not used.
    """

    opening = "rnn.block()"

    def __init__(self, name: str | None = None):
        super().__init__("dynamic_rnn", name)
        self._table: Variable | None = None

    @filled_by_user
    def block(self) -> Generator[None]:
        """The block of one step. Raises UserError for a memory that it does not update."""
        with self._filled():
            yield

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Has the next step read `new_mem` as the memory."""
        self._update(ex_mem, new_mem)

    def _order(self) -> dict[str, Any]:
        return {"RankTable": [self._ranks()]}

    def _whole(self, outer: Block, output: Variable) -> Variable:
        return outer.create_var(
            name=output.name,
            shape=(-1, *output.shape[1:]),
            dtype=output.dtype,
            lod_level=output.lod_level + 1,
        )

    def _outside(
        self, operator: str, inputs: dict[str, Any], dtype: Any, kind: VarType = VarType.LOD_TENSOR
    ) -> Variable:
        """An operator of the block around the step."""
        outer = self._around()
        name = unique_name.generate(f"{self.helper.name}.{operator}")
        made = outer.create_var(name=name, dtype=dtype, type=kind)
        made.stop_gradient = kind == VarType.LOD_RANK_TABLE
        outer.append_op(type=operator, inputs=inputs, outputs={"Out": [made]})
        return made

    def _ranks(self) -> Variable:
        if self._table is None:
            raise UserError(
                "the sequences that a network goes over come before all else", hint="rnn.step_input(x) first"
            )
        return self._table

    def step_input(self, x: Variable) -> Variable:
        """The items of sequences that a step reads: rows, or, of sequences of sequences, sequences."""
        inner = self._block("the input of a step")
        _ragged(x, "step_input")
        self._check_around(x, "the network goes over")
        if x.name not in self._steps:
            if self._table is None:
                self._table = self._outside("lod_rank_table", {"X": [x]}, "float32", VarType.LOD_RANK_TABLE)
            self._inputs.append(x)
            name = unique_name.generate(f"{self.helper.name}.step")
            self._steps[x.name] = inner.create_var(
                name=name, shape=(-1, *x.shape[1:]), dtype=x.dtype, lod_level=x.lod_level - 1
            )
        return self._steps[x.name]

    def static_input(self, x: Variable) -> Variable:
        """Rows, or sequences, one for each sequence of the input, which all steps read: in the order in which steps have them."""
        self._block("a static input")
        self._check_around(x, "all steps read")
        inputs = {"X": [x], "RankTable": [self._ranks()]}
        return self._outside("reorder_lod_tensor_by_rank", inputs, x.dtype)

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """What a step reads of the step before. It begins as `init`, a row for each sequence: in the order of their lengths, or, with
        `need_reorder`, in that of the input; or as a number in `shape`, which is that of a row."""
        self._block("a memory")
        if init is not None:
            self._check_around(init, "the memory begins as")
            if need_reorder:
                inputs = {"X": [init], "RankTable": [self._ranks()]}
                init = self._outside("reorder_lod_tensor_by_rank", inputs, init.dtype)
            return self._memory(init)
        if shape is None:
            raise UserError("a memory begins as init=, or has a shape=", hint="memory(shape=[8], value=0.0)")
        table = self._ranks()
        outer = self._around()
        made = outer.create_var(
            name=unique_name.generate(f"{self.helper.name}.memory_init"), dtype=vartype(dtype)
        )
        outer.append_op(
            type="fill_constant_by_rank_table",
            inputs={"RankTable": [table]},
            outputs={"Out": [made]},
            attrs={"shape": list(shape), "value": float(value), "dtype": vartype(dtype)},
        )
        return self._memory(made)

    def output(self, *outputs: Variable) -> None:
        """Has the network give variables of the step: those of all steps, as sequences like those of the input."""
        for each in outputs:
            self._step_output(each)


def _ragged(x: Any, layer: str) -> Variable:
    if not isinstance(x, Variable) or not x.lod_level:
        said = f"'{x.name}' has none" if isinstance(x, Variable) else f"not {x!r}"
        raise UserError(f"{layer} takes a variable of sequences, {said}", hint="declare it with lod_level=1")
    return x


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The sequences of a level in the order of their lengths, the longest first."""
    helper = LayerHelper("lod_rank_table")
    made = helper.create_variable(name=f"{helper.name}.out", type=VarType.LOD_RANK_TABLE, stop_gradient=True)
    helper.append_op(
        type="lod_rank_table",
        inputs={"X": [_ragged(x, "lod_rank_table")]},
        outputs={"Out": [made]},
        attrs={"level": level},
    )
    return made


def _is_table(table: Any, layer: str) -> Variable:
    if not isinstance(table, Variable) or table.type != VarType.LOD_RANK_TABLE:
        raise UserError(
            f"{layer} takes a rank table, not {table!r}", hint="layers.lod_rank_table(x) makes one"
        )
    return table


def max_sequence_len(rank_table: Variable) -> Variable:
    """The length of the longest sequence: int64, [1]."""
    made = one_op(
        "max_sequence_len", {"RankTable": _is_table(rank_table, "max_sequence_len")}, {"Out": "int64"}
    )
    made.stop_gradient = True
    return made


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """An array of the steps of sequences: element t holds item t of every sequence that is longer than t, the longest first."""
    helper = LayerHelper("lod_tensor_to_array")
    made = helper.create_variable(name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype)
    inputs = {
        "X": [_ragged(x, "lod_tensor_to_array")],
        "RankTable": [_is_table(table, "lod_tensor_to_array")],
    }
    helper.append_op(type="lod_tensor_to_array", inputs=inputs, outputs={"Out": [made]})
    return made


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """The sequences of which `lod_tensor_to_array` made an array, in their order."""
    inputs = {"X": x, "RankTable": _is_table(table, "array_to_lod_tensor")}
    return one_op("array_to_lod_tensor", inputs, {"Out": x.dtype})


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The first rows of x, as many as sequences are longer than i; the others are zeros behind them."""
    inputs = {"X": x, "I": i, "RankTable": _is_table(table, "shrink_memory")}
    return one_op("shrink_rnn_memory", inputs, {"Out": x.dtype})


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """Rows of x, or its sequences, in the order of a rank table."""
    inputs = {"X": x, "RankTable": _is_table(rank_table, "reorder_lod_tensor_by_rank")}
    return one_op("reorder_lod_tensor_by_rank", inputs, {"Out": x.dtype})
