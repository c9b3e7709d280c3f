# SPDX-License-Identifier: Apache-2.0
"""A planned module as GPU code: the list of launches that an entry function becomes, and LLVM IR of the kernels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ...ir.attributes import IntegerAttr, integers
from ...ir.core import Block, Module, Op, Value, callee
from ...ir.literals import item_bytes
from ...ir.types import IndexType, MemRefType, VectorType, as_memref, i1, i64, index
from ...llvm.text import Module as LlvmModule
from ...ops import func, ng, tile
from ...ops.accesses import leaves_its_buffer
from ...ops.builder import Builder, function
from ...ops.interpreter import evaluate
from ...ops.work import measure
from ...support.artifact import Branch, Entry, Launch, Measure, Place, Repeat, Step
from ...support.diagnostics import Bug, Limit, Location, UserError
from ...support.target import Target
from ..unit import Unit, described, interfaces
from .access import WIDEST
from .grid import MOST_BLOCKS, blocks
from .kernel import Parameters, emit_kernel

#: Elements that one block of a copy kernel copies.
_COPIED = 2048
#: Loops between kernels are unrolled into at most this many launches.
_MOST_LAUNCHES = 100_000


def emit(module: Module, target: Target) -> Unit:
    """The kernels that the entries launch, and the launches in order with their buffers."""
    outsides, constants = interfaces(module)
    copies: dict[tuple[MemRefType, MemRefType], tile.KernelOp] = {}
    calls = [_Steps(module, outside.places, copies).run(outside.function.block) for outside in outsides]
    by_kernel: dict[tile.KernelOp, list[_Call]] = {}
    for call in chain(*map(_calls, calls)):
        by_kernel.setdefault(call.kernel, []).append(call)
    code = LlvmModule(debug=target.debug, only_lines=True)
    names: dict[tile.KernelOp, str] = {}
    shared: dict[tile.KernelOp, int] = {}
    for kernel, launched in by_kernel.items():
        if (number := blocks(kernel.grid)[0]) > MOST_BLOCKS:
            message = f"kernel @{kernel.symbol} has {number} blocks"
            raise Limit(
                message,
                kernel.location,
                hint=f"a launch can have at most {MOST_BLOCKS}: compute more in each block",
            )
        names[kernel] = _entry_name(kernel.symbol, names.values())
        threads = threads_of(kernel, target)
        shared[kernel] = emit_kernel(
            code, kernel, names[kernel], target, threads, _parameters(kernel, launched)
        )

    def steps(planned: Sequence[_Planned]) -> tuple[Step, ...]:
        return tuple(step(each) for each in planned if not isinstance(each, _Call) or prod(each.kernel.grid))

    def step(each: _Planned) -> Step:
        match each:
            case _Call(kernel):
                threads, bytes = threads_of(kernel, target), shared[kernel]
                return Launch(names[kernel], blocks(kernel.grid), threads, each.places, bytes)
            case _Choice(flag, then, other):
                return Branch(flag, steps(then), steps(other))
            case _Loop(asked, flag, repeated):
                return Repeat(steps(asked), flag, steps(repeated))

    def measures(planned: Sequence[_Planned]) -> tuple[Measure, ...]:
        if not target.timed:
            return ()
        return tuple(
            [replace(measure(each.op, each.kernel), kernel=names[each.kernel]) for each in _calls(planned)]
        )

    entries = [Entry(o.signature, steps(c), measures(c)) for o, c in zip(outsides, calls, strict=True)]
    return Unit(llvm=code.text(), **described(module, outsides, entries, constants))


def threads_of(kernel: tile.KernelOp, target: Target) -> int:
    """Threads per block: from the kernel if it says so, else from the target."""
    given = kernel.attributes.get("threads")
    threads = given.value if isinstance(given, IntegerAttr) else target.threads
    if threads % 32 or not 32 <= threads <= 1024:
        raise UserError(
            f"kernel @{kernel.symbol} asks for {threads} threads",
            kernel.location,
            hint="a block has a multiple of 32 threads, at most 1024",
        )
    return threads


def _entry_name(symbol: str, taken: Collection[str]) -> str:
    """The symbol without characters that PTX does not allow, different from those that are taken."""
    plain = name = re.sub(r"\W", "_", symbol, flags=re.ASCII)
    number = 0
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name


class _Call(NamedTuple):
    kernel: tile.KernelOp
    places: tuple[Place, ...]
    extents: tuple[int, ...]  # bytes after each place that may be accessed
    op: Op


class _Choice(NamedTuple):
    flag: Place
    then: list[_Planned]
    other: list[_Planned]


class _Loop(NamedTuple):
    asked: list[_Planned]
    flag: Place
    steps: list[_Planned]


_Planned = _Call | _Choice | _Loop


def _calls(planned: Sequence[_Planned]) -> Iterator[_Call]:
    for each in planned:
        match each:
            case _Call():
                yield each
            case _Choice(_, one, other) | _Loop(one, _, other):
                yield from _calls([*one, *other])


class _Steps:
    """Interprets an entry function whose buffers are places: what remains are launches in order, and the branches and
    loops around them."""

    def __init__(
        self,
        module: Module,
        places: dict[Value, Place],
        copies: dict[tuple[MemRefType, MemRefType], tile.KernelOp],
    ):
        self.module = module
        self.places = dict(places)
        self.numbers: dict[Value, int] = {}
        self.planned: list[_Planned] = []
        self.count = 0
        self.copies = copies

    def run(self, block: Block) -> list[_Planned]:
        """Adds the steps of a block; returns all steps so far."""
        for op in block.ops:
            self._step(op)
        return self.planned

    def planned_block(self, block: Block) -> list[_Planned]:
        """The steps of one block alone."""
        around, self.planned = self.planned, []
        made = self.run(block)
        self.planned = around
        return made

    def _step(self, op: Op) -> None:
        match op:
            case func.ReturnOp() | ng.YieldOp():
                pass
            case tile.ViewOp():
                place = self.places[op.operands[0]]
                self.places[op.result] = replace(place, offset=place.offset + op.offset)
            case tile.SubviewOp():
                self.places[op.result] = self._window(op)
            case tile.LaunchOp():
                kernel = self.module.lookup(callee(op))
                if not isinstance(kernel, tile.KernelOp):
                    raise Bug(f"there is no kernel @{callee(op)}", op.location)
                self._call(kernel, op)
            case tile.CopyOp():
                self._call(self._copy_kernel(op), op)
            case tile.ForOp() if not op.inits:
                bounds = (op.lower, op.upper, op.step)
                positions = range(*(b if isinstance(b, int) else self.numbers[b] for b in bounds))
                body = op.regions[0].block
                for position in positions:
                    self.numbers[body.args[0]] = position
                    self.run(body)
                    if self.count > _MOST_LAUNCHES:
                        raise Limit(
                            f"a loop between kernels of {len(positions)} iterations on the GPU", op.location
                        )
            case tile.LoadOp() if op.result.type is i1 and not op.operands[1:]:
                self.places[op.result] = self.places[op.operands[0]]
            case ng.IfOp() if not op.results:
                then, other = (self.planned_block(region.block) for region in op.regions)
                self.planned.append(_Choice(self.places[op.condition], then, other))
            case ng.WhileOp() if not op.operands:
                condition, body = (region.block for region in op.regions)
                asked = self.planned_block(condition)
                flag = self.places[condition.ops[-1].operands[0]]
                self.planned.append(_Loop(asked, flag, self.planned_block(body)))
            case _ if (
                op.results and all(isinstance(r.type, IndexType) for r in op.results) and "pure" in op.traits
            ):
                known = [np.asarray(self.numbers[value], np.int64) for value in op.operands]
                self.numbers[op.results[0]] = int(evaluate(op, known)[0])
            case _:
                raise Limit(
                    f"{op.name} between kernels is not supported on GPUs yet",
                    op.location,
                    hint="compile for the CPU, or call one program for each step from Python",
                )

    def _window(self, op: Op) -> Place:
        if leaves_its_buffer(op.results[0]):
            raise Limit("a masked window between kernels is not supported on GPUs", op.location)
        whole = op.operands[0]
        type, place = as_memref(whole.type), self.places[whole]
        starts = zip(op.operands[1:], type.row_strides, strict=True)
        elements = sum(self.numbers[start] * stride for start, stride in starts)
        return replace(place, offset=place.offset + elements * item_bytes(type.element))

    def _call(self, kernel: tile.KernelOp, op: Op) -> None:
        places = tuple(self.places[value] for value in op.operands)
        self.count += 1
        self.planned.append(_Call(kernel, places, tuple(_extent(value) for value in op.operands), op))

    def _copy_kernel(self, op: tile.CopyOp) -> tile.KernelOp:
        source, target = (as_memref(value.type) for value in op.operands)
        key = (_flattened(source), _flattened(target))
        if key not in self.copies:
            name = f"copy_{len(self.copies)}" if self.copies else "copy"
            self.copies[key] = copy_kernel(*key, name, op.location)
        return self.copies[key]


def copy_kernel(source: MemRefType, target: MemRefType, name: str, location: Location) -> tile.KernelOp:
    """A kernel that copies a buffer; a contiguous buffer is divided among many blocks."""
    flat = source is target and source.rank == 1 and source.strides is None
    grid = [-(-source.size // _COPIED)] if flat else []
    body = Block([source, target, *[index] * len(grid)], ["from", "to", "i"])
    b = Builder(body, location)
    if flat:
        at = b.multiply(body.args[2], b.index(_COPIED))
        kind = VectorType((_COPIED,), source.element)
        b.store(b.load(body.args[0], [at], type=kind, masked=True), body.args[1], [at], masked=True)
    else:
        b.copy(body.args[0], body.args[1])
    b.end(tile.ReturnOp)
    attributes = {"grid": integers(grid), "outputs": IntegerAttr(1, i64)}
    made = function(name, body, attributes, kind=tile.KernelOp, location=location)
    assert isinstance(made, tile.KernelOp)
    return made


def _flattened(type: MemRefType) -> MemRefType:
    """A contiguous buffer as 1-D; the offset belongs to its place."""
    if type.row_strides == MemRefType(type.shape, type.element).row_strides:
        return MemRefType((type.size,), type.element)
    return MemRefType(type.shape, type.element, type.row_strides)


def _parameters(kernel: tile.KernelOp, calls: Sequence[_Call]) -> Parameters:
    """What holds for all launches of a kernel."""
    count = len(calls[0].places)
    written = frozenset(range(count - kernel.outputs, count))
    overlapping: set[int] = set()
    for call in calls:
        for w in written:
            overlapping |= {x for i in range(count) if i != w and _meet(call, i, w) for x in (i, w)}
    alignments = tuple(gcd(WIDEST, *(call.places[i].offset for call in calls)) for i in range(count))
    return Parameters(written, frozenset(overlapping), alignments)


def _meet(call: _Call, a: int, b: int) -> bool:
    at, there = call.places[a], call.places[b]
    if (at.space, at.index) != (there.space, there.index):
        return False
    return at.offset < there.offset + call.extents[b] and there.offset < at.offset + call.extents[a]


def _extent(buffer: Value) -> int:
    type = as_memref(buffer.type)
    if not type.size:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(type.shape, type.row_strides, strict=True))
    return (last + 1) * item_bytes(type.element)
