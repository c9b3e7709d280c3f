# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks: scans over the steps of sequences of one length, of arrays of steps, or of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import numpy as np
from ..op_graph.by_rows import by_rows
from ..op_graph.positions import Positions
from ..op_graph.regions import ControlOp, GraphRegion, build_region
from ..op_graph.replay import replayed
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..ops import ng
from ..ops.rows import MixesRows
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.lengths import are_same, is_same
from . import segments
from .arrays import StackedArray, TensorArray
from .block_values import Entered, Kept, Lowering, called, flat, kept, like, parts_of, shaped
from .definition import Levels
from .descriptions import BlockView, Operator
from .lanes import Lanes, Stepped
from .names import offsets_name, offsets_names
from .rank_operators import table_of
from .rank_tables import RankTable

#: A result of all steps, and the offsets that it has in each.
Made = list[tuple[Tensor, Levels]]


def lower_recurrent(lowering: Lowering, operator: Operator) -> None:
    """A scan over the steps of sequences of one length, or of arrays; with a rank table, over those of ragged sequences."""
    steps = _Steps(Entered(lowering, operator))
    if not steps.given:
        raise UserError(
            "a recurrent network has a sequence to go over", operator.location, hint="rnn.step_input(x)"
        )
    if operator.inputs.get("RankTable"):
        made = _over_sequences(steps, table_of(lowering, operator))
        steps.finish(
            [value for value, _ in made], {n: o for n, (_, o) in zip(steps.outputs, made, strict=True)}
        )
        return
    whole = [*steps.given.values()]
    lengths = {n: parts_of(s)[0].type.shape[0] for n, s in steps.given.items()}
    if len(set(lengths.values())) > 1:
        message = f"the sequences have different numbers of steps: {', '.join(f'{n} {c}' for n, c in lengths.items())}"
        raise UserError(Diagnostic(message, operator.location, hint="dimension 0 is the steps"))
    made = steps.scan(whole)
    is_array = any(isinstance(held, StackedArray) for held in whole)
    length = np.asarray([next(iter(lengths.values()))], dtype="int64")
    steps.finish([StackedArray(value, length, cuts) if is_array else value for value, cuts in made])


def _over_sequences(steps: _Steps, table: RankTable) -> Made:
    """The results of the steps of ragged sequences, as such sequences."""
    lowering, rows = steps.lowering, [_rows(steps, n) for n in steps.given]
    levels = [lowering.levels_of(steps.operator, n) for n in steps.given]
    for name, own, x in zip(steps.given, levels, rows, strict=True):
        if not 1 <= len(own) <= 2:
            message = f"the steps of one or two levels are taken apart, and '{name}' has {len(own)}"
            raise UserError(message, steps.operator.location)
        lowering.agree(own[0], table.offsets)
        items = segments.sequences(own[1]) if len(own) > 1 else segments.length_of(x)
        if items != table.items:
            message = f"'{name}' has {items} steps in all its sequences, and those that it goes with have {table.items}"
            hint = "a network goes over sequences of the same lengths"
            raise UserError(Diagnostic(message, steps.operator.location, hint=hint))
    in_lanes = None
    if all(len(own) == 1 for own in levels):
        in_lanes = _in_lanes(steps, table, rows)
    if in_lanes is not None:
        return [(value, (table.offsets,)) for value in in_lanes]
    whole = [table.steps(x, own[1:], lowering.size) for x, own in zip(rows, levels, strict=True)]
    stacked = [StackedArray(value, whole[0].length, cuts) for value, cuts in steps.scan(whole)]
    return [table.sequences(each, lowering.size) for each in stacked]


def _in_lanes(steps: _Steps, table: RankTable, rows: Sequence[Tensor]) -> list[Tensor] | None:
    """The results as rows, where lanes may hold several sequences: if a step computes each row independently."""
    lanes, memories = Lanes(table.offsets, steps.lowering), steps.memories
    if not lanes.are_shared or not segments.length_of(rows[0]) or steps.around:
        return None
    if not all(m.type.shape and is_same(segments.length_of(m), table.count) for m in memories):
        return None
    try:
        whole = steps.region(rows, table.count, {})
        how = by_rows(whole, _first_dimension)
        held = {v: n for n, v in steps.entered.used.items() if isinstance(v, Tensor)}
        fixed = {held[each]: each for each in how.beside if each in held}
        region = steps.region(rows, lanes.packing.lanes, fixed)
        if len(fixed) < len(how.beside) or by_rows(region, _first_dimension).form != how.form:
            return None
    except (MixesRows, UserError):  # a step that states how many sequences there are is built for as many
        return None
    count = len(memories)

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        made = replayed(region, [*before, *fed, np.asarray(0, dtype="uint64")])
        return made[:count], made[count:]

    # By sequence: the table has the longest first.
    begin, beside = ([segments.take(x, table.rank) for x in each] for each in (memories, fixed.values()))
    return lanes.run(begin, rows, step, beside)


def _first_dimension(x: Tensor) -> int | None:
    return 0 if x.type.shape else None


def _rows(steps: _Steps, name: str) -> Tensor:
    held = steps.given[name]
    if not isinstance(held, Tensor):
        raise UserError(
            f"'{name}' is {called(held)}, and the network goes over rows", steps.operator.location
        )
    return held


class _Steps:
    """The steps of a network in the making."""

    def __init__(self, entered: Entered):
        self.entered, self.operator, self.lowering = entered, entered.operator, entered.lowering
        names = self.operator.inputs.get("inputs", ())
        #: What a step reads of each sequence.
        self.slices: Sequence[str] = self.operator.attribute("steps") or names
        for name in self.slices:
            entered.used.pop(name, None)
        #: What it is given.
        self.reads: dict[str, Kept] = {}
        #: What it goes over, by name.
        self.given = {n: self._read(n, self._sequence(n)) for n in names}
        self.ex_states: Sequence[str] = self.operator.attribute("ex_states") or ()
        self.states: Sequence[str] = self.operator.attribute("states") or ()
        self.outputs = list(self.operator.outputs.get("outputs", ()))
        boots = [self._read(n, self._tensor(n)) for n in self.operator.inputs.get("initial_states", ())]
        self.memories = [each for each in boots if isinstance(each, Tensor)]
        # What the step writes of variables from around it is carried too.
        self.around = {n: _no_array(entered, n, v) for n, v in entered.before().items()}

    def _read(self, name: str, value: Kept) -> Kept:
        """What is read of a variable: at one place, at which its gradient ends, for all memories and the step."""
        if name not in self.reads:
            used = self.entered.used.get(name)
            self.reads[name] = (
                used if isinstance(used, Tensor) else like(value, [ReadOp(p) for p in parts_of(value)])
            )
        return self.reads[name]

    def _sequence(self, name: str) -> Kept:
        held = kept(self.lowering.read(self.operator, name))
        if isinstance(held, TensorArray):
            held = held.stacked(len(held.elements))
        if isinstance(held, RankTable) or not parts_of(held)[0].type.shape:
            raise UserError(f"'{name}' has no steps to go over", self.operator.location)
        return held

    def region(self, rows: Sequence[Tensor], count: int, fixed: Mapping[str, Tensor]) -> GraphRegion:
        """One step of so many rows: of the memories, of a step of each sequence, of what is fixed; and of the number of the step. Gives
        the memories after it and its results. MixesRows where these are ragged."""
        names, states = [*self.slices, *fixed], len(self.memories)
        rowwise = [*self.memories, *rows, *fixed.values()]
        parameters = [(Positions.of([count, *x.type.shape[1:]]), x.element) for x in rowwise]

        def step(*values: Tensor) -> Sequence[Tensor]:
            known = dict(zip(names, values[states:-1], strict=True))
            after, made = self.step(values[:states], known, values[-1])
            if any(cuts for _, cuts in made):
                raise MixesRows("gives sequences")
            return [*after, *[value for value, _ in made]]

        turn = np.asarray(0, dtype="uint64")
        return build_region([*parameters, (turn.axes, turn.element)], step)

    def scan(self, whole: Sequence[Kept]) -> Made:
        """The results of all steps; `whole` has the sequences that are read step by step. Afterwards `around` has the values after the loop."""
        start = [*self.memories, *flat(self.around)]
        # Of an array the elements and their offsets have steps, its length has none.
        given = [p for held in whole for p in _stepped(held)]
        count = given[0].type.shape[0]
        given.append(np.arange(count, dtype="uint64"))
        parameters = [(s.axes, s.element) for s in start]
        parameters += [(g.axes.like(g.axes[1:]), g.element) for g in given]
        made: Made = []

        def step(*values: Tensor) -> Sequence[Tensor]:
            known: dict[str, Kept] = {}
            left = iter(values[len(start) : -1])
            for name, held in zip(self.slices, whole, strict=True):
                known[name] = next(left)
                if isinstance(held, StackedArray):
                    for level, _ in enumerate(held.levels):
                        known[offsets_name(name, level)] = offsets = next(left)
                        self.lowering.bounds[offsets] = held.longest
            after, made[:] = self.step(values[: len(start)], known, values[-1])
            return [*after, *[p for value, levels in made for p in (value, *levels)]]

        region = build_region(parameters, step)
        stacked = [p for value, levels in made for p in (value, *levels)]
        types = [(s.axes, s.element) for s in start]
        types += [(o.axes.like((given[0].axes[0], *o.axes)), o.element) for o in stacked]
        fields = {"carried": len(start), "reverse": bool(self.operator.attribute("reverse"))}
        loop = ControlOp(ng.ScanOp, [*start, *given], [region], types, fields)
        self.around = shaped(self.around, loop.results[len(self.memories) : len(start)])
        left = iter(loop.results[len(start) :])
        return [(next(left), tuple([next(left) for _ in levels])) for _, levels in made]

    def finish(self, results: Sequence[Kept], levels: Mapping[str, Levels] | None = None) -> None:
        """Writes the results, and notes of what they were made."""
        inputs: dict[str, Kept] = {**self.entered.used, **self.reads}
        outputs = dict(zip(self.outputs, results, strict=True))
        self.entered.finish({**outputs, **self.around}, inputs, levels)

    def step(
        self, carried: Sequence[Tensor], slices: Mapping[str, Kept], turn: Tensor
    ) -> tuple[list[Tensor], Made]:
        """One step: what is carried after it, and its results with their offsets."""
        known: dict[str, Kept] = {**slices, **dict(zip(self.ex_states, carried, strict=False))}
        known.update(shaped(self.around, carried[len(self.memories) :]))
        lowering, block = self.lowering, self.entered.block
        with lowering.inside(block, {**self.entered.used, **known}, turn):
            lowering.run(block)
            after = [self._tensor(n, block) for n in self.states]
            around = self.entered.fitting({n: kept(lowering.values[n]) for n in self.around}, self.around)
            made = [(self._tensor(n, block), _levels(lowering, block, n)) for n in self.outputs]
        for name, new, before in zip(self.ex_states, after, carried, strict=False):
            if not are_same(new.type.shape, before.type.shape):
                message = f"the memory '{name}' is updated with the shape {list(new.type.shape)}, and it begins with {list(before.type.shape)}"
                hint = "init= gives it the shape of what updates it"
                raise UserError(Diagnostic(message, self.operator.location, hint=hint))
        after = [cast_elements(a, b.element) for a, b in zip(after, self.memories, strict=True)]
        return [*after, *around], made

    def _tensor(self, name: str, block: BlockView | None = None) -> Tensor:
        operator, lowering = self.operator, self.lowering
        held = lowering.values.get(name) if block is not None else lowering.read(operator, name)
        if held is None:
            hint = "an operator of the step has to write it"
            raise UserError(Diagnostic(f"no step gives '{name}' a value", operator.location, hint=hint))
        held = kept(held)
        if not isinstance(held, Tensor):
            message = f"'{name}' is {called(held)}, and operator {operator.type} takes a tensor there"
            raise UserError(message, operator.location)
        return held


def _stepped(held: Kept) -> list[Tensor]:
    if isinstance(held, StackedArray):
        return [held.values, *held.levels]
    return parts_of(held)


def _levels(lowering: Lowering, block: BlockView, name: str) -> Levels:
    count = block.visible(name).ragged
    held = [lowering.values.get(each) for each in offsets_names(name, count)]
    return tuple([h for h in held if isinstance(h, Tensor)])


def _no_array(entered: Entered, name: str, value: Kept) -> Kept:
    if isinstance(value, Tensor):
        return value
    message = f"the step of a recurrent network writes the array '{name}', which is around it"
    raise Limit(message, entered.operator.location, hint="rnn.step_output(x) gives the values of all steps")
