# SPDX-License-Identifier: Apache-2.0
"""Training with products and convolutions in 16 bits: the optimizer rewrites the program before it appends gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ....ir.types import Type
from ....programs.attributes import OpRole
from ....programs.half_precision import HALVES, to_half
from ....support.diagnostics import UserError
from ....support.spelling import did_you_mean
from ..framework import Operator, Parameter, Program, Variable
from ..layers.made import layer
from ..optimizer import Optimizer

__all__ = ["MixedPrecisionOptimizer", "decorate"]

_NAMES = {"bfloat16": "bf16", "float16": "f16"}


class MixedPrecisionOptimizer:
    """An optimizer whose programs compute products and convolutions in 16 bits; see `decorate`."""

    def __init__(self, optimizer: Optimizer, element: Type, loss_scaling: float):
        self.optimizer, self.element, self.loss_scaling = optimizer, element, loss_scaling

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Collection[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable | None]]]:
        """Rewrites the program of the loss, then as `Optimizer.minimize`. The pairs are of gradients without the scale of the loss."""
        program = loss.block.program
        to_half(program.view, self.element)
        scaled = loss
        if self.loss_scaling != 1:
            with program.role(OpRole.Loss):
                scaled = layer("scale")(loss, scale=self.loss_scaling)
        pairs = self.optimizer.gradients(scaled, parameter_list, no_grad_set)
        if self.loss_scaling != 1:
            with program.role(OpRole.Backward):
                pairs = [
                    (p, None if g is None else layer("scale")(g, scale=1 / self.loss_scaling))
                    for p, g in pairs
                ]
        return self.optimizer.updates(pairs, loss, startup_program)


def decorate(
    optimizer: Optimizer, init_loss_scaling: float = 1.0, dest_dtype: str = "bfloat16"
) -> MixedPrecisionOptimizer:
    """An optimizer that trains in mixed precision: products and convolutions take operands of `dest_dtype` ("bfloat16" or "float16")
    and are summed in float32; parameters, and everything else, stay float32.

    Args:
        optimizer: what updates the parameters.
        init_loss_scaling: a factor of the loss while gradients are computed, which keeps small gradients of float16 from
            becoming 0; a power of two loses no bits. It does not change from step to step.
        dest_dtype: the element type of products.

    Raises UserError for another element type, and for a scale that is not positive.
    """
    name = _NAMES.get(dest_dtype)
    if name is None:
        hint = did_you_mean(str(dest_dtype), _NAMES, f"one of {', '.join(_NAMES)}")
        raise UserError(f"products are not computed in {dest_dtype!r}", hint=hint)
    scale: Any = init_loss_scaling
    if not isinstance(scale, (int, float)) or not 0 < scale < float("inf"):
        raise UserError(
            f"the loss is scaled by a positive number, not {scale!r}", hint="init_loss_scaling=1024.0"
        )
    return MixedPrecisionOptimizer(optimizer, HALVES[name], float(scale))
