# SPDX-License-Identifier: Apache-2.0
"""Bodies that write: what a loop or branch writes is carried by it as a value, and is written after it.

A body is built as its author wrote it, with writes in their order, and then once more without them: each storage
that it writes is a parameter and a result more. So loops and branches themselves hold values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..ir.types import Type
from .axes import Axes
from .building import BUILDING
from .node import WATCHING, Op
from .order import schedule
from .ordered import OrderedSet
from .regions import ControlOp, GraphRegion, RegionParameter, build_region, filled
from .replay import Replay
from .state import followed
from .tensor import Tensor, as_tensor
from .writes import AssignOp, ReadOp, read_by

#: Axes and elements of a value.
Shape = tuple[Axes, Type]


class Body:
    """A body as it was written. Writes in it run with it, unless a guard or a sequence has taken them over."""

    def __init__(self, parameters: Sequence[Shape], body: Callable[..., Sequence[Tensor]]):
        self.region = GraphRegion(BUILDING.region)
        try:
            filled(self.region, parameters, body)
            pending = WATCHING.pending[-1]
            writes = [w for w in self.region.writes if w in pending.writes(_written(w))]
            self.standing = OrderedSet(map(_written, writes))
            order = schedule(self.region.inside([*self.region.results, *self.region.groups, *writes]))
            self.order = [op for op in order if not isinstance(op, RegionParameter)]
            self.written = OrderedSet(_written(op) for op in self.order if isinstance(op, AssignOp))
        finally:
            # Nothing outside waits for them: it waits for the write that follows the loop or branch.
            for write in reversed(self.region.writes):
                write.withdraw()

    @property
    def shapes(self) -> list[Shape]:
        return [(p.axes, p.element) for p in self.region.parameters]

    def again(
        self, values: Sequence[Tensor], states: Mapping[Op, Tensor]
    ) -> tuple[list[Tensor], dict[Op, Tensor]]:
        """The results, and what the storages hold afterwards, computed here without writes."""
        replay = Replay(dict(zip(self.region.parameters, values, strict=True)), states)
        replay.run(self.order)
        return replay.results(self.region.results), replay.states


def entered(op: ControlOp) -> ControlOp:
    """A loop or branch, after noting what the storage that it reads holds when it is entered: its gradient is that of what
    it computed, whatever is assigned to the storage before the gradient is computed."""
    for captured in op.captured:
        if isinstance(captured, Tensor):
            read_by(op, captured)
    return op


def _written(op: Op) -> Op:
    assert isinstance(op, AssignOp)
    return op.written


class States:
    """The storages that bodies of one loop or branch write, as values before, in and after it."""

    def __init__(self, bodies: Iterable[Body]):
        bodies = tuple(bodies)
        self.storages = OrderedSet(sorted((s for b in bodies for s in b.written), key=lambda op: op.serial))
        self.standing = OrderedSet(s for b in bodies for s in b.standing)
        #: What they hold when the loop or branch is entered.
        self.before: list[Tensor] = [ReadOp(as_tensor(s)) for s in self.storages]

    @property
    def shapes(self) -> list[Shape]:
        return [(s.axes, s.element) for s in self.before]

    def of(self, values: Sequence[Tensor]) -> dict[Op, Tensor]:
        return dict(zip(self.storages, values, strict=True))

    def values(self, states: Mapping[Op, Tensor]) -> list[Tensor]:
        return [states[s] for s in self.storages]

    def region(self, body: Body, at: int) -> GraphRegion:
        """The body without writes; the states are inserted before parameter and result number `at`."""
        if not self.storages:
            return body.region
        shapes = body.shapes
        end = at + len(self.storages)

        def again(*values: Tensor) -> Sequence[Tensor]:
            results, states = body.again([*values[:at], *values[end:]], self.of(values[at:end]))
            return [*results[:at], *self.values(states), *results[at:]]

        return build_region([*shapes[:at], *self.shapes, *shapes[at:]], again)

    def written(self, op: ControlOp, at: int) -> tuple[Tensor, ...]:
        """The results of a loop or branch of which those from number `at` on are states, without these; they bring along
        the writes of the states."""
        end = at + len(self.storages)
        for storage, value in zip(self.storages, op.results[at:end], strict=True):
            write = AssignOp(as_tensor(storage), value)
            if storage not in self.standing:
                write.withdraw()
            op.writes = (*op.writes, write)
        return tuple(followed(r, op.writes) for r in (*op.results[:at], *op.results[end:]))
