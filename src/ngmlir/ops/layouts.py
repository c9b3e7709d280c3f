# SPDX-License-Identifier: Apache-2.0
"""Linear layouts: which thread of a block holds which element of a tile, and in which register.

A layout is a linear map over bits. Each bit of the register number, of the lane and of the warp has a basis:
the tile coordinates that change when that bit changes. The element held in register r by lane l of warp w is
the exclusive or of the bases of all bits that are 1. A zero basis means copies: both values of the bit hold
the same element. Shapes are powers of two; a tile of another size has the layout of the next larger shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

Basis: TypeAlias = tuple[int, ...]

LANE_BITS = 5


def padded(shape: Iterable[int]) -> tuple[int, ...]:
    """The shape with every dimension rounded up to a power of two."""
    return tuple(1 << max(0, size - 1).bit_length() for size in shape)


def thread_bits(threads: int) -> int:
    """Bits of the numbers of the threads that divide a tile: of the greatest power of two of them."""
    return threads.bit_length() - 1


def copied_bits(threads: int) -> int:
    """1 if there are more threads than these: the others hold copies."""
    return (threads - 1).bit_length() - thread_bits(threads)


def everywhere(threads: int) -> Layout:
    """The layout of a scalar: every thread holds it."""
    return Layout((), (), ((),) * (threads - 1).bit_length())


def _xor(a: Basis, b: Basis) -> Basis:
    return tuple(x ^ y for x, y in zip(a, b, strict=True))


def _combined(bases: Sequence[Basis], number: int, rank: int) -> Basis:
    out = (0,) * rank
    for bit, basis in enumerate(bases):
        if number >> bit & 1:
            out = _xor(out, basis)
    return out


@dataclass(frozen=True)
class Layout:
    """`thread` has the bases of the lane bits, then of the warp bits: those of the thread number."""

    shape: tuple[int, ...]
    register: tuple[Basis, ...]
    thread: tuple[Basis, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def lane(self) -> tuple[Basis, ...]:
        return self.thread[:LANE_BITS]

    @property
    def warp(self) -> tuple[Basis, ...]:
        return self.thread[LANE_BITS:]

    @property
    def registers(self) -> int:
        """How many elements each thread holds."""
        return 1 << len(self.register)

    @property
    def threads(self) -> int:
        return 1 << len(self.thread)

    @cached_property
    def held(self) -> tuple[Basis, ...]:
        """The coordinates of each register of thread 0; those of thread t are these, xor `of_thread(t)`."""
        return tuple(_combined(self.register, r, self.rank) for r in range(self.registers))

    def part(self, warps: bool = False) -> Basis:
        """The size, along each dimension, of the part of the tile that a thread holds, or a warp."""
        bases = (*self.register, *self.lane) if warps else self.register
        return tuple(1 << sum(1 for basis in bases if basis[d]) for d in range(self.rank))

    def of_thread(self, thread: int) -> Basis:
        return _combined(self.thread, thread, self.rank)

    def at(self, register: int, thread: int) -> Basis:
        """The coordinates of one element."""
        return _xor(self.held[register], self.of_thread(thread))

    @property
    def copies(self) -> int:
        """The thread bits with zero bases, as a mask: threads that differ only in these hold the same elements."""
        return sum(1 << bit for bit, basis in enumerate(self.thread) if not any(basis))

    @property
    def separate(self) -> bool:
        """Whether each bit changes one coordinate only."""
        return all(sum(map(bool, basis)) <= 1 for basis in (*self.register, *self.thread))

    def run(self, dimension: int) -> int:
        """How many consecutive elements along `dimension` are in consecutive registers, aligned to their number."""
        bits = 0
        while bits < len(self.register) and self.register[bits] == _unit(dimension, bits, self.rank):
            bits += 1
        others = [basis[dimension] for basis in (*self.register[bits:], *self.thread)]
        while any(value % (1 << bits) for value in others):
            bits -= 1
        return 1 << bits

    # How ops change layouts

    def drop(self, dimensions: Iterable[int]) -> Layout:
        """The layout of the tile without these dimensions, as after a reduction, with one register per element."""
        gone = set(dimensions)
        kept = [d for d in range(self.rank) if d not in gone]

        def project(bases: Sequence[Basis]) -> tuple[Basis, ...]:
            return tuple(tuple(basis[d] for d in kept) for basis in bases)

        register = tuple(basis for basis in project(self.register) if any(basis))
        return Layout(tuple(self.shape[d] for d in kept), register, project(self.thread))

    def spread(self, places: Sequence[int], shape: Sequence[int]) -> Layout:
        """The layout of a tile with more dimensions, which are in registers; dimension i becomes `places[i]` of `shape`."""

        def move(bases: Sequence[Basis]) -> tuple[Basis, ...]:
            out: list[Basis] = []
            for basis in bases:
                wide = [0] * len(shape)
                for place, value in zip(places, basis, strict=True):
                    wide[place] = value
                out.append(tuple(wide))
            return tuple(out)

        new = tuple(
            _unit(d, bit, len(shape))
            for d in reversed(range(len(shape)))
            if d not in places
            for bit in range(shape[d].bit_length() - 1)
        )
        return Layout(tuple(shape), move(self.register) + new, move(self.thread))

    def transpose(self, permutation: Sequence[int]) -> Layout:
        """The layout of the tile whose dimension i is dimension permutation[i] of this one."""

        def move(bases: Sequence[Basis]) -> tuple[Basis, ...]:
            return tuple(tuple(basis[d] for d in permutation) for basis in bases)

        return Layout(tuple(self.shape[d] for d in permutation), move(self.register), move(self.thread))

    def reshape(self, shape: Sequence[int]) -> Layout:
        """The layout of the same elements, in row-major order, in another shape (all sizes powers of two)."""
        assert prod(shape) == prod(self.shape)

        def move(bases: Sequence[Basis]) -> tuple[Basis, ...]:
            return tuple(_split(_flat(basis, self.shape), shape) for basis in bases)

        return Layout(tuple(shape), move(self.register), move(self.thread))


def _unit(dimension: int, bit: int, rank: int) -> Basis:
    return tuple(1 << bit if d == dimension else 0 for d in range(rank))


def _flat(basis: Basis, shape: Sequence[int]) -> int:
    out = 0
    for value, size in zip(basis, shape, strict=True):
        out = out * size + value
    return out


def _split(position: int, shape: Sequence[int]) -> Basis:
    out: list[int] = []
    for size in reversed(shape):
        out.append(position % size)
        position //= size
    return tuple(reversed(out))


# ---- making layouts


class _Filler:
    """Assigns the bits of each dimension from the lowest up."""

    def __init__(self, shape: Sequence[int]):
        self.shape = shape
        self.left = [size.bit_length() - 1 for size in shape]
        self.used = [0] * len(shape)

    def take(self, dimension: int) -> Basis | None:
        if self.left[dimension] == 0:
            return None
        basis = _unit(dimension, self.used[dimension], len(self.shape))
        self.left[dimension] -= 1
        self.used[dimension] += 1
        return basis

    def first(self, dimensions: Iterable[int]) -> Basis:
        """The next bit of the first dimension that has one left; zero if the whole tile is assigned."""
        for dimension in dimensions:
            basis = self.take(dimension)
            if basis is not None:
                return basis
        return (0,) * len(self.shape)

    def rest(self, dimensions: Iterable[int]) -> list[Basis]:
        """All remaining bits."""
        bases: list[Basis] = []
        for dimension in dimensions:
            while (basis := self.take(dimension)) is not None:
                bases.append(basis)
        return bases


def blocked(
    shape: Sequence[int], threads: int, vector: int = 1, order: Sequence[int] | None = None
) -> Layout:
    """A layout for memory accesses: `order` lists the dimensions from the fastest-varying in memory to the slowest.

    Each thread holds `vector` adjacent elements, a warp covers the fastest dimension, so that it reads or writes
    whole cache lines; the warps divide the others, so that a reduction along the fastest needs no shared memory.
    """
    shape = padded(shape)
    order = list(order) if order is not None else list(reversed(range(len(shape))))
    fill = _Filler(shape)
    register: list[Basis] = []
    if order:
        vector = min(vector, shape[order[0]], max(1, prod(shape) >> thread_bits(threads)))
        register += [
            basis for _ in range(vector.bit_length() - 1) if (basis := fill.take(order[0])) is not None
        ]
    lane = [fill.first(order) for _ in range(LANE_BITS)]
    warp = [fill.first([*order[1:], *order[:1]]) for _ in range(thread_bits(threads) - LANE_BITS)]
    register += fill.rest(order)
    spare = [(0,) * len(shape)] * copied_bits(threads)
    return Layout(shape, tuple(register), tuple(lane + warp + spare))


def product_blocks(shape: Sequence[int], threads: int) -> Layout:
    """A layout for sums of outer products: a thread holds a block of rows and columns, as square as possible."""
    shape = padded(shape)
    fill = _Filler(shape)
    per_thread = max(1, prod(shape) >> thread_bits(threads))
    bits = per_thread.bit_length() - 1
    columns = min(2, (bits + 1) // 2)
    register = [fill.first((1, 0)) for _ in range(columns)]
    register += [fill.first((0, 1)) for _ in range(min(2, bits - columns))]
    thread: list[Basis] = []
    for bit in range(thread_bits(threads)):
        # Lanes 8 x 4, then warps alternately: the operands of a warp overlap as much as they can.
        thread.append(fill.first((1, 0) if bit < 3 or (bit >= LANE_BITS and bit % 2 == 0) else (0, 1)))
    register += fill.rest((1, 0))
    thread += [(0, 0)] * copied_bits(threads)
    return Layout(shape, tuple(b for b in register if any(b)), tuple(thread))


class MatrixLayouts(NamedTuple):
    """The layouts of the operands and the accumulator of one product."""

    lhs: Layout
    rhs: Layout
    accumulator: Layout


def matrix_fragments(rows: int, columns: int, depth: int, threads: int, item: int = 2) -> MatrixLayouts:
    """Layouts for `mma.sync` of elements of `item` bytes, 16 rows by 8 columns by 32 bytes of depth: registers cover one
    fragment first, then fragments along K, N and M. A word of 4 bytes contains adjacent elements along the depth."""
    word = 4 // item
    extra = [(0, 8 << i) for i in range((columns // 8).bit_length() - 1)]
    extra_rows = [(16 << i, 0) for i in range((rows // 16).bit_length() - 1)]
    warp: list[Basis] = []
    for _ in range(thread_bits(threads) - LANE_BITS):
        # Warps divide the larger side, which keeps their operands small.
        source = extra_rows if len(extra_rows) >= len(extra) else extra
        warp.append(source.pop() if source else (0, 0))
    inside = [1 << i for i in range(word.bit_length() - 1)]
    steps = [8 * word << i for i in range((depth // (8 * word)).bit_length() - 1)]
    across = tuple((1 << i, 0) for i in range(3))
    spare = ((0, 0),) * copied_bits(threads)
    accumulator = Layout(
        (rows, columns),
        ((0, 1), (8, 0), *extra, *extra_rows),
        ((0, 2), (0, 4), *across, *warp, *spare),
    )
    lhs = Layout(
        (rows, depth),
        (*((0, k) for k in inside), (8, 0), (0, 4 * word), *((0, k) for k in steps), *extra_rows),
        ((0, word), (0, 2 * word), *across, *((m, 0) for m, _ in warp), *spare),
    )
    rhs = Layout(
        (depth, columns),
        (*((k, 0) for k in inside), (4 * word, 0), *((k, 0) for k in steps), *extra),
        ((word, 0), (2 * word, 0), *((0, 1 << i) for i in range(3)), *((0, n) for _, n in warp), *spare),
    )
    return MatrixLayouts(lhs, rhs, accumulator)


# ---- from one layout to another


class Source(NamedTuple):
    """The source of a value: a register number and a mask to xor with the thread's lane number."""

    register: int
    lane: int


@dataclass(frozen=True)
class Plan:
    """A conversion within warps: the source of register r of the target is `registers[r]` xor `threads[i]` for each
    bit i of the thread number that is 1."""

    registers: tuple[Source, ...]
    threads: tuple[Source, ...]

    @property
    def variants(self) -> tuple[int, ...]:
        """The register numbers by which threads differ; (0,) if all threads read the same register."""
        found = {0}
        for source in self.threads:
            found |= {number ^ source.register for number in found}
        return tuple(sorted(found))

    @property
    def moves(self) -> bool:
        """Whether values cross lanes."""
        return any(source.lane for source in (*self.registers, *self.threads))

    @property
    def cost(self) -> int:
        """Instructions per thread, approximately."""
        return len(self.registers) * len(self.variants) * (1 + self.moves)


def conversion(source: Layout, target: Layout) -> Plan | None:
    """How each thread finds the elements of `target` within its own warp; None if they are in other warps."""
    assert source.shape == target.shape
    solve = _Solver(source)
    registers = [solve(basis) for basis in target.register]
    threads = [solve(_xor(a, b)) for a, b in zip(target.thread, source.thread, strict=True)]
    if any(found is None for found in (*registers, *threads)):
        return None
    every: list[Source] = []
    for number in range(target.registers):
        register = lane = 0
        for bit, found in enumerate(registers):
            if number >> bit & 1 and found is not None:
                register, lane = register ^ found.register, lane ^ found.lane
        every.append(Source(register, lane))
    return Plan(tuple(every), tuple(found for found in threads if found is not None))


class _Solver:
    """Expresses coordinates as a combination of the register and lane bases, with as few lanes as possible."""

    def __init__(self, layout: Layout):
        self.shape = layout.shape
        self.rows: list[tuple[int, int, int]] = []  # (reduced position, register bits, lane bits)
        for bit, basis in enumerate(layout.register):
            self._enter(basis, 1 << bit, 0)
        for bit, basis in enumerate(layout.lane):
            self._enter(basis, 0, 1 << bit)

    def _reduce(self, position: int, register: int, lane: int) -> tuple[int, int, int]:
        for row, r, m in self.rows:
            if position ^ row < position:
                position, register, lane = position ^ row, register ^ r, lane ^ m
        return position, register, lane

    def _enter(self, basis: Basis, register: int, lane: int) -> None:
        row = self._reduce(_flat(basis, self.shape), register, lane)
        if row[0]:
            self.rows.append(row)
            self.rows.sort(reverse=True)

    def __call__(self, basis: Basis) -> Source | None:
        position, register, lane = self._reduce(_flat(basis, self.shape), 0, 0)
        return Source(register, lane) if position == 0 else None
