# SPDX-License-Identifier: Apache-2.0
"""The memory plan: every value of a function gets a buffer, or an offset in the arena."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.attributes import ArrayAttr, Attribute, IntegerAttr, SymbolRefAttr, TypeAttr, integers
from ...ir.core import Block, Module, Op, Region, Value, callee
from ...ir.types import FunctionType, MemRefType, Type, as_memref, i8, i64
from ...ops import func, ng
from ...ops.builder import Builder
from ...rewrite.contracts import contract
from ...support.diagnostics import Bug
from ...support.target import Target
from .memory.live_ranges import LiveRanges
from .memory.schedule import Schedule, planned_functions
from .memory.steps import (
    Buffer,
    Choice,
    Copy,
    Launch,
    Loop,
    Part,
    Slot,
    Step,
    Storage,
    While,
)


@contract(needs=("kernels",), gives="planned")
def plan_memory(module: Module, target: Target) -> Module:
    """Assigns memory to every value of each function: an argument, a result, a constant, a prepared constant, or a
    part of one arena.

    Buffers that are not live at the same time share bytes, whatever their shapes and types. Results are written to the
    buffers of the caller. A kernel that can work in place overwrites an input that is not needed any more. A variable and
    its new value share a buffer, also where branches or loops compute it. Results of functions without arguments have
    separate buffers, filled when the program is loaded; `ng.prepared` names these functions. The type of the last argument
    is the size of the arena, so the peak is known before anything runs. If sizes depend on open lengths, so do offsets:
    `ng.arena` then has, for each part of the arena, its bytes and the first and last step that need it, from which a call
    computes its offset (support/arena.py).

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = tile.call @k ins(%x) -> tensor<4xf32>
          %1 = tile.call @k ins(%0) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        tile.kernel @k ins(%a: memref<4xf32>) outs(%b: memref<4xf32>) {
          tile.copy %a, %b : memref<4xf32>, memref<4xf32>
          tile.return
        }
    After:
        func.func @main(%x: memref<4xf32>, %0: memref<4xf32>, %arena: memref<64xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64} {
          %1 = tile.view %arena at 0 : memref<4xf32>
          tile.launch @k ins(%x) outs(%1)
          tile.launch @k ins(%1) outs(%0)
          func.return
        }
        tile.kernel @k ins(%a: memref<4xf32>) outs(%b: memref<4xf32>) {
          tile.copy %a, %b : memref<4xf32>, memref<4xf32>
          tile.return
        }
    """
    kernels = {op.symbol: op for op in module.ops if op.name == "tile.kernel"}
    known, once = planned_functions(module)
    return module.with_ops([_planned(op, kernels, once, target) if op in known else op for op in module.ops])


def planned_bytes(module: Module, entry: str = "main") -> int:
    """The size of the arena of a planned function, in bytes."""
    main = module.lookup(entry)
    if main is None or "ng.arguments" not in main.attributes:
        raise Bug(f"the module has no planned @{entry}")
    return as_memref(main.block.args[-1].type).size


def _planned(main: Op, kernels: dict[str, Op], once: Collection[str], target: Target) -> Op:
    schedule = Schedule(main, once)
    lives = LiveRanges(schedule, kernels)
    return _Writer(schedule, lives, kernels).function(lives.arena(target))


class _Writer:
    """Emits the steps as ops on buffers."""

    def __init__(self, schedule: Schedule, lives: LiveRanges, kernels: dict[str, Op]):
        self.main, self.schedule, self.lives, self.kernels = schedule.main, schedule, lives, kernels

    def function(self, size: int) -> Op:
        own = [b for i, b in enumerate(self.schedule.result_buffers) if i not in self.schedule.tied]
        constants = [b for b in self.schedule.buffers if b.role == "constant"]
        prepared = [b for buffers in self.schedule.prepared.values() for b in buffers]
        arena = MemRefType((size,), i8)
        parameters = [*self.schedule.arguments, *own, *constants, *prepared]
        block = Block([*[b.type for b in parameters], arena], [*[b.name for b in parameters], "arena"])
        self.b = Builder(block, self.main.location)
        self.values: dict[Buffer, Value] = dict(zip(parameters, block.args[:-1], strict=True))
        self.arena = block.args[-1]
        self.views: dict[tuple[Value, int, MemRefType], Value] = {}
        self.positions: dict[Loop, Value] = {}
        self.write(self.schedule.program)
        self.b.location = self.main.location
        self.b.end(func.ReturnOp)
        named = ("sym_name", "sym_visibility")
        attributes: dict[str, Attribute] = {
            **{name: self.main.attributes[name] for name in named if name in self.main.attributes},
            "ng.arguments": IntegerAttr(len(self.schedule.arguments), i64),
            "ng.results": IntegerAttr(len(self.schedule.result_buffers), i64),
            "function_type": TypeAttr(FunctionType(tuple(a.type for a in block.args), ())),
        }
        if self.schedule.tied:
            attributes["ng.tied"] = self.main.attributes["ng.tied"]
        if self.lives.parts:
            attributes["ng.arena"] = integers(number for part in self.lives.parts for number in part)
        if self.schedule.constants:
            attributes["ng.constants"] = ArrayAttr(tuple(self.schedule.constants))
        if self.schedule.prepared:
            attributes["ng.prepared"] = ArrayAttr(tuple(map(SymbolRefAttr, self.schedule.prepared)))
        return func.FuncOp((), (), attributes, [Region(block)], self.main.location)

    def write(self, steps: Sequence[Step]) -> None:
        b = self.b
        for step in steps:
            if id(step) in self.lives.dropped:
                continue
            match step:
                case Launch():
                    b.location = step.op.location
                    kernel = self.kernels[callee(step.op)]
                    types = [a.type for a in kernel.block.args[: len(step.places)]]
                    values = [self.value(h, t) for h, t in zip(step.places, types, strict=True)]
                    read = len(step.op.operands)
                    b.launch(values[:read], values[read:], callee=callee(step.op))
                case Copy():
                    b.location = step.location
                    type = step.target.type if isinstance(step.target, Slot) else step.source.type
                    b.copy(self.value(step.source, type), self.value(step.target, type))
                case Loop():
                    b.location = step.location
                    with b.region(b.index(0).type) as (region, (position,)):
                        outer_views, self.views = self.views, dict(self.views)
                        if step.reverse:
                            position = b.subtract(b.index(step.length - 1), position)
                        self.positions[step] = position
                        self.write(step.steps)
                        self.views = outer_views
                        b.end(ng.YieldOp)
                    b.for_(0, step.length, 1, (), types=(), regions=[region])
                case While():
                    self.write_while(step)
                case Choice():
                    self.write_choice(step)

    def flag(self, home: Storage) -> Value:
        type = MemRefType((), home.type.element)
        return self.b.load(self.value(home, type), (), type=type.element)

    def nested_region(self, steps: Sequence[Step], flag: Storage | None = None) -> Region:
        with self.b.region() as (region, _):
            outer_views, self.views = self.views, dict(self.views)
            self.write(steps)
            if flag is None:
                self.b.end(ng.YieldOp)
            else:
                self.b.end(ng.YieldOp, self.flag(flag))
            self.views = outer_views
        return region

    def write_while(self, step: While) -> None:
        self.b.location = step.location
        regions = [self.nested_region(step.condition, step.flag), self.nested_region(step.steps)]
        self.b.while_((), types=(), regions=regions)

    def write_choice(self, step: Choice) -> None:
        self.b.location = step.location
        flag = self.flag(step.flag)
        regions = [self.nested_region(step.then), self.nested_region(step.other)]
        self.b.if_(flag, types=(), regions=regions)

    def value(self, home: Storage, type: Type) -> Value:
        """The memref of a home, as `type`."""
        assert isinstance(type, MemRefType)
        if isinstance(home, Slot):
            whole = self.value(home.of, home.whole)
            indices = [self.positions[home.loop], *[self.b.index(0)] * len(home.type.shape)]
            found = self.b.window(whole, indices, home.type.shape)
            return found if type.shape == home.type.shape else self.view(found, 0, type)
        offset = 0
        if isinstance(home, Part):
            if isinstance(home.of, Slot):
                return self.view(self.value(home.of, home.of.type), home.offset, type)
            home, offset = home.of, home.offset
        buffer = self.lives.root(home)
        if buffer in self.values:
            base = self.values[buffer]
            return base if base.type is type and not offset else self.view(base, offset, type)
        return self.view(self.arena, buffer.offset + offset, type)

    def view(self, base: Value, offset: int, type: MemRefType) -> Value:
        key = (base, offset, type)
        if key not in self.views:
            self.views[key] = self.b.view(base, type=type, offset=offset)
        return self.views[key]
