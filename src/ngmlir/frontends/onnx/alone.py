# SPDX-License-Identifier: Apache-2.0
"""A node that NumPy runs by itself, where only a run tells the shapes of what it gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.core import Block
from ...ir.types import Type, f32, shape_of
from ...support.diagnostics import Limit
from .contents import Contents
from .cut import Cut, used
from .emitter import Emitter
from .ports import Given, Port
from .reader import Reader, things_of
from .tensor import Absent, Tensor, TensorList, Thing

#: More elements than there are.
_ALL = 1 << 62


class Alone:
    """Called with what a node reads, it gives the outputs that are asked for."""

    def __init__(self, model: Contents, cut: Cut, takes: Sequence[str], compiles: bool):
        node, gives = cut.node, cut.chosen
        read = {*used(node)}
        constants = [each for each in cut.constants if not read.isdisjoint(each.output)]
        ports = [Port(name, "tensor", f32, None) for name in takes]
        self.part = model.part([*constants, node], ports, gives)
        self.verbs = AtOnce(compiles)
        self.around = self.part.around(self.verbs)
        reader = self._reader()
        reader.nodes(constants, self.around, self.part.opsets, {})
        #: The operator; None where functions define it. The inputs of the node: numbers of what is given, or what is known; and
        #: the numbers of its outputs that are asked for.
        self.operator = reader.operator(node, self.part.opsets)
        self.inputs = [takes.index(n) if n in takes else self.around.get(n) for n in node.input]
        self.gives = [[*node.output].index(name) for name in gives]

    def __call__(self, *given: Given) -> list[Given]:
        verbs = self.verbs
        things = [
            Tensor(value, verbs) if isinstance(value, np.ndarray) else _thing(value, verbs) for value in given
        ]
        if self.operator is not None:
            try:
                made = self.operator(*[things[i] if isinstance(i, int) else i for i in self.inputs])
            except Exception:  # is raised again below, with the name of the node
                pass
            else:
                outputs = things_of(made)
                return [_shown(outputs[i], verbs) for i in self.gives]
        part = self.part
        made = self._reader().graph(part.proto.graph, things, self.around, part.opsets, {})
        return [_shown(thing, verbs) for thing in made]

    def _reader(self) -> Reader:
        return Reader(self.verbs, self.part.functions, self.part.folder, self.part.opsets)


class AtOnce(Emitter):
    """The verbs of `ng` on known tensors, computed at once; those that only move elements by NumPy's own functions."""

    def __init__(self, compiles: bool) -> None:
        super().__init__(Block([], []), _ALL)
        self.compiles = compiles

    def slice(
        self, input: Tensor, *, starts: Sequence[int], limits: Sequence[int], steps: Sequence[int]
    ) -> Tensor:
        if (array := input.array) is None:
            return super().slice(input, starts=starts, limits=limits, steps=steps)
        ends = [None if limit < 0 else limit for limit in limits]  # of steps backwards
        return Tensor(array[tuple(map(slice, starts, ends, steps))], self)

    def gather(self, input: Tensor, indices: Tensor, *, axis: int) -> Tensor:
        if (array := input.array) is None or (places := indices.array) is None:
            return super().gather(input, indices, axis=axis)
        try:
            return Tensor(array.take(places, axis), self)
        except (IndexError, TypeError):  # of places outside, and of such as are no signed integers
            return super().gather(input, indices, axis=axis)

    def broadcast(self, input: Tensor, *, type: Type, dimensions: Sequence[int]) -> Tensor:
        if (array := input.array) is None:
            return super().broadcast(input, type=type, dimensions=dimensions)
        shape = shape_of(type)
        lengths = [n if d in dimensions else 1 for d, n in enumerate(shape)]
        return Tensor(np.broadcast_to(array.reshape(lengths), shape), self)


def _thing(value: Given, verbs: AtOnce) -> Thing:
    if isinstance(value, list):
        return TensorList([Tensor(array, verbs) for array in value])
    return Absent() if value is None else Tensor(value, verbs)


def _shown(thing: Thing, verbs: AtOnce) -> Given:
    if isinstance(thing, Tensor):
        array = verbs.settle(thing)
        return array if array.flags.c_contiguous else array.copy()  # as programs take it
    if isinstance(thing, TensorList):
        return [verbs.settle(each) for each in thing]
    if isinstance(thing, Absent):
        return None
    raise Limit("strings and maps in a model that is run in parts", hint="they can be outputs of the model")
