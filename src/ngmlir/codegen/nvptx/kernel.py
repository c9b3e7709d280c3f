# SPDX-License-Identifier: Apache-2.0
"""One kernel: each op in the instructions of one thread.

A scalar is one value, the same in all threads; a tile is spread over them as `assign` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr
from ...ir.core import Block as IrBlock
from ...ir.core import Op
from ...ir.core import Value as IrValue
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, element_type, shape_of, token
from ...ir.types import i32 as i32_type
from ...llvm.text import Argument, Module
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, constant, from_bits, i32, i64
from ...ops import ng, tile
from ...rewrite.advice import pass_for
from ...support.diagnostics import Limit
from ...support.target import PARAMETER_BYTES, POINTER_BYTES, Target
from .. import elementwise
from ..layouts import Layout, blocked, everywhere, padded
from ..names import index_name, loop_name, stem_of
from ..ranges import Range
from .access import WIDEST, alignment, is_shared, is_tile, rows
from .assign import assign
from .block import GLOBAL, Block, Tile
from .convert import convert
from .facts import Facts
from .grid import positions
from .indexed import Index, gather, scatter
from .memory import Buffer, Memory, common_piece
from .pending import unfinished
from .products import dot
from .reductions import cumulate, reduce
from .shared import Stored, matrix_rows, read_words, stored_at, words_apart

#: Bytes of shared memory that a kernel may declare; more is asked for at the launch.
STATIC_BYTES = 48 * 1024


@dataclass(frozen=True)
class Parameters:
    """What all launches of a kernel agree on, by the number of the buffer."""

    written: frozenset[int]
    overlapping: frozenset[int]  # share bytes with a written one, or are written and share bytes
    alignments: tuple[int, ...]  # in bytes

    def steady(self, number: int) -> bool:
        """Whether nobody writes a buffer while the kernel runs."""
        return number not in self.written and number not in self.overlapping

    def argument(self, number: int) -> Argument:
        words = [] if number in self.overlapping else ["noalias"]
        words += [] if number in self.written else ["readonly"]
        return Argument(GLOBAL, f"p{number}", " ".join([*words, f"align {self.alignments[number]}"]))


def emit_kernel(
    module: Module, kernel: tile.KernelOp, name: str, target: Target, threads: int, parameters: Parameters
) -> int:
    """Adds the kernel to `module` as entry `name`; how many bytes of dynamic shared memory a launch asks for.

    Limit where it needs more shared memory than a block of the target has, or more bytes of parameters than a launch."""
    count = len(parameters.alignments)
    if count * POINTER_BYTES > PARAMETER_BYTES:
        raise Limit(
            f"kernel @{kernel.symbol} takes {count} buffers, {count * POINTER_BYTES} bytes of parameters",
            kernel.location,
            hint=f"a launch has {PARAMETER_BYTES} at most",
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
        self.layouts = assign(self.body, self.facts, threads, target.gpu)
        self.allocated, reserved = _reserve(kernel)
        self.b = module.function(
            name,
            "void",
            [parameters.argument(i) for i in range(len(buffers))],
            linkage="ptx_kernel",
            # Without a least number of blocks, ptxas spills to reach the next step of occupancy.
            attributes=f'nounwind "nvvm.reqntid"="{threads}" "nvvm.minctasm"="1"',
        )
        self.b.trace_as(name, kernel.location)
        self.block = Block(self.b, threads, reserved)
        self.memory = Memory(self.block)
        self.unfinished = unfinished(self.body, self._in_background)
        self.values: dict[IrValue, Value | Tile | Buffer] = {}
        for i, (value, pointer) in enumerate(zip(buffers, self.b.arguments, strict=True)):
            assert isinstance(value.type, MemRefType)
            self.values[value] = Buffer(pointer, value.type, parameters.steady(i))
        self.values.update(zip(places, positions(self.b, grid), strict=True))

    def emit(self) -> int:
        """Bytes of dynamic shared memory that each launch asks for."""
        self._prepare_coordinates()
        self._run(self.body)
        self.b.ret()
        size = self.block.shared_bytes
        if size > self.target.shared_bytes:
            raise Limit(
                f"kernel @{self.kernel.symbol} needs {size} bytes of shared memory per block, "
                f"{self.target.name} has {self.target.shared_bytes}",
                self.kernel.location,
                hint="make its tiles smaller",
            )
        name = self.block.shared_name.removeprefix("@")
        if size > STATIC_BYTES:
            self.module.variable(name, "[0 x i8]", "", align=16, linkage="external", space=3)
            return size
        if size:
            self.module.variable(name, f"[{size} x i8]", "undef", align=16, space=3)
        return 0

    def _prepare_coordinates(self) -> None:
        # Here they are valid everywhere; inside a loop they would be computed in each round.
        for layout in dict.fromkeys([*self.layouts.of.values(), *self.layouts.accesses.values()]):
            self.block.coordinates(layout, 0)

    # Operands

    def _scalar(self, value: IrValue) -> Value:
        found = self.values[value]
        assert isinstance(found, Value)
        return found

    def _buffer(self, value: IrValue) -> Buffer:
        found = self.values[value]
        assert isinstance(found, Buffer)
        return found

    def _tile(self, value: IrValue, layout: Layout | None = None) -> Tile:
        """A tile in its own layout or the one asked for; scalars and constants fit any."""
        found = self.values[value]
        if isinstance(found, Tile):
            return convert(self.block, found, layout) if layout is not None else found
        assert isinstance(found, Value)
        shape = shape_of(value.type)
        if layout is None:
            layout = self.layouts.of.get(value) or (
                blocked(shape, self.threads) if shape else everywhere(self.threads)
            )
        return Tile(layout, shape, element_type(value.type), (found,) * layout.registers)

    def _layout(self, value: IrValue) -> Layout:
        return self.layouts.of[value] if is_tile(value) else everywhere(self.threads)

    def _set(self, value: IrValue, made: Tile) -> None:
        """Enters a result; where the layout of its class is another, converts it."""
        self.values[value] = (
            convert(self.block, made, self._layout(value)) if is_tile(value) else made.values[0]
        )

    # Ops

    def _run(self, block: IrBlock) -> None:
        for op in block.ops:
            self.b.stem = stem_of(op)
            if (trace := self.b.trace) is None:
                self._lower(op)
            else:
                with trace.at(op.location, loop_name(op)):
                    self._lower(op)
        self.b.stem = "v"

    def _lower(self, op: Op) -> None:
        match op:
            case tile.ReturnOp() | ng.YieldOp():
                pass
            case ng.ConstantOp():
                self._constant(op)
            case ng.IotaOp():
                self._iota(op)
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
                self._broadcast(op)
            case ng.TransposeOp():
                self._transpose(op)
            case ng.ReshapeOp() | ng.SliceOp():
                self._rearrange(op)
            case tile.AllocOp():
                assert isinstance(op.result.type, MemRefType)
                self.values[op.result] = Buffer(self.block.shared(self.allocated[op]), op.result.type, False)
            case tile.SubviewOp():
                whole = self._buffer(op.operands[0])
                place = self.memory.offset(whole, [self._scalar(v) for v in op.operands[1:]])
                assert isinstance(op.result.type, MemRefType)
                self.values[op.result] = Buffer(place, op.result.type, whole.steady)
            case tile.PrefetchOp():
                pass  # threads in turn hide what memory takes
            case tile.CopyOp() | tile.CopyAsyncOp():
                self._copy(op)
            case tile.WaitOp():
                self.memory.wait(self.unfinished[op])
            case tile.BarrierOp():
                self.block.barrier()
            case _ if "reduction" in op.traits:
                self._set(op.result, reduce(self.block, op, self._tile(op.operands[0])))
            case _ if "cumulative" in op.traits:
                layout = self._layout(op.result)
                self._set(op.result, cumulate(self.block, op, self._tile(op.operands[0], layout)))
            case _ if "elementwise" in op.traits:
                self._elementwise(op)
            case _:
                message = f"{op.name} inside a kernel has no code for the GPU yet"
                raise Limit(message, op.location, hint=pass_for(op))

    def _constant(self, op: ng.ConstantOp) -> None:
        literal, kind = op.attributes["value"], elementwise.llvm_element(element_type(op.result.type))
        if not isinstance(literal, ElementsAttr):
            self.values[op.result] = _number(kind, literal)
        elif literal.splat:
            self.values[op.result] = from_bits(kind, literal.bits)
        else:
            self._table(op, literal)

    def _table(self, op: ng.ConstantOp, literal: ElementsAttr) -> None:
        """A constant whose elements differ: read from memory like any tile."""
        name = f"{self.name}.constant{len(self.values)}"
        data = "".join(f"\\{byte:02X}" for byte in literal.data)
        kind = f"[{len(literal.data)} x i8]"
        place = self.module.variable(name, kind, f'c"{data}"', align=16, constant=True, space=1)
        element = literal.type.element
        type = MemRefType(literal.type.shape, element)
        access = rows(type.shape, element)
        layout, pad = self._layout(op.result), constant(elementwise.llvm_element(element), 0)
        origin = [constant(i64, 0)] * type.rank
        values = self.memory.load(access, Buffer(place, type, True), origin, layout, pad)
        self.values[op.result] = Tile(layout, type.shape, element, values)

    def _iota(self, op: ng.IotaOp) -> None:
        element, layout = element_type(op.result.type), self._layout(op.result)
        kind = elementwise.llvm_element(element)
        shape = shape_of(op.result.type)
        if not shape:
            self.values[op.result] = constant(kind, 0)
            return
        values: list[Value] = []
        for register in range(layout.registers):
            at = self.block.coordinates(layout, register)[op.dimension]
            position = constant(i32, at.constant)
            if at.thread is not None:
                position = self.b.add(at.thread, at.constant) if at.constant else at.thread
            values.append(elementwise.cast(self.b, position, i32_type, element))
        self.values[op.result] = Tile(layout, shape, element, tuple(values))

    def _elementwise(self, op: Op) -> None:
        if not is_tile(op.result):
            self.values[op.result] = elementwise.lower(self.b, op, [self._scalar(v) for v in op.operands])
            return
        layout = self._layout(op.result)
        operands = [self._tile(value, layout).values for value in op.operands]
        # Registers with equal operands (after a broadcast) are computed once.
        known: dict[tuple[Value, ...], Value] = {}
        for row in zip(*operands, strict=True):
            if row not in known:
                known[row] = elementwise.lower(self.b, op, row)
        values = tuple(known[row] for row in zip(*operands, strict=True))
        self.values[op.result] = Tile(layout, shape_of(op.result.type), element_type(op.result.type), values)

    def _broadcast(self, op: ng.BroadcastOp) -> None:
        found = self.values[op.operands[0]]
        if isinstance(found, Value):
            self.values[op.result] = found
            return
        layout, shape = self._layout(op.result), shape_of(op.result.type)
        kept = op.dimensions
        narrow = layout.drop(d for d in range(len(shape)) if d not in kept)
        source = self._tile(op.operands[0], narrow)
        where = {at: value for at, value in zip(narrow.held, source.values, strict=True)}
        values = tuple(where[tuple(at[d] for d in kept)] for at in layout.held)
        self.values[op.result] = Tile(layout, shape, source.element, values)

    def _transpose(self, op: ng.TransposeOp) -> None:
        found = self.values[op.operands[0]]
        if isinstance(found, Tile):
            moved = found.layout.transpose(op.permutation)
            self._set(op.result, Tile(moved, shape_of(op.result.type), found.element, found.values))
        else:
            self.values[op.result] = found

    def _rearrange(self, op: ng.ReshapeOp | ng.SliceOp) -> None:
        """Reshapes and slices: within threads where the sizes are powers of two, else through shared memory."""
        found = self.values[op.operands[0]]
        if not isinstance(found, Tile) or not is_tile(op.result):
            found = self._tile(op.operands[0])
            self.values[op.result] = found.values[0]
            return
        shape = shape_of(op.result.type)
        if isinstance(op, ng.ReshapeOp) and padded(found.shape) == found.shape and padded(shape) == shape:
            self._set(op.result, Tile(found.layout.reshape(shape), shape, found.element, found.values))
            return
        source, start = rows(found.shape, found.element), 0
        result = rows(shape, found.element)
        if isinstance(op, ng.SliceOp):
            start = sum(s * at for s, at in zip(source.strides, op.starts, strict=True))
            result = result.with_strides(s * step for s, step in zip(source.strides, op.steps, strict=True))
        flat = MemRefType((prod(found.shape),), found.element, None, 0, 3)
        scratch = Buffer(self.block.scratch(flat.size * item_bytes(flat.element)), flat, False)
        self.memory.store(source, scratch, [constant(i64, 0)], found)
        self.block.barrier()
        layout, pad = self._layout(op.result), constant(elementwise.llvm_element(flat.element), 0)
        values = self.memory.load(result, scratch, [constant(i64, start)], layout, pad)
        self.block.scratch_done()
        self.values[op.result] = Tile(layout, shape, found.element, values)

    # Memory

    def _load(self, op: tile.LoadOp) -> None:
        buffer, indices = self._buffer(op.operands[0]), [self._scalar(v) for v in op.operands[1:]]
        element = element_type(op.result.type)
        kind = elementwise.llvm_element(element)
        given = op.attributes.get("pad")
        pad = constant(kind, 0) if given is None else _number(kind, given)
        layout = self.layouts.accesses.get(op) or self._layout(op.result)
        access = self.layouts.windows[op]
        place = stored_at(access, buffer.type) if op in self.layouts.straight else None
        if place is not None and (pointed := matrix_rows(layout, place)) is not None:
            stored = Stored(place, self.memory.offset(buffer, indices))
            values = words_apart(self.block, read_words(self.block, stored, pointed, element), element)
        else:
            values = self.memory.load(access, buffer, indices, layout, pad)
        self._set(op.result, Tile(layout, shape_of(op.result.type), element, values))

    def _store(self, op: tile.StoreOp) -> None:
        value, buffer, *indices = op.operands
        access = self.layouts.windows[op]
        layout = self.layouts.accesses.get(op)
        if layout is None and is_tile(value):
            layout = self.layouts.of.get(value) or access.layout(self.threads)
        stored = self._tile(value, layout)
        self.memory.store(access, self._buffer(buffer), [self._scalar(v) for v in indices], stored)

    def _gather(self, op: tile.GatherOp) -> None:
        buffer, *indices = op.operands
        layout, shape = self._layout(op.result), shape_of(op.result.type)
        values = gather(self.memory, self._buffer(buffer), self._indices(indices, layout), layout, shape)
        self._set(op.result, Tile(layout, shape, element_type(op.result.type), values))

    def _scatter(self, op: tile.ScatterOp) -> None:
        value, mask, buffer, *indices = op.operands
        layouts = [self.layouts.of[v] for v in (value, mask, *indices) if v in self.layouts.of]
        layout = layouts[0] if layouts else None
        if layout is None and is_tile(value):
            layout = blocked(shape_of(value.type), self.threads)
        stored = self._tile(value, layout)
        where = self._indices(indices, stored.layout)
        scatter(self.memory, op, self._buffer(buffer), stored, self._tile(mask, stored.layout), where)

    def _indices(self, indices: Sequence[IrValue], layout: Layout) -> list[Index]:
        return [
            (self._tile(v, layout) if is_tile(v) else self._scalar(v), element_type(v.type)) for v in indices
        ]

    def _copy(self, op: Op) -> None:
        source, target = op.operands
        piece = self._piece(op)
        background = isinstance(op, tile.CopyAsyncOp) and self._in_background(op)
        self.memory.copy(self._buffer(source), self._buffer(target), piece, background=background)

    def _piece(self, op: Op) -> int:
        """How many elements a thread copies at once."""
        source, target = (_memref(value) for value in op.operands)
        aligned = gcd(*(alignment(value, self.facts) for value in op.operands))
        return common_piece(source, target, aligned)

    def _in_background(self, op: tile.CopyAsyncOp) -> bool:
        """Whether the hardware copies by itself: 16 bytes at a time, from global to shared memory."""
        source, target = map(is_shared, op.operands)
        type = _memref(op.operands[0])
        whole = self._piece(op) * item_bytes(type.element) == WIDEST
        return whole and bool(type.size) and target and not source

    def _dot(self, op: tile.DotOp) -> None:
        lhs, rhs = (self._tile(value) for value in op.operands[:2])
        accumulator = self._tile(op.operands[2], self._layout(op.result))
        self._set(op.result, dot(self.block, op, lhs, rhs, accumulator, self.target.gpu))

    # Control flow: the same way for all threads of a block, as scalars are the same in all of them

    def _flat(self, values: Sequence[IrValue], like: Sequence[IrValue]) -> list[Value]:
        """The registers of `values`, in the layouts of `like`."""
        out: list[Value] = []
        for value, model in zip(values, like, strict=True):
            if value.type is token:
                continue
            out += self._tile(value, self._layout(model)).values
        return out

    def _enter(self, values: Sequence[IrValue], registers: Sequence[Value]) -> None:
        """The reverse: gives `values` their registers."""
        rest = iter(registers)
        for value in values:
            if value.type is token:
                continue
            layout = self._layout(value)
            held = tuple(next(rest) for _ in range(layout.registers))
            whole = Tile(layout, shape_of(value.type), element_type(value.type), held)
            self.values[value] = whole if is_tile(value) else held[0]

    def _for(self, op: tile.ForOp) -> None:
        distance = self.facts.of(op.step)
        if not distance.constant or distance.low < 1:
            raise Limit("the step of a loop must be a positive constant", op.location)
        body = op.regions[0].block
        carried = self._flat(op.inits, op.results)
        start, stop = self._bound(op.lower), self._bound(op.upper)
        rounds = self.b.loop(start, stop, distance.low, carried, name=index_name(op))
        with rounds as loop, self.block.region():
            self.values[body.args[0]] = loop.index
            self._enter(body.args[1:], loop.carried)
            self._run(body)
            if carried:
                loop.next(*self._flat(body.ops[-1].operands, op.results))
        self._enter(op.results, loop.results)

    def _bound(self, value: int | IrValue) -> int | Value:
        known = self.facts.of(value)
        if known.constant:
            return known.low
        assert isinstance(value, IrValue)
        return self._scalar(value)

    def _if(self, op: ng.IfOp) -> None:
        b = self.b
        labels = [b.label("then"), b.label("else")]
        after = b.label("endif")
        b.branch_if(self._scalar(op.operands[0]), *labels)
        ends: list[tuple[list[Value], str]] = []
        for label, region in zip(labels, op.regions, strict=True):
            b.place(label)
            with self.block.region():
                self._run(region.block)
                ends.append((self._flat(region.block.ops[-1].operands, op.results), b.block))
            b.branch(after)
        b.place(after)
        (first, one), (second, other) = ends
        merged = [b.phi(v.type, (v, one), (w, other)) for v, w in zip(first, second, strict=True)]
        self._enter(op.results, merged)


def _number(kind: LlvmType, literal: Attribute) -> Value:
    if isinstance(literal, FloatAttr):
        return from_bits(kind, literal.bits)
    assert isinstance(literal, IntegerAttr)
    return constant(kind, literal.value)


def _memref(value: IrValue) -> MemRefType:
    assert isinstance(value.type, MemRefType)
    return value.type


def _reserve(kernel: tile.KernelOp) -> tuple[dict[Op, int], int]:
    """Places of the kernel's own shared buffers, and their size in all."""
    places: dict[Op, int] = {}
    size = 0
    for op in kernel.walk():
        if isinstance(op, tile.AllocOp):
            type = op.result.type
            assert isinstance(type, MemRefType)
            places[op] = size
            size += -(-type.extent * item_bytes(type.element) // 16) * 16
    return places, size
