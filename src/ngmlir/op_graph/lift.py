# SPDX-License-Identifier: Apache-2.0
"""From the graph to an `ng` module: effects, state and their order end here, what follows knows values only.

Every storage becomes an argument. An op that reads it sees the value that it has at that op's place in the
order; a write makes a new current value; the last one is one more result, tied to the argument (function
attribute `ng.tied`: result, argument, result, argument ...).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from ..ir import core
from ..ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, integers
from ..ir.core import Block, Module, Region, Value, module
from ..ir.elements import elements
from ..ir.literals import item_bytes
from ..ir.printer import to_text
from ..ir.types import DYNAMIC
from ..ir.verifier import check
from ..ops import func, ng
from ..ops.builder import Builder, build_op, function
from ..ops.schedules import SCHEDULE
from ..ops.settings import to_attribute
from ..support.collector import collecting_rarely
from ..support.diagnostics import Bug
from ..support.lengths import at_least
from .attributes import resolved
from .calls import listed
from .errors import AxisLengthError, InvalidOp, NotAssignable, OutsideRegion, UserError, fail
from .host_ops import HostOp
from .lifted_calls import Calls
from .node import Op, closure, needs
from .order import schedule
from .patterns import PatternOp
from .pruning import needed
from .recomputing import Part, is_kept, parts_of
from .regions import ControlOp, GraphRegion, RegionParameter, ResultOp
from .state import AssignableTensorOp, ComputationOp, SequentialOp, WrittenOp, is_executed
from .tensor import Tensor
from .tile_ops import TileOp
from .values import ConstantOp, FollowingOp
from .writes import AssignOp, InitTensorOp, ReadOp
from .writing import written


@dataclass(frozen=True)
class Traced:
    """The position of an op of the graph in the program: it has run when the first `end` ops of its block have."""

    op: Op
    end: int
    value: Value | None
    written: tuple[Op, Value] | None  # of a write: the storage, and what it holds from now on


@dataclass(frozen=True)
class Trace:
    """Of each block of a program: the ops of the graph that it runs, in order, and the parameters of a body."""

    ops: dict[Block, list[Traced]]
    parameters: dict[Block, Sequence[RegionParameter]]


@dataclass(frozen=True)
class Lifted:
    """A module and what its entry function's arguments and results stand for.

    `outputs` holds the result number of each output (None for an output without value); `tied` pairs a result
    with the argument whose storage it is the new contents of.
    """

    module: Module
    arguments: tuple[AssignableTensorOp, ...]
    outputs: tuple[int | None, ...]
    tied: tuple[tuple[int, int], ...]
    trace: Trace

    def __str__(self) -> str:
        return to_text(self.module)


def lift(
    outputs: Sequence[Op] | ComputationOp,
    inputs: Sequence[Tensor] = (),
    name: str | None = None,
    *,
    kernels: Mapping[str, core.Op] = MappingProxyType({}),
) -> Lifted:
    """The program that computes `outputs`, in one function. Its arguments: `inputs`, then other storage.

    `name` is what the function is called; without one, `main`, or as that was which the computation was raised from. `kernels` are
    what the module that it goes to has already, by symbol: they are called and not made again.
    """
    if isinstance(outputs, ComputationOp):
        computation = outputs
    elif isinstance(outputs, Sequence) and all(isinstance(o, Op) for o in outputs):  # pyright: ignore[reportUnnecessaryIsInstance]
        computation = ComputationOp(outputs, listed(inputs, "placeholders"))
    else:
        fail(UserError, f"{outputs!r} is not a list of ops", "ng.lift([x], inputs)")
    with collecting_rarely():
        name = name or (computation.form.symbol if computation.form else "main")
        return lift_ordered(schedule(closure([computation])), name, kernels)


def lift_ordered(
    ops: Sequence[Op], name: str = "main", kernels: Mapping[str, core.Op] = MappingProxyType({})
) -> Lifted:
    """The program of ops that run in this order, in one function.

    The computation among them says what it takes and gives; without one it takes storage, and gives what no other op uses.
    """
    computation = next((op for op in reversed(ops) if isinstance(op, ComputationOp)), None)
    if computation is None:
        used = {other for op in ops for other in needs(op)}
        computation = ComputationOp([op for op in ops if op not in used], [])
    parameters = [_parameter(p) for p in computation.parameters]
    found = sorted((op for op in ops if isinstance(op, AssignableTensorOp)), key=lambda op: op.serial)
    storages = [*parameters, *(op for op in found if op not in parameters)]
    names = [s.given_name or f"{s.automatic_name or s.role.value}{i}" for i, s in enumerate(storages)]
    block = Block([_static(s) for s in storages], names)
    lifting = _Lifting(block, dict(zip(storages, block.args, strict=True)), name, kernels)
    lifting.parts = parts_of(ops)
    lifting.run_all(ops)

    free = [lifting.read(op.forwarded) if op.is_tensor_op else None for op in computation.returns]
    count = sum(value is not None for value in free)
    written = [i for i, s in enumerate(storages) if lifting.state[s] is not block.args[i]]
    tied = tuple([(count + at, i) for at, i in enumerate(written)])
    labels = ArrayAttr(tuple(DictAttr((("ng.name", StringAttr(n)),)) for n in names))
    attributes: dict[str, Attribute] = {"arg_attrs": labels} if names else {}
    if tied:
        attributes["ng.tied"] = integers([i for pair in tied for i in pair])
    form = computation.form
    if form is not None and form.fits(tuple(storages), set(written)):
        tied, attributes = form.tied, dict(form.attributes)
        for argument, known in zip(block.args, form.names, strict=True):
            argument.name = known
    results = {at: lifting.state[storages[i]] for at, i in tied}
    rest = iter([at for at in range(count + len(tied)) if at not in results])
    places = [None if value is None else next(rest) for value in free]
    results |= {
        at: value for at, value in zip(places, free, strict=True) if at is not None and value is not None
    }
    lifting.builder.location = computation.location
    lifting.builder.end(func.ReturnOp, *[results[at] for at in range(len(results))])
    made = module(
        [function(name, block, attributes, location=computation.location), *lifting.calls.declarations()],
        location=computation.location,
    )
    check(made)
    return Lifted(made, tuple(storages), tuple(places), tied, lifting.trace)


def _parameter(op: Tensor) -> AssignableTensorOp:
    if not isinstance(op, AssignableTensorOp) or not op.is_input:
        fail(
            NotAssignable,
            f"{op!r} cannot be an input: inputs are placeholders, variables and persistent tensors",
        )
    return op


def _static(op: Tensor) -> Any:
    """The type of a tensor whose lengths must all be set by now."""
    if DYNAMIC in (type := op.type).shape:
        next(a for a in op.axes if a.length is None).unset(op.location)
    if at_least(prod(type.shape) * item_bytes(type.element), 1 << 62):
        fail(AxisLengthError, f"no memory can hold {type}", location=op.location)
    return type


class _Lifting:
    """Runs the ops of a schedule one after the other on IR values."""

    def __init__(self, block: Block, state: dict[Op, Value], name: str, kernels: Mapping[str, core.Op]):
        self.builder = Builder(block)
        self.state = state
        self.values: dict[Op, Value] = {}
        self.several: dict[Op, dict[int, Value]] = {}
        self.used: dict[Op, set[int]] = {}  # of loops and branches, the results that are needed
        self.views: dict[Op, tuple[Value, Value]] = {}
        self.regions: list[GraphRegion] = []
        self.trace = Trace({}, {})
        self.parts: Mapping[Op, Sequence[Part]] = {}
        self.calls = Calls(self.builder, name, kernels)

    def run_all(self, ops: Sequence[Op]) -> None:
        self.calls.expect(ops)
        for op in ops:
            if isinstance(op, ResultOp):
                self.used.setdefault(op.control, set()).add(op.index)
        for op in ops:
            self.run(op)
            for part in self.parts.get(op, ()):
                self.note(part)
            if is_executed(op):
                block = self.builder.block
                written = (op.written, self.state[op.written]) if isinstance(op, AssignOp) else None
                traced = Traced(op, len(block.ops), self.values.get(op), written)
                self.trace.ops.setdefault(block, []).append(traced)

    def note(self, part: Part) -> None:
        """Says that what a part computes on the way is not kept."""
        values, sources = ([op.forwarded for op in each] for each in (part.values, part.sources))
        known = [self.values[op] for op in values if op in self.values]
        self.builder.location = part.location
        self.builder.recompute(
            known, [self.values[op] for op in sources if op in self.values and is_kept(op)]
        )

    def run(self, op: Op) -> None:
        if op.is_invalid:
            fail(
                InvalidOp,
                f"the value of {op.called} was removed by a graph pass",
                location=op.location,
            )
        if op.region is not None and op.region not in self.regions:
            fail(
                OutsideRegion,
                f"{op.called} belongs to a loop or branch and cannot be used outside",
                "return it from the body",
                op.location,
            )
        if not is_executed(op):
            return
        self.builder.location = op.location
        match op:
            case InitTensorOp() if op.target.is_constant:
                pass  # the program holds it
            case AssignOp():
                self.state[op.written] = written(self.builder, op.target, self.read(op.args[1]), self.read)
            case WrittenOp():
                self.values[op] = self.written(op)
            case ReadOp():
                self.values[op] = self.read(op.args[0])
            case SequentialOp():
                if op.has_value:
                    self.values[op] = self.read(op.last)
            case ControlOp():
                self.several[op] = self.control(op)
            case ResultOp():
                self.values[op] = self.several[op.control][op.index]
            case ConstantOp() | FollowingOp():
                self.values[op] = self.constant(op)
            case Tensor() if op.is_alias:
                self.values[op] = self.read(op.aliased)
            case HostOp():
                self.values[op] = self.calls.host(op, [self.read(a) for a in op.args], _static(op))
            case TileOp():
                self.values[op] = self.calls.kernel(op, [self.read(a) for a in op.args], _static(op))
            case Tensor() if op.operation is not None:
                self.values[op] = self.plain(op, [self.read(a) for a in op.args])
            case _:  # a group has no value; its members run by themselves
                if isinstance(op, PatternOp):
                    fail(
                        UserError,
                        f"{op.called} is for patterns only and has no value",
                        "a callback of GraphRewritePass gets what it stands for",
                        op.location,
                    )
                if op.is_tensor_op and type(op).__module__.startswith(f"{__package__}."):
                    raise Bug(f"{op!r} cannot be lifted", op.location)
                if op.is_tensor_op:
                    fail(
                        UserError,
                        f"{op.called} is of a class of your own, {type(op).__name__}, which does not define what it computes",
                        "use ng.composite_op to define an op by other ops, ng.host_op by a NumPy function, ng.tile_op by a kernel",
                        op.location,
                    )

    def read(self, op: Op) -> Value:
        """The value of an op; of a storage (or a view of one) the value that it has now."""
        op = op.forwarded
        if op in self.state:
            return self.state[op]
        if is_executed(op):
            return self.values[op]
        base = self.read(op.args[0])
        known = self.views.get(op)
        if known is None or known[0] is not base:
            assert isinstance(op, Tensor)
            known = self.views[op] = (base, self.plain(op, [base]))
        return known[1]

    def written(self, op: WrittenOp) -> Value:
        storage = op.target.storage_now
        assert storage is not None
        before = self.state[storage]
        self.state[storage] = self.read(op.args[0])
        made = written(self.builder, op.target, self.read(op.args[1]), self.read)
        self.state[storage] = before
        return made

    def constant(self, op: ConstantOp | FollowingOp) -> Value:
        type = _static(op)
        if isinstance(op, FollowingOp) and (made := op.opened(self.builder, type)) is not None:
            return made
        attributes = {"value": elements(op.array(), type)}
        made = build_op(
            ng.ConstantOp, (), attributes, types=[type], location=op.location, names=[op.given_name]
        )
        return self.builder.add_op(made).result

    def plain(self, op: Tensor, operands: Sequence[Value]) -> Value:
        assert op.operation is not None
        type = _static(op)
        made = build_op(
            op.operation,
            operands,
            resolved(op.attributes),
            types=[type],
            location=op.location,
            names=[op.given_name],
        )
        if made.result.type is not type:
            fail(
                AxisLengthError,
                f"{op.operation.name} gives {made.result.type}, but the graph was built for {type}",
                "a length that a slice, a pad or a constant was made for has changed since",
                op.location,
            )
        if given := op.metadata.get("schedule"):
            made = made.rebuilt(attributes={**made.attributes, SCHEDULE: to_attribute(given)})
        self.builder.add_op(made)
        return made.result

    def control(self, op: ControlOp) -> dict[int, Value]:
        """The results that are needed, by number."""
        results, operands, regions = needed(op, self.used.get(op, ()))
        attributes = resolved(op.attributes)
        if "carried" in attributes:
            attributes["carried"] = sum(i < attributes["carried"] for i in operands)
        bodies = [self.region(*region) for region in regions]
        self.builder.location = op.location
        made = build_op(
            op.kind, [self.read(op.operands[i]) for i in operands], attributes,
            types=[_static(op.results[i]) for i in results], regions=bodies, location=op.location,
            names=[op.results[i].given_name for i in results],
        )  # fmt: skip
        self.builder.add_op(made)
        return dict(zip(results, made.results, strict=True))

    def region(
        self, region: GraphRegion, parameters: Sequence[RegionParameter], results: Sequence[Tensor]
    ) -> Region:
        views = dict(self.views)
        self.regions.append(region)
        types, names = [_static(p) for p in parameters], [p.given_name for p in parameters]
        with self.builder.region(*types, names=names) as (made, arguments):
            self.values.update(zip(parameters, arguments, strict=True))
            self.trace.parameters[made.block] = parameters
            inside = schedule(region.inside(results))
            self.run_all([op for op in inside if not isinstance(op, RegionParameter)])
            self.builder.end(ng.YieldOp, *[self.read(r) for r in results])
        self.regions.pop()
        self.views = views
        return made
