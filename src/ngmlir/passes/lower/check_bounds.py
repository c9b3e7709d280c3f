# SPDX-License-Identifier: Apache-2.0
"""Bounds checks in kernels that a person wrote or edited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from ...ir.attributes import ArrayAttr, IntegerAttr, StringAttr, TypeAttr, UnitAttr
from ...ir.core import Block, Module, Op, Region, Value, callee, function_type
from ...ir.types import DYNAMIC, MemRefType, VectorType, element_type, i64, index, shape_of, with_element
from ...ops import tile
from ...ops.accesses import Positions, Reach, buffer_of, reaches, touches
from ...ops.builder import Builder, build_op
from ...rewrite.contracts import contract
from ...support.artifact import Check
from ...support.diagnostics import UserError
from ...support.target import Target

#: Attribute of an entry function: the number of its checks. They have a buffer, the argument before the arena.
CHECKS = "ng.checks"
#: Attribute of a store that records a failed check: the index of its word in that buffer, and the message before and after the
#: recorded number.
CHECK = "ng.check"


@contract(needs=("planned",))
def check_bounds(module: Module, target: Target) -> Module:
    """Adds bounds checks: out-of-bounds accesses are masked, and the op that made one is recorded.

    Accesses that cannot be proved to be inside their buffer are masked, or their indices clamped. The program gets one
    more buffer, of one word per check, where a failed check stores the index that is outside. The attribute `ng.check`
    of this store has the number of the word, and the message before and after the index. A loop whose step may be less
    than 1 steps by 1 instead.

    Before:
        func.func @main(%x: memref<4xi32>, %y: memref<8xf32>, %0: memref<f32>, %arena: memref<0xi8>) attributes {ng.arguments = 2 : i64, ng.results = 1 : i64} {
          tile.launch @k ins(%x, %y) outs(%0)
          func.return
        }
        tile.kernel @k ins(%x: memref<4xi32>, %y: memref<8xf32>) outs(%out: memref<f32>) {
          %c0 = ng.constant 0 : index
          %n = tile.load %x[%c0] : memref<4xi32>, i32
          %at = ng.cast %n : (i32) -> index
          %v = tile.load %y[%at] : memref<8xf32>, f32
          tile.store %v, %out[] : f32, memref<f32>
          tile.return
        }
    After:
        func.func @main(%x: memref<4xi32>, %y: memref<8xf32>, %0: memref<f32>, %outside: memref<1xi64>, %arena: memref<0xi8>) attributes {ng.arguments = 2 : i64, ng.checks = 1 : i64, ng.results = 1 : i64} {
          tile.launch @k ins(%x, %y) outs(%0, %outside)
          func.return
        }
        tile.kernel @k ins(%x: memref<4xi32>, %y: memref<8xf32>) outs(%out: memref<f32>, %outside: memref<1xi64>) {
          ...
          %v = tile.load %y[%at] {masked} : memref<8xf32>, f32
          tile.store %v, %out[] : f32, memref<f32>
          tile.return
        }
    """
    functions = dict.fromkeys(op for op in module.ops if op.regions and op.regions[0].blocks)
    if any(CHECKS in op.attributes for op in functions):
        return module
    checks = _checks(functions)
    if not checks:
        return module
    buffer = MemRefType((sum(map(len, checks.values())),), i64)
    noting = {op.symbol for op in functions for inner in op.walk() if inner in checks}
    return module.with_ops(
        [
            _Writer(op, checks, buffer, noting).function()
            if op in functions and (op.name == "func.func" or op.symbol in noting)
            else op
            for op in module.ops
        ]
    )


@dataclass(frozen=True)
class _Check:
    """One condition that an op may violate; word `number` of the buffer is for it."""

    number: int
    words: tuple[str, str]  # the message before and after the wrong number
    reach: Reach | None = None  # None: the step of a loop


def _checks(functions: Iterable[Op]) -> dict[Op, list[_Check]]:
    """The checks that are needed at run time, by op, in text order."""
    found: dict[Op, list[_Check]] = {}
    numbers = count()
    for function in functions:
        positions = Positions(function)
        for op in function.walk():
            checks = [
                _Check(next(numbers), touches(op, reach), reach)
                for reach in reaches(op)
                if reach.size != DYNAMIC and not positions.inside(reach)
            ]
            if isinstance(op, tile.ForOp) and (positions.extremes(op.step) or (0, 0))[0] < 1:
                checks.append(_Check(next(numbers), ("'tile.for' steps by", "and would not end")))
            if checks:
                found[op] = checks
    return found


class _Writer:
    """Copies a function or kernel, with its checks."""

    def __init__(self, op: Op, checks: dict[Op, list[_Check]], buffer: MemRefType, noting: set[str]):
        self.op, self.checks, self.buffer, self.noting = op, checks, buffer, noting
        self.values: dict[Value, Value] = {}

    def function(self) -> Op:
        """The copy. The buffer of the checks is the last one that a kernel writes, and precedes the arena of a function."""
        op, arguments = self.op, list(self.op.block.args)
        at = len(arguments) - (len(op.grid) if isinstance(op, tile.KernelOp) else 1)
        names = [a.name for a in arguments]
        types = [a.type for a in arguments]
        block = Block([*types[:at], self.buffer, *types[at:]], [*names[:at], "outside", *names[at:]])
        self.outside = block.args[at]
        self.values.update(zip(arguments, [*block.args[:at], *block.args[at + 1 :]], strict=True))
        self.builder = Builder(block)
        self.write(op.block)
        attributes = {**op.attributes, "function_type": TypeAttr(function_type(block, ()))}
        if isinstance(op, tile.KernelOp):
            attributes["outputs"] = IntegerAttr(op.outputs + 1, i64)
        else:
            attributes[CHECKS] = IntegerAttr(self.buffer.size, i64)
        return op.rebuilt(regions=[Region(block)], attributes=attributes)

    def write(self, block: Block) -> None:
        for op in block.ops:
            self.builder.location = op.location
            operands = [self.values.get(v, v) for v in op.operands]
            attributes = op.attributes
            if isinstance(op, tile.LaunchOp) and callee(op) in self.noting:
                operands.append(self.outside)
                attributes = {**attributes, "outputs": IntegerAttr(op.outputs + 1, i64)}
            regions = [Region(*map(self.inner, r.blocks)) for r in op.regions]
            made = op.rebuilt(operands, regions, attributes=attributes)
            for check in self.checks.get(op, []):
                made = self.checked(op, made, check)
            self.builder.add_op(made)
            self.values.update(zip(op.results, made.results, strict=True))

    def inner(self, block: Block) -> Block:
        made = Block([a.type for a in block.args], [a.name for a in block.args])
        self.values.update(zip(block.args, made.args, strict=True))
        outer, self.builder.block = self.builder.block, made
        self.write(block)
        self.builder.block = outer
        return made

    # -- one check ---------------------------------------------------------------------------------------

    def checked(self, op: Op, made: Op, check: _Check) -> Op:
        """Emits the check; returns the op with its access masked or clamped."""
        b = self.builder
        if check.reach is None:
            assert isinstance(made, tile.ForOp) and isinstance(
                made.step, Value
            )  # the verifier has checked constant steps
            step, at = made.step, len(made.operands) - len(made.inits) - 1
            self.note(b.less(step, b.index(1)), step, check)
            return _with_operand(made, at, b.maximum(step, b.index(1)))
        reach = check.reach
        at = len(op.operands) - len(shape_of(buffer_of(op).type)) + reach.dimension
        given = made.operands[at]
        if isinstance(op, tile.LoadOp | tile.StoreOp):
            # At either bound the whole access is outside, and its indices do not overflow.
            self.note_reach(given, reach, check)
            made = made.rebuilt(attributes={**made.attributes, "masked": UnitAttr()})
            inside = self.between(given, -reach.most - 1, reach.size - reach.least)
        elif reach.size <= reach.most:
            raise UserError(f"{check.words[0]} 0 {check.words[1]}", op.location)
        elif isinstance(op, tile.SubviewOp):
            self.note_reach(given, reach, check)
            inside = self.between(given, 0, reach.size - 1 - reach.most)
        elif isinstance(op, tile.ScatterOp):
            mask = made.operands[1]
            places = self.places(given, shape_of(mask.type))
            outside = b.bitwise_and(mask, self.leaves(places, reach))
            self.note_any(outside, places, check)
            made = _with_operand(made, 1, b.bitwise_xor(mask, outside))
            inside = self.between(places, 0, reach.size - 1)
        else:
            places = self.places(given, shape_of(given.type))
            self.note_any(self.leaves(places, reach), places, check)
            inside = self.between(places, 0, reach.size - 1)
        return _with_operand(made, at, inside)

    def places(self, given: Value, shape: tuple[int, ...]) -> Value:
        """Indices of any type as i64 or `index`, one for each element of `shape`; those that no i64 represents become negative."""
        b = self.builder
        element = index if not shape_of(given.type) else i64
        if element_type(given.type) is not element:
            given = b.cast(given, type=with_element(given.type, element))
        if shape_of(given.type) != shape:
            given = b.broadcast(b.cast(given, type=i64), type=VectorType(shape, i64), dimensions=[])
        return given

    def leaves(self, places: Value, reach: Reach) -> Value:
        b, type = self.builder, places.type
        below = b.less(places, b.number(-reach.least, type))
        return b.bitwise_or(below, b.greater(places, b.number(reach.size - 1 - reach.most, type)))

    def between(self, places: Value, least: int, most: int) -> Value:
        b, type = self.builder, places.type
        return b.minimum(b.maximum(places, b.number(least, type)), b.number(most, type))

    def note_reach(self, given: Value, reach: Reach, check: _Check) -> None:
        """Records the first or the last index of an access, whichever is outside, if one is."""
        b = self.builder
        element = given
        if reach.least < reach.most:
            first, last = b.add(given, b.index(reach.least)), b.add(given, b.index(reach.most))
            element = b.select(b.less(given, b.index(-reach.least)), first, last)
        self.note(self.leaves(given, reach), element, check)

    def note_any(self, outside: Value, places: Value, check: _Check) -> None:
        """Records one of the indices that are outside, if any is."""
        b, axes = self.builder, range(len(shape_of(places.type)))
        if not axes:
            self.note(outside, places, check)
            return
        shown = b.select(outside, places, b.number(0, places.type))
        first, last = b.min(shown, axes=axes), b.max(shown, axes=axes)
        element = b.select(b.less(first, b.number(0, i64)), first, last)
        self.note(b.any(outside, axes=axes), element, check)

    def note(self, wrong: Value, number: Value, check: _Check) -> None:
        """Stores a number in the word of a check if `wrong`; otherwise at the end of the buffer, where the mask suppresses it."""
        b = self.builder
        word = b.cast(number, type=i64) if number.type is index else number
        word = b.maximum(word, b.number(Check.FINE + 1, i64))
        at = b.select(wrong, b.index(check.number), b.index(self.buffer.size))
        store = build_op(tile.StoreOp, [word, self.outside, at], {"masked": True}, location=b.location)
        said = ArrayAttr((IntegerAttr(check.number, i64), *map(StringAttr, check.words)))
        b.add_op(store.rebuilt(attributes={**store.attributes, CHECK: said}))


def _with_operand(op: Op, at: int, value: Value) -> Op:
    return op.rebuilt([*op.operands[:at], value, *op.operands[at + 1 :]])
