# SPDX-License-Identifier: Apache-2.0
"""Checks of the asynchronous copies of a kernel: waits that are certainly repeated, and accesses that certainly conflict with
a copy in flight.

A kernel with such copies is interpreted op by op, iteration by iteration, with indices as far as they are known
(constants and sums of program indices) and with tokens as sets of copies. Nothing is reported where it is
unknown what runs, or which elements are accessed: the GPU simulator checks these at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..ir.attributes import IntegerAttr
from ..ir.core import Block, Module, Op, Value
from ..ir.types import IndexType, shape_of, token
from ..support.diagnostics import Diagnostic, UserError
from .accesses import Sum
from .fields import find_i64s, find_unit, get_i64s, static

#: Ops that are interpreted at most; the rest of a kernel is not checked.
_STEPS = 5000


def check_copies(module: Module) -> None:
    """UserError with all certain errors in the asynchronous copies of a valid module's kernels."""
    if found := [each for op in module.ops if op.name == "tile.kernel" for each in copy_violations(op)]:
        raise UserError(found)


def copy_violations(kernel: Op) -> list[Diagnostic]:
    """The certain errors in the asynchronous copies of a kernel; [] for a good one."""
    if 0 in get_i64s(kernel, "grid") or not any(op.name == "tile.copy_async" for op in kernel.walk()):
        return []
    return _Walk(kernel).found


class _Window(NamedTuple):
    """Elements of a buffer: `sizes` along each dimension, from `starts` on. `sparse`: not all of them."""

    buffer: Value
    starts: tuple[Sum | None, ...]
    sizes: tuple[int, ...]
    sparse: bool = False

    def meets(self, other: _Window) -> bool:
        """Whether both certainly contain a common element."""
        if self.buffer is not other.buffer or 0 in (*self.sizes, *other.sizes):
            return False
        sparse = self.sparse or other.sparse
        rows = zip(self.starts, other.starts, self.sizes, other.sizes, strict=True)
        return all(_overlap(*row, sparse) for row in rows)


def _overlap(one: Sum | None, other: Sum | None, size: int, others: int, sparse: bool) -> bool:
    """Whether `size` elements from `one` on and `others` from `other` on certainly overlap; `sparse`: only their first
    elements are certain."""
    if one is None or other is None:
        return False
    apart = one.plus(other, -1)
    if any(apart.factors.values()):
        return False
    return apart.constant == 0 if sparse else -size < apart.constant < others


class _Copy(NamedTuple):
    """One execution of a `tile.copy_async`."""

    op: Op
    source: _Window
    target: _Window


#: What is known of an index, of a buffer, or of a token: the executions of copies of which it may be that of one.
_Known: TypeAlias = Sum | _Window | frozenset[int]


@dataclass
class _State:
    """What is certain at a point: copies in flight, and the ops that waited for others; by number of execution."""

    under_way: dict[int, _Copy] = field(default_factory=dict[int, _Copy])
    awaited: dict[int, Op] = field(default_factory=dict[int, Op])

    def copy(self) -> _State:
        return _State(dict(self.under_way), dict(self.awaited))

    def both(self, other: _State) -> _State:
        """What is certain after one of two branches."""
        return _State(
            {n: c for n, c in self.under_way.items() if n in other.under_way},
            {n: op for n, op in self.awaited.items() if n in other.awaited},
        )


class _Enough(Exception):
    """The kernel is too long to be interpreted."""


class _Walk:
    def __init__(self, kernel: Op) -> None:
        self.known: dict[Value, _Known] = {}
        self.state = _State()
        self.said: dict[tuple[Op, str], Diagnostic] = {}
        self.steps = self.runs = 0
        block = kernel.block
        for value in block.args:
            if isinstance(value.type, IndexType):
                self.known[value] = Sum(0, {value: 1})
            else:
                self.known[value] = _whole(value)
        try:
            self.block(block)
        except _Enough:
            return
        for copy in self.state.under_way.values():
            if copy.target.buffer in block.args:
                self.say(
                    copy.op,
                    f"copies into {_name(copy.target.buffer)}, but does not wait for it",
                    "add a 'tile.wait' for its token before the end of the kernel",
                )

    @property
    def found(self) -> list[Diagnostic]:
        return list(self.said.values())

    # -- ops -------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.steps += 1
            if self.steps > _STEPS:
                raise _Enough
            self.op(op)

    def op(self, op: Op) -> None:
        match op.name:
            case "tile.alloc":
                self.known[op.results[0]] = _whole(op.results[0])
            case "tile.subview":
                self.subview(op)
            case "tile.copy_async":
                self.start(op)
            case "tile.wait":
                for value in op.operands:
                    self.wait(op, value)
            case "tile.copy" | "tile.load" | "tile.store":
                for window, writes in self.touched(op):
                    self.touch(op, window, writes)
            case "tile.for":
                self.loop(op)
            case "ng.if":
                self.branches(op)
            case _ if op.regions:
                self.state = _State()
            case _ if len(op.results) == 1 and isinstance(op.results[0].type, IndexType):
                self.set(op.results[0], self.index(op))
            case _:
                pass

    def set(self, value: Value, known: _Known | None) -> None:
        """Records the value in this iteration; None if it is unknown."""
        if known is None:
            self.known.pop(value, None)
        else:
            self.known[value] = known

    def sum(self, value: int | Value) -> Sum | None:
        if isinstance(value, int):
            return Sum(value)
        found = self.known.get(value)
        return found if isinstance(found, Sum) else None

    def index(self, op: Op) -> Sum | None:
        if op.name == "ng.constant":
            value = op.attributes["value"]
            return Sum(value.value) if isinstance(value, IntegerAttr) else None
        operands = [self.sum(v) for v in op.operands]
        if len(operands) != 2:
            return None
        left, right = operands
        if left is None or right is None:
            return None
        a, b = _constant(left), _constant(right)
        match op.name:
            case "ng.add":
                return left.plus(right)
            case "ng.subtract":
                return left.plus(right, -1)
            case "ng.multiply" if b is not None:
                return left.times(b)
            case "ng.multiply" if a is not None:
                return right.times(a)
            case "ng.remainder" if a is not None and b and a >= 0 < b:
                return Sum(a % b)
            case _:
                return None

    # -- copies ----------------------------------------------------------------------------------------------

    def window(self, buffer: Value) -> _Window:
        found = self.known.get(buffer)
        return found if isinstance(found, _Window) else _whole(buffer)

    def subview(self, op: Op) -> None:
        whole, shape = self.window(op.operands[0]), shape_of(op.results[0].type)
        starts = self.moved(whole, op.operands[1:])
        sizes = (1,) * (len(starts) - len(shape)) + shape
        sparse = whole.sparse or find_unit(op, "masked") is True
        self.known[op.results[0]] = _Window(whole.buffer, starts, sizes, sparse)

    def moved(self, whole: _Window, indices: Sequence[Value]) -> tuple[Sum | None, ...]:
        """The position of indices into a window; leading dimensions that it lacks are fixed."""
        fixed = len(whole.starts) - len(indices)
        more = [self.sum(value) for value in indices]
        inner = [a and b and a.plus(b) for a, b in zip(whole.starts[fixed:], more, strict=True)]
        return (*whole.starts[:fixed], *inner)

    def tile(self, op: Op, buffer: Value, indices: Sequence[Value], tile: Value) -> _Window:
        """The elements that a load or a store accesses."""
        whole, shape = self.window(buffer), shape_of(tile.type)
        fixed = len(whole.starts) - len(indices)
        dims = find_i64s(op, "dims") or tuple(range(len(indices) - len(shape), len(indices)))
        steps = find_i64s(op, "steps") or (1,) * len(shape)
        sizes = [1] * len(whole.starts)
        for dim, size in zip(dims, shape, strict=True):
            sizes[fixed + dim] = size
        sparse = find_unit(op, "masked") or any(step != 1 for step in steps)
        return _Window(whole.buffer, self.moved(whole, indices), tuple(sizes), sparse)

    def touched(self, op: Op) -> Iterator[tuple[_Window, bool]]:
        """The elements that an op accesses, each with whether it writes them."""
        match op.name:
            case "tile.load":
                yield self.tile(op, op.operands[0], op.operands[1:], op.results[0]), False
            case "tile.store":
                yield self.tile(op, op.operands[1], op.operands[2:], op.operands[0]), True
            case _:
                yield self.window(op.operands[0]), False
                yield self.window(op.operands[1]), True

    def start(self, op: Op) -> None:
        (source, _), (target, _) = self.touched(op)
        self.touch(op, source, False)
        self.touch(op, target, True)
        self.runs += 1
        self.state.under_way[self.runs] = _Copy(op, source, target)
        self.known[op.results[0]] = frozenset({self.runs})

    def wait(self, op: Op, value: Value) -> None:
        runs = self.known.get(value)
        if not isinstance(runs, frozenset):
            self.state.under_way.clear()  # it may have waited for any of them
            return
        for run in runs:
            self.state.under_way.pop(run, None)
        if len(runs) == 1:
            (run,) = runs
            if (before := self.state.awaited.get(run)) is not None:
                self.say(
                    op,
                    f"waits again for a copy that was already waited for: {_name(value)}",
                    "pass on the token of the next copy, or remove this wait",
                    Diagnostic("it is waited for here", before.location, "note"),
                )
            self.state.awaited[run] = op

    def touch(self, op: Op, window: _Window, writes: bool) -> None:
        for copy in self.state.under_way.values():
            into = window.meets(copy.target)
            if not into and not (writes and window.meets(copy.source)):
                continue
            verb = "writes to" if writes else "reads"
            whose = "a copy into it is in flight" if into else "a copy in flight still reads it"
            self.say(
                op,
                f"{verb} {_name(window.buffer)} while {whose}",
                "add a 'tile.wait' for the token of that copy before",
                Diagnostic("it starts here", copy.op.location, "note"),
            )

    def say(self, op: Op, message: str, hint: str, *notes: Diagnostic) -> None:
        said = Diagnostic(f"'{op.name}' {message}", op.location, hint=hint, notes=notes)
        self.said.setdefault((op, message), said)

    # -- control flow ----------------------------------------------------------------------------------------

    def loop(self, op: Op) -> None:
        bounds = [self.sum(static(op, name)) for name in ("lower", "upper", "step")]
        lower, upper, step = (None if b is None else _constant(b) for b in bounds)
        inits = op.operands[len(op.operands) - len(op.results) :]
        if lower is None or upper is None or step is None or step <= 0:
            # Whether it runs is unknown, and so are the copies in flight after it.
            self.state.under_way.clear()
            for result in op.results:
                self.set(result, None)
            return
        body = op.regions[0].block
        carried = [self.known.get(value) for value in inits]
        for position in range(lower, upper, step):
            self.set(body.args[0], Sum(position))
            for value, known in zip(body.args[1:], carried, strict=True):
                self.set(value, known)
            self.block(body)
            carried = [self.known.get(value) for value in body.ops[-1].operands]
        for value, known in zip(op.results, carried, strict=True):
            self.set(value, known)

    def branches(self, op: Op) -> None:
        before, ends = self.state, list[_State]()
        yields: list[list[_Known | None]] = []
        for region in op.regions:
            self.state = before.copy()
            self.block(region.block)
            ends.append(self.state)
            yields.append([self.known.get(value) for value in region.block.ops[-1].operands])
        self.state = ends[0].both(ends[1])
        for result, one, other in zip(op.results, *yields, strict=True):
            if isinstance(one, frozenset) and isinstance(other, frozenset):
                self.set(result, one | other)
            else:
                self.set(result, one if one == other else None)


def _whole(buffer: Value) -> _Window:
    shape = shape_of(buffer.type)
    return _Window(buffer, (Sum(0),) * len(shape), shape)


def _constant(sum: Sum) -> int | None:
    return None if any(sum.factors.values()) else sum.constant


def _name(value: Value) -> str:
    return f"%{value.name}" if value.name else "its token" if value.type is token else "a buffer"
