# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks: scans over the steps of sequences of one length, or of arrays of steps."""

from __future__ import annotations

from collections.abc import Sequence

from .. import numpy as np
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..ops import ng
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.lengths import are_same
from .arrays import StackedArray, TensorArray
from .block_values import Entered, Kept, Lowering, called, flat, kept, like, parts_of, shaped
from .definition import Levels
from .descriptions import BlockView, Operator
from .names import offsets_name, offsets_names
from .rank_tables import RankTable


def lower_recurrent(lowering: Lowering, operator: Operator) -> None:
    """A scan over the steps of sequences of one length, or of arrays."""
    entered = Entered(lowering, operator)
    sequences = {n: _sequence(lowering, operator, n) for n in operator.inputs.get("inputs", ())}
    if not sequences:
        raise UserError(
            "a recurrent network has a sequence to go over", operator.location, hint="rnn.step_input(x)"
        )
    lengths = {n: parts_of(s)[0].type.shape[0] for n, s in sequences.items()}
    if len(set(lengths.values())) > 1:
        message = f"the sequences have different numbers of steps: {', '.join(f'{n} {c}' for n, c in lengths.items())}"
        raise UserError(Diagnostic(message, operator.location, hint="dimension 0 is the steps"))
    for name in sequences:
        entered.used.pop(name, None)
    whole = {n: like(s, [ReadOp(p) for p in parts_of(s)]) for n, s in sequences.items()}
    _Steps(entered, whole).run()


def _sequence(lowering: Lowering, operator: Operator, name: str) -> Kept:
    held = kept(lowering.read(operator, name))
    if isinstance(held, TensorArray):
        held = held.stacked(len(held.elements))
    if isinstance(held, RankTable) or not parts_of(held)[0].type.shape:
        raise UserError(f"'{name}' has no steps to go over", operator.location)
    return held


class _Steps:
    """The scan in the making."""

    def __init__(self, entered: Entered, whole: dict[str, Kept]):
        self.entered, self.operator, self.lowering = entered, entered.operator, entered.lowering
        self.whole = whole
        self.boots = self.operator.inputs.get("initial_states", ())
        self.ex_states: Sequence[str] = self.operator.attribute("ex_states") or ()
        self.states: Sequence[str] = self.operator.attribute("states") or ()
        self.outputs = list(self.operator.outputs.get("outputs", ()))
        self.memories = [ReadOp(_tensor(self.lowering, self.operator, n)) for n in self.boots]
        # What the step writes of variables from around it is carried too.
        self.around = {n: _no_array(entered, n, v) for n, v in entered.before().items()}

    def run(self) -> None:
        start = [*self.memories, *flat(self.around)]
        # Of an array the elements and their offsets have steps, its length has none.
        given = [p for held in self.whole.values() for p in _stepped(held)]
        count = given[0].type.shape[0]
        given.append(np.arange(count, dtype="uint64"))
        parameters = [(s.axes, s.element) for s in start]
        parameters += [(g.axes.like(g.axes[1:]), g.element) for g in given]
        made: list[tuple[Tensor, Levels]] = []

        def step(*values: Tensor) -> Sequence[Tensor]:
            after, made[:] = self.step(values[: len(start)], values[len(start) : -1], values[-1])
            return [*after, *[p for value, levels in made for p in (value, *levels)]]

        region = build_region(parameters, step)
        stacked = [p for value, levels in made for p in (value, *levels)]
        types = [(s.axes, s.element) for s in start]
        types += [(o.axes.like((given[0].axes[0], *o.axes)), o.element) for o in stacked]
        fields = {"carried": len(start), "reverse": bool(self.operator.attribute("reverse"))}
        loop = ControlOp(ng.ScanOp, [*start, *given], [region], types, fields)
        is_array = any(isinstance(held, StackedArray) for held in self.whole.values())
        left = iter(loop.results[len(start) :])
        results: dict[str, Kept] = {}
        for name, (_, levels) in zip(self.outputs, made, strict=True):
            value, offsets = next(left), [next(left) for _ in levels]
            length = np.asarray([count], dtype="int64")
            results[name] = StackedArray(value, length, tuple(offsets)) if is_array else value
        inputs: dict[str, Kept] = {**self.entered.used, **self.whole}
        inputs.update(zip(self.boots, self.memories, strict=True))
        around = shaped(self.around, loop.results[len(self.memories) : len(start)])
        self.entered.finish({**results, **around}, inputs)

    def step(
        self, carried: Sequence[Tensor], slices: Sequence[Tensor], turn: Tensor
    ) -> tuple[list[Tensor], list[tuple[Tensor, Levels]]]:
        """One step: what is carried after it, and its results with their offsets."""
        known: dict[str, Kept] = dict(zip(self.ex_states, carried, strict=False))
        known.update(shaped(self.around, carried[len(self.memories) :]))
        left = iter(slices)
        for name, held in self.whole.items():
            known[name] = next(left)
            if isinstance(held, StackedArray):
                for level, _ in enumerate(held.levels):
                    known[offsets_name(name, level)] = offsets = next(left)
                    self.lowering.bounds[offsets] = held.longest
        lowering, block = self.lowering, self.entered.block
        with lowering.inside(block, {**self.entered.used, **known}, turn):
            lowering.run(block)
            after = [_tensor(lowering, self.operator, n, block) for n in self.states]
            around = self.entered.fitting({n: kept(lowering.values[n]) for n in self.around}, self.around)
            made = [
                (_tensor(lowering, self.operator, n, block), _levels(lowering, block, n))
                for n in self.outputs
            ]
        for name, new, before in zip(self.ex_states, after, self.memories, strict=True):
            if not are_same(new.type.shape, before.type.shape):
                message = f"the memory '{name}' is updated with the shape {list(new.type.shape)}, and it begins with {list(before.type.shape)}"
                raise UserError(
                    Diagnostic(
                        message, self.operator.location, hint="init= gives it the shape of what updates it"
                    )
                )
        after = [cast_elements(a, b.element) for a, b in zip(after, self.memories, strict=True)]
        return [*after, *around], made


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


def _tensor(lowering: Lowering, operator: Operator, name: str, block: BlockView | None = None) -> Tensor:
    held = lowering.values.get(name) if block is not None else lowering.read(operator, name)
    if held is None:
        raise UserError(
            f"no step gives '{name}' a value",
            operator.location,
            hint="an operator of the step has to write it",
        )
    held = kept(held)
    if not isinstance(held, Tensor):
        raise UserError(
            f"'{name}' is {called(held)}, and operator {operator.type} takes a tensor there",
            operator.location,
        )
    return held
