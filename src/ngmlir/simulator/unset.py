# SPDX-License-Identifier: Apache-2.0
"""Reads of registers that have not been written.

A data-flow analysis finds them once, when a kernel is decoded; mostly there are none. Only those registers are watched
while it runs, byte by byte. Copies, selections, packing and unpacking propagate unwritten bytes, as compilers emit them
where the value is never used; every other read of them is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .frame import Frame
from .program import Instruction, Operand, Register, Vector
from .registers import Threads
from .uses import reads_and_writes

_COPIES = ("mov", "selp")
#: A register that is written: no byte is missing.
_SET = np.uint16(0)


@dataclass(frozen=True)
class Watched:
    """The registers of one instruction that may be unwritten when it reads them, and those it writes; `copies`: from
    the former to the latter."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    copies: bool
    choice: Callable[[Frame, Threads], np.ndarray] | None = None  # predicate of a selection


def watch(
    instructions: Sequence[Instruction],
    registers: Sequence[str],
    successors: Callable[[int], Sequence[int]],
    starts: set[int],
) -> dict[int, tuple[list[str], list[str]]]:
    """Instruction -> the watched registers that it reads, and those that it writes. `starts` are the starts of basic
    blocks."""
    bit = {name: 1 << number for number, name in enumerate(registers)}
    used = [reads_and_writes(instruction) for instruction in instructions]
    count = len(instructions)
    heads = sorted(place for place in starts | {0} if place < count)
    ends = [*heads[1:], count]
    exposed: dict[int, int] = {}
    sets: dict[int, int] = {}
    after: dict[int, Sequence[int]] = {}
    for head, end in zip(heads, ends, strict=True):
        have = bare = 0
        for place in range(head, end):
            reads, writes = used[place]
            for name in reads:
                bare |= bit.get(name, 0) & ~have
            if instructions[place].guard is None:
                for name in writes:
                    have |= bit[name]
        exposed[head], sets[head], after[head] = bare, have, successors(end - 1)
    everything = (1 << len(bit)) - 1
    known = dict.fromkeys(heads, everything)
    known[0] = 0
    waiting = [0]
    reached = {0}
    while waiting:
        head = waiting.pop()
        out = known[head] | sets[head]
        for follower in after[head]:
            if follower < count and (follower not in reached or known[follower] & ~out):
                known[follower] &= out
                reached.add(follower)
                waiting.append(follower)
    doubtful = 0
    for head in reached:
        doubtful |= exposed[head] & ~known[head]
    if not doubtful:
        return {}
    watched = {name for name, mask in bit.items() if mask & doubtful}
    copies = [used[place] for place in range(count) if instructions[place].head in _COPIES]
    size = 0
    while size != len(watched):
        size = len(watched)
        for reads, writes in copies:
            if not watched.isdisjoint(reads):
                watched.update(writes)
    found = (([n for n in r if n in watched], [n for n in w if n in watched]) for r, w in used)
    return {place: both for place, both in enumerate(found) if both[0] or both[1]}


def follow(frame: Frame, threads: Threads, watched: Watched, instruction: Instruction) -> None:
    """Before `threads` run an instruction: faults if it reads registers that they have not written, and records what it
    writes."""
    if not watched.copies:
        for name in watched.reads:
            check(frame, threads, name, instruction)
        for name in watched.writes:
            frame.note_unset(name, threads, _SET)
        return
    if watched.choice is not None:
        first, second, predicate = watched.reads
        check(frame, threads, predicate, instruction)
        unset = np.where(
            watched.choice(frame, threads),
            frame.unset_bytes(first, threads),
            frame.unset_bytes(second, threads),
        )
    else:
        unset = _read(frame, threads, instruction)
    for name, start, count in _parts(instruction, instruction.operands[0]):
        if name in watched.writes:
            frame.note_unset(name, threads, unset >> start & (1 << count) - 1)


def _read(frame: Frame, threads: Threads, instruction: Instruction) -> np.ndarray:
    """The unwritten bytes that a copy reads, one bit each."""
    unset = np.zeros(1, np.uint16)
    for operand in instruction.operands[1:]:
        for name, start, count in _parts(instruction, operand):
            unset = unset | (frame.unset_bytes(name, threads) & (1 << count) - 1) << start
    return unset


def _parts(instruction: Instruction, operand: Operand) -> Iterator[tuple[str, int, int]]:
    """The registers of an operand of a copy: (name, first byte, number of bytes)."""
    if isinstance(operand, Register):
        yield operand.name, 0, 16
    elif isinstance(operand, Vector):
        each = int(instruction.type[1:]) // 8 // len(operand.items)
        for number, item in enumerate(operand.items):
            if isinstance(item, Register):
                yield item.name, number * each, each


def check(frame: Frame, threads: Threads, name: str, instruction: Instruction) -> None:
    """Faults if some of `threads` have not written a register."""
    unset = frame.unset_bytes(name, threads)
    if unset.any():
        thread = int(frame.threads(threads)[unset != 0][0])
        frame.fault("uninitialised", f"register {name} is read and nothing has set it", instruction, thread)
