# SPDX-License-Identifier: Apache-2.0
"""Loop nests: adds to each fusion its loops, and the indexing maps of its operands and results."""

from __future__ import annotations

from ...ir.attributes import Attribute, AxesAttr, StringAttr
from ...ir.core import Block, Module, Op, Region, Value
from ...ir.nest import GATHERED_AXIS, KINDS, NEST, AffineExpr, Loop, Map, NestAttr
from ...ir.types import TensorType, element_type, i64, shape_of, with_element
from ...ops import ng
from ...ops.builder import Builder
from ...ops.fields import get_i64, to_attribute
from ...ops.schedules import SCHEDULE
from ...ops.settings import to_attribute as to_schedule
from ...ops.stated_schedules import merged
from ...rewrite.contracts import contract
from ...support.target import Target
from ..analysis.access import MAPPED_MOVES, is_part
from ..analysis.group import LOOP_NESTS, has_elements, is_move, kind, with_type
from ..analysis.sides import depths
from ..graph.inline import copied
from .loops import FusionLoops, loops_of
from .writer import in_functions, nested


@contract(needs=("plain", "fused"), gives="fused", anchor="function")
def nest(module: Module, target: Target) -> Module:
    """Adds the loop nest of each fusion as `ng.nest`: its loops, and an indexing map for each operand and result.

    The maps replace ops in the fusion that only move or reshape operands: inside, a value has one dimension for each loop that it
    varies along. An operand that is read in several ways is listed once for each. A fusion that has a nest keeps it; fusions of
    kind `decoded` have none. An op outside of fusions that only moves data (slice, pads, transpose, windows, gather) becomes a fusion,
    unless its result is a view of its operand.

    Before:
        func.func @main(%x: tensor<8x9xf32>, %g: tensor<8x1xf32>) -> tensor<8xf32> {
          %0 = ng.fusion rows(%x, %g) -> tensor<8xf32> {
            %1 = ng.slice %x from [0, 1] to [8, 9] step [1, 2] : (tensor<8x9xf32>) -> tensor<8x4xf32>
            %2 = ng.reshape %g : (tensor<8x1xf32>) -> tensor<8xf32>
            %3 = ng.broadcast %2 dims [0] : (tensor<8xf32>) -> tensor<8x4xf32>
            %4 = ng.multiply %1, %3 : tensor<8x4xf32>
            %5 = ng.sum %4 axes [1] : (tensor<8x4xf32>) -> tensor<8xf32>
            ng.yield %5 : tensor<8xf32>
          }
          return %0 : tensor<8xf32>
        }
    After:
        func.func @main(%x: tensor<8x9xf32>, %g: tensor<8x1xf32>) -> tensor<8xf32> {
          %0 = ng.fusion rows(%g, %x) {ng.nest = #ng.nest<d0 = 8, d1 = 4 reduction
              read [d0]
              read [d0, d1 * 2 + 1] of [8, 9]
              write [d0]>} -> tensor<8xf32> {
            %0 = ng.broadcast %g dims [0] : (tensor<8xf32, #ng.axes<d0>>) -> tensor<8x4xf32, #ng.axes<d0, d1>>
            %1 = ng.multiply %x, %0 : tensor<8x4xf32, #ng.axes<d0, d1>>
            %2 = ng.sum %1 axes [1] : (tensor<8x4xf32, #ng.axes<d0, d1>>) -> tensor<8xf32, #ng.axes<d0>>
            ng.yield %2 : tensor<8xf32, #ng.axes<d0>>
          }
          func.return %0 : tensor<8xf32>
        }
    """
    return in_functions(module, lambda block: _written(block, target))


def _written(block: Block, target: Target) -> Block:
    """The block with a nest on each of its fusions; the same block where all have one."""
    made = {op: with_nest(op, target) for op in block.ops}
    if all(op is new for op, new in made.items()):
        return block
    out, mapping = block.emptied(), dict[Value, Value]()
    for op, new in made.items():
        out.ops.append(copied(new, mapping))
        mapping.update(zip(op.results, out.ops[-1].results, strict=True))
    return out


def with_nest(op: Op, target: Target) -> Op:
    """An op with nests on the fusions in its regions; a fusion, or an op that only moves data, as a fusion with a nest."""
    if (is_move(op, MAPPED_MOVES) and not (op.name == "ng.slice" and is_part(op, target))) or (
        "gathers" in op.traits and all(map(has_elements, (*op.operands, *op.results)))
    ):
        op = _fused(op)
    if op.name != "ng.fusion":
        return nested(op, lambda block: _written(block, target))
    if kind(op) == "chain":
        return op.with_blocks(lambda block: _written(block, target))
    if NEST in op.attributes or kind(op) not in LOOP_NESTS:
        return op
    return in_nest(op, loops_of(op, target))


def _fused(op: Op) -> Op:
    """A fusion of kind `map` of this op alone."""
    body = Block([v.type for v in op.operands], [v.name for v in op.operands])
    attributes = {name: value for name, value in op.attributes.items() if name != SCHEDULE}
    body.ops.append(op.rebuilt(body.args, attributes=attributes))
    body.ops.append(ng.YieldOp(body.ops[0].results, (), {}, (), op.location))
    own: dict[str, Attribute] = {"kind": StringAttr("map")}
    if scheduled := merged([op], "map"):
        own[SCHEDULE] = to_schedule(scheduled)
    types, names = [v.type for v in op.results], [v.name for v in op.results]
    return ng.FusionOp(op.operands, types, own, [Region(body)], op.location, names=names)


def in_nest(fusion: Op, found: FusionLoops) -> Op:
    """The fusion with the nest of the loops that were found."""
    return _Writer(fusion, found).fusion()


class _Writer:
    """Rewrites one fusion with its nest."""

    def __init__(self, fusion: Op, found: FusionLoops):
        self.old, self.found = fusion, found
        body = found.fusion.block
        self.ops, self.end = body.ops[:-1], body.ops[-1]
        self.operands = dict(zip(body.args, fusion.operands, strict=False))
        reads: list[tuple[Value, Value, Map]] = []  # the old argument, the one that it is read from, the map
        for value in body.args:
            if value in found.accesses:
                source, access = found.accesses[value]
                reads.append((value, source, Map((), access.places, access.shape, access.fill)))
            elif value in found.loops:
                reads.append((value, value, Map(found.loops[value])))
        self.plain = len(reads)
        for op in self.ops:
            for value, loops in zip(op.operands, self.sides(op), strict=True) if op.name == "ng.dot" else ():
                source, side = found.sides.get(value, (value, None))
                how = Map(matrix="matrix") if side is None else side.map()
                reads.append((value, source, how._replace(loops=loops)))
            if op in found.gathers:
                reads.append((op.operands[0], op.operands[0], self.gathered(op)))
        self.reads = reads
        self.nest = NestAttr(
            self.loops(), tuple([map for _, _, map in reads]), tuple(map(self.written, self.end.operands))
        )

    def sides(self, dot: Op) -> list[tuple[int, ...]]:
        """The loops of both operands of a product, in the order of their dimensions; those of size 1 have none."""
        batch, kept = list(self.found.loops[dot.result]), list[tuple[int, ...]]()
        for size in shape_of(dot.result.type)[:-3:-1]:
            kept.append((batch.pop(),) if size != 1 else ())
        columns, rows = kept
        found: list[tuple[int, ...]] = []
        for value, depth, own in zip(dot.operands, depths(dot), (rows, columns), strict=True):
            shape = shape_of(value.type)
            summed = (len(self.found.sizes),) if shape[depth] != 1 else ()
            found.append((*batch, *(summed + own if depth == len(shape) - 2 else own + summed)))
        return found

    def gathered(self, op: Op) -> Map:
        """The map of the operand that a gather indexes."""
        before, after = self.found.gathers[op]
        loops, axis = (*before, *after), len(before)
        places, shape = [AffineExpr(0, {l: 1}) for l in loops], [self.found.sizes[l] for l in loops]
        places.insert(axis, AffineExpr(0, {}))
        shape.insert(axis, shape_of(op.operands[0].type)[get_i64(op, "axis")])
        return Map((), tuple(places), tuple(shape), gathered=axis)

    def loops(self) -> tuple[Loop, ...]:
        """The loops: those that the result of a reduction lacks are reduction loops, as is the depth of a product, the last one."""
        of = self.found.loops
        reduced = {
            l for op in self.ops if "reduction" in op.traits for l in {*of[op.operands[0]]} - {*of[op.result]}
        }
        loops = [Loop(size, KINDS[l in reduced]) for l, size in enumerate(self.found.sizes)]
        for dot in self.ops:
            if dot.name == "ng.dot" and (depth := shape_of(dot.operands[0].type)[depths(dot)[0]]) != 1:
                loops.append(Loop(depth, KINDS[1]))
        return tuple(loops)

    def written(self, value: Value) -> Map:
        access = self.found.written.get(value)
        return Map(self.found.loops[value]) if access is None else Map((), access.places, access.shape)

    def type(self, value: Value) -> TensorType:
        """The type of a value inside the nest."""
        return self.nest.type_over(sorted(self.found.loops[value]), element_type(value.type))

    def fusion(self) -> Op:
        operands = [self.operands[source] for _, source, _ in self.reads]
        types = self.nest.inside([v.type for v in operands])
        block = Block(types, [value.name for value, _, _ in self.reads])
        b = Builder(block)
        given = [value for value, _, _ in self.reads]
        inner = dict(zip(given[: self.plain], block.args, strict=False))
        from_memory = iter(block.args[self.plain :])
        for op in self.ops:
            b.location = op.location
            if op.name == "ng.dot":
                product = b.add_op(op.rebuilt([next(from_memory), next(from_memory)])).result
                inner[op.result] = b.reshape(product, type=self.type(op.result))
            elif op in self.found.gathers:
                inner[op.result] = self.elements(op, next(from_memory), inner[op.operands[1]], b)
            else:
                inner[op.result] = self.computed(op, [inner[v] for v in op.operands], b)
        block.ops.append(self.end.rebuilt([inner[v] for v in self.end.operands]))
        return self.old.rebuilt(
            operands, [Region(block)], attributes={**self.old.attributes, NEST: self.nest}
        )

    def elements(self, op: Op, source: Value, indices: Value, b: Builder) -> Value:
        """What a gather reads inside the nest."""
        before, after = self.found.gathers[op]
        type, axis = self.type(op.result), len(before)
        changed = {**op.attributes, "axis": to_attribute("i64", axis)}
        if op.name == "ng.gather" or len(type.shape) > len((*before, *after)):
            return b.add_op(op.rebuilt([source, indices], attributes=changed, types=[type])).result
        # No loop runs along an axis of one index, which the op has.
        names = [*(type.axes or ())]
        axes = AxesAttr(*names[:axis], GATHERED_AXIS, *names[axis:])
        wide = TensorType((*type.shape[:axis], 1, *type.shape[axis:]), type.element, axes)
        indices = b.reshape(indices, type=with_element(wide, element_type(indices.type)))
        found = b.add_op(op.rebuilt([source, indices], attributes=changed, types=[wide])).result
        return b.reshape(found, type=type)

    def computed(self, op: Op, operands: list[Value], b: Builder) -> Value:
        """The result of an op inside the nest."""
        type, loops = self.type(op.result), sorted(self.found.loops[op.result])
        if op.name == "ng.reshape":
            return operands[0]
        if op.name == "ng.broadcast":
            own = sorted(self.found.loops[op.operands[0]])
            if own == loops:
                return operands[0]
            return b.broadcast(operands[0], type=type, dimensions=[loops.index(l) for l in own])
        if op.name == "ng.constant":
            return with_type(op, type, b)
        if op.name == "ng.iota":
            return self.positions(op, type, loops, b)
        if "reduction" in op.traits:
            before = sorted(self.found.loops[op.operands[0]])
            axes = [i for i, l in enumerate(before) if l not in loops]
            changed = {**op.attributes, "axes": to_attribute("i64s", axes)}
            return b.add_op(op.rebuilt(operands, attributes=changed, types=[type])).result
        return b.add_op(op.rebuilt(operands, types=[type])).result

    def positions(self, op: Op, type: TensorType, loops: list[int], b: Builder) -> Value:
        """An iota along a dimension that may be several loops or none."""
        counted = self.found.counted.get(op, ())
        if len(counted) == 1:
            return b.iota(type=type, dimension=loops.index(counted[0]))
        whole = with_element(type, i64)
        total, stride = None, 1
        for loop in reversed(counted):
            along = b.iota(type=whole, dimension=loops.index(loop))
            along = along if total is None else b.multiply(along, b.number(stride, whole))
            total = along if total is None else b.add(total, along)
            stride *= self.found.sizes[loop]
        total = b.number(0, whole) if total is None else total
        return total if type is whole else b.cast(total, type=type)
