# SPDX-License-Identifier: Apache-2.0
"""One block of threads under construction: thread coordinates, shuffles, shared memory, and the conversion of
tiles from layout to layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...ir.literals import item_bytes
from ...ir.types import Type
from ...llvm.text import Function
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, bits_of, constant, i1, i8, i32, i64, poison, vector
from ...support.diagnostics import Bug
from ..elementwise import llvm_element
from ..layouts import LANE_BITS, Layout, Plan, Source, conversion

SHARED = "ptr addrspace(3)"
GLOBAL = "ptr addrspace(1)"

#: Above this many instructions per element, a conversion is cheaper through shared memory.
_SHUFFLES_PER_ELEMENT = 4


@dataclass(frozen=True)
class Tile:
    """A tile in registers: `values[r]` is the element that `layout` puts in register r. Elements outside
    `shape` (the layout is for the next powers of two) hold anything."""

    layout: Layout
    shape: tuple[int, ...]
    element: Type
    values: tuple[Value, ...]

    def with_values(self, values: Sequence[Value], element: Type | None = None) -> Tile:
        return Tile(self.layout, self.shape, element or self.element, tuple(values))


@dataclass(frozen=True)
class Coordinate:
    """`thread + constant`, the part that differs from thread to thread and the part that is known."""

    thread: Value | None
    constant: int


def memory_element(element: Type) -> LlvmType:
    """The type of one element in memory: i1 takes a byte."""
    kind = llvm_element(element)
    return i8 if kind == i1 else kind


class Block:
    """Writes into `b`, a kernel whose blocks have `threads` threads."""

    def __init__(self, b: Function, threads: int, shared_bytes: int):
        self.b = b
        self.threads = threads
        self.shared_name = f"@{b.name}.shared"
        self.scratch_at = -(-shared_bytes // 16) * 16  # behind what the kernel allocates itself
        self.scratch_bytes = 0
        self._scratch_read = False
        self._scopes: list[dict[Any, Any]] = [{}]
        self.thread = b.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", i32, overload=())

    @property
    def shared_bytes(self) -> int:
        """All shared memory of the kernel."""
        return self.scratch_at + self.scratch_bytes if self.scratch_bytes else self.scratch_at

    # Values computed once per region

    @contextmanager
    def region(self) -> Iterator[None]:
        """Code that may run any number of times: what it computes is not known behind it."""
        self._scopes.append({})
        # Another round may still read what this one is about to write.
        self._scratch_read = True
        yield
        self._scratch_read = True
        self._scopes.pop()

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """`make()`, or what it gave before where that is still valid."""
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        self._scopes[-1][key] = value = make()
        return value

    # Where a thread stands

    def coordinates(self, layout: Layout, register: int) -> tuple[Coordinate, ...]:
        """Of the element in one register."""
        threads = self.once((layout, "coordinates"), partial(self._of_thread, layout))
        return tuple(map(Coordinate, threads, layout.held[register]))

    def _of_thread(self, layout: Layout) -> tuple[Value | None, ...]:
        return tuple(self._bits([basis[d] for basis in layout.thread]) for d in range(layout.rank))

    def _bits(self, bases: Sequence[int]) -> Value | None:
        """The exclusive or of the bases whose bit of the thread number is 1; they must not share bits."""
        result = None
        bit = 0
        while bit < len(bases):
            if not bases[bit]:
                bit += 1
                continue
            # A run of bits that move together costs one shift and one mask.
            run = 1
            while bit + run < len(bases) and bases[bit + run] == bases[bit] << run:
                run += 1
            low = bases[bit]
            if low & (low - 1):
                raise Bug("a layout whose bits do not each move along one dimension by a power of two")
            b = self.b
            shift = low.bit_length() - 1 - bit
            moved = b.shl(self.thread, shift) if shift > 0 else self.thread
            moved = b.lshr(moved, -shift) if shift < 0 else moved
            whole = run == self.threads.bit_length() - 1
            part = moved if whole else b.and_(moved, ((1 << run) - 1) * low)
            result = part if result is None else b.or_(result, part, "disjoint")
            bit += run
        return result

    def alive(self, layout: Layout, register: int, shape: Sequence[int]) -> Value | bool:
        """Whether the element in a register lies within `shape`; known where no thread differs."""
        answer: Value | bool = True
        for d, coordinate in enumerate(self.coordinates(layout, register)):
            reach = sum(basis[d] for basis in layout.thread)
            if coordinate.constant >= shape[d]:
                return False
            if coordinate.constant + reach >= shape[d]:
                assert coordinate.thread is not None
                limit = shape[d] - coordinate.constant
                inside = self.once(("inside", coordinate.thread, limit), partial(self.b.icmp, "ult", coordinate.thread, limit))
                answer = self.both(answer, inside)
        return answer

    def both(self, a: Value | bool, c: Value | bool) -> Value | bool:
        """Logical and of what may be known."""
        if a is False or c is False:
            return False
        if a is True or c is True:
            return c if a is True else a
        return self.once(("and", a, c), partial(self.b.and_, a, c))

    def speaks(self, layout: Layout) -> Value | bool:
        """Whether this thread is the first of those that hold the same elements."""
        if not layout.copies:
            return True

        def first() -> Value:
            return self.b.icmp("eq", self.b.and_(self.thread, layout.copies), 0)

        return self.once(("speaks", layout.copies), first)

    # Shared memory

    def barrier(self) -> None:
        self.b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", "void", constant(i32, 0), overload=())
        self._scratch_read = False

    def scratch(self, size: int) -> Value:
        """Shared memory for one exchange: write, `barrier`, read, then `scratch_done`."""
        if self._scratch_read:
            self.barrier()
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
        whole = poison(vector(len(values), values[0].type))
        for lane, value in enumerate(values):
            whole = self.b.insert(whole, value, lane)
        return whole

    def unpack(self, whole: Value, count: int) -> list[Value]:
        return [self.b.extract(whole, lane) for lane in range(count)]

    def to_memory(self, value: Value) -> Value:
        return self.b.zext(value, i8) if value.type == i1 else value

    def from_memory(self, value: Value, kind: LlvmType) -> Value:
        return self.b.icmp("ne", value, 0) if kind == i1 else value

    # Other threads

    def shuffle(self, value: Value, lane: Value | int) -> Value:
        """The value that another lane of the warp holds: the lane with number `lane` (a value), or the one
        whose number differs in the bits of `lane` (an int)."""
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
        word = b.intrinsic(f"llvm.nvvm.shfl.sync.{how}.i32", i32, all_lanes, word, position, clamp, overload=())
        bits = b.trunc(word, f"i{width}") if width < 32 else word
        return bits if width == 1 else b.bitcast(bits, value.type)

    def exchange(self, values: Sequence[Value], groups: Sequence[int]) -> list[list[Value]]:
        """For each value, those that the same lane of other warps holds: of the warps whose numbers are this
        warp's without the bits of `groups[-1]`, xor each of `groups`. The same order in every warp."""
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
        mask = groups[-1] << LANE_BITS
        start = b.getelementptr(f"i{8 * item}", base, b.zext(b.and_(self.thread, ~mask), i64))
        found: dict[Value, list[Value]] = {}
        for slot, value in enumerate(slots):
            kind = i8 if value.type == i1 else value.type
            row = []
            for group in groups:
                place = b.getelementptr(f"i{8 * item}", start, slot * self.threads + (group << LANE_BITS))
                row.append(self.from_memory(b.load(kind, place, align=item), value.type))
            found[value] = row
        self.scratch_done()
        return [found[value] for value in values]

    # From layout to layout

    def convert(self, tile: Tile, layout: Layout) -> Tile:
        """The same elements in another layout."""
        return self.convert_all([(tile, layout)])[0]

    def convert_all(self, wanted: Sequence[tuple[Tile, Layout]]) -> list[Tile]:
        """Several conversions; those through shared memory go together."""
        results: list[Tile | None] = []
        through: list[tuple[Tile, Layout, Storage, int]] = []
        size = 0
        for tile, layout in wanted:
            results.append(self._converted_in_registers(tile, layout))
            if results[-1] is None:
                through.append((tile, layout, self.storage(layout, tile.element), size))
                size += through[-1][2].bytes
        if not through:
            return [result for result in results if result is not None]
        base = self.scratch(size)
        places = [
            self.write_at(tile, storage, self.b.getelementptr(i8, base, offset) if offset else base)
            for tile, _, storage, offset in through
        ]
        self.barrier()
        read = iter(
            Tile(layout, tile.shape, tile.element, tuple(self.read_shared(place, layout, tile.element)))
            for place, (tile, layout, _, _) in zip(places, through, strict=True)
        )
        done = [result if result is not None else next(read) for result in results]
        self.scratch_done()
        return done

    def _converted_in_registers(self, tile: Tile, layout: Layout) -> Tile | None:
        """By moves and shuffles, where that is possible and not too much."""
        if layout == tile.layout:
            return tile
        plan = conversion(tile.layout, layout)
        if plan is None or plan.cost > _SHUFFLES_PER_ELEMENT * layout.registers:
            return None
        return Tile(layout, tile.shape, tile.element, self._within_warps(tile, plan))

    def _within_warps(self, tile: Tile, plan: Plan) -> tuple[Value, ...]:
        b = self.b
        register = self._chosen([source.register for source in plan.threads])
        lane = self._chosen([source.lane for source in plan.threads])
        values = []
        for source in plan.registers:
            result: Value | None = None
            for variant in plan.variants:
                value = self._fetched(tile.values[source.register ^ variant], source, lane, plan)
                if result is None or register is None:
                    result = value
                else:
                    result = b.select(b.icmp("eq", register, variant), value, result)
            assert result is not None
            values.append(result)
        return tuple(values)

    def _fetched(self, value: Value, source: Source, lane: Value | None, plan: Plan) -> Value:
        if not plan.moves:
            return value
        if lane is None:
            return self.shuffle(value, source.lane) if source.lane else value
        own = self.b.and_(self.thread, 31)
        return self.shuffle(value, self.b.xor(self.b.xor(own, lane), source.lane))

    def _chosen(self, masks: Sequence[int]) -> Value | None:
        """The exclusive or of the masks whose bit of the thread number is 1."""
        result = None
        for bit, mask in enumerate(masks):
            if mask:
                b = self.b
                part = b.and_(b.sub(0, b.and_(b.lshr(self.thread, bit), 1)), mask)
                result = part if result is None else b.xor(result, part)
        return result

    def storage(self, reader: Layout, element: Type, order: Sequence[int] | None = None) -> Storage:
        """A place in scratch for a tile that is read in layout `reader`."""
        if order is None:
            closest = max(range(reader.rank), key=lambda d: (reader.run(d), d))
            order = [d for d in range(reader.rank) if d != closest] + [closest]
        item = item_bytes(element)
        # Rows of a power of two would put a column into one bank; 16 bytes keep wide accesses aligned.
        padding = 16 // item if reader.rank > 1 else 0
        strides = [0] * reader.rank
        step = 1
        for place, d in enumerate(reversed(order)):
            strides[d] = step
            step = reader.shape[d] if place == 0 else step * reader.shape[d]
            if place == 0:
                step += padding
        return Storage(tuple(strides), order[-1], step, item)

    def write_at(self, tile: Tile, storage: Storage, base: Value) -> Stored:
        """Writes a tile to shared memory at `base`, each element once."""
        b = self.b
        layout = tile.layout
        stored = Stored(storage, base)
        piece = min(layout.run(storage.closest), 16 // storage.item)
        kind = memory_element(tile.element)

        def write() -> None:
            for register in range(0, layout.registers, piece):
                place = self.shared_place(stored, layout, register, kind)
                packed = self.pack([self.to_memory(v) for v in tile.values[register : register + piece]])
                b.store(packed, place, align=piece * storage.item)

        speaks = self.speaks(layout)
        if isinstance(speaks, Value):
            with b.when(speaks), self.branch():
                write()
        else:
            write()
        return stored

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Code that runs at most once, in some threads: no barrier may stand there."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def read_shared(self, stored: Stored, layout: Layout, element: Type) -> list[Value]:
        """A tile's elements as `layout` holds them."""
        b = self.b
        piece = min(layout.run(stored.storage.closest), 16 // stored.storage.item)
        kind = memory_element(element)
        values: list[Value] = []
        for register in range(0, layout.registers, piece):
            place = self.shared_place(stored, layout, register, kind)
            whole = b.load(vector(piece, kind), place, align=piece * stored.storage.item)
            values += [self.from_memory(v, llvm_element(element)) for v in self.unpack(whole, piece)]
        return values

    def shared_place(self, stored: Stored, layout: Layout, register: int, kind: LlvmType) -> Value:
        """The address of one element."""
        coordinates = self.coordinates(layout, register)
        strides = stored.storage.strides

        def start() -> Value:
            offset = self.linear([c.thread for c in coordinates], strides)
            return self.b.getelementptr(kind, stored.base, self.b.zext(offset, i64)) if offset else stored.base

        known = stored.start + sum(c.constant * s for c, s in zip(coordinates, strides, strict=True))
        first = self.once((stored.base, layout, strides, kind), start)
        return self.b.getelementptr(kind, first, known) if known else first

    def linear(self, positions: Sequence[Value | None], strides: Sequence[int]) -> Value | None:
        """The sum of positions times strides, of those that are there; 32 bits wide."""
        total = None
        for position, stride in zip(positions, strides, strict=True):
            if position is not None and stride:
                part = self.b.mul(position, stride) if stride != 1 else position
                total = part if total is None else self.b.add(total, part)
        return total


@dataclass(frozen=True)
class Storage:
    """How a tile lies in shared memory: strides in elements, the dimension whose neighbours are adjacent."""

    strides: tuple[int, ...]
    closest: int
    elements: int
    item: int

    @property
    def bytes(self) -> int:
        return -(-self.elements * self.item // 16) * 16


@dataclass(frozen=True)
class Stored:
    """A tile in shared memory, `start` elements behind `base`."""

    storage: Storage
    base: Value
    start: int = 0

    def at(self, dimension: int, position: int) -> Stored:
        """The part of the tile at one position along a dimension, without that dimension."""
        whole = self.storage
        strides = tuple(s for d, s in enumerate(whole.strides) if d != dimension)
        closest = whole.closest - (whole.closest > dimension)
        part = Storage(strides, closest, whole.elements, whole.item)
        return Stored(part, self.base, self.start + position * whole.strides[dimension])
