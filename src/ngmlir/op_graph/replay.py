# SPDX-License-Identifier: Apache-2.0
"""A part of a graph, computed again from other values. Writes in it become values: what a storage holds afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..ir.types import FloatType
from .node import Op
from .regions import ControlOp, GraphRegion, ResultOp, build_region
from .schemas import Schema
from .state import HeldOp, ParallelOp, SequentialOp, WrittenOp
from .tensor import Tensor, as_tensor
from .user_ops import CompositeOp
from .writes import AssignOp


class Replay:
    """Rebuilds ops in order from replacements of their arguments.

    `states` holds the value of each storage that is written. Other storage is used directly.
    """

    def __init__(self, copies: Mapping[Op, Op], states: Mapping[Op, Tensor] | None = None):
        self.copies = dict(copies)
        self.states = dict(states or {})
        self.views: dict[Op, tuple[Op, Op]] = {}

    def now(self, op: Op) -> Op:
        """The replacement of an op; for a storage, or a view of one, with its current contents."""
        op = op.forwarded
        if op in self.states:
            return self._held(as_tensor(op))
        if op.storage not in self.states:
            return self.copies.get(op, op)
        base = self.now(op.args[0])
        known = self.views.get(op)
        if known is None or known[0] is not base:
            known = self.views[op] = (base, as_tensor(op).copy_with_args([base]))
        return known[1]

    def _held(self, storage: Tensor) -> Tensor:
        value = self.states[storage]
        if isinstance(storage.element, FloatType) and not isinstance(value, HeldOp):
            value = self.states[storage] = HeldOp(storage, value)
        return value

    def run(self, ops: Iterable[Op]) -> None:
        """Makes these ops again; each comes after those that it is computed from."""
        for op in ops:
            if op in self.copies or op.storage in self.states:
                continue
            made = self._again(op)
            if made is not None:
                self.copies[op] = made

    def results(self, results: Iterable[Op]) -> list[Tensor]:
        return [as_tensor(self.now(r)) for r in results]

    def _again(self, op: Op) -> Op | None:
        match op:
            case AssignOp():
                self._write(op)
                return None
            case ParallelOp():
                return None  # a group has no value
            case SequentialOp():
                return self.now(op.last) if op.has_value else None
            case ControlOp():
                return self._control(op)
            case ResultOp():
                control = self.now(op.control)
                assert isinstance(control, ControlOp)
                return control.results[op.index]
            case HeldOp():  # the storage is still that of which it is the value
                return op.copy_with_args([self.now(op.args[0]), op.held])
            case CompositeOp():
                return op.again(self.now)
            case _:
                made = as_tensor(op).copy_with_args([self.now(a) for a in op.args])
                known = [s for s in op.schemas if isinstance(s, Schema)]
                if known and not made.schemas:
                    made.schemas = [s.on([self.now(o) for o in s.operands]) for s in known]
                return made

    def _write(self, op: AssignOp) -> None:
        value = as_tensor(self.now(op.args[1]))
        if op.target is not op.written:
            value = WrittenOp(op.target, self.states[op.written], value)
        self.states[op.written] = value

    def _control(self, op: ControlOp) -> ControlOp:
        def body(region: GraphRegion) -> Callable[..., Sequence[Tensor]]:
            return lambda *parameters: replayed(region, parameters, self)

        regions = [build_region([(p.axes, p.element) for p in r.parameters], body(r)) for r in op.regions]
        operands = [as_tensor(self.now(o)) for o in op.operands]
        types = [(r.axes, r.element) for r in op.results]
        made = ControlOp(op.kind, operands, regions, types, dict(op.attributes))
        made.location = op.location
        return made


def replayed(region: GraphRegion, parameters: Sequence[Tensor], around: Replay | None = None) -> list[Tensor]:
    """The results of a region that writes nothing, computed here from other values of its parameters."""
    entered = dict[Op, Op](zip(region.parameters, parameters, strict=True))
    inner = Replay({**around.copies, **entered} if around else entered, around.states if around else None)
    inner.run(region.inside())
    return inner.results(region.results)
