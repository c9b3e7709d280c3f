# SPDX-License-Identifier: Apache-2.0
"""An observer of planned memory that knows nothing of how it was planned.

It runs a program before and after the plan and compares what every kernel is given, step by step; and it
keeps books on the bytes: what is read must have been written, what a kernel writes may only lie where it
reads if the kernel allows that, and nothing but results is left changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from comparing import assert_same_bits

from ngmlir.ir.core import Module, Op
from ngmlir.ir.elements import ElementsAttr
from ngmlir.ir.literals import item_bytes
from ngmlir.ir.types import MemRefType, TensorType
from ngmlir.ops import interpreter
from ngmlir.ops.fields import array_items, find_symbols, get_i64
from ngmlir.ops.interpreter import run
from ngmlir.ops.meaning import EFFECTS, tiles

Array = np.ndarray[Any, Any]
Call = tuple[str, list[Array]]


def tied_pairs(main: Op) -> dict[int, int]:
    """Result -> the argument that it overwrites."""
    attribute = main.attributes.get("ng.tied")
    flat = attribute.values if attribute is not None else ()  # type: ignore[attr-defined]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def in_place(kernel: Op) -> set[tuple[int, int]]:
    attribute = kernel.attributes.get("in_place")
    flat = attribute.values if attribute is not None else ()  # type: ignore[attr-defined]
    return set(zip(flat[::2], flat[1::2], strict=True))


@contextmanager
def launches(seen: Callable[[Op, Sequence[Array], int], None]) -> Any:
    """Calls `seen(kernel, buffers, inputs)` before each kernel runs."""
    original = tiles.launch

    def launch(runner: Any, kernel: Op, buffers: Sequence[Array]) -> None:
        seen(kernel, buffers, len(buffers) - get_i64(kernel, "outputs"))
        original(runner, kernel, buffers)

    with mock.patch.object(tiles, "launch", launch):
        yield


def calls(of: Module, arrays: Sequence[Array], entry: str = "main") -> tuple[list[Call], tuple[Array, ...]]:
    """What each kernel of an unplanned program is given, and the results."""
    made: list[Call] = []

    def seen(kernel: Op, buffers: Sequence[Array], inputs: int) -> None:
        made.append((kernel.symbol, [np.array(b) for b in buffers[:inputs]]))

    with launches(seen):
        results = run(of, *arrays, entry=entry)
    return made, results


@dataclass
class Books:
    """Which bytes of each root buffer hold something."""

    roots: list[Array]
    written: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.written = [np.zeros(r.nbytes, bool) for r in self.roots]
        self.starts = [r.__array_interface__["data"][0] for r in self.roots]

    def place(self, array: Array) -> tuple[int, int, int]:
        """Root, first byte and end of a contiguous array."""
        start = array.__array_interface__["data"][0]
        assert array.flags.c_contiguous, "a buffer has gaps"
        for i, (root, first) in enumerate(zip(self.roots, self.starts, strict=True)):
            if root.nbytes and first <= start and start + array.nbytes <= first + root.nbytes:
                return i, start - first, start - first + array.nbytes
        raise AssertionError("a buffer lies nowhere")

    def read(self, array: Array, what: str) -> None:
        if array.size:
            root, first, end = self.place(array)
            assert self.written[root][first:end].all(), f"{what} reads what was never written"

    def write(self, array: Array) -> None:
        if array.size:
            root, first, end = self.place(array)
            self.written[root][first:end] = True


def overlap(a: Array, b: Array) -> bool:
    return bool(a.size and b.size and np.shares_memory(a, b))


def check_plan(before: Module, planned: Module, arrays: Sequence[Array], alignment: int) -> None:
    """Holds a planned program against the one with `tile.call`s that it was made from."""
    main = planned.lookup("main")
    assert main is not None
    wanted, results = calls(before, arrays)
    check_arena(before, planned, alignment)
    # What is prepared is computed before all else, and only then.
    prepared: list[Array] = []
    for name in find_symbols(main, "ng.prepared"):
        first, _ = calls(before, (), name)
        assert [kernel for kernel, _ in wanted[: len(first)]] == [kernel for kernel, _ in first]
        wanted = wanted[len(first) :]
        prepared += [np.array(a) for a in run(planned, entry=name)]
    originals = [np.array(a) for a in prepared]

    types = [a.type for a in main.block.args]
    count, tied = get_i64(main, "ng.arguments"), tied_pairs(main)
    stored = array_items(main.attributes["ng.constants"]) if "ng.constants" in main.attributes else ()
    constants = [np.array(c.array()) for c in stored if isinstance(c, ElementsAttr)]
    given = [np.array(a) for a in arrays]
    own = [tiles.fresh(t) for t in types[count : len(types) - len(constants) - len(prepared) - 1]]
    assert len(own) == get_i64(main, "ng.results") - len(tied), "a tied result has a buffer of its own"
    arena = tiles.fresh(types[-1])
    buffers = [*given, *own, *constants, *prepared, arena]
    books = Books(buffers)
    for array in (*given, *constants, *prepared):
        books.write(array)
    steps = iter(wanted)

    def seen(kernel: Op, used: Sequence[Array], inputs: int) -> None:
        name, expected = next(steps, ("nothing", []))
        assert kernel.symbol == name, f"{kernel.symbol} runs where {name} should"
        for i, array in enumerate(used[:inputs]):
            books.read(array, f"@{name}")
            assert_same_bits([array], [expected[i]], f"input {i} of @{name}")
        allowed = in_place(kernel)
        for o, output in enumerate(used[inputs:], inputs):
            for i, other in enumerate(used):
                if i == o or not overlap(output, other):
                    continue
                whole = books.place(output) == books.place(other)
                assert (i, o) in allowed and whole, f"output {o} of @{name} lies on buffer {i}"
            if not any(overlap(output, other) for other in used[:inputs]):
                tiles.fill_with_poison(output)
            books.write(output)

    planned_copies = {op for op in main.walk() if op.name == "tile.copy"}

    def copied(runner: Any, op: Op, operands: Sequence[Array]) -> Sequence[Any]:
        source, target = operands
        books.read(source, "tile.copy")
        # A kernel that works in place copies what stays to where it is.
        same = op not in planned_copies and books.place(source) == books.place(target)
        assert same or not overlap(source, target), "a copy overlaps itself"
        books.write(target)
        return tiles.copy(runner, op, operands)

    runner = interpreter._Runner(planned, None, False)
    with launches(seen), mock.patch.dict(EFFECTS, {"tile.copy": copied}), np.errstate(all="ignore"):
        runner.isolated(main.block, buffers)
    assert next(steps, None) is None, "a kernel does not run"

    untied = iter(own)
    got = [given[tied[i]] if i in tied else next(untied) for i in range(len(results))]
    assert_same_bits(got, results, "planned")
    for i, (array, original) in enumerate(zip(given, arrays, strict=True)):
        if i not in tied.values():
            assert_same_bits([array], [original], f"argument {i} afterwards")
    for c, attribute in zip(constants, stored, strict=True):
        assert_same_bits([c], [attribute.array()], "a constant afterwards")  # type: ignore[attr-defined]
    assert_same_bits(prepared, originals, "what is prepared, afterwards")


def check_arena(before: Module, planned: Module, alignment: int) -> None:
    """Every part of the arena is aligned and inside, some part ends where it ends, and sharing never costs."""
    main = planned.lookup("main")
    assert main is not None
    arena = main.block.args[-1]
    ends = [0]
    for op in main.walk():
        if op.name == "tile.view" and op.operands[0] is arena:
            offset = get_i64(op, "offset")
            assert offset % alignment == 0
            ends.append(offset + _padded(op.results[0].type, alignment))
    size = arena.type.shape[0]  # type: ignore[attr-defined]
    assert max(ends) == size, f"the arena has {size} bytes, of which {max(ends)} are used"
    unplanned = before.lookup("main")
    assert unplanned is not None
    total = 0
    for op in unplanned.walk():
        if op.name == "tile.call":
            total += sum(_padded(r.type, alignment) for r in op.results)
        elif "control" in op.traits:
            # What goes round a loop has a place, and another when it is handed on.
            total += sum(2 * _padded(v.type, alignment) for v in (*op.results, *op.operands))
    if tied_pairs(main):
        total += sum(_padded(a.type, alignment) for a in unplanned.block.args)  # values that change places
    assert size <= total, f"the arena has {size} bytes for {total} bytes of values"


def _padded(type: Any, alignment: int) -> int:
    assert isinstance(type, (TensorType, MemRefType))
    return -(-type.size * item_bytes(type.element) // alignment) * alignment
