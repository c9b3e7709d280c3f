# SPDX-License-Identifier: Apache-2.0
"""The ops of a function as steps: what each reads and writes, its memory and its cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field

from ....ir.core import Op, Value, callee
from ....ir.literals import bytes_of
from ....ops import ng, tile
from ....ops.fields import get_i64s
from ....ops.tied import tied_pairs
from ....ops.work import operations
from ...analysis.views import before
from ...graph.dead_code import removable
from ...graph.invariants import reads
from .outputs import removable_outputs

#: Ops whose result is a view of their operand.
_VIEWS = frozenset({"ng.reshape", "ng.slice"})
#: The op whose operands are parts of its result.
_JOINS = "ng.concatenate"
#: Arithmetic operations in the time of moving one byte; an estimate, on which only choices depend.
_OPERATIONS_A_BYTE = 16


@dataclass(eq=False)
class StoredValue:
    """A value that a step computes and that is stored in the arena; `bytes` is 0 if it is stored elsewhere."""

    value: Value
    bytes: int
    maker: Step
    readers: list[Step] = field(default_factory=list["Step"])


@dataclass(eq=False)
class Step:
    """An op that computes something. `scratch` is the memory of its regions, `reused` are pairs of a value that it reads and one that it
    may compute in place of it. `changes` are the steps that overwrite a variable that this one reads, with its bytes: they
    come after this one where they can. `repeatable` says whether it can be executed again, `optional` are the results that it can be
    executed without."""

    op: Op
    number: int
    cost: float
    scratch: int = 0
    reads: list[StoredValue] = field(default_factory=list[StoredValue])
    gives: list[StoredValue] = field(default_factory=list[StoredValue])
    reused: list[tuple[StoredValue, StoredValue]] = field(
        default_factory=list[tuple[StoredValue, StoredValue]]
    )
    changes: dict[Step, int] = field(default_factory=dict["Step", int])
    repeatable: bool = True
    optional: Collection[StoredValue] = ()

    def added(self, given: Collection[StoredValue], ending: Container[StoredValue]) -> int:
        """The bytes that the step needs in addition to what it reads, to compute the results `given`: these, and its scratch memory. They
        can take the place of values that it reads, of those in `ending`, which no later step needs."""
        taken: set[StoredValue] = set()
        for read, result in self.reused:
            if result in given and read in ending and read not in taken and result not in taken:
                taken.update((read, result))
        return self.scratch + sum(held.bytes for held in given) - sum(held.bytes for held in taken) // 2

    @property
    def needed(self) -> int:
        """The bytes that the step alone needs: what it reads and writes, of optional results one at a time, and its scratch memory."""
        always = [held for held in self.gives if held not in self.optional]
        ways = [[*always, held] for held in self.optional] or [always]
        return sum(read.bytes for read in self.reads) + max(self.added(way, self.reads) for way in ways)


@dataclass(frozen=True)
class Steps:
    """All steps of a block in order, their values, and the notes of what is not to be kept."""

    steps: list[Step]
    held: Mapping[Value, StoredValue]
    notes: list[ng.RecomputeOp]


def is_view(op: Op) -> bool:
    """Whether the result of an op is in the memory of its operands."""
    return op.name in _VIEWS or op.name == _JOINS


def root_of(value: Value) -> Value:
    """The value of which this one is a view, or itself."""
    return before(value, _VIEWS)


def roots_of(value: Value) -> list[Value]:
    """The values of which this one is a view: several if it joins them."""
    root = root_of(value)
    if isinstance(root.owner, Op) and root.owner.name == _JOINS:
        return [found for operand in root.owner.operands for found in roots_of(operand)]
    return [root]


def steps_of(
    function: Op,
    kernels: Mapping[str, Op],
    room: Callable[[int], int],
    inside: Callable[[Op], int],
    over: Mapping[Value, Value],
) -> Steps:
    """The steps of a function whose ops call kernels; `room` gives the bytes of the arena that a buffer takes, `inside` those
    of the temporaries of an op with regions, `over` the values that results of scans are written over, slice by slice: who reads the
    results needs the memory of those."""
    block = function.block
    *ops, end = block.ops
    elsewhere, updates = _results(function, end)
    costs: dict[str, float] = {}
    held: dict[Value, StoredValue] = {}
    steps: list[Step] = []
    notes: list[ng.RecomputeOp] = []
    readers: dict[Value, list[Step]] = {}
    for op in ops:
        if is_view(op):
            continue
        if isinstance(op, ng.RecomputeOp):
            notes.append(op)
            continue
        step = Step(op, len(steps), cost_of(op, kernels, costs))
        sources = dict.fromkeys(root for v in reads(op) for root in roots_of(v))
        sources.update(dict.fromkeys(over[v] for v in sources if v in over))
        step.reads = [held[v] for v in sources if v in held]
        for read in step.reads:
            read.readers.append(step)
        for value in sources:
            readers.setdefault(value, []).append(step)
        kept = op.name == "ng.constant" or (op.name == "func.call" and not op.operands)
        step.scratch = inside(op) if op.regions else 0
        for value in op.results:
            bytes = 0 if kept or value in elsewhere or value in over else room(bytes_of(value.type))
            step.gives.append(StoredValue(value, bytes, step))
            held[value] = step.gives[-1]
        step.repeatable = kept or op.name == "tile.call" or removable(op)
        step.reused = [*_reused(step, kernels)]
        step.optional = _optional(step, kernels)
        steps.append(step)
    for result, argument in updates:
        if result not in held:
            continue
        maker = held[result].maker
        behind = _dependents(maker)
        for step in readers.get(argument, ()):
            if step not in behind:
                step.changes[maker] = bytes_of(argument.type)
    for value, source in over.items():
        held[source].maker.changes[held[value].maker] = held[source].bytes
    return Steps(steps, held, notes)


def _dependents(step: Step) -> set[Step]:
    """A step, and all that depend on its results, directly or transitively."""
    found: set[Step] = set()
    waiting = [step]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [reader for given in one.gives for reader in given.readers]
    return found


def _results(function: Op, end: Op) -> tuple[set[Value], list[tuple[Value, Value]]]:
    """The values that are stored in buffers of results and variables, and pairs of the new value of a variable and its argument."""
    arguments = function.block.args
    updates = [(root_of(end.operands[i]), arguments[at]) for i, at in tied_pairs(function).items()]
    return {root for value in end.operands for root in roots_of(value)}, updates


def _reused(step: Step, kernels: Mapping[str, Op]) -> Iterator[tuple[StoredValue, StoredValue]]:
    if step.op.name == "tile.call":
        pairs = get_i64s(kernels[callee(step.op)], "in_place")
        for source, target in zip(pairs[::2], pairs[1::2], strict=True):
            value = step.op.operands[source]
            given = step.gives[target - len(step.op.operands)]
            found = next((r for r in step.reads if r.value is root_of(value)), None)
            if found is not None and found.bytes == given.bytes and given.bytes:
                yield found, given


def _optional(step: Step, kernels: Mapping[str, Op]) -> list[StoredValue]:
    """Those of several stored results of a kernel that it can be executed without."""
    if step.op.name != "tile.call" or len(step.gives) < 2:
        return []
    kernel = kernels[callee(step.op)]
    assert isinstance(kernel, tile.KernelOp)
    able = removable_outputs(kernel)
    return [held for number, held in enumerate(step.gives) if held.bytes and number in able]


def cost_of(op: Op, kernels: Mapping[str, Op], known: dict[str, float]) -> float:
    """The cost of an op, in bytes that could be moved in the same time."""
    moved = sum(bytes_of(v.type) for v in {*op.operands, *op.results})
    if op.name != "tile.call":
        return moved + sum(
            cost_of(inner, kernels, known) for inner in op.walk() if inner is not op and not inner.regions
        )
    name = callee(op)
    if name not in known:
        kernel = kernels[name]
        assert isinstance(kernel, tile.KernelOp)
        known[name] = (operations(kernel) or 0) / _OPERATIONS_A_BYTE
    return max(moved, known[name])
