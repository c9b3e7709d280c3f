# SPDX-License-Identifier: Apache-2.0
"""Layers of layers, and computations whose values are called by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

from ...op_graph import functions as ng
from ...op_graph.calls import listed, takes
from ...op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ...op_graph.ordered import OrderedSet
from ...op_graph.tensor import Tensor
from ...transformers import Transformer
from ..common.described import shown
from .graph import SubGraph
from .layer.base import Layer

__all__ = [
    "BoundComputation",
    "Container",
    "Parallel",
    "ResidualModule",
    "Sequential",
    "make_bound_computation",
]

#: A layer, or any function of tensors.
Step = Callable[[Any], Any]


class Container(Layer):
    """A layer of several, which stand in its scope: those without a name are called by their class, and numbered.

    Args:
        layers: layers, or functions of tensors.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    def __init__(self, layers: Iterable[Step] = (), **arguments: Any):
        super().__init__(**arguments)
        self.layers: list[Step] = []
        self._taken: Counter[str] = Counter()
        for layer in listed(layers, "layers"):
            self.add(layer)

    def add(self, layer: Step) -> None:
        """Adds a layer, or a function of tensors, at the end."""
        takes(layer, 1, "a layer")
        self.layers.append(layer)
        if isinstance(layer, SubGraph) and not layer.given_name and not layer.place:
            kind, taken = type(layer).__name__, self._taken
            layer.place = f"{kind}_{taken[kind]}" if taken[kind] else kind
            taken[kind] += 1

    def subset(self, first: int | None = None, last: int | None = None) -> Self:
        """A container of the same kind that holds the layers from `first` to before `last`, with their weights."""
        made = copy(self)
        made.ops, made.layers = OrderedSet(), self.layers[first:last]
        return made

    def __getitem__(self, index: int | slice) -> Any:
        """The layer at a place; of a slice a container of these."""
        return self.subset(index.start, index.stop) if isinstance(index, slice) else self.layers[index]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.layers)

    def __repr__(self) -> str:
        each = [repr(layer) if isinstance(layer, SubGraph) else shown(layer) for layer in self.layers]
        rows = [f"    {row}" for text in each for row in f"{text},".splitlines()]
        inside = ("layers", "branches", "main_path", "side_path")
        others = [f"{n}={shown(v)}" for n, v in self._call().items() if n not in inside]
        return "\n".join([f"{type(self).__name__}([", *rows, ", ".join(["]", *others]) + ")"])


class Sequential(Container):
    """Layers one after the other.

    Args:
        layers: layers, or functions of tensors.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Any:
        for layer in self.layers:
            in_obj = layer(in_obj)
        return in_obj


class Parallel(Container):
    """Branches of the same input.

    Args:
        branches: layers, or functions of tensors.
        mode: `concat`, to concatenate their outputs; None, to give the list of them.
        merge_axis: along which axis (or its name); without one, the channels of the first.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    def __init__(
        self, branches: Iterable[Step], mode: str | None = "concat", merge_axis: Any = None, **arguments: Any
    ):
        super().__init__(branches, **arguments)
        if mode not in ("concat", None):
            fail(UserError, f"branches are joined by 'concat' or, with None, not at all; not by {mode!r}")
        self.mode, self.merge_axis = mode, merge_axis

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, merge_axis: Any = None) -> Any:
        outputs = [branch(in_obj) for branch in self.layers]
        if self.mode is None:
            return outputs
        axis = merge_axis if merge_axis is not None else self.merge_axis
        if axis is None:
            axis = outputs[0].axes.channel_axis()
        if axis is None:
            fail(
                IncompatibleAxesError,
                f"({', '.join(outputs[0].axes.names)}) has no channels C to concatenate",
                "say which axis: Parallel(branches, merge_axis=axis)",
            )
        return ng.concat_along_axis(outputs, axis)


class ResidualModule(Container):
    """The sum of what two paths give.

    Args:
        main_path: a layer, or a function of tensors.
        side_path: another one; without it, what comes in is added.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises IncompatibleAxesError and AxisLengthError where their axes or lengths differ.
    """

    def __init__(self, main_path: Step, side_path: Step | None = None, **arguments: Any):
        super().__init__([main_path] if side_path is None else [main_path, side_path], **arguments)
        self.main_path, self.side_path = main_path, side_path

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        main = self.main_path(in_obj)
        side = in_obj if self.side_path is None else self.side_path(in_obj)
        held = [", ".join(f"{a.name}: {a.length}" for a in x.axes) for x in (main, side)]
        differ = f"the main path gives ({held[0]}), the side path ({held[1]})"
        if not main.axes.is_equal_set(side.axes):
            fail(IncompatibleAxesError, differ)
        if any(a.length != side.axes[a.name].length for a in main.axes):
            fail(AxisLengthError, differ)
        return main + ng.axes_with_order(side, main.axes)


class BoundComputation:
    """A computation from a dictionary to a dictionary: values of inputs by name, values of outputs by name."""

    def __init__(
        self, transformer: Transformer, named_outputs: Mapping[Any, Any], named_inputs: Mapping[Any, Tensor]
    ):
        self.transformer = transformer
        self.input_keys: Sequence[Any] = tuple(sorted(named_inputs, key=str))
        self.output_keys: Sequence[Any] = tuple(sorted(named_outputs, key=str))
        self.num_outputs = len(self.output_keys)
        self.computation = transformer.computation(
            [named_outputs[key] for key in self.output_keys], *[named_inputs[key] for key in self.input_keys]
        )

    def __call__(self, in_dict: Mapping[Any, Any]) -> dict[Any, Any]:
        """Runs once. Raises UserError where a value of an input lacks; more values than inputs are no error."""
        missing = [str(key) for key in self.input_keys if key not in in_dict]
        if missing:
            fail(
                UserError,
                f"there is no value for {', '.join(missing)}",
                f"the inputs are {', '.join(map(str, self.input_keys))}",
            )
        values = self.computation(*[in_dict[key] for key in self.input_keys])
        return dict(zip(self.output_keys, values, strict=True))


def make_bound_computation(
    transformer: Transformer, named_outputs: Mapping[Any, Any], named_inputs: Mapping[Any, Tensor]
) -> BoundComputation:
    """A computation whose inputs and outputs go by names. Those of `named_inputs` that the outputs do not need may be
    there."""
    return BoundComputation(transformer, named_outputs, named_inputs)
