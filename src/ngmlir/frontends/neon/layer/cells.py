# SPDX-License-Identifier: Apache-2.0
"""One step of a recurrence: what follows from what comes in and the states before it."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....op_graph import functions as ng
from ....op_graph.axes import Axes, Axis, make_axes
from ....op_graph.errors import IncompatibleAxesError, fail
from ....op_graph.functions.cells import GRU_GATES, LSTM_GATES, gru_step, lstm_step
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ...common.given import is_several
from ..activation import Logistic, Tanh
from ..axis import make_shadow_axis
from ..graph import SubGraph
from .base import Activation, Layer, Transform
from .linear import LABELS
from .normalization import BatchNorm

#: The states of a cell: (h,), or (h, c) of an LSTM.
States = tuple[Tensor, ...]


class BaseRNNCell(Layer):
    """A cell: `cell(x, states)` gives (output, states). A subclass says what a step is, and how many states there are.

    What does not depend on the states is done by `prepare` for all steps at once, `step` does the rest for each.
    """

    #: How many states it hands on.
    state_count = 1
    #: The axis of its output; known from the first call on.
    hidden: Axis | None = None

    def __init__(self, nout: int, **arguments: Any):
        super().__init__(**arguments)
        self.nout = nout
        self._carried: tuple[Tensor, ...] | None = None

    def prepare(self, x: Tensor) -> Tensor:
        """What `step` needs of the input."""
        return x

    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        """(output, states) of one step."""
        return self(prepared, states)

    def __call__(self, in_obj: Any, states: Any) -> tuple[Tensor, States]:
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")

    def state_axes(self, batch_axis: Axis | None) -> Axes:
        """The axes of its states: (hidden, N)."""
        if self.hidden is None:
            self.hidden = Axis(self.nout)
        return Axes((self.hidden, *(() if batch_axis is None else (batch_axis,))))

    def initialize_states(self, batch_axis: Axis | None, reset_cells: bool = True) -> States:
        """The states before the first step: 0, or, unless they are reset, what the steps of the last run left."""
        axes = self.state_axes(batch_axis)
        if reset_cells:
            return tuple([ng.constant(0, axes) for _ in range(self.state_count)])
        if self._carried is None:
            self._carried = tuple(
                self.parameter(f"{name}_init", axes, 0.0, trained=False) for name in "hc"[: self.state_count]
            )
        return self._carried

    def started(self, init_state: Any, batch_axis: Axis | None) -> States:
        """Given states (one tensor, or one for each) with the axes of this cell's."""
        given = init_state if is_several(init_state) else (init_state,)
        axes = self.state_axes(batch_axis)
        states = [as_op(state) for state in given]
        if len(states) < self.state_count:  # only h: c starts from 0
            states += [ng.constant(0, axes) for _ in range(self.state_count - len(states))]
        return tuple([_renamed(state, axes) for state in states])


def _renamed(state: Tensor, axes: Axes) -> Tensor:
    """A state under the axes of a cell: its one axis besides N is the hidden one, whatever it is called."""
    features = state.axes.feature_axes()
    if len(features) != 1 or state.axes.recurrent_axis() is not None:
        held, wanted = (", ".join(a.names) for a in (state.axes, axes))
        fail(IncompatibleAxesError, f"a first state has axes ({wanted}), not ({held})")
    if features[0].length not in (None, axes[0].length):
        fail(
            IncompatibleAxesError,
            f"the first state has {features[0].length} elements along {features[0].name}, the cell {axes[0].length}",
        )
    ordered = ng.broadcast(state, [*features, *state.axes.batch_axes()])
    return ng.broadcast(ng.cast_axes(ordered, [axes[0], *state.axes.batch_axes()]), axes)


class GatedCell(BaseRNNCell):
    """A cell of several products with the input and the state before: one for each gate, computed together."""

    gates: tuple[str, ...] = ("",)

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        **arguments: Any,
    ):
        super().__init__(nout, **arguments)
        self.init, self.init_inner = init, init if init_inner is None else init_inner
        self.activation = Activation(activation)
        self.gate_activation = self.activation if gate_activation is None else Activation(gate_activation)
        self.batch_norm = BatchNorm() if batch_norm else None
        self.gate_axis = Axis(len(self.gates))

    @property
    def W_input(self) -> Any:
        """The weights of the input: one, or one for each gate by its name."""
        return self._by_gate("W_input")

    @property
    def W_recur(self) -> Any:
        """The weights of the state before."""
        return self._by_gate("W_recur")

    @property
    def b(self) -> Any:
        """The biases."""
        return self._by_gate("b")

    def _by_gate(self, name: str) -> Any:
        if len(self.gates) == 1:
            return self.parameters[name]
        return {gate: self.parameters[f"{name}_{gate}"] for gate in self.gates}

    def _together(self, name: str, axes: Axes, init: Any, label: str) -> Tensor:
        """The parameters of all gates as one tensor, whose first axis is that of gates."""
        names = [f"{name}_{gate}" if gate else name for gate in self.gates]
        made = [self.parameter(each, axes, init, label) for each in names]
        return ng.stack(made, self.gate_axis)

    @SubGraph.scope_op_creation
    def prepare(self, x: Tensor) -> Tensor:
        features = x.axes.feature_axes()
        if self.hidden is None:
            self.hidden = Axis(self.nout, features[0].name if len(features) == 1 else None)
        out = make_shadow_axis(self.hidden)
        made = ng.dot(self._together("W_input", Axes((out, *features)), self.init, LABELS["weight"]), x)
        made = made if self.batch_norm is None else self.batch_norm(made)
        bias = self._together("b", Axes((self.hidden,)), 0.0, LABELS["bias"])
        made = ng.cast_axes(made, [self.gate_axis, self.hidden, *made.axes[2:]])
        return made + ng.axes_with_order(bias, [self.gate_axis, self.hidden])

    def recurrent(self, h: Tensor) -> Tensor:
        """The products with the state before, by gate."""
        assert self.hidden is not None
        weight = self._together(
            "W_recur",
            make_axes([make_shadow_axis(self.hidden), self.hidden]),
            self.init_inner,
            LABELS["weight"],
        )
        made = ng.dot(weight, h)
        return ng.cast_axes(made, [self.gate_axis, self.hidden, *made.axes[2:]])

    def gate(self, sums: Tensor, name: str) -> Tensor:
        """The part of one gate."""
        return ng.slice_along_axis(sums, self.gate_axis, self.gates.index(name))

    def _states(self, states: Any) -> States:
        return tuple(states) if is_several(states) else (as_op(states),)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, states: Any) -> tuple[Tensor, States]:
        return self.step(self.prepare(as_op(in_obj)), self._states(states))


class RNNCell(GatedCell):
    """h <- activation(W_recur h + W_input x + b)."""

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        h = self.activation(self.gate(prepared + self.recurrent(states[0]), ""))
        return h, (h,)


class LSTMCell(GatedCell):
    """Sums z = W_input x + W_recur h + b for the gates i, f, o and for g; c <- f c + i g, h <- o activation(c).

    Without `gate_activation` the gates have the activation too.
    """

    gates = LSTM_GATES
    state_count = 2

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        h, c = states
        sums = prepared + self.recurrent(h)
        h, c = lstm_step(partial(self.gate, sums), c, self.activation, self.gate_activation)
        return h, (h, c)


class GRUCell(GatedCell):
    """r and z from W_input x + W_recur h + b, n <- activation(W_input x + b + r (W_recur h + b_inner)), h <- (1 - z) n + z h."""

    gates = GRU_GATES

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        **arguments: Any,
    ):
        super().__init__(
            nout,
            init,
            init_inner,
            activation or Tanh(),
            gate_activation or Logistic(),
            batch_norm,
            **arguments,
        )

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        assert self.hidden is not None
        (h,) = states
        inner = self.recurrent(h)
        bias = self.parameter("b_inner", Axes((self.hidden,)), 0.0, LABELS["bias"])

        def again(letter: str) -> Tensor:
            made = self.gate(inner, letter)
            return made + bias if letter == "n" else made

        h = gru_step(partial(self.gate, prepared), again, h, self.activation, self.gate_activation)
        return h, (h,)
