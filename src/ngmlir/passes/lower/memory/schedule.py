# SPDX-License-Identifier: Apache-2.0
"""From values to steps: the buffer of each value, and what is executed in which order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....ir.attributes import FloatAttr, IntegerAttr
from ....ir.core import Module, Op, Value, callee
from ....ir.elements import ElementsAttr
from ....ir.literals import bytes_of, item_bytes
from ....ir.types import MemRefType, TensorType, Type, shape_of
from ....ops.fields import get_bool, get_i64
from ....ops.parts import first_of_part
from ....ops.tied import tied_pairs
from ....support.diagnostics import Bug, Diagnostic, Limit
from .steps import (
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
    buffer_of,
    memref_of,
)


def planned_functions(module: Module) -> tuple[set[Op], set[str]]:
    """The functions of a module that get a memory plan, and the names of those that may be called when the program is loaded: these must
    not call others."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    return {*functions}, {f.symbol for f in functions if not any(op.name == "func.call" for op in f.walk())}


class Schedule:
    """The steps of a function, and all buffers that they use. `once` are the functions that can be called when the program is loaded.

    `wanted` maps a temporary that is the new value of a variable to the buffer of the variable.
    """

    def __init__(self, main: Op, once: Collection[str]):
        self.main, self.once = main, once
        self.storage: dict[Value, Storage] = {}
        self.places: dict[Value, Part] = {}  # the parts that values of all steps of a loop are written to
        #: The operands of concatenations, with their parts.
        self.joined: dict[Op, list[tuple[Value, Part]]] = {}
        self.buffers: list[Buffer] = []
        self.constants: list[ElementsAttr] = []
        self.prepared: dict[str, list[Buffer]] = {}  # by the function that returns them
        source = main.block
        self.arguments = [self.new("argument", memref_of(a.type), a.name) for a in source.args]
        for i, (value, buffer) in enumerate(zip(source.args, self.arguments, strict=True)):
            self.storage[value] = buffer
            buffer.index = i
        self.program = self.steps(source.ops[:-1])
        self.program += self.results(source.ops[-1])

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

    def prepare(self, op: Op) -> list[Buffer]:
        """The buffers for the results of a function without arguments: it is called once, when the program is loaded."""
        name = callee(op)
        if name not in self.prepared:
            self.prepared[name] = [self.new("prepared", memref_of(r.type), r.name) for r in op.results]
        return self.prepared[name]

    def steps(self, ops: Sequence[Op]) -> list[Step]:
        out: list[Step] = []
        for op in ops:
            if op.name == "ng.concatenate":
                self.join(op)
        for op in ops:
            match op.name:
                case "tile.call":
                    for result in op.results:
                        self.storage[result] = self.temporary(result.type, result.name)
                    out.append(Launch(op, [self.storage[v] for v in (*op.operands, *op.results)]))
                case "ng.reshape":
                    self.storage[op.results[0]] = self.storage[op.operands[0]]
                case "ng.slice":
                    self.storage[op.results[0]] = self.part(op)
                case "ng.concatenate":
                    for value, place in self.joined[op]:
                        if self.storage[value] is not place:
                            out.append(Copy(self.storage[value], place, op.location))
                case "ng.constant":
                    self.storage[op.results[0]] = self.constant(op)
                case "func.call" if not op.operands and callee(op) in self.once:
                    self.storage.update(zip(op.results, self.prepare(op), strict=True))
                case "ng.scan":
                    out += self.scan(op)
                case "ng.while":
                    out += self.while_loop(op)
                case "ng.if":
                    out += self.choice(op)
                case _:
                    raise Limit(Diagnostic(f"{op.name} has no place in a memory plan", op.location))
        return out

    def part(self, op: Op) -> Part:
        """The place of a slice, as part of the place of its operand."""
        home = self.storage[op.operands[0]]
        first = first_of_part(op)
        assert first is not None  # by the rules of the stage `kernels`
        whole, before = (home.of, home.offset) if isinstance(home, Part) else (home, 0)
        type = memref_of(op.results[0].type)
        return Part(whole, before + first * item_bytes(type.element), type)

    def join(self, op: Op) -> None:
        """Gives each operand of a concatenation its part of the result; scans write theirs there."""
        whole = self.temporary(op.results[0].type, op.results[0].name)
        self.storage[op.results[0]] = whole
        places: list[tuple[Value, Part]] = []
        offset = 0
        for value in op.operands:
            part = Part(whole, offset, memref_of(value.type))
            self.places.setdefault(value, part)
            places.append((value, part))
            offset += bytes_of(part.type)
        self.joined[op] = places

    # -- control flow ------------------------------------------------------------------------------------

    def carried(self, inits: Sequence[Value], op: Op) -> tuple[list[Buffer], list[Step]]:
        """Buffers for the carried values of a loop, and the steps that fill them."""
        buffers = [self.temporary(v.type) for v in inits]
        return buffers, [Copy(self.storage[v], b, op.location) for v, b in zip(inits, buffers, strict=True)]

    def hand_on(self, yields: Sequence[Value], buffers: Sequence[Buffer], op: Op) -> list[Step]:
        """Copies yielded values to the carried buffers; a value that is in a carried buffer itself is saved first."""
        before: list[Step] = []
        after: list[Step] = []
        for value, target in zip(yields, buffers, strict=True):
            source = self.storage[value]
            if source is target:
                continue
            if buffer_of(source) in buffers:
                saved = self.temporary(value.type)
                before.append(Copy(source, saved, op.location))
                source = saved
            after.append(Copy(source, target, op.location))
        return before + after

    def scan(self, op: Op) -> list[Step]:
        count = get_i64(op, "carried")
        body = op.block
        length = shape_of(op.operands[count].type)[0]
        buffers, out = self.carried(op.operands[:count], op)
        loop = Loop(length, get_bool(op, "reverse"), op.location)
        self.storage.update(zip(body.args[:count], buffers, strict=True))
        for argument, value in zip(body.args[count:], op.operands[count:], strict=True):
            whole = self.storage[value]
            if isinstance(whole, Slot) or (isinstance(whole, Part) and isinstance(whole.of, Slot)):
                # A slice of a slice: the inner loop reads from a copy of the outer slice.
                copy = self.temporary(value.type)
                out.append(Copy(whole, copy, op.location))
                whole = copy
            self.storage[argument] = Slot(whole, memref_of(value.type), memref_of(argument.type), loop)
        loop.steps = self.steps(body.ops[:-1])
        yields = body.ops[-1].operands
        for value, result in zip(yields[count:], op.results[count:], strict=True):
            stacked = self.places.get(result) or self.temporary(result.type, result.name)
            self.storage[result] = stacked
            slot = Slot(stacked, stacked.type, memref_of(value.type), loop)
            loop.steps.append(Copy(self.storage[value], slot, op.location))
        loop.steps += self.hand_on(yields[:count], buffers, op)
        self.storage.update(zip(op.results[:count], buffers, strict=True))
        return [*out, loop]

    def while_loop(self, op: Op) -> list[Step]:
        buffers, out = self.carried(op.operands, op)
        condition, body = op.regions[0].block, op.regions[1].block
        self.storage.update(zip(condition.args, buffers, strict=True))
        self.storage.update(zip(body.args, buffers, strict=True))
        asked = self.steps(condition.ops[:-1])
        loop = While(asked, self.storage[condition.ops[-1].operands[0]], op.location)
        loop.steps = self.steps(body.ops[:-1])
        loop.steps += self.hand_on(body.ops[-1].operands, buffers, op)
        self.storage.update(zip(op.results, buffers, strict=True))
        return [*out, loop]

    def choice(self, op: Op) -> list[Step]:
        results = [self.temporary(r.type, r.name) for r in op.results]
        made = Choice(self.storage[op.operands[0]], op.location, results)
        for region, steps in zip(op.regions, (made.then, made.other), strict=True):
            steps += self.steps(region.block.ops[:-1])
            for value, target in zip(region.block.ops[-1].operands, results, strict=True):
                steps.append(Copy(self.storage[value], target, op.location))
        self.storage.update(zip(op.results, results, strict=True))
        return [made]

    # -- results -----------------------------------------------------------------------------------------

    def results(self, end: Op) -> list[Step]:
        """Decides where results are written. A temporary can become a result's buffer; others are copied.

        A tied result belongs in its argument's buffer. It is computed there if nothing reads the old value afterwards
        (`LiveRanges.share` decides), otherwise copied at the very end, after the copies of results that are the old value.
        """
        self.tied = tied_pairs(self.main)
        self.result_buffers: list[Buffer] = []
        self.wanted: dict[Buffer, Buffer] = {}  # temporary -> the argument's buffer that it should use
        copies: list[Step] = []
        updates: list[Step] = []
        taken: set[Buffer] = set()
        for i, value in enumerate(end.operands):
            home = self.storage[value]
            if i in self.tied:
                target = self.arguments[self.tied[i]]
                self.result_buffers.append(target)
                if home is not target:
                    if isinstance(home, Buffer) and home.role == "temporary" and home not in taken:
                        self.wanted[home] = target
                    updates.append(Copy(home, target, end.location, True))
                continue
            if (
                isinstance(home, Buffer)
                and home.role == "temporary"
                and home not in taken
                and home not in self.wanted
            ):
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
        """Updates of variables are simultaneous: an old value that another update reads is saved first."""
        before: list[Step] = []
        after: list[Step] = []
        written = [u.target for u in updates if isinstance(u, Copy)]
        for update in updates:
            assert isinstance(update, Copy)
            source = update.source
            if buffer_of(source) in written:
                saved = self.new("temporary", source.type)
                before.append(Copy(source, saved, update.location))
                update = Copy(saved, update.target, update.location, True)
            after.append(update)
        return before + after
