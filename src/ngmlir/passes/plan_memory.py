# SPDX-License-Identifier: Apache-2.0
"""The memory plan: values become places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    ElementsAttr,
    FloatAttr,
    IntegerAttr,
    TypeAttr,
)
from ..ir.core import Block, Module, Op, Region, Value, callee
from ..ir.literals import item_bytes
from ..ir.types import FunctionType, MemRefType, TensorType, Type, i8, i64
from ..ops import func, ng
from ..ops.builder import Builder
from ..support.diagnostics import Bug, Diagnostic, Limit, Location
from ..support.target import Target


def plan_memory(module: Module, target: Target) -> Module:
    """Gives every value of @main a place: an argument, a result, a constant, or a part of one arena.

    Buffers whose lives do not meet share bytes, whatever their shapes and types; a result is written where
    the caller wants it; a kernel overwrites an input that nobody needs any more where it may; a variable and
    its new value are one buffer. The arena's size is the last argument's type: the peak is known before
    anything runs.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = tile.call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %1 = tile.call @k(%0) : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        tile.kernel @k(%a: memref<4xf32>, %b: memref<4xf32>) attributes {grid = array<i64>} {
          tile.copy %a, %b : (memref<4xf32>, memref<4xf32>) -> ()
          tile.return
        }
    After:
        func.func @main(%x: memref<4xf32>, %0: memref<4xf32>, %arena: memref<64xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64} {
          %1 = tile.view %arena at 0 : (memref<64xi8>) -> memref<4xf32>
          tile.launch @k(%x, %1) : (memref<4xf32>, memref<4xf32>) -> ()
          tile.launch @k(%1, %0) : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }
        tile.kernel @k(%a: memref<4xf32>, %b: memref<4xf32>) attributes {grid = array<i64>} {
          tile.copy %a, %b : (memref<4xf32>, memref<4xf32>) -> ()
          tile.return
        }
    """
    kernels = {op.symbol: op for op in module.ops if op.name == "tile.kernel"}
    return module.with_ops(
        [
            _Plan(op, kernels, target).function() if op.name == "func.func" and op.symbol == "main" else op
            for op in module.ops
        ]
    )


def planned_bytes(module: Module) -> int:
    """The arena of a planned module, in bytes."""
    main = module.lookup("main")
    if main is None or "ng.arguments" not in main.attributes:
        raise Bug("the module has no planned @main")
    type = main.block.args[-1].type
    assert isinstance(type, MemRefType)
    return type.size


# ---- places ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Buffer:
    """Bytes that hold values. `first` and `last` are the steps between which it holds something needed."""

    bytes: int
    role: str  # "argument", "result", "constant", "temporary"
    type: MemRefType
    name: str = ""
    index: int = 0
    first: int = 1 << 60
    last: int = -1
    offset: int = 0

    def use(self, step: int) -> None:
        self.first, self.last = min(self.first, step), max(self.last, step)


@dataclass(eq=False)
class Slot:
    """One slice per loop step of a buffer: what a scan's body sees of a sequence."""

    of: Buffer
    whole: MemRefType  # the sequence: the buffer may hold it under another shape
    type: MemRefType
    loop: Loop


Home = Buffer | Slot


@dataclass(eq=False)
class Launch:
    op: Op
    places: list[Home]


@dataclass(eq=False)
class Copy:
    source: Home
    target: Home
    location: Location
    update: bool = False  # brings a variable's new value home, after everything else


@dataclass(eq=False)
class Loop:
    """`length` steps (a scan, forwards or backwards)."""

    length: int
    reverse: bool
    location: Location
    steps: list[Step] = field(default_factory=list)


@dataclass(eq=False)
class While:
    condition: list[Step]
    flag: Home
    location: Location
    steps: list[Step] = field(default_factory=list)


@dataclass(eq=False)
class Choice:
    flag: Home
    location: Location
    then: list[Step] = field(default_factory=list)
    other: list[Step] = field(default_factory=list)


Step = Launch | Copy | Loop | While | Choice


def memref_of(type: Type) -> MemRefType:
    """The contiguous buffer of a tensor."""
    if not isinstance(type, TensorType) or not type.static:
        raise Limit(f"{type} has no size that is known while compiling", hint="give every axis a length")
    return MemRefType(type.shape, type.element)


def bytes_of(type: MemRefType) -> int:
    return type.size * item_bytes(type.element)


class _Plan:
    def __init__(self, main: Op, kernels: dict[str, Op], target: Target):
        self.main, self.kernels, self.target = main, kernels, target
        self.homes: dict[Value, Home] = {}
        self.buffers: list[Buffer] = []
        self.constants: list[ElementsAttr] = []
        self.times: dict[int, int] = {}
        self.clock = 0

    def function(self) -> Op:
        source = self.main.block
        self.arguments = [self.new("argument", memref_of(a.type), a.name) for a in source.args]
        for i, (value, buffer) in enumerate(zip(source.args, self.arguments, strict=True)):
            self.homes[value] = buffer
            buffer.index = i
        end = source.ops[-1]
        steps = self.steps(source.ops[:-1])
        steps += self.results(end)
        self.live(steps)
        temporaries = [b for b in self.buffers if b.role == "temporary" and b.last >= 0]
        self.share(steps)
        temporaries = [b for b in temporaries if b not in self.moved]
        size = place(temporaries, self.target.alignment)
        return self.emit(steps, size)

    # -- homes -------------------------------------------------------------------------------------------

    def new(self, role: str, type: MemRefType, name: str = "") -> Buffer:
        buffer = Buffer(bytes_of(type), role, type, name)
        self.buffers.append(buffer)
        return buffer

    def temporary(self, type: Type, name: str = "") -> Buffer:
        return self.new("temporary", memref_of(type), name)

    def constant(self, op: Op) -> Buffer:
        value = op.attributes["value"]
        type = op.results[0].type
        if isinstance(value, (FloatAttr, IntegerAttr)):
            raise Bug(f"a scalar constant {value} stands in a function of tensors", op.location)
        assert isinstance(value, ElementsAttr) and isinstance(type, TensorType)
        buffer = self.new("constant", memref_of(type), op.results[0].name)
        buffer.index = len(self.constants)
        self.constants.append(value)
        return buffer

    def steps(self, ops: Sequence[Op]) -> list[Step]:
        out: list[Step] = []
        for op in ops:
            match op.name:
                case "tile.call":
                    for result in op.results:
                        self.homes[result] = self.temporary(result.type, result.name)
                    out.append(Launch(op, [self.homes[v] for v in (*op.operands, *op.results)]))
                case "ng.reshape":
                    self.homes[op.results[0]] = self.homes[op.operands[0]]
                case "ng.constant":
                    self.homes[op.results[0]] = self.constant(op)
                case "ng.scan":
                    out += self.scan(op)
                case "ng.while":
                    out += self.while_loop(op)
                case "ng.if":
                    out += self.choice(op)
                case _:
                    raise Limit(Diagnostic(f"{op.name} has no place in a memory plan", op.location))
        return out

    # -- control flow ------------------------------------------------------------------------------------

    def carried(self, inits: Sequence[Value], op: Op) -> tuple[list[Buffer], list[Step]]:
        """Buffers for the carried values of a loop, and the steps that fill them."""
        buffers = [self.temporary(v.type) for v in inits]
        return buffers, [Copy(self.homes[v], b, op.location) for v, b in zip(inits, buffers, strict=True)]

    def hand_on(self, yields: Sequence[Value], buffers: Sequence[Buffer], op: Op) -> list[Step]:
        """Copies yielded values to the carried buffers; one that is itself a carried buffer is saved first."""
        before: list[Step] = []
        after: list[Step] = []
        for value, target in zip(yields, buffers, strict=True):
            source = self.homes[value]
            if source is target:
                continue
            if source in buffers:
                saved = self.temporary(value.type)
                before.append(Copy(source, saved, op.location))
                source = saved
            after.append(Copy(source, target, op.location))
        return before + after

    def scan(self, op: Op) -> list[Step]:
        count = op.attributes["carried"].value  # type: ignore[attr-defined]
        body = op.block
        length = op.operands[count].type.shape[0]  # type: ignore[attr-defined]
        buffers, out = self.carried(op.operands[:count], op)
        loop = Loop(length, bool(op.attributes["reverse"].value), op.location)  # type: ignore[attr-defined]
        self.homes.update(zip(body.args[:count], buffers, strict=True))
        for argument, value in zip(body.args[count:], op.operands[count:], strict=True):
            whole = self.homes[value]
            if isinstance(whole, Slot):
                # A slice of a slice: the inner loop reads from a copy of the outer slice.
                copy = self.temporary(value.type)
                out.append(Copy(whole, copy, op.location))
                whole = copy
            self.homes[argument] = Slot(whole, memref_of(value.type), memref_of(argument.type), loop)
        loop.steps = self.steps(body.ops[:-1])
        yields = body.ops[-1].operands
        for value, result in zip(yields[count:], op.results[count:], strict=True):
            stacked = self.temporary(result.type, result.name)
            self.homes[result] = stacked
            slot = Slot(stacked, stacked.type, memref_of(value.type), loop)
            loop.steps.append(Copy(self.homes[value], slot, op.location))
        loop.steps += self.hand_on(yields[:count], buffers, op)
        self.homes.update(zip(op.results[:count], buffers, strict=True))
        return [*out, loop]

    def while_loop(self, op: Op) -> list[Step]:
        buffers, out = self.carried(op.operands, op)
        condition, body = op.regions[0].block, op.regions[1].block
        self.homes.update(zip(condition.args, buffers, strict=True))
        self.homes.update(zip(body.args, buffers, strict=True))
        asked = self.steps(condition.ops[:-1])
        loop = While(asked, self.homes[condition.ops[-1].operands[0]], op.location)
        loop.steps = self.steps(body.ops[:-1])
        loop.steps += self.hand_on(body.ops[-1].operands, buffers, op)
        self.homes.update(zip(op.results, buffers, strict=True))
        return [*out, loop]

    def choice(self, op: Op) -> list[Step]:
        made = Choice(self.homes[op.operands[0]], op.location)
        results = [self.temporary(r.type, r.name) for r in op.results]
        for region, steps in zip(op.regions, (made.then, made.other), strict=True):
            steps += self.steps(region.block.ops[:-1])
            for value, target in zip(region.block.ops[-1].operands, results, strict=True):
                steps.append(Copy(self.homes[value], target, op.location))
        self.homes.update(zip(op.results, results, strict=True))
        return [made]

    # -- results -----------------------------------------------------------------------------------------

    def results(self, end: Op) -> list[Step]:
        """Decides where results are written. A temporary can become a result's buffer; others are copied.

        A tied result belongs in its argument's buffer. It is written there at once if nothing reads the old
        value afterwards (`share` decides), else copied at the very end, after whoever returns the old value.
        """
        attribute = self.main.attributes.get("ng.tied")
        pairs = attribute.values if isinstance(attribute, DenseArrayAttr) else ()
        self.tied = dict(zip(pairs[::2], pairs[1::2], strict=True))
        self.result_buffers: list[Buffer] = []
        self.wanted: dict[Buffer, Buffer] = {}  # temporary -> the argument's buffer that it would like to be
        copies: list[Step] = []
        updates: list[Step] = []
        taken: set[Buffer] = set()
        for i, value in enumerate(end.operands):
            home = self.homes[value]
            assert isinstance(home, Buffer)
            if i in self.tied:
                target = self.arguments[self.tied[i]]
                self.result_buffers.append(target)
                if home is not target:
                    if home.role == "temporary" and home not in taken:
                        self.wanted[home] = target
                    updates.append(Copy(home, target, end.location, True))
                continue
            if home.role == "temporary" and home not in taken and home not in self.wanted:
                taken.add(home)
                home.role, home.index, home.name = "result", i, home.name or value.name
                home.type = memref_of(value.type)
                self.result_buffers.append(home)
                continue
            target = self.new("result", memref_of(value.type), value.name)
            target.index = i
            self.result_buffers.append(target)
            copies.append(Copy(home, target, end.location))
        return [*copies, *self.parallel(updates)]

    def parallel(self, updates: Sequence[Step]) -> list[Step]:
        """Updates of variables happen together: one that reads another's old value saves it first."""
        before: list[Step] = []
        after: list[Step] = []
        written = [u.target for u in updates if isinstance(u, Copy)]
        for update in updates:
            assert isinstance(update, Copy)
            source = update.source
            if source in written and isinstance(source, Buffer):
                saved = self.new("temporary", source.type)
                before.append(Copy(source, saved, update.location))
                update = Copy(saved, update.target, update.location, True)
            after.append(update)
        return before + after

    # -- lives -------------------------------------------------------------------------------------------

    def live(self, steps: Sequence[Step]) -> None:
        """Numbers the steps; a buffer used inside a loop but filled outside lives as long as the loop."""
        for step in steps:
            self.times[id(step)] = self.clock
            match step:
                case Launch():
                    for home in step.places:
                        _buffer(home).use(self.clock)
                case Copy():
                    _buffer(step.source).use(self.clock)
                    # An update is no use of the variable's old value.
                    if not step.update:
                        _buffer(step.target).use(self.clock)
                case Loop() | While() | Choice():
                    self.nested(step)
            self.clock += 1

    def nested(self, step: Loop | While | Choice) -> None:
        before = {b: b.first for b in self.buffers if b.last >= 0}
        start = self.clock
        self.clock += 1
        if isinstance(step, Choice):
            _buffer(step.flag).use(start)
            self.live(step.then)
            self.live(step.other)
        elif isinstance(step, While):
            self.live(step.condition)
            _buffer(step.flag).use(self.clock)
            self.clock += 1
            self.live(step.steps)
        else:
            self.live(step.steps)
        for buffer in self.buffers:
            if buffer.last < start:
                continue
            if buffer in before:  # filled before the loop: every round may need it
                buffer.use(self.clock)
            elif not isinstance(step, Choice) and self.read_first(buffer, step):
                buffer.use(start)
                buffer.use(self.clock)

    def read_first(self, buffer: Buffer, step: Loop | While) -> bool:
        """Whether a buffer keeps something from one round to the next: it is stacked into, slice by slice."""
        return any(
            isinstance(home, Slot) and home.of is buffer for inner in _walk(step.steps) for home in _homes(inner)
        )

    def share(self, steps: Sequence[Step]) -> None:
        """Lets outputs take over the buffers of inputs that end there, and new values those of their variables."""
        self.moved: dict[Buffer, Buffer] = {}
        self.dropped: set[int] = set()
        inside = {id(inner) for step in steps if not isinstance(step, (Launch, Copy)) for inner in _walk([step])}
        final: dict[Buffer, Copy] = {
            s.source: s for s in steps if isinstance(s, Copy) and isinstance(s.source, Buffer) and s.source in self.wanted
        }
        for step in steps:
            if not isinstance(step, Launch) or id(step) in inside:
                continue
            time = self.times[id(step)]
            for i, o in self.pairs(step):
                source, target = step.places[i], step.places[o]
                if not (isinstance(source, Buffer) and isinstance(target, Buffer)) or target.first != time:
                    continue
                if step.places.count(source) != 1 or target in self.moved or target.role != "temporary":
                    continue
                variable = self.wanted.get(target)
                root = self.root(source)
                if variable is root and source.last == time:
                    self.move(target, root, final.get(target))
                elif variable is None and root.role == "temporary" and root.last == time and root.bytes == target.bytes:
                    root.last = target.last
                    self.moved[target] = root
            for o in range(len(step.places)):
                target = step.places[o]
                if isinstance(target, Buffer) and target.first == time and target in self.wanted and target not in self.moved:
                    variable = self.wanted[target]
                    if variable.last < time:
                        self.move(target, variable, final.get(target))

    def move(self, target: Buffer, variable: Buffer, copy: Copy | None) -> None:
        """`target` is written straight into its variable's buffer, so the copy at the end goes."""
        self.moved[target] = variable
        variable.last = max(variable.last, target.last)
        if copy is not None:
            self.dropped.add(id(copy))

    def root(self, buffer: Buffer) -> Buffer:
        while buffer in self.moved:
            buffer = self.moved[buffer]
        return buffer

    def pairs(self, step: Launch) -> Iterator[tuple[int, int]]:
        kernel = self.kernels.get(callee(step.op))
        attribute = kernel.attributes.get("in_place") if kernel is not None else None
        if isinstance(attribute, DenseArrayAttr):
            yield from zip(attribute.values[::2], attribute.values[1::2], strict=True)

    # -- the new function --------------------------------------------------------------------------------

    def emit(self, steps: Sequence[Step], size: int) -> Op:
        own = [b for i, b in enumerate(self.result_buffers) if i not in self.tied]
        constants = [b for b in self.buffers if b.role == "constant"]
        arena = MemRefType((size,), i8)
        parameters = [*self.arguments, *own, *constants]
        block = Block([*[b.type for b in parameters], arena], [*[b.name for b in parameters], "arena"])
        self.b = Builder(block, self.main.location)
        self.values: dict[Buffer, Value] = dict(zip(parameters, block.args[:-1], strict=True))
        self.arena = block.args[-1]
        self.views: dict[tuple[Value, int, MemRefType], Value] = {}
        self.positions: dict[Loop, Value] = {}
        self.write(steps)
        self.b.location = self.main.location
        self.b.end(func.ReturnOp)
        attributes: dict[str, Attribute] = {
            "sym_name": self.main.attributes["sym_name"],
            "ng.arguments": IntegerAttr(len(self.arguments), i64),
            "ng.results": IntegerAttr(len(self.result_buffers), i64),
            "function_type": TypeAttr(FunctionType(tuple(a.type for a in block.args), ())),
        }
        if self.tied:
            attributes["ng.tied"] = self.main.attributes["ng.tied"]
        if self.constants:
            attributes["ng.constants"] = ArrayAttr(tuple(self.constants))
        return func.FuncOp((), (), attributes, [Region(block)], self.main.location)

    def write(self, steps: Sequence[Step]) -> None:
        b = self.b
        for step in steps:
            if id(step) in self.dropped:
                continue
            match step:
                case Launch():
                    b.location = step.op.location
                    kernel = self.kernels[callee(step.op)]
                    types = [a.type for a in kernel.block.args[: len(step.places)]]
                    values = [self.value(h, t) for h, t in zip(step.places, types, strict=True)]
                    b.launch(values, callee=callee(step.op))
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
                    b.for_(b.index(0), b.index(step.length), b.index(1), (), types=(), regions=[region])
                case While():
                    self.write_while(step)
                case Choice():
                    self.write_choice(step)

    def flag(self, home: Home) -> Value:
        type = MemRefType((), home.type.element)
        return self.b.load(self.value(home, type), (), type=type.element)

    def nested_region(self, steps: Sequence[Step], flag: Home | None = None) -> Region:
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

    def value(self, home: Home, type: Type) -> Value:
        """The memref of a home, as `type`."""
        assert isinstance(type, MemRefType)
        if isinstance(home, Slot):
            whole = self.value(home.of, home.whole)
            strides = home.whole.row_strides[1:]
            window = MemRefType(home.type.shape, home.type.element, strides, -1)
            indices = [self.positions[home.loop], *[self.b.index(0)] * len(home.type.shape)]
            found = self.b.subview(whole, indices, type=window)
            return found if type.shape == home.type.shape else self.view(found, 0, type)
        buffer = self.root(home)
        if buffer in self.values:
            base = self.values[buffer]
            return base if base.type is type else self.view(base, 0, type)
        return self.view(self.arena, buffer.offset, type)

    def view(self, base: Value, offset: int, type: MemRefType) -> Value:
        key = (base, offset, type)
        if key not in self.views:
            self.views[key] = self.b.view(base, type=type, offset=offset)
        return self.views[key]


def _buffer(home: Home) -> Buffer:
    return home.of if isinstance(home, Slot) else home


def _walk(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        match step:
            case Loop():
                yield from _walk(step.steps)
            case While():
                yield from _walk([*step.condition, *step.steps])
            case Choice():
                yield from _walk([*step.then, *step.other])
            case _:
                pass


def _homes(step: Step) -> Sequence[Home]:
    match step:
        case Launch():
            return step.places
        case Copy():
            return (step.source, step.target)
        case While() | Choice():
            return (step.flag,)
        case _:
            return ()


def place(buffers: Sequence[Buffer], alignment: int) -> int:
    """Offsets in one arena: the largest buffer first, each into the tightest gap among those alive with it."""
    placed: list[Buffer] = []
    end = 0
    for buffer in sorted(buffers, key=lambda b: (-b.bytes, b.first, b.last)):
        size = -(-buffer.bytes // alignment) * alignment
        busy = sorted(
            (p.offset, p.offset - (-p.bytes // alignment) * alignment)
            for p in placed
            if p.first <= buffer.last and buffer.first <= p.last
        )
        best, best_gap, at = -1, 1 << 62, 0
        for start, stop in busy:
            if size <= start - at < best_gap:
                best, best_gap = at, start - at
            at = max(at, stop)
        buffer.offset = best if best >= 0 else at
        end = max(end, buffer.offset + size)
        placed.append(buffer)
    return end
