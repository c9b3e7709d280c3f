# SPDX-License-Identifier: Apache-2.0
"""The kernel of a fusion, and the ops of the fusion applied to one tile at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ....ir.attributes import Attribute, FloatAttr, IntegerAttr
from ....ir.core import Op, Value
from ....ir.types import (
    MemRefType,
    Type,
    VectorType,
    element_type,
    i64,
    index,
    shape_of,
    tile_type,
    with_element,
)
from ....ops.fields import get_i64
from ....support.target import Target
from ...analysis.group import kind
from ...analysis.indices import clamped, in_byte_table
from ...analysis.loop_nest import LoopNest, splat_number
from ...analysis.reduction import Reduction
from .finished import Finished
from .kernel_builder import KernelBuilder
from .reading import read, write
from .staged import Staged
from .tiling import Span, dims_in, positions, within


class Kernel(KernelBuilder):
    """The kernel of a fusion: a buffer for each input, for each extra input, and for each output.

    The buffer of a value in `strips` has only the rows that are needed at a time. Its number there says how many of the value's first loops
    are rows; a tile begins at `row` of the buffer.
    """

    row: Value
    #: Inputs that are read from a copy.
    staged: Mapping[Value, Staged] = MappingProxyType({})

    def __init__(
        self,
        nest: LoopNest,
        target: Target,
        grid: Sequence[int],
        extra_inputs: Sequence[MemRefType] = (),
        part: int = 0,
    ):
        self.nest = nest
        sources = nest.sources
        own = [MemRefType(shape, element_type(nest.inputs[number].type)) for number, shape in sources]
        outputs = [MemRefType(nest.result(v), element_type(v.type)) for v in nest.outputs]
        super().__init__(target, grid, [*own, *extra_inputs], outputs, nest.location, part)
        self.buffers = bound(nest, self.sources)
        self.extra = self.sources[len(own) :]
        self.strips: dict[Value, int] = {}

    def done(self, threads: int | None = None) -> Finished:
        """The finished kernel, with its operands and results."""
        results = tuple([self.nest.result(v) for v in self.nest.outputs])
        return Finished(self.finish(threads), tuple(self.nest.sources), results)

    def in_place(self) -> list[int]:
        """Pairs that may share a buffer: the output is written in the order in which the input is read.

        Every kernel loads all that a tile needs before it stores the tile, so an output may overwrite an input. Exceptions: an input that is
        read again for later tiles of the row, because a value of the row needs all of it; and an input that is also read through an
        indexing map, at other positions than the output's.
        """
        pairs: list[int] = []
        for o, output in enumerate(self.nest.outputs):
            for value, buffer in self.buffers.items():
                if self.may_share(value, output):
                    pairs += [self.sources.index(buffer), len(self.sources) + o]
        return pairs

    def may_share(self, value: Value, output: Value) -> bool:
        """Whether an input and an output may be one buffer."""
        nest = self.nest
        loops = nest.loops[output]
        elsewhere = (*nest.accesses, *nest.gathered)
        moved = any(nest.operand(other) == nest.operand(value) for other in elsewhere)
        whole = kind(nest.fusion) != "rows" or loops == tuple(range(len(nest.sizes)))
        same = nest.loops[value] == loops and element_type(value.type) is element_type(output.type)
        return same and whole and not moved and value in self.buffers and output not in nest.written


def bound(nest: LoopNest, sources: Sequence[Value]) -> dict[Value, Value]:
    """The buffer of each input of a fusion. `sources` are the buffers of the kernel."""
    return {v: sources[nest.sources.index(nest.source(v))] for v in nest.inputs if v in nest.loops}


class Part(Kernel):
    """One fusion of a kernel that computes several."""

    def __init__(
        self,
        builder: KernelBuilder,
        nest: LoopNest,
        buffers: Mapping[Value, Value],
        strips: Mapping[Value, int],
        results: Sequence[Value],
    ):
        self.__dict__.update(builder.__dict__)
        self.nest, self.buffers, self.strips = nest, dict(buffers), dict(strips)
        self.results, self.extra = [*results], list[Value]()


class Tile:
    """The values of a fusion on one tile. Each op is emitted at most once, when its value is first needed."""

    def __init__(
        self,
        kernel: Kernel,
        spans: Sequence[Span],
        known: dict[Value, Value] | None = None,
        inside: bool = False,
        beyond: Attribute | None = None,
    ):
        self.kernel = kernel
        self.beyond = beyond  # masked-off elements of this type may be read as this number
        self.inside = inside  # no element that is read through an indexing map is beyond its border
        self.b = kernel.b
        self.spans = tuple(spans)
        self.known: dict[Value, Value] = dict(known or {})

    def type(self, value: Value, element: Type | None = None) -> Type:
        """The type of a value on this tile: a dimension for each of its tiled loops, outermost first."""
        element = element or element_type(value.type)
        shape = tuple(self.spans[l].size for l in sorted(self.kernel.nest.loops[value]) if self.spans[l].size)
        return tile_type(shape, element)

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
        """The operands that an op needs here. A selection by position needs one of two, where the tile is on one side of the position."""
        if "gathers" in op.traits:
            return op.operands[1:]
        choice = self.kernel.nest.choice(op)
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
        if "gathers" in owner.traits:
            return self.gather(owner, self.known[owner.operands[1]], self.type(value))
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
        own, loops = set(self.kernel.nest.loops[source]), sorted(self.kernel.nest.loops[value])
        tiled = [l for l in loops if self.spans[l].size]
        dimensions = [i for i, l in enumerate(tiled) if l in own]
        if len(dimensions) == len(tiled):
            return operand
        type = self.type(value, element_type(operand.type))
        return self.b.broadcast(operand, type=type, dimensions=dimensions)

    def gather(self, op: Op, found: Value, type: Type) -> Value:
        """What is read by index, at the indices `found`. Negative ones are wrapped, then all are clamped to the dimension."""
        b, (source, indices), axis = self.b, op.operands, get_i64(op, "axis")
        access, buffer = self.kernel.nest.gathered[source], self.kernel.buffers[source]
        if self.has_rows(type, found) and in_byte_table(op, self.kernel.target):
            table = b.load(buffer, [b.index(0)], type=VectorType(access.shape, element_type(source.type)))
            return self.broadcast(b.lookup_table(table, found), indices, op.result)
        number = clamped(b, found, access.shape[axis])
        if not self.has_rows(type, found):
            return read(
                self.kernel, self.spans, access, type, buffer, others={axis: b.cast(number, type=index)}
            )
        assert isinstance(type, VectorType)
        numbers = self.broadcast(number, indices, op.result)
        places = [self.along(loop, op.result) for place in access.places for loop in place.terms]
        places.insert(axis, numbers)
        return b.gather_tile(buffer, places, type=type)

    def has_rows(self, type: Type, found: Value) -> bool:
        """Whether the elements of a tile are gathered at several indices."""
        return isinstance(found.type, VectorType)

    def along(self, loop: int, value: Value) -> Value:
        """The positions of a value's elements along a loop. A masked tile may extend beyond it: the last position is repeated there."""
        b, span, type = self.b, self.spans[loop], with_element(self.type(value), i64)
        if not span.size:
            return span.start
        assert isinstance(type, VectorType)
        tiled = [l for l in sorted(self.kernel.nest.loops[value]) if self.spans[l].size]
        places = positions(b, span.start, type, tiled.index(loop))
        return b.minimum(places, b.number(self.kernel.nest.sizes[loop] - 1, type)) if span.masked else places

    def iota(self, op: Op, type: Type) -> Value:
        """Positions along a dimension, which may be split into several loops."""
        loops = self.kernel.nest.dimension_loops.get(op, ())
        whole = with_element(type, i64)
        scalar = self.b.number(0, whole)
        stride = 1
        tiled = [l for l in sorted(self.kernel.nest.loops[op.results[0]]) if self.spans[l].size]
        for l in reversed(loops):
            span = self.spans[l]
            if isinstance(whole, VectorType) and span.size:
                start = positions(self.b, span.start, whole, tiled.index(l))
            else:
                start = self.b.splat(self.b.cast(span.start, type=i64), whole)
            scalar = self.b.add(scalar, self.b.multiply(start, self.b.number(stride, whole)))
            stride *= self.kernel.nest.sizes[l]
        return scalar if type is whole else self.b.cast(scalar, type=type)

    def location(self, value: Value) -> tuple[list[Value], Sequence[int] | None, bool]:
        """Indices, `dims` (None for the last dimensions in order), and whether a mask is needed."""
        loops = self.kernel.nest.loops[value]
        indices = [self.spans[l].start for l in loops]
        rows = self.kernel.strips.get(value)
        if rows is not None:
            return [self.kernel.row, *indices[rows:]], None, False
        tiled = [l for l in sorted(loops) if self.spans[l].size]
        dims = dims_in(len(loops), [loops.index(l) for l in tiled])
        return indices, dims, any(self.spans[l].masked for l in tiled)

    def row_view(
        self, value: Value, buffer: Value, indices: Sequence[Value]
    ) -> tuple[Value, list[Value], Sequence[int] | None]:
        """A view of a buffer that begins at the tile's first row, with indices and `dims` in it. It needs no mask for the loops before the
        masked one."""
        spans = [self.spans[l] for l in self.kernel.nest.loops[value]]
        first = next(i for i, span in enumerate(spans) if span.size)
        left = next(i for i, span in enumerate(spans) if span.masked)
        sizes = [max(1, span.size) for span in spans[first:left]]
        shape, zero = (*sizes, *shape_of(buffer.type)[left:]), self.b.index(0)
        view = self.b.window(buffer, [*indices[:left], *[zero] * (len(spans) - left)], shape)
        dims = dims_in(len(shape), [i - first for i, span in enumerate(spans) if span.size])
        return view, [*[zero] * len(sizes), *indices[left:]], dims

    def load(self, value: Value, buffer: Value) -> Value:
        if (staged := self.kernel.staged.get(value)) is not None:
            return staged.read(self.spans, self.type(value))
        access = self.kernel.nest.accesses.get(value)
        if access is not None:
            access = replace(access, fill=None) if self.inside else access
            return read(self.kernel, self.spans, access, self.type(value), buffer)
        indices, dims, masked = self.location(value)
        if masked and self.kernel.staged:
            buffer, indices, dims = self.row_view(value, buffer, indices)
        pad = self.beyond if masked and self.ends_with(value, self.beyond) else None
        return self.b.load(buffer, indices, type=self.type(value), dims=dims, masked=masked, pad=pad)

    def ends_with(self, value: Value, beyond: Attribute | None) -> bool:
        """Whether the masked-off elements of an input may be read as `beyond`: it is loaded directly, and `beyond` is of its type."""
        known = beyond is not None and self.beyond == beyond and value not in self.kernel.nest.accesses
        return (
            known
            and not isinstance(value.owner, Op)
            and value not in self.kernel.strips
            and (isinstance(beyond, FloatAttr | IntegerAttr) and beyond.type is element_type(value.type))
        )

    def store(self, outputs: Sequence[tuple[Value, Value]]) -> None:
        """Writes the tiles of values to their buffers. All loads come before the first store."""
        for value, _ in outputs:
            self.at(value)
        for value, buffer in outputs:
            written = self.kernel.nest.written.get(value)
            if written is not None:
                write(self.b, self.spans, written, self.at(value), buffer)
                continue
            indices, dims, masked = self.location(value)
            if masked and self.kernel.staged:
                buffer, indices, dims = self.row_view(value, buffer, indices)
            self.b.store(self.at(value), buffer, indices, dims=dims, masked=masked)

    def neutral(self, reduction: Reduction, loop: int) -> Value:
        """The operand of a reduction on this tile, with the neutral element beyond the end of the reduced loop."""
        b, span = self.b, self.spans[loop]
        tile = reduction.enter(b, self.at(reduction.source))
        if not span.masked or self.ends_with(reduction.source, reduction.beyond):
            return tile
        fill = b.number(reduction.start, tile.type)
        dimension = sum(bool(before.size) for before in self.spans[:loop])
        return within(b, tile, span.start, self.kernel.nest.sizes[loop], fill, dimension)
