# SPDX-License-Identifier: Apache-2.0
"""What all kernels share: the loops of a fusion, and its ops computed on one tile at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ...ir.attributes import (
    Attribute,
    ElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    integers,
    numeric_literal,
)
from ...ir.core import Block, Op, Value
from ...ir.literals import float_bits, item_bytes
from ...ir.types import (
    FloatType,
    IntegerType,
    MemRefType,
    Type,
    VectorType,
    element_type,
    f32,
    i64,
    index,
    shape_of,
    with_element,
)
from ...ops import tile
from ...ops.builder import Builder, function
from ...support.diagnostics import Diagnostic, Limit, Location
from ...support.target import Target
from ..space import Atoms, Space, label


class Span(NamedTuple):
    """Where a tile stands in one loop: from `start` on, `size` elements; size 0 = the one element at `start`.

    `masked`: the tile may reach beyond the loop's end, so loads and stores must look.
    """

    start: Value
    size: int = 0
    masked: bool = False


@dataclass
class Plan:
    """A fusion as loops: `sizes` of the domain's loops, and for each value the loops that its dimensions are."""

    fusion: Op
    sizes: tuple[int, ...]
    loops: dict[Value, tuple[int, ...]]
    dimension_loops: dict[Op, tuple[int, ...]]  # of an iota: the loops of the counted dimension

    @property
    def ops(self) -> list[Op]:
        return self.fusion.block.ops[:-1]

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.fusion.block.args

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.fusion.block.ops[-1].operands

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape of a value with its dimensions merged into loops."""
        return tuple(self.sizes[l] for l in self.loops[value])


def plan(fusion: Op, skip: Callable[[Op], bool] = lambda op: False) -> Plan:
    """Labels all values of a fusion with loops. Ops that `skip` names relate nothing (a product's operands)."""
    space = Space()
    known: dict[Value, Atoms] = {}
    body = fusion.block
    for op in body.ops:
        if skip(op):
            known[op.results[0]] = space.atoms(shape_of(op.results[0].type))
    good = label(space, [op for op in body.ops[:-1] if not skip(op)], known)
    # Reductions side by side run over the same loops, even where no op relates what they reduce.
    sources = [known[op.operands[0]] for op in body.ops if "reduction" in op.traits]
    good = good and all(space.unify(sources[0], other) for other in sources[1:])
    for value in body.ops[-1].operands:  # an argument may be handed through without any op
        known.setdefault(value, space.atoms(shape_of(value.type)))
    if not good:
        raise Limit(Diagnostic("the ops of this fusion run over loops that do not fit together", fusion.location))
    resolved = {v: space.resolve(a) for v, a in known.items()}
    counted: dict[Op, Atoms] = {}
    for op in body.ops:
        if op.name == "ng.iota" and shape_of(op.results[0].type):
            dimension = op.attributes["dimension"].value  # type: ignore[attr-defined]
            counted[op] = space.resolve([known[op.results[0]][dimension]])
    domain = max(resolved.values(), key=len, default=())
    if not all(set(atoms) <= set(domain) for atoms in resolved.values()):
        raise Limit(Diagnostic("the values of this fusion have no loops in common", fusion.location))
    # The dimensions of a skipped op stay apart: its kernel tiles each in its own way.
    apart = [(a,) for op in body.ops if skip(op) for a in resolved[op.results[0]]]
    runs = _runs(domain, [*resolved.values(), *counted.values(), *apart])
    if kind(fusion) == "rows":
        first = next(op for op in body.ops if "reduction" in op.traits)
        kept = set(resolved[first.results[0]])
        runs.sort(key=lambda run: run[0] not in kept)  # a row is all that is reduced, wherever it lies
    place = {run[0]: i for i, run in enumerate(runs)}
    return Plan(
        fusion,
        tuple(space.size(run) for run in runs),
        {v: tuple(place[a] for a in atoms if a in place) for v, atoms in resolved.items()},
        {op: tuple(place[a] for a in atoms if a in place) for op, atoms in counted.items()},
    )


def _runs(domain: Atoms, sequences: Sequence[Atoms]) -> list[Atoms]:
    """Splits the domain where some value has one of two neighbouring atoms without the other beside it."""
    if not domain:
        return []
    together = set(pairwise(domain))
    for atoms in sequences:
        following = dict(pairwise(atoms))
        has = set(atoms)
        together = {(a, b) for a, b in together if (a not in has and b not in has) or following.get(a) == b}
    runs = [(domain[0],)]
    for a, b in pairwise(domain):
        if (a, b) in together:
            runs[-1] = (*runs[-1], b)
        else:
            runs.append((b,))
    return runs


class Frame:
    """A kernel being built: its buffers, then the program indices; and the ways to run over a loop in tiles."""

    def __init__(
        self,
        target: Target,
        grid: Sequence[int],
        inputs: Sequence[MemRefType],
        outputs: Sequence[MemRefType],
        location: Location,
    ):
        self.target = target
        self.grid = tuple(grid)
        types: list[Type] = [*inputs, *outputs, *[index] * len(self.grid)]
        names = [f"in{i}" for i in range(len(inputs))] + [f"out{i}" for i in range(len(outputs))]
        self.block = Block(types, [*names, *("i", "j", "k")[: len(self.grid)]])
        self.b = Builder(self.block, location)
        self.location = location
        self.sources = self.block.args[: len(inputs)]
        self.results = self.block.args[len(inputs) : len(inputs) + len(outputs)]
        self.programs = self.block.args[len(inputs) + len(outputs) :]

    @property
    def masks(self) -> bool:
        """Whether tiles are powers of two that may reach beyond a loop's end (a block of threads), or exact."""
        return self.target.execution == "warps"

    def finish(self, name: str, threads: int | None = None) -> Op:
        """The finished kernel."""
        self.b.location = self.location
        self.b.end(tile.ReturnOp)
        attributes: dict[str, Attribute] = {
            "grid": integers(self.grid),
            "outputs": IntegerAttr(len(self.results), i64),
        }
        pairs = self.in_place()
        if pairs:
            attributes["in_place"] = integers(pairs)
        if self.masks:
            attributes["threads"] = IntegerAttr(threads or self.target.threads, i64)
        return function(name, self.block, attributes, kind=tile.KernelOp, location=self.location)

    def in_place(self) -> list[int]:
        """Pairs (input, output) of parameters that may share one buffer, as a flat list."""
        return []

    def tiles(
        self,
        size: int,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Span, Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """Runs `body` on the tiles of a loop of `size`: exact ones with a shorter last one, or masked ones."""
        b = self.b
        if self.masks:
            step = min(step, power_of_two(size))
            masked = size % step != 0
            if size <= step:
                return body(Span(b.index(0), step, masked), carried)
            return b.loop(0, size, step, carried, lambda i, values: body(Span(i, step, masked), values))
        full = size // step * step
        if full == step:
            carried = body(Span(b.index(0), step), carried)
        elif full:
            carried = b.loop(0, full, step, carried, lambda i, values: body(Span(i, step), values))
        if size > full:
            carried = body(Span(b.index(full), size - full), carried)
        return carried

    def tiles_between(
        self, start: Value, stop: Value, size: int, step: int, body: Callable[[Span], None]
    ) -> None:
        """Tiles of one program's part [start, stop) of a loop of `size`; `start` is a multiple of `step`."""
        b = self.b
        full = size // step * step

        def run(span: Span) -> tuple[()]:
            body(span)
            return ()

        if full:
            b.loop(start, b.minimum(stop, b.index(full)), step, (), lambda i, _: run(Span(i, step)))
        if size > full:
            # Only the last program comes here: for the others the range is empty.
            rest = size - full
            b.loop(b.maximum(start, b.index(full)), stop, rest, (), lambda i, _: run(Span(i, rest)))

    def nest(self, sizes: Sequence[int], body: Callable[[list[Span]], None]) -> None:
        """Nested loops over single elements."""

        def level(spans: list[Span]) -> tuple[()]:
            if len(spans) == len(sizes):
                body(spans)
            elif sizes[len(spans)] == 1:
                level([*spans, Span(self.b.index(0))])
            else:
                self.b.loop(0, sizes[len(spans)], 1, (), lambda i, _: level([*spans, Span(i)]))
            return ()

        level([])

    def apart(self, number: Value, sizes: Sequence[int]) -> list[Span]:
        """The positions in several loops that one running number stands for, the last loop fastest."""
        b = self.b
        if len(sizes) == 1:
            return [Span(number)]
        spans: list[Span] = []
        for size in reversed(sizes):
            spans.insert(0, Span(b.remainder(number, b.index(size))))
            number = b.floor_divide(number, b.index(size))
        return spans

    def visit(self, sizes: Sequence[int], width: int, body: Callable[[list[Span]], None]) -> None:
        """Runs `body` on every tile of a space, this program's part of it (`grid_for` says how many programs)."""
        if not sizes:
            body([])
        elif self.masks:
            self._visit_as_block(sizes, width, body)
        else:
            self._visit_as_thread(sizes, width, body)

    def _visit_as_block(self, sizes: Sequence[int], width: int, body: Callable[[list[Span]], None]) -> None:
        b = self.b
        width = min(width, power_of_two(sizes[-1]))
        tiles = -(-sizes[-1] // width)
        *outer, last = self.apart(self.programs[0], [*sizes[:-1], tiles])
        body([*outer, Span(b.multiply(last.start, b.index(width)), width, sizes[-1] % width != 0)])

    def _visit_as_thread(self, sizes: Sequence[int], width: int, body: Callable[[list[Span]], None]) -> None:
        b = self.b

        def row(outer: list[Span]) -> tuple[()]:
            self.tiles(sizes[-1], width, (), lambda span, _: body([*outer, span]) or ())
            return ()

        if not self.programs:
            self.nest(sizes[:-1], row)
            return
        part = rows_of_program(sizes, width)
        start = b.multiply(self.programs[0], b.index(part))
        stop = b.minimum(b.add(start, b.index(part)), b.index(sizes[0]))
        if len(sizes) == 1:
            self.tiles_between(start, stop, sizes[0], width, lambda span: body([span]))
        else:
            b.loop(
                start,
                stop,
                1,
                (),
                lambda i, _: self.nest(sizes[1:-1], lambda middle: row([Span(i), *middle])) or (),
            )


#: Elements of one program on a CPU: enough that handing it to another thread is worth it.
PROGRAM_ELEMENTS = 1 << 15


def rows_of_program(sizes: Sequence[int], width: int) -> int:
    """How many steps of the outermost loop one program on a CPU takes (whole tiles, if it is the only loop)."""
    if len(sizes) == 1:
        return max(width, PROGRAM_ELEMENTS // width * width)
    return max(1, min(sizes[0], PROGRAM_ELEMENTS // max(1, prod(sizes[1:]))))


def grid_for(target: Target, sizes: Sequence[int], width: int) -> tuple[int, ...]:
    """The programs that visit a space: on a CPU enough for several threads, on a GPU one per tile."""
    if not sizes:
        return (1,) if target.execution == "warps" else ()
    if target.execution == "warps":
        return (prod(sizes[:-1]) * -(-sizes[-1] // min(width, power_of_two(sizes[-1]))),)
    programs = -(-sizes[0] // rows_of_program(sizes, width))
    return (programs,) if programs > 1 else ()


def tile_width(target: Target, item: int, ops: int) -> int:
    """Elements of one tile: on a CPU several registers for independent work, fewer for long bodies; on a GPU
    16 bytes per thread."""
    if target.execution == "warps":
        return target.threads * max(1, 16 // item)
    registers = 4 if ops <= 12 else 2 if ops <= 40 else 1
    return registers * target.lanes(item)


class Kernel(Frame):
    """The kernel of a fusion: a buffer for each input, for each extra input, and for each output."""

    def __init__(
        self, plan: Plan, target: Target, grid: Sequence[int], extra_inputs: Sequence[MemRefType] = ()
    ):
        self.plan = plan
        self.inputs = [v for v in plan.inputs if v in plan.loops]
        own = [MemRefType(plan.shape(v), element_type(v.type)) for v in self.inputs]
        outputs = [MemRefType(plan.shape(v), element_type(v.type)) for v in plan.outputs]
        super().__init__(target, grid, [*own, *extra_inputs], outputs, plan.fusion.location)
        self.buffers = dict(zip(self.inputs, self.sources, strict=False))
        self.extra = self.sources[len(own) :]

    def in_place(self) -> list[int]:
        """Pairs that may share: the output's elements are met in the order of the input's.

        Every kernel loads all that it needs of a tile before it stores the tile. So an output may overwrite
        such an input, unless its tiles are stored before others are read: a value of whole rows is read again
        with each tile of the row.
        """
        whole = tuple(range(len(self.plan.sizes)))
        outer_only = kind(self.plan.fusion) == "rows"
        pairs: list[int] = []
        for o, output in enumerate(self.plan.outputs):
            loops = self.plan.loops[output]
            for i, value in enumerate(self.inputs):
                same = self.plan.loops[value] == loops and element_type(value.type) is element_type(
                    output.type
                )
                if same and (not outer_only or loops == whole):
                    pairs += [i, len(self.sources) + o]
        return pairs


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


class Tile:
    """The values of a fusion on one tile: each op is computed at most once, when first asked for."""

    def __init__(self, kernel: Kernel, spans: Sequence[Span], known: dict[Value, Value] | None = None):
        self.kernel = kernel
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
            missing = [o for o in owner.operands if o not in self.known] if isinstance(owner, Op) else []
            if missing:
                stack += missing
                continue
            self.b.location = owner.location if isinstance(owner, Op) else self.b.location
            self.known[current] = self.compute(current)
            stack.pop()
        return self.known[value]

    def compute(self, value: Value) -> Value:
        owner = value.owner
        if not isinstance(owner, Op):
            return self.load(value, self.kernel.buffers[value])
        operands = [self.known[o] for o in owner.operands]
        type = self.type(value)
        match owner.name:
            case "ng.reshape" | "ng.transpose":
                return operands[0]
            case "ng.broadcast":
                return self.broadcast(operands[0], owner.operands[0], value)
            case "ng.constant":
                return self.b.number(_splat(owner.attributes["value"]), type)
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
            start = self.spread(self.b.cast(span.start, type=i64), whole)
            if span.size:
                start = self.b.add(start, self.b.iota(type=whole, dimension=tiled.index(l)))
            scalar = self.b.add(scalar, self.b.multiply(start, self.b.number(stride, whole)))
            stride *= self.kernel.plan.sizes[l]
        return scalar if type is whole else self.b.cast(scalar, type=type)

    def spread(self, scalar: Value, type: Type) -> Value:
        return self.b.broadcast(scalar, type=type, dimensions=()) if isinstance(type, VectorType) else scalar

    def _access(self, value: Value) -> tuple[list[Value], list[int] | None, bool]:
        """Indices, `dims` (None where they are the last ones in order) and whether a mask is needed."""
        loops = self.kernel.plan.loops[value]
        indices = [self.spans[l].start for l in loops]
        tiled = [l for l in sorted(loops) if self.spans[l].size]
        dims = [loops.index(l) for l in tiled]
        usual = list(range(len(loops) - len(tiled), len(loops)))
        return indices, None if dims == usual else dims, any(self.spans[l].masked for l in tiled)

    def load(self, value: Value, buffer: Value) -> Value:
        indices, dims, masked = self._access(value)
        return self.b.load(buffer, indices, type=self.type(value), dims=dims, masked=masked)

    def store(self, outputs: Sequence[tuple[Value, Value]]) -> None:
        """Writes the tiles of values to their buffers, all loads before the first store."""
        for value, _ in outputs:
            self.at(value)
        for value, buffer in outputs:
            indices, dims, masked = self._access(value)
            self.b.store(self.at(value), buffer, indices, dims=dims, masked=masked)

    def neutral(self, tile: Value, fill: Value) -> Value:
        """The tile with elements beyond the ends of masked loops replaced by `fill` (of the tile's type)."""
        tiled = [(l, s) for l, s in enumerate(self.spans) if s.size]
        shape = shape_of(tile.type)
        assert len(tiled) == len(shape)
        for d, (l, span) in enumerate(tiled):
            if not span.masked:
                continue
            whole = VectorType(shape, i64)
            position = self.b.add(
                self.b.iota(type=whole, dimension=d), self.spread(self.b.cast(span.start, type=i64), whole)
            )
            inside = self.b.less(position, self.b.number(self.kernel.plan.sizes[l], whole))
            tile = self.b.select(inside, tile, fill)
        return tile


def _splat(attribute: Attribute) -> Attribute:
    """The one number of a constant."""
    if not isinstance(attribute, ElementsAttr):
        return attribute
    element = attribute.type.element
    bits = int.from_bytes(attribute.data[: item_bytes(element)], "little")
    if isinstance(element, FloatType):
        return FloatAttr(bits, element)
    return numeric_literal(bits, element)


# ---- reductions --------------------------------------------------------------------------------------------

_COMBINE = {
    "ng.sum": "add", "ng.product": "multiply", "ng.max": "maximum", "ng.min": "minimum",
    "ng.any": "bitwise_or", "ng.all": "bitwise_and",
}  # fmt: skip


class Reduction:
    """How one reduction accumulates: in which type, from which start, by which op."""

    def __init__(self, op: Op):
        self.op = op
        self.source = op.operands[0]
        self.result = op.results[0]
        self.element = element_type(op.results[0].type)
        narrow = (
            op.name in ("ng.sum", "ng.product")
            and isinstance(self.element, FloatType)
            and self.element.width < 32
        )
        self.accumulator: Type = f32 if narrow else self.element

    @property
    def start(self) -> Attribute:
        """What leaves everything it is combined with as it is; of a float sum -0.0, not 0.0."""
        element = self.accumulator
        match self.op.name:
            case "ng.sum":
                return numeric_literal(-0.0 if isinstance(element, FloatType) else 0, element)
            case "ng.product" | "ng.all":
                return numeric_literal(1, element)
            case "ng.any":
                return numeric_literal(0, element)
            case name:
                return extreme(element, lowest=name == "ng.max")

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        return getattr(b, _COMBINE[self.op.name])(x, y)

    def widen(self, b: Builder, tile: Value) -> Value:
        if self.accumulator is self.element:
            return tile
        return b.cast(tile, type=with_element(tile.type, self.accumulator))

    def across(self, b: Builder, tile: Value, axes: Sequence[int]) -> Value:
        """Reduces dimensions of a tile of the accumulator's type."""
        return getattr(b, self.op.name.removeprefix("ng."))(tile, axes=axes) if axes else tile

    def narrow(self, b: Builder, value: Value) -> Value:
        if self.accumulator is self.element:
            return value
        return b.cast(value, type=with_element(value.type, self.element))


def extreme(element: Type, lowest: bool) -> Attribute:
    """The least or the greatest number of a type."""
    if isinstance(element, FloatType):
        return FloatAttr(float_bits(float("-inf") if lowest else float("inf"), element), element)
    assert isinstance(element, IntegerType)
    if element.unsigned:
        return IntegerAttr(0 if lowest else (1 << element.width) - 1, element)
    half = 1 << (element.width - 1)
    return IntegerAttr(-half if lowest else half - 1, element)


def widest_item(planned: Plan) -> int:
    """Bytes of the largest element that the kernel computes with."""
    return max((item_bytes(element_type(v.type)) for v in planned.loops), default=4)


def reductions(ops: Sequence[Op]) -> list[Reduction]:
    return [Reduction(op) for op in ops if "reduction" in op.traits]


def kind(fusion: Op) -> str:
    attribute = fusion.attributes["kind"]
    assert isinstance(attribute, StringAttr)
    return attribute.value
