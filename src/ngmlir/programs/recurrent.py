# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks: scans over the steps of sequences of one length."""

from __future__ import annotations

from collections.abc import Sequence

from .. import numpy as np
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..ops import ng
from ..support.diagnostics import Diagnostic, Limit, UserError
from .block_values import Entered, Kept, Lowering, flat, kept, shaped
from .descriptions import BlockView, Operator


def lower_recurrent(lowering: Lowering, operator: Operator) -> None:
    """A scan over the steps of sequences of one length."""
    entered = Entered(lowering, operator)
    sequences = {n: _tensor(lowering, operator, n) for n in operator.inputs.get("inputs", ())}
    if not sequences:
        raise UserError(
            "a recurrent network has a sequence to go over", operator.location, hint="rnn.step_input(x)"
        )
    lengths = {n: (s.type.shape or (0,))[0] for n, s in sequences.items()}
    if len(set(lengths.values())) > 1:
        message = f"the sequences have different numbers of steps: {', '.join(f'{n} {c}' for n, c in lengths.items())}"
        raise UserError(Diagnostic(message, operator.location, hint="dimension 0 is the steps"))
    boots = operator.inputs.get("initial_states", ())
    initial = [_tensor(lowering, operator, n) for n in boots]
    ex_states, states = operator.attribute("ex_states") or [], operator.attribute("states") or []
    block = entered.block
    for name in sequences:
        entered.used.pop(name, None)
    outputs = list(operator.outputs.get("outputs", ()))
    start, whole = [ReadOp(i) for i in initial], {n: ReadOp(s) for n, s in sequences.items()}
    memories = len(start)
    around = entered.before()  # what the step writes of variables from around it goes round too
    around = {n: _stacked_in_step(entered, n, v) for n, v in around.items()}
    start += flat(around)
    count = next(iter(lengths.values()))
    given = [*whole.values(), np.arange(count, dtype="uint64")]
    carried = len(start)
    parameters = [(s.axes, s.element) for s in start] + [(g.axes.like(g.axes[1:]), g.element) for g in given]
    shapes: list[Tensor] = []

    def step(*values: Tensor) -> Sequence[Tensor]:
        known: dict[str, Kept] = dict(zip(ex_states, values[:memories], strict=True))
        known.update(shaped(around, values[memories:carried]))
        known.update(zip(sequences, values[carried:-1], strict=True))
        with lowering.inside(block, {**entered.used, **known}, values[-1]):
            lowering.run(block)
            left = entered.fitting({n: kept(lowering.values[n]) for n in around}, around)
            after = [_tensor(lowering, operator, n, block) for n in states]
            shapes[:] = [_tensor(lowering, operator, n, block) for n in outputs]
        for name, made, before in zip(ex_states, after, start, strict=False):
            if made.type.shape != before.type.shape:
                message = f"the memory '{name}' is updated with the shape {list(made.type.shape)}, and it begins with {list(before.type.shape)}"
                raise UserError(
                    Diagnostic(message, operator.location, hint="init= gives it the shape of what updates it")
                )
        return [*(cast_elements(a, b.element) for a, b in zip(after, start, strict=False)), *left, *shapes]

    region = build_region(parameters, step)
    along = given[0].axes[0]
    types = [(s.axes, s.element) for s in start]
    types += [(o.axes.like((along, *o.axes)), o.element) for o in shapes]
    fields = {"carried": carried, "reverse": bool(operator.attribute("reverse"))}
    loop = ControlOp(ng.ScanOp, [*start, *given], [region], types, fields)
    inputs: dict[str, Kept] = {**entered.used, **whole, **dict(zip(boots, start, strict=False))}
    results: dict[str, Kept] = dict(zip(outputs, loop.results[carried:], strict=True))
    entered.finish({**results, **shaped(around, loop.results[memories:carried])}, inputs)


def _stacked_in_step(entered: Entered, name: str, value: Kept) -> Kept:
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
            f"'{name}' is an array, and operator {operator.type} takes a tensor there", operator.location
        )
    return held
