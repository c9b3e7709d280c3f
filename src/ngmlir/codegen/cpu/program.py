# SPDX-License-Identifier: Apache-2.0
"""A whole module: its kernels, each emitted independently, and the entry functions that launch them.

    define void @main.entry(ptr buffers, ptr arena, ptr constants)      see support/artifact.py

The scratch memory of kernels that do not use the stack is placed after the planned arena (see `kernel`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from ...ir.attributes import StringAttr, SymbolRefAttr
from ...ir.core import Module as IRModule
from ...ir.core import Op, Region, callee
from ...ir.core import Value as IRValue
from ...ir.printer import to_text
from ...ir.structure import fingerprint
from ...ir.types import as_memref
from ...llvm.machine import version
from ...llvm.text import Argument, Function, Module
from ...llvm.types import Value, constant, global_name, i8, i64, ptr
from ...ops import tile
from ...ops.work import measure
from ...support.artifact import Entry, Measure, Place
from ...support.lengths import greatest, is_same
from ...support.signature import Signature
from ...support.target import Target
from ..unit import Interface, Parts, Piece, Unit, described, interfaces
from . import memory, timing
from .emitter import Buffer, Emitter, scratch_bytes
from .fused import fma
from .kernel import Kernel, Promises, key_of, lanes, promises
from .places import Extent, extents
from .table import TABLE


def emit(module: IRModule, target: Target) -> Unit:
    """A planned module as one LLVM module."""
    program = _Program(module, target)
    kernels = program.kernels()
    return Unit(llvm=program.whole(kernels), **program.outside(kernels))


def parts(module: IRModule, target: Target) -> Parts:
    """A planned module as separate LLVM modules: one for each kernel, named by a hash of its content, so that programs
    share it; then one for the entries."""
    program = _Program(module, target)
    pieces, kernels = program.pieces()
    return Parts(pieces=pieces, **program.outside(kernels))


class _Program:
    def __init__(self, module: IRModule, target: Target):
        self.module = module
        self.interfaces, self.constants = interfaces(module)
        self.target = target
        kernels = {op.symbol: op for op in module.ops if isinstance(op, tile.KernelOp)}
        places: dict[IRValue, Extent] = {}
        launches: dict[str, list[Op]] = {}
        for outside in self.interfaces:
            places |= extents(outside)
            for op in outside.function.walk():
                if isinstance(op, tile.LaunchOp):
                    launches.setdefault(callee(op), []).append(op)
        self.launched: dict[str, tuple[tile.KernelOp, Promises]] = {}
        for name, ops in launches.items():
            lying = [[places.get(v) for v in op.operands] for op in ops]
            self.launched[name] = kernels[name], promises(kernels[name], ops, lying, target)

    def kernels(self) -> dict[str, Kernel]:
        """The kernels as functions of one LLVM module, under their names in the IR."""
        return {
            name: Kernel(kernel, promised, self.target, name)
            for name, (kernel, promised) in self.launched.items()
        }

    def whole(self, kernels: Mapping[str, Kernel]) -> str:
        text = self.text()
        for kernel in kernels.values():
            kernel.write(text)
        self.write_entries(text, kernels)
        return text.text()

    def pieces(self) -> tuple[tuple[Piece, ...], dict[str, Kernel]]:
        pieces: dict[str, Piece] = {}
        kernels: dict[str, Kernel] = {}
        for name, (kernel, promised) in self.launched.items():
            key = key_of(kernel, promised)
            if self.target.debug:  # debug info has names and locations
                key += f" | {os.getcwd()} | {to_text(kernel, locations=True)}"
            # Kernels of the same name are numbered, differently from program to program.
            stem = re.sub(r"_\d+$", "", name)
            unique = f"{stem}.{sha256(key.encode()).hexdigest()[:12]}"
            made = kernels[name] = Kernel(kernel, promised, self.target, unique, linkage="")
            if not is_same(made.programs, 0):
                pieces[unique] = Piece(unique, key, partial(self.kernel_text, made), _size(kernel))

        def entries() -> str:
            text = self.text()
            self.write_entries(text, kernels)
            return text.text()

        size = sum(_size(each.function) for each in self.interfaces)
        return (*pieces.values(), Piece("entries", None, entries, size)), kernels

    def text(self) -> Module:
        return Module(None if self.target.can("fma") else fma, debug=self.target.debug)

    def kernel_text(self, kernel: Kernel) -> str:
        text = self.text()
        kernel.write(text)
        return text.text()

    # The entry points

    def outside(self, kernels: Mapping[str, Kernel]) -> dict[str, Any]:
        """The description of the program besides its code (`Outside`)."""
        entries = [self.entry(each, kernels) for each in self.interfaces]
        return described(self.module, self.interfaces, entries, self.constants)

    def entry(self, outside: Interface, kernels: Mapping[str, Kernel]) -> Entry:
        signature = outside.signature
        launched = {callee(op) for op in outside.function.walk() if isinstance(op, tile.LaunchOp)}
        parts = [kernel.scratch * kernel.parts for name in launched if (kernel := kernels[name]).scratch]
        if parts:
            arena_bytes = scratch_bytes(signature.arena_bytes) + greatest(parts)
            signature = replace(signature, arena_bytes=arena_bytes)
        measures = self.measures(outside) if self.target.timed else ()
        return Entry(signature, measures=measures, digest=self.preparation(outside) if outside.once else "")

    def preparation(self, outside: Interface) -> str:
        """A digest of what a function that is called once computes; "" if it has control flow."""
        function = outside.function
        if any(op.regions for op in function.block.ops):
            return ""
        called = [callee(op) for op in function.block.ops if isinstance(op, tile.LaunchOp)]
        kernels = {name: key_of(*self.launched[name]) for name in dict.fromkeys(called)}
        alike = SymbolRefAttr("kernel")
        out = function.block.emptied()
        out.ops = [
            op.rebuilt(attributes={**op.attributes, "callee": alike}) if isinstance(op, tile.LaunchOp) else op
            for op in function.block.ops
        ]
        plain = function.rebuilt(
            regions=[Region(out)], attributes={**function.attributes, "sym_name": StringAttr("prepare")}
        )
        structure, _ = fingerprint(plain)
        parts = [structure, str(self.target), version(), *(kernels[name] for name in called)]
        return sha256("\n".join(parts).encode()).hexdigest()

    def measures(self, outside: Interface) -> tuple[Measure, ...]:
        """The work that each launch of an entry does, in order."""
        launches = [op for op in outside.function.walk() if isinstance(op, tile.LaunchOp)]
        return tuple([measure(op, self.launched[callee(op)][0]) for op in launches])

    def write_entries(self, text: Module, kernels: Mapping[str, Kernel]) -> None:
        if self.target.timed:
            timing.write(text)
        for outside in self.interfaces:
            signature, function = outside.signature, outside.function
            behind = scratch_bytes(signature.arena_bytes)
            numbers: Mapping[Op, int] = {
                op: i for i, op in enumerate(o for o in function.walk() if isinstance(o, tile.LaunchOp))
            }

            def launch(e: Emitter, op: Op, behind: int = behind, numbers: Mapping[Op, int] = numbers) -> None:
                if not self.target.timed:
                    _launch(e, op, kernels[callee(op)], behind)
                    return
                begin = e.b.call(i64, timing.CLOCK)
                _launch(e, op, kernels[callee(op)], behind)
                table = e.b.load(ptr, e.b.getelementptr(ptr, e.b.arguments[2], self.times), align=8)
                e.b.call("void", timing.NOTE, table, constant(i64, numbers[op]), begin)

            arguments = [Argument(ptr, name, "noalias") for name in ("buffers", "arena", "constants")]
            b = text.function(Entry(signature).symbol, "void", arguments)
            b.trace_as(b.name, function.location)
            table = {**TABLE, "tile.launch": launch, "tile.copy": memory.copy_apart}
            if sum(op.name == "tile.copy" for op in function.walk()) > memory.COPIES:
                if memory.COPY not in text.functions:
                    memory.write_copy(text)
                table["tile.copy"] = memory.copy_by_call
            b.has_lengths(self.lengths_of(b, signature))
            e = Emitter(b, self.target, lanes(function, self.target), table)
            for value in function.block.args:
                # Looked up at each use: LLVM takes too long to schedule thousands of loads at the start.
                e.bind(value, partial(self.buffer, b, value, outside))
            e.run(function.block)
            e.finish()

    def lengths_of(self, b: Function, signature: Signature) -> dict[str, Value]:
        """The lengths of a call: 64-bit integers in the table whose address follows those of the buffers."""
        if not signature.lengths:
            return {}
        behind = len(signature.arguments) + len(signature.results)
        table = b.load(ptr, b.getelementptr(ptr, b.arguments[0], behind), align=8)
        return {
            name: b.load(i64, b.getelementptr(i64, table, i), align=8)
            for i, name in enumerate(signature.lengths)
        }

    @property
    def times(self) -> int:
        """The slot of the table of timings among the pointers that code reads: after the constants, the checks and the
        prepared buffers."""
        prepared = sum(len(each.signature.results) for each in self.interfaces if each.once)
        return len(self.constants.numbers) + 1 + prepared

    def buffer(self, b: Function, value: IRValue, outside: Interface) -> Buffer:
        """A buffer of an entry; its address is loaded here."""
        return Buffer(self.address(b, outside.places[value], outside.signature), as_memref(value.type))

    def address(self, b: Function, place: Place, signature: Signature) -> Value:
        """The address of a buffer of an entry."""
        buffers, arena, constants = b.arguments
        match place.space:
            case "arena":
                return arena
            case "constant":
                table, slot = constants, place.index
            case "checks":
                table, slot = constants, len(self.constants.numbers)
            case "prepared":
                table, slot = constants, len(self.constants.numbers) + 1 + place.index
            case "argument":
                table, slot = buffers, place.index
            case "result":
                table, slot = buffers, place.index + len(signature.arguments)
        return b.load(ptr, b.getelementptr(ptr, table, slot), align=8)


def _launch(e: Emitter, op: Op, kernel: Kernel, behind: int) -> None:
    """tile.launch: a call, or one chunk of work for the thread pool per program. `behind`: offset of the scratch memory
    in the arena."""
    b = e.b
    buffers = [e.buffer(value).pointer for value in op.operands]
    if kernel.scratch:
        buffers.append(b.getelementptr(i8, b.arguments[1], behind))
    lengths = [b.lengths[name] for name in kernel.lengths]
    if kernel.alone:
        b.call("void", kernel.symbol, *buffers, *lengths, *[Value(i64, "0")] * len(kernel.op.grid))
    elif not is_same(kernel.programs, 0):
        data = e.passing(8 * (len(buffers) + 1 + len(lengths)), op.location)
        for i, pointer in enumerate(buffers):
            b.store(pointer, b.getelementptr(ptr, data, i), align=8)
        for i, length in enumerate(lengths, len(buffers) + bool(kernel.scratch)):
            b.store(length, b.getelementptr(ptr, data, i), align=8)
        chunks = kernel.programs
        if kernel.scratch:
            chunks = kernel.parts
            b.store(constant(i64, 0), b.getelementptr(ptr, data, len(buffers)), align=8)
        if kernel.symbol not in b.module.functions:
            b.module.declare(kernel.symbol, "void", (ptr, i64))
        thunk = Value(ptr, global_name(kernel.symbol))
        b.call("void", "ngmlir_parallel", thunk, data, constant(i64, chunks))


def _size(op: Op) -> int:
    return sum(1 for _ in op.walk())
