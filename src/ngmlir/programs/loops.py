# SPDX-License-Identifier: Apache-2.0
"""Loops with conditions: what their blocks write is carried from iteration to iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Any, cast

from .. import numpy as np
from ..ir.types import Type
from ..op_graph.axes import Axes
from ..op_graph.known import depends_on_parameters, known_value
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..ops import ng
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.lengths import are_same, greatest
from ..support.spelling import counted
from .arrays import StackedArray, TensorArray
from .block_values import Entered, Kept, Lowering, all_operators, empty_array, flat, kept, shaped, truth
from .descriptions import BlockView, Operator
from .trips import MOST_COMPUTED, Place, Trips, computed_places, trips


def lower_while(lowering: Lowering, operator: Operator) -> None:
    """A loop: what its block writes is carried."""
    entered = Entered(lowering, operator)
    (condition,) = operator.inputs["Condition"]
    if condition not in entered.wrote:
        message = f"the block of this loop never writes its condition '{condition}': it would never end"
        hint = f"layers.less_than(counter, limit, cond={condition}) at the end of the block"
        raise UserError(Diagnostic(message, operator.location, hint=hint))
    entered.used.setdefault(condition, kept(lowering.read(operator, condition)))
    counts = trips(entered.block, condition, cache(partial(_known, entered)), _Lengths(entered).use)
    before = _with_rows(entered, _with_room(entered, condition, entered.before(), counts))
    start, types = [*flat(before), _first()], _types(before)

    def asked(*values: Tensor) -> Sequence[Tensor]:
        return [truth(shaped(before, values)[condition])]

    def iteration(*values: Tensor) -> Sequence[Tensor]:
        turn = values[-1]
        made = entered.built(shaped(before, values), turn)
        return [*entered.fitting(made, before), np.add(turn, np.asarray(1, dtype="uint64"))]

    loop = ControlOp(ng.WhileOp, start, [build_region(types, asked), build_region(types, iteration)], types)
    # What holds an array afterwards has to give it place again.
    after = {
        n: replace(v, has_room=_has_room(entered.used.get(n))) if isinstance(v, StackedArray) else v
        for n, v in shaped(before, loop.results).items()
    }
    if counts is not None and counts.is_exact:
        after |= {n: np.asarray(v) for n, v in counts.ends.items() if n in after}
    entered.finish(after)


def _has_room(array: Kept | None) -> bool:
    return isinstance(array, StackedArray) and array.has_room


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

    def use(self, place: Place, position: int) -> None:
        """UserError, at the operator's line, where it reads a position that nothing has written by then."""
        (at,) = place
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


def _number(entered: Entered, name: str) -> Tensor | None:
    """What a name holds before the loop, where that is one number, which follows from nothing of a loop around it."""
    held = entered.used.get(name)
    if not isinstance(held, Tensor) or (held.type.shape and not are_same(held.type.shape, (1,))):
        return None
    return None if depends_on_parameters(held) else held


def _with_rows(entered: Entered, before: dict[str, Kept]) -> dict[str, Kept]:
    """Ragged elements of arrays get place for the rows that the loop gives them: it is built to see how many, until they have it."""
    writers = [o for o in all_operators(entered.block) if o.type == "write_to_array"]
    ragged = {o.outputs["Out"][0] for o in writers if o.block.visible(o.inputs["X"][0]).ragged}
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


def _with_room(
    entered: Entered, condition: str, before: Mapping[str, Kept], counts: Trips | None
) -> dict[str, Kept]:
    """What goes into the loop, arrays with place for what it writes."""
    arrays = {n: v for n, v in before.items() if isinstance(v, (TensorArray, StackedArray))}
    wanting = [n for n, v in arrays.items() if not _has_room(v)]
    rooms = _rooms(entered, condition, wanting, counts) if wanting else {}
    made = dict(before)
    for name in wanting:
        value = arrays[name]
        held = len(value.elements) if isinstance(value, TensorArray) else value.capacity
        capacity = greatest([held, rooms[name]])
        is_empty = isinstance(value, TensorArray) and not value.parts()
        whole = empty_array(entered, name, capacity) if is_empty else value.stacked(capacity)
        made[name] = replace(whole, has_room=True)
    return made


def _writers(block: BlockView, around: Place = ()) -> Iterator[tuple[Place, Operator]]:
    """The operators that write arrays, with their places."""
    for at, operator in enumerate(block.operators):
        if operator.type == "write_to_array":
            yield (*around, at), operator
        if operator.sub_block is not None:
            yield from _writers(operator.sub_block, (*around, at))


def _rooms(
    entered: Entered, condition: str, arrays: Sequence[str], counts: Trips | None
) -> Mapping[str, int]:
    """One more than the greatest position of each array that the loop writes: of constants, or else from numbers that a run computes."""
    if counts is not None and not counts.count:
        return dict.fromkeys(arrays, 0)
    block, operator = entered.block, entered.operator
    places = {n: [at for at, o in _writers(block) if n in o.writes] for n in arrays}
    wanted = [at for found in places.values() for at in found]
    if counts is not None and all(at in counts.positions for at in wanted):
        return {n: max([counts.positions[at] + 1 for at in found], default=0) for n, found in places.items()}
    computed = computed_places(block, condition, cache(partial(_number, entered)))
    if computed is None or any(at not in computed.counts for at in wanted):
        message = f"how long the array '{arrays[0]}' gets is not known: no number that is there before the loop bounds it"
        hint = "compare a counter with a number: less_than(i, n), and logical_and for further conditions"
        raise Limit(message, operator.location, hint=hint)
    counted = {n: [computed.counts[at] for at in found] for n, found in places.items() if found}
    ends = [reduce(np.maximum, found) for found in counted.values()]
    *found, is_endless = entered.lowering.lengths((operator, "elements"), [*ends, computed.is_endless])
    if is_endless:
        message = f"this loop writes to arrays, and does not end within {MOST_COMPUTED} iterations"
        raise UserError(
            Diagnostic(
                message,
                operator.location,
                hint="the counter has to reach the number that it is compared with",
            )
        )
    return {**dict.fromkeys(arrays, 0), **dict(zip(counted, found, strict=True))}
