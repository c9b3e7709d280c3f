# SPDX-License-Identifier: Apache-2.0
"""Inserts barriers between conflicting accesses of the threads of a block to buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir.core import Block, Module, Op, Value, callee
from ...ir.literals import bytes_of
from ...ir.types import MemRefType
from ...ops import tile
from ...ops.accesses import whole_of
from ...rewrite.contracts import contract
from ...support.target import Target


@contract(needs=("planned",), only="gpu")
def barriers(module: Module, target: Target) -> Module:
    """Inserts `tile.barrier` where a thread may access elements of a buffer that another one has written, or has yet to read.

    This concerns arguments of a kernel which it both reads and writes, and arguments that share bytes in a launch.
    Kernels have barriers already for shared memory, and where they write the same element twice.
    GPUs only: on a CPU one thread runs a program.

    Before:
        func.func @main(%x: memref<64xf32>, %arena: memref<0xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64, ng.tied = array<i64: 0, 0>} {
          tile.launch @k ins(%x) outs(%x)
          func.return
        }
        tile.kernel @k ins(%x: memref<64xf32>) outs(%y: memref<64xf32>) in_place(%x -> %y) threads(32) {
          %c0 = ng.constant 0 : index
          %v = tile.load %x[%c0] : memref<64xf32>, vector<64xf32>
          tile.store %v, %y[%c0] : vector<64xf32>, memref<64xf32>
          tile.return
        }
    After:
        ...
        tile.kernel @k ins(%x: memref<64xf32>) outs(%y: memref<64xf32>) in_place(%x -> %y) threads(32) {
          %c0 = ng.constant 0 : index
          %v = tile.load %x[%c0] : memref<64xf32>, vector<64xf32>
          tile.barrier
          tile.store %v, %y[%c0] : vector<64xf32>, memref<64xf32>
          tile.return
        }
    """
    launches: dict[str, list[Sequence[Value]]] = {}
    for op in module.ops:
        for each in op.walk():
            if isinstance(each, tile.LaunchOp):
                launches.setdefault(callee(each), []).append(each.operands)
    return module.with_ops(
        [
            _ordered(op, launches.get(op.symbol, ())) if isinstance(op, tile.KernelOp) else op
            for op in module.ops
        ]
    )


def _ordered(kernel: tile.KernelOp, launches: Sequence[Sequence[Value]]) -> Op:
    order = _Order(_groups(kernel, launches))
    order.run(kernel.block, frozenset())
    mapping: dict[Value, Value] = {}

    def rebuilt(block: Block) -> Block:
        out = block.emptied()
        for old in block.ops:
            if old in order.late:
                out.ops.append(tile.BarrierOp(location=old.location))
            op = old
            if any(v in mapping for v in old.operands):
                op = old.rebuilt([mapping.get(v, v) for v in old.operands])
            op = op.with_blocks(rebuilt)
            mapping.update(zip(old.results, op.results, strict=True) if op is not old else ())
            out.ops.append(op)
        return out if out.ops != block.ops else block

    return kernel.with_blocks(rebuilt)


# ---- which buffers share bytes


def _groups(kernel: tile.KernelOp, launches: Sequence[Sequence[Value]]) -> dict[Value, Value]:
    """Maps each buffer of a kernel to one representative of all that share bytes with it in a launch, where one of them is
    written. Only buffers that the kernel both reads and writes are included."""
    buffers = [value for value in kernel.block.args if isinstance(value.type, MemRefType)]
    stands = {value: value for value in buffers}
    for operands in launches:
        places = [_Range.of(value) for value in operands]
        for w in range(len(buffers) - kernel.outputs, len(buffers)):
            for i, place in enumerate(places):
                if i != w and place.overlaps(places[w]):
                    one, other = stands[buffers[i]], stands[buffers[w]]
                    stands = {value: one if each is other else each for value, each in stands.items()}
    found = {(stands.get(buffer), written) for op in kernel.walk() for buffer, written in accesses(op)}
    return {v: each for v, each in stands.items() if (each, False) in found and (each, True) in found}


@dataclass(frozen=True)
class _Range:
    """The memory of a buffer: bytes `start` to `stop` of a parameter of the function. Parameters do not overlap."""

    base: Value
    start: int
    stop: int

    @staticmethod
    def of(value: Value) -> _Range:
        """The place of a buffer; that of a subview is its whole buffer."""
        buffer, offset = whole_of(value), 0
        if isinstance(buffer.owner, tile.ViewOp):
            # The offset of a view is relative to its operand, which may be a view itself.
            place = _Range.of(buffer.owner.arena)
            base, offset = place.base, place.start + buffer.owner.offset
        else:
            base = buffer
        return _Range(base, offset, offset + bytes_of(buffer.type))

    def overlaps(self, other: _Range) -> bool:
        return self.base is other.base and self.start < other.stop and other.start < self.stop


def accesses(op: Op) -> Iterator[tuple[Value, bool]]:
    """The buffers that an op accesses, each with whether it is written."""
    match op:
        case tile.LoadOp() | tile.GatherOp():
            yield whole_of(op.operands[0]), False
        case tile.StoreOp():
            yield whole_of(op.operands[1]), True
        case tile.ScatterOp():
            yield whole_of(op.operands[2]), True
        case tile.CopyOp() | tile.CopyAsyncOp():
            yield whole_of(op.operands[0]), False
            yield whole_of(op.operands[1]), True
        case _:
            pass


# ---- where barriers are needed


class _Order:
    """Visits the ops of a kernel with the accesses since the last barrier: pairs of a buffer and whether it was written.
    `late` are the ops that need a barrier before them."""

    def __init__(self, groups: Mapping[Value, Value]):
        self.groups = groups
        self.late: set[Op] = set()

    def run(self, block: Block, touched: frozenset[tuple[Value, bool]]) -> frozenset[tuple[Value, bool]]:
        """The accesses since the last barrier at the end of a block, given those at its beginning."""
        for op in block.ops:
            own = frozenset((self.groups[v], w) for v, w in accesses(op) if v in self.groups)
            self.late.discard(op)
            if isinstance(op, tile.BarrierOp | tile.WaitOp):
                touched = frozenset()
            elif any(v is o and (w or written) for v, w in touched for o, written in own):
                self.late.add(op)
                touched = frozenset()
            touched |= own
            if op.regions:
                touched = self.loop(op, touched)
        return touched

    def loop(self, op: Op, touched: frozenset[tuple[Value, bool]]) -> frozenset[tuple[Value, bool]]:
        """The same for an op with regions, each of which may run after any of them, itself included."""
        while True:
            before = touched
            for region in op.regions:
                touched |= self.run(region.block, touched)
            if touched == before:
                return touched
