# SPDX-License-Identifier: Apache-2.0
"""Branches and loops: nodes whose bodies are graphs.

A body is built by calling a Python function while its region is the one being filled. It may use any value
from around it; those that it uses are found at once and become arguments of the node, so that everything
that follows arguments (order, pending writes, derivatives) needs no second rule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from ..ir import core
from ..ir.types import Type
from ..support.spelling import counted
from .axes import Axes
from .building import BUILDING, Scope, seen_from
from .errors import OutsideRegion, UserError, fail
from .node import Op, closure, needs, sources_first
from .ordered import OrderedSet
from .tensor import Tensor, as_tensor


class RegionParameter(Tensor):
    """What a region is entered with."""

    drawn_as = "parameter"

    def __init__(self, axes: Axes, element: Type):
        super().__init__((), None, axes, element)


class GraphRegion(Scope):
    """A body: parameters, results, and (by their `region`) the nodes made while it was being filled."""

    def __init__(self, outer: Scope | None):
        super().__init__(outer)
        self.parameters: tuple[RegionParameter, ...] = ()
        self.results: tuple[Tensor, ...] = ()
        self.groups: list[Op] = []  # ops without a value that are to run too

    def holds(self, op: Op) -> bool:
        """Whether an op was made in this region or in one below it."""
        return seen_from(op.region, self)

    def inside(self, roots: Iterable[Op] | None = None) -> list[Op]:
        """The ops that the results (or `roots`) need and that belong here, each after those that it needs."""
        wanted = self.results if roots is None else roots
        return [op for op in sources_first(wanted, self._needs) if self.holds(op)]

    def _needs(self, op: Op) -> Iterable[Op]:
        return needs(op) if self.holds(op) else ()

    def captures(self) -> OrderedSet[Op]:
        """What the region uses from around it."""
        found = closure(self.results, self._needs)
        outside = OrderedSet(op for op in found if not self.holds(op))
        for op in outside:
            if not seen_from(self.outer, op.region):
                fail(
                    OutsideRegion,
                    f"{op.called} belongs to a loop or branch and cannot be used outside",
                    "return it as a result",
                    op.location,
                )
        return OrderedSet(sorted(outside, key=lambda op: op.serial))


@contextmanager
def within(region: Scope | None) -> Generator[Scope | None]:
    """Ops made inside the `with` belong to `region`."""
    outer = BUILDING.region
    BUILDING.region = region
    try:
        yield region
    finally:
        BUILDING.region = outer


def build_region(
    parameters: Sequence[tuple[Axes, Type]], body: Callable[..., Sequence[Tensor]]
) -> GraphRegion:
    """The region whose results are what `body` gives for its parameters."""
    return filled(GraphRegion(BUILDING.region), parameters, body)


def filled(
    region: GraphRegion, parameters: Sequence[tuple[Axes, Type]], body: Callable[..., Sequence[Tensor]]
) -> GraphRegion:
    """The region after setting its parameters and, by calling `body`, its results."""
    with within(region):
        region.parameters = tuple(RegionParameter(axes, element) for axes, element in parameters)
        region.results = tuple(body(*region.parameters))
    return region


class ControlOp(Op):
    """An op with regions. `args` are its operands and then what its regions capture."""

    def __init__(
        self,
        kind: type[core.Op],
        operands: Sequence[Tensor],
        regions: Sequence[GraphRegion],
        results: Sequence[tuple[Axes, Type]],
        attributes: dict[str, Any] | None = None,
    ):
        captured: OrderedSet[Op] = OrderedSet()
        for region in regions:
            captured.update(region.captures())
        super().__init__([*operands, *captured], attributes)
        for op in captured:
            if (storage := op.storage_now) is not None and storage.stands_for:
                storage.shown_to.append((self, self.args))
        self.kind = kind
        self.operand_count = len(operands)
        self.regions = tuple(regions)
        self._begin(results)

    def _begin(self, results: Iterable[tuple[Axes, Type]]) -> None:
        #: Of a scan: what values of its steps were in all steps, where it gives that.
        self.kept: dict[Op, Tensor] = {}
        #: What follows it: writes of what its bodies wrote.
        self.writes: tuple[Op, ...] = ()
        self.results = tuple(ResultOp(self, i, axes, element) for i, (axes, element) in enumerate(results))

    def copy_with_args(self, args: Sequence[Op]) -> ControlOp:
        """The same loop or branch from other operands. The values that its bodies capture must stay the same: UserError otherwise."""
        args = tuple(args)
        if args[self.operand_count :] != self.captured:
            fail(
                UserError,
                f"{self.called} has bodies, which use {counted(len(self.captured), 'value')} from around them; these cannot be others",
                "build the loop or branch again",
            )
        made = super().copy_with_args(args)
        made._begin([(r.axes, r.element) for r in self.results])
        return made

    copy_with_new_args = copy_with_args

    def update_forwards(self) -> None:
        """Also updates the bodies: their captured values become operands."""
        super().update_forwards()
        captured: OrderedSet[Op] = OrderedSet()
        for region in self.regions:
            captured.update(region.captures())
        self.args = (*self.args[: self.operand_count], *captured)

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return tuple(map(as_tensor, self.args[: self.operand_count]))

    @property
    def captured(self) -> tuple[Op, ...]:
        """Values from around the regions, and writes that their ops wait for."""
        return self.args[self.operand_count :]


class ResultOp(Tensor):
    """One result of an op with several."""

    def __init__(self, control: ControlOp, index: int, axes: Axes, element: Type):
        super().__init__([control], None, axes, element)
        self.index = index

    @property
    def control(self) -> ControlOp:
        control = self.args[0].forwarded
        assert isinstance(control, ControlOp)
        return control
