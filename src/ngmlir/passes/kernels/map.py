# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels: every element of the outputs is computed on its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...support.target import Target
from .plan import Kernel, Plan, Span, Tile, plan, power_of_two

#: Elements of one program on a CPU: enough that handing it to another thread is worth it.
PROGRAM_ELEMENTS = 1 << 15


def map_kernel(fusion: Op, target: Target, name: str) -> tuple[Op, Plan]:
    """The kernel of a `map` fusion."""
    planned = plan(fusion)
    build = _for_threads if target.execution == "warps" else _for_vectors
    return build(planned, target, name), planned


def widest_item(planned: Plan) -> int:
    """Bytes of the largest element that the kernel computes with."""
    return max((item_bytes(element_type(v.type)) for v in planned.loops), default=4)


def tile_elements(planned: Plan, target: Target) -> int:
    """Elements of one tile on a CPU: several registers for independent work, fewer for long bodies."""
    registers = 4 if len(planned.ops) <= 12 else 2 if len(planned.ops) <= 40 else 1
    return registers * target.lanes(widest_item(planned))


def _store_all(kernel: Kernel, spans: Sequence[Span]) -> None:
    Tile(kernel, spans).store(list(zip(kernel.plan.outputs, kernel.results, strict=True)))


def _for_vectors(planned: Plan, target: Target, name: str) -> Op:
    sizes = planned.sizes
    if not sizes:
        kernel = Kernel(planned, target, ())
        _store_all(kernel, ())
        return kernel.finish(name)
    step = tile_elements(planned, target)
    if len(sizes) == 1:
        return _one_loop(planned, target, name, step)
    inner = prod(sizes[1:])
    block = max(1, min(sizes[0], PROGRAM_ELEMENTS // max(1, inner)))
    programs = -(-sizes[0] // block)
    kernel = Kernel(planned, target, (programs,) if programs > 1 else ())
    b = kernel.b

    def row(first: Span) -> None:
        kernel.nest(sizes[1:-1], lambda middle: _inner(kernel, [first, *middle], step))

    if programs > 1:
        start = b.multiply(kernel.programs[0], b.index(block))
        stop = b.minimum(b.add(start, b.index(block)), b.index(sizes[0]))
        b.loop(start, stop, 1, (), lambda i, _: row(Span(i)) or ())
    else:
        kernel.nest(sizes[:1], lambda spans: row(spans[0]))
    return kernel.finish(name)


def _inner(kernel: Kernel, outer: list[Span], step: int) -> None:
    def body(span: Span, _: object) -> tuple[()]:
        _store_all(kernel, [*outer, span])
        return ()

    kernel.tiles(kernel.plan.sizes[-1], step, (), body)


def _one_loop(planned: Plan, target: Target, name: str, step: int) -> Op:
    (size,) = planned.sizes
    chunk = max(step, PROGRAM_ELEMENTS // step * step)
    programs = -(-size // chunk)
    kernel = Kernel(planned, target, (programs,) if programs > 1 else ())
    if programs == 1:
        _inner(kernel, [], step)
        return kernel.finish(name)
    b = kernel.b
    start = b.multiply(kernel.programs[0], b.index(chunk))
    stop = b.minimum(b.add(start, b.index(chunk)), b.index(size))
    kernel.tiles_between(start, stop, size, step, lambda span: _store_all(kernel, [span]))
    return kernel.finish(name)


def _for_threads(planned: Plan, target: Target, name: str) -> Op:
    """One block of threads per tile of the innermost loop; 16 bytes per thread."""
    sizes = planned.sizes or (1,)
    width = min(power_of_two(sizes[-1]), target.threads * max(1, 16 // widest_item(planned)))
    tiles = -(-sizes[-1] // width)
    grid = prod(sizes[:-1]) * tiles
    kernel = Kernel(planned, target, (grid,))
    b = kernel.b
    rest = kernel.programs[0]
    if not planned.sizes:
        _store_all(kernel, ())
        return kernel.finish(name, target.threads)
    position = b.remainder(rest, b.index(tiles)) if len(sizes) > 1 else rest
    spans = [Span(b.multiply(position, b.index(width)), width, sizes[-1] % width != 0)]
    rest = b.floor_divide(rest, b.index(tiles)) if len(sizes) > 1 else rest
    for size in reversed(sizes[:-1]):
        spans.insert(0, Span(b.remainder(rest, b.index(size))))
        rest = b.floor_divide(rest, b.index(size))
    _store_all(kernel, spans)
    return kernel.finish(name, target.threads)
