# SPDX-License-Identifier: Apache-2.0
"""One kernel: each op as instructions of one thread.

A scalar is one value, the same in all threads; a tile is distributed over them as `assign` decides.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from ...ir.core import Block as IrBlock
from ...ir.core import Op, Region
from ...ir.core import Value as IrValue
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, as_memref, element_type, shape_of
from ...llvm.text import Argument, Module
from ...llvm.types import Value, constant
from ...ops import ng, tile
from ...ops.accesses import leaves_its_buffer
from ...ops.layouts import Layout, blocked
from ...rewrite.advice import pass_for
from ...support.diagnostics import Limit
from ...support.target import PARAMETER_BYTES, POINTER_BYTES, Target
from .. import elementwise
from ..names import index_name, loop_name, stem_of
from ..ranges import Range
from .access import Bound, alignment, bounds_of, is_shared, is_tile
from .assign import assign
from .block import GLOBAL, Block, Tile
from .facts import Facts
from .grid import positions
from .indexed import Index, gather, scatter
from .interleaving import SIDE_BY_SIDE, elements_at_once, interleaved
from .line_memory import LineMemory
from .memory import Buffer, Memory, common_piece
from .pending import unfinished
from .products import dot
from .rearrange import broadcast, make_constant, make_iota, number, rearrange, transpose
from .reductions import cumulate, reduce
from .shared import Stored, matrix_rows, read_words, stored_at, words_apart
from .values import Values

#: Bytes of shared memory that a kernel may declare statically; more is dynamic shared memory.
STATIC_BYTES = 48 * 1024


@dataclass(frozen=True)
class Parameters:
    """What holds for all launches of a kernel, by the number of the buffer."""

    written: frozenset[int]
    overlapping: frozenset[int]  # buffers that overlap a written one, or are written and overlap another
    alignments: tuple[int, ...]  # in bytes

    def steady(self, number: int) -> bool:
        """Whether nothing writes a buffer while the kernel runs."""
        return number not in self.written and number not in self.overlapping

    def argument(self, number: int) -> Argument:
        words = [] if number in self.overlapping else ["noalias"]
        words += [] if number in self.written else ["readonly"]
        return Argument(GLOBAL, f"p{number}", " ".join([*words, f"align {self.alignments[number]}"]))


def emit_kernel(
    module: Module, kernel: tile.KernelOp, name: str, target: Target, threads: int, parameters: Parameters
) -> int:
    """Adds the kernel to `module` as entry `name`; returns the bytes of dynamic shared memory that a launch needs.
    Limit if it needs more shared memory than a block of the target has, or more bytes of parameters than a launch."""
    count = len(parameters.alignments)
    if count * POINTER_BYTES > PARAMETER_BYTES:
        raise Limit(
            f"kernel @{kernel.symbol} takes {count} buffers, {count * POINTER_BYTES} bytes of parameters",
            kernel.location,
            hint=f"a launch can have at most {PARAMETER_BYTES}",
        )
    return _Kernel(module, kernel, name, target, threads, parameters).emit()


class _Kernel:
    def __init__(
        self,
        module: Module,
        kernel: tile.KernelOp,
        name: str,
        target: Target,
        threads: int,
        parameters: Parameters,
    ):
        self.module = module
        self.kernel = kernel
        self.name = name
        self.target = target
        self.threads = threads
        self.body = kernel.regions[0].block
        arguments, grid = self.body.args, kernel.grid
        buffers = [value for value in arguments if isinstance(value.type, MemRefType)]
        places = arguments[len(buffers) :]
        self.facts = Facts(
            {place: Range(0, max(size - 1, 0)) for place, size in zip(places, grid, strict=True)},
            dict(zip(buffers, parameters.alignments, strict=True)),
        )
        self.layouts = assign(self.body, self.facts, threads, prod(grid), target.gpu)
        self.allocated, reserved = _reserve(kernel)
        self.b = module.function(
            name,
            "void",
            [parameters.argument(i) for i in range(len(buffers))],
            linkage="ptx_kernel",
            # Without a minimum number of blocks, ptxas spills to reach the next step of occupancy.
            attributes=f'nounwind "nvvm.reqntid"="{threads}" "nvvm.minctasm"="1"',
        )
        self.b.trace_as(name, kernel.location)
        self.block = Block(self.b, threads, reserved)
        self.memory = Memory(self.block)
        self.unfinished = unfinished(self.body, self._in_background)
        self.values = Values(self.block, self.layouts)
        for i, (value, pointer) in enumerate(zip(buffers, self.b.arguments, strict=True)):
            self.values[value] = Buffer(pointer, as_memref(value.type), parameters.steady(i))
        for place, position in zip(places, positions(self.b, grid), strict=True):
            self.values[place] = position

    def emit(self) -> int:
        """Emits the kernel; returns the bytes of dynamic shared memory that each launch needs."""
        self._prepare_coordinates()
        self._run(self.body)
        self.b.ret()
        size = self.block.shared_bytes
        if size > self.target.shared_bytes:
            raise Limit(
                f"kernel @{self.kernel.symbol} needs {size} bytes of shared memory per block, "
                f"{self.target.name} has {self.target.shared_bytes}",
                self.kernel.location,
                hint="use smaller tiles",
            )
        name = self.block.shared_name.removeprefix("@")
        if size > STATIC_BYTES:
            self.module.variable(name, "[0 x i8]", "", align=16, linkage="external", space=3)
            return size
        if size:
            self.module.variable(name, f"[{size} x i8]", "undef", align=16, space=3)
        return 0

    def _prepare_coordinates(self) -> None:
        # Computed here they are available everywhere; inside a loop they would be computed in each iteration.
        for layout in dict.fromkeys([*self.layouts.of.values(), *self.layouts.accesses.values()]):
            self.block.coordinates(layout, 0)

    # Ops

    def _run(self, block: IrBlock) -> None:
        for layout, ops in interleaved(block.ops, self._side_by_side):
            if layout is not None:
                self._elementwise(ops, layout)
            else:
                with self._written_for(ops[0]):
                    self._lower(ops[0])
            for op in ops:
                self.values.hand_on(op.results)

    @contextmanager
    def _written_for(self, op: Op) -> Generator[None]:
        """Code emitted inside gets its names and debug location from an op."""
        self.b.stem = stem_of(op)
        with self.b.trace.at(op.location, loop_name(op)) if self.b.trace else nullcontext():
            yield
        self.b.stem = "v"

    def _lower(self, op: Op) -> None:
        match op:
            case tile.ReturnOp() | ng.YieldOp():
                pass
            case ng.ConstantOp():
                make_constant(self.values, self.memory, op)
            case ng.IotaOp():
                make_iota(self.values, op)
            case tile.LoadOp():
                self._load(op)
            case tile.StoreOp():
                self._store(op)
            case tile.GatherOp():
                self._gather(op)
            case tile.ScatterOp():
                self._scatter(op)
            case tile.DotOp():
                self._dot(op)
            case tile.ForOp():
                self._for(op)
            case ng.IfOp():
                self._if(op)
            case ng.BroadcastOp():
                broadcast(self.values, op)
            case ng.TransposeOp():
                transpose(self.values, op)
            case ng.ReshapeOp() | ng.SliceOp():
                rearrange(self.values, self.memory, op)
            case tile.AllocOp():
                place = self.block.shared(self.allocated[op])
                self.values[op.result] = Buffer(place, as_memref(op.result.type), False)
            case tile.SubviewOp():
                self._subview(op)
            case tile.PrefetchOp():
                pass  # other warps hide the latency of memory
            case tile.CopyOp() | tile.CopyAsyncOp():
                self._copy(op)
            case tile.WaitOp():
                if self.target.gpu.copied:
                    self.memory.wait(self.unfinished[op])
                else:
                    self.block.barrier()
            case tile.BarrierOp():
                self.block.barrier()
            case _ if "reduction" in op.traits:
                self.values.enter(op.result, reduce(self.block, op, self.values.tile(op.operands[0])))
            case _ if "cumulative" in op.traits:
                layout = self.values.layout(op.result)
                self.values.enter(
                    op.result, cumulate(self.block, op, self.values.tile(op.operands[0], layout))
                )
            case _ if "elementwise" in op.traits:
                self.values[op.result] = elementwise.lower(self.b, op, self.values.scalars(op.operands))
            case _:
                message = f"{op.name} inside a kernel is not supported on GPUs yet"
                raise Limit(message, op.location, hint=pass_for(op))

    def _side_by_side(self, op: Op) -> Layout | None:
        """The layout of the tile that an op computes a few elements at a time, or None if it does not: elementwise ops
        do, and loads of so many elements that they do not fit into registers in addition to another operand."""
        if "elementwise" in op.traits and is_tile(op.result):
            return self.values.layout(op.result)
        if not isinstance(op, tile.LoadOp) or op.result not in self.layouts.of:
            return None
        layout, access = self.values.layout(op.result), self.layouts.windows[op]
        plain = op not in self.layouts.straight and op not in self.layouts.accesses
        lines = self.layouts.lines.get(op)
        count = elements_at_once(op, layout)
        many = count < layout.registers and not access.ragged and access.piece(layout) <= count
        return layout if plain and many and (lines is None or not lines.pays(layout)) else None

    def _elementwise(self, ops: Sequence[Op], layout: Layout) -> None:
        """Lowers several ops a few elements at a time, so that intermediate results do not stay in registers."""
        made: dict[IrValue, list[Value]] = {op.result: [] for op in ops}
        computed = [op for op in ops if not isinstance(op, tile.LoadOp)]
        taken = dict.fromkeys(value for op in computed for value in op.operands if value not in made)
        held = {value: self.values.tile(value, layout).values for value in taken} | made
        # Elements with the same operands (after a broadcast) are computed once.
        known: dict[tuple[Op, tuple[Value, ...]], Value] = {}
        for first in range(0, layout.registers, SIDE_BY_SIDE):
            some = range(first, min(first + SIDE_BY_SIDE, layout.registers))
            for op in ops:
                with self._written_for(op):
                    if isinstance(op, tile.LoadOp):
                        if first % (count := elements_at_once(op, layout)) == 0:
                            made[op.result] += self._loaded(op, layout, range(first, first + count))
                        continue
                    for row in [tuple(held[value][register] for value in op.operands) for register in some]:
                        if (op, row) not in known:
                            known[op, row] = elementwise.lower(self.b, op, row)
                        made[op.result].append(known[op, row])
        for value, registers in made.items():
            self.values[value] = Tile(
                layout, shape_of(value.type), element_type(value.type), tuple(registers)
            )

    # Memory

    def _subview(self, op: tile.SubviewOp) -> None:
        whole, starts, type = (
            self.values.buffer(op.buffer),
            self.values.scalars(op.indices),
            as_memref(op.result.type),
        )
        place = self.memory.offset(whole, starts)
        bounds: tuple[Bound, ...] = ()
        if op.masked:
            dims = range(whole.type.rank - type.rank, whole.type.rank)
            bounds = bounds_of(op.indices, whole.type, dims, (1,) * type.rank, type.shape, self.facts)
        self.values[op.result] = Buffer(place, type, whole.steady, bounds, tuple(starts))

    def _loaded(self, op: tile.LoadOp, layout: Layout, registers: range | None = None) -> tuple[Value, ...]:
        """The elements that each thread holds of a tile, or those in some of its registers, loaded directly from
        memory."""
        buffer, indices = self.values.buffer(op.operands[0]), self.values.scalars(op.operands[1:])
        return self.memory.load(self.layouts.windows[op], buffer, indices, layout, _pad_of(op), registers)

    def _load(self, op: tile.LoadOp) -> None:
        buffer, indices = self.values.buffer(op.operands[0]), self.values.scalars(op.operands[1:])
        element = element_type(op.result.type)
        layout = self.layouts.accesses.get(op) or self.values.layout(op.result)
        access = self.layouts.windows[op]
        place = stored_at(access, buffer.type) if op in self.layouts.straight else None
        if place is not None and (pointed := matrix_rows(layout, place)) is not None:
            stored = Stored(place, self.memory.offset(buffer, indices))
            values = words_apart(self.block, read_words(self.block, stored, pointed, element), element)
        elif (lines := self.layouts.lines.get(op)) is not None and lines.pays(layout):
            values = LineMemory(self.memory).load(lines, buffer, indices, layout, _pad_of(op))
        else:
            values = self._loaded(op, layout)
        self.values.enter(op.result, Tile(layout, shape_of(op.result.type), element, values))

    def _store(self, op: tile.StoreOp) -> None:
        value, buffer, *indices = op.operands
        access = self.layouts.windows[op]
        layout = self.layouts.accesses.get(op)
        if layout is None and is_tile(value):
            layout = self.layouts.of.get(value) or access.layout(self.threads)
        stored, place = self.values.tile(value, layout), self.values.scalars(indices)
        if (lines := self.layouts.lines.get(op)) is not None and lines.pays(stored.layout):
            LineMemory(self.memory).store(lines, self.values.buffer(buffer), place, stored)
        else:
            self.memory.store(access, self.values.buffer(buffer), place, stored)

    def _gather(self, op: tile.GatherOp) -> None:
        buffer, *indices = op.operands
        layout, shape = self.values.layout(op.result), shape_of(op.result.type)
        values = gather(
            self.memory, self.values.buffer(buffer), self._indices(indices, layout), layout, shape
        )
        self.values.enter(op.result, Tile(layout, shape, element_type(op.result.type), values))

    def _scatter(self, op: tile.ScatterOp) -> None:
        value, mask, buffer, *indices = op.operands
        layouts = [self.layouts.of[v] for v in (value, mask, *indices) if v in self.layouts.of]
        layout = layouts[0] if layouts else None
        if layout is None and is_tile(value):
            layout = blocked(shape_of(value.type), self.threads)
        stored = self.values.tile(value, layout)
        where = self._indices(indices, stored.layout)
        scatter(
            self.memory, op, self.values.buffer(buffer), stored, self.values.tile(mask, stored.layout), where
        )

    def _indices(self, indices: Sequence[IrValue], layout: Layout) -> list[Index]:
        return [
            (self.values.tile(v, layout) if is_tile(v) else self.values.scalar(v), element_type(v.type))
            for v in indices
        ]

    def _copy(self, op: Op) -> None:
        source, target = op.operands
        piece = self._piece(op)
        background = isinstance(op, tile.CopyAsyncOp) and self._in_background(op)
        self.memory.copy(self.values.buffer(source), self.values.buffer(target), piece, background=background)

    def _piece(self, op: Op) -> int:
        """How many elements a thread copies with one instruction."""
        source, target = (as_memref(value.type) for value in op.operands)
        aligned = gcd(*(alignment(value, self.facts) for value in op.operands))
        if leaves_its_buffer(op.operands[0]):
            window = op.operands[0].owner
            assert isinstance(window, tile.SubviewOp)
            # A vector access is completely inside, or completely outside.
            aligned = gcd(aligned, *as_memref(window.buffer.type).shape[-1:])
        return common_piece(source, target, aligned)

    def _in_background(self, op: tile.CopyAsyncOp) -> bool:
        """Whether the copy is a hardware asynchronous copy: from global to shared memory, in a size that cp.async
        supports."""
        source, target = map(is_shared, op.operands)
        type = as_memref(op.operands[0].type)
        known = self._piece(op) * item_bytes(type.element) in self.target.gpu.copied
        return known and bool(type.size) and target and not source

    def _dot(self, op: tile.DotOp) -> None:
        lhs, rhs = (self.values.tile(value) for value in op.operands[:2])
        accumulator = self.values.tile(op.operands[2], self.values.layout(op.result))
        self.values.enter(op.result, dot(self.block, op, lhs, rhs, accumulator, self.target.gpu))

    # Control flow: all threads of a block take the same path, as scalars are the same in all of them

    def _for(self, op: tile.ForOp) -> None:
        distance = self.facts.of(op.step)
        if not distance.constant or distance.low < 1:
            raise Limit("the step of a loop must be a positive constant", op.location)
        body = op.regions[0].block
        carried = self.values.registers(op.inits, op.results)
        start, stop = self._bound(op.lower), self._bound(op.upper)
        rounds = self.b.loop(start, stop, distance.low, carried, name=index_name(op))
        once = isinstance(start, int) and isinstance(stop, int) and stop - start <= distance.low
        with rounds as loop, self.block.region(repeats=not once):
            self.values[body.args[0]] = loop.index
            self.values.enter_registers(body.args[1:], loop.carried)
            self._run(body)
            if carried:
                loop.next(*self.values.registers(body.ops[-1].operands, op.results))
        self.values.enter_registers(op.results, loop.results)

    def _bound(self, value: int | IrValue) -> int | Value:
        known = self.facts.of(value)
        if known.constant:
            return known.low
        assert isinstance(value, IrValue)
        return self.values.scalar(value)

    def _if(self, op: ng.IfOp) -> None:
        def values(region: Region) -> list[Value]:
            with self.block.region():
                self._run(region.block)
                return self.values.registers(region.block.ops[-1].operands, op.results)

        then, otherwise = (partial(values, region) for region in op.regions)
        chosen = self.b.choose(self.values.scalar(op.operands[0]), then, otherwise)
        self.values.enter_registers(op.results, chosen)


def _pad_of(op: tile.LoadOp) -> Value:
    """The value loaded for elements outside the buffer."""
    kind, given = elementwise.llvm_element(element_type(op.result.type)), op.attributes.get("pad")
    return constant(kind, 0) if given is None else number(kind, given)


def _reserve(kernel: tile.KernelOp) -> tuple[dict[Op, int], int]:
    """The offsets of the kernel's own buffers in shared memory, and their total size."""
    places: dict[Op, int] = {}
    size = 0
    for op in kernel.walk():
        if isinstance(op, tile.AllocOp):
            type = as_memref(op.result.type)
            places[op] = size
            size += -(-type.extent * item_bytes(type.element) // 16) * 16
    return places, size
