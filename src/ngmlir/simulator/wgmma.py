# SPDX-License-Identifier: Apache-2.0
"""wgmma: asynchronous matrix products of a warpgroup, which read shared memory.

A product is computed at issue. Until its group is waited for, only other products may use its accumulators, and the
registers and shared memory that it reads must not change; violations are faults. Shared memory may be written again
only by threads that know of the wait (`races`). The order of the sum within a product is not specified; here it is that
of f64.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from .decoding import Reader, Step, decodes, reader, writer
from .formats import from_bf16
from .frame import WARP, Frame, Product
from .program import Instruction, Integer, Operand, Register, Vector
from .registers import Slots, Threads

Array = np.ndarray

GROUP = 4 * WARP
_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
#: Bits 62-63 of a descriptor -> bytes of a row of the swizzle pattern (0: none).
_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}
_ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def numbers(raw: Array, kind: str) -> Array:
    """f64 values of elements that are stored as unsigned words of their size."""
    if kind == "bf16":
        return from_bf16(raw).astype(np.float64)
    if kind == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    view = {"f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8}
    return np.ascontiguousarray(raw).view(view.get(kind, np.uint8)).astype(np.float64)


def swizzled(offset: Array, width: int) -> Array:
    """Byte offsets after the XOR pattern of a row of `width` bytes."""
    return offset ^ (((offset >> 7) & (width // 16 - 1)) << 4) if width else offset


def tile_places(descriptor: int, rows: int, depth: int, item: int, along_rows: bool) -> Array:
    """Byte offsets in shared memory of a rows x depth operand, as its descriptor describes it."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    width = _SWIZZLE[descriptor >> 62]
    row, k = np.arange(rows)[:, None], np.arange(depth)[None]
    if along_rows:
        per = width // item
        offset = row // per * leading + k // 8 * stride + k % 8 * width + row % per * item
    elif width:
        offset = row // 8 * stride + row % 8 * width + k * item
    else:
        per = 16 // item
        offset = row // 8 * stride + k // per * leading + row % 8 * 16 + k % per * item
    return swizzled(start + offset, width)


@decodes("wgmma")
def _wgmma(slots: Slots, instruction: Instruction) -> Step:
    action = instruction.modifiers[0]
    if action == "fence":
        return _fence
    if action == "commit_group":

        def commit(frame: Frame, threads: Threads) -> None:
            frame.product_group[threads] += 1

        return commit
    if action == "wait_group":
        return _wait(slots, instruction)
    return _multiply(slots, instruction)


def _wait(slots: Slots, instruction: Instruction) -> Step:
    (operand,) = instruction.operands
    if not isinstance(operand, Integer):
        raise slots.wrong(instruction, "the number of groups must be a literal")
    left = operand.value

    def step(frame: Frame, threads: Threads) -> None:
        running = np.zeros(frame.count, np.bool_)
        running[threads] = True
        rest: list[Product] = []
        for product in frame.products:
            first = product.warpgroup * GROUP
            if not running[first] or product.group >= frame.product_group[first] - left:
                rest.append(product)
        frame.products = rest
        if (shadow := frame.shadow) is not None:
            for group in _groups(frame, threads):
                moments = [product.moment for product in rest if product.warpgroup == group]
                warps = np.unique(frame.warp_of[group * GROUP : (group + 1) * GROUP])
                shadow.waited(warps, shadow.product_source(int(warps[0])), moments)

    return step


def check_registers(
    frame: Frame, threads: Threads, instruction: Instruction, touched: frozenset[str], written: frozenset[str]
) -> None:
    """Stops an instruction that uses the accumulators, or overwrites an input, of a product in flight."""
    running = frame.threads(threads) // GROUP
    for product in frame.products:
        if product.warpgroup not in running:
            continue
        wrong = (product.accumulators & touched) | (product.inputs & written)
        if wrong:
            message = f"register {min(wrong)} belongs to a matrix product that is not waited for"
            frame.fault("in flight", message, instruction, product.warpgroup * GROUP)


def _groups(frame: Frame, threads: Threads) -> set[int]:
    return set((frame.threads(threads) // GROUP).tolist())


def _fence(frame: Frame, threads: Threads) -> None:
    for group in _groups(frame, threads):
        frame.disturbed[group] = set()
        frame.multiplied[group] = []


def disturb(
    frame: Frame, threads: Threads, names: frozenset[str], written: frozenset[str], copies: bool
) -> None:
    """These threads use registers of products otherwise: they write them, or read the result of a product.

    A copy has the state of its source: back ends put copies anywhere, and the assembler assigns both sides one
    register.
    """
    for group in _groups(frame, threads) if frame.disturbed else ():
        found = frame.disturbed.get(group, set[str]())
        made = frame.made.setdefault(group, set())
        if not copies:
            found |= names & (written | made)
        elif found & (names - written):
            found |= written
        else:
            found -= written
        made -= written


def _check_fence(
    frame: Frame, group: int, shape: str, sums: frozenset[str], inputs: frozenset[str], at: Instruction
) -> None:
    """Checks that there is a wgmma.fence between the last other use of a product's registers and the product."""
    thread = group * GROUP
    if group not in frame.disturbed:
        frame.fault("fence", "no wgmma.fence precedes the first product", at, thread)
    wrong = frame.disturbed[group] & (sums | inputs)
    for other, names in frame.multiplied[group]:
        wrong |= names & sums if other != shape else names & inputs
    if wrong:
        message = f"register {min(wrong)} has been used since the last wgmma.fence"
        frame.fault("fence", message, at, thread)
    frame.made.setdefault(group, set()).update(sums)
    if (shape, sums) not in frame.multiplied[group]:
        frame.multiplied[group].append((shape, sums))


def _multiply(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    shape = next((m for m in map(_SHAPE.match, modifiers) if m), None)
    result, a_kind, b_kind = modifiers[-3:]
    if shape is None or a_kind not in _ITEM or b_kind not in _ITEM or result not in ("f32", "s32"):
        raise slots.limit(instruction)
    columns, depth = int(shape.group(1)), int(shape.group(2))
    d, a, b, scale, *flags = instruction.operands
    if not isinstance(d, Vector):
        raise slots.wrong(instruction, "the accumulators must be a vector")
    from_registers = isinstance(a, Vector)
    signs, majors = _flags(slots, instruction, flags, from_registers)
    starts = [reader(slots, instruction, item, result) for item in d.items]
    writes = [writer(slots, instruction, item, result) for item in d.items]
    left = [reader(slots, instruction, item, "b32") for item in a.items] if isinstance(a, Vector) else []
    a_descriptor = None if from_registers else reader(slots, instruction, a, "u64")
    b_descriptor = reader(slots, instruction, b, "u64")
    keep = reader(slots, instruction, scale, "pred")
    accumulators, inputs = _names(d), _names(a) if from_registers else frozenset[str]()
    a_item, b_item = _ITEM[a_kind], _ITEM[b_kind]

    def operand(
        frame: Frame, leader: int, descriptor: int, rows: int, item: int, kind: str, along_rows: bool
    ) -> Array:
        """The values of a shared operand."""
        places = tile_places(descriptor, rows, depth, item, along_rows)
        if int(places.max()) + item > frame.shape.shared_bytes:
            frame.fault("out of bounds", "an operand ends outside of shared memory", instruction, leader)
        places = places + int(frame.shared_base[leader])
        if frame.shadow is not None:
            flat = places.reshape(-1)
            source = frame.shadow.product_source(int(frame.warp_of[leader]))
            frame.shadow.read(np.full(len(flat), leader), flat, item, instruction, source)
        return numbers(frame.shared.view(f"u{item}")[places // item], kind)

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        if frame.shape.block_threads % GROUP:
            frame.fault(
                "not converged", "a block must be whole groups of 128 threads", instruction, int(running[0])
            )
        leaders = running[::GROUP]
        accumulator = np.stack([start(frame, threads) for start in starts], axis=-1)
        total = _rows(accumulator.astype(np.float64), columns)
        total = np.where(keep(frame, threads)[::GROUP, None, None], total, 0.0)
        fragments = _register_rows(frame, threads, left, a_kind, depth) if from_registers else None
        right = b_descriptor(frame, threads)[::GROUP].tolist()
        shared = None if a_descriptor is None else a_descriptor(frame, threads)[::GROUP].tolist()
        for index, leader in enumerate(leaders.tolist()):
            _check_fence(frame, leader // GROUP, shape.group(), accumulators, inputs, instruction)
            moment = frame.shadow.now + 1 if frame.shadow is not None else 0
            second = operand(frame, leader, right[index], columns, b_item, b_kind, majors[1])
            if shared is not None:
                first = operand(frame, leader, shared[index], 64, a_item, a_kind, majors[0])
            else:
                assert fragments is not None
                first = fragments[index]
            total[index] += signs[0] * signs[1] * (first @ second.T)
            frame.products.append(
                Product(
                    leader // GROUP,
                    int(frame.product_group[leader]),
                    moment,
                    accumulators,
                    inputs,
                    instruction,
                )
            )
        values = _fragments(total, columns).astype(accumulator.dtype)
        for number, write in enumerate(writes):
            write(frame, threads, values[:, number])

    return step


def _flags(
    slots: Slots, instruction: Instruction, flags: list[Operand], from_registers: bool
) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """Signs of the operands, and whether A and B are contiguous along their rows (MN-major)."""
    values = [flag.value for flag in flags if isinstance(flag, Integer)]
    if len(values) != len(flags):
        raise slots.wrong(instruction, "signs and layouts must be literals")
    signs = (values[0], values[1]) if len(values) >= 2 else (1, 1)
    layouts = values[2:]
    if from_registers:
        layouts = [0, *layouts]
    a_major, b_major = (layouts + [0, 0])[:2]
    return signs, (bool(a_major), bool(b_major))


def _names(operand: Operand) -> frozenset[str]:
    items = operand.items if isinstance(operand, Vector) else ()
    return frozenset(item.name for item in items if isinstance(item, Register))


def _rows(accumulator: Array, columns: int) -> Array:
    """By warpgroup, 64 x columns, from (thread, register)."""
    parts = accumulator.reshape(-1, 4, 8, 4, columns // 8, 2, 2)
    return parts.transpose(0, 1, 5, 2, 4, 3, 6).reshape(-1, 64, columns)


def _fragments(total: Array, columns: int) -> Array:
    """(thread, register): the inverse of `_rows`."""
    parts = total.reshape(-1, 4, 2, 8, columns // 8, 4, 2)
    return parts.transpose(0, 1, 3, 5, 4, 2, 6).reshape(-1, columns // 2)


def _register_rows(frame: Frame, threads: Threads, reads: list[Reader], kind: str, depth: int) -> Array:
    """A from registers: by warpgroup, 64 x depth."""
    count = len(frame.threads(threads))
    words = np.stack([np.broadcast_to(read(frame, threads), count) for read in reads], axis=-1)
    item = _ITEM[kind]
    values = numbers(np.ascontiguousarray(words).view(f"u{item}").reshape(count, len(reads), -1), kind)
    per = 4 // item
    parts = values.reshape(-1, 4, 8, 4, len(reads) // 2, 2, per)
    return parts.transpose(0, 1, 5, 2, 4, 3, 6).reshape(-1, 64, depth)
