# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: cells that go along the axis REC, in one loop whatever its length."""

from __future__ import annotations

from typing import Any

from ....op_graph import functions as ng
from ....op_graph.axes import Axes
from ....op_graph.errors import AxisNotFound, UserError, fail
from ....op_graph.state import assign, sequential
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ...common.given import is_several
from ..graph import SubGraph
from .base import Layer, Transform
from .cells import BaseRNNCell, GRUCell, LSTMCell, RNNCell, States


def unrolled(
    cell: BaseRNNCell, x: Tensor, init_states: Any, reset_cells: bool, backward: bool
) -> tuple[Tensor, States]:
    """(outputs (hidden, REC, N), states after the last step) of a cell that goes along REC."""
    axis = x.axes.recurrent_axis()
    if axis is None:
        fail(
            AxisNotFound,
            f"({', '.join(x.axes.names)}) has no axis REC, along which a recurrent layer goes",
            "ax.REC is it; ng.cast_role gives another axis its name",
        )
    batch = x.axes.batch_axis()
    prepared = cell.prepare(x)
    carried = init_states is None and not reset_cells
    start = (
        cell.initialize_states(batch, reset_cells)
        if init_states is None
        else cell.started(init_states, batch)
    )

    def step(states: States, here: Tensor) -> tuple[States, Tensor]:
        out, after = cell.step(here, states)
        return tuple(after), out

    last, outputs = ng.scan(step, start, prepared, axis, backward)
    hidden = Axes(a for a in outputs.axes if not a.is_batch and a != axis)
    outputs = ng.axes_with_order(outputs, [*hidden, outputs.axes[axis.name], *outputs.axes.batch_axes()])
    if carried:
        # The order of the list: the steps read what was left, then it is written.
        writes = [assign(kept, new) for kept, new in zip(start, last, strict=True)]
        outputs = sequential([outputs, *writes, outputs])
        last = tuple([sequential([outputs, state]) for state in last])
    return outputs, last


def unroll(
    cell: BaseRNNCell,
    num_steps: int | None,
    inputs: Any,
    init_states: Any = None,
    reset_cells: bool = True,
    return_sequence: bool = True,
    reverse_mode: bool = False,
) -> Tensor:
    """The outputs of a cell over the first `num_steps` of a sequence (None: all), or only the last one.

    `reverse_mode` goes from the last step to the first; outputs stand at the places of their inputs.
    """
    x = as_op(inputs)
    axis = x.axes.recurrent_axis()
    if axis is not None and num_steps is not None and num_steps != axis.length:
        x = ng.slice_along_axis(x, axis, slice(num_steps))
    outputs, _ = unrolled(cell, x, init_states, reset_cells, reverse_mode)
    return outputs if return_sequence else _last(outputs, reverse_mode)


def _last(outputs: Tensor, backward: bool) -> Tensor:
    axis = outputs.axes.recurrent_axis()
    assert axis is not None
    return ng.slice_along_axis(outputs, axis, 0 if backward else -1)


class _RecurrentLayer(Layer):
    """A layer of one cell."""

    cell: BaseRNNCell

    def __init__(
        self, cell: BaseRNNCell, reset_cells: bool, return_sequence: bool, backward: bool, **arguments: Any
    ):
        super().__init__(**arguments)
        self.cell = cell
        self.nout = cell.nout
        self.reset_cells, self.return_sequence, self.backward = reset_cells, return_sequence, backward

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        if cell is None or name.startswith("_"):
            raise AttributeError(name)
        return getattr(cell, name)

    def _run(self, in_obj: Any, init_state: Any) -> tuple[Tensor, States]:
        outputs, states = unrolled(self.cell, as_op(in_obj), init_state, self.reset_cells, self.backward)
        return outputs if self.return_sequence else _last(outputs, self.backward), states

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, init_state: Any = None) -> Tensor:
        return self._run(in_obj, init_state)[0]


class Recurrent(_RecurrentLayer):
    """h <- activation(W_recur h + W_input x + b) along REC; (hidden, REC, N), or the last h unless `return_sequence`.

    `init_inner` is for W_recur (None: `init`). The hidden axis has the name of the feature axis that comes in, if there is
    one. Batch normalization is that of W_input x. Unless `reset_cells`, a run starts from the last h of the run before it.
    `backward` goes from the last step to the first; outputs stand at the places of their inputs.
    """

    layer_type = "rnn"

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        return_sequence: bool = True,
        backward: bool = False,
        **arguments: Any,
    ):
        cell = RNNCell(nout, init, init_inner, activation, batch_norm=batch_norm)
        super().__init__(cell, reset_cells, return_sequence, backward, **arguments)


class LSTM(_RecurrentLayer):
    """Long short-term memory along REC (see LSTMCell); without `gate_activation` the gates have `activation` too."""

    layer_type = "lstm"

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        return_sequence: bool = True,
        backward: bool = False,
        **arguments: Any,
    ):
        cell = LSTMCell(nout, init, init_inner, activation, gate_activation, batch_norm)
        super().__init__(cell, reset_cells, return_sequence, backward, **arguments)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, init_state: Any = None, return_cell_state: bool = False) -> Any:
        """The outputs; with `return_cell_state` also the c after the last step."""
        made, states = self._run(in_obj, init_state)
        return (made, states[1]) if return_cell_state else made


class GRU(_RecurrentLayer):
    """A gated recurrent unit along REC (see GRUCell); activations are tanh and the logistic function unless others are
    given."""

    layer_type = "gru"

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        gate_activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = True,
        return_sequence: bool = True,
        backward: bool = False,
        **arguments: Any,
    ):
        cell = GRUCell(nout, init, init_inner, activation, gate_activation, batch_norm)
        super().__init__(cell, reset_cells, return_sequence, backward, **arguments)


class BiRNN(Layer):
    """Two recurrent layers, one of which goes backward: their outputs as a pair, their sum, or one behind the other along
    the feature axis. UserError for sum and concatenation at once. Unlike that of the others, the default is to go on
    from the run before.
    """

    layer_type = "birnn"

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        reset_cells: bool = False,
        return_sequence: bool = True,
        sum_out: bool = False,
        concat_out: bool = False,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        if sum_out and concat_out:
            fail(UserError, "the outputs of both directions are added or concatenated, not both")
        self.sum_out, self.concat_out, self.nout = sum_out, concat_out, nout
        self.fwd_rnn, self.bwd_rnn = (
            Recurrent(
                nout, init, init_inner, activation, batch_norm, reset_cells, return_sequence, backward,
                name="backward" if backward else "forward",
            )
            for backward in (False, True)
        )  # fmt: skip

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, init_state: Any = None) -> Any:
        """What comes in, and the first state, may be pairs: for the layer that goes forward, and for the other one."""
        ahead, back = in_obj if is_several(in_obj) else (in_obj, in_obj)
        first, second = init_state if is_several(init_state) else (init_state, init_state)
        forward = self.fwd_rnn(ahead, first)
        self.bwd_rnn.cell.hidden = self.fwd_rnn.cell.hidden
        backward = self.bwd_rnn(back, second)
        if self.sum_out:
            return forward + backward
        if self.concat_out:
            return ng.concat_along_axis([forward, backward], forward.axes[0])
        return forward, backward
