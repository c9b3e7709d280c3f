# SPDX-License-Identifier: Apache-2.0
"""One LLVM function under construction from tile code: the registers of each value, and the known range of each index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...ir.core import Block, Op, op_name
from ...ir.core import Value as IRValue
from ...ir.types import MemRefType, Type, shape_of, token
from ...llvm.text import Function
from ...llvm.types import Value, constant, i8, i64, is_mask, lanes_of
from ...rewrite.advice import pass_for
from ...support.diagnostics import Bug, Limit, Location
from ...support.lengths import NeedsLength, is_open
from ...support.target import Target
from ..names import loop_name, stem_of
from ..ranges import UNKNOWN, Range, exactly
from .deferral import deferrable
from .formats import machine_of
from .tiles import Chunk, Layout, layout

#: Bytes of stack that one function may use: for buffers, which live until it returns, and for temporary memory of one
#: op's lowering. Threads may have small stacks; larger buffers are in the arena (see `program`).
STACK_BUFFERS, STACK_PASSING = 48 * 1024, 16 * 1024
_ALIGNMENT = 64

#: The lowering of one op: emits instructions and defines the op's results. Its parameter has the class of the op.
Lowering: TypeAlias = "Callable[[Emitter, Any], None]"


class Buffer(NamedTuple):
    """A memref: the address of its first element; `type` has the strides. `align` is the alignment of the address in
    bytes where it may be smaller than that of an element (a view of a buffer with narrower elements); 0: that of an
    element."""

    pointer: Value
    type: MemRefType
    align: int = 0


class Tile(NamedTuple):
    """A vector or scalar in registers, in row-major order."""

    registers: tuple[Value, ...]


class Deferred(ABC):
    """A tile whose registers or elements are loaded one by one where they are used (see `deferral`)."""

    @abstractmethod
    def register(self, e: Emitter, row: tuple[int, ...], chunk: Chunk) -> Value:
        """One register of the tile."""

    @abstractmethod
    def scalar(self, e: Emitter, coordinates: tuple[int, ...]) -> Value:
        """One element of the tile, of which it is known whether it is inside the buffer."""


#: What a value is bound to. A buffer may be bound to a function that looks up its address at each use.
Held: TypeAlias = Tile | Buffer | Deferred | Callable[[], Buffer]


class Emitter:
    """Lowers the ops of a block through the table of lowerings."""

    def __init__(
        self,
        function: Function,
        target: Target,
        lanes: int,
        table: Mapping[str, Lowering],
        scratch: Value | None = None,
    ):
        """`scratch` is memory for the buffers of this call, where the stack is too small for them."""
        self.b = function
        self.target = target
        self.machine = machine_of(target)
        self.lanes = lanes
        self.boundaries = 0  # masks computed at run time
        self.deferred: Mapping[Op, frozenset[int]] = {}  # loads of the current block that its dots perform
        self.streams: frozenset[IRValue] = frozenset()  # aligned buffers to write with non-temporal stores
        self._table = table
        self._values: dict[IRValue, Held] = {}
        self._ranges: dict[IRValue, Range] = {}
        self._sums: dict[Value, tuple[Value, int]] = {}
        self._splats: dict[Value, tuple[Value, int]] = {}
        self._counts: dict[Value, Value] = {}
        self._depths: dict[Value, int] = {}  # how many loops are around a register
        self._scratch = scratch
        self._scratch_bytes = 0
        self._stack: list[str] = []
        self._passing = 0

    # Running

    def run(self, block: Block) -> tuple[IRValue, ...]:
        """Lowers a block's ops; returns the operands of its terminator."""
        outer, self.deferred = self.deferred, deferrable(block)
        for op in block.ops:
            if "terminator" in op.traits:
                break
            if op.name not in self._table:
                raise Limit(f"'{op_name(op)}' cannot be compiled for a CPU", op.location, hint=pass_for(op))
            self.b.stem = stem_of(op)
            if (trace := self.b.trace) is None:
                self._table[op.name](self, op)
            else:
                with trace.at(op.location, loop_name(op)):
                    self._table[op.name](self, op)
        self.b.stem = "v"
        self.deferred = outer
        return block.ops[-1].operands

    # Values

    def layout(self, type: Type) -> Layout:
        """How a tile of this type is distributed over registers."""
        return layout(shape_of(type), self.lanes)

    def registers(self, value: IRValue) -> tuple[Value, ...]:
        """The registers of a tile, or the single register of a scalar."""
        found = self._values[value]
        if not isinstance(found, Tile):
            raise Bug(f"{value!r} is not in registers")
        return found.registers

    def scalar(self, value: int | IRValue) -> Value:
        if isinstance(value, int):
            return constant(i64, value)
        (register,) = self.registers(value)
        return register

    def buffer(self, value: IRValue) -> Buffer:
        found = self._values[value]
        if callable(found):
            return found()
        assert isinstance(found, Buffer)
        return found

    def find(self, value: IRValue) -> Held:
        return self._values[value]

    def define(self, value: IRValue, registers: Sequence[Value]) -> None:
        self._values[value] = Tile(tuple(registers))

    def bind(self, value: IRValue, held: Held) -> None:
        """Binds a value to a buffer or a deferred tile."""
        self._values[value] = held

    def define_splat(self, register: Value, source: Value, lane: int) -> None:
        """Remembers that all lanes of a register are one lane of another one."""
        if lanes_of(source.type) > 1:
            self._splats[register] = source, lane

    def lane_before(self, register: Value, lane: int) -> tuple[Value, int]:
        """The lane from which a lane of a register was copied by `ng.broadcast`, or that lane itself."""
        return self._splats.get(register, (register, lane))

    def define_count(self, mask: Value, count: Value) -> None:
        """Remembers that a mask has the first `count` lanes, or all if there are not so many."""
        self._counts[mask] = count

    def count_of(self, mask: Value) -> Value | None:
        """The number of lanes of a mask that has the first ones; None for any other."""
        return self._counts.get(mask)

    # Indices

    @property
    def _depth(self) -> int:
        return len(self.b.preheaders)

    def range_of(self, value: int | IRValue) -> Range:
        if isinstance(value, int):
            return exactly(value)
        return self._ranges.get(value, UNKNOWN)

    def define_index(self, value: IRValue, register: Value, known: Range) -> None:
        """Defines an index and its range; if the range has one element, the index becomes a constant."""
        self._ranges[value] = known
        self._depths.setdefault(register, self._depth)
        self.define(value, [constant(i64, known.low) if known.constant else register])

    def index_constant(self, value: IRValue, number: int) -> None:
        self.define_index(value, constant(i64, number), exactly(number))

    def define_sum(self, register: Value, x: Value, y: int) -> None:
        """Remembers that an index is `x + y`."""
        base, number = self.base_and_offset(x)
        self._sums[register] = base, number + y

    def base_and_offset(self, register: Value) -> tuple[Value, int]:
        """A register and a constant whose sum is an index; indices at a constant distance have the same register."""
        return self._sums.get(register, (register, 0))

    def hoisted(self, compute: Callable[[], Value], *operands: Value) -> Value:
        """The result of instructions without effects, which are put before the loops in which their operands do not change. LLVM moves
        only those out of loops that set no flags: no comparisons."""
        depth = max(map(self._depth_of, operands), default=0)
        with self.b.hoisting(depth):
            result = compute()
            if depth < self._depth and self.machine.masks and is_mask(result.type):
                result = self.b.freeze(result)  # LLVM moves comparisons back to their uses
        self._depths[result] = depth
        return result

    def _depth_of(self, operand: Value) -> int:
        if not operand.name.startswith("%") or operand.name.startswith("%{"):
            return 0  # a constant, or a length: that is computed at the start of the function
        return self._depths.get(operand, self._depth)

    # Values that loops carry and branches yield

    def flatten(self, values: Sequence[IRValue]) -> list[Value]:
        """All registers (and addresses of buffers) of some values."""
        flat: list[Value] = []
        for value in values:
            if isinstance(value.type, MemRefType):
                flat.append(self.buffer(value).pointer)
            else:
                flat += self.registers(value)
        return flat

    def unflatten(self, values: Sequence[IRValue], flat: Sequence[Value]) -> None:
        """Defines values from registers in the order that `flatten` returns."""
        at = 0
        for value in values:
            if value.type is token:
                self.define(value, [])
            elif isinstance(value.type, MemRefType):
                self._values[value] = Buffer(flat[at], value.type)
                at += 1
            else:
                size = self.layout(value.type).size
                self.define(value, flat[at : at + size])
                at += size

    # Memory that belongs to this call of the function

    def scratch(self, size: int) -> Value:
        """Allocates a buffer that lives until the function returns."""
        if is_open((size,)) and self._scratch is None:
            raise NeedsLength(f"a buffer of {size} bytes on the stack")
        at, self._scratch_bytes = self._scratch_bytes, self._scratch_bytes + scratch_bytes(size)
        if self._scratch is not None:
            return self.b.getelementptr(i8, self._scratch, at)
        name = f"%scratch.b{len(self._stack)}"
        self._stack.append(f"  {name} = alloca [{size} x i8], align {_ALIGNMENT}")
        return Value("ptr", name)

    def passing(self, size: int, location: Location) -> Value:
        """Temporary memory for the lowering of one op; all ops share it."""
        if is_open((size,)):
            raise NeedsLength(f"{size} bytes beside the registers")
        if size > STACK_PASSING:
            message = f"{size} bytes beside the registers; one op has {STACK_PASSING}"
            raise Limit(message, location, hint="use smaller tiles")
        self._passing = max(self._passing, size)
        return Value("ptr", "%passing.all")

    def finish(self) -> None:
        """Ends the function."""
        self.b.ret()
        if self._passing:
            self._stack.append(f"  %passing.all = alloca [{self._passing} x i8], align {_ALIGNMENT}")
        # The allocas go to the start of the function, but only now: until here phis are found by line number.
        self.b.lines[:0] = self._stack


def scratch_bytes(size: int) -> int:
    """Bytes that a buffer occupies, rounded up to its alignment."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT
