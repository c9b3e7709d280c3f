# SPDX-License-Identifier: Apache-2.0
"""A planned module as GPU code: the list of launches that the entry function is, and LLVM IR of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.attributes import IntegerAttr
from ...ir.core import Module, Op, Value, callee
from ...ir.literals import item_bytes
from ...ir.types import MemRefType
from ...llvm.text import Module as LlvmModule
from ...ops import func, tile
from ...support.artifact import Launch, Place
from ...support.diagnostics import Bug, Limit, UserError
from ...support.target import Target
from ..unit import Unit, entry_of, interface
from .access import WIDEST
from .grid import blocks
from .kernel import Aliases, emit_kernel


def emit(module: Module, target: Target) -> Unit:
    """The kernels that the entry function launches, and in which order it launches them on what."""
    entry = entry_of(module)
    outside = interface(entry)
    places = dict(outside.places)
    calls: list[tuple[tile.KernelOp, Op, tuple[Place, ...]]] = []
    for op in entry.regions[0].block.ops:
        match op:
            case tile.ViewOp():
                places[op.result] = _inside(places[op.operands[0]], op)
            case tile.LaunchOp():
                kernel = module.lookup(callee(op))
                if not isinstance(kernel, tile.KernelOp):
                    raise Bug(f"there is no kernel @{callee(op)}", op.location)
                calls.append((kernel, op, tuple(places[value] for value in op.operands)))
            case func.ReturnOp():
                pass
            case _:
                raise Limit(
                    f"{op.name} between kernels has no code for the GPU yet",
                    op.location,
                    hint="compile for the CPU, or run the steps one by one from Python",
                )
    code = LlvmModule()
    launches = []
    for kernel in dict.fromkeys(kernel for kernel, _, _ in calls):
        uses = [(op.operands, where) for other, op, where in calls if other is kernel]
        emit_kernel(code, kernel, target, threads_of(kernel, target), _aliases(kernel, uses))
    for kernel, _, where in calls:
        if prod(kernel.grid):
            launches.append(Launch(kernel.symbol, blocks(kernel.grid), threads_of(kernel, target), where))
    return Unit(code.text(), outside.signature, outside.constants, tuple(launches))


def threads_of(kernel: tile.KernelOp, target: Target) -> int:
    """Threads per block: what the kernel says, else what the target says."""
    given = kernel.attributes.get("threads")
    threads = given.value if isinstance(given, IntegerAttr) else target.threads
    if threads not in (32, 64, 128, 256, 512, 1024):
        raise UserError(
            f"kernel @{kernel.symbol} asks for {threads} threads",
            kernel.location,
            hint="a block has a power of two from 32 to 1024",
        )
    return threads


def _inside(place: Place, view: tile.ViewOp) -> Place:
    if view.offset % WIDEST:
        raise Bug(f"a buffer at byte {view.offset} of the arena: the GPU needs multiples of {WIDEST}", view.location)
    return place._replace(offset=place.offset + view.offset)


def _aliases(kernel: tile.KernelOp, uses: Sequence[tuple[Sequence[Value], Sequence[Place]]]) -> Aliases:
    count = len(kernel.grid)
    parameters = len(kernel.regions[0].block.args) - count
    written = range(parameters - kernel.outputs, parameters)
    overlapping = set()
    for buffers, places in uses:
        for w in written:
            for i in range(parameters):
                if i != w and _meet(buffers[i], places[i], buffers[w], places[w]):
                    overlapping |= {i, w}
    return Aliases(frozenset(written), frozenset(overlapping))


def _meet(a: Value, at: Place, other: Value, there: Place) -> bool:
    if (at.space, at.index) != (there.space, there.index):
        return False
    return at.offset < there.offset + _bytes(other) and there.offset < at.offset + _bytes(a)


def _bytes(buffer: Value) -> int:
    type = buffer.type
    assert isinstance(type, MemRefType)
    return type.size * item_bytes(type.element)
