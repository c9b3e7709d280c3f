# SPDX-License-Identifier: Apache-2.0
"""Programs operator by operator: what each one writes, and the first that writes a NaN or an infinity.

Each op of the program's module is computed by itself on the place's target, as `transformer.stepped` does it, and state changes
when the last one has run. So an operator gives what it gives in the compiled program, and a run that is left changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ...ir.core import Block, Value
from ...programs.descriptions import Operator, Program
from ...programs.lower import lower
from ...programs.lowered import Lowered, Written
from ...programs.names import EMPTY
from ...programs.select_kernels import with_kernels
from ...runtime.executable import Prepare
from ...support.diagnostics import Diagnostic, Location, UserError
from ...transformers.compiled_programs import Compiled, with_checked_numbers
from ...transformers.host_steps import Bind, Run, Storage
from ...transformers.nonfinite import nonfinite_place, summary
from ...transformers.single_steps import OneByOne, Walk

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """An operator that has just run: what it reads and what it wrote, by the names of the variables."""

    number: int
    operator: Operator
    inputs: Mapping[str, Array]
    values: Mapping[str, Array]

    @property
    def type(self) -> str:
        """The type of the operator."""
        return self.operator.type

    @property
    def location(self) -> Location:
        """The line of the user's program that appended the operator."""
        return self.operator.location

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {summary(value)}" for name, value in self.values.items())
        return f"step {self.number}: {self.type} gives {values} ({self.location})"


#: Called after each operator.
Watch = Callable[[Step], Any]


def by_steps(program: Program, compute: OneByOne, watch: Watch, sizes: Sequence[int] = ()) -> Compiled:
    """As `compiled_programs.compiled`, for a run operator by operator that calls `watch` after each."""
    lowered = lower(with_kernels(program, compute.target), every=True, sizes=sizes)

    def bind_to(
        entry: str, state: Mapping[int, Storage], tied: Sequence[tuple[int, int]], prepare: Prepare
    ) -> Run:
        names = [*lowered.interface.feeds, *[s.name for s in lowered.interface.states]]

        def run(*values: Any) -> Sequence[Any]:
            given = iter(prepare(values))
            arrays = [state[i].get() if i in state else np.array(next(given)) for i in range(len(names))]
            results = _walked(lowered, compute, arrays, dict(zip(names, arrays, strict=True)), watch)
            written = dict(tied)
            for result, argument in tied:
                state[argument].host[...] = results[result]
            free = [np.array(value) for i, value in enumerate(results) if i not in written]
            return free[: len(lowered.fetches)]

        return run

    bind: Bind = bind_to
    if lowered.measures:
        return Compiled(lowered.interface, bind, True)
    bind = with_checked_numbers(program, lowered.interface, bind, compute.target)
    return Compiled(lowered.interface, bind, False)


def _walked(
    lowered: Lowered, compute: OneByOne, arrays: Sequence[Array], known: dict[str, Array], watch: Watch
) -> list[Any]:
    """The results of a program. `known` holds what each variable is, and begins as what is fed and kept."""
    main = lowered.module.ops[0].block
    walk = Walk(lowered.module, lowered.trace, compute)
    steps = _Steps(lowered, main, known, watch)
    going = walk.block(main, arrays)
    with np.errstate(all="ignore"):
        while True:
            # Constants, and operands that an operator returns unchanged, have values before any op runs.
            steps.advance(walk.values)
            try:
                next(going)
            except StopIteration as end:
                steps.advance(walk.values)
                return end.value


class _Steps:
    """The operators of a run, in order. Each is reported once all its outputs are known."""

    def __init__(self, lowered: Lowered, main: Block, known: dict[str, Array], watch: Watch):
        tied = {result for result, _ in lowered.interface.tied}
        free = [v for i, v in enumerate(main.ops[-1].operands) if i not in tied]
        self._left: Iterator[tuple[int, list[tuple[Written, Value]]]] = iter(
            enumerate(
                (
                    [(w, free[w.result]) for w in group]
                    for _, group in groupby(lowered.written, key=lambda w: id(w.operator))
                ),
                1,
            )
        )
        self._next = next(self._left, None)
        self._known, self._watch = known, watch

    def advance(self, values: Mapping[Value, Any]) -> None:
        """Tells of the operators whose values are there by now."""
        while self._next is not None and all(value in values for _, value in self._next[1]):
            number, writes = self._next
            operator = writes[0][0].operator
            read = [n for n in operator.reads if n != EMPTY and n in self._known]
            inputs = {name: self._known[name] for name in read}
            found = {written.name: np.asarray(values[value]) for written, value in writes}
            self._known.update(found)
            self._next = next(self._left, None)
            self._watch(Step(number, operator, inputs, found))


def check_finite(step: Step) -> None:
    """UserError, at the operator's line, where it wrote a NaN or an infinity: which, where, and from what."""
    for name, value in step.values.items():
        place = nonfinite_place(value)
        if place is None:
            continue
        at = f"[{', '.join(map(str, place))}]"
        message = f"operator {step.type} gives {float(value[place])} at {at} of '{name}' ({summary(value)})"
        notes: list[str] = []
        for read, array in step.inputs.items():
            held = nonfinite_place(array)
            if held is not None:
                notes.append(f"'{read}' holds {float(array[held])} already: it was fed or kept so")
            elif array.shape == value.shape:
                notes.append(f"'{read}' is {array[place]} there")
            else:
                notes.append(f"'{read}' is {summary(array)}")
        raise UserError(
            Diagnostic(message, step.location, hint=f"it reads: {'; '.join(notes)}" if notes else "")
        )
