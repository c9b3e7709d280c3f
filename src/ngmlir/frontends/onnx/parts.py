# SPDX-License-Identifier: Apache-2.0
"""A model that is run in parts, around a node that only a run tells enough of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto

from .alone import Alone
from .contents import Contents, Part
from .cut import Cut, How
from .nodes import OWN
from .ports import Array, Given, port_of
from .survey import graphs_of

#: A part as a function, and what makes it: of the head, the rest or a chunk of a loop.
Compiled: TypeAlias = Callable[..., Sequence[Any]]
Compile: TypeAlias = Callable[[Part, str], Compiled]
_ENDLESS = (1 << 63) - 1


class Parts:
    """The nodes that do not depend on a node, that node, and the nodes that depend on it. The node is run in NumPy, a Loop some
    iterations at a time by a separate program."""

    def __init__(self, model: Contents, cut: Cut, compile: Compile, compiles: bool):
        """`compiles` says whether nodes that NumPy runs may call compiled functions."""
        self.model, self.cut, self.compile = model, cut, compile
        self.head = compile(model.part(cut.head, model.inputs, cut.made), "head") if cut.made else None
        self.mine, self.last = cut.read(model.input_names, model.output_names)
        self.node: Compiled | None = None
        if cut.how is How.ALONE:
            self.node = Alone(model, cut, self.mine, compiles)
        elif cut.how is How.LOOP:
            self.node = Rounds(model, cut.node, self.mine, cut.chosen, compile)
        self.rest: Compiled | None = None

    def __call__(self, given: Sequence[Given]) -> Sequence[Any]:
        there: dict[str, Given] = dict(zip(self.model.input_names, given, strict=True))
        if self.head is not None:
            there.update(zip(self.cut.made, self.head(*given), strict=True))
        if self.node is not None:
            there.update(zip(self.cut.chosen, self.node(*[there[n] for n in self.mine]), strict=True))
        if self.rest is None:
            ports = [port_of(name, there[name]) for name in self.last]
            self.rest = self.compile(self.model.part(self.cut.rest, ports, self.model.output_names), "rest")
        return self.rest(*[there[n] for n in self.last])


class Rounds:
    """A Loop whose trip count is known only at run time: called with what it reads, it gives its outputs."""

    def __init__(
        self,
        model: Contents,
        node: NodeProto,
        takes: Sequence[str],
        gives: Sequence[str],
        compile: Compile,
    ):
        self.model, self.node, self.takes, self.gives, self.compile = model, node, takes, gives, compile
        #: The number of loop-carried values, and names for the outputs, the scan outputs last.
        self.count = max(len(node.input) - 2, 0)
        (body,) = graphs_of(node)
        self.outputs = [f".{i}" for i in range(1 + len(body.output))]
        self.inputs = [f".in{i}" for i in range(3 + self.count)]
        self.chunk: Compiled | None = None

    def __call__(self, *given: Given) -> list[Given]:
        there = dict(zip(self.takes, given, strict=True))

        def value(at: int, default: Any) -> Any:
            name = self.node.input[at] if at < len(self.node.input) else ""
            return default if not name else there[name] if name in there else self.model.array(name)

        most = np.asarray(value(0, _ENDLESS), np.int64).reshape(())
        going = np.asarray(value(1, True)).reshape(())
        state: list[Any] = [value(2 + i, None) for i in range(self.count)]
        start = np.zeros((), np.int64)
        chunks: list[list[Array]] = []
        while not chunks or (going and start < most):
            first: list[Given] = [start, most, going, *state]
            if self.chunk is None:
                self.chunk = self._compiled([*first, *given])
            after, going, *made = self.chunk(*first, *given)
            state = made[: self.count]
            chunks.append([each[: int(after - start)] for each in made[self.count :]])
            start = after
        each = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
        found = dict(zip(self.node.output, [*state, *each], strict=False))
        return [found[name] for name in self.gives]

    def _compiled(self, given: Sequence[Given]) -> Compiled:
        chunk = NodeProto(
            op_type="Rounds",
            domain=OWN,
            name=self.node.name,
            input=self.inputs,
            output=self.outputs,
            attribute=self.node.attribute,
            metadata_props=self.node.metadata_props,
        )
        names = [*self.inputs, *self.takes]
        ports = [port_of(name, value) for name, value in zip(names, given, strict=True)]
        return self.compile(self.model.part([chunk], ports, self.outputs), "rounds")
