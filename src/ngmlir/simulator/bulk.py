# SPDX-License-Identifier: Apache-2.0
"""Bulk copies (TMA): whole tiles between global and shared memory, completed by an mbarrier or in groups.

A load poisons its destination at issue, and its data arrives when nothing else can run (or, with a seed, at a random
time). A store reads shared memory when its group is waited for, as late as the hardware may. Tensor maps have the
project's own format of 128 bytes here: the driver's encoding is not public.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .access import shared_space
from .decoding import Step, address, reader
from .frame import BulkStore, Frame
from .mbarriers import check_shown, complete_bytes, keys_of
from .memory import BASE, PARAM_WINDOW
from .program import Address, Instruction, Integer
from .registers import Slots, Threads
from .wgmma import swizzled

Array = np.ndarray

_MAP = struct.Struct("<8sQBBH5I4Q5H")
_MAGIC = b"ngtensor"


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory, innermost dimension first, and the box that one copy transfers.

    `strides` are the strides of dimension 1, 2, ... in bytes; `swizzle` is 0, 32, 64 or 128.
    """

    address: int
    item: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    def encode(self) -> bytes:
        """The 128 bytes that a kernel takes by value."""
        rank = len(self.shape)
        rest = (0,) * (5 - rank)
        data = _MAP.pack(
            _MAGIC, self.address, self.item, rank, self.swizzle,
            *self.shape, *rest, *self.strides, *rest, *self.box, *rest,
        )  # fmt: skip
        return data.ljust(128, b"\0")

    @staticmethod
    def decode(data: bytes) -> TensorMap | None:
        magic, where, item, rank, swizzle, *numbers = _MAP.unpack(data[: _MAP.size])
        if magic != _MAGIC:
            return None
        shape, strides, box = numbers[:rank], numbers[5 : 5 + rank - 1], numbers[9 : 9 + rank]
        return TensorMap(where, item, tuple(shape), tuple(strides), tuple(box), swizzle)

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.box)) * self.item

    def places(self, corner: Sequence[int]) -> tuple[Array, Array]:
        """Offsets in the store of each element of the box, outermost dimension first; and which elements are inside the
        tensor."""
        total = np.zeros((1,) * len(self.box), np.int64)
        exists = np.ones(total.shape, np.bool_)
        strides = (self.item, *self.strides)
        for number, (extent, length, first) in enumerate(zip(self.box, self.shape, corner, strict=True)):
            along = (-1,) + (1,) * number
            index = (np.arange(extent) + first).reshape(along)
            total = total + index * strides[number]
            exists = exists & (index >= 0) & (index < length)
        return (self.address - BASE + total).reshape(-1), np.broadcast_to(exists, total.shape).reshape(-1)


def decode_bulk(slots: Slots, instruction: Instruction) -> Step:
    """cp.async.bulk in all its forms."""
    modifiers = instruction.modifiers
    if "reduce" in modifiers:
        raise slots.limit(instruction, "bulk copies that reduce are not simulated")
    if "commit_group" in modifiers:

        def commit(frame: Frame, threads: Threads) -> None:
            frame.bulk_group[threads] += 1

        return commit
    if "wait_group" in modifiers:
        return _wait(slots, instruction)
    if "prefetch" in modifiers:
        return lambda frame, threads: None
    if {"multicast::cluster", "im2col"} & set(modifiers):
        raise slots.limit(instruction)
    to_shared = modifiers.index("global") > next(n for n, m in enumerate(modifiers) if m.startswith("shared"))
    if "tensor" in modifiers:
        return _tensor_load(slots, instruction) if to_shared else _tensor_store(slots, instruction)
    if to_shared:
        return _plain_load(slots, instruction)
    raise slots.limit(instruction)


def _tensor_map(
    slots: Slots, instruction: Instruction, operand: Address
) -> Callable[[Frame, int], TensorMap]:
    """The tensor map of one thread, from the kernel's parameters or global memory."""
    where = address(slots, instruction, Address(operand.base, operand.offset))

    def find(frame: Frame, thread: int) -> TensorMap:
        place = int(where(frame, np.array([thread]))[0])
        if place >= BASE:
            data = frame.memory.store[place - BASE : place - BASE + 128]
        else:
            start = place - PARAM_WINDOW if place >= PARAM_WINDOW else place
            data = frame.parameters[start : start + 128]
        found = TensorMap.decode(data.tobytes()) if len(data) == 128 else None
        if found is None:
            frame.fault("out of bounds", "there is no tensor map", instruction, thread)
        return found

    return find


def _corner(slots: Slots, instruction: Instruction, operand: Address) -> Callable[[Frame, int], list[int]]:
    reads = [reader(slots, instruction, c, "s32") for c in operand.coordinates]
    return lambda frame, thread: [int(read(frame, np.array([thread]))[0]) for read in reads]


def _reserve(frame: Frame, thread: int, where: int, size: int, instruction: Instruction) -> int:
    """Marks `size` bytes of shared memory as the destination of a copy in flight; returns their offset in the batch."""
    if where % 16 or size % 16:
        frame.fault("misaligned", "a bulk copy needs multiples of 16 bytes", instruction, thread)
    chunks = where + 16 * np.arange(size // 16)
    running = np.full(len(chunks), thread)
    _, index = shared_space(frame, running, chunks, 1, 16, "fill", instruction)
    frame.shared[index[0] : index[0] + size] = 0xFF
    if frame.shadow is not None:
        frame.shadow.issued(index, 16)
    return int(index[0])


def _touch(
    frame: Frame,
    thread: int,
    offsets: Array,
    size: int,
    use: Literal["read", "write"],
    instruction: Instruction,
) -> None:
    """Records and counts the reads or writes of global memory by one copy; they are one request."""
    if len(offsets):
        running = np.full(len(offsets), thread)
        frame.note_global(running, offsets, size, use, instruction)
        if frame.counters is not None:
            frame.counters.globally(frame.warp_of[running], offsets, size, use == "write")


def _land(frame: Frame, place: int, data: Array, key: int) -> None:
    frame.shared[place : place + len(data)] = data
    if frame.shadow is not None:
        frame.shadow.delivered(place, len(data), key)


def _plain_load(slots: Slots, instruction: Instruction) -> Step:
    """[shared], [global], bytes, [mbarrier]"""
    target, source, size, barrier = instruction.operands[:4]
    to, start, bar = (address(slots, instruction, o) for o in (target, source, barrier))
    length = reader(slots, instruction, size, "u32")

    def step(frame: Frame, threads: Threads) -> None:
        keys = keys_of(frame, threads, bar(frame, threads), instruction)
        running = frame.threads(threads).tolist()
        columns = (to(frame, threads), start(frame, threads), length(frame, threads), keys)
        for thread, where, begin, count, key in zip(running, *(c.tolist() for c in columns), strict=True):
            check_shown(frame, key, thread, instruction)
            if begin % 16:
                frame.fault("misaligned", "a bulk copy starts at a multiple of 16", instruction, thread)
            if frame.memory.outside(np.array([begin - BASE]), count)[0]:
                frame.fault("out of bounds", f"global address {begin:#x}", instruction, thread)
            chunks = begin - BASE + 16 * np.arange(count // 16)
            _touch(frame, thread, chunks, 16, "read", instruction)
            place = _reserve(frame, thread, where, count, instruction)
            frame.events.append(_plain_event(frame, place, begin - BASE, count, key, instruction, thread))

    return step


def _plain_event(
    frame: Frame, place: int, begin: int, count: int, key: int, instruction: Instruction, thread: int
) -> Callable[[], None]:
    def event() -> None:
        _land(frame, place, frame.memory.store[begin : begin + count], key)
        complete_bytes(frame, key, count, instruction, thread)

    return event


def _tensor_load(slots: Slots, instruction: Instruction) -> Step:
    """[shared], [map, {coordinates}], [mbarrier]"""
    target, source, barrier = instruction.operands[:3]
    if not isinstance(source, Address):
        raise slots.wrong(instruction, "expected [map, {coordinates}]")
    to, bar = (address(slots, instruction, o) for o in (target, barrier))
    tensor_map, corner = _tensor_map(slots, instruction, source), _corner(slots, instruction, source)

    def step(frame: Frame, threads: Threads) -> None:
        keys = keys_of(frame, threads, bar(frame, threads), instruction).tolist()
        running = frame.threads(threads).tolist()
        for thread, where, key in zip(running, to(frame, threads).tolist(), keys, strict=True):
            check_shown(frame, key, thread, instruction)
            tensor = tensor_map(frame, thread)
            if where % 128:
                frame.fault("misaligned", "a tile must lie at a multiple of 128 bytes", instruction, thread)
            place = _reserve(frame, thread, where, tensor.box_bytes, instruction)
            frame.events.append(
                _tile_event(frame, tensor, corner(frame, thread), place, key, instruction, thread)
            )

    return step


def _tile_event(
    frame: Frame,
    tensor: TensorMap,
    corner: list[int],
    place: int,
    key: int,
    instruction: Instruction,
    thread: int,
) -> Callable[[], None]:
    def event() -> None:
        sources, exists = tensor.places(corner)
        _touch(frame, thread, sources[exists], tensor.item, "read", instruction)
        octets = np.where(exists, sources, 0)[:, None] + np.arange(tensor.item)
        data = np.where(exists[:, None], frame.memory.store[octets], 0).reshape(-1)
        tile = np.empty_like(data)
        base = place % frame.shape.shared_span
        tile[swizzled(base + np.arange(len(data)), tensor.swizzle) - base] = data
        _land(frame, place, tile, key)
        complete_bytes(frame, key, len(data), instruction, thread)

    return event


def _tensor_store(slots: Slots, instruction: Instruction) -> Step:
    """[map, {coordinates}], [shared]"""
    target, source = instruction.operands[:2]
    if not isinstance(target, Address):
        raise slots.wrong(instruction, "expected [map, {coordinates}]")
    start = address(slots, instruction, source)
    tensor_map, corner = _tensor_map(slots, instruction, target), _corner(slots, instruction, target)

    def step(frame: Frame, threads: Threads) -> None:
        for thread, where in zip(
            frame.threads(threads).tolist(), start(frame, threads).tolist(), strict=True
        ):
            tensor = tensor_map(frame, thread)
            chunks = where + 16 * np.arange(tensor.box_bytes // 16)
            moment = frame.shadow.now + 1 if frame.shadow is not None else 0
            _, index = shared_space(frame, np.full(len(chunks), thread), chunks, 1, 16, "drain", instruction)
            store = _store_event(frame, tensor, corner(frame, thread), int(index[0]), instruction, thread)
            frame.bulk_stores.append(
                BulkStore(thread, int(frame.bulk_group[thread]), moment, store, instruction)
            )

    return step


def _store_event(
    frame: Frame, tensor: TensorMap, corner: list[int], place: int, instruction: Instruction, thread: int
) -> Callable[[], None]:
    base = place % frame.shape.shared_span
    order = swizzled(base + np.arange(tensor.box_bytes), tensor.swizzle) - base + place

    def event() -> None:
        targets, exists = tensor.places(corner)
        data = frame.shared[order].reshape(-1, tensor.item)
        _touch(frame, thread, targets[exists], tensor.item, "write", instruction)
        octets = targets[exists][:, None] + np.arange(tensor.item)
        frame.memory.store[octets] = data[exists]

    return event


def _wait(slots: Slots, instruction: Instruction) -> Step:
    (operand,) = instruction.operands
    if not isinstance(operand, Integer):
        raise slots.wrong(instruction, "the number of groups must be a literal")
    left = operand.value

    def step(frame: Frame, threads: Threads) -> None:
        running = set(frame.threads(threads).tolist())
        rest: list[BulkStore] = []
        for store in frame.bulk_stores:
            if store.thread in running and store.group < frame.bulk_group[store.thread] - left:
                store.write()
            else:
                rest.append(store)
        frame.bulk_stores = rest
        if (shadow := frame.shadow) is not None:
            for warp in np.unique(frame.warp_of[threads]).tolist():
                moments = [store.moment for store in rest if frame.warp_of[store.thread] == warp]
                shadow.waited(np.array([warp]), shadow.store_source(warp), moments)

    return step
