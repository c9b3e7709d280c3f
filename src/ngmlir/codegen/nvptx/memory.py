# SPDX-License-Identifier: Apache-2.0
"""Loads, stores and copies of tiles by one block of threads.

Masked accesses are predicated instructions, not branches, and as wide as the known alignment allows. Only if the end of
the buffer may be within one vector access, tiles that contain the end have code of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import gcd, prod

from ...ir.literals import item_bytes
from ...ir.types import MemRefType
from ...llvm.instructions import Instructions
from ...llvm.types import Value, constant, i1, i32, i64
from ...ops.layouts import Layout, padded
from ...support.machines import COPIES_WRITTEN_OUT
from ..elementwise import llvm_element
from .access import WIDEST, Access, Bound
from .block import Tile, memory_element
from .pieces import Buffer, Inside, Pieces
from .shared import Storage, with_banks_apart

#: Offsets below this fit into 32 bit arithmetic.
_NARROW = 1 << 31
#: How many predicates of a stored tile fit into registers; ptxas keeps all of them at once.
_PREDICATES = 32


class Memory(Pieces):
    """Emits memory accesses into a block."""

    # Loads and stores

    def load(
        self,
        access: Access,
        buffer: Buffer,
        indices: Sequence[Value],
        layout: Layout,
        pad: Value,
        registers: range | None = None,
    ) -> tuple[Value, ...]:
        """The elements that each thread holds of a tile, or those in some of its registers; `pad` for elements outside
        the buffer."""
        some = registers or range(layout.registers)
        return self._moved(
            access, indices, layout, lambda each: self._load(each, buffer, indices, layout, pad, some)
        )

    def store(self, access: Access, buffer: Buffer, indices: Sequence[Value], tile: Tile) -> None:
        """Stores a tile, each element once."""

        def write(access: Access) -> tuple[()]:
            self._store(access, buffer, indices, tile)
            return ()

        self._moved(access, indices, tile.layout, write)

    def _moved(
        self,
        access: Access,
        indices: Sequence[Value],
        layout: Layout,
        move: Callable[[Access], tuple[Value, ...]],
    ) -> tuple[Value, ...]:
        """The result of `move`. If the end of the buffer may be within a vector access, with separate code for tiles
        that are completely inside."""
        if not access.ragged or access.piece(layout) == 1:
            return move(replace(access, ragged=False))
        block, b = self.block, self.b

        def moved(access: Access) -> tuple[Value, ...]:
            with block.region():
                return move(access)

        def lies_inside() -> Value:
            known: Value | bool = True
            for bound in access.bounds:
                index, reach = indices[bound.dimension], 0
                if bound.along is not None:
                    reach = (access.shape[bound.along] - 1) * bound.step
                if not bound.positive:
                    known = block.both(known, b.icmp("sge", index, max(0, -reach)))
                known = block.both(known, b.icmp("slt", index, bound.size - max(0, reach)))
            assert isinstance(known, Value)
            return known

        whole = block.once((access.bounds, access.shape, tuple(indices)), lies_inside)
        return tuple(b.choose(whole, lambda: moved(access.inside), lambda: moved(access)))

    def _load(
        self,
        access: Access,
        buffer: Buffer,
        indices: Sequence[Value],
        layout: Layout,
        pad: Value,
        registers: range,
    ) -> tuple[Value, ...]:
        block, kind = self.block, memory_element(buffer.type.element)
        piece, element = access.piece(layout), llvm_element(buffer.type.element)
        fill = block.to_memory(pad)
        # All loads are issued before the first is unpacked.
        pieces: list[Value | None] = []
        singles: list[tuple[int, Inside, Value]] = []
        for register in registers[::piece]:
            inside, whole = self._inside(access, indices, layout, register, piece), None
            if inside is not False:
                place, behind = self._place(access, buffer, indices, layout, register)
                whole = self.fetch(buffer, place, kind, piece, inside, fill, behind)
            pieces.append(whole)
            for each, there in self._singles(access, indices, layout, register, piece):
                place, behind = self._place(access, buffer, indices, layout, each)
                singles.append((each, there, self.fetch(buffer, place, kind, 1, there, fill, behind)))
        values: list[Value] = []
        for whole in pieces:
            values += [fill] * piece if whole is None else block.unpack(whole, piece)
        for register, there, value in singles:
            at = register - registers.start
            values[at] = value if there is True else self.b.select(there, value, values[at])
        return tuple(block.from_memory(value, element) for value in values)

    def _store(self, access: Access, buffer: Buffer, indices: Sequence[Value], tile: Tile) -> None:
        block, layout = self.block, tile.layout
        piece = access.piece(layout)
        speaks = block.is_first_copy(layout)
        guards = {
            register: (speaks, *self._guards(access, indices, layout, register, piece))
            for register in range(0, layout.registers, piece)
        }
        written = {register: each for register, each in guards.items() if False not in each}

        def put(register: int, count: int, guards: Iterable[Value | bool]) -> None:
            inside = reduce(block.both, guards, True)
            if inside is not False:
                place, behind = self._place(access, buffer, indices, layout, register)
                values = [block.to_memory(v) for v in tile.values[register : register + count]]
                self.put(buffer, place, block.pack(values), inside, behind)

        def write(registers: Iterable[int], known: Value | bool = True) -> None:
            for register in registers:
                put(register, piece, [each for each in written[register] if each is not known])

        if len(set(written.values())) <= _PREDICATES:
            write(written)
        else:
            # A guard that many elements share is tested once, by a branch.
            common = min(
                zip(*written.values(), strict=True), key=lambda each: (set(each) == {True}, len(set(each)))
            )
            block.force([value for register in written for value in tile.values[register : register + piece]])
            for guard in dict.fromkeys(common):
                registers = [r for r, own in zip(written, common, strict=True) if own is guard]
                if guard is True:
                    write(registers)
                    continue
                # The shared part of the addresses is computed before the branches.
                self._place(access, buffer, indices, layout, registers[0])
                with self.b.when(guard), block.branch():
                    write(registers, guard)
        for register in guards:
            for each, there in self._singles(access, indices, layout, register, piece):
                put(each, 1, (speaks, there))

    def _place(
        self, access: Access, buffer: Buffer, indices: Sequence[Value], layout: Layout, register: int
    ) -> tuple[Value, int]:
        """An address, and how many elements after it the element in a register is."""
        block, b, kind = self.block, self.b, memory_element(buffer.type.element)
        coordinates = block.coordinates(layout, register)

        def start() -> Value:
            place = self.offset(buffer, indices)
            reach = sum(
                (size - 1) * abs(stride) for size, stride in zip(layout.shape, access.strides, strict=True)
            )
            threads = [c.thread for c in coordinates]
            if reach >= _NARROW:
                threads = [t and b.zext(t, i64) for t in threads]
            offset = block.linear(threads, access.strides)
            return b.getelementptr(kind, place, _wide(b, offset)) if offset else place

        first = block.once((buffer, tuple(indices), access, layout), start)
        return first, sum(c.constant * stride for c, stride in zip(coordinates, access.strides, strict=True))

    def offset(self, buffer: Buffer, indices: Sequence[Value]) -> Value:
        """The address of one element of a buffer."""

        def compute() -> Value:
            total = self.block.linear(
                [None if i.name == "0" else i for i in indices], buffer.type.row_strides
            )
            kind = memory_element(buffer.type.element)
            return self.b.getelementptr(kind, buffer.pointer, total) if total else buffer.pointer

        return self.block.once((buffer, tuple(indices)), compute)

    def _inside(
        self, access: Access, indices: Sequence[Value], layout: Layout, register: int, count: int = 1
    ) -> Value | bool:
        """Whether the elements of one vector access, in some registers, are inside the tile and the buffer."""
        return reduce(self.block.both, self._guards(access, indices, layout, register, count))

    def _guards(
        self, access: Access, indices: Sequence[Value], layout: Layout, register: int, count: int
    ) -> list[Value | bool]:
        """The conditions of `_inside`."""
        register += count - 1 if access.ragged else 0
        within = [self._within(bound, indices[bound.dimension], layout, register) for bound in access.bounds]
        return [self.block.alive(layout, register, access.shape), *within]

    def _singles(
        self, access: Access, indices: Sequence[Value], layout: Layout, register: int, count: int
    ) -> Iterator[tuple[int, Inside]]:
        """The registers of a vector access whose element may be inside although the last one is not; and the condition
        for that."""
        if not access.ragged:
            return
        last = self._inside(access, indices, layout, register, count)
        if last is True:
            return
        for each in range(register, register + count - 1):
            there = self._inside(access, indices, layout, each)
            if isinstance(last, Value):
                there = self.block.both(there, self.b.xor(last, constant(i1, 1)))
            if there is not False:
                yield each, there

    def _within(self, bound: Bound, index: Value, layout: Layout, register: int) -> Value | bool:
        block, b = self.block, self.b
        if bound.along is None:
            return block.once((index, bound), partial(b.icmp, "ult", index, bound.size))
        coordinate = block.coordinates(layout, register)[bound.along]
        reach = sum(basis[bound.along] for basis in layout.thread) * bound.step
        answer = bound.known(coordinate.constant * bound.step, reach)
        if answer is not None:
            return answer

        def start() -> Value:
            if coordinate.thread is None:
                return index
            return b.add(index, b.mul(b.zext(coordinate.thread, i64), bound.step))

        first = block.once((index, coordinate.thread, bound.step), start)
        known = coordinate.constant * bound.step

        def compare() -> Value:
            if bound.positive:
                return b.icmp("slt", first, bound.size - known)
            return b.icmp("ult", b.add(first, known) if known else first, bound.size)

        return block.once((first, known, bound), compare)

    # Whole buffers

    def copy(self, source: Buffer, target: Buffer, piece: int, *, background: bool = False) -> None:
        """All threads copy all elements, `piece` at a time (see `common_piece`); elements that are outside the source
        are 0. With `background`, the copy is only started, as one group of asynchronous copies (see `wait`)."""
        block, b = self.block, self.b
        shape = source.type.shape
        kind = memory_element(source.type.element)
        total = prod(shape) // piece
        bytes = piece * item_bytes(source.type.element)
        # Only accesses of 16 bytes can bypass the L1 cache.
        name = f"llvm.nvvm.cp.async.{'cg' if bytes == WIDEST else 'ca'}.shared.global.{bytes}"

        def move(read: Value, write: Value, inside: Value | bool) -> None:
            zero = constant(kind, 0)
            if not background:
                there = inside is not False
                found = (
                    self.fetch(source, read, kind, piece, inside, zero)
                    if there
                    else block.pack([zero] * piece)
                )
                self.put(target, write, found, True)
            elif inside is True:
                b.intrinsic(name, "void", write, read, overload=())
            else:
                # Elements that are not read become zeros.
                size = b.select(inside, constant(i32, bytes), 0) if inside else constant(i32, 0)
                b.intrinsic(f"{name}.s", "void", write, read, size, overload=())

        rounds = total // block.threads
        if total % block.threads == 0 and padded(shape) == shape and 0 < rounds <= COPIES_WRITTEN_OUT:
            item, last = item_bytes(source.type.element), len(shape) - 1
            sides = [
                Access(shape, item, each.type.row_strides, each.bounds, last, piece)
                for each in (source, target)
            ]
            layout, start = sides[0].layout(block.threads), [constant(i64, 0)] * len(shape)
            if target.space == "shared":
                place = Storage(target.type.row_strides, last, target.type.extent, item)
                layout = with_banks_apart(layout, place, piece)
            for register in range(0, layout.registers, piece):
                read, write = (
                    self.found(kind, *self._place(side, each, start, layout, register))
                    for side, each in zip(sides, (source, target), strict=True)
                )
                move(read, write, self._inside(sides[0], source.starts, layout, register))
            if background:
                b.intrinsic("llvm.nvvm.cp.async.commit.group", "void", overload=())
            return
        if not total:
            return
        with b.loop(b.zext(block.thread, i64), constant(i64, total), block.threads) as loop, block.branch():
            position = b.mul(loop.index, piece)
            coordinates: list[Value] = []
            for size in reversed(shape):
                coordinates.insert(0, b.urem(position, size))
                position = b.udiv(position, size)
            inside: Value | bool = True
            for bound in source.bounds:
                at = source.starts[bound.dimension]
                at = b.add(at, coordinates[bound.along]) if bound.along is not None else at
                inside = block.both(inside, b.icmp("ult", at, bound.size))
            move(self.offset(source, coordinates), self.offset(target, coordinates), inside)
        if background:
            b.intrinsic("llvm.nvvm.cp.async.commit.group", "void", overload=())

    def wait(self, unfinished: int) -> None:
        """Waits until all asynchronous copies of the block except the last `unfinished` groups are complete and
        visible."""
        number = constant(i32, unfinished)
        self.b.intrinsic("llvm.nvvm.cp.async.wait.group", "void", number, overload=())
        self.block.barrier()


def common_piece(a: MemRefType, c: MemRefType, aligned: int) -> int:
    """How many elements, at most 16 bytes, one access can copy between two buffers whose addresses are multiples of
    `aligned` elements."""
    widest = WIDEST // item_bytes(a.element)
    if not a.shape or a.row_strides[-1] != 1 or c.row_strides[-1] != 1:
        return 1
    common = gcd(aligned, a.shape[-1], widest, *a.row_strides[:-1], *c.row_strides[:-1])
    return common & -common


def _wide(b: Instructions, value: Value) -> Value:
    return b.sext(value, i64) if value.type == i32 else value
