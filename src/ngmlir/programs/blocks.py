# SPDX-License-Identifier: Apache-2.0
"""Operators that run a block, by their types, and their gradients: the derivatives of what they gave by what they were built of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from .. import numpy as np
from ..ir.types import FloatType
from ..op_graph.deriv import Adjoints
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..support.diagnostics import Diagnostic, UserError
from .arrays import StackedArray
from .block_values import Kept, Lowering, Ran, kept, like, parts_of, scopes_of
from .branches import lower_conditional
from .descriptions import Operator
from .loops import lower_while
from .names import EMPTY, GRADIENT
from .rank_tables import RankTable
from .recurrent import lower_recurrent


def lower_gradient(lowering: Lowering, operator: Operator) -> None:
    """The gradient of an operator that runs a block: the derivative of what that gave."""
    forward = operator.type.removesuffix("_grad")
    scopes = scopes_of(operator)
    given = _written_by(operator)
    every = lowering.ran.get((forward, *scopes), ())
    found = next((ran for ran in reversed(every) if given <= ran.outputs.keys()), None)
    if found is None:
        raise UserError(
            Diagnostic(
                f"operator {operator.type} is the gradient of one that this program does not run before it",
                operator.location,
                hint="append_backward appends it behind that operator",
            )
        )
    errors: dict[str, Kept] = {}
    dependents: list[tuple[Tensor, Tensor]] = []
    for slot, names in operator.inputs.items():
        if not slot.endswith(GRADIENT):
            continue
        for of, name in zip(operator.inputs.get(slot.removesuffix(GRADIENT), ()), names, strict=False):
            of = original(of)
            if name == EMPTY or of not in found.outputs:
                continue
            held = kept(lowering.read(operator, name))
            errors[name] = held = like(held, [ReadOp(p) for p in parts_of(held)])
            dependents += _pairs(found.outputs[of], held)
    stops = {p for value in found.inputs.values() for p in parts_of(value)}
    sums = Adjoints(dependents, stops).sums
    made: dict[str, Kept] = {}
    sources: dict[str, str] = {}
    for slot, names in operator.outputs.items():
        for of, name in zip(operator.inputs.get(slot.removesuffix(GRADIENT), ()), names, strict=False):
            if name == EMPTY:
                continue
            # What is given twice, as to two memories, was read once: the first gradient is that of both.
            is_again = of in sources.values()
            sources[name] = of
            source = found.inputs.get(original(of))
            if source is None:  # what it gave: the gradients of what it was built of have all of it
                result = kept(lowering.read(operator, of))
                made[name] = like(result, [_gradient(p, None) for p in parts_of(result)])
            else:
                made[name] = like(
                    source, [_gradient(p, None if is_again else sums.get(p)) for p in parts_of(source)]
                )
    lowering.ran.setdefault((operator.type, *scopes), []).append(Ran({**found.inputs, **errors}, made))
    for name, value in made.items():
        # A gradient is ragged as what it is the gradient of.
        levels = lowering.levels_of(operator, sources[name]) if isinstance(value, Tensor) else ()
        lowering.write(operator, name, value, levels)


def _written_by(operator: Operator) -> set[str]:
    """Of what the operator wrote whose gradient this is, that of which there are gradients."""
    order, type = "", operator.type
    while type.endswith("_grad"):
        order, type = order + GRADIENT, type.removesuffix("_grad")
    found: set[str] = set()
    for slot, errors in operator.inputs.items():
        if slot.endswith(order):
            names = operator.inputs.get(slot.removesuffix(GRADIENT), ())
            found |= {original(n) for n, error in zip(names, errors, strict=False) if error != EMPTY}
    return found


def original(name: str) -> str:
    """The variable of which a copy was kept before it was overwritten."""
    return name.partition("@SAVED@")[0]


def _pairs(output: Kept, error: Kept) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(output, Tensor) and isinstance(error, Tensor):
        if isinstance(output.element, FloatType):
            yield output, cast_elements(error, output.element)
        return
    if isinstance(output, (Tensor, RankTable)) or isinstance(error, (Tensor, RankTable)):
        return
    if isinstance(output, StackedArray):
        first = output.read(np.asarray([0], dtype="int64"))
        whole = error.stacked(output.capacity, first)
        if isinstance(output.values.element, FloatType):
            values = VERBS.slice(
                whole.values, starts=[0] * len(whole.values.type.shape), limits=list(output.values.type.shape),
                steps=[1] * len(whole.values.type.shape),
            )  # fmt: skip
            yield output.values, values
        return
    for at, element in enumerate(output.elements):
        if element is not None and isinstance(element.element, FloatType):
            if isinstance(error, StackedArray):
                yield element, error.read(np.asarray([at], dtype="int64"))
            elif at < len(error.elements) and (delta := error.elements[at]) is not None:
                yield element, delta


def _gradient(part: Tensor, found: Tensor | None) -> Tensor:
    if not isinstance(part.element, FloatType):
        return part
    return VERBS.number_like(0, part) if found is None else cast_elements(found, part.element)


Lower: TypeAlias = Callable[[Lowering, Operator], None]
#: What builds the operators that run a block.
BLOCK_OPERATORS: dict[str, Lower] = {
    "while": lower_while,
    "conditional_block": lower_conditional,
    "recurrent": lower_recurrent,
}


def lowering_of(type: str) -> Lower | None:
    """What builds an operator that runs a block, or its gradient, or the gradient of that."""
    found = BLOCK_OPERATORS.get(type)
    if found is None and type.endswith("_grad"):
        return lower_gradient if lowering_of(type.removesuffix("_grad")) is not None else None
    return found
