# SPDX-License-Identifier: Apache-2.0
"""Clips of gradients: attributes of parameters that act after the backward walk, and of variables that act inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...programs.attributes import OpRole
from ...programs.names import GRADIENT
from ...support.diagnostics import UserError
from .framework import Parameter, Program, Variable, default_main_program
from .layers.made import layer
from .layers.shaping import reduce_sum
from .layers.tensor import fill_constant, sums
from .said import recorded

__all__ = [
    "ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "ErrorClipByValue", "GradientClipByGlobalNorm", "GradientClipByNorm",
    "GradientClipByValue", "append_gradient_clip_ops", "error_clip_callback", "set_gradient_clip",
]  # fmt: skip

Pair = tuple[Any, Any]


class ErrorClipByValue:
    """Holds the gradient of a variable between two numbers inside the backward walk: `variable.error_clip = ErrorClipByValue(1.0)`."""

    def __init__(self, max: float, min: float | None = None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def append_clip_op(self, block: Any, grad_name: str) -> None:
        """Appends the operator that holds a gradient."""
        bounds = {"min": self.min, "max": self.max}
        block.append_op(type="clip", inputs={"X": [grad_name]}, outputs={"Out": [grad_name]}, attrs=bounds)


def error_clip_callback(block: Any, context: Mapping[str, Any]) -> None:
    """A callback of `append_backward`: clips each gradient once it is finished, where its variable has an `error_clip`."""
    gradient = context.get("finished")
    if gradient is None:
        return
    clip = block.var_recursive(gradient.removesuffix(GRADIENT)).error_clip
    if clip is not None:
        with block.program.role(OpRole.Backward):
            clip.append_clip_op(block, gradient)


class BaseGradientClipAttr:
    """How the gradients of parameters are clipped; `clipped` gives those of a group of pairs."""

    def group(self) -> str:
        """Pairs of one group are clipped together."""
        return ""

    def clipped(self, pairs: Sequence[Pair]) -> list[Pair]:
        raise NotImplementedError


@recorded("clip_by_value")
class GradientClipByValue(BaseGradientClipAttr):
    """Holds each element between two numbers: `max` and `min`, which is -max unless it is given."""

    def __init__(self, max: float, min: float | None = None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def record(self) -> Mapping[str, Any]:
        return {"max": self.max, "min": self.min}

    def clipped(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [(p, layer("clip")(g, min=self.min, max=self.max)) for p, g in pairs]


@recorded("clip_by_norm")
class GradientClipByNorm(BaseGradientClipAttr):
    """g min(1, c / ||g||), of each gradient by itself."""

    def __init__(self, clip_norm: float):
        self.clip_norm = float(clip_norm)

    def record(self) -> Mapping[str, Any]:
        return {"clip_norm": self.clip_norm}

    def clipped(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [(p, layer("clip_by_norm")(g, max_norm=self.clip_norm)) for p, g in pairs]


@recorded("clip_by_global_norm")
class GradientClipByGlobalNorm(BaseGradientClipAttr):
    """g c / max(c, norm), with the norm of all gradients of a group together."""

    def __init__(self, clip_norm: float, group_name: str = "default_group"):
        self.clip_norm, self.group_name = float(clip_norm), group_name

    def record(self) -> Mapping[str, Any]:
        return {"clip_norm": self.clip_norm, "group_name": self.group_name}

    def group(self) -> str:
        return self.group_name

    def clipped(self, pairs: Sequence[Pair]) -> list[Pair]:
        limits: set[float] = {p.gradient_clip_attr.clip_norm for p, _ in pairs}
        if len(limits) > 1:
            raise UserError(
                f"the group '{self.group_name}' is clipped to different norms: {sorted(limits)}",
                hint="group_name= makes a group of its own",
            )
        norm = layer("sqrt")(sums([reduce_sum(layer("square")(g)) for _, g in pairs]))
        limit = fill_constant([1], norm.dtype, self.clip_norm)
        factor = limit / layer("elementwise_max")(limit, norm)
        return [(p, layer("elementwise_mul")(g, factor)) for p, g in pairs]


def set_gradient_clip(
    clip: BaseGradientClipAttr, param_list: Sequence[Any] | None = None, program: Program | None = None
) -> None:
    """Has the gradients of parameters (those listed, or all of a program) clipped."""
    program = default_main_program() if program is None else program
    if not isinstance(clip, BaseGradientClipAttr):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"{clip!r} is no clip", hint="fluid.clip.GradientClipByGlobalNorm(1.0)")
    block = program.global_block()
    chosen: Sequence[Any] = block.all_parameters() if param_list is None else param_list
    for param in chosen:
        found = block.var(param) if isinstance(param, str) else param
        if not isinstance(found, Parameter):
            raise UserError(f"'{found.name}' is no parameter")
        found.gradient_clip_attr = clip


def append_gradient_clip_ops(param_grads: Sequence[Pair]) -> list[Pair]:
    """Pairs of parameters and their gradients, clipped where the parameters say so."""
    groups: dict[tuple[type, str], list[Pair]] = {}
    for param, grad in param_grads:
        clip = getattr(param, "gradient_clip_attr", None)
        if grad is not None and isinstance(clip, BaseGradientClipAttr):
            groups.setdefault((type(clip), clip.group()), []).append((param, grad))
    found: dict[str, Variable] = {}
    for pairs in groups.values():
        program = pairs[0][1].block.program
        with program.role(OpRole.Backward):
            found |= {p.name: g for p, g in pairs[0][0].gradient_clip_attr.clipped(pairs)}
    return [(p, found.get(p.name, g)) for p, g in param_grads]


ClipByValue, ClipByNorm, ClipByGlobalNorm = GradientClipByValue, GradientClipByNorm, GradientClipByGlobalNorm
