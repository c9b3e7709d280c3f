# SPDX-License-Identifier: Apache-2.0
"""Clipping of gradients, by the norm of all or element by element, and of weights."""

from __future__ import annotations

from collections.abc import Iterable

from ...op_graph import functions as ng
from ...op_graph.tensor import Tensor

__all__ = ["clip_gradient_norm", "clip_gradient_value", "clip_weight_value"]


def clip_gradient_norm(grad_list: Iterable[Tensor], clip_norm: float | None = None) -> Tensor | float:
    """The factor that brings the norm of all gradients together to at most `clip_norm`; 1 for None.

    Args:
        grad_list: the gradients.
        clip_norm: the greatest norm, the square root of the sum of all squared elements.
    """
    if clip_norm is None:
        return 1.0
    norm = sum([ng.sum(grad * grad, out_axes=()) for grad in grad_list], ng.constant(0))
    return clip_norm / ng.maximum(ng.sqrt(norm), clip_norm)


def clip_gradient_value(grad: Tensor, clip_value: float | None = None) -> Tensor:
    """The gradient, each element held between -clip_value and clip_value; itself for None."""
    return grad if clip_value is None else ng.clip(grad, -abs(clip_value), abs(clip_value))


def clip_weight_value(
    weight: Tensor, clip_value: float | None = None, min_value_override: float | None = None
) -> Tensor:
    """The weight, each element held between -clip_value (or `min_value_override`) and clip_value; itself for None."""
    if clip_value is None:
        return weight
    least = -abs(clip_value) if min_value_override is None else min_value_override
    return ng.clip(weight, least, abs(clip_value))
