# SPDX-License-Identifier: Apache-2.0
"""Passes over the op graph: they replace ops by others of the same value, before the graph is lifted."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from typing import Any

from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op, closure
from ...op_graph.ordered import OrderedSet
from ...op_graph.regions import ControlOp, within
from ...op_graph.writes import replace_by
from .dispatch import GenericMethod

#: A pass that still replaces ops after this many rounds is taken not to terminate.
MOST_ROUNDS = 1000


class GraphPass(metaclass=ABCMeta):
    """Visits the ops that some results depend on, and may replace them."""

    def begin_pass(self) -> None:  # noqa: B027
        """Called before `do_pass`."""

    @abstractmethod
    def do_pass(self, ops: Any) -> Any:
        """The pass itself, on the ops that computations return."""

    def end_pass(self) -> None:  # noqa: B027
        """Called after `do_pass`, also where it raised an error."""


class _WithVisit(ABCMeta):
    """In the body of a class, `visit` is bound to that of its base, so that `@visit.on_type(...)` extends it."""

    @classmethod
    def __prepare__(metacls, name: str, bases: tuple[type, ...], /, **_: Any) -> dict[str, object]:
        found = next(
            (base.__dict__["visit"] for top in bases for base in top.__mro__ if "visit" in base.__dict__),
            None,
        )
        return {} if found is None else {"visit": found}


@GenericMethod
def visit(self: Any, op: Op) -> None:
    """Visits one op, and may call `replace_op`; `@visit.on_type(...)` adds variants for classes of ops."""


class PeepholeGraphPass(GraphPass, metaclass=_WithVisit):
    """Visits ops one by one, after those that they depend on, until nothing is replaced any more.

    Bodies of loops and branches are visited too. An op that a visit creates takes the place of the visited op: it is
    ordered after the same writes, in the same body, with the same location.
    """

    visit: Any = visit

    def __init__(self) -> None:
        self.replacements: dict[Op, Op] = {}

    def do_pass(self, ops: Iterable[Op]) -> None:
        """Visits the ops that `ops` depend on. Raises UserError if replacement does not terminate."""
        roots = OrderedSet(ops)
        for _ in range(MOST_ROUNDS):
            self.replacements = {}
            for op in everything(roots):
                self._visit(op)
            for op, replacement in self.replacements.items():
                replace_by(op, replacement)
            for op in everything(roots):
                op.update_forwards()
            if not self.replacements:
                return
        op = next(iter(self.replacements))
        fail(
            UserError,
            f"{type(self).__name__} does not terminate; the last op was {op.called}",
            location=op.location,
        )

    def _visit(self, op: Op) -> None:
        with Op.saved_user_deps(), Op.all_ops(isolate=True) as made, within(op.region):
            self.visit(op)
        for each in made:
            each.take_place_of(op)

    def replace_op(self, op: Op, replacement: Op) -> None:
        """Replaces the op by `replacement` after all ops have been visited; both must have the same axes and elements."""
        if replacement.forwarded is not op.forwarded:
            self.replacements[op] = replacement


def everything(roots: Iterable[Op]) -> list[Op]:
    """All ops that the roots depend on, including those in bodies of loops and branches, in order of creation."""
    found = closure(roots)
    controls = [op for op in found if isinstance(op, ControlOp)]
    while controls:
        for region in controls.pop().regions:
            inside = [op for op in region.inside() if op not in found]
            found.update(inside)
            controls += [op for op in inside if isinstance(op, ControlOp)]
    return sorted(found, key=lambda op: (op.place, op.serial))
