# SPDX-License-Identifier: Apache-2.0
"""Functions for blocks of rows, calls of which compute any number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ....ir.core import Block, Op, Value
from ....ir.types import TensorType, shape_of
from ....ops.fields import get_i64, get_i64s
from ....support.rows import ByRows, Rows
from ....support.target import Target
from ..dead_code import without_dead
from .resized import Refused, Resizing

#: Ratio of one block size to the next smaller one.
STEP = 8
#: The most rows of a block.
_MOST = STEP**6
#: Fraction of all multiply-adds that may be in products of fewer rows than are efficient on the machine.
_FEW = 1 / 8


@dataclass(frozen=True)
class Blocks:
    """A function whose rows are independent, as one function for each block size."""

    signature: ByRows
    functions: tuple[Op, ...]


def blocks(main: Op, open_: Mapping[int, int], target: Target) -> Blocks:
    """Functions for blocks of rows; `open_` maps arguments to the dimension that counts rows, of which there is at least
    one. Raises Refused where rows are not independent: the diagnostic names the op."""
    if "ng.tied" in main.attributes:
        raise Refused(f"@{main.symbol} changes its state once per call", main.location)
    main = without_dead(main)
    lengths = {shape_of(main.block.args[i].type)[d] for i, d in open_.items()}
    if len(lengths) != 1 or 0 in lengths:
        raise Refused(f"the arguments of @{main.symbol} have {sorted(lengths)} rows", main.location)
    (length,) = lengths
    rows = {i: Rows(d) for i, d in open_.items()}
    single = Resizing(length, 1)
    _, results = single.function(main, rows, main.symbol)
    if not any(results):
        raise Refused(f"no result of @{main.symbol} has rows", main.location)
    counts = block_rows(main.block, single.rows, length, target)
    made = [Resizing(length, n).function(main, rows, f"{main.symbol}_rows_{n}")[0] for n in counts]
    # Values without rows that were replaced by ones for the new number of rows are now unused.
    functions = [without_dead(function) for function in made]
    arguments = tuple([rows.get(i) for i in range(len(main.block.args))])
    return Blocks(ByRows(main.symbol, arguments, results, counts), tuple(functions))


def block_rows(block: Block, rows: Mapping[Value, Rows], length: int, target: Target) -> tuple[int, ...]:
    """The block sizes, in descending order. The largest is such that most multiply-adds are in products with enough rows for the
    machine, and that a launch has enough elements."""
    work = _Work(rows, length)
    work.add(block, 1)
    if target.has_thread_blocks:
        elements = target.multiprocessors * target.threads * 8
        least = target.threads * 8
    else:
        least, elements = 2 * target.vector_registers, target.l1_bytes // 2
    count = 1
    while count < _MOST and (work.largest * count < elements or work.few(count, least)):
        count *= STEP
    found = [count]
    while found[-1] > 1:
        found.append(found[-1] // STEP)
    return tuple(found)


class _Work:
    """The work for one row: elements of its largest value, and multiply-adds by the number of rows of their products."""

    def __init__(self, rows: Mapping[Value, Rows], length: int):
        self.rows, self.length = rows, length
        self.largest = 1
        self.products: dict[int, int] = {}

    def add(self, block: Block, times: int) -> None:
        for value in (*block.args, *(r for op in block.ops for r in op.results)):
            if value in self.rows and isinstance(value.type, TensorType):
                self.largest = max(self.largest, value.type.size // self.length)
        for op in block.ops:
            if op.name == "ng.dot":
                self.product(op, times)
            steps = shape_of(op.operands[-1].type)[0] if op.name == "ng.scan" and _slices(op) else 1
            for region in op.regions:
                self.add(region.block, times * steps)

    def product(self, op: Op, times: int) -> None:
        for value, side in zip(op.operands, ("lhs", "rhs"), strict=True):
            rows, shape = self.rows.get(value), shape_of(value.type)
            if rows is None:
                continue
            contract, batch = (get_i64s(op, f"{side}_{what}") for what in ("contract", "batch"))
            if rows.dimension in batch:
                continue  # more rows are more products
            free = prod(n for d, n in enumerate(shape) if d not in contract and d not in batch)
            done = shape_of(op.result.type), [shape[d] for d in contract]
            count = prod(prod(part) for part in done) // self.length * times
            self.products[free // self.length] = self.products.get(free // self.length, 0) + count

    def few(self, count: int, least: int) -> bool:
        """Whether too many multiply-adds are in products of fewer than `least` rows, with blocks of `count` rows."""
        small = sum(n for rows, n in self.products.items() if rows * count < least)
        return small > _FEW * sum(self.products.values())


def _slices(op: Op) -> Sequence[Value]:
    return op.operands[get_i64(op, "carried") :]
