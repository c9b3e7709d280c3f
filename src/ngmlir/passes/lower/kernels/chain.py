# SPDX-License-Identifier: Apache-2.0
"""Kernels of chains of fusions: a program computes a block of rows (a strip) through all fusions of the chain.

The result of a fusion that the next one reads has scratch for one strip only and is never stored as a whole: the scores of an attention,
the logits of a loss. Each fusion computes its rows as its own kernel would, in the same order, so the results have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, VectorType, element_type
from ....ops.schedules import Panels, Rows, Strips
from ....ops.settings import Schedule
from ....support.diagnostics import Bug
from ....support.target import Target
from ...analysis.loop_nest import Shape
from ...analysis.views import source
from ...fuse.links import Link, links_of, passed_values, shared_buffers
from .dot import packed_sides
from .extents import Extent
from .finished import Finished
from .fusion_kernel import Part
from .kernel_builder import KernelBuilder
from .packing import Packing, conflict_free_stride
from .panels import PanelKernel
from .reading import Matrix
from .rows import rows_strip
from .tiling import peel_last, several


def chain_kernel(chain: Op, target: Target, schedule: Strips, inner: Sequence[Schedule]) -> Finished:
    """The kernel of a `chain` fusion. `inner` has the schedules of its fusions."""
    return _Builder(chain, target, schedule, inner).build()


class _Builder:
    """Builds the kernel of one chain."""

    def __init__(self, chain: Op, target: Target, schedule: Strips, inner: Sequence[Schedule]):
        self.chain, self.target, self.schedule = chain, target, schedule
        self.links = links_of(chain, target)
        self.made = passed_values(self.links)
        self.numbers = {value: number for number, value in enumerate(chain.block.args)}
        self.cuts = dict(zip(self.links, inner, strict=True))
        self.products = {
            link: packed_sides(link.product, cut, target)
            for link, cut in self.cuts.items()
            if link.product is not None and isinstance(cut, Panels)
        }
        #: Parameters of the kernel: values that are read from memory, and the operands of products.
        self.inputs: dict[tuple[int, Shape], MemRefType] = {}
        self.sides: dict[tuple[Link, int], tuple[int, Shape, Packing | None]] = {}
        self.given = [source(value) for value in chain.block.ops[-1].operands]

    def build(self) -> Finished:
        for link in self.links:
            for number, shape in link.nest.sources:
                if (value := source(link.fusion.operands[number])) not in self.made:
                    type = MemRefType(shape, element_type(value.type))
                    self.inputs[self.numbers[value], shape] = type
        types = [type for link in self.products for type in self.side_types(link)]
        own = {value: link for link in self.links for value in link.fusion.results}
        results = tuple([own[v].nest.result(own[v].results[v]) for v in self.given])
        self.batch, self.rows = next((link.batch, link.rows) for link in self.products)
        sizes = (self.batch, -(-self.rows // self.schedule.rows))
        self.builder = KernelBuilder(
            self.target,
            several(sizes),
            [*self.inputs.values(), *types],
            [MemRefType(s, element_type(v.type)) for s, v in zip(results, self.given, strict=True)],
            self.chain.location,
        )
        self.b = self.builder.b
        self.element, self.strip = self.builder.program_indices(sizes)
        self.scratch = self.strips()
        self.kernels = {link: self.kernel(link) for link in self.links}
        self.whole_or_rest()
        return Finished(self.builder.finish(), tuple(self.inputs), results, tuple(self.sides.values()))

    def side_types(self, link: Link) -> Iterator[MemRefType]:
        """The types of the operands of a product that are in memory, packed if so."""
        assert link.dot is not None
        _, packed = self.products[link]
        for which, (side, packing) in enumerate(zip(link.dot.operands, packed, strict=True)):
            number, shape = link.nest.side(side)
            value = source(link.fusion.operands[number])
            if value not in self.made:
                self.sides[link, which] = (self.numbers[value], shape, packing)
                yield packing.type if packing else MemRefType(shape, element_type(value.type))

    def strips(self) -> dict[Value, Value]:
        """Allocates scratch for intermediate results."""
        own = {value: link for link in self.links for value in link.fusion.results}
        scratch: dict[Value, Value] = {}
        for value, place in shared_buffers(self.links).items():
            link, element = own[value], element_type(value.type)
            rest = link.row_shape(link.results[value])
            if rest is None:
                raise Bug("the fusion of a chain is not contiguous by rows", link.fusion.location)
            if value is place:
                padded = (
                    (conflict_free_stride(rest[0], item_bytes(element), self.target),)
                    if len(rest) == 1
                    else rest
                )
                shape = (self.schedule.rows, *padded)
                scratch[value] = self.b.alloc(type=MemRefType(shape, element, None, 0, 3))
            else:
                scratch[value] = scratch[place]
        return scratch

    def kernel(self, link: Link) -> Part:
        """The part of one fusion, bound to the buffers that it reads and writes."""
        inputs = dict(zip(self.inputs, self.builder.sources, strict=False))
        outputs = dict(zip(self.given, self.builder.results, strict=True))
        buffers: dict[Value, Value] = {}
        handed_on = [value for result, value in link.results.items() if result in self.made]
        for value in link.nest.inputs:
            if value in link.nest.loops:
                number, shape = link.nest.source(value)
                read = source(link.fusion.operands[number])
                if read in self.made:
                    handed_on.append(value)
                    buffers[value] = self.scratch[read]
                else:
                    buffers[value] = inputs[self.numbers[read], shape]
        results = [self.scratch[r] if r in self.made else outputs[r] for r in link.results]
        return Part(self.builder, link.nest, buffers, dict.fromkeys(handed_on, len(link.lead)), results)

    def whole_or_rest(self) -> None:
        """Computes this program's strip; the last one may have fewer rows."""
        block, rows = self.schedule.rows, self.rows
        if rows % block == 0:
            self.all_of(block)
        else:
            each, last = (partial(self.all_of, count) for count in (block, rows % block))
            peel_last(self.b, self.strip, -(-rows // block), each, last)

    def all_of(self, rows: int) -> None:
        """Emits all fusions for a strip of `rows` rows."""
        b = self.b
        first = b.multiply(self.strip, b.index(self.schedule.rows))
        number = b.add(b.multiply(self.element, b.index(self.rows)), first)
        for link, cut in self.cuts.items():
            kernel = self.kernels[link]
            if isinstance(cut, Rows):
                rows_strip(kernel, cut, number, rows)
            elif isinstance(cut, Panels) and link.dot is not None:
                self.product(link, link.dot, cut, kernel, first, rows)
            else:
                raise Bug(f"no fusion of a chain has schedules of kind '{cut.by}'", link.fusion.location)

    def product(self, link: Link, dot: Op, cut: Panels, kernel: Part, first: Value, rows: int) -> None:
        extra = dict(zip(self.sides, self.builder.sources[len(self.inputs) :], strict=True))
        left = (link, 0) not in self.sides
        number, _ = link.nest.side(dot.operands[0])
        lhs = self.scratch[source(link.fusion.operands[number])] if left else extra[link, 0]
        kernel.extra = [lhs, extra[link, 1]]
        product, _ = self.products[link]
        made = _StripProduct(link.nest, self.target, cut, dot, product, (), kernel)
        made.strip([self.element] if product.batch else [], first, rows, left)


class _StripProduct(PanelKernel):
    """All columns of some rows of a product whose left operand may be a strip."""

    def strip(self, batch: Sequence[Value], first: Value, rows: int, left: bool) -> None:
        """Computes `rows` rows from the `first` on of one element of the batch. `left`: whether the left operand is a strip."""
        self.batch, self.first = list(batch), first
        self.from_strip = left
        product = self.product
        self.left_matrix = Matrix(self.b, self.lhs, [] if left else batch, None if left else product.lhs)
        self.right_matrix = Matrix(self.b, self.rhs, batch, product.rhs)
        self.allocate()
        columns = Extent(self.b, product.columns)
        self.block(self.b.index(0), Extent(self.b, rows), self.b.index(0), columns)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        if self.from_strip:
            return self.left_matrix.load(row, k, VectorType((rows, size), self.product.lhs_element))
        return super().left(self.b.add(self.first, row), rows, k, size)

    def finish(self, total: Value, row: Value, rows: int, column: Value, columns: int) -> None:
        self.kernel.row = row
        super().finish(total, self.b.add(self.first, row), rows, column, columns)
