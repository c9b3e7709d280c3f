# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph: the ops that a function made, by type, by name, and by scope."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...op_graph.building import metadata as op_metadata
from ...op_graph.building import name_scope
from ...op_graph.kept import named
from ...op_graph.node import Op
from ...op_graph.ordered import OrderedSet
from ...op_graph.state import AssignableTensorOp, AssignOp, ComputationOp
from ...op_graph.tensor import Tensor
from ..common.described import Described
from ..common.given import is_named, is_several
from .selectors import selected

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SubGraph")


class ComputationalGraph:
    """Some ops, in order of creation."""

    def __init__(self, ops: Iterable[Op] = ()):
        self.ops: OrderedSet[Op] = OrderedSet(ops)

    @property
    def variables(self) -> dict[str, Tensor]:
        """The variables, by name: that which was given, or what it is for; both after those of the scopes."""
        return dict(named(op for op in self._storages() if op.is_variable))

    def freeze(self) -> None:
        """Has optimizers that are called from now on leave the variables as they are, and those that it makes later."""
        self._set_trainable(False)

    def unfreeze(self) -> None:
        """Undoes `freeze`, and `trainable=False` of its parts."""
        self._set_trainable(True)

    def _set_trainable(self, trainable: bool) -> None:
        for op in self._storages():
            if op.is_variable:
                op.metadata["trainable"] = trainable

    @property
    def placeholders(self) -> dict[str, Tensor]:
        """The placeholders, by name."""
        return dict(named(op for op in self._storages() if op.is_placeholder))

    def _storages(self) -> list[AssignableTensorOp]:
        return [op for op in self.ops if isinstance(op, AssignableTensorOp)]

    @property
    def computations(self) -> dict[str, ComputationOp]:
        """The computations, by name."""
        return {op.name: op for op in self.ops if isinstance(op, ComputationOp)}

    @property
    def scopes(self) -> dict[str, ComputationalGraph]:
        """The ops of each scope (`model/fc1`), those of the scopes inside it included."""
        found: dict[str, ComputationalGraph] = {}
        for op in self.ops:
            parts = op.scope.split("/") if op.scope else []
            for end in range(1, len(parts) + 1):
                found.setdefault("/".join(parts[:end]), ComputationalGraph()).ops.add(op)
        return found

    @property
    def modes(self) -> dict[str, ComputationalGraph]:
        """The ops of each mode, such as `inference`; those of none are left out."""
        found: dict[str, ComputationalGraph] = {}
        for op in self.ops:
            if "mode" in op.metadata:
                found.setdefault(op.metadata["mode"], ComputationalGraph()).ops.add(op)
        return found

    def select(self, css: str) -> list[Op]:
        """The ops that a CSS selector matches, in order of creation.

        An element is an op's type (`AssignOp`, `variable`), `#W` its name, `.weight` its label, `[mode=inference]` its
        metadata; its ancestors are scopes, by name: `Affine > Linear .weight`. UserError for what is no selector.
        """
        return selected([*self.ops], css)


class SubGraph(Described, ComputationalGraph):
    """The ops that an object makes, call after call; a layer is one.

    Args:
        name: of the scope that its ops are made in; without one that of the class, numbered where a container holds several.
        metadata: entries for the metadata of its ops; with `"trainable": False` the variables among them are frozen.
    """

    #: Whether it has been called.
    initialized = False
    #: What all objects of a class give to their ops.
    metadata: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, name: str | None = None, metadata: Mapping[str, Any] | None = None):
        super().__init__()
        self.given_name = name
        self.place = ""  # what the container that holds it calls it
        self._is_open = False  # whether one of its methods is running
        self.metadata = {**type(self).metadata, **(metadata or {})}

    @property
    def name(self) -> str:
        return self.given_name or self.place or type(self).__name__

    def settings(self) -> AbstractContextManager[None]:
        """What its methods make ops in."""
        return nullcontext()

    @property
    def parts(self) -> Iterator[SubGraph]:
        """The subgraphs that this one holds."""
        for name, value in [*vars(self).items()]:
            if name != "_made_with":
                several: Any = value.values() if is_named(value) else value if is_several(value) else (value,)
                yield from [part for part in several if isinstance(part, SubGraph)]

    def _storages(self) -> list[AssignableTensorOp]:
        # A part that was called before, elsewhere, made its variables there.
        found: OrderedSet[AssignableTensorOp] = OrderedSet(super()._storages())
        for part in self.parts:
            found.update(part._storages())
        return sorted(found, key=lambda op: op.serial)

    def _set_trainable(self, trainable: bool) -> None:
        super()._set_trainable(trainable)
        self.metadata = {**self.metadata, "trainable": trainable}
        for part in self.parts:
            part._set_trainable(trainable)

    @property
    def inputs(self) -> list[Op]:
        """What the ops are computed from, but which others made."""
        needed: OrderedSet[Op] = OrderedSet(arg for op in self.ops for arg in op.args)
        return [op for op in needed if op not in self.ops]

    @property
    def outputs(self) -> list[Tensor]:
        """What is computed here, and used by no other op here but computations."""
        users = [op for op in self.ops if not isinstance(op, ComputationOp)]
        used = {source for op in users for source in (*op.args, *op.members)}
        computed = [
            op for op in self.ops if isinstance(op, Tensor) and op.storage is not op and not op.is_constant
        ]
        return [op for op in computed if op not in used]

    @property
    def side_effects(self) -> list[Op]:
        """The writes."""
        return [op for op in self.ops if isinstance(op, AssignOp)]

    @staticmethod
    def scope_op_creation(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        """Decorates a method of a subgraph: the ops that it makes belong to the subgraph and its scope."""

        @wraps(method)
        def scoped(self: S, *args: P.args, **named: P.kwargs) -> R:
            if self._is_open:  # one method calls another: both use one scope
                return method(self, *args, **named)
            self._is_open = True
            try:
                with self.settings(), scope_ops(self.name, subgraph=self, metadata=self.metadata):
                    made = method(self, *args, **named)
            finally:
                self._is_open = False
            self.initialized = True
            return made

        return scoped


@contextmanager
def scope_ops(
    name: str | None = None,
    mode: str | None = None,
    subgraph: SubGraph | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Generator[SubGraph]:
    """Ops made inside belong to a subgraph (a new one, where none is given), which this gives.

    Their names begin with `name/`; they have the metadata, and `mode` as one more entry.
    """
    made = SubGraph(name) if subgraph is None else subgraph
    entries = {**(metadata or {}), **({} if mode is None else {"mode": mode})}
    with ExitStack() as around:
        if name:
            around.enter_context(name_scope(name))
        around.enter_context(op_metadata(**entries))
        ops = around.enter_context(Op.all_ops())
        yield made
        made.ops.update(ops)
