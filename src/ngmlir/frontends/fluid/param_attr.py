# SPDX-License-Identifier: Apache-2.0
"""The attributes of a layer's parameters."""

from __future__ import annotations

from typing import Any

from ...support.diagnostics import UserError
from .initializer import Constant, Initializer, Xavier
from .lists import listed


def checked(given: Any, what: str, example: str) -> Any:
    """An initializer or regularizer, or None; UserError for what is none, and so cannot be called."""
    if given is not None and not callable(given):
        raise UserError(f"{given!r} is no {what}", hint=f"fluid.{example}")
    return given


class ParamAttr:
    """A parameter's name, initializer, factor of the learning rate, regularizer, clip of its gradient, and whether it is trained
    and averaged; with `sharded` the dimension along which `fluid.TensorParallel` divides it among ranks."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        gradient_clip: Any = None,
        do_model_average: bool = False,
        sharded: int | None = None,
    ):
        checked(initializer, "initializer", "initializer.Xavier()")
        checked(regularizer, "regularizer", "regularizer.L2Decay(1e-4)")
        self.name, self.initializer, self.learning_rate = name, initializer, learning_rate
        self.regularizer, self.trainable, self.gradient_clip = regularizer, trainable, gradient_clip
        self.model_average, self.sharded = do_model_average, sharded

    def initialized_by(self, default: Initializer | None, is_bias: bool) -> Initializer:
        """Its initializer; else the default, which is 0 of biases and Xavier's of weights."""
        return self.initializer or default or (Constant(0.0) if is_bias else Xavier())

    def described(self) -> dict[str, Any]:
        """As `create_parameter` takes it, without the initializer."""
        return {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "gradient_clip_attr": self.gradient_clip,
            "do_model_average": self.model_average,
            "sharded": self.sharded,
        }

    @staticmethod
    def to_attr(arg: Any) -> Any:
        """What a layer is given, as a ParamAttr: None for the default, a name, an initializer, a regularizer; False for none."""
        if arg is None:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr.to_attr(each) for each in listed(arg)]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, bool):
            return ParamAttr() if arg else False
        if getattr(arg, "recorded_as", None) is not None:
            return ParamAttr(regularizer=arg)
        raise UserError(
            f"{arg!r} says nothing of a parameter", hint="fluid.ParamAttr(name=..., initializer=...)"
        )


class WeightNormParamAttr(ParamAttr):
    """A weight w = g v / ||v||, with the norm over all dimensions but `dim`; g and v are the parameters."""

    def __init__(self, dim: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.dim = dim
