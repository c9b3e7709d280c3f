# SPDX-License-Identifier: Apache-2.0
"""Gives each tile of a kernel a layout.

Tiles that are operands or results of the same elementwise op, loop or branch form a class and share one layout, so that
these ops need no data from other threads. The layouts of the classes are chosen in this order: matrix products
prescribe the layout of their class; then larger classes come first. A class that is a reduction or the operand of a
broadcast of a class that has a layout takes a slice of that layout; other classes take the layout that suits their
memory accesses. Where layouts disagree, values are converted: an access for which the layout of its class would be slow
has a layout of its own in `accesses`. The results of matrix products do not join the class of values loaded by such an
access: then only the products are converted, not those values and the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ...ir.core import Block, Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import shape_of
from ...ops import ng, tile
from ...ops.fields import get_i64s
from ...ops.layouts import Layout, blocked, padded, product_blocks
from ...support.machines import MEETING_BLOCKS, Gpu
from .access import Access, access_of, is_shared, is_tile
from .facts import Facts
from .lines import Lines, lines_of
from .products import fragments

#: An access gets a layout of its own if that of its class causes this many times the memory traffic.
_TOO_SLOW = 1.5


@dataclass
class Assignment:
    """`of`: the layout of every tile except constants, which fit any layout. `handed`: the layout to which a tile is
    converted right after it is computed, before its other operands occupy registers. `accesses`: layouts of loads and
    stores that differ. `straight`: loads from shared memory that give each thread the fragment of a matrix instruction.
    `lines`: the `Lines` of loads and stores that move some, except loads of which a loop iteration uses the result only
    in the next one."""

    of: dict[Value, Layout]
    handed: dict[Value, Layout]
    accesses: dict[Op, Layout]
    windows: dict[Op, Access]
    straight: set[Op]
    lines: dict[Op, Lines]


@dataclass
class _Link:
    """The layout of a class follows from that of `source`, as `follow(layout)`."""

    source: Value
    follow: Callable[[Layout], Layout]


@dataclass
class _Class:
    shape: tuple[int, ...]
    order: int
    members: list[Value] = field(default_factory=list[Value])
    product: Layout | None = None
    accesses: list[Access] = field(default_factory=list[Access])
    one_by_one: bool = False  # one element per access: lanes should access neighbours
    summed: bool = False  # rows are summed; a thread sums its own elements without exchanges
    links: list[_Link] = field(default_factory=list[_Link])


def assign(body: Block, facts: Facts, threads: int, blocks: int, gpu: Gpu) -> Assignment:
    """Layouts for a kernel whose blocks have `threads` threads; those of products follow from the matrix instructions."""
    return _Assigner(facts, threads, blocks, gpu).run(body)


def fits_any(value: Value) -> bool:
    """Whether a value is a constant with all elements equal, which is free in any layout."""
    if not isinstance(value.owner, ng.ConstantOp):
        return False
    literal = value.owner.attributes["value"]
    return not isinstance(literal, ElementsAttr) or literal.splat


class _Assigner:
    def __init__(self, facts: Facts, threads: int, blocks: int, gpu: Gpu):
        self.facts = facts
        self.threads = threads
        self.many = blocks >= MEETING_BLOCKS * gpu.multiprocessors
        self.gpu = gpu
        self.parent: dict[Value, Value] = {}
        self.windows: dict[Op, Access] = {}
        self.lines: dict[Op, Lines] = {}
        self.ahead: set[Value] = set()  # values that an iteration yields to the next one
        self.products: list[tuple[Value, Layout]] = []
        self.handed: dict[Value, Value] = {}  # product -> value computed from it in another layout
        self.straight: set[Op] = set()
        self.gathered: list[Value] = []
        self.summed: list[Value] = []
        self.links: list[tuple[Value, _Link]] = []

    def run(self, body: Block) -> Assignment:
        self._visit(body)
        classes = self._classes()
        layouts: dict[Value, Layout] = {}
        pending = sorted(classes.values(), key=lambda c: (c.product is None, -prod(padded(c.shape)), c.order))
        while pending:
            chosen, layout = self._next(pending, layouts)
            pending.remove(chosen)
            layouts[self._root(chosen.members[0])] = layout
        of = {value: layouts[self._root(value)] for value in self.parent}
        handed = {value: of[made] for value, made in self.handed.items()}
        return Assignment(of, handed, dict(self._own_accesses(of)), self.windows, self.straight, self.lines)

    # Which values share a layout

    def _root(self, value: Value) -> Value:
        while self.parent[value] is not value:
            self.parent[value] = self.parent[self.parent[value]]
            value = self.parent[value]
        return value

    def _join(self, *values: Value) -> None:
        tiles = [value for value in values if is_tile(value) and not fits_any(value)]
        for value in tiles:
            self.parent.setdefault(value, value)
        for value in tiles[1:]:
            self.parent[self._root(value)] = self._root(tiles[0])

    def _link(self, target: Value, source: Value, follow: Callable[[Layout], Layout]) -> None:
        if is_tile(target) and is_tile(source) and not fits_any(target) and not fits_any(source):
            self.links.append((target, _Link(source, follow)))

    def _visit(self, block: Block) -> None:
        for argument in block.args:
            self._join(argument)
        for op in block.ops:
            self.facts.learn(op)
            for result in op.results:
                self._join(result)
            self._relate(op)
            if isinstance(op, tile.ForOp):
                self.ahead.update(op.body.block.ops[-1].operands)
            for region in op.regions:
                for inner in region.blocks:
                    self._visit(inner)

    def _relate(self, op: Op) -> None:
        traits = op.traits
        match op:
            case tile.LoadOp() | tile.StoreOp():
                self.windows[op] = access = access_of(op, self.facts, self.many)
                if (
                    self.ahead.isdisjoint(op.results)
                    and (lines := lines_of(op, access, self.facts)) is not None
                ):
                    self.lines[op] = lines
            case tile.GatherOp():
                self._join(op.result, *op.operands[1:])
                self.gathered.append(op.result)
            case tile.ScatterOp():
                self._join(*op.operands[:2], *op.operands[3:])
            case tile.DotOp():
                self._join(op.operands[2], op.result)
                found = fragments(op, self.threads, self.gpu)
                shape = shape_of(op.result.type)
                layout = found.accumulator if found else product_blocks(shape, self.threads)
                self.products.append((op.result, layout))
                for value, wanted in zip(op.operands[:2], found[:2] if found else (), strict=False):
                    load = value.owner
                    if isinstance(load, tile.LoadOp) and is_shared(load.operands[0]) and not load.masked:
                        self.products.append((value, wanted))
                        self.straight.add(load)
            case tile.ForOp():
                block = op.regions[0].block
                parts = (op.inits, block.args[1:], block.ops[-1].operands, op.results)
                for group in zip(*parts, strict=True):
                    self._join(*group)
            case ng.IfOp():
                yields = (region.block.ops[-1].operands for region in op.regions)
                for group in zip(op.results, *yields, strict=True):
                    self._join(*group)
            case ng.BroadcastOp():
                dims = set(op.dimensions)
                new = [d for d in range(len(shape_of(op.result.type))) if d not in dims]
                shape, places = padded(shape_of(op.result.type)), op.dimensions
                self._link(op.operands[0], op.result, lambda layout: layout.drop(new))
                self._link(op.result, op.operands[0], lambda layout: layout.spread(places, shape))
            case ng.TransposeOp():
                order = op.permutation
                back = [order.index(d) for d in range(len(order))]
                self._link(op.result, op.operands[0], lambda layout: layout.transpose(order))
                self._link(op.operands[0], op.result, lambda layout: layout.transpose(back))
            case ng.ReshapeOp():
                source, target = shape_of(op.operands[0].type), shape_of(op.result.type)
                if padded(source) == source and padded(target) == target:
                    self._link(op.result, op.operands[0], lambda layout: layout.reshape(target))
                    self._link(op.operands[0], op.result, lambda layout: layout.reshape(source))
            case _ if "reduction" in traits:
                axes = get_i64s(op, "axes")
                self._link(op.result, op.operands[0], lambda layout: layout.drop(axes))
                if tuple(axes) == (1,):
                    self.summed.append(op.operands[0])
            case _ if "elementwise" in traits:
                self._meet(op)
            case _ if "cumulative" in traits:
                self._join(*op.operands, *op.results)
            case _:
                pass

    def _meet(self, op: Op) -> None:
        """Joins operands and results of an elementwise op; but not the results of products if an operand is loaded by
        an access that would be slow in their layout."""
        laid = {self._root(value): layout for value, layout in self.products}
        tiles = [value for value in op.operands if value in self.parent]
        sums = [value for value in tiles if self._root(value) in laid]
        others = [value for value in tiles if value not in sums]
        met = {self._root(value) for value in others}
        if any(
            self._slow(self.windows[load], laid[self._root(value)])
            for value in sums
            for load in self.windows
            if isinstance(load, tile.LoadOp) and load.result in self.parent and self._root(load.result) in met
        ):
            self.handed |= dict.fromkeys(sums, op.results[0])
            self._join(*others, *op.results)
        else:
            self._join(*tiles, *op.results)

    def _classes(self) -> dict[Value, _Class]:
        classes: dict[Value, _Class] = {}
        for value in self.parent:
            root = self._root(value)
            found = classes.setdefault(root, _Class(shape_of(value.type), len(classes)))
            found.members.append(value)
        for value, layout in self.products:
            classes[self._root(value)].product = layout
        for value in self.gathered:
            if value in self.parent:
                classes[self._root(value)].one_by_one = True
        for value in self.summed:
            if value in self.parent:
                classes[self._root(value)].summed = True
        for op, access in self.windows.items():
            value = op.result if isinstance(op, tile.LoadOp) else op.operands[0]
            if value in self.parent:
                found = classes[self._root(value)]
                found.accesses.append(access)
                if op in self.lines and self.lines[op].pays(access.layout(self.threads)):
                    found.one_by_one = True
        for target, link in self.links:
            classes[self._root(target)].links.append(link)
        return classes

    # Which layout a class gets

    def _next(self, pending: list[_Class], layouts: dict[Value, Layout]) -> tuple[_Class, Layout]:
        """The first class whose layout can be decided; else the first, with a default layout."""
        for each in pending:
            layout = self._decided(each, layouts)
            if layout is not None:
                return each, layout
        return pending[0], blocked(pending[0].shape, self.threads)

    def _decided(self, each: _Class, layouts: dict[Value, Layout]) -> Layout | None:
        if each.product is not None:
            return each.product
        size = prod(padded(each.shape))
        known = [(link, layouts.get(self._root(link.source))) for link in each.links]
        for link, layout in known:
            if layout is not None and prod(layout.shape) > size:
                return link.follow(layout)
        if each.accesses:
            if each.summed and each.accesses[0].in_line(self.threads, self.many):
                return each.accesses[0].by_rows(self.threads)
            widest = max(each.accesses, key=lambda access: access.width)
            return (replace(widest, width=1) if each.one_by_one else widest).layout(self.threads)
        for link, layout in known:
            if layout is not None:
                return link.follow(layout)
        return None

    def _own_accesses(self, of: dict[Value, Layout]) -> Iterator[tuple[Op, Layout]]:
        for op, access in self.windows.items():
            value = op.result if isinstance(op, tile.LoadOp) else op.operands[0]
            if value in of and op not in self.straight:
                if access.in_line(self.threads, self.many) and of[value] == access.by_rows(self.threads):
                    continue  # read as lines, through shared memory
                if self._slow(access, of[value]):
                    yield op, access.layout(self.threads)

    def _slow(self, access: Access, layout: Layout) -> bool:
        """Whether an access should have another layout than this one."""
        return access.waste(layout) >= _TOO_SLOW * access.waste(access.layout(self.threads))
