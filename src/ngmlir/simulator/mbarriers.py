# SPDX-License-Identifier: Apache-2.0
"""mbarrier objects in shared memory: phases that complete by arrivals and by bytes of asynchronous copies.

A try_wait blocks here until its phase is complete, so that a deadlock is detected; hardware may return false earlier,
so a missing loop around it is not detected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoding import Step, address, decodes, reader, writer
from .frame import AT_MBARRIER, READY, Frame, MBarrier
from .memory import SHARED_WINDOW
from .program import Address, Instruction, Operand, Sink
from .registers import Slots, Threads

Array = np.ndarray


def keys_of(frame: Frame, threads: Threads, where: Array, instruction: Instruction) -> Array:
    """One number per thread for (block, address)."""
    offset = np.where(where >= SHARED_WINDOW, where - SHARED_WINDOW, where)
    if (offset & 7).any() or int(offset.min()) < 0 or int(offset.max()) + 8 > frame.shape.shared_bytes:
        frame.fault("out of bounds", "no mbarrier can lie there", instruction, int(frame.threads(threads)[0]))
    return offset + frame.shared_base[threads]


def find(frame: Frame, key: int, instruction: Instruction, thread: int) -> MBarrier:
    """The mbarrier that a thread uses; its initialisation must be ordered before."""
    barrier = frame.mbarriers.get(key)
    if barrier is None:
        frame.fault("barrier", "the mbarrier is not initialised", instruction, thread)
    if frame.shadow is not None and not frame.shadow.is_known(thread, barrier.made, barrier.maker):
        message = f"no barrier orders this after the mbarrier's initialisation by thread {barrier.maker}"
        frame.fault("race", message, instruction, thread)
    return barrier


def show_to_copies(frame: Frame, threads: Threads) -> None:
    """fence.mbarrier_init: makes the mbarriers that these threads have initialised visible to copies."""
    own = {(int(frame.block_of[t]), int(frame.within[t])) for t in frame.threads(threads)}
    for key, barrier in frame.mbarriers.items():
        if (key // frame.shape.shared_span, barrier.maker) in own:
            barrier.shown = True


def check_shown(frame: Frame, key: int, thread: int, instruction: Instruction) -> None:
    """A bulk copy signals an mbarrier through another proxy than the one that initialised it."""
    barrier = find(frame, key, instruction, thread)
    if frame.shadow is None or barrier.shown:
        return
    if not frame.shadow.is_fenced(thread, barrier.made, barrier.maker):
        message = "neither fence.mbarrier_init nor fence.proxy.async shows the copy that its mbarrier is initialised"
        frame.fault("fence", message, instruction, thread)


def complete_bytes(frame: Frame, key: int, count: int, instruction: Instruction, thread: int) -> None:
    """An asynchronous copy of `count` bytes has completed."""
    barrier = find(frame, key, instruction, thread)
    barrier.bytes -= count
    if frame.shadow is not None:
        _gather(barrier, frame.shadow.told(key))
    _turn(frame, barrier)


def arrive(frame: Frame, key: int, thread: int, count: int, instruction: Instruction) -> None:
    barrier = find(frame, key, instruction, thread)
    if frame.shadow is not None:
        _gather(barrier, frame.shadow.knowledge(int(frame.warp_of[thread])))
    barrier.pending -= count
    if barrier.pending < 0:
        frame.fault("barrier", "more arrivals than the mbarrier awaits", instruction, thread)
    _turn(frame, barrier)


def _gather(barrier: MBarrier, clock: Array) -> None:
    barrier.clock = clock if barrier.clock is None else np.maximum(barrier.clock, clock)


def _turn(frame: Frame, barrier: MBarrier) -> None:
    """Completes the phase if nothing is pending any more, and wakes all waiting threads."""
    if barrier.pending or barrier.bytes:
        return
    barrier.phase += 1
    barrier.pending = barrier.count
    barrier.completed, barrier.clock = barrier.clock, None
    frame.status[frame.status == AT_MBARRIER] = READY


@decodes("mbarrier")
def _mbarrier(slots: Slots, instruction: Instruction) -> Step:
    action = instruction.modifiers[0]
    make = _ACTIONS.get(action)
    if make is None:
        raise slots.limit(instruction)
    position, place = next((n, o) for n, o in enumerate(instruction.operands) if isinstance(o, Address))
    where = address(slots, instruction, place)
    result = instruction.operands[0] if position else Sink()
    act = make(slots, instruction, result, instruction.operands[position + 1 :])

    def step(frame: Frame, threads: Threads) -> None:
        act(frame, threads, keys_of(frame, threads, where(frame, threads), instruction))

    return step


Action = Callable[[Frame, Threads, Array], None]


def _initialise(slots: Slots, instruction: Instruction, result: Operand, rest: tuple[Operand, ...]) -> Action:
    count = reader(slots, instruction, rest[0], "u32")

    def act(frame: Frame, threads: Threads, keys: Array) -> None:
        shadow = frame.shadow
        if shadow is not None:
            shadow.now += 1
        for key, number, maker in zip(
            keys.tolist(), count(frame, threads).tolist(), frame.within[threads].tolist(), strict=True
        ):
            if key in frame.mbarriers:
                thread = int(frame.threads(threads)[0])
                frame.fault("barrier", "the mbarrier is initialised already", instruction, thread)
            frame.mbarriers[key] = MBarrier(number, number, maker, shadow.now if shadow is not None else 0)

    return act


def _invalidate(slots: Slots, instruction: Instruction, result: Operand, rest: tuple[Operand, ...]) -> Action:
    def act(frame: Frame, threads: Threads, keys: Array) -> None:
        for key in set(keys.tolist()):
            frame.mbarriers.pop(key, None)

    return act


def _arrival(slots: Slots, instruction: Instruction, result: Operand, rest: tuple[Operand, ...]) -> Action:
    expects = "expect_tx" in instruction.modifiers
    amount = reader(slots, instruction, rest[0], "u32") if rest else None
    write = writer(slots, instruction, result, "b64")

    def act(frame: Frame, threads: Threads, keys: Array) -> None:
        running = frame.threads(threads)
        amounts = np.ones(len(running), np.int64) if amount is None else amount(frame, threads)
        states = np.empty(len(running), np.uint64)
        for index, (key, number, thread) in enumerate(
            zip(keys.tolist(), amounts.tolist(), running.tolist(), strict=True)
        ):
            barrier = find(frame, key, instruction, thread)
            states[index] = barrier.phase
            if expects:
                barrier.bytes += number
            arrive(frame, key, thread, 1 if expects else number, instruction)
        write(frame, threads, states)

    return act


def _transaction(
    slots: Slots, instruction: Instruction, result: Operand, rest: tuple[Operand, ...]
) -> Action:
    """expect_tx and complete_tx without an arrival."""
    sign = 1 if "expect_tx" in instruction.modifiers else -1
    amount = reader(slots, instruction, rest[0], "u32")

    def act(frame: Frame, threads: Threads, keys: Array) -> None:
        running = frame.threads(threads).tolist()
        for key, number, thread in zip(keys.tolist(), amount(frame, threads).tolist(), running, strict=True):
            complete_bytes(frame, key, -sign * number, instruction, thread)

    return act


def _test(slots: Slots, instruction: Instruction, result: Operand, rest: tuple[Operand, ...]) -> Action:
    """test_wait returns at once; for try_wait the scheduler has made sure that the phase is complete."""
    finished = _finished(slots, instruction, rest)
    write = writer(slots, instruction, result, "pred")

    def act(frame: Frame, threads: Threads, keys: Array) -> None:
        done = finished(frame, threads, keys)
        write(frame, threads, done)
        if frame.shadow is None:
            return
        running = frame.threads(threads)
        for key, warp in set(zip(keys[done].tolist(), frame.warp_of[running][done].tolist(), strict=True)):
            clock = frame.mbarriers[key].completed
            if clock is not None:
                frame.shadow.learn(warp, clock)

    return act


def _finished(
    slots: Slots, instruction: Instruction, rest: tuple[Operand, ...]
) -> Callable[[Frame, Threads, Array], Array]:
    """Whether the phase that each thread names is complete; by its parity or by the state that `arrive` returned."""
    parity = "parity" in instruction.modifiers
    wanted = reader(slots, instruction, rest[0], "u32" if parity else "u64")

    def finished(frame: Frame, threads: Threads, keys: Array) -> Array:
        running = frame.threads(threads)
        phases = np.array(
            [
                find(frame, key, instruction, thread).phase
                for key, thread in zip(keys.tolist(), running.tolist())
            ],
            np.int64,
        )
        asked = wanted(frame, threads).astype(np.int64)
        return (phases & 1) != (asked & 1) if parity else phases != asked

    return finished


def decode_wait(slots: Slots, instruction: Instruction) -> Callable[[Frame, Threads], Array]:
    """Which threads a try_wait lets continue; it blocks the others, so that a deadlock is detected."""
    place = instruction.operands[1]
    where = address(slots, instruction, place)
    finished = _finished(slots, instruction, instruction.operands[2:])
    return lambda frame, threads: finished(
        frame, threads, keys_of(frame, threads, where(frame, threads), instruction)
    )


_ACTIONS: dict[str, Callable[[Slots, Instruction, Operand, tuple[Operand, ...]], Action]] = {
    "init": _initialise,
    "inval": _invalidate,
    "arrive": _arrival,
    "expect_tx": _transaction,
    "complete_tx": _transaction,
    "test_wait": _test,
    "try_wait": _test,
}
