# SPDX-License-Identifier: Apache-2.0
"""One kernel as LLVM functions. They depend on the kernel, and on what holds for all its launches (`Promises`).

    define void @k.program(ptr ... buffers, i64 ... program indices)
    define void @k.run(ptr data, i64 number)             what the threads call; data: one ptr per buffer

Launches call @k.program if the grid has one program, else @k.run; all other functions are internal. If the scratch
buffers of a kernel do not fit on the stack of a thread, it takes one more buffer for them, with one part for each
program that may run at once. Then the threads call @k.run with the number of a part, and take programs from a shared
counter until none is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from math import prod

from ...ir.core import Op
from ...ir.lengths import lengths_of
from ...ir.literals import bytes_of, item_bytes
from ...ir.structure import fingerprint
from ...ir.types import MemRefType, Type, VectorType, as_memref, i1
from ...llvm.text import Argument, Function, Module
from ...llvm.types import Value, constant, i8, i64, ptr
from ...ops import tile
from ...support.lengths import is_open, is_same, usual
from ...support.target import Target
from ..names import argument_names
from ..ranges import Range, exactly
from .emitter import STACK_BUFFERS, Buffer, Emitter, scratch_bytes
from .formats import computing
from .places import Extent, attributes
from .table import TABLE

#: Outputs of at least this many times the size of the L2 cache are written with non-temporal stores.
STREAM_FROM = 8


@dataclass(frozen=True)
class Promises:
    """What holds in every launch of a kernel: LLVM attributes of each buffer, and which buffers may be written with
    non-temporal stores."""

    words: tuple[str, ...]
    streams: tuple[int, ...]


def promises(
    kernel: tile.KernelOp, launches: Sequence[Op], places: Sequence[Sequence[Extent | None]], target: Target
) -> Promises:
    """What holds for all launches of a kernel; `places` has the extents of the buffers of each launch."""
    return Promises(tuple(attributes(places)), tuple(_streams(kernel, launches, target)))


def key_of(kernel: tile.KernelOp, promised: Promises) -> str:
    """Everything that a kernel's code depends on besides the target; independent of its name and of the names of its
    values."""
    structure, constants = fingerprint(kernel)
    held = [sha256(each.data).hexdigest() for each in constants]
    return " | ".join([structure, *held, *promised.words, *map(str, promised.streams)])


class Kernel:
    """A kernel whose functions have names that begin with `name`; the function that launches call has `linkage`."""

    def __init__(
        self, kernel: tile.KernelOp, promised: Promises, target: Target, name: str, linkage: str = "internal"
    ):
        self.op = kernel
        self.promised = promised
        self.target = target
        self.name = name
        self.linkage = linkage
        self.programs = prod(kernel.grid)
        #: The named lengths that it takes after its buffers.
        self.lengths = lengths_of(kernel)
        #: Bytes of scratch memory for one program, if that does not fit on the stack; else 0.
        self.scratch = size if is_open((size := _scratch(kernel),)) or size > STACK_BUFFERS else 0

    @property
    def alone(self) -> bool:
        """Whether the grid has exactly one program, for all lengths."""
        return is_same(self.programs, 1)

    @property
    def symbol(self) -> str:
        """The function that launches call: the program if there is only one, else the function that threads run."""
        return f"{self.name}.program" if self.alone else f"{self.name}.run"

    @property
    def parts(self) -> int:
        """How many programs run at once, if each needs scratch memory; else 0."""
        most = self.target.cores
        return (most if is_open((self.programs,)) else min(self.programs, most)) if self.scratch else 0

    def write(self, text: Module) -> None:
        """Adds the functions to the module."""
        if not is_same(self.programs, 0):
            self._program(text)
            if not self.alone:
                self._thunk(text)

    def _thunk(self, text: Module) -> None:
        arguments = [Argument(ptr, "data"), Argument(i64, "number")]
        b = text.function(self.symbol, "void", arguments, linkage=self.linkage)
        data, number = b.arguments
        count = len(self.promised.words) + bool(self.scratch)
        buffers = [b.load(ptr, b.getelementptr(ptr, data, i), align=8) for i in range(count)]
        first = count + bool(self.scratch)  # after the counter of programs
        words = [
            b.load(i64, b.getelementptr(ptr, data, first + i), align=8) for i in range(len(self.lengths))
        ]
        b.has_lengths(dict(zip(self.lengths, words, strict=True)))
        if not self.scratch:
            self._run(b, buffers, number)
            b.ret()
            return
        buffers[-1] = b.getelementptr(i8, buffers[-1], b.mul(number, self.scratch))
        following = b.getelementptr(ptr, data, count)
        look, run, done = b.label("look"), b.label("run"), b.label("done")
        b.branch(look)
        b.place(look)
        mine = b.atomic("add", following, constant(i64, 1))
        b.branch_if(b.icmp("ult", mine, self.programs), run, done)
        b.place(run)
        self._run(b, buffers, mine)
        b.branch(look)
        b.place(done)
        b.ret()

    def _run(self, b: Function, buffers: Sequence[Value], number: Value) -> None:
        """Calls the program with this number."""
        indices: list[Value] = []
        for size in reversed(self.op.grid[1:]):
            indices.insert(0, b.urem(number, size))
            number = b.udiv(number, size)
        b.call("void", f"{self.name}.program", *buffers, *b.lengths.values(), number, *indices)

    def _program(self, text: Module) -> None:
        """Emits one function; or, if masks are needed only at the end of a dimension, one without masks for inner
        programs, and one for those at the edge."""
        name, ends = f"{self.name}.program", [size - 1 for size in self.op.grid]
        everywhere = [Range(0, end) for end in ends]
        streams = self.promised.streams if self._aligned else ()
        masks = self._function(text, name, everywhere, streams)
        if masks and streams:
            del text.functions[name]
            masks = self._function(text, name, everywhere)
        if not masks and self.promised.streams and not streams:
            self._streaming(text, name, everywhere)
        moving = [not is_same(end, 0) for end in ends]
        if not masks or not any(moving):
            return
        inner, edge = f"{self.name}.inner", f"{self.name}.edge"
        if (
            self._function(
                text,
                inner,
                [Range(0, end - 1 if moves else 0) for end, moves in zip(ends, moving, strict=True)],
            )
            >= masks
        ):
            del text.functions[inner]
            return
        del text.functions[name]
        only = sum(moving) == 1
        self._function(text, edge, [exactly(end) if only else Range(0, end) for end in ends])
        b = self._begin(text, name)
        before = [
            b.icmp("ult", index, end)
            for index, end, moves in zip(b.arguments[-len(ends) :], ends, moving, strict=True)
            if moves
        ]
        _either(b, reduce(b.and_, before), inner, edge)

    @property
    def _aligned(self) -> bool:
        """Whether what may be written with non-temporal stores is aligned for them in every launch."""
        return all("align 64" in self.promised.words[i] for i in self.promised.streams)

    def _streaming(self, text: Module, name: str, known: Sequence[Range]) -> None:
        """Emits two versions: non-temporal stores need aligned memory, and callers may pass unaligned buffers."""
        plain, stream = f"{self.name}.plain", f"{self.name}.stream"
        del text.functions[name]
        self._function(text, plain, known)
        self._function(text, stream, known, self.promised.streams)
        b = self._begin(text, name)
        low = reduce(b.or_, [b.cast("ptrtoint", b.arguments[i], i64) for i in self.promised.streams])
        _either(b, b.icmp("eq", b.and_(low, 63), 0), stream, plain)

    def _function(self, text: Module, name: str, known: Sequence[Range], streams: Sequence[int] = ()) -> int:
        """Emits the body for program indices in known ranges; returns the number of masks that it computes."""
        block = self.op.regions[0].block
        b = self._begin(text, name)
        count = len(self.promised.words)
        scratch = b.arguments[count] if self.scratch else None
        e = Emitter(b, self.target, lanes(self.op, self.target), TABLE, scratch)
        for value, pointer in zip(block.args[:count], b.arguments, strict=False):
            e.bind(value, Buffer(pointer, as_memref(value.type)))
        indices = b.arguments[count + bool(self.scratch) + len(self.lengths) :]
        for value, number, where in zip(block.args[count:], indices, known, strict=True):
            e.define_index(value, number, where)
        e.streams = frozenset(block.args[i] for i in streams)
        e.run(block)
        if streams:
            b.effect("fence seq_cst")  # non-temporal stores need a full fence
        e.finish()
        return e.boundaries

    def _begin(self, text: Module, name: str) -> Function:
        words = self.promised.words
        names = argument_names(self.op.regions[0].block.args)
        arguments = [Argument(ptr, *each) for each in zip(names, words, strict=False)]
        if self.scratch:
            arguments.append(Argument(ptr, "scratch.own", "noalias align 64"))
        first = len(arguments)
        arguments += [Argument(i64, f"length.{each}") for each in self.lengths]
        arguments += [Argument(i64, each) for each in names[len(words) :]]
        linkage = self.linkage if name == self.symbol else "internal"
        b = text.function(name, "void", arguments, linkage=linkage)
        b.has_lengths(dict(zip(self.lengths, b.arguments[first:], strict=False)))
        b.trace_as(self.op.symbol + name.removeprefix(self.name), self.op.location)
        return b


def _either(b: Function, condition: Value, yes: str, no: str) -> None:
    """Emits a body that calls one of two functions with its own arguments."""
    then, otherwise = b.label("then"), b.label("otherwise")
    b.branch_if(condition, then, otherwise)
    for label, callee_name in ((then, yes), (otherwise, no)):
        b.place(label)
        b.call("void", callee_name, *b.arguments)
        b.ret()


def _streams(kernel: tile.KernelOp, launches: Sequence[Op], target: Target) -> list[int]:
    """Outputs that are too large to stay in a cache until they are read, and that the kernel only stores to."""
    block = kernel.regions[0].block
    stored = [op.operands[1] for op in kernel.walk() if op.name == "tile.store"]
    used = [v for op in kernel.walk() for v in op.operands]
    found: list[int] = []
    for i, value in enumerate(block.args[: len(block.args) - len(kernel.grid)]):
        far = usual(bytes_of(value.type)) >= STREAM_FROM * target.l2_bytes
        alone = all(launch.operands.count(launch.operands[i]) == 1 for launch in launches)
        if far and alone and value in stored and used.count(value) == stored.count(value):
            found.append(i)
    return found


def _scratch(kernel: tile.KernelOp) -> int:
    """Bytes of all buffers that a kernel allocates."""
    types = [op.result.type for op in kernel.walk() if isinstance(op, tile.AllocOp)]
    static = [type for type in types if isinstance(type, MemRefType) and type.static]
    return sum(scratch_bytes(type.extent * item_bytes(type.element)) for type in static)


def lanes(function: Op, target: Target) -> int:
    """Lanes of a register: those of 4 byte elements if the function has any, else of its widest elements (i1: of
    bytes).

    Narrower elements then fill part of a machine register, and wider ones take two. That is cheaper than splitting and
    joining registers at each cast.
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
