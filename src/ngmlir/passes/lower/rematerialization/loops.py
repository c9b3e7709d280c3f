# SPDX-License-Identifier: Apache-2.0
"""What scans hold of all their steps for other scans over the same steps, such as those of gradients: these can compute it again, step by
step, from the carried values with which a step began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....ir.core import Block, Op, Region, Value
from ....ir.literals import bytes_of
from ....ir.types import TensorType, element_type, shape_of
from ....ops import ng
from ....ops.builder import Builder
from ....ops.fields import get_bool, get_i64
from ...graph.dead_code import removable
from ...graph.inline import copied
from ...graph.invariants import reads
from .steps import cost_of


@dataclass(frozen=True)
class Stack:
    """A result of a scan: what `step` is, of all steps. `is_read_elsewhere` says whether others read it than scans that run the other way
    and read a slice at each step."""

    value: Value
    step: Value
    is_read_elsewhere: bool

    @property
    def scan(self) -> Op:
        """The scan whose result it is."""
        assert isinstance(self.value.owner, Op)
        return self.value.owner


def read_back(function: Op) -> Iterator[Stack]:
    """The stacks that scans read that run the other way."""
    readers: dict[Value, list[Op]] = {}
    for op in function.block.ops:
        for value in dict.fromkeys(reads(op)):
            readers.setdefault(value, []).append(op)

    def back(value: Value, scan: Op) -> Iterator[bool]:
        """For each op that reads a value, whether it is a scan that reads it back."""
        for op in readers.get(value, ()):
            if keeps_steps(op):
                yield from back(op.results[0], scan)
            else:
                yield runs_back(op, scan) and slices_of(op).count(value) == [*reads(op)].count(value)

    for scan in function.block.ops:
        for value, step in _results(scan):
            found = [*back(value, scan)]
            if any(found):
                yield Stack(value, step, not all(found))


def stacks_of(function: Op, kernels: Mapping[str, Op]) -> list[Stack]:
    """The stacks whose values those that read them can compute again in each step: those first that free most bytes for what that
    costs."""
    made = [s for s in read_back(function) if s.step not in s.scan.block.args and _is_repeatable(s)]
    known = {stack.value for stack in made}
    made = [s for s in made if not any(stack_source(v) in known for v in slices_of(s.scan))]
    costs: dict[str, float] = {}

    def price(stack: Stack) -> float:
        ops, read = _way([], [stack])
        held = {step for _, step in _results(stack.scan)}
        carried = stack.scan.block.args[: get_i64(stack.scan, "carried")]
        more = sum(bytes_of(value.type) for value in carried if value in read and value not in held)
        return sum(cost_of(op, kernels, costs) for op in ops) / max(bytes_of(stack.step.type) - more, 1)

    return sorted(made, key=price)


def without_stacks(function: Op, stacks: Sequence[Stack]) -> Op:
    """The function in which what reads these stacks computes their values again."""
    return function.with_blocks(lambda block: _Rewriting(block, stacks).made)


def _results(op: Op) -> Iterator[tuple[Value, Value]]:
    """The results of a scan that have values of all steps, each with what it is of a step."""
    if isinstance(op, ng.ScanOp):
        count = get_i64(op, "carried")
        yield from zip(op.results[count:], op.block.ops[-1].operands[count:], strict=True)


def runs_back(op: Op, scan: Op) -> bool:
    """Whether an op is a scan in the other direction."""
    return isinstance(op, ng.ScanOp) and get_bool(op, "reverse") != get_bool(scan, "reverse")


def slices_of(scan: Op) -> Sequence[Value]:
    """What a scan reads a slice of at each step."""
    return scan.operands[get_i64(scan, "carried") :]


def _is_repeatable(stack: Stack) -> bool:
    ops, read = _way([], [stack])
    return bool(read) and all(op.name == "tile.call" or removable(op) for op in ops)


def keeps_steps(op: Op) -> bool:
    """Whether an op is a view of whole slices along dimension 0."""
    return op.name == "ng.reshape" and shape_of(op.operands[0].type)[:1] == shape_of(op.results[0].type)[:1]


def stack_source(value: Value) -> Value:
    """The value before views of whole slices."""
    while isinstance(value.owner, Op) and keeps_steps(value.owner):
        value = value.owner.operands[0]
    return value


def _way(dropped: Sequence[Stack], wanted: Sequence[Stack]) -> tuple[list[Op], list[Value]]:
    """The ops of a step that compute the `wanted` values, and what they read of the step: its parameters, and values of stacks
    that are not dropped."""
    scan = wanted[0].scan
    gone = {stack.step for stack in (*dropped, *wanted)}
    held = {step for _, step in _results(scan)} - gone
    inside, ops = set(scan.block.ops), set[Op]()
    read: dict[Value, None] = {}
    waiting = [stack.step for stack in wanted]
    while waiting:
        value = waiting.pop()
        if value in scan.block.args or value in held:
            read[value] = None
        elif isinstance(value.owner, Op) and value.owner in inside and value.owner not in ops:
            ops.add(value.owner)
            waiting += reads(value.owner)
    return [op for op in scan.block.ops if op in ops], [*read]


class _Rewriting:
    """A block whose scans do not hold some stacks."""

    def __init__(self, block: Block, stacks: Sequence[Stack]):
        self.dropped = {stack.value: stack for stack in stacks}
        self.gone = {stack.value for stack in stacks if not stack.is_read_elsewhere}
        self.now: dict[Value, Value] = {}
        #: For a value of a step, what has it of all steps.
        self.held: dict[Value, Value] = {}
        self.made = block.emptied()
        for op in block.ops:
            if isinstance(op, ng.ScanOp):
                self.made.ops.append(self.scan(op))
            elif not op.results or stack_source(op.results[0]) not in self.gone:
                self.made.ops.append(copied(op, self.now))

    def scan(self, op: Op) -> Op:
        """A scan that computes again what it read of dropped stacks, and does not give its own."""
        count, end = get_i64(op, "carried"), op.block.ops[-1]
        inputs = dict(zip(op.block.args, op.operands, strict=True))
        again = {
            arg: s
            for arg, v in inputs.items()
            if (s := self.dropped.get(stack_source(v))) and runs_back(op, s.scan)
        }
        ways = [
            _way([*self.dropped.values()], [stack for stack in again.values() if stack.scan is scan])
            for scan in dict.fromkeys(stack.scan for stack in again.values())
        ]
        read = {arg: self.now.get(v, v) for arg, v in inputs.items() if arg not in again}
        self.held.update((arg, read[arg]) for arg in op.block.args[count:] if arg in read)
        read.update((value, self.held[value]) for _, values in ways for value in values)
        types = [arg.type for arg in op.block.args[:count]]
        block = Block([value.type for value in read], [value.name for value in read])
        now = {**self.now, **dict(zip(read, block.args, strict=True))}
        block.ops = [copied(each, now) for ops, _ in ways for each in ops]
        b = Builder(block, op.location)
        for arg, stack in again.items():
            value = now[stack.step]
            now[arg] = value if value.type == arg.type else b.reshape(value, type=arg.type)
        block.ops += [copied(each, now) for each in op.block.ops[:-1]]
        given = [value for value in op.results if value not in self.gone]
        steps = [end.operands[value.index] for value in given]
        own = [stack for stack in self.dropped.values() if stack.scan is op]
        if own:
            new = [v for v in _way(own, own)[1] if v in op.block.args[:count] and v not in steps[count:]]
            steps += new
        block.ops.append(end.rebuilt([now.get(v, v) for v in steps]))
        length = shape_of(op.operands[count].type)[0]
        types += [TensorType((length, *shape_of(v.type)), element_type(v.type)) for v in steps[count:]]
        made = op.rebuilt([*read.values()], [Region(block)], types=types)
        names = [value.name for value in (*given, *steps[len(given) :])]
        for value, name in zip(made.results, names, strict=True):
            value.name = name
        self.now.update(zip(given, made.results, strict=False))
        self.held.update(zip(steps[count:], made.results[count:], strict=True))
        return made
