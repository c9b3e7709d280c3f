# SPDX-License-Identifier: Apache-2.0
"""set and setp, testp, and selp, which selects one of two values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoding import Step, decodes, reader, writer
from .formats import FORMATS, STORAGE, Format, flush
from .frame import Frame
from .program import Instruction, Pair
from .registers import Slots, Threads

Array = np.ndarray

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(name: str, target: Format | None) -> Callable[[Array, Array], Array] | None:
    if target is None:
        return _COMPARE.get(name)
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "ne":  # ordered
        return lambda a, b: (a < b) | (a > b)
    if name in _UNORDERED:
        opposite = _COMPARE[_UNORDERED[name]]
        if name == "equ":
            return lambda a, b: ~((a < b) | (a > b))
        return lambda a, b: ~opposite(a, b)
    return _COMPARE.get(name)


def _compare_step(slots: Slots, instruction: Instruction, kind: str) -> Callable[[Frame, Threads], Array]:
    """The comparison of set and setp, including the boolean operation with a third operand."""
    modifiers = instruction.modifiers
    target = FORMATS.get(kind)
    compare = _comparison(modifiers[0], target)
    if compare is None:
        raise slots.limit(instruction)
    first, second = (reader(slots, instruction, o, kind) for o in instruction.operands[1:3])
    combine = next((_COMBINE[m] for m in modifiers[1:] if m in _COMBINE), None)
    third = reader(slots, instruction, instruction.operands[3], "pred") if combine else None
    ftz = "ftz" in modifiers
    decode = None if target is None or target.direct else target.decode

    def run(frame: Frame, threads: Threads) -> Array:
        a, b = first(frame, threads), second(frame, threads)
        if decode is not None:
            a, b = decode(a), decode(b)
        if ftz:
            a, b = flush(a), flush(b)
        result = compare(a, b)
        if combine is not None and third is not None:
            result = combine(result, third(frame, threads))
        return result

    return run


@decodes("setp")
def _setp(slots: Slots, instruction: Instruction) -> Step:
    kind = instruction.type
    compare = _compare_step(slots, instruction, kind)
    result = instruction.operands[0]
    if STORAGE[kind][1] == 2:
        if not isinstance(result, Pair):
            raise slots.wrong(instruction, "a packed comparison needs two predicates")
        low = writer(slots, instruction, result.first, "pred")
        high = writer(slots, instruction, result.second, "pred")

        def packed(frame: Frame, threads: Threads) -> None:
            value = compare(frame, threads)
            low(frame, threads, value[:, 0])
            high(frame, threads, value[:, 1])

        return packed
    if isinstance(result, Pair):
        raise slots.limit(instruction)
    write = writer(slots, instruction, result, "pred")
    return lambda frame, threads: write(frame, threads, compare(frame, threads))


@decodes("set")
def _set(slots: Slots, instruction: Instruction) -> Step:
    result, kind = instruction.modifiers[-2:]
    if STORAGE[kind][1] == 2:
        raise slots.limit(instruction)
    compare = _compare_step(slots, instruction, kind)
    write = writer(slots, instruction, instruction.operands[0], result)
    dtype, _ = STORAGE[result]
    true = 1.0 if result == "f32" else np.array(-1).astype(dtype)
    return lambda frame, threads: write(
        frame, threads, np.where(compare(frame, threads), true, 0).astype(dtype)
    )


@decodes("selp")
def _selp(slots: Slots, instruction: Instruction) -> Step:
    bits = f"b{8 * STORAGE[instruction.type][0].itemsize}"
    first, second = (reader(slots, instruction, o, bits) for o in instruction.operands[1:3])
    choose = reader(slots, instruction, instruction.operands[3], "pred")
    write = writer(slots, instruction, instruction.operands[0], bits)
    return lambda frame, threads: write(
        frame, threads, np.where(choose(frame, threads), first(frame, threads), second(frame, threads))
    )


@decodes("testp")
def _testp(slots: Slots, instruction: Instruction) -> Step:
    least = np.finfo(STORAGE[instruction.type][0]).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda v: ~np.isnan(v),
        "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= least),
        "subnormal": lambda v: (np.abs(v) < least) & (v != 0),
    }
    test = tests[instruction.modifiers[0]]
    read = reader(slots, instruction, instruction.operands[1], instruction.type)
    write = writer(slots, instruction, instruction.operands[0], "pred")
    return lambda frame, threads: write(frame, threads, test(read(frame, threads)))
