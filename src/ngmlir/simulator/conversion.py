# SPDX-License-Identifier: Apache-2.0
"""cvt and cvta: between integer widths, integers and floats, float formats, and address spaces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoding import Step, decodes, reader, writer
from .formats import FORMATS, STORAGE, TF32, Format, flush, round_to, saturate
from .frame import Frame
from .memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from .program import Instruction
from .registers import Slots, Threads

Array = np.ndarray

_TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip
_MODES = ("rn", "rz", "rm", "rp", "rna")


@decodes("cvt")
def _cvt(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    result, source = modifiers[-2:]
    if result not in STORAGE or source not in STORAGE or "scaled" in modifiers:
        raise slots.limit(instruction)
    if len(instruction.operands) == 3:
        return _pair(slots, instruction, result)
    convert = _conversion(slots, instruction, result, source)
    read = reader(slots, instruction, instruction.operands[1], source)
    write = writer(slots, instruction, instruction.operands[0], result)
    return lambda frame, threads: write(frame, threads, convert(read(frame, threads)))


def _conversion(slots: Slots, instruction: Instruction, result: str, source: str) -> Callable[[Array], Array]:
    modifiers = instruction.modifiers
    to_float, from_float = result in FORMATS or result == "tf32", source in FORMATS
    if to_float and from_float:
        return _float_to_float(instruction, result, source)
    if to_float:
        return _integer_to_float(instruction, FORMATS[result])
    if from_float:
        return _float_to_integer(slots, instruction, STORAGE[result][0], source)
    if "sat" in modifiers:
        return lambda value: _saturated_integer(value, STORAGE[result][0])
    dtype = STORAGE[result][0]
    return lambda value: value.astype(dtype)


def _saturated_integer(value: Array, dtype: np.dtype) -> Array:
    info = np.iinfo(dtype)
    if value.dtype.kind == "u":
        return np.minimum(value, np.uint64(info.max)).astype(dtype)
    low = np.int64(max(info.min, -(2**63)))
    return np.clip(value.astype(np.int64), low, np.int64(min(info.max, 2**63 - 1))).astype(dtype)


def _float_to_float(instruction: Instruction, result: str, source: str) -> Callable[[Array], Array]:
    modifiers = instruction.modifiers
    origin = FORMATS[source]
    target = TF32 if result == "tf32" else FORMATS[result]
    whole = next((_TO_INTEGER[m] for m in modifiers if m in _TO_INTEGER), None)
    mode = next((m for m in modifiers if m in _MODES), "rn")
    ftz, sat, relu = "ftz" in modifiers, "sat" in modifiers, "relu" in modifiers
    narrower = target.precision < origin.precision

    def convert(bits: Array) -> Array:
        value = origin.decode(bits)
        if ftz and source == "f32":
            value = flush(value)
        if whole is not None:
            value = whole(value)
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0)).astype(value.dtype)
        if sat:
            value = saturate(value)
        if result == "tf32":
            rounded = round_to(value.astype(np.float64), TF32, mode).astype(np.float32)
            return rounded.view(np.uint32)
        if narrower and (mode != "rn" or (result == "bf16" and source == "f64")):
            value = round_to(value.astype(np.float64), target, mode).astype(target.compute)
            return target.encode(value)
        if narrower and source == "f64":
            value = target.encode_exactly(value)
        else:
            value = target.encode(value.astype(target.compute))
        return flush(value) if ftz and result == "f32" else value

    return convert


def _integer_to_float(instruction: Instruction, target: Format) -> Callable[[Array], Array]:
    mode = next((m for m in instruction.modifiers if m in _MODES), "rn")

    def convert(value: Array) -> Array:
        if mode == "rn" and target.direct:
            return value.astype(target.compute)
        # Beyond 2**40 the low bits are replaced by one sticky bit: f64 then holds the value exactly, and it still
        # rounds correctly.
        if value.dtype.itemsize == 8 and target.precision < 40:
            large = (value >= 2**40) | (value <= -(2**40)) if value.dtype.kind == "i" else value >= 2**40
            sticky = (value & value.dtype.type(0xFFFF)) != 0
            coarse = (value >> value.dtype.type(16) << value.dtype.type(16)) | (
                sticky.astype(value.dtype) << value.dtype.type(16)
            )
            value = np.where(large, coarse, value)
        rounded = round_to(value.astype(np.float64), target, mode)
        return target.encode(rounded.astype(target.compute))

    return convert


def _float_to_integer(
    slots: Slots, instruction: Instruction, dtype: np.dtype, source: str
) -> Callable[[Array], Array]:
    origin = FORMATS[source]
    whole = next((_TO_INTEGER[m] for m in instruction.modifiers if m in _TO_INTEGER), None)
    if whole is None:
        raise slots.wrong(instruction, "a conversion to an integer needs a rounding")
    info = np.iinfo(dtype)
    low, high = float(info.min), float(info.max)  # for 64 bits, `high` rounds up to a power of two
    wide = dtype.itemsize == 8
    # PTX: NaN becomes zero, except for conversions from f64 or to a 64-bit integer.
    special = wide or source == "f64"
    not_a_number = (
        np.array(1 << (8 * dtype.itemsize - 1), np.uint64).astype(dtype) if special else dtype.type(0)
    )
    ftz = "ftz" in instruction.modifiers and source == "f32"

    def convert(bits: Array) -> Array:
        value = origin.decode(bits)
        value = whole((flush(value) if ftz else value).astype(np.float64))
        inside = np.where((value > low) & (value < high), value, 0.0).astype(dtype)
        result = np.where(value >= high, dtype.type(info.max), inside)
        result = np.where(value <= low, dtype.type(info.min), result)
        return np.where(np.isnan(value), not_a_number, result)

    return convert


def _pair(slots: Slots, instruction: Instruction, result: str) -> Step:
    """cvt.rn.{f16x2,bf16x2}.f32 d, high, low."""
    if STORAGE[result][1] != 2 or instruction.type != "f32":
        raise slots.limit(instruction)
    convert = _float_to_float(instruction, result[:-2], "f32")
    high, low = (reader(slots, instruction, o, "f32") for o in instruction.operands[1:])
    write = writer(slots, instruction, instruction.operands[0], result)

    def step(frame: Frame, threads: Threads) -> None:
        halves = [convert(low(frame, threads)), convert(high(frame, threads))]
        write(frame, threads, np.stack(halves, axis=-1))

    return step


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}


@decodes("cvta")
def _cvta(slots: Slots, instruction: Instruction) -> Step:
    """Converts addresses of a state space to generic ones, or back with `.to`."""
    modifiers = instruction.modifiers
    space = next((m.partition("::")[0] for m in modifiers if m.partition("::")[0] in _WINDOWS), None)
    if space is None:
        raise slots.limit(instruction)
    window = np.int64(-_WINDOWS[space] if "to" in modifiers else _WINDOWS[space])
    read = reader(slots, instruction, instruction.operands[1], "s64")
    write = writer(slots, instruction, instruction.operands[0], "s64")
    return lambda frame, threads: write(frame, threads, read(frame, threads) + window)
