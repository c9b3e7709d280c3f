# SPDX-License-Identifier: Apache-2.0
"""One step of a recurrence: what follows from what comes in and the states before it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....op_graph import functions as ng
from ....op_graph.axes import Axes, Axis
from ....op_graph.errors import IncompatibleAxesError, UserError, fail
from ....op_graph.functions.cells import GRU_GATES, LSTM_GATES, gru_step, lstm_step
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ....support.spelling import counted
from ...common.given import is_named, is_several
from ..activation import Logistic, Tanh
from ..graph import SubGraph
from .base import Activation, Layer, Transform
from .linear import LABELS, Affine, Bias, Linear
from .normalization import BatchNorm

#: The states of a cell by name: {"h": h}, or {"h": h, "c": c} of an LSTM.
States = dict[str, Tensor]


class BaseRNNCell(Layer):
    """A cell: `cell(x, states)` gives (output, states after the step), states by their names.

    A subclass says what a step is, in `__call__`, and, where there is more than h, which states there are, in `state_info`. What
    does not depend on the states may be done by `prepare`, for all steps at once; `step` does the rest for each.

    Args:
        nout: the number of elements of the output.
        reset_cells: whether a run starts from 0; if not, from what the last steps of the run before left.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    #: The axis of its output; known from the first call on.
    hidden: Axis | None = None

    def __init__(self, nout: int, reset_cells: bool = True, **arguments: Any):
        super().__init__(**arguments)
        self.nout, self.reset_cells = nout, reset_cells
        self._carried: States | None = None

    @property
    def state_info(self) -> list[dict[str, str]]:
        """What states there are: `[{"state_name": "h"}]`."""
        return [{"state_name": "h"}]

    @property
    def state_names(self) -> list[str]:
        """The names of the states, in their order."""
        return [each["state_name"] for each in self.state_info]

    @property
    def feature_axes(self) -> Axes:
        """The axes of its output but N and REC."""
        if self.hidden is None:
            self.hidden = Axis(self.nout)
        return Axes((self.hidden,))

    def prepare(self, x: Tensor) -> Tensor:
        """What `step` needs of the input."""
        return x

    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        """(output, states) of one step."""
        return self(prepared, states)

    def __call__(self, in_obj: Any, states: Any) -> tuple[Tensor, States]:
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")

    def initialize_states(self, batch_axis: Axis | None, reset_cells: bool | None = None) -> States:
        """The states before the first step, by name: 0, or, unless they are reset, what the last steps of the run before left."""
        axes = self.feature_axes + (() if batch_axis is None else (batch_axis,))
        if self.reset_cells if reset_cells is None else reset_cells:
            return {name: ng.constant(0, axes) for name in self.state_names}
        if self._carried is None:
            self._carried = {
                name: self.parameter(f"{name}_init", axes, 0.0, trained=False) for name in self.state_names
            }
        return self._carried

    def started(self, given: Any, batch_axis: Axis | None) -> States:
        """Given states with the axes of this cell's: a dictionary by name, or a tensor, or one for each in their order.

        A state that is not given starts from 0. Raises UserError for a name that no state has, IncompatibleAxesError for other
        axes.
        """
        states = self.initialize_states(batch_axis, reset_cells=True)
        return {**states, **{n: _renamed(t, states[n].axes) for n, t in self.named_states(given).items()}}

    def named_states(self, given: Any) -> States:
        """States by name, from a dictionary, a tensor, or one for each in their order."""
        if is_named(given):
            unknown = [str(name) for name in given if name not in self.state_names]
            if unknown:
                fail(
                    UserError,
                    f"{type(self).__name__} has no state {unknown[0]!r}",
                    f"its states are {', '.join(self.state_names)}",
                )
            return {name: as_op(state) for name, state in given.items()}
        several = given if is_several(given) else (given,)
        if len(several) > len(self.state_names):
            fail(
                UserError,
                f"{counted(len(several), 'state')} for a cell that has {', '.join(self.state_names)}",
            )
        return {name: as_op(state) for name, state in zip(self.state_names, several, strict=False)}


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


class InputProduct(Affine):
    """What a cell, or one gate of it, makes of the input: a product, batch normalization of it, and a bias.

    The cell computes those of all gates together; this holds the parameters, as `linear.W`, `batch_norm` and `bias.W`.
    """

    def __init__(self, init: Any, nout: int, bias_init: Any, batch_norm: bool, **arguments: Any):
        super().__init__(init, nout=nout, **arguments)
        self.bias = Bias(bias_init, shared=False)
        self.batch_norm = BatchNorm() if batch_norm else None

    @SubGraph.scope_op_creation
    def weight(self, hidden: Axis, features: Axes) -> Tensor:
        """The weights, with axes (hidden as a shadow, features)."""
        self.linear.axes = Axes((hidden,))
        return self.linear.weight(features)

    @SubGraph.scope_op_creation
    def shift(self, hidden: Axis) -> Tensor:
        """The bias, with the axis of the output."""
        return self.bias.value(Axes((hidden,)))

    @SubGraph.scope_op_creation
    def normalized(self, product: Tensor) -> Tensor:
        """The product after batch normalization."""
        assert self.batch_norm is not None
        return self.batch_norm(product)


class GatedCell(BaseRNNCell):
    """A cell of several products with the input and with the state before: one for each gate, computed together.

    `i2h` are the products with the input (`.linear.W`, `.bias.W`), `h2h` those with the state (`.W`): of a cell with gates
    dictionaries by their letters.
    """

    gates: tuple[str, ...] = ("",)

    def __init__(
        self,
        nout: int,
        init: Any,
        init_h2h: Any = None,
        bias_init: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        **arguments: Any,
    ):
        super().__init__(nout, reset_cells, **arguments)
        self.init, self.init_h2h = init, init if init_h2h is None else init_h2h
        self.activation = Activation(activation)
        self.gate_activation = self.activation if gate_activation is None else Activation(gate_activation)
        self.gate_axis = Axis(len(self.gates))
        self._inputs = {gate: InputProduct(init, nout, bias_init, batch_norm) for gate in self.gates}
        self._states = {gate: Linear(self.init_h2h, nout=nout) for gate in self.gates}
        for gate in self.gates:
            self._inputs[gate].place = f"i2h_{gate}" if gate else "i2h"
            self._states[gate].place = f"h2h_{gate}" if gate else "h2h"

    def _by_gate(self, parts: Mapping[str, Any]) -> Any:
        """One part, or those of all gates by their letters."""
        return parts[""] if "" in parts else dict(parts)

    @property
    def i2h(self) -> Any:
        """The products with the input: one, or one for each gate by its letter."""
        return self._by_gate(self._inputs)

    @property
    def h2h(self) -> Any:
        """The products with the state before."""
        return self._by_gate(self._states)

    @property
    def W_input(self) -> Any:
        """The weights of the input."""
        return self._by_gate({gate: part.linear.W for gate, part in self._inputs.items()})

    @property
    def W_recur(self) -> Any:
        """The weights of the state before."""
        return self._by_gate({gate: part.W for gate, part in self._states.items()})

    @property
    def b(self) -> Any:
        """The biases."""
        return self._by_gate({gate: part.bias.W for gate, part in self._inputs.items()})

    @property
    def batch_norm(self) -> Any:
        """The batch normalizations of the products with the input; None without."""
        found = {gate: part.batch_norm for gate, part in self._inputs.items() if part.batch_norm is not None}
        return self._by_gate(found) if found else None

    @SubGraph.scope_op_creation
    def prepare(self, x: Tensor) -> Tensor:
        features = x.axes.feature_axes()
        if self.hidden is None:
            self.hidden = Axis(self.nout, features[0].name if len(features) == 1 else None)
        hidden, parts = self.hidden, self._inputs
        weights = ng.stack([parts[gate].weight(hidden, features) for gate in self.gates], self.gate_axis)
        made = ng.dot(weights, x)
        made = ng.cast_axes(made, [self.gate_axis, hidden, *made.axes[2:]])
        if self.batch_norm is not None:
            each = [parts[gate].normalized(self.gate(made, gate)) for gate in self.gates]
            made = ng.stack(each, self.gate_axis)
        bias = ng.stack([parts[gate].shift(hidden) for gate in self.gates], self.gate_axis)
        return made + bias

    def recurrent(self, h: Tensor) -> Tensor:
        """The products with the state before, by gate."""
        hidden = self.feature_axes
        for part in self._states.values():
            part.axes = hidden
        weight = ng.stack([self._states[gate].weight(hidden) for gate in self.gates], self.gate_axis)
        made = ng.dot(weight, h)
        return ng.cast_axes(made, [self.gate_axis, *hidden, *made.axes[2:]])

    def gate(self, sums: Tensor, name: str) -> Tensor:
        """The part of one gate."""
        return ng.slice_along_axis(sums, self.gate_axis, self.gates.index(name))

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, states: Any) -> tuple[Tensor, States]:
        """(output, states after the step) of one step: of an input without REC, and of the states before it."""
        x = as_op(in_obj)
        prepared = self.prepare(x)
        return self.step(prepared, self.started(states, x.axes.batch_axis()))


class RNNCell(GatedCell):
    """h <- activation(W_recur h + W_input x + b).

    Args:
        nout: the number of elements of h.
        init: initial value of W_input, `cell.i2h.linear.W`.
        init_h2h: initial value of W_recur, `cell.h2h.W`; None: as `init`.
        bias_init: initial value of b, `cell.i2h.bias.W`; None means 0.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether W_input x is normalized.
        reset_cells: whether a run starts from 0; if not, from what the run before left.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    def __init__(
        self,
        nout: int,
        init: Any,
        init_h2h: Any = None,
        bias_init: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        **arguments: Any,
    ):
        super().__init__(
            nout, init, init_h2h, bias_init, activation, None, batch_norm, reset_cells, **arguments
        )

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        h = self.activation(self.gate(prepared + self.recurrent(states["h"]), ""))
        return h, {"h": h}


class LSTMCell(GatedCell):
    """Sums z = W_input x + W_recur h + b for the gates i, f, o and for g; c <- f c + i g, h <- o activation(c).

    Args:
        nout: the number of elements of h and of c.
        init: initial value of the weights of the input, `cell.i2h[gate].linear.W`.
        init_h2h: initial value of the weights of h, `cell.h2h[gate].W`; None: as `init`.
        bias_init: initial value of the biases, `cell.i2h[gate].bias.W`; None means 0.
        activation: of g and of c; None is the identity.
        gate_activation: of i, f and o; without it these have the activation too.
        batch_norm: whether the products with the input are normalized, gate by gate.
        reset_cells: whether a run starts from 0; if not, from what the run before left.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    gates = LSTM_GATES

    @property
    def state_info(self) -> list[dict[str, str]]:
        return [{"state_name": "h"}, {"state_name": "c"}]

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        sums = prepared + self.recurrent(states["h"])
        h, c = lstm_step(partial(self.gate, sums), states["c"], self.activation, self.gate_activation)
        return h, {"h": h, "c": c}


class GRUCell(GatedCell):
    """r and z from W_input x + W_recur h + b, n <- activation(W_input x + b + r (W_recur h + b_inner)), h <- (1 - z) n + z h.

    Args: those of LSTMCell; `activation` is tanh and `gate_activation` the logistic function unless others are given.
    """

    gates = GRU_GATES

    def __init__(
        self,
        nout: int,
        init: Any,
        init_h2h: Any = None,
        bias_init: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        **arguments: Any,
    ):
        super().__init__(
            nout, init, init_h2h, bias_init, activation or Tanh(), gate_activation or Logistic(),
            batch_norm, reset_cells, **arguments,
        )  # fmt: skip

    @SubGraph.scope_op_creation
    def step(self, prepared: Tensor, states: States) -> tuple[Tensor, States]:
        h = states["h"]
        inner = self.recurrent(h)
        bias = self.parameter("b_inner", self.feature_axes, 0.0, LABELS["bias"])

        def again(letter: str) -> Tensor:
            made = self.gate(inner, letter)
            return made + bias if letter == "n" else made

        h = gru_step(partial(self.gate, prepared), again, h, self.activation, self.gate_activation)
        return h, {"h": h}
