# SPDX-License-Identifier: Apache-2.0
"""Loops with conditions: what their blocks write is carried from iteration to iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .. import numpy as np
from ..ir.types import Type
from ..op_graph.axes import Axes
from ..op_graph.known import known_value
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..ops import ng
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.spelling import counted
from .arrays import StackedArray, TensorArray
from .attributes import values_of
from .block_values import Entered, Kept, Lowering, all_operators, empty_array, flat, kept, shaped, truth
from .catalogue import REGISTRY
from .descriptions import Operator
from .names import EMPTY
from .rank_tables import RankTable
from .trips import Trips, trips


def lower_while(lowering: Lowering, operator: Operator) -> None:
    """A loop: what its block writes is carried."""
    entered = Entered(lowering, operator)
    (condition,) = operator.inputs["Condition"]
    if condition not in entered.wrote:
        message = f"the block of this loop never writes its condition '{condition}': it would never end"
        hint = f"layers.less_than(counter, limit, cond={condition}) at the end of the block"
        raise UserError(Diagnostic(message, operator.location, hint=hint))
    entered.used.setdefault(condition, kept(lowering.read(operator, condition)))
    counts = trips(entered.block, condition, lambda n: _known(entered, n), _build, _Lengths(entered).use)
    before = entered.before()
    before = _with_rows(entered, {n: _with_room(entered, n, v, counts) for n, v in before.items()})
    start, types = [*flat(before), _first()], _types(before)

    def asked(*values: Tensor) -> Sequence[Tensor]:
        return [truth(shaped(before, values)[condition])]

    def iteration(*values: Tensor) -> Sequence[Tensor]:
        turn = values[-1]
        made = entered.built(shaped(before, values), turn)
        return [*entered.fitting(made, before), np.add(turn, np.asarray(1, dtype="uint64"))]

    loop = ControlOp(ng.WhileOp, start, [build_region(types, asked), build_region(types, iteration)], types)
    after = shaped(before, loop.results)
    if counts is not None and counts.is_exact:
        after |= {n: np.asarray(v) for n, v in counts.ends.items() if n in after}
    entered.finish(after)


def _first() -> Tensor:
    """The number of the first iteration."""
    return np.asarray(0, dtype="uint64")


def _types(before: Mapping[str, Kept]) -> list[tuple[Axes, Type]]:
    """What a loop carries: these values, and the number of the iteration."""
    return [(s.axes, s.element) for s in (*flat(before), _first())]


#: How often a loop is built to see how many rows it gives the elements of arrays.
_MOST_BUILT = 8


class _Lengths:
    """The numbers of elements of arrays while a loop is counted."""

    def __init__(self, entered: Entered):
        self.operators = entered.block.operators
        self.now = {n: len(v.elements) for n, v in entered.used.items() if isinstance(v, TensorArray)}
        lengths = {n: known_value(v.length) for n, v in entered.used.items() if isinstance(v, StackedArray)}
        self.now.update({n: int(v[0]) for n, v in lengths.items() if v is not None})

    def use(self, at: int, position: int) -> None:
        """UserError, at the operator's line, where it reads a position that nothing has written by then."""
        operator = self.operators[at]
        if operator.type == "write_to_array":
            (name,) = operator.outputs["Out"]
            self.now[name] = max(self.now.get(name, 0), position + 1)
            return
        (name,) = operator.inputs["X"]
        if 0 <= position < self.now.get(name, position + 1):
            return
        message = f"position {position} of the array '{name}' is read, and it has {counted(self.now[name], 'element')} in that iteration"
        hint = "an iteration reads what those before it have written; array_length(array) says how many there are"
        raise UserError(Diagnostic(message, operator.location, hint=hint))


def _known(entered: Entered, name: str) -> Any:
    held = entered.used.get(name)
    return known_value(held) if isinstance(held, Tensor) else None


#: An operator that is a function of tensors asks nothing of what it is built in.
_NOTHING: Any = None


def _build(operator: Operator, values: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:
    """A function of tensors, built by itself; None where the operator is more than that."""
    definition = REGISTRY.find(operator.type)
    if definition is None or definition.build is None or definition.needs_kernel or definition.takes_context:
        return None
    inputs = {s: [None if n == EMPTY else values[n] for n in names] for s, names in operator.inputs.items()}
    made = definition.values(_NOTHING, inputs, values_of(definition.entry, operator.dictionary))
    return {
        name: value
        for slot, names in operator.outputs.items()
        for name, value in zip(names, made.get(slot, ()), strict=False)
        if value is not None
    }


def _with_rows(entered: Entered, before: dict[str, Kept]) -> dict[str, Kept]:
    """Ragged elements of arrays get place for the rows that the loop gives them: it is built to see how many, until they have it."""
    visible = entered.block.visible
    writers = [o for o in all_operators(entered.block) if o.type == "write_to_array"]
    ragged = {o.outputs["Out"][0] for o in writers if visible(o.inputs["X"][0]).ragged}
    for _ in range(_MOST_BUILT):
        arrays = {n: v for n, v in before.items() if n in ragged and isinstance(v, StackedArray)}
        if not arrays:
            return before
        made: dict[str, Kept] = {}

        def iteration(*values: Tensor, made: dict[str, Kept] = made, before: dict[str, Kept] = before) -> Any:
            made.update(entered.built(shaped(before, values), values[-1]))
            return values

        build_region(_types(before), iteration)
        wider = {n: v.as_wide_as(cast("StackedArray", made[n])) for n, v in arrays.items()}
        if all(wider[n].values is v.values and wider[n].levels == v.levels for n, v in arrays.items()):
            return before
        before = {**before, **wider}
    message = f"the rows that this loop writes to {', '.join(sorted(ragged))} become more and more"
    raise Limit(
        message, entered.operator.location, hint="beam_search chooses at most beam_size rows of each source"
    )


def _with_room(entered: Entered, name: str, value: Kept, counts: Trips | None) -> Kept:
    """An array with place for what the loop writes."""
    if isinstance(value, (Tensor, RankTable)):
        return value
    writers = [o for o in all_operators(entered.block) if o.type == "write_to_array" and name in o.writes]
    at_top = [at for at, o in enumerate(entered.block.operators) if o in writers]
    if counts is None or len(at_top) < len(writers) or any(at not in counts.positions for at in at_top):
        message = f"how long the array '{name}' gets is not known: nothing that is known bounds the loop that writes it"
        hint = "compare a counter with a constant: less_than(i, fill_constant([1], 'int64', 100)), logical_and for further conditions"
        if counts is None or counts.count:
            raise Limit(message, entered.operator.location, hint=hint)
    held = len(value.elements) if isinstance(value, TensorArray) else value.capacity
    capacity = max([held, *[counts.positions[at] + 1 for at in at_top]] if counts is not None else [held])
    if isinstance(value, TensorArray) and not value.parts():
        return empty_array(entered, name, capacity)
    return value.stacked(capacity)
