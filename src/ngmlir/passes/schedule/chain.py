# SPDX-License-Identifier: Apache-2.0
"""Chains: fusions whose rows depend on the same rows of the one before become one kernel, if the values between them exceed a cache."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.attributes import StringAttr
from ...ir.core import Block, Module, Op, Region, Value, count_uses
from ...ir.literals import bytes_of
from ...ops import ng
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...support.target import Target
from ..analysis.group import kind
from ..analysis.views import source
from ..fuse.links import Link, link_of, obstacle
from ..fuse.nest import nest
from ..fuse.writer import in_functions, nested
from ..graph.inline import copied
from .strips import fits


@contract(needs=("plain", "fused"), gives="fused", anchor="function")
def chain(module: Module, target: Target) -> Module:
    """Makes one fusion of kind `chain` of a product and the fusions that need only the rows that the same program
    has computed: the softmax of scores and the product with them, the normalization of a product's result.

    A program computes a strip of rows in all of them, so the values between them are never stored as a whole. This is done
    if they would not stay in the L2 cache, and exceed what each strip reads again of right sides. Each fusion computes the
    same as it does alone, in the same order. A fusion that states a schedule is left alone.

    Before:
        func.func @main(%x: tensor<8192x64xf32>, %w: tensor<64x256xf32>) -> tensor<8192xf32> {
          %0 = ng.fusion dot(%x, %w) -> tensor<8192x256xf32> {
            %2 = ng.dot %x, %w contract [1] x [0] : (tensor<8192x64xf32>, tensor<64x256xf32>) -> tensor<8192x256xf32>
            ng.yield %2 : tensor<8192x256xf32>
          }
          %1 = ng.fusion rows(%0) -> tensor<8192xf32> {
            %2 = ng.max %0 axes [1] : (tensor<8192x256xf32>) -> tensor<8192xf32>
            ng.yield %2 : tensor<8192xf32>
          }
          return %1 : tensor<8192xf32>
        }
    After:
        func.func @main(%x: tensor<8192x64xf32>, %w: tensor<64x256xf32>) -> tensor<8192xf32> {
          %0 = ng.fusion chain(%x, %w) -> tensor<8192xf32> {
            %0 = ng.fusion dot(%x, %w) {ng.nest = #ng.nest<d0 = 8192, d1 = 256, d2 = 64 reduction
                read matrix [d0, d2]
                read matrix [d2, d1]
                write [d0, d1]>} -> tensor<8192x256xf32> {
              %0 = ng.dot %x, %w contract [1] x [0] : (tensor<8192x64xf32>, tensor<64x256xf32>) -> tensor<8192x256xf32>
              %1 = ng.reshape %0 : (tensor<8192x256xf32>) -> tensor<8192x256xf32, #ng.axes<d0, d1>>
              ng.yield %1 : tensor<8192x256xf32, #ng.axes<d0, d1>>
            }
            %1 = ng.fusion rows(%0) {ng.nest = #ng.nest<d0 = 8192, d1 = 256 reduction
                read [d0, d1]
                write [d0]>} -> tensor<8192xf32> {
              %1 = ng.max %0 axes [1] : (tensor<8192x256xf32, #ng.axes<d0, d1>>) -> tensor<8192xf32, #ng.axes<d0>>
              ng.yield %1 : tensor<8192xf32, #ng.axes<d0>>
            }
            ng.yield %1 : tensor<8192xf32>
          }
          func.return %0 : tensor<8192xf32>
        }
    """
    if target.has_thread_blocks:
        return module  # the shared memory of a thread block is too small for strips of rows
    return in_functions(nest(module, target), lambda block: _Writer(block, target).written())


class _Writer:
    """Rewrites a block with its chains."""

    def __init__(self, block: Block, target: Target):
        self.block, self.target = block, target
        self.uses = {v: 0 for op in block.ops for v in op.results} | count_uses(block)
        self.known: dict[Op, Link | None] = {}
        self.readers: dict[Value, Op] = {v: op for op in block.ops for v in op.operands}
        self.chains: list[list[Link]] = []
        self.taken: set[Op] = set()
        for op in block.ops:
            if op not in self.taken and (link := self.link(op)) is not None:
                found = self.longest(link)
                self.taken.update(each.fusion for each in found)
                if len(found) > 1:
                    self.chains.append(found)

    def link(self, op: Op) -> Link | None:
        if op not in self.known:
            fits = op.name == "ng.fusion" and SCHEDULE not in op.attributes and kind(op) in ("dot", "rows")
            self.known[op] = link_of(op, self.target) if fits else None
        return self.known[op]

    def longest(self, link: Link) -> list[Link]:
        """The longest chain that begins with a link."""
        found = [link]
        while (following := self.next(found[-1])) is not None and self.fits([*found, following]):
            found.append(following)
        return found

    def next(self, link: Link) -> Link | None:
        """The only user of all results of a link, if it is in no chain yet, can read them row by row, and a chain pays off."""
        readers: set[Op] = set()
        for result in link.fusion.results:
            value, reader = result, self.reader(result)
            while reader is not None and reader.name == "ng.reshape":
                value, reader = reader.results[0], self.reader(reader.results[0])
            following = None if reader is None else self.link(reader)
            if following is None or following.fusion in self.taken:
                return None
            numbers = [n for n, v in enumerate(following.fusion.operands) if v is value]
            if any(obstacle(link, result, following, number) for number in numbers):
                return None
            readers.add(following.fusion)
        size = sum(bytes_of(v.type) for v in link.fusion.results)
        if len(readers) != 1 or size <= self.target.l2_bytes:
            return None
        return self.link(readers.pop())

    def reader(self, value: Value) -> Op | None:
        """The op that reads a value, if it is the only one and in no region."""
        reader = self.readers.get(value)
        return reader if reader is not None and self.uses[value] == reader.operands.count(value) else None

    def fits(self, links: Sequence[Link]) -> bool:
        """Whether some fusions can share strips of enough rows."""
        products = {(link.batch, link.rows) for link in links if link.product is not None}
        if len(products) != 1 or len({link.count for link in links}) != 1:
            return False
        return fits(links, self.target)

    def written(self) -> Block:
        """The block with chains; itself if there are none."""
        made = {op: nested(op, lambda block: _Writer(block, self.target).written()) for op in self.block.ops}
        if not self.chains and all(op is new for op, new in made.items()):
            return self.block
        out, mapping = self.block.emptied(), dict[Value, Value]()
        last = {links[-1].fusion: links for links in self.chains}
        inside = {link.fusion for links in self.chains for link in links[:-1]}
        inside |= {view for links in self.chains for view in self.views(links)}
        for op, new in made.items():
            if op in last:
                out.ops.append(self.chain(last[op], mapping))
            elif op not in inside:
                out.ops.append(copied(new, mapping))
                mapping.update(zip(op.results, out.ops[-1].results, strict=True))
        return out

    def views(self, links: Sequence[Link]) -> list[Op]:
        """The views between the fusions of a chain."""
        made = {link.fusion for link in links}
        found: list[Op] = []
        for value in (v for link in links for v in link.fusion.operands):
            while value.owner not in made and isinstance(value.owner, Op) and source(value).owner in made:
                found.append(value.owner)
                value = value.owner.operands[0]
        return found

    def chain(self, links: Sequence[Link], mapping: dict[Value, Value]) -> Op:
        """The fusion of a chain; its results are added to the mapping."""
        made = {link.fusion for link in links}
        read = [v for link in links for v in link.fusion.operands if source(v).owner not in made]
        inputs = list(dict.fromkeys(read))
        body = Block([v.type for v in inputs], [v.name for v in inputs])
        inner = dict(zip(inputs, body.args, strict=True))
        body.ops = [copied(op, inner) for op in self.ordered({*made, *self.views(links)})]
        end = links[-1].fusion
        body.ops.append(ng.YieldOp([inner[v] for v in end.results], (), {}, (), end.location))
        new = ng.FusionOp(
            [mapping.get(v, v) for v in inputs],
            [v.type for v in end.results],
            {"kind": StringAttr("chain")},
            [Region(body)],
            links[0].fusion.location,
            names=[v.name for v in end.results],
        )
        mapping.update(zip(end.results, new.results, strict=True))
        return new

    def ordered(self, ops: set[Op]) -> list[Op]:
        return [op for op in self.block.ops if op in ops]
