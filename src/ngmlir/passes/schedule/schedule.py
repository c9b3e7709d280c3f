# SPDX-License-Identifier: Apache-2.0
"""The pass `schedule`: how the kernel of each fusion is tiled."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ...ir.core import Block, Module, Op, Value, op_name
from ...ir.structure import structure
from ...ops.builder import Builder
from ...ops.schedules import SCHEDULE, Strips
from ...ops.settings import Schedule
from ...ops.stated_schedules import given_by
from ...rewrite.contracts import contract
from ...rewrite.remarks import is_enabled, remark
from ...rewrite.sweep import sweep
from ...support.diagnostics import Diagnostic, UserError
from ...support.target import Target
from ..fuse.nest import nest
from ..graph.invariants import kept_operands
from .candidate import Candidate
from .choosing import candidates, chosen, chosen_links


@contract(needs=("plain", "fused"), gives="fused", anchor="function")
def schedule(module: Module, target: Target) -> Module:
    """Writes on each fusion how its kernel is tiled: an `ng.schedule` that is there is kept, the other settings are
    chosen.

    The families of kernels and their knobs are declared in `ops/schedules.py`. The choice depends on sizes and on
    the target's machine only, so it is the same each time; `ngmlir tune` measures instead. A side of a product
    that is constant, or the same in every iteration of a loop, is packed once, whatever the number of rows.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.fusion map(%x) {ng.schedule = {tile = 32}} -> tensor<4xf32> {
            %1 = ng.negative %x : tensor<4xf32>
            ng.yield %1 : tensor<4xf32>
          }
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.fusion map(%x) {ng.nest = #ng.nest<d0 = 4
              read [d0]
              write [d0]>, ng.schedule = {by = "tiles", part = 1024 : i64, tile = 32 : i64}} -> tensor<4xf32> {
            %0 = ng.negative %x : tensor<4xf32, #ng.axes<d0>>
            ng.yield %0 : tensor<4xf32, #ng.axes<d0>>
          }
          func.return %0 : tensor<4xf32>
        }
    """
    module = nest(module, target)
    if astray := [_astray(op) for op in _alone(module.ops) if SCHEDULE in op.attributes]:
        raise UserError(astray)
    known: dict[Hashable, Schedule] = {}
    lasting = iter(
        [kept for function in module.ops if function.name == "func.func" for kept in kept_operands(function)]
    )

    def write(op: Op, builder: Builder) -> Sequence[Value] | None:
        kept = next(lasting)
        key = structure(op), kept
        if key not in known:
            known[key] = chosen(op, target, kept)
            if is_enabled("schedule"):
                _explain(op, target, kept)
        found = known[key]
        attribute = found.attribute()
        whole = _with_links(op, target, found, kept) if isinstance(found, Strips) else op
        if whole is op and op.attributes.get(SCHEDULE) is attribute:
            return None
        return builder.add_op(whole.rebuilt(attributes={**op.attributes, SCHEDULE: attribute})).results

    return sweep(module, write, frozenset({"ng.fusion"}), closed=frozenset({"ng.fusion"}))


def _with_links(chain: Op, target: Target, strips: Strips, kept: frozenset[int]) -> Op:
    """A chain, with a schedule on each of its fusions."""
    cuts = {op: cut.attribute() for op, cut in chosen_links(chain, target, strips, kept)}

    def write(block: Block) -> Block:
        if all(op.attributes.get(SCHEDULE) is cut for op, cut in cuts.items()):
            return block
        out, mapping = block.emptied(), dict[Value, Value]()
        for op in block.ops:
            own = {**op.attributes, SCHEDULE: cuts[op]} if op in cuts else None
            new = op.rebuilt([mapping.get(v, v) for v in op.operands], attributes=own)
            mapping.update(zip(op.results, new.results, strict=True))
            out.ops.append(new)
        return out

    return chain.with_blocks(write)


def _alone(ops: Sequence[Op]) -> Iterator[Op]:
    """All ops that are not in a fusion."""
    for op in ops:
        if op.name == "ng.fusion":
            continue
        yield op
        for region in op.regions:
            for block in region.blocks:
                yield from _alone(block.ops)


def _astray(op: Op) -> Diagnostic:
    return Diagnostic(
        f"'{op_name(op)}' has a schedule, but it is in no fusion, so no kernel takes it",
        op.location,
        hint=f"remove {SCHEDULE}, or run fuse first",
    )


def _explain(fusion: Op, target: Target, kept: frozenset[int]) -> None:
    """Reports the chosen schedule, and the next best."""
    best, *others = candidates(fusion, target, kept)
    stated = sorted(given_by(fusion))
    told = f"{best.schedule.attribute()}: {_share(best)}"
    if stated:
        told += f"; {', '.join(stated)} as stated"
    if best.warning:
        told += f"; it {best.warning}"
    if others:
        told += f"; next best {_difference(others[0].schedule, best.schedule)}: {_share(others[0])}"
    remark("schedule", f"ng.fusion has the schedule {told}", fusion.location)


def _share(candidate: Candidate[Schedule]) -> str:
    return f"{candidate.roof / max(candidate.cycles, candidate.roof):.0%} of the roof"


def _difference(schedule: Schedule, best: Schedule) -> str:
    """The knobs whose settings differ from those of `best`."""
    before = dict(best.attribute().items)
    return ", ".join(f"{name} = {s}" for name, s in schedule.attribute().items if before.get(name) is not s)
