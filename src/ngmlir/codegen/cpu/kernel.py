# SPDX-License-Identifier: Apache-2.0
"""One kernel as LLVM functions, made from the kernel alone and the few things that all its launches have in common.

define void @k.program(ptr ... buffers, i64 ... program indices)
define void @k.run(ptr data, i64 number)             what the threads call; data: one ptr per buffer

Which one is called from outside depends on the grid; all else is internal. A kernel whose own buffers are too many for
the stack of a thread gets memory for them as one more buffer: as often as programs may run at once. Then the threads
call @k.run with the number of such a part, and take programs until none is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from math import prod

from ...ir.core import Op
from ...ir.lengths import lengths_of
from ...ir.literals import item_bytes
from ...ir.structure import fingerprint
from ...ir.types import MemRefType, Type, VectorType, i1
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

#: Sizes of the near cache from which an output is written past the caches.
STREAM_FROM = 8


@dataclass(frozen=True)
class Promises:
    """What holds in every launch of a kernel: words of LLVM on each buffer, and which may be written past the caches."""

    words: tuple[str, ...]
    streams: tuple[int, ...]


def promises(
    kernel: tile.KernelOp, launches: Sequence[Op], places: Sequence[Sequence[Extent | None]], target: Target
) -> Promises:
    """Of all the launches of a kernel; `places` says of each where its buffers lie."""
    return Promises(tuple(attributes(places)), tuple(_streams(kernel, launches, target)))


def key_of(kernel: tile.KernelOp, promised: Promises) -> str:
    """All that a kernel's code depends on beside the target; not its name, nor those of its values."""
    structure, constants = fingerprint(kernel)
    held = [sha256(each.data).hexdigest() for each in constants]
    return " | ".join([structure, *held, *promised.words, *map(str, promised.streams)])


class Kernel:
    """A kernel whose functions begin with `name`; the one that is called from outside has `linkage`."""

    def __init__(
        self, kernel: tile.KernelOp, promised: Promises, target: Target, name: str, linkage: str = "internal"
    ):
        self.op = kernel
        self.promised = promised
        self.target = target
        self.name = name
        self.linkage = linkage
        self.programs = prod(kernel.grid)
        #: The named lengths that it takes behind its buffers.
        self.lengths = lengths_of(kernel)
        #: Bytes that one program needs, where they are not on the stack.
        self.scratch = size if is_open((size := _scratch(kernel),)) or size > STACK_BUFFERS else 0

    @property
    def alone(self) -> bool:
        """Whether there is but one program, for all lengths."""
        return is_same(self.programs, 1)

    @property
    def symbol(self) -> str:
        """The function that launches call: the program if there is but one, else what the threads run."""
        return f"{self.name}.program" if self.alone else f"{self.name}.run"

    @property
    def parts(self) -> int:
        """How many programs run at once, where each needs memory of its own."""
        most = self.target.cores
        return (most if is_open((self.programs,)) else min(self.programs, most)) if self.scratch else 0

    def write(self, text: Module) -> None:
        """Adds the functions."""
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
        first = count + bool(self.scratch)  # behind what numbers the parts
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
        """Calls the program with a number."""
        indices: list[Value] = []
        for size in reversed(self.op.grid[1:]):
            indices.insert(0, b.urem(number, size))
            number = b.udiv(number, size)
        b.call("void", f"{self.name}.program", *buffers, *b.lengths.values(), number, *indices)

    def _program(self, text: Module) -> None:
        """One function; or one without masks for most programs, and one for those at the end of a dimension."""
        name, ends = f"{self.name}.program", [size - 1 for size in self.op.grid]
        everywhere = [Range(0, end) for end in ends]
        masks = self._function(text, name, everywhere)
        if not masks and self.promised.streams:
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

    def _streaming(self, text: Module, name: str, known: Sequence[Range]) -> None:
        """Two functions, since only aligned memory can be written past the caches, and callers bring their own."""
        plain, stream = f"{self.name}.plain", f"{self.name}.stream"
        del text.functions[name]
        self._function(text, plain, known)
        self._function(text, stream, known, self.promised.streams)
        b = self._begin(text, name)
        low = reduce(b.or_, [b.cast("ptrtoint", b.arguments[i], i64) for i in self.promised.streams])
        _either(b, b.icmp("eq", b.and_(low, 63), 0), stream, plain)

    def _function(self, text: Module, name: str, known: Sequence[Range], streams: Sequence[int] = ()) -> int:
        """The body for program indices in known ranges; gives how many masks it computes."""
        block = self.op.regions[0].block
        b = self._begin(text, name)
        count = len(self.promised.words)
        scratch = b.arguments[count] if self.scratch else None
        e = Emitter(b, self.target, lanes(self.op, self.target), TABLE, scratch)
        for value, pointer in zip(block.args[:count], b.arguments, strict=False):
            assert isinstance(value.type, MemRefType)
            e.bind(value, Buffer(pointer, value.type))
        indices = b.arguments[count + bool(self.scratch) + len(self.lengths) :]
        for value, number, where in zip(block.args[count:], indices, known, strict=True):
            e.define_index(value, number, where)
        e.streams = frozenset(block.args[i] for i in streams)
        e.run(block)
        if streams:
            b.effect("fence seq_cst")  # such stores are ordered by nothing less
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
    """A body that calls one of two functions with its own arguments."""
    then, otherwise = b.label("then"), b.label("otherwise")
    b.branch_if(condition, then, otherwise)
    for label, callee_name in ((then, yes), (otherwise, no)):
        b.place(label)
        b.call("void", callee_name, *b.arguments)
        b.ret()


def _streams(kernel: tile.KernelOp, launches: Sequence[Op], target: Target) -> list[int]:
    """Outputs that no cache would hold until they are read, and that the kernel only stores to."""
    block = kernel.regions[0].block
    stored = [op.operands[1] for op in kernel.walk() if op.name == "tile.store"]
    used = [v for op in kernel.walk() for v in op.operands]
    found: list[int] = []
    for i, value in enumerate(block.args[: len(block.args) - len(kernel.grid)]):
        assert isinstance(value.type, MemRefType)
        far = usual(_bytes(value.type)) >= STREAM_FROM * target.l2_bytes
        alone = all(launch.operands.count(launch.operands[i]) == 1 for launch in launches)
        if far and alone and value in stored and used.count(value) == stored.count(value):
            found.append(i)
    return found


def _scratch(kernel: tile.KernelOp) -> int:
    """Bytes of all buffers that a kernel asks for."""
    types = [op.result.type for op in kernel.walk() if isinstance(op, tile.AllocOp)]
    static = [type for type in types if isinstance(type, MemRefType) and type.static]
    return sum(scratch_bytes(type.extent * item_bytes(type.element)) for type in static)


def _bytes(type: MemRefType) -> int:
    return type.size * item_bytes(type.element)


def lanes(function: Op, target: Target) -> int:
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
