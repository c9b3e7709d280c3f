# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over sequences. The product with the input is an `fc` before them."""

from __future__ import annotations

from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper

__all__ = ["dynamic_gru", "dynamic_lstm", "dynamic_lstmp"]


def _outputs(helper: LayerHelper, dtype: Any, slots: tuple[str, ...]) -> dict[str, list[Variable]]:
    return {slot: [helper.create_tmp_variable(dtype)] for slot in slots}


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """A long short-term memory over sequences: hidden states and cells, [rows, D], of an input [rows, 4 D]; `size` is 4 D. States
    begin as `h_0` and `c_0`, [sequences, D], or zeros."""
    helper = LayerHelper("lstm", input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = _width(size, 4, "dynamic_lstm")
    weight = helper.create_parameter(helper.param_attr, [width, 4 * width], dtype)
    bias = _gate_bias(helper, width, use_peepholes, dtype)
    outputs = _outputs(helper, dtype, ("Hidden", "Cell", "BatchGate", "BatchCellPreAct"))
    inputs: dict[str, Any] = {"Input": input, "Weight": weight, "Bias": bias, **_begins(h_0, c_0)}
    fields = {
        "use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation,
        "cell_activation": cell_activation, "candidate_activation": candidate_activation,
    }  # fmt: skip
    helper.append_op(type="lstm", inputs=inputs, outputs=outputs, attrs=fields)
    return outputs["Hidden"][0], outputs["Cell"][0]


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM whose recurrent state is a projection of the hidden state to `proj_size`. Returns projections and cells. `param_attr` is of
    the weight and of the projection's, which is called as the weight with `_proj` behind it; or a list of one for each."""
    helper = LayerHelper("lstmp", input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = _width(size, 4, "dynamic_lstmp")
    first, second = helper.multiple_param_attr(2, endings=("", "_proj"))
    weight = helper.create_parameter(first, [proj_size, 4 * width], dtype)
    projection = helper.create_parameter(second, [width, proj_size], dtype)
    bias = _gate_bias(helper, width, use_peepholes, dtype)
    slots = ("Projection", "Cell", "BatchHidden", "BatchGate", "BatchCellPreAct", "OrderedP0")
    outputs = _outputs(helper, dtype, slots)
    inputs = {"Input": input, "Weight": weight, "ProjWeight": projection, "Bias": bias}
    fields = {
        "use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation,
        "cell_activation": cell_activation, "candidate_activation": candidate_activation,
        "proj_activation": proj_activation,
    }  # fmt: skip
    helper.append_op(type="lstmp", inputs=inputs, outputs=outputs, attrs=fields)
    return outputs["Projection"][0], outputs["Cell"][0]


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """A gated recurrent network over sequences: hidden states [rows, D] of an input [rows, 3 D]; `size` is D. In `origin_mode` the update gate
    is the share of the state before, else of the candidate."""
    helper = LayerHelper("gru", input=input, param_attr=param_attr, bias_attr=bias_attr)
    dtype = helper.input_dtype()
    weight = helper.create_parameter(helper.param_attr, [size, 3 * size], dtype)
    inputs: dict[str, Any] = {"Input": input, "Weight": weight, **_begins(h_0, None)}
    if helper.bias_attr is not False:
        inputs["Bias"] = helper.create_parameter(helper.bias_attr, [1, 3 * size], dtype, is_bias=True)
    slots = ("BatchGate", "BatchResetHiddenPrev", "BatchHidden", "Hidden")
    outputs = _outputs(helper, dtype, slots)
    fields = {
        "is_reverse": is_reverse, "gate_activation": gate_activation, "activation": candidate_activation, "origin_mode": origin_mode,
    }  # fmt: skip
    helper.append_op(type="gru", inputs=inputs, outputs=outputs, attrs=fields)
    return outputs["Hidden"][0]


def _begins(h_0: Variable | None, c_0: Variable | None) -> dict[str, Variable]:
    return {slot: v for slot, v in (("H0", h_0), ("C0", c_0)) if v is not None}


def _gate_bias(helper: LayerHelper, width: int, use_peepholes: bool, dtype: Any) -> Variable:
    """The bias of the four gates of an LSTM, with the three peepholes behind it where there are any."""
    columns = (7 if use_peepholes else 4) * width
    return helper.create_parameter(helper.bias_attr, [1, columns], dtype, is_bias=True)


def _width(size: int, gates: int, layer: str) -> int:
    if size % gates:
        raise UserError(
            f"the size of {layer} is {gates} times the width of its states, not {size}",
            hint=f"size={gates} * width, as of the layers.fc before it",
        )
    return size // gates
