# SPDX-License-Identifier: Apache-2.0
"""Pipelines loops: the tiles of later iterations are loaded while those of the current one are computed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

from ...ir.core import Module, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, as_memref, shape_of, token
from ...ops import tile
from ...ops.accesses import whole_of
from ...ops.builder import Builder
from ...ops.positions import known
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.machines import CHUNK_BYTES
from ...support.target import Target
from ..graph.dead_code import without
from ..graph.inline import copied
from .barriers import accesses

_STAGES = "stages"


@contract(needs=("kernels",), only="gpu")
def overlap(module: Module, target: Target) -> Module:
    """Pipelines loops with `stages = n`: tiles are loaded n - 1 iterations before they are used.

    Tiles that are loaded into registers are carried from iteration to iteration; those that are copied into a shared
    buffer go into a ring of n buffers, by asynchronous copies. This applies where the indices depend on the position of
    the loop only, and the loop does not write the buffer; other accesses stay where they are. The first tiles are loaded
    before the loop, and the last iterations follow it. GPUs only: on a CPU one thread runs a program.

    Before:
        func.func @main(%x: tensor<64xf32>) -> tensor<16xf32> {
          %0 = tile.call @k ins(%x) -> tensor<16xf32>
          func.return %0 : tensor<16xf32>
        }
        tile.kernel @k ins(%x: memref<64xf32>) outs(%y: memref<16xf32>) threads(32) {
          %c0 = ng.constant 0 : index
          %0 = ng.constant dense<0.0> : vector<16xf32>
          %1 = tile.for %i = 0 to 64 step 16 iter(%2 = %0) {stages = 2 : i64} -> vector<16xf32> {
            %3 = tile.load %x[%i] : memref<64xf32>, vector<16xf32>
            %4 = ng.add %2, %3 : vector<16xf32>
            ng.yield %4 : vector<16xf32>
          }
          tile.store %1, %y[%c0] : vector<16xf32>, memref<16xf32>
          tile.return
        }
    After:
        func.func @main(%x: tensor<64xf32>) -> tensor<16xf32> {
          %0 = tile.call @k ins(%x) -> tensor<16xf32>
          func.return %0 : tensor<16xf32>
        }
        tile.kernel @k ins(%x: memref<64xf32>) outs(%y: memref<16xf32>) threads(32) {
          %c0 = ng.constant 0 : index
          %0 = ng.constant dense<0.0> : vector<16xf32>
          %first = ng.constant 0 : index
          %1 = tile.load %x[%first] : memref<64xf32>, vector<16xf32>
          %2, %3 = tile.for %i = 0 to 48 step 16 iter(%4 = %0, %5 = %1) -> (vector<16xf32>, vector<16xf32>) {
            %c16 = ng.constant 16 : index
            %6 = ng.add %i, %c16 : index
            %7 = tile.load %x[%6] : memref<64xf32>, vector<16xf32>
            %8 = ng.add %4, %5 : vector<16xf32>
            ng.yield %8, %7 : vector<16xf32>, vector<16xf32>
          }
          %c48 = ng.constant 48 : index
          %4 = ng.add %2, %3 : vector<16xf32>
          tile.store %4, %y[%c0] : vector<16xf32>, memref<16xf32>
          tile.return
        }
    """
    return module.with_ops([_overlapped(op) if isinstance(op, tile.KernelOp) else op for op in module.ops])


def _overlapped(kernel: tile.KernelOp) -> Op:
    """Pipelines innermost loops first, so that an outer loop duplicates bodies that are pipelined already."""
    op: Op = kernel
    while (loop := next((each for each in op.walk() if _innermost(each)), None)) is not None:
        made = _Loop(loop, op)

        def write(op: Op, b: Builder, made: _Loop = made) -> Sequence[Value] | None:
            return made.build(b) if op is made.loop else None

        op = sweep_op(op, write, frozenset({"tile.for"}))
        op = without(op, {buffer.owner for buffer in made.rings if isinstance(buffer.owner, Op)}, {})
    return op


def _innermost(op: Op) -> bool:
    inside = chain.from_iterable(each.walk() for region in op.regions for each in region.block.ops)
    return _is_pipelined(op) and not any(_is_pipelined(each) for each in inside)


def _is_pipelined(op: Op) -> bool:
    return op.name == "tile.for" and _STAGES in op.attributes


class _Loop:
    """A loop, its loads and copies that can be started earlier, and the pipelined loop."""

    def __init__(self, loop: Op, kernel: Op):
        assert isinstance(loop, tile.ForOp)
        self.loop = loop
        self.body = loop.body.block
        self.position = self.body.args[0]
        lower, upper, step = (
            b if isinstance(b, int) else known(b) for b in (loop.lower, loop.upper, loop.step)
        )
        rounds = range(lower or 0, upper or 0, max(step or 1, 1))
        certain = lower is not None and upper is not None and step is not None
        self.rounds = rounds if certain else range(0)
        #: How many iterations earlier.
        self.ahead = min(loop.stages or 1, len(self.rounds)) - 1
        inside = {v for op in self.body.ops for v in op.results} | set(self.body.args[1:])
        self.steady = self._steady(inside)
        self.fixed = {*kernel.block.args} - self._written(kernel)
        self.loads = [op for op in self.body.ops if isinstance(op, tile.LoadOp) and self._early(op)]
        self.copies = list(self._staged(kernel))
        #: For each shared buffer that is copied to, its ring of `ahead + 1` buffers.
        self.rings: dict[Value, Value] = {}

    def _steady(self, inside: set[Value]) -> set[Op]:
        """Pure ops whose operands do not depend on values of the loop other than its position."""
        steady: set[Op] = set()
        for op in self.body.ops:
            if "pure" in op.traits and not op.regions and not any(v in inside for v in op.operands):
                steady.add(op)
                inside -= set(op.results)
        self.unsteady = inside
        return steady

    def _written(self, kernel: Op) -> set[Value]:
        """Buffers of the kernel that the loop writes, or that may share bytes with those."""
        found = {value for op in self.loop.walk() for value, writes in accesses(op) if writes}
        assert isinstance(kernel, tile.KernelOp)
        pairs = zip(kernel.in_place[::2], kernel.in_place[1::2], strict=True)
        return found | {kernel.block.args[i] for i, o in pairs if kernel.block.args[o] in found}

    def _early(self, op: Op) -> bool:
        """Whether the loop does not write the source of a load or copy, and its indices depend on the position only."""
        reads = op.operands[:1] if isinstance(op, tile.CopyOp) else op.operands
        return whole_of(op.operands[0]) in self.fixed and not any(v in self.unsteady for v in reads)

    def _staged(self, kernel: Op) -> Iterator[tile.CopyOp]:
        """Copies of the body into shared buffers which nothing else writes, and which only later ops of the body read."""
        for at, op in enumerate(self.body.ops):
            if not isinstance(op, tile.CopyOp) or not self._early(op):
                continue
            buffer = op.target
            if not isinstance(buffer.owner, tile.AllocOp) or buffer.owner in self.loop.walk():
                continue
            users = [each for each in kernel.walk() if buffer in each.operands]
            later = {inner for each in self.body.ops[at + 1 :] for inner in each.walk()}
            if all(each is op or each in later for each in users) and not any(
                writes and value is buffer for each in later for value, writes in accesses(each)
            ):
                yield op

    def _begins(self) -> bool:
        """Whether an iteration can begin with its wait: no op before its first copy reads or writes memory that threads share."""
        before = takewhile(lambda op: op not in self.copies, self.body.ops)
        return bool(self.copies) and all("pure" in op.traits or op in self.loads for op in before)

    # -- the new loop ----------------------------------------------------------------------------------------

    def build(self, b: Builder) -> Sequence[Value]:
        loop, ahead = self.loop, self.ahead
        plain = {name: value for name, value in loop.attributes.items() if name != _STAGES}
        if ahead < 1 or not (self.loads or self.copies):
            self.copies = []
            return b.add_op(loop.rebuilt(attributes=plain)).results
        for op in self.copies:
            type = as_memref(op.target.type)
            strides = type.strides and (_whole_pieces(type), *type.strides)
            ring = MemRefType((ahead + 1, *type.shape), type.element, strides, 0, type.space)
            self.rings[op.target] = b.alloc(type=ring)
        tiles: list[Value] = []
        tokens: list[Value] = []
        for round in range(ahead):
            made = self.moved(b, b.index(self.rounds[round]))
            tiles += [made[op.result] for op in self.loads]
            tokens += [self.started(b, op, made, b.index(round)) for op in self.copies]
        results = len(loop.inits)
        begins = self._begins()
        own = [b.index(0)] if self.copies else []

        def body(position: Value, values: Sequence[Value]) -> list[Value]:
            for new, old in zip(values, self.body.args[1:], strict=False):
                new.name = old.name
            step = self.rounds.step
            stage = values[results] if self.copies else position
            made = self.moved(b, b.add(position, b.index(ahead * step)))
            count = len(self.loads)
            tiles, tokens = _split(values[results + len(own) :], ahead * count)
            filled = [b.remainder(b.add(stage, b.index(ahead)), b.index(ahead + 1))] if self.copies else []
            begun: list[Value] = []
            carried = self.round(
                b, position, values[:results], tiles, tokens, stage, (made, filled, begun), begins
            )
            turned = [b.remainder(b.add(stage, b.index(1)), b.index(ahead + 1))] if self.copies else []
            loaded = [made[op.result] for op in self.loads]
            return [*carried, *turned, *tiles[count:], *loaded, *tokens[len(self.copies) :], *begun]

        carried: Sequence[Value] = [*loop.inits, *own, *tiles, *tokens]
        last = len(self.rounds) - ahead
        b.location = loop.location
        stop = self.rounds.start + last * self.rounds.step
        name = self.position.name or "i"
        carried = b.loop(self.rounds.start, stop, self.rounds.step, carried, body, name=name)
        values: Sequence[Value] = carried[:results]
        later, begun = _split(carried[results + len(own) :], ahead * len(self.loads))
        for round in range(ahead):
            position = b.index(self.rounds[last + round])
            stage = b.index((last + round) % (ahead + 1)) if self.copies else position
            mine, theirs = later[round * len(self.loads) :], begun[round * len(self.copies) :]
            values = self.round(b, position, values, mine, theirs, stage, None, begins and round < ahead - 1)
        return values

    def moved(self, b: Builder, position: Value) -> dict[Value, Value]:
        """Emits the loads of the iteration at a position, and the ops that their indices and the sources of copies depend on.
        Returns the new values by the old ones."""
        needed: set[Op] = set(self.loads)
        wanted = {v for op in self.loads for v in op.operands} | {op.source for op in self.copies}
        for op in reversed(self.body.ops):
            if op in self.steady and any(v in wanted for v in op.results):
                needed.add(op)
                wanted.update(op.operands)
        made = {self.position: position}
        for op in self.body.ops:
            if op in needed:
                b.add_op(copied(op, made))
        return made

    def started(self, b: Builder, op: tile.CopyOp, made: dict[Value, Value], stage: Value) -> Value:
        """Starts the asynchronous copy into a stage of the ring of its target; returns its token."""
        b.location = op.location
        return b.copy_async(made.get(op.source, op.source), self.window(b, op.target, stage), type=token)

    def window(self, b: Builder, buffer: Value, stage: Value) -> Value:
        """The subview of one stage of the ring of a shared buffer."""
        shape = shape_of(buffer.type)
        return b.window(self.rings[buffer], [stage, *[b.index(0)] * len(shape)], shape)

    def round(
        self, b: Builder, position: Value, carried: Sequence[Value], tiles: Sequence[Value],
        tokens: Sequence[Value], stage: Value,
        next: tuple[dict[Value, Value], list[Value], list[Value]] | None, followed: bool,
    ) -> list[Value]:  # fmt: skip
        """Emits one iteration on loaded tiles. `next`: the new values by the old ones of a later iteration, the stage that its
        copies fill, and the list for their tokens. `followed`: another iteration comes next, which begins with a wait."""
        made: dict[Value, Value] = {self.position: position}
        made.update(zip(self.body.args[1:], carried, strict=True))
        made.update(zip([op.result for op in self.loads], tiles, strict=False))
        waited = False
        last = self.body.ops[-2] if len(self.body.ops) > 1 else None
        for op in self.body.ops[:-1]:
            if op in self.loads:
                continue
            if isinstance(op, tile.CopyOp) and op in self.copies:
                # The wait is a barrier: the stage that the previous iteration read can be filled.
                if op is self.copies[0]:
                    b.wait(tokens[: len(self.copies)])
                    waited = True
                    made.update((each.target, self.window(b, each.target, stage)) for each in self.copies)
                if next is not None:
                    next[2].append(self.started(b, op, next[0], next[1][0]))
                continue
            if op is last and followed and isinstance(op, tile.BarrierOp):
                continue
            if waited and isinstance(op, tile.BarrierOp):
                continue  # the wait was a barrier
            waited = waited and "pure" in op.traits
            b.add_op(copied(op, made))
        return [made.get(v, v) for v in self.body.ops[-1].operands]


def _split(values: Sequence[Value], at: int) -> tuple[Sequence[Value], Sequence[Value]]:
    return values[:at], values[at:]


def _whole_pieces(type: MemRefType) -> int:
    """The stride between stages of a buffer with strided rows: its extent, rounded up to the unit of copies (CHUNK_BYTES)."""
    piece = max(1, CHUNK_BYTES // item_bytes(type.element))
    return -(-type.extent // piece) * piece
