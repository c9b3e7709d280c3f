# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: cells that go along the axis REC, or a ragged one, in one loop whatever its length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....op_graph import functions as ng
from ....op_graph.axes import Axes
from ....op_graph.errors import AxisNotFound, UserError, fail
from ....op_graph.ragged import RaggedAxis
from ....op_graph.state import assign, sequential
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ...common.given import is_several
from ..graph import SubGraph
from .base import Layer, Transform
from .cells import BaseRNNCell, GatedCell, GRUCell, LSTMCell, RNNCell, States


class Unrolled(NamedTuple):
    """What a cell gives along REC: the outputs (hidden, REC, N), or (hidden, N$T) along a ragged axis N$T; each state before the first step and after the last one; and
    those that were asked for after each step, like the outputs."""

    outputs: Tensor
    first: States
    last: States
    steps: States


def unrolled(
    cell: BaseRNNCell,
    x: Tensor,
    init_states: Any,
    reset_cells: bool | None,
    backward: bool,
    wanted: Sequence[str] = (),
) -> Unrolled:
    """A cell that goes along REC, or, without one, a ragged axis; `reset_cells` None is what the cell says. `wanted` are states to be given after each step."""
    axis = x.axes.recurrent_axis()
    if axis is None:
        fail(
            AxisNotFound,
            f"({', '.join(x.axes.names)}) has neither an axis REC nor a ragged one, along which a recurrent layer goes",
            "ax.REC is it; ng.cast_role gives another axis its name",
        )
    batch = axis.outer if isinstance(axis, RaggedAxis) else x.axes.batch_axis()
    prepared = cell.prepare(x)
    reset = cell.reset_cells if reset_cells is None else reset_cells
    carried = init_states is None and not reset
    first = cell.initialize_states(batch, reset) if init_states is None else cell.started(init_states, batch)
    names = [*first]

    def step(states: tuple[Tensor, ...], here: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        out, after = cell.step(here, dict(zip(names, states, strict=True)))
        found = cell.named_states(after)
        return tuple([found[name] for name in names]), (out, *[found[name] for name in wanted])

    after, stacked = ng.scan(step, tuple(first.values()), prepared, axis, backward)
    outputs, *others = [_ordered(each, axis.name) for each in stacked]
    steps = dict(zip(wanted, others, strict=True))
    last = dict(zip(names, after, strict=True))
    if carried:
        # The order of the list: the steps read what was left, then it is written.
        writes = [assign(first[name], last[name]) for name in names]
        outputs = sequential([outputs, *writes, outputs])
        last = {name: sequential([outputs, state]) for name, state in last.items()}
    return Unrolled(outputs, first, last, steps)


def _ordered(stacked: Tensor, recurrent: str) -> Tensor:
    """What was stacked along REC as (hidden, REC, N)."""
    axes = stacked.axes
    hidden = Axes(a for a in axes if not a.is_batch and a.name != recurrent)
    return ng.axes_with_order(stacked, hidden | axes[recurrent] | axes.batch_axes())


def unroll(
    cell: BaseRNNCell,
    num_steps: int | None,
    inputs: Any,
    init_states: Any = None,
    reset_cells: bool = True,
    return_sequence: bool = True,
    reverse_mode: bool = False,
) -> Tensor:
    """The outputs of a cell over the first steps of a sequence, (hidden, REC, N), or only the last one.

    Args:
        cell: the cell.
        num_steps: how many steps; None for all.
        inputs: the sequence, with axes features, REC and N.
        init_states: the states before the first step: `{"h": h}`, or `{"h": h, "c": c}` of an LSTM.
        reset_cells: whether states that are not given start from 0; if not, from what the run before left.
        return_sequence: whether all outputs are given.
        reverse_mode: whether to go from the last step to the first; outputs stand at the places of their inputs.
    """
    x = as_op(inputs)
    axis = x.axes.recurrent_axis()
    if isinstance(axis, RaggedAxis) and num_steps is not None:
        fail(
            UserError,
            f"the sequences along {axis.name} differ in length, so that {num_steps} steps are not the first of each",
            "num_steps=None goes over all",
        )
    if axis is not None and num_steps is not None and num_steps != axis.length:
        x = ng.slice_along_axis(x, axis, slice(num_steps))
    reset = reset_cells and cell.reset_cells
    outputs = unrolled(cell, x, init_states, reset, reverse_mode).outputs
    return outputs if return_sequence else _last(outputs, reverse_mode)


def _last(outputs: Tensor, backward: bool) -> Tensor:
    axis = outputs.axes.recurrent_axis()
    assert axis is not None
    if isinstance(axis, RaggedAxis):
        return (ng.segment_first if backward else ng.segment_last)(outputs, axis=axis)
    return ng.slice_along_axis(outputs, axis, 0 if backward else -1)


class _RecurrentLayer(Layer):
    """A layer of one cell that goes along REC; attributes are those of the cell too."""

    def __init__(self, cell: GatedCell, *, return_sequence: bool, backward: bool, **arguments: Any):
        super().__init__(**arguments)
        self.cell = cell
        self.return_sequence, self.backward = return_sequence, backward

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        if cell is None or name.startswith("_"):
            raise AttributeError(name)
        return getattr(cell, name)

    def _run(self, in_obj: Any, init_state: Any, wanted: Sequence[str] = ()) -> Unrolled:
        """What the cell gives; `h_init` (and `c_init`) are the states before the first step from then on."""
        made = unrolled(self.cell, as_op(in_obj), init_state, None, self.backward, wanted)
        for name, state in made.first.items():
            setattr(self, f"{name}_init", state)
        return made

    def _given(self, made: Unrolled, state: str) -> Tensor:
        """A state after each step, or after the last one: of an empty sequence that before the first."""
        outputs = made.outputs if state == "h" else made.steps[state]
        if self.return_sequence:
            return outputs
        if isinstance(outputs.axes.recurrent_axis(), RaggedAxis):
            return ng.axes_with_order(made.last[state], self.cell.feature_axes | made.last[state].axes)
        return _last(outputs, self.backward)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, init_state: Any = None) -> Any:
        """The outputs (hidden, REC, N), or the last one.

        Args:
            in_obj: a tensor with axes features, REC and N, or features and a ragged axis.
            init_state: the state before the first step: a tensor, or a dictionary of states by name.
        """
        return self._given(self._run(in_obj, init_state), "h")


class Recurrent(_RecurrentLayer):
    """h <- activation(W_recur h + W_input x + b) along REC.

    The output is (hidden, REC, N); the hidden axis has the name of the feature axis that comes in, if there is one. After a call
    `layer.h_init` is the state before the first step.

    Args:
        nout: the number of elements of h.
        init: initial value of W_input.
        init_inner: initial value of W_recur; None: as `init`.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether W_input x is normalized.
        reset_cells: whether a run starts from 0; if not, from the last h of the run before.
        return_sequence: whether all steps are given; if not, the last one.
        backward: whether to go from the last step to the first; outputs stand at the places of their inputs.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
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
        cell = RNNCell(nout, init, init_inner, None, activation, batch_norm, reset_cells)
        super().__init__(cell, return_sequence=return_sequence, backward=backward, **arguments)


class _GatedLayer(_RecurrentLayer):
    """A layer of a cell with gates."""

    cell_class: type[GatedCell]

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
        cell = self.cell_class(
            nout, init, init_inner, None, activation, gate_activation, batch_norm, reset_cells
        )
        super().__init__(cell, return_sequence=return_sequence, backward=backward, **arguments)
        self.metadata = {**self.metadata, "gates": [*cell.gates]}


class LSTM(_GatedLayer):
    """Long short-term memory along REC (see LSTMCell).

    The output is (hidden, REC, N). After a call `layer.h_init` and `layer.c_init` are the states before the first step. Weights
    are dictionaries by gate: `layer.W_input["i"]`, `layer.W_recur["f"]`, `layer.b["o"]`, `layer.batch_norm["g"]`.

    Args:
        nout: the number of elements of h and of c.
        init: initial value of the weights of the input.
        init_inner: initial value of the weights of h; None: as `init`.
        activation: of g and of c; None is the identity.
        gate_activation: of the gates i, f and o; without it these have the activation too.
        batch_norm: whether the products with the input are normalized, gate by gate.
        reset_cells: whether a run starts from 0; if not, from the last states of the run before.
        return_sequence: whether all steps are given; if not, the last one.
        backward: whether to go from the last step to the first; outputs stand at the places of their inputs.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    layer_type = "lstm"
    cell_class = LSTMCell

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, init_state: Any = None, return_cell_state: bool = False) -> Any:
        """The outputs; with `return_cell_state` also c, of the same steps.

        Args:
            in_obj: a tensor with axes features, REC and N.
            init_state: the states before the first step: h, (h, c) or {"h": h, "c": c}.
            return_cell_state: whether c is given too: (h, c).
        """
        made = self._run(in_obj, init_state, ["c"] if return_cell_state else [])
        outputs = self._given(made, "h")
        return (outputs, self._given(made, "c")) if return_cell_state else outputs


class GRU(_GatedLayer):
    """A gated recurrent unit along REC (see GRUCell). The output is (hidden, REC, N).

    Args: those of LSTM; `activation` is tanh and `gate_activation` the logistic function unless others are given.
    """

    layer_type = "gru"
    cell_class = GRUCell


class BiRNN(Layer):
    """Two recurrent layers, `fwd_rnn` and `bwd_rnn`, of which the second goes backward.

    Args:
        nout: the number of elements of h, of each.
        init: initial value of the weights of the input.
        init_inner: initial value of the weights of h; None: as `init`.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether the products with the input are normalized.
        reset_cells: whether a run starts from 0. Unlike that of the others, the default is to go on from the run before.
        return_sequence: whether all steps are given; if not, the last one of each direction.
        sum_out: whether the output is the sum of both.
        concat_out: whether it is one behind the other along the feature axis. With neither it is the pair.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises UserError for sum and concatenation at once.
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
