# SPDX-License-Identifier: Apache-2.0
"""A whole module: one internal function per kernel, and the entries that launch them.

define void @main.entry(ptr buffers, ptr arena, ptr constants)      see support/artifact.py
define internal void @k.program(ptr ... buffers, i64 ... program indices)
define internal void @k.run(ptr data, i64 number)             what the threads call; data: one ptr per buffer

A kernel whose own buffers are too many for the stack of a thread gets memory for them behind the planned arena, as
one more buffer: as often as programs may run at once, which is on each core that the target has. Then the
threads call @k.run with the number of such a part, and take programs until none is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from ...ir.core import Module as IRModule
from ...ir.core import Op, callee
from ...ir.core import Value as IRValue
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, Type, VectorType, i1
from ...llvm.text import Argument, Function, Module
from ...llvm.types import Value, constant, global_name, i8, i64, ptr
from ...ops import tile
from ...support.artifact import Entry, Place
from ...support.signature import Signature
from ...support.target import Target
from ..ranges import Range, exactly
from ..unit import Interface, Unit, checks, interfaces
from .emitter import STACK_BUFFERS, Buffer, Emitter, scratch_bytes
from .formats import computing
from .fused import fma
from .places import Extent, attributes, extents
from .table import TABLE

#: Sizes of the near cache from which an output is written past the caches.
STREAM_FROM = 8


def emit(module: IRModule, target: Target) -> Unit:
    """LLVM IR of a planned module."""
    return _Program(module, target).emit()


class _Program:
    def __init__(self, module: IRModule, target: Target):
        self.module = module
        self.interfaces, self.constants = interfaces(module)
        self.target = target
        self.text = Module(None if target.can("fma") else fma)
        self.kernels = {op.symbol: op for op in module.ops if isinstance(op, tile.KernelOp)}
        self.extents: dict[IRValue, Extent] = {}
        self.launches: dict[str, list[Op]] = {}
        self.scratch: dict[str, int] = {}  # bytes of one program, where they are not on the stack
        for outside in self.interfaces:
            self.extents |= extents(outside)
            for op in outside.function.walk():
                if isinstance(op, tile.LaunchOp):
                    self.launches.setdefault(callee(op), []).append(op)

    def emit(self) -> Unit:
        for name in self.launches:
            kernel = self.kernels[name]
            if (size := _scratch(kernel)) > STACK_BUFFERS:
                self.scratch[name] = size
            if prod(kernel.grid):
                self._kernel(kernel)
                if prod(kernel.grid) > 1:
                    self._thunk(kernel)
        entries = [self._entry(outside) for outside in self.interfaces]
        return Unit(self.text.text(), tuple(entries), self.constants.table(), checks(self.module))

    # The entry points

    def _entry(self, outside: Interface) -> Entry:
        signature, function = outside.signature, outside.function
        behind = scratch_bytes(signature.arena_bytes)
        names = {callee(op) for op in function.walk() if isinstance(op, tile.LaunchOp)}
        parts = [self.scratch[name] * self._parts(self.kernels[name]) for name in names & self.scratch.keys()]
        if parts:
            signature = replace(signature, arena_bytes=behind + max(parts))
        entry = Entry(signature)

        def launch(e: Emitter, op: Op) -> None:
            self._launch(e, op, behind)

        arguments = [Argument(ptr, name, "noalias") for name in ("buffers", "arena", "constants")]
        b = self.text.function(entry.symbol, "void", arguments)
        e = Emitter(b, self.target, _lanes(function, self.target), {**TABLE, "tile.launch": launch})
        for value in function.block.args:
            assert isinstance(value.type, MemRefType)
            e.bind(value, Buffer(self._address(b, outside.places[value], outside.signature), value.type))
        e.run(function.block)
        e.finish()
        return entry

    def _address(self, b: Function, place: Place, signature: Signature) -> Value:
        """Where a buffer of an entry begins."""
        buffers, arena, constants = b.arguments
        match place.space:
            case "arena":
                return arena
            case "constant":
                table, slot = constants, place.index
            case "checks":
                table, slot = constants, len(self.constants.numbers)
            case "argument":
                table, slot = buffers, place.index
            case "result":
                table, slot = buffers, place.index + len(signature.arguments)
        return b.load(ptr, b.getelementptr(ptr, table, slot), align=8)

    def _parts(self, kernel: tile.KernelOp) -> int:
        """How many programs run at once, where each needs memory of its own."""
        return min(prod(kernel.grid), self.target.cores)

    def _launch(self, e: Emitter, op: Op, behind: int) -> None:
        """tile.launch: a call, or one chunk of the pool's work per program; `behind` the arena is more memory."""
        kernel, b = self.kernels[callee(op)], e.b
        programs = prod(kernel.grid)
        buffers = [e.buffer(value).pointer for value in op.operands]
        if kernel.symbol in self.scratch:
            buffers.append(b.getelementptr(i8, b.arguments[1], behind))
        if programs == 1:
            b.call("void", _program(kernel), *buffers, *[Value(i64, "0")] * len(kernel.grid))
        elif programs > 1:
            data = e.passing(8 * (len(buffers) + 1), op.location)
            for i, pointer in enumerate(buffers):
                b.store(pointer, b.getelementptr(ptr, data, i), align=8)
            chunks = programs
            if kernel.symbol in self.scratch:
                chunks = self._parts(kernel)
                b.store(constant(i64, 0), b.getelementptr(ptr, data, len(buffers)), align=8)
            thunk = Value(ptr, global_name(f"{kernel.symbol}.run"))
            b.call("void", "ngmlir_parallel", thunk, data, Value(i64, str(chunks)))

    # Kernels

    def _thunk(self, kernel: tile.KernelOp) -> None:
        b = self.text.function(
            f"{kernel.symbol}.run",
            "void",
            [Argument(ptr, "data"), Argument(i64, "number")],
            linkage="internal",
        )
        data, number = b.arguments
        count = len(kernel.regions[0].block.args) - len(kernel.grid)
        if kernel.symbol in self.scratch:
            count += 1
        buffers = [b.load(ptr, b.getelementptr(ptr, data, i), align=8) for i in range(count)]
        if kernel.symbol not in self.scratch:
            self._run(b, kernel, buffers, number)
            b.ret()
            return
        buffers[-1] = b.getelementptr(i8, buffers[-1], b.mul(number, self.scratch[kernel.symbol]))
        following = b.getelementptr(ptr, data, count)
        look, run, done = b.label("look"), b.label("run"), b.label("done")
        b.branch(look)
        b.place(look)
        mine = b.atomic("add", following, constant(i64, 1))
        b.branch_if(b.icmp("ult", mine, prod(kernel.grid)), run, done)
        b.place(run)
        self._run(b, kernel, buffers, mine)
        b.branch(look)
        b.place(done)
        b.ret()

    def _run(self, b: Function, kernel: tile.KernelOp, buffers: Sequence[Value], number: Value) -> None:
        """Calls the program with a number."""
        indices: list[Value] = []
        for size in reversed(kernel.grid[1:]):
            indices.insert(0, b.urem(number, size))
            number = b.udiv(number, size)
        b.call("void", _program(kernel), *buffers, number, *indices)

    def _kernel(self, kernel: tile.KernelOp) -> None:
        """One function; or one without masks for most programs, and one for those at the end of a dimension."""
        name, ends = _program(kernel), [size - 1 for size in kernel.grid]
        masks = self._function(kernel, name, [Range(0, end) for end in ends])
        if not masks and (streams := self._streams(kernel)):
            self._streaming(kernel, name, [Range(0, end) for end in ends], streams)
        if not masks or not any(ends):
            return
        inner, edge = f"{kernel.symbol}.inner", f"{kernel.symbol}.edge"
        if self._function(kernel, inner, [Range(0, max(end - 1, 0)) for end in ends]) >= masks:
            del self.text.functions[inner]
            return
        del self.text.functions[name]
        only = len([end for end in ends if end]) == 1
        self._function(kernel, edge, [exactly(end) if only else Range(0, end) for end in ends])
        self._choice(kernel, name, inner, edge, ends)

    def _choice(self, kernel: tile.KernelOp, name: str, inner: str, edge: str, ends: Sequence[int]) -> None:
        b = self.text.function(name, "void", self._arguments(kernel), linkage="internal")
        before = [
            b.icmp("ult", index, end)
            for index, end in zip(b.arguments[-len(ends) :], ends, strict=True)
            if end
        ]
        _either(b, reduce(b.and_, before), inner, edge)

    def _streams(self, kernel: tile.KernelOp) -> list[IRValue]:
        """Outputs that no cache would hold until they are read, and that the kernel only stores to."""
        block = kernel.regions[0].block
        stored = [op.operands[1] for op in kernel.walk() if op.name == "tile.store"]
        used = [v for op in kernel.walk() for v in op.operands]
        found: list[IRValue] = []
        for i, value in enumerate(block.args[: len(block.args) - len(kernel.grid)]):
            assert isinstance(value.type, MemRefType)
            far = _bytes(value.type) >= STREAM_FROM * self.target.l2_bytes
            alone = all(
                launch.operands.count(launch.operands[i]) == 1 for launch in self.launches[kernel.symbol]
            )
            if far and alone and value in stored and used.count(value) == stored.count(value):
                found.append(value)
        return found

    def _streaming(
        self, kernel: tile.KernelOp, name: str, known: Sequence[Range], streams: Sequence[IRValue]
    ) -> None:
        """Two functions, since only aligned memory can be written past the caches, and callers bring their own."""
        plain, stream = f"{kernel.symbol}.plain", f"{kernel.symbol}.stream"
        del self.text.functions[name]
        self._function(kernel, plain, known)
        self._function(kernel, stream, known, frozenset(streams))
        b = self.text.function(name, "void", self._arguments(kernel), linkage="internal")
        places = [kernel.regions[0].block.args.index(value) for value in streams]
        low = reduce(b.or_, [b.cast("ptrtoint", b.arguments[i], i64) for i in places])
        _either(b, b.icmp("eq", b.and_(low, 63), 0), stream, plain)

    def _function(
        self,
        kernel: tile.KernelOp,
        name: str,
        known: Sequence[Range],
        streams: frozenset[IRValue] = frozenset(),
    ) -> int:
        """A kernel's body for program indices in known ranges; gives how many masks it computes."""
        block = kernel.regions[0].block
        b = self.text.function(name, "void", self._arguments(kernel), linkage="internal")
        count = len(block.args) - len(known)
        beside = kernel.symbol in self.scratch
        scratch = b.arguments[count] if beside else None
        e = Emitter(b, self.target, _lanes(kernel, self.target), TABLE, scratch)
        for value, pointer in zip(block.args[:count], b.arguments, strict=False):
            assert isinstance(value.type, MemRefType)
            e.bind(value, Buffer(pointer, value.type))
        for value, number, where in zip(
            block.args[count:], b.arguments[count + beside :], known, strict=True
        ):
            e.define_index(value, number, where)
        e.streams = streams
        e.run(block)
        if streams:
            b.effect("fence seq_cst")  # such stores are ordered by nothing less
        e.finish()
        return e.boundaries

    def _arguments(self, kernel: tile.KernelOp) -> list[Argument]:
        launches = [[self.extents.get(v) for v in op.operands] for op in self.launches[kernel.symbol]]
        buffers = [Argument(ptr, f"b{i}", words) for i, words in enumerate(attributes(launches))]
        if kernel.symbol in self.scratch:
            buffers.append(Argument(ptr, "scratch", "noalias align 64"))
        return [*buffers, *(Argument(i64, f"p{i}") for i in range(len(kernel.grid)))]


def _either(b: Function, condition: Value, yes: str, no: str) -> None:
    """A body that calls one of two functions with its own arguments."""
    then, otherwise = b.label("then"), b.label("otherwise")
    b.branch_if(condition, then, otherwise)
    for label, callee_name in ((then, yes), (otherwise, no)):
        b.place(label)
        b.call("void", callee_name, *b.arguments)
        b.ret()


def _bytes(type: MemRefType) -> int:
    return type.size * item_bytes(type.element)


def _scratch(kernel: tile.KernelOp) -> int:
    """Bytes of all buffers that a kernel asks for."""
    types = [op.result.type for op in kernel.walk() if isinstance(op, tile.AllocOp)]
    return sum(scratch_bytes(_bytes(type)) for type in types if isinstance(type, MemRefType) and type.static)


def _program(kernel: tile.KernelOp) -> str:
    return f"{kernel.symbol}.program"


def _lanes(function: Op, target: Target) -> int:
    """Lanes of a register: of 4 byte elements if the function has such, else of its widest (i1: of bytes).

    Narrower elements then fill part of a machine register and wider ones two, which costs less than cutting
    and joining registers at each cast.
    """
    sizes = {
        _computing_bytes(value.type.element)
        for op in function.walk()
        for value in (*op.results, *op.operands)
        if isinstance(value.type, VectorType)
    } - {0}
    return target.lanes(4 if 4 in sizes else max(sizes, default=1))


def _computing_bytes(element: Type) -> int:
    return 0 if element is i1 else item_bytes(computing(element))
