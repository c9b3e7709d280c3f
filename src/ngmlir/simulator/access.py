# SPDX-License-Identifier: Apache-2.0
"""Loads, stores and atomic operations in every state space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from .decoding import Elementwise, Reader, Step, address, decodes, reader, writer
from .fences import reaches_blocks
from .formats import FORMATS, STORAGE
from .frame import Frame
from .mbarriers import show_to_copies
from .memory import BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from .program import Instruction, Operand, Sink, Vector
from .registers import Slots, Threads

Array = np.ndarray


class Space(Protocol):
    """Translates addresses: returns the memory as words of `item` bytes, and the index of each thread's first word."""

    def __call__(
        self, frame: Frame, threads: Threads, where: Array, item: int, count: int, use: str, at: Instruction
    ) -> tuple[Array, Array]: ...


def _misaligned(frame: Frame, threads: Threads, where: Array, size: int, space: str, at: Instruction) -> None:
    if int(np.bitwise_or.reduce(where)) & (size - 1):
        thread = int(frame.threads(threads)[(where & (size - 1)) != 0][0])
        address = int(where[frame.threads(threads) == thread][0])
        frame.fault("misaligned", f"{size}-byte access of {space} address {address:#x}", at, thread)


def global_space(
    frame: Frame, threads: Threads, where: Array, item: int, count: int, use: str, at: Instruction
) -> tuple[Array, Array]:
    memory, size = frame.memory, item * count
    offset = where - BASE
    _misaligned(frame, threads, where, size, "global", at)
    low, high = int(offset.min()), int(offset.max())
    region = memory.find(low)
    if region is None or high + size > region.end:
        bad = memory.outside(offset, size)
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            thread = int(frame.threads(threads)[first])
            frame.fault("out of bounds", f"global address {int(where[first]):#x}", at, thread)
    elif use != "read" and not region.writable:
        frame.fault("read-only", "constant memory is written", at, int(frame.threads(threads)[0]))
    if frame.counters is not None and use != "none":
        frame.counters.globally(frame.warp_of[threads], offset, size, use == "write")
    if frame.traffic is not None and use != "none":
        frame.note_global(frame.threads(threads), offset, size, use, at)
    return memory.words(item), offset // item


def shared_space(
    frame: Frame, threads: Threads, where: Array, item: int, count: int, use: str, at: Instruction
) -> tuple[Array, Array]:
    size = item * count
    _misaligned(frame, threads, where, size, "shared", at)
    limit = frame.shape.shared_bytes - size
    if int(where.min()) < 0 or int(where.max()) > limit:
        first = int(np.flatnonzero((where < 0) | (where > limit))[0])
        message = f"shared address {int(where[first]):#x} of {frame.shape.shared_bytes:#x} bytes"
        frame.fault("out of bounds", message, at, int(frame.threads(threads)[first]))
    place = where + frame.shared_base[threads]
    if frame.counters is not None and use != "none":
        frame.counters.in_shared(frame.warp_of[threads], frame.lane[threads], where, size)
    if frame.shadow is not None and use != "none":
        running = frame.threads(threads)
        if use in ("read", "drain"):
            source = frame.shadow.store_source(int(frame.warp_of[running[0]])) if use == "drain" else None
            frame.shadow.read(running, place, size, at, source)
        else:
            frame.shadow.write(running, place, size, at, atomic=use == "atomic", proxy=use == "fill")
    return frame.shared.view(f"u{item}"), place // item


def local_space(
    frame: Frame, threads: Threads, where: Array, item: int, count: int, use: str, at: Instruction
) -> tuple[Array, Array]:
    size, extent = item * count, frame.shape.local_bytes
    _misaligned(frame, threads, where, size, "local", at)
    if int(where.min()) < 0 or int(where.max()) + size > extent:
        first = int(np.flatnonzero((where < 0) | (where + size > extent))[0])
        frame.fault(
            "out of bounds", f"local address {int(where[first]):#x}", at, int(frame.threads(threads)[first])
        )
    return frame.local.view(f"u{item}"), (where + frame.threads(threads) * extent) // item


def param_space(
    frame: Frame, threads: Threads, where: Array, item: int, count: int, use: str, at: Instruction
) -> tuple[Array, Array]:
    size = item * count
    _misaligned(frame, threads, where, size, "param", at)
    if use != "read":
        frame.fault("read-only", "a kernel parameter is written", at, int(frame.threads(threads)[0]))
    if int(where.min()) < 0 or int(where.max()) + size > len(frame.parameters):
        frame.fault("out of bounds", "beyond the kernel's parameters", at, int(frame.threads(threads)[0]))
    return frame.parameters.view(f"u{item}"), where // item


_SPACES: dict[str, Space] = {
    "global": global_space,
    "const": global_space,
    "shared": shared_space,
    "local": local_space,
    "param": param_space,
}
_WINDOWS: tuple[tuple[int, Space], ...] = (
    (SHARED_WINDOW, shared_space),
    (LOCAL_WINDOW, local_space),
    (PARAM_WINDOW, param_space),
)


def split_generic(frame: Frame, threads: Threads, where: Array) -> list[tuple[Space, Array, Array]]:
    """Generic addresses grouped by the state space that contains them: (space, running threads, addresses in the
    space)."""
    running = frame.threads(threads)
    window = where // WINDOW_BYTES
    parts: list[tuple[Space, Array, Array]] = []
    rest = np.ones(len(where), np.bool_)
    for start, space in _WINDOWS:
        inside = window == start // WINDOW_BYTES
        if inside.any():
            parts.append((space, running[inside], where[inside] - start))
            rest &= ~inside
    if rest.any():
        parts.append((global_space, running[rest], where[rest]))
    return parts


def space_of(instruction: Instruction) -> Space | None:
    """The state space in the opcode; None for generic addresses."""
    for modifier in instruction.modifiers:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            return _SPACES[name]
    return None


def _in_space(
    instruction: Instruction, where: Reader, act: Callable[[Frame, Threads, Array, Space], None]
) -> Step:
    """A step that calls `act` for the state space in the opcode, or for each space that generic addresses are in."""
    space = space_of(instruction)
    if space is not None:
        return lambda frame, threads: act(frame, threads, where(frame, threads), space)

    def generic(frame: Frame, threads: Threads) -> None:
        for part, running, at in split_generic(frame, threads, where(frame, threads)):
            act(frame, running, at, part)

    return generic


def _count(instruction: Instruction) -> int:
    return next((int(m[1]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@decodes("ld", "ldu")
def _load(slots: Slots, instruction: Instruction) -> Step:
    kind = instruction.type
    dtype, lanes = STORAGE[kind]
    item, count = dtype.itemsize * lanes, _count(instruction)
    unit = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{item}")
    bits = f"{'s' if unit.kind == 'i' else 'b'}{8 * item}"
    where = address(slots, instruction, instruction.operands[1])
    writes = [writer(slots, instruction, o, bits) for o in _items(instruction.operands[0])]

    def load(frame: Frame, threads: Threads, at: Array, part: Space) -> None:
        words, index = part(frame, threads, at, item, count, "read", instruction)
        if unit.kind == "i":
            words = words.view(unit)
        for number, write in enumerate(writes):
            write(frame, threads, words[index + number] if number else words[index])

    return _in_space(instruction, where, load)


@decodes("st")
def _store(slots: Slots, instruction: Instruction) -> Step:
    dtype, lanes = STORAGE[instruction.type]
    item, count = dtype.itemsize * lanes, _count(instruction)
    where = address(slots, instruction, instruction.operands[0])
    reads = [reader(slots, instruction, o, f"b{8 * item}") for o in _items(instruction.operands[1])]

    def store(frame: Frame, threads: Threads, at: Array, part: Space) -> None:
        words, index = part(frame, threads, at, item, count, "write", instruction)
        for number, read in enumerate(reads):
            value, place = read(frame, threads), index + number
            words[place] = value
            if frame.shadow is not None and part is shared_space and not _same(words[place], value):
                message = "lanes of one warp write different values to one place"
                frame.fault("race", message, instruction, int(frame.threads(threads)[0]))

    return _in_space(instruction, where, store)


def _same(stored: Array, written: Array) -> bool:
    """Whether memory holds what each thread wrote, bit for bit."""
    return bool((stored == np.ascontiguousarray(written).view(stored.dtype).reshape(stored.shape)).all())


# ---- atomic operations

_OPERATIONS: dict[str, Elementwise] = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "min": np.minimum, "max": np.maximum,
    "exch": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype),
}  # fmt: skip


@decodes("atom", "red")
def _atomic(slots: Slots, instruction: Instruction) -> Step:
    """Threads with the same address act sequentially, in the order of their numbers."""
    operands = list(instruction.operands)
    if instruction.head == "red":
        operands.insert(0, Sink())
    name = next((m for m in instruction.modifiers if m in _OPERATIONS), None)
    kind = instruction.type
    if name is None or isinstance(operands[0], Vector):
        raise slots.limit(instruction)
    dtype, lanes = STORAGE[kind]
    item = dtype.itemsize * lanes
    where = address(slots, instruction, operands[1])
    count = _count(instruction)
    reads = [reader(slots, instruction, o, kind) for operand in operands[2:] for o in _items(operand)]
    write = writer(slots, instruction, operands[0], f"b{8 * item}")
    target = FORMATS.get(kind)
    plain: Callable[..., Array] = _OPERATIONS[name]

    def combine(old: Array, *operands: Array) -> Array:
        if target is None or target.direct:
            return plain(old, *operands)
        return target.encode(plain(target.decode(old), *(target.decode(v) for v in operands)))

    unit = f"u{item}"

    def act(frame: Frame, threads: Threads, at: Array, part: Space) -> None:
        words, first = part(frame, threads, at, item, count, "atomic", instruction)
        for number in range(count) if count > 1 else ():
            one(frame, threads, words, first + number, reads[number : number + 1])
        if count == 1:
            write(frame, threads, one(frame, threads, words, first, reads))

    def one(frame: Frame, threads: Threads, words: Array, index: Array, reads: Sequence[Reader]) -> Array:
        values = [np.broadcast_to(read(frame, threads), (len(index), *_lanes(lanes))) for read in reads]
        old = np.empty(len(index), unit)
        for turn in _turns(index):
            before = words[index[turn]]
            old[turn] = before
            current = before.view(dtype).reshape(-1, *_lanes(lanes))
            after = np.ascontiguousarray(combine(current, *[value[turn] for value in values]), dtype)
            words[index[turn]] = after.view(unit).reshape(-1)
        return old

    return _in_space(instruction, where, act)


def _lanes(lanes: int) -> tuple[int, ...]:
    return (lanes,) if lanes > 1 else ()


def _turns(index: Array) -> list[Array]:
    """Indices in groups of distinct addresses: the first at each address, then the second, ..."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    lengths = np.diff(np.r_[starts, len(ordered)])
    rank = np.arange(len(ordered)) - np.repeat(starts, lengths)
    if rank.max(initial=0) == 0:
        return [order]
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max()) + 2))
    return [order[by_rank[a:b]] for a, b in pairwise(bounds)]


@decodes("prefetch", "prefetchu", "applypriority", "createpolicy")
def _hint(slots: Slots, instruction: Instruction) -> Step:
    return lambda frame, threads: None


@decodes("griddepcontrol", "nanosleep", "pmevent")
def _nothing(slots: Slots, instruction: Instruction) -> Step:
    return lambda frame, threads: None


@decodes("trap", "brkpt")
def _trap(slots: Slots, instruction: Instruction) -> Step:
    def stop(frame: Frame, threads: Threads) -> None:
        frame.fault("trap", "the kernel gives up", instruction, int(frame.threads(threads)[0]))

    return stop


@decodes("fence", "membar")
def _fence(slots: Slots, instruction: Instruction) -> Step:
    """Fences between proxies, and between blocks. Memory is sequentially consistent here, so other fences have no
    effect."""
    if reaches_blocks(instruction):
        return lambda frame, threads: frame.fence(threads)
    if "mbarrier_init" in instruction.modifiers:
        return show_to_copies
    if instruction.opcode.startswith("fence.proxy.async"):

        def fence(frame: Frame, threads: Threads) -> None:
            if frame.shadow is not None:
                frame.shadow.fence(frame.threads(threads))

        return fence
    return _nothing(slots, instruction)
