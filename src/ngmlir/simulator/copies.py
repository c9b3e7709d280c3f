# SPDX-License-Identifier: Apache-2.0
"""cp.async: copies from global to shared memory that complete late.

The destination is poisoned with 0xFF when a copy is issued, and the bytes are read and written only when the thread
waits: code that forgets to wait, or waits for too few groups, computes with NaN or is stopped.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .access import shared_space
from .bulk import decode_bulk
from .decoding import Decoder, Step, address, decodes, reader
from .frame import Copy, Frame
from .mbarriers import arrive, find, keys_of
from .memory import BASE
from .program import Instruction, Integer
from .registers import Slots, Threads

Array = np.ndarray


def land(frame: Frame, due: Callable[[Copy], Array]) -> None:
    """Completes the copies of the threads that `due` selects."""
    rest: list[Copy] = []
    for copy in frame.copies:
        now = due(copy)
        if now.any():
            _land(frame, copy.part(now))
        if not now.all():
            rest.append(copy.part(~now))
    frame.copies = rest


def _land(frame: Frame, copy: Copy) -> None:
    span = np.arange(copy.size)
    target = copy.target[:, None] + span
    kept = span < copy.kept[:, None]
    source = np.where(kept, copy.source[:, None] + span, 0)
    frame.shared[target] = np.where(kept, frame.memory.store[source], 0)
    if frame.shadow is not None:
        frame.shadow.landed(copy.threads, copy.target, copy.size)


@decodes("cp")
def _cp(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    if "bulk" in modifiers:
        return decode_bulk(slots, instruction)
    if modifiers[0] == "async":
        for name, decoder in _FORMS.items():
            if name in modifiers:
                return decoder(slots, instruction)
        return _issue(slots, instruction)
    raise slots.limit(instruction)


def _issue(slots: Slots, instruction: Instruction) -> Step:
    target_operand, source_operand, size_operand, *more = instruction.operands
    if not isinstance(size_operand, Integer):
        raise slots.wrong(instruction, "the size of a copy must be a literal")
    size = size_operand.value
    to = address(slots, instruction, target_operand)
    source = address(slots, instruction, source_operand)
    is_hint = "L2::cache_hint" in instruction.modifiers and len(more) == 1
    kept = reader(slots, instruction, more[0], "u32") if more and not is_hint else None
    item = min(size, 8)

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        count = np.full(len(running), size, np.int64)
        if kept is not None:
            count = np.minimum(kept(frame, threads).astype(np.int64), size)
        where = source(frame, threads)
        _check_source(frame, running, where, count, size, instruction)
        _, place = shared_space(frame, running, to(frame, threads), item, size // item, "write", instruction)
        target = place * item
        frame.shared[target[:, None] + np.arange(size)] = 0xFF
        if frame.shadow is not None:
            frame.shadow.issued(target, size)
        group = frame.copy_group[running].copy()
        frame.issued += 1
        frame.copies.append(
            Copy(running.copy(), where - BASE, target, count, group, size, instruction, frame.issued)
        )

    return step


def _check_source(
    frame: Frame, running: Array, where: Array, count: Array, size: int, instruction: Instruction
) -> None:
    """A copy of fewer than `size` bytes may end at the end of its buffer; only the bytes that are read must be inside."""
    bad = (where & (size - 1)) != 0
    if bad.any():
        frame.fault("misaligned", f"{size}-byte asynchronous copy", instruction, int(running[bad][0]))
    for length in np.unique(count[count > 0]):
        chosen = count == length
        outside = frame.memory.outside(where[chosen] - BASE, int(length))
        if outside.any():
            message = f"global address {int(where[chosen][outside][0]):#x}"
            frame.fault("out of bounds", message, instruction, int(running[chosen][outside][0]))
        if frame.counters is not None:
            frame.counters.globally(
                frame.warp_of[running[chosen]], where[chosen] - BASE, int(length), writes=False
            )
        frame.note_global(running[chosen], where[chosen] - BASE, int(length), "read", instruction)


def _commit(slots: Slots, instruction: Instruction) -> Step:
    def step(frame: Frame, threads: Threads) -> None:
        frame.copy_group[threads] += 1

    return step


def _wait(slots: Slots, instruction: Instruction) -> Step:
    """Completes all groups of the running threads except the newest `n`; wait_all includes copies that are not
    committed."""
    everything = "wait_all" in instruction.modifiers
    left = 0
    if not everything:
        (operand,) = instruction.operands
        if not isinstance(operand, Integer):
            raise slots.wrong(instruction, "the number of groups must be a literal")
        left = operand.value

    def step(frame: Frame, threads: Threads) -> None:
        if not frame.copies:
            return
        running = np.zeros(frame.count, np.bool_)
        running[threads] = True
        latest = frame.copy_group - left if not everything else frame.copy_group + 1
        land(frame, lambda copy: running[copy.threads] & (copy.group < latest[copy.threads]))

    return step


def _arrive_when_landed(slots: Slots, instruction: Instruction) -> Step:
    """cp.async.mbarrier.arrive: an arrival after the thread's copies are complete, at some later time."""
    where = address(slots, instruction, instruction.operands[0])
    counted = "noinc" in instruction.modifiers

    def step(frame: Frame, threads: Threads) -> None:
        keys = keys_of(frame, threads, where(frame, threads), instruction)
        for thread, key in zip(frame.threads(threads).tolist(), keys.tolist(), strict=True):
            if not counted:
                find(frame, key, instruction, thread).pending += 1
            frame.events.append(_arrival(frame, thread, key, frame.issued, instruction))

    return step


def _arrival(
    frame: Frame, thread: int, key: int, issued: int, instruction: Instruction
) -> Callable[[], None]:
    def event() -> None:
        land(frame, lambda copy: (copy.threads == thread) & (copy.order <= issued))
        arrive(frame, key, thread, 1, instruction)

    return event


_FORMS: dict[str, Decoder] = {
    "commit_group": _commit,
    "wait_group": _wait,
    "wait_all": _wait,
    "mbarrier": _arrive_when_landed,
}
