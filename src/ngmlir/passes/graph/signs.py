# SPDX-License-Identifier: Apache-2.0
"""Signs: marks exponentials whose operand is never above zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.attributes import UnitAttr
from ...ir.core import Module, Op, Value
from ...ir.types import shape_of
from ...ops.builder import Builder
from ...ops.library import NONPOSITIVE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.space import Atoms, IterationSpace, label
from ..analysis.views import moved_from

#: Ops whose results are never below zero (but may be NaN), for any operand.
MAGNITUDES = frozenset({"ng.absolute", "ng.square", "ng.exp"})
#: Ops that only move or repeat the elements of their operand.
PLACING = frozenset({"ng.reshape", "ng.broadcast"})


@contract(needs=("named", "plain"), anchor="function")
def signs(module: Module, target: Target) -> Module:
    """Marks exponentials with `ng.nonpositive` if their operand is known to be at most zero, which is cheaper to
    compute: in a softmax, which subtracts the maximum, and for the negative of a magnitude. The mark is a promise:
    for an operand above zero the result is undefined.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.absolute %x : tensor<4xf32>
          %1 = ng.negative %0 : tensor<4xf32>
          %2 = ng.exp %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.absolute %x : tensor<4xf32>
          %1 = ng.negative %0 : tensor<4xf32>
          %2 = ng.exp %1 {ng.nonpositive} : tensor<4xf32>
          func.return %2 : tensor<4xf32>
        }
    """
    return sweep(module, _mark, frozenset({"ng.exp"}))


def _mark(op: Op, builder: Builder) -> Sequence[Value] | None:
    if NONPOSITIVE in op.attributes or not _nonpositive(op.operands[0]):
        return None
    return builder.add_op(op.rebuilt(attributes={**op.attributes, NONPOSITIVE: UnitAttr()})).results


def _nonpositive(value: Value) -> bool:
    op = _placed(value)
    if op is None:
        return False
    if op.name == "ng.subtract":
        return _less_its_maximum(op)
    magnitude = _placed(op.operands[0]) if op.name == "ng.negative" else None
    return magnitude is not None and magnitude.name in MAGNITUDES


def _placed(value: Value) -> Op | None:
    """The op that computes the elements of a value; None for arguments."""
    owner = moved_from(value).owner
    return owner if isinstance(owner, Op) else None


def _less_its_maximum(op: Op) -> bool:
    """Whether the subtraction takes from each element a maximum over elements that include it."""
    less = [*_chain(op.operands[1])]
    greatest = less[-1].operands[0].owner if less else None
    if not isinstance(greatest, Op) or greatest.name != "ng.max":
        return False
    above, below = [*_chain(greatest.operands[0])], [*_chain(op.operands[0])]
    root = above[-1].operands[0] if above else greatest.operands[0]
    if root is not (below[-1].operands[0] if below else op.operands[0]):
        return False
    # Each element must be at the same indices as its maximum: otherwise labelling would unify two different loops of the root.
    space = IterationSpace()
    known: dict[Value, Atoms] = {root: space.atoms(shape_of(root.type))}
    ops = dict.fromkeys([*reversed(above), greatest, *reversed(less), *reversed(below), op])
    atoms = space.resolve(known[root]) if label(space, [*ops], known) else (0, 0)
    return len(set(atoms)) == len(atoms)


def _chain(value: Value) -> Iterator[Op]:
    """The reshapes and broadcasts that make a value, the last one first."""
    while isinstance(value.owner, Op) and value.owner.name in PLACING:
        yield value.owner
        value = value.owner.operands[0]
