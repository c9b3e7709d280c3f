# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over sequences: the product of the inputs is computed before the loop, that of the state inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import numpy as np
from ...numpy import getitem
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from .. import segments
from ..definition import Context
from ..lanes import Lanes, State, Stepped
from ..registry import operator
from .activations import relu
from .cells import columns, mixed

#: The functions that gates and states have, by name.
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": np.sigmoid,
    "tanh": np.tanh,
    "relu": relu,
    "identity": lambda x: x,
}


def _begin(given: Tensor | None, count: int, width: int, slot: str) -> State:
    """The states before the first step."""
    if given is not None and given.type.shape != (count, width):
        raise UserError(
            f"{slot} has a row of {width} elements for each of {count} sequences, not the shape {list(given.type.shape)}"
        )
    return width if given is None else given


def _checked(input: Tensor, weight: Tensor, rows: int, parts: int, operator: str) -> int:
    """The width of the states."""
    width = weight.type.shape[1] // parts
    if weight.type.shape != (rows, parts * width) or input.type.shape[1:] != (parts * width,):
        raise UserError(
            f"{operator} takes an Input of {parts} D columns and a Weight of {parts} D columns, not {list(input.type.shape)} and {list(weight.type.shape)}"
        )
    return width


def _biased(
    input: Tensor, bias: Tensor, width: int, use_peepholes: bool
) -> tuple[Tensor, list[Tensor] | None]:
    """The input with the bias of the gates, and the weights of the peepholes (input, forget, output)."""
    wanted = (7 if use_peepholes else 4) * width
    if bias.type.shape != (1, wanted):
        raise UserError(
            f"the Bias has the shape {[1, wanted]} here, not {list(bias.type.shape)}",
            hint="use_peepholes=False is without the weights of the cell in the gates",
        )
    whole = np.reshape(bias, (wanted,))
    parts = [getitem(whole, slice(at * width, (at + 1) * width)) for at in range(4, wanted // width)]
    return np.add(input, getitem(whole, slice(0, 4 * width))), parts or None


def _lstm_step(
    sums: Tensor,
    cell: Tensor,
    peepholes: list[Tensor] | None,
    gate: Callable[[Tensor], Tensor],
    candidate: Callable[[Tensor], Tensor],
    output: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """The hidden states and the cells after a step; sums are candidate, input, forget, output."""
    g, i, f, o = columns(sums, 4)
    if peepholes is not None:
        i, f = np.add(i, np.multiply(cell, peepholes[0])), np.add(f, np.multiply(cell, peepholes[1]))
    cell = np.add(np.multiply(cell, gate(f)), np.multiply(gate(i), candidate(g)))
    if peepholes is not None:
        o = np.add(o, np.multiply(cell, peepholes[2]))
    return np.multiply(gate(o), output(cell)), cell


@operator
def lstm(
    input: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    use_peepholes: bool,
    is_reverse: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
    context: Context,
) -> tuple[Tensor, Tensor, None, None]:
    offsets, rows = segments.innermost(context, "Input", "lstm"), segments.length_of(input)
    width = _checked(input, weight, weight.type.shape[0], 4, "lstm")
    given, peepholes = _biased(input, bias, width, use_peepholes)
    gate, candidate, output = (FUNCTIONS[n] for n in (gate_activation, candidate_activation, cell_activation))
    time = Lanes(offsets, context, is_reverse)
    states = [_begin(x, time.count, width, slot) for x, slot in ((h0, "H0"), (c0, "C0"))]
    if not rows:
        empty = np.zeros([0, width], input.dtype)
        return empty, empty, None, None

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (hidden, cell), (x,) = before, fed
        sums = np.add(x, np.matmul(hidden, weight))
        made = _lstm_step(sums, cell, peepholes, gate, candidate, output)
        return made, made

    hidden, cell = time.run(states, [given], step)
    return hidden, cell, None, None


@operator
def lstmp(
    input: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    weight: Tensor,
    projection: Tensor,
    bias: Tensor,
    *,
    use_peepholes: bool,
    is_reverse: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
    proj_activation: str,
    context: Context,
) -> tuple[Tensor, Tensor, None, None, None, None]:
    offsets, rows = segments.innermost(context, "Input", "lstmp"), segments.length_of(input)
    width = _checked(input, weight, projection.type.shape[1], 4, "lstmp")
    given, peepholes = _biased(input, bias, width, use_peepholes)
    gate, candidate, output = (FUNCTIONS[n] for n in (gate_activation, candidate_activation, cell_activation))
    project, time = FUNCTIONS[proj_activation], Lanes(offsets, context, is_reverse)
    hidden, cell = (_begin(x, time.count, width, slot) for x, slot in ((h0, "H0"), (c0, "C0")))
    narrow = projection.type.shape[1]
    first = narrow if isinstance(hidden, int) else project(np.matmul(hidden, projection))
    if not rows:
        none = np.zeros([0, narrow], input.dtype), np.zeros([0, width], input.dtype)
        return *none, None, None, None, None

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (handed, cell), (x,) = before, fed
        sums = np.add(x, np.matmul(handed, weight))
        hidden, cell = _lstm_step(sums, cell, peepholes, gate, candidate, output)
        made = project(np.matmul(hidden, projection)), cell
        return made, made

    handed, cells = time.run([first, cell], [given], step)
    return handed, cells, None, None, None, None


@operator
def gru(
    input: Tensor,
    h0: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    *,
    activation: str,
    gate_activation: str,
    is_reverse: bool,
    origin_mode: bool,
    context: Context,
) -> tuple[None, None, None, Tensor]:
    offsets, rows = segments.innermost(context, "Input", "gru"), segments.length_of(input)
    width = _checked(input, weight, weight.type.shape[0], 3, "gru")
    given = input if bias is None else np.add(input, bias)
    flat = np.reshape(weight, (3 * width * width,))
    both = np.reshape(getitem(flat, slice(0, 2 * width * width)), (width, 2 * width))
    last = np.reshape(getitem(flat, slice(2 * width * width, None)), (width, width))
    gate, candidate = FUNCTIONS[gate_activation], FUNCTIONS[activation]
    time = Lanes(offsets, context, is_reverse)
    begin = _begin(h0, time.count, width, "H0")
    if not rows:
        return None, None, None, np.zeros([0, width], input.dtype)

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (hidden,), (x,) = before, fed
        (x_u, x_r, x_m), (h_u, h_r) = columns(x, 3), columns(np.matmul(hidden, both), 2)
        u, r = gate(np.add(x_u, h_u)), gate(np.add(x_r, h_r))
        m = candidate(np.add(x_m, np.matmul(np.multiply(r, hidden), last)))
        made = [mixed(u, hidden, m, origin_mode)]
        return made, made

    (hidden,) = time.run([begin], [given], step)
    return None, None, None, hidden
