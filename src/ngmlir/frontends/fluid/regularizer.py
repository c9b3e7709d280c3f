# SPDX-License-Identifier: Apache-2.0
"""Regularization: what is added to the gradients of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...programs.attributes import OpRole
from ...programs.vartypes import VarType
from . import unique_name
from .framework import Variable
from .said import recorded

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer", "append_regularization_ops"]


class WeightDecayRegularizer:
    """Appends what is to be added to a gradient: `regularizer(parameter, gradient, block)` gives the variable."""

    def __call__(self, param: Variable, grad: Variable, block: Any) -> Variable:
        raise NotImplementedError


@recorded("l2_decay")
class L2DecayRegularizer(WeightDecayRegularizer):
    """coefficient * parameter."""

    def __init__(self, regularization_coeff: float = 0.0):
        self.coefficient = float(regularization_coeff)

    def record(self) -> Mapping[str, Any]:
        return {"regularization_coeff": self.coefficient}

    def __call__(self, param: Variable, grad: Variable, block: Any) -> Variable:
        return _scaled(param, param, block, self.coefficient)

    def __str__(self) -> str:
        return f"L2Decay, regularization_coeff={self.coefficient}"


@recorded("l1_decay")
class L1DecayRegularizer(WeightDecayRegularizer):
    """coefficient * sign(parameter)."""

    def __init__(self, regularization_coeff: float = 0.0):
        self.coefficient = float(regularization_coeff)

    def record(self) -> Mapping[str, Any]:
        return {"regularization_coeff": self.coefficient}

    def __call__(self, param: Variable, grad: Variable, block: Any) -> Variable:
        sign = _new(param, block)
        block.append_op(type="sign", inputs={"X": [param]}, outputs={"Out": [sign]})
        return _scaled(sign, param, block, self.coefficient)

    def __str__(self) -> str:
        return f"L1Decay, regularization_coeff={self.coefficient}"


def append_regularization_ops(
    parameters_and_grads: Sequence[tuple[Variable, Variable | None]],
    regularization: WeightDecayRegularizer | None = None,
) -> list[tuple[Variable, Variable | None]]:
    """Pairs of parameters and their gradients with what their regularizers, or else `regularization`, add."""
    made: list[tuple[Variable, Variable | None]] = []
    for param, grad in parameters_and_grads:
        regularizer = getattr(param, "regularizer", None) or regularization
        if grad is None or regularizer is None:
            made.append((param, grad))
            continue
        block = grad.block
        with block.program.role(OpRole.Backward, [param.name, grad.name]):
            decay = regularizer(_rows_of(param, grad, block), grad, block)
            total = _new(grad, block)
            block.append_op(type="sum", inputs={"X": [grad, decay]}, outputs={"Out": [total]})
        made.append((param, total))
    return made


def _rows_of(param: Variable, grad: Variable, block: Any) -> Variable:
    """A parameter; where its gradient is sparse rows, the rows of the parameter that it has."""
    if grad.type != VarType.SELECTED_ROWS:
        return param
    made = _new(param, block)
    block.append_op(type="select_rows", inputs={"X": [param], "Like": [grad]}, outputs={"Out": [made]})
    return made


def _new(like: Variable, block: Any) -> Variable:
    return block.create_var(name=unique_name.generate(f"{like.name}.regularized"), dtype=like.dtype)


def _scaled(x: Variable, param: Variable, block: Any, factor: float) -> Variable:
    made = _new(param, block)
    block.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [made]}, attrs={"scale": factor})
    return made


L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer
