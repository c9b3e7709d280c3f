# SPDX-License-Identifier: Apache-2.0
"""Gives each tile of a kernel a layout.

Tiles that meet in elementwise ops, loops or branches form a class and share one layout, so that all of this
is work within a thread. Matrix products say what the layout of their class is; then the larger class goes
first: a class that is reduced or broadcast from a class that has a layout takes the slice of it; other
classes take the layout that suits their accesses to memory. What disagrees is converted where it meets: an
access for which the layout of the class would be slow has one of its own in `accesses`. Sums of products that
meet what such an access loads do not join it: they alone are converted, not all that they meet, and the result.
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

#: An access gets a layout of its own where that of its class costs this many times the memory traffic.
_TOO_SLOW = 1.5


@dataclass
class Assignment:
    """`of` every tile but constants, which fit any layout; `handed` on in another one are those that are converted as soon as they
    are made, before what they meet takes registers; `accesses` of the loads and stores that differ; `straight` are loads from
    shared memory by which each thread gets what a matrix instruction wants of it; `lines` of those that move some, but for
    loads whose round does not wait for them."""

    of: dict[Value, Layout]
    handed: dict[Value, Layout]
    accesses: dict[Op, Layout]
    windows: dict[Op, Access]
    straight: set[Op]
    lines: dict[Op, Lines]


@dataclass
class _Link:
    """A class whose layout follows from that of another: `follow(layout)`."""

    source: Value
    follow: Callable[[Layout], Layout]


@dataclass
class _Class:
    shape: tuple[int, ...]
    order: int
    members: list[Value] = field(default_factory=list[Value])
    product: Layout | None = None
    accesses: list[Access] = field(default_factory=list[Access])
    one_by_one: bool = False  # elements are moved one at a time: neighbours belong into one request
    summed: bool = False  # along the rows of a matrix: what each thread has of a row is joined for nothing
    links: list[_Link] = field(default_factory=list[_Link])


def assign(body: Block, facts: Facts, threads: int, blocks: int, gpu: Gpu) -> Assignment:
    """Layouts for a kernel whose blocks have `threads` threads; those of products follow from the matrix instructions."""
    return _Assigner(facts, threads, blocks, gpu).run(body)


def fits_any(value: Value) -> bool:
    """Whether a value is a constant with all elements equal, which costs nothing in any layout."""
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
        self.ahead: set[Value] = set()  # what a round makes for the next one
        self.products: list[tuple[Value, Layout]] = []
        self.handed: dict[Value, Value] = {}  # sums, and what is made of them in another layout
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

    # Which values belong together

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
        """Joins what meets in an elementwise op, but for sums where what they meet is loaded otherwise than they lie."""
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
        """The first class that can be decided, else the first."""
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
                    continue  # they are read as lines, through shared memory
                if self._slow(access, of[value]):
                    yield op, access.layout(self.threads)

    def _slow(self, access: Access, layout: Layout) -> bool:
        """Whether an access deserves another layout than this one."""
        return access.waste(layout) >= _TOO_SLOW * access.waste(access.layout(self.threads))
