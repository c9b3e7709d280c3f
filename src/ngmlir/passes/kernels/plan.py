# SPDX-License-Identifier: Apache-2.0
"""What all kernels share: the loops of a fusion, and its ops computed on one tile at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.nest import NEST, NestAttr
from ...ir.types import FloatType, MemRefType, Type, VectorType, element_type, i64, shape_of, with_element
from ...ops.fields import get_i64
from ...support.diagnostics import Location
from ...support.lengths import is_open
from ...support.machines import PIECE_BYTES
from ...support.target import Target
from ..access import Access, access_in, is_long
from ..fusion.group import kind
from ..implicit import Implicit, depths, implicit_in
from ..sides import Side, side_in
from .frame import Frame, Span, positions, power_of_two, within
from .reading import read, write
from .reduction import Reduction

#: Choices by position for which kernels have code of their own on either side.
MOST_CHOICES = 4


@dataclass
class Plan:
    """A fusion with its loop nest, as builders of kernels ask for it: `sizes` of the loops, and for each value the loops that its
    dimensions in memory are; of one that is in no memory, the loops along which it changes.

    An input may be one that is read through one of `accesses`, whose terms are loops.
    """

    fusion: Op
    sizes: tuple[int, ...]
    loops: dict[Value, tuple[int, ...]]
    dimension_loops: dict[Op, tuple[int, ...]]  # of an iota: the loops of the counted dimension
    accesses: dict[Value, Access]
    sides: Mapping[Value, Side | Implicit]  # operands of a product that it reads in another way than they are
    written: dict[Value, Access]  # outputs that are written moved

    @property
    def ops(self) -> list[Op]:
        return self.fusion.block.ops[:-1]

    @property
    def location(self) -> Location:
        """Of the op that the kernel is made around: its product, or its first reduction; else of the whole."""
        heavy = (op for op in self.ops if op.name == "ng.dot" or "reduction" in op.traits)
        return next((op.location for op in heavy), self.fusion.location)

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.fusion.block.args

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.fusion.block.ops[-1].operands

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape of a value with its dimensions merged into loops."""
        return tuple(self.sizes[l] for l in self.loops[value])

    def result(self, value: Value) -> tuple[int, ...]:
        """The shape of the buffer to which an output is written."""
        access = self.written.get(value)
        return self.shape(value) if access is None else access.shape

    def source(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """What an input is read from: the number of an operand of the fusion, and the shape in which that is seen."""
        access = self.accesses.get(value)
        return self.operand(value), self.shape(value) if access is None else access.shape

    def operand(self, value: Value) -> int:
        """The number of the operand that an input is; of one that is read in several ways, the first."""
        return self.fusion.operands.index(self.fusion.operands[self.inputs.index(value)])

    def has_tiles(self, *loops: int) -> bool:
        """Whether threads can have tiles of several steps of some loops and of the innermost one: in all that is read or written
        through an access, each of them runs along a dimension of its own."""
        tiled = [*(loop % len(self.sizes) for loop in loops), len(self.sizes) - 1]
        for access in (*self.accesses.values(), *self.written.values()):
            at = [[d for d, place in enumerate(access.places) if l in place.terms] for l in tiled]
            dims = [d for own in at for d in own]
            if any(len(own) > 1 for own in at) or len(dims) > len(set(dims)):
                return False
        return True

    @property
    def most_rows(self) -> int:
        """How many steps of the two loops around the innermost one a tile of threads can span at most."""
        if len(self.sizes) < 2 or not self.has_tiles(-2):
            return 1
        near = power_of_two(self.sizes[-2])
        return near * power_of_two(self.sizes[-3]) if len(self.sizes) > 2 and self.has_tiles(-3, -2) else near

    def cuts(self, target: Target) -> list[list[int]]:
        """Where each loop ends and another begins: at borders that a tile cannot be read across, as the machine has no masks
        for its elements, and where a choice by position changes, if the parts are long enough."""
        found: list[set[int]] = [set() for _ in self.sizes]
        if not self.sizes or target.shares_tiles:
            return [[] for _ in self.sizes]
        for value, access in self.accesses.items():
            if access.in_parts(item_bytes(element_type(value.type)), target):
                found[-1].update(access.borders(len(self.sizes) - 1))
        choices = {choice for op in self.ops if (choice := self.choice(op)) is not None}
        for loop, at in choices if len(choices) <= MOST_CHOICES else ():
            if loop < len(self.sizes) - 1 or is_long(self.sizes[loop], widest_item(self), target):
                found[loop].add(at)
        return [
            sorted(cut for cut in own if not is_open((size,)) and 0 < cut < size)
            for own, size in zip(found, self.sizes, strict=True)
        ]

    def choice(self, op: Op) -> tuple[int, int] | None:
        """Of a selection by position along one loop: the loop, and where the first operand ends and the second begins."""
        if op.name != "ng.select":
            return None
        less = op.operands[0].owner
        while isinstance(less, Op) and less.name in ("ng.broadcast", "ng.reshape"):
            less = less.operands[0].owner
        if not isinstance(less, Op) or less.name != "ng.less":
            return None
        count, end = (v.owner for v in less.operands)
        loops = self.dimension_loops.get(count, ()) if isinstance(count, Op) else ()
        if len(loops) != 1 or not isinstance(end, Op) or end.name != "ng.constant":
            return None
        number = splat_number(end.attributes["value"])
        return (loops[0], number.value) if isinstance(number, IntegerAttr) else None

    def side(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """The same of an operand of a product."""
        side = self.sides.get(value)
        return self.operand(value), shape_of(value.type) if side is None else side.shape

    @property
    def sources(self) -> list[tuple[int, tuple[int, ...]]]:
        """All that inputs are read from, each once."""
        return list(dict.fromkeys(self.source(v) for v in self.inputs if v in self.loops))


def plan(fusion: Op) -> Plan:
    """What the nest of a fusion says."""
    nest = fusion.attributes[NEST]
    assert isinstance(nest, NestAttr)
    body, sizes = fusion.block, nest.space
    loops: dict[Value, tuple[int, ...]] = {}
    accesses: dict[Value, Access] = {}
    sides: dict[Value, Side | Implicit] = {}
    summed = {
        v: d for op in body.ops if op.name == "ng.dot" for v, d in zip(op.operands, depths(op), strict=True)
    }
    for value, own in zip(body.args, nest.reads, strict=True):
        if own.matrix:
            if own.places is not None:
                windows = own.matrix == "windows"
                sides[value] = implicit_in(own, summed[value]) if windows else side_in(own)
            continue
        loops[value] = own.loops if own.places is None else own.used
        if own.places is not None:
            accesses[value] = access_in(own, sizes)
    counted: dict[Op, tuple[int, ...]] = {}
    for op in body.ops[:-1]:
        (result,) = op.results
        loops[result] = nest.loops_of(result.type)
        if op.name == "ng.iota":
            counted[op] = (loops[result][get_i64(op, "dimension")],)
        elif op.name == "ng.reshape":  # a product is a matrix until here
            loops[op.operands[0]] = loops[result]
    written: dict[Value, Access] = {}
    for value, own in zip(body.ops[-1].operands, nest.writes, strict=True):
        if own.places is not None:
            written[value] = access_in(own, sizes)
        elif value not in body.args:
            loops[value] = own.loops
    return Plan(fusion, sizes, loops, counted, accesses, sides, written)


class Kernel(Frame):
    """The kernel of a fusion: a buffer for each input, for each extra input, and for each output.

    Of what stands in `strips` a buffer has only the rows that the program works on, counted from `row` where a tile
    stands: so many of the first loops of the value are rows.
    """

    row: Value

    def __init__(
        self,
        plan: Plan,
        target: Target,
        grid: Sequence[int],
        extra_inputs: Sequence[MemRefType] = (),
        part: int = 0,
    ):
        self.plan = plan
        sources = plan.sources
        own = [MemRefType(shape, element_type(plan.inputs[number].type)) for number, shape in sources]
        outputs = [MemRefType(plan.result(v), element_type(v.type)) for v in plan.outputs]
        super().__init__(target, grid, [*own, *extra_inputs], outputs, plan.location, part)
        self.buffers = {
            v: self.sources[sources.index(plan.source(v))] for v in plan.inputs if v in plan.loops
        }
        self.extra = self.sources[len(own) :]
        self.strips: dict[Value, int] = {}

    def in_place(self) -> list[int]:
        """Pairs that may share: the output's elements are met in the order of the input's.

        Every kernel loads all that it needs of a tile before it stores the tile. So an output may overwrite
        such an input, unless its tiles are stored before others are read: a value of whole rows is read again
        with each tile of the row; nor one that is also read through an access, which needs more than is at the
        output's place.
        """
        pairs: list[int] = []
        for o, output in enumerate(self.plan.outputs):
            for value, buffer in self.buffers.items():
                if self.may_share(value, output):
                    pairs += [self.sources.index(buffer), len(self.sources) + o]
        return pairs

    def may_share(self, value: Value, output: Value) -> bool:
        """Whether an input and an output may be one buffer."""
        plan = self.plan
        loops = plan.loops[output]
        moved = any(plan.operand(other) == plan.operand(value) for other in plan.accesses)
        whole = kind(plan.fusion) != "rows" or loops == tuple(range(len(plan.sizes)))
        same = plan.loops[value] == loops and element_type(value.type) is element_type(output.type)
        return same and whole and not moved and value in self.buffers and output not in plan.written


class Tile:
    """The values of a fusion on one tile: each op is computed at most once, when first asked for."""

    def __init__(
        self,
        kernel: Kernel,
        spans: Sequence[Span],
        known: dict[Value, Value] | None = None,
        inside: bool = False,
        beyond: Attribute | None = None,
    ):
        self.kernel = kernel
        self.beyond = (
            beyond  # what elements of its type that are read behind a loop's end are, where masks hide it
        )
        self.inside = inside  # nothing that is read through an access lies beyond its border
        self.b = kernel.b
        self.spans = tuple(spans)
        self.known: dict[Value, Value] = dict(known or {})

    def type(self, value: Value, element: Type | None = None) -> Type:
        """The tile type of a value here: a dimension for each of its loops that is tiled, in domain order."""
        element = element or element_type(value.type)
        shape = tuple(self.spans[l].size for l in sorted(self.kernel.plan.loops[value]) if self.spans[l].size)
        return VectorType(shape, element) if shape else element

    def at(self, value: Value) -> Value:
        """The tile of a value."""
        # Iterative: a chain of elementwise ops may be longer than Python's stack.
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self.known:
                stack.pop()
                continue
            owner = current.owner
            missing = [o for o in self.needed(owner) if o not in self.known] if isinstance(owner, Op) else []
            if missing:
                stack += missing
                continue
            self.b.location = owner.location if isinstance(owner, Op) else self.b.location
            self.known[current] = self.compute(current)
            stack.pop()
        return self.known[value]

    def needed(self, op: Op) -> Sequence[Value]:
        """The operands of an op that are wanted here: of a selection by position only one, where the tile lies on one side."""
        choice = self.kernel.plan.choice(op)
        section = None if choice is None else self.spans[choice[0]].section
        if choice is None or section is None or section[0] < choice[1] < section[1]:
            return op.operands
        return op.operands[1:2] if section[1] <= choice[1] else op.operands[2:]

    def compute(self, value: Value) -> Value:
        owner = value.owner
        if not isinstance(owner, Op):
            return self.load(value, self.kernel.buffers[value])
        if owner.name == "ng.select" and len(chosen := self.needed(owner)) == 1:
            return self.known[chosen[0]]
        operands = [self.known[o] for o in owner.operands]
        type = self.type(value)
        match owner.name:
            case "ng.reshape" | "ng.transpose":
                return operands[0]
            case "ng.broadcast":
                return self.broadcast(operands[0], owner.operands[0], value)
            case "ng.constant":
                return self.b.number(splat_number(owner.attributes["value"]), type)
            case "ng.iota":
                return self.iota(owner, type)
            case _:
                made = owner.rebuilt(operands, types=[type])
                self.b.add_op(made)
                return made.results[0]

    def broadcast(self, operand: Value, source: Value, value: Value) -> Value:
        own, loops = set(self.kernel.plan.loops[source]), sorted(self.kernel.plan.loops[value])
        tiled = [l for l in loops if self.spans[l].size]
        dimensions = [i for i, l in enumerate(tiled) if l in own]
        if len(dimensions) == len(tiled):
            return operand
        return self.b.broadcast(operand, type=self.type(value), dimensions=dimensions)

    def iota(self, op: Op, type: Type) -> Value:
        """Positions along a dimension, which may be several loops."""
        loops = self.kernel.plan.dimension_loops.get(op, ())
        whole = with_element(type, i64)
        scalar = self.b.number(0, whole)
        stride = 1
        tiled = [l for l in sorted(self.kernel.plan.loops[op.results[0]]) if self.spans[l].size]
        for l in reversed(loops):
            span = self.spans[l]
            if isinstance(whole, VectorType) and span.size:
                start = positions(self.b, span.start, whole, tiled.index(l))
            else:
                start = self.spread(self.b.cast(span.start, type=i64), whole)
            scalar = self.b.add(scalar, self.b.multiply(start, self.b.number(stride, whole)))
            stride *= self.kernel.plan.sizes[l]
        return scalar if type is whole else self.b.cast(scalar, type=type)

    def spread(self, scalar: Value, type: Type) -> Value:
        return self.b.broadcast(scalar, type=type, dimensions=()) if isinstance(type, VectorType) else scalar

    def place(self, value: Value) -> tuple[list[Value], list[int] | None, bool]:
        """Indices, `dims` (None where they are the last ones in order) and whether a mask is needed."""
        loops = self.kernel.plan.loops[value]
        indices = [self.spans[l].start for l in loops]
        rows = self.kernel.strips.get(value)
        if rows is not None:
            return [self.kernel.row, *indices[rows:]], None, False
        tiled = [l for l in sorted(loops) if self.spans[l].size]
        dims = [loops.index(l) for l in tiled]
        usual = list(range(len(loops) - len(tiled), len(loops)))
        return indices, None if dims == usual else dims, any(self.spans[l].masked for l in tiled)

    def load(self, value: Value, buffer: Value) -> Value:
        access = self.kernel.plan.accesses.get(value)
        if access is not None:
            access = replace(access, fill=None) if self.inside else access
            return read(self.kernel, self.spans, self.kernel.plan.sizes, access, self.type(value), buffer)
        indices, dims, masked = self.place(value)
        pad = self.beyond if masked and self.ends_with(value, self.beyond) else None
        return self.b.load(buffer, indices, type=self.type(value), dims=dims, masked=masked, pad=pad)

    def ends_with(self, value: Value, beyond: Attribute | None) -> bool:
        """Whether behind its loops an input, which is read as it lies, has an element of its type for all others."""
        known = beyond is not None and self.beyond == beyond and value not in self.kernel.plan.accesses
        return (
            known
            and not isinstance(value.owner, Op)
            and value not in self.kernel.strips
            and (isinstance(beyond, FloatAttr | IntegerAttr) and beyond.type is element_type(value.type))
        )

    def store(self, outputs: Sequence[tuple[Value, Value]]) -> None:
        """Writes the tiles of values to their buffers, all loads before the first store."""
        for value, _ in outputs:
            self.at(value)
        for value, buffer in outputs:
            written = self.kernel.plan.written.get(value)
            if written is not None:
                write(self.b, self.spans, written, self.at(value), buffer)
                continue
            indices, dims, masked = self.place(value)
            self.b.store(self.at(value), buffer, indices, dims=dims, masked=masked)

    def neutral(self, reduction: Reduction, loop: int) -> Value:
        """What a reduction takes in of the tile: behind the end of the loop that is reduced, what changes nothing."""
        b, span = self.b, self.spans[loop]
        tile = reduction.enter(b, self.at(reduction.source))
        if not span.masked or self.ends_with(reduction.source, reduction.beyond):
            return tile
        fill = b.number(reduction.start, tile.type)
        dimension = sum(bool(before.size) for before in self.spans[:loop])
        return within(b, tile, span.start, self.kernel.plan.sizes[loop], fill, dimension)


def splat_number(attribute: Attribute) -> Attribute:
    """The one number of a constant."""
    assert isinstance(attribute, ElementsAttr)  # functions hold tensors
    element = attribute.type.element
    bits = attribute.bits
    return FloatAttr(bits, element) if isinstance(element, FloatType) else numeric_literal(bits, element)


def widest_item(planned: Plan) -> int:
    """Bytes of the largest element that the kernel computes with."""
    return max((item_bytes(element_type(v.type)) for v in planned.loops), default=4)


def narrowest_item(planned: Plan) -> int:
    """Bytes of the smallest element that the kernel reads along the last loop."""
    last = len(planned.sizes) - 1
    read = [v for v in planned.inputs if last in planned.loops.get(v, ())]
    return min((item_bytes(element_type(v.type)) for v in read), default=PIECE_BYTES)


def pieces_wide(planned: Plan, threads: int) -> int:
    """Elements along the last loop of which each thread of a block reads one piece."""
    return threads * PIECE_BYTES // narrowest_item(planned)
