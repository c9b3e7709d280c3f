# SPDX-License-Identifier: Apache-2.0
"""What layers have in common: parameters that are made at the first call, and whether the graph is to train."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ....op_graph.axes import Axes, Axis, make_axes
from ....op_graph.building import metadata as op_metadata
from ....op_graph.calls import takes
from ....op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ....op_graph.state import AssignableTensorOp, persistent_tensor, variable
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ..graph import SubGraph

#: What a layer calls on its values: another layer, an activation, any function of a tensor.
Transform = Callable[[Any], Any]


class _Mode(threading.local):
    inference = False


_MODE = _Mode()


class _InferenceMode:
    """`Layer.inference_mode`, of the class as of its objects."""

    def __get__(self, layer: object, kind: type[object]) -> bool:
        return _MODE.inference


class Layer(SubGraph):
    """A function from tensors to tensors whose parameters are made at its first call, and used by later ones."""

    #: Whether graphs are being built for inference.
    inference_mode = _InferenceMode()
    #: What its ops have as `layer_type` in their metadata.
    layer_type = "layer"

    def __init__(self, name: str | None = None, metadata: Mapping[str, Any] | None = None):
        super().__init__(name, {"layer_type": self.layer_type, **(metadata or {})})
        self.parameters: dict[str, Tensor] = {}

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
        made = (variable if trained else persistent_tensor)(axes, initial_value=init)
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
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}; its parameters are made at its first call"
        )


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
    """The axes of an output: those given, or one of `nout` elements; UserError for both and for neither."""
    if (nout is None) == (axes is None):
        fail(
            UserError,
            "an output has nout elements or the given axes: give one of the two",
            "Affine(init, nout=100) or Affine(init, axes=[ax.Y])",
        )
    return Axes((Axis(nout),)) if axes is None else make_axes(axes)


class Preprocess(Layer):
    """A function of a tensor as a layer."""

    def __init__(self, functor: Transform, **arguments: Any):
        super().__init__(**arguments)
        takes(functor, 1, "the function of a layer")
        self.functor = functor

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Any:
        return self.functor(in_obj)


class Activation(Layer):
    """An activation as a layer; None is the identity."""

    def __init__(self, transform: Transform | None = None, **arguments: Any):
        super().__init__(**arguments)
        if transform is not None:
            takes(transform, 1, "an activation")
        self.transform = transform

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        return as_op(in_obj) if self.transform is None else self.transform(in_obj)
