# SPDX-License-Identifier: Apache-2.0
"""What layers have in common: parameters that are made at the first call, and whether the graph is to train."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from ....ir.types import FloatType, Type, f32, f64
from ....op_graph.axes import Axes, Axis, make_axes
from ....op_graph.building import BUILDING
from ....op_graph.building import metadata as op_metadata
from ....op_graph.calls import takes
from ....op_graph.errors import AxisLengthError, IncompatibleAxesError, NoAttribute, UserError, fail
from ....op_graph.source import user_location
from ....op_graph.state import AssignableTensorOp, persistent_tensor, variable
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op, default_float, element_of
from ....support.diagnostics import Diagnostic
from ....support.spelling import did_you_mean
from ..graph import SubGraph

#: What a layer calls on its values: another layer, an activation, any function of a tensor.
Transform = Callable[[Any], Any]


#: What is asked of layers elsewhere, and what is written here.
_WRITE = {
    "eval": "with Layer.inference_mode_on(): y = model(x), which builds the graph for inference; it shares the weights",
    "train": "y = model(x) outside of Layer.inference_mode_on(), which builds the graph for training",
    "state_dict": "transformer.state(), or a Saver, which writes weights to a file",
    "load_state_dict": "transformer.load_state(state), or a Saver, which reads weights from a file",
    "requires_grad_": "layer.freeze() and layer.unfreeze(), before the optimizer is called",
    "weight": "layer.W, or layer.linear.W of an Affine",
    "forward": "layer(x)",
    **dict.fromkeys(
        ("fit", "compile"), "an optimizer and make_bound_computation: docs/layers.md has a program"
    ),
    **dict.fromkeys(("to", "cuda", "cpu"), 'ng.transformers.make_transformer("cuda"): graphs have no device'),
}


class _Mode(threading.local):
    inference = False
    parameters: Type | None = None  # their elements, where they are others than what is computed in


_MODE = _Mode()


class _InferenceMode:
    """`Layer.inference_mode`, of the class as of its objects."""

    def __get__(self, layer: object, kind: type[object]) -> bool:
        return _MODE.inference


class Layer(SubGraph):
    """A function from tensors to tensors whose parameters are made at its first call, and used by later ones.

    Args:
        name: of the scope that its ops are made in; without one that of the class, numbered where a container holds several.
        metadata: entries for the metadata of its ops.
        trainable: whether optimizers change its parameters; `freeze()` and `unfreeze()` say so later.
        dtype: the elements that it computes in, and its parameters have: f32, f64, bf16 or f16; those of the layer that holds it
            without one, and float32 where there is none.
        param_dtype: the elements of its parameters, where they are others; those of the layer that holds it without one.
    """

    #: Whether graphs are being built for inference.
    inference_mode = _InferenceMode()
    #: What its ops have as `layer_type` in their metadata.
    layer_type = "layer"

    def __init__(
        self,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        trainable: bool = True,
        dtype: Any = None,
        param_dtype: Any = None,
    ):
        entries: dict[str, Any] = {"layer_type": self.layer_type, **(metadata or {})}
        super().__init__(name, entries if trainable else {**entries, "trainable": False})
        self.dtype, self.param_dtype = _float_of(dtype, "dtype"), _float_of(param_dtype, "param_dtype")
        self.parameters: dict[str, Tensor] = {}

    @contextmanager
    def settings(self) -> Generator[None]:
        """What its methods make ops in: the elements that it computes in, and those of parameters."""
        outer = _MODE.parameters
        _MODE.parameters = outer if self.param_dtype is None else self.param_dtype
        try:
            with nullcontext() if self.dtype is None else default_float(self.dtype):
                yield
        finally:
            _MODE.parameters = outer

    @staticmethod
    @contextmanager
    def inference_mode_on() -> Generator[None]:
        """Layers called inside do what they do in inference, and their ops have the metadata `mode="inference"`."""
        outer = _MODE.inference
        _MODE.inference = True
        try:
            with op_metadata(mode="inference"):
                yield
        finally:
            _MODE.inference = outer

    def parameter(self, name: str, axes: Axes, init: Any, label: str = "", trained: bool = True) -> Tensor:
        """The parameter of that name: made at the first call, with `init` (a number, an array, a function from axes to an
        array) as its initial value, and there for later ones.

        Raises IncompatibleAxesError and AxisLengthError where a later call needs it with other axes.
        """
        found = self.parameters.get(name)
        if found is not None:
            _check(self, name, found, axes)
            return found
        made = (variable if trained else persistent_tensor)(axes, _MODE.parameters, initial_value=init)
        assert isinstance(made, AssignableTensorOp)
        made.automatic_name = name
        if label:
            made.metadata["label"] = label
        self.parameters[name] = made
        return made

    def __getattr__(self, name: str) -> Any:
        parameters = self.__dict__.get("parameters", {})
        if name in parameters:
            return parameters[name]
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made = "" if self.__dict__.get("initialized") else " (yet: its parameters are made at its first call)"
        here = _WRITE.get(name)
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        hint = f"write {here}" if here else did_you_mean(name, [*known, *parameters, *vars(self)])
        text = f"{type(self).__name__} has no attribute {name!r}{made}"
        raise NoAttribute(Diagnostic(text, user_location(), hint=hint))


def _float_of(dtype: Any, what: str) -> Type | None:
    """An element type that layers compute in."""
    made = None if dtype is None else element_of(dtype)
    if made is not None and made not in (f32, f64, FloatType("bf16"), FloatType("f16")):
        fail(UserError, f"{what}={dtype!r}: layers compute in f32, f64, bf16 or f16")
    return made


@contextmanager
def wide_float() -> Generator[Type]:
    """Results made inside have at least 32 bits; gives the elements that they have outside."""
    outer = BUILDING.float
    with default_float(outer if outer is f64 else f32):
        yield outer


def _check(layer: Layer, name: str, made: Tensor, axes: Axes) -> None:
    held, asked = (", ".join(f"{a.name}: {a.length}" for a in each) for each in (made.axes, axes))
    hint = "one layer has one set of weights; make another one for other axes"
    if not made.axes.is_equal_set(axes):
        fail(
            IncompatibleAxesError,
            f"{name} of {layer.name} was made with axes ({held}), and would need ({asked}) here",
            hint,
        )
    for axis in axes:
        length = made.axes[axis.name].length
        if None not in (length, axis.length) and length != axis.length:
            fail(
                AxisLengthError,
                f"{name} of {layer.name} has axes ({held}), and would need ({asked}) here",
                hint,
            )


def wanted_axes(nout: int | None, axes: Any) -> Axes:
    """The axes of an output: those given, or one of `nout` elements.

    Raises UserError for both and for neither, and for axes with N or REC: those are of what comes in.
    """
    if (nout is None) == (axes is None):
        fail(
            UserError,
            "an output has nout elements or the given axes: give one of the two",
            "Affine(init, nout=100) or Affine(init, axes=[ax.Y])",
        )
    made = Axes((Axis(nout),)) if axes is None else make_axes(axes)
    if kept := [axis.name for axis in made if axis.is_batch or axis.is_recurrent]:
        fail(
            IncompatibleAxesError,
            f"{', '.join(kept)} cannot be an axis that a layer makes: the output has that of the input",
            "axes are those of the features: axes=[ax.Y]",
        )
    return made


class Preprocess(Layer):
    """A function of a tensor as a layer.

    Args:
        functor: the function, from a tensor to a tensor.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    def __init__(self, functor: Transform, **arguments: Any):
        super().__init__(**arguments)
        takes(functor, 1, "the function of a layer")
        self.functor = functor

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Any:
        return self.functor(in_obj)


class Activation(Layer):
    """An activation as a layer.

    Args:
        transform: the activation, or any function of a tensor; None is the identity.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    def __init__(self, transform: Transform | None = None, **arguments: Any):
        super().__init__(**arguments)
        if transform is not None:
            takes(transform, 1, "an activation")
        self.transform = transform

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        return as_op(in_obj) if self.transform is None else self.transform(in_obj)
