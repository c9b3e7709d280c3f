# SPDX-License-Identifier: Apache-2.0
"""What recurrent cells do in one step with the sums of their gates, wherever these come from.

A gate is asked for by its letter; the letters are in the order of the axis of gates.
"""

from __future__ import annotations

from collections.abc import Callable

from ..tensor import Tensor

Activation = Callable[[Tensor], Tensor]
#: The sums of a gate by its letter.
Sums = Callable[[str], Tensor]

LSTM_GATES = ("i", "f", "o", "g")
GRU_GATES = ("r", "z", "n")


def lstm_step(
    sums: Sums, c: Tensor, activation: Activation, gate_activation: Activation
) -> tuple[Tensor, Tensor]:
    """(h, c): c <- f c + i g and h <- o activation(c), of the gates i, f, o and of g = activation(sums of g)."""
    i, f, o = (gate_activation(sums(letter)) for letter in "ifo")
    c = f * c + i * activation(sums("g"))
    return o * activation(c), c


def gru_step(
    fed: Sums, again: Sums, h: Tensor, activation: Activation, gate_activation: Activation
) -> Tensor:
    """h <- (1 - z) n + z h, of the gates r and z and of n = activation(fed + r again): `fed` are the sums of the input,
    `again` those of the state before."""
    r, z = (gate_activation(fed(letter) + again(letter)) for letter in "rz")
    n = activation(fed("n") + r * again("n"))
    return n + z * (h - n)
