# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks, on `ng.scan`.

The product of the inputs of all steps is computed before the loop, that of the state inside it. Gates are an axis of the
weights, so that one product computes all of them. Axes are identified by name:

- x: the axis that is recurred over, the axes of features, and others such as N, in any order;
- w_input: the axes of features, and hidden axes, which x does not have;
- w_recurrent: the hidden axes, and as many others of the same lengths, which stand for the hidden axes of the step before;
- bias: hidden axes.

The axis that is recurred over may be ragged: then each sequence is a run of its own, states have the axis of the sequences (`N` of
`N$T`) in its place, and after the last step of an empty sequence they are those before the first. Sequences are packed into lanes, so
activations must compute each row independently (UserError otherwise).

Where there are gates, w_input, w_recurrent and the biases have one axis more, as long as there are gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..axes import Axes, Axis
from ..axis import RECURRENT
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..ragged import outer_of
from ..tensor import Tensor
from ..values import as_op, constant
from .cells import GRU_GATES, LSTM_GATES, Activation, Sums, gru_step, lstm_step
from .coerce import broadcast, check_lengths, operand, result_element
from .elementwise import add, tanh
from .linear import dot
from .network import sigmoid
from .scans import scan_rows
from .shape import axes_with_order, cast_role, concat_along_axis, slice_along_axis


def rnn(
    x: Any,
    w_input: Any,
    w_recurrent: Any,
    bias: Any = None,
    *,
    initial: Any = None,
    activation: Activation = tanh,
    backward: bool = False,
    return_sequence: bool = True,
    return_state: bool = False,
    axis: Axis | str = "REC",
) -> Any:
    """h = activation(w_input x + w_recurrent h + bias), step by step along `axis`.

    Axes: x (axis, features, others), w_input (hidden, features), w_recurrent (hidden, hidden before), bias (hidden), each in
    any order. The hidden axes are those of w_input that x has not; w_recurrent has them, and as many others of the same
    lengths. `initial` (hidden, others; repeated along what it lacks) is h before the first step: 0 unless given.

    Gives h at every step, with the axes of x in their order, the hidden ones in place of the features; with
    `return_sequence=False` h after the last step. `backward` goes from the last position to the first; what a position
    gives stays at its place. With `return_state` the result is a pair, whose second is h after the last step.

    Elements: float32, or f64 if an operand has it. Raises IncompatibleAxesError and AxisLengthError for axes that do not
    fit, AxisNotFound where x lacks `axis`.
    """
    cell = _Cell(x, w_input, w_recurrent, (bias,), (initial,), axis)

    def step(state: tuple[Tensor, ...], fed: Tensor) -> tuple[Tensor, ...]:
        return (cell.like_state(activation(add(fed, cell.recurrent(state[0]), cell.element))),)

    return cell.run(step, backward, return_sequence, return_state)


def lstm(
    x: Any,
    w_input: Any,
    w_recurrent: Any,
    bias: Any = None,
    *,
    initial: Any = None,
    cell: Any = None,
    activation: Activation = tanh,
    gate_activation: Activation = sigmoid,
    backward: bool = False,
    return_sequence: bool = True,
    return_state: bool = False,
    axis: Axis | str = "REC",
    gates: Axis | str | None = None,
) -> Any:
    """A long short-term memory: of z = w_input x + w_recurrent h + bias for each gate,
    c = gate_activation(z_f) c + gate_activation(z_i) activation(z_g) and h = gate_activation(z_o) activation(c).

    As `ng.rnn`, but the weights have one axis more, of the four gates in the order i, f, o, g: w_input (gates, hidden,
    features), w_recurrent (gates, hidden, hidden before), bias (gates, hidden). `gates` names it; unless given it is the
    first axis of w_input that has four elements and is not one of x. `ng.stack` makes it of four weights.

    `initial` and `cell` are h and c before the first step. With `return_state` the result is (h at every step, or the last;
    (h, c) after the last step).
    """
    made = _Cell(x, w_input, w_recurrent, (bias,), (initial, cell), axis, LSTM_GATES, gates)

    def step(state: tuple[Tensor, ...], fed: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        sums = made.gate_of(add(fed, made.recurrent(h), made.element))
        return tuple([made.like_state(each) for each in lstm_step(sums, c, activation, gate_activation)])

    return made.run(step, backward, return_sequence, return_state)


def gru(
    x: Any,
    w_input: Any,
    w_recurrent: Any,
    bias: Any = None,
    *,
    recurrent_bias: Any = None,
    initial: Any = None,
    activation: Activation = tanh,
    gate_activation: Activation = sigmoid,
    backward: bool = False,
    return_sequence: bool = True,
    return_state: bool = False,
    axis: Axis | str = "REC",
    gates: Axis | str | None = None,
) -> Any:
    """A gated recurrent unit: of z = w_input x + bias and u = w_recurrent h + recurrent_bias for each gate,
    r = gate_activation(z_r + u_r), k = gate_activation(z_k + u_k), n = activation(z_n + r u_n) and h = (1 - k) n + k h.

    As `ng.rnn`, but the weights have one axis more, of the three gates in the order r (reset), k (keep), n (new): w_input
    (gates, hidden, features), w_recurrent (gates, hidden, hidden before), bias and recurrent_bias (gates, hidden). `gates`
    names it; unless given it is the first axis of w_input that has three elements and is not one of x.
    """
    cell = _Cell(x, w_input, w_recurrent, (bias, recurrent_bias), (initial,), axis, GRU_GATES, gates)

    def step(state: tuple[Tensor, ...], fed: Tensor) -> tuple[Tensor, ...]:
        (h,) = state
        again = cell.gate_of(cell.recurrent(h))
        return (cell.like_state(gru_step(cell.gate_of(fed), again, h, activation, gate_activation)),)

    return cell.run(step, backward, return_sequence, return_state)


def bidirectional(
    layer: Callable[..., Any],
    x: Any,
    forward: Sequence[Any],
    backward: Sequence[Any],
    *,
    merge: Literal["concat", "sum"] | None = "concat",
    **settings: Any,
) -> Any:
    """A recurrent layer (`ng.rnn`, `ng.lstm`, `ng.gru`) run along x in both directions.

    `forward` and `backward` are the weights of the two: what the layer takes behind x, (w_input, w_recurrent, bias).
    `settings` go to both. What they give is joined along the hidden axis, forward first (`concat`), added (`sum`), or given as a
    pair (None).

    Raises UserError for another `merge`, for `return_state`, and for several hidden axes to join along; and what the layer raises.
    """
    if merge not in ("concat", "sum", None):
        fail(UserError, f"merge must be 'concat', 'sum' or None, not {merge!r}")
    if "backward" in settings or settings.get("return_state"):
        fail(
            UserError,
            "both directions run, and states are not merged",
            "call the function twice, once with backward=True",
        )
    x = as_op(x)
    pair = layer(x, *forward, **settings), layer(x, *backward, backward=True, **settings)
    if merge is None:
        return pair
    if merge == "sum":
        return add(*pair, pair[0].element)
    hidden = [a for a in pair[0].axes if a not in x.axes]
    if len(hidden) != 1:
        fail(
            UserError,
            f"results are joined along one hidden axis, not ({', '.join(a.name for a in hidden)})",
            "give merge=None",
        )
    return concat_along_axis(pair, hidden[0])


#: The states after a step, of those before it and of its row.
Step = Callable[[tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]


class _Cell:
    """What all recurrent layers share: which axis is what, the product before the loop, and the loop."""

    def __init__(
        self,
        x: Any,
        w_input: Any,
        w_recurrent: Any,
        biases: Sequence[Any],
        states: Sequence[Any],
        axis: Axis | str,
        letters: Sequence[str] = (),
        gates: Axis | str | None = None,
    ):
        given = (x, w_input, w_recurrent, *biases, *states)
        self.element = result_element(None, *(g for g in given if isinstance(g, Tensor)))
        x, w_input, self.w_recurrent = (operand(as_op(g), self.element) for g in given[:3])
        self.along = _along(x, axis)
        made = w_input.axes - x.axes
        self.letters = letters
        self.gates = _gates(made, gates, len(letters)) if letters else None
        self.hidden = made if self.gates is None else made - self.gates
        #: What a product makes: gates, where there are some, and the hidden axes.
        self.made = self.hidden if self.gates is None else Axes((self.gates, *self.hidden))
        self.features = x.axes & w_input.axes
        self._check(x, w_input)
        # The axes of x, the hidden ones in place of the features.
        places = [a for a in x.axes if a == self.features[0] or a not in self.features]
        self.sequence = Axes(h for a in places for h in (self.hidden if a in self.features else (a,)))
        # As products leave it, so that no step turns it round.
        self.begin = Axes((*self._in_a_step(x.axes - self.features), *self.hidden))
        self.before = self._before()
        bias, *self.later = [None if b is None else self._fitting(b, self.made, "the bias") for b in biases]
        fed = dot(x, w_input, dtype=self.element)
        self.fed = fed if bias is None else add(fed, bias, self.element)
        self.initial = tuple(None if s is None else self._initial(s) for s in states)

    # ---- which axis is what

    def _in_a_step(self, axes: Axes) -> Axes:
        """The axes without the one that is recurred over; a ragged one is replaced by the axis of the sequences."""
        return Axes(outer_of(a) for a in axes if outer_of(a) != self.along)

    def _check(self, x: Tensor, w_input: Tensor) -> None:
        check_lengths(x.axes, w_input.axes)
        if not self.hidden or not self.features or self.along in self.features or self.features.batch_axes():
            fail(
                IncompatibleAxesError,
                f"the input's weights have axes ({', '.join(w_input.axes.names)}), x ({', '.join(x.axes.names)})",
                "they need features of x, neither the batch axis nor the one that is recurred over, and hidden axes that x has not",
            )

    def _before(self) -> Axes:
        """The axes of the recurrent weights that stand for the hidden ones a step before, in the order of these."""
        own, made = self.w_recurrent.axes, self.made
        lacking = [a.name for a in made if a not in own]
        before = own - made
        if lacking or len(before) != len(self.hidden):
            fail(
                IncompatibleAxesError,
                f"the recurrent weights have axes ({', '.join(own.names)}); they need "
                f"({', '.join(made.names)}) and as many for ({', '.join(self.hidden.names)}) a step before",
            )
        check_lengths(own, made)
        for axis, other in zip(self.hidden, before, strict=True):
            if axis.length != other.length and None not in (axis.length, other.length):
                fail(
                    AxisLengthError,
                    f"the hidden axis {axis.name} has {axis.length} elements, {other.name} a step before {other.length}",
                )
        return before

    def _initial(self, state: Any) -> Tensor:
        return broadcast(self._fitting(state, self.begin, "the state before the first step"), self.begin)

    def _fitting(self, given: Any, axes: Axes, what: str) -> Tensor:
        made = operand(given, self.element)
        if not made.axes.is_sub_set(axes):
            fail(
                IncompatibleAxesError,
                f"{what} has axes ({', '.join(made.axes.names)}), not those of ({', '.join(axes.names)})",
            )
        check_lengths(made.axes, axes)
        return made

    # ---- what is computed

    def recurrent(self, h: Tensor) -> Tensor:
        """The recurrent product, for all gates."""
        names = dict(zip(self.hidden.names, self.before, strict=True))
        shadowed = cast_role(h, [names.get(a.name, a) for a in h.axes])
        made = dot(shadowed, self.w_recurrent, dtype=self.element)
        return add(made, self.later[0], self.element) if self.later and self.later[0] is not None else made

    def gate_of(self, sums: Tensor) -> Sums:
        """The part of one gate, by its letter."""
        along = self.gates
        assert along is not None
        return lambda letter: slice_along_axis(sums, along, self.letters.index(letter))

    def like_state(self, made: Tensor) -> Tensor:
        """A state with its axes in the order of the carried value."""
        return axes_with_order(made, self.begin)

    def run(
        self,
        step: Step,
        backward: bool,
        return_sequence: bool,
        return_state: bool,
    ) -> Any:
        zero = broadcast(constant(0, dtype=self.element), self.begin - outer_of(self.along))
        initial = tuple([zero if state is None else state for state in self.initial])

        def body(state: tuple[Tensor, ...], fed: Tensor) -> tuple[tuple[Tensor, ...], Any]:
            state = step(state, fed)
            return state, state[0]

        last, outputs = scan_rows(body, initial, self.fed, self.along, reverse=backward)
        ended = [axes_with_order(state, self._in_a_step(self.sequence)) for state in last]
        result = axes_with_order(outputs, self.sequence) if return_sequence else ended[0]
        if not return_state:
            return result
        return result, (tuple(ended) if len(ended) > 1 else ended[0])


def _along(x: Tensor, axis: Axis | str) -> Axis:
    """The axis that is recurred over: that which is given, or, in place of REC where there is none, a ragged one."""
    ragged = x.axes.recurrent_axis()
    if axis == RECURRENT and RECURRENT not in x.axes.names and ragged is not None:
        return ragged
    return x.axes[x.axes.index(axis)]


def _gates(made: Axes, gates: Axis | str | None, count: int) -> Axis:
    """The axis of the gates among those that the input's weights have and x has not."""
    if gates is None:
        found = next((a for a in made if a.length == count), None)
        if found is None:
            fail(
                IncompatibleAxesError,
                f"the input's weights need an axis of {count} gates; those that x has not are ({', '.join(made.names)})",
                "ng.stack makes it of one weight for each gate",
            )
        return found
    found = made[made.index(gates)]
    if found.length != count:
        fail(AxisLengthError, f"the axis of gates {found.name} has {found.length} elements, not {count}")
    return found
