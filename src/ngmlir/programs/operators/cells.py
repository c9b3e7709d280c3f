# SPDX-License-Identifier: Apache-2.0
"""One step of recurrent networks."""

from __future__ import annotations

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..registry import operator
from .activations import relu

#: The functions that gates have, by number.
_FUNCTIONS = (lambda x: x, np.sigmoid, np.tanh, relu)


def columns(x: Tensor, parts: int) -> list[Tensor]:
    """The columns of a matrix in equal parts; UserError where there are none."""
    width = x.type.shape[1]
    if width % parts:
        raise UserError(f"{width} columns are not cut into {parts} equal parts")
    return list(np.split(x, parts, 1))


def mixed(update: Tensor, before: Tensor, candidate: Tensor, origin_mode: bool) -> Tensor:
    """The states of a GRU after a step: as much of the candidate as the update gate says, or in `origin_mode` of the state before."""
    kept, new = (candidate, before) if origin_mode else (before, candidate)
    return np.add(np.multiply(np.subtract(1, update), kept), np.multiply(update, new))


@operator
def lstm_unit(x: Tensor, c_prev: Tensor, *, forget_bias: float) -> tuple[Tensor, Tensor]:
    i, f, o, j = columns(x, 4)
    kept = np.multiply(c_prev, np.sigmoid(np.add(f, forget_bias)))
    c = np.add(kept, np.multiply(np.sigmoid(i), np.tanh(j)))
    return c, np.multiply(np.tanh(c), np.sigmoid(o))


@operator
def gru_unit(
    input: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    width = hidden.type.shape[1]
    if bias is not None:
        input = np.add(input, bias)
    flat = np.reshape(weight, (3 * width * width,))
    gates = np.reshape(np.take(flat, np.arange(2 * width * width), axis=0), (width, 2 * width))
    candidate = np.reshape(
        np.take(flat, np.arange(2 * width * width, 3 * width * width), axis=0), (width, width)
    )
    x_u, x_r, x_m = columns(input, 3)
    h_u, h_r = columns(np.matmul(hidden, gates), 2)
    gate = _FUNCTIONS[gate_activation]
    u, r = gate(np.add(x_u, h_u)), gate(np.add(x_r, h_r))
    reset = np.multiply(r, hidden)
    m = _FUNCTIONS[activation](np.add(x_m, np.matmul(reset, candidate)))
    return np.concatenate([u, r, m], 1), reset, mixed(u, hidden, m, origin_mode)
