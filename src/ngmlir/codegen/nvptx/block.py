# SPDX-License-Identifier: Apache-2.0
"""One thread block under construction: coordinates of a thread, shared memory, and exchange between threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...ir.types import Type
from ...llvm.text import Function
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, bits_of, constant, i1, i8, i16, i32, i64, poison, vector
from ...ops.layouts import LANE_BITS, Layout, copied_bits, thread_bits
from ...support.machines import REGISTER_BYTES
from ..elementwise import llvm_element

SHARED = "ptr addrspace(3)"
GLOBAL = "ptr addrspace(1)"


@dataclass(frozen=True)
class Tile:
    """A tile in registers: `values[r]` is the element that `layout` assigns to register r. Elements outside `shape`
    (the layout covers the next powers of two) are undefined."""

    layout: Layout
    shape: tuple[int, ...]
    element: Type
    values: tuple[Value, ...]

    def with_values(self, values: Sequence[Value]) -> Tile:
        return Tile(self.layout, self.shape, self.element, tuple(values))


@dataclass(frozen=True)
class Coordinate:
    """`thread + constant`: a part that depends on the thread, and a part that is known."""

    thread: Value | None
    constant: int


def memory_element(element: Type) -> LlvmType:
    """The type of one element in memory: i1 takes a byte."""
    kind = llvm_element(element)
    return i8 if kind == i1 else kind


class Block:
    """Emits code into `b`, a kernel whose blocks have `threads` threads."""

    def __init__(self, b: Function, threads: int, shared_bytes: int):
        self.b = b
        self.threads = threads
        self.shared_name = f"@{b.name}$shared"
        self.scratch_at = -(-shared_bytes // 16) * 16  # after the kernel's own buffers
        self.scratch_bytes = 0
        #: Whether threads may still read the scratch memory of the last exchange; whether the innermost region had an
        #: exchange.
        self._scratch_read = self._scratch_used = False
        self._scopes: list[dict[Any, Any]] = [{}]
        #: Unpacked vectors by their first element: packing the same elements gives the vector again.
        self._unpacked: dict[Value, tuple[Value, tuple[Value, ...]]] = {}
        self.thread = b.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", i32, overload=())

    @property
    def shared_bytes(self) -> int:
        """All shared memory of the kernel."""
        return self.scratch_at + self.scratch_bytes if self.scratch_bytes else self.scratch_at

    # Values that are computed once per region

    @contextmanager
    def region(self, repeats: bool = False) -> Generator[None]:
        """Code that may not run, or, if it `repeats`, may run more than once: values that it computes are not available
        after it."""
        self._scopes.append({})
        before, earlier, self._scratch_used = self._scratch_read, self._scratch_used, False
        # Threads in the previous iteration may still read what this one is about to write.
        self._scratch_read = before or repeats
        yield
        self._scratch_read = before or self._scratch_used
        self._scratch_used |= earlier
        self._scopes.pop()

    @contextmanager
    def branch(self) -> Generator[None]:
        """Code that runs at most once, in some threads: it must contain no barrier."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """`make()`, or its earlier result if that is still available."""
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        self._scopes[-1][key] = value = make()
        return value

    # Coordinates of a thread

    def coordinates(self, layout: Layout, register: int) -> tuple[Coordinate, ...]:
        """The coordinates of the element in one register."""
        threads = self.once((layout, "coordinates"), partial(self._of_thread, layout))
        return tuple(map(Coordinate, threads, layout.held[register]))

    def _of_thread(self, layout: Layout) -> tuple[Value | None, ...]:
        return tuple(self.bits([basis[d] for basis in layout.thread]) for d in range(layout.rank))

    def bits(self, bases: Sequence[int]) -> Value | None:
        """The xor of those `bases` whose bit of the thread number is 1; None if that is always 0."""
        # Bits that are shifted by the same distance share one shift and one mask.
        moved: dict[int, int] = {}
        for bit, basis in enumerate(bases):
            for to in range(basis.bit_length()):
                if basis >> to & 1:
                    moved[to - bit] = moved.get(to - bit, 0) | 1 << to
        b, result, taken = self.b, None, 0
        every = (1 << (self.threads - 1).bit_length()) - 1
        for distance, mask in sorted(moved.items()):
            part = b.shl(self.thread, distance) if distance > 0 else self.thread
            part = b.lshr(part, -distance) if distance < 0 else part
            whole = every << distance if distance > 0 else every >> -distance
            part = part if whole == mask else b.and_(part, mask)
            if result is None:
                result = part
            else:
                result = b.xor(result, part) if taken & mask else b.or_(result, part, "disjoint")
            taken |= mask
        return result

    def alive(self, layout: Layout, register: int, shape: Sequence[int]) -> Value | bool:
        """Whether the element in a register is inside `shape`; a bool if the answer is the same in all threads."""
        answer: Value | bool = True
        for d, coordinate in enumerate(self.coordinates(layout, register)):
            reach = sum(basis[d] for basis in layout.thread)
            if coordinate.constant >= shape[d]:
                return False
            if coordinate.constant + reach >= shape[d]:
                assert coordinate.thread is not None
                limit = shape[d] - coordinate.constant
                inside = self.once(
                    ("inside", coordinate.thread, limit),
                    partial(self.b.icmp, "ult", coordinate.thread, limit),
                )
                answer = self.both(answer, inside)
        return answer

    def both(self, a: Value | bool, c: Value | bool) -> Value | bool:
        """Logical and of conditions that may be known."""
        if a is False or c is False:
            return False
        if a is True or c is True:
            return c if a is True else a
        return self.once(("and", a, c), partial(self.b.and_, a, c))

    def is_first_copy(self, layout: Layout) -> Value | bool:
        """Whether this thread is the first of those that hold the same elements."""
        if not layout.copies:
            return True

        def first() -> Value:
            return self.b.icmp("eq", self.b.and_(self.thread, layout.copies), 0)

        return self.once(("speaks", layout.copies), first)

    def linear(self, positions: Sequence[Value | None], strides: Sequence[int]) -> Value | None:
        """The sum of positions times strides, without positions that are None; None if there are none."""
        total = None
        for position, stride in zip(positions, strides, strict=True):
            if position is not None and stride:
                part = self.b.mul(position, stride) if stride != 1 else position
                total = part if total is None else self.b.add(total, part)
        return total

    # Shared memory

    def barrier(self) -> None:
        self.b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", "void", constant(i32, 0), overload=())
        self._scratch_read = False

    def scratch(self, size: int) -> Value:
        """Shared memory for one exchange: write, `barrier`, read, then `scratch_done`."""
        if self._scratch_read:
            self.barrier()
        self._scratch_used = True
        self.scratch_bytes = max(self.scratch_bytes, size)
        return self.shared(self.scratch_at)

    def scratch_done(self) -> None:
        self._scratch_read = True

    def shared(self, offset: int) -> Value:
        """The address `offset` bytes into the kernel's shared memory."""
        base = Value(SHARED, self.shared_name)
        return self.b.getelementptr(i8, base, offset) if offset else base

    # Registers

    def pack(self, values: Sequence[Value]) -> Value:
        """Scalars as one vector."""
        if len(values) == 1:
            return values[0]
        if values[0] in self._unpacked and self._unpacked[values[0]][1] == tuple(values):
            return self._unpacked[values[0]][0]
        whole = poison(vector(len(values), values[0].type))
        for lane, value in enumerate(values):
            whole = self.b.insert(whole, value, lane)
        return whole

    def unpack(self, whole: Value, count: int) -> list[Value]:
        """The scalars of a vector. Bytes are extracted from words: if they are extracted from longer vectors, LLVM
        extracts all bytes of a load before it issues the next load."""
        b = self.b
        if whole.type == vector(count, i8) and count > REGISTER_BYTES:
            many = count // REGISTER_BYTES
            words = self.unpack(b.bitcast(whole, vector(many, i32)), many)
            pieces = [b.bitcast(word, vector(REGISTER_BYTES, i8)) for word in words]
            values = [byte for piece in pieces for byte in self.unpack(piece, REGISTER_BYTES)]
        else:
            values = [b.extract(whole, lane) for lane in range(count)]
        self._unpacked[values[0]] = whole, tuple(values)
        return values

    def to_memory(self, value: Value) -> Value:
        return self.b.zext(value, i8) if value.type == i1 else value

    def from_memory(self, value: Value, kind: LlvmType) -> Value:
        return self.b.icmp("ne", value, 0) if kind == i1 else value

    def force(self, values: Sequence[Value]) -> None:
        """Forces values to be computed here, by empty inline assembly that uses them: LLVM would sink their computation
        behind a branch that uses them, and keep all its operands in registers until then."""
        words = [self._word(value) for value in dict.fromkeys(values) if value.name.startswith("%")]
        letters = ",".join({64: "l", 32: "r", 16: "h"}[bits_of(word.type)] for word in words)
        self.b.assembly("void", "", letters, *words, side_effects=True)

    def _word(self, value: Value) -> Value:
        """The value as an operand of inline assembly."""
        width = bits_of(value.type)
        whole = value if width == 1 else self.b.bitcast(value, f"i{width}")
        return self.b.zext(whole, i16) if width < 16 else whole

    # Other threads

    def shuffle(self, value: Value, lane: Value | int) -> Value:
        """The value of another lane of the warp: the lane with number `lane` (a value), or the one whose number differs
        in the bits of `lane` (an int)."""
        return self.once(("shuffle", value, lane), partial(self._shuffle, value, lane))

    def _shuffle(self, value: Value, lane: Value | int) -> Value:
        b = self.b
        width = bits_of(value.type)
        if width == 64:
            halves = b.bitcast(b.bitcast(value, i64), vector(2, i32))
            moved = [self._shuffle(part, lane) for part in self.unpack(halves, 2)]
            return b.bitcast(b.bitcast(self.pack(moved), i64), value.type)
        bits = value if width == 1 else b.bitcast(value, f"i{width}")
        word = b.zext(bits, i32) if width < 32 else bits
        how = "bfly" if isinstance(lane, int) else "idx"
        position = constant(i32, lane) if isinstance(lane, int) else lane
        all_lanes, clamp = constant(i32, -1), constant(i32, 31)
        word = b.intrinsic(
            f"llvm.nvvm.shfl.sync.{how}.i32", i32, all_lanes, word, position, clamp, overload=()
        )
        bits = b.trunc(word, f"i{width}") if width < 32 else word
        return bits if width == 1 else b.bitcast(bits, value.type)

    def exchange(self, values: Sequence[Value], groups: Sequence[int]) -> list[list[Value]]:
        """For each value, its values in the same lane of several warps: the warps whose numbers are this warp's without
        the bits of `groups[-1]`, xor each of `groups`. The order is the same in every warp."""
        b = self.b
        slots = list(dict.fromkeys(values))
        kinds = {value.type for value in slots}
        size = max(bits_of(kind) for kind in kinds)
        item = max(1, size // 8)
        base = self.scratch(item * len(slots) * self.threads)
        own = b.getelementptr(f"i{8 * item}", base, b.zext(self.thread, i64))
        for slot, value in enumerate(slots):
            place = b.getelementptr(f"i{8 * item}", own, slot * self.threads)
            b.store(self.to_memory(value), place, align=item)
        self.barrier()
        # Threads beyond the last power of two hold the same as the first ones, and the warps paired with them may not
        # exist.
        mask = groups[-1] << LANE_BITS | (copied_bits(self.threads) << thread_bits(self.threads))
        start = b.getelementptr(f"i{8 * item}", base, b.zext(b.and_(self.thread, ~mask), i64))
        found: dict[Value, list[Value]] = {}
        for slot, value in enumerate(slots):
            kind = i8 if value.type == i1 else value.type
            row: list[Value] = []
            for group in groups:
                place = b.getelementptr(f"i{8 * item}", start, slot * self.threads + (group << LANE_BITS))
                row.append(self.from_memory(b.load(kind, place, align=item), value.type))
            found[value] = row
        self.scratch_done()
        return [found[value] for value in values]
