# SPDX-License-Identifier: Apache-2.0
"""Why ops are not part of the kernels that they read from: remembered while groups are made, where somebody asks, and
told when they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.core import Op, Value
from ...ir.types import shape_of
from ...ops.parts import first_of_part
from ...rewrite.remarks import remark, wanted
from ..space import Space
from .group import FREE, MAX_OPS, Group, living

#: Why an op or a group does not join another, as remarks tell it.
LOOPS = "its loops are others"
ALONE = "it is a kernel of its own"
BACK = "a value would leave the kernel and come back"
WHOLE = "what is multiplied or moved must be whole in memory before"
TOO_MANY = f"a kernel has {MAX_OPS} ops at most"


class Refusals:
    """What was refused, and why. `home` and `order` are those of the groups, which go on changing."""

    def __init__(self, space: Space, home: Mapping[Op, Group], order: Mapping[Op, int]):
        self.space, self.home, self.order = space, home, order
        self.why = ""  # the last reason
        self.asked = wanted("fuse")
        self.found: list[tuple[Op, Group, str]] = []

    def no(self, why: str) -> bool:
        """False, for a reason."""
        self.why = why
        return False

    def join(self, op: Op, group: Group) -> None:
        """An op that reads from a group did not join it, for the last reason."""
        if not self.asked:
            return
        telling, why = self.telling(group), self.why
        if why is ALONE:
            why = apart(telling)
        elif why is LOOPS:
            own = _sizes(shape_of((op.operands if "reduction" in op.traits else op.results)[0].type))
            domain = _sizes([self.space.sizes[a] for a in self.space.resolve(group.domain or ())])
            why += f" ({own} against {domain})" if own != domain else " (in another order)"
        self.found.append((op, group, f"{op.name} not fused into {telling.name}: {why}"))

    def sources(self, op: Op, sources: Iterable[Value], why: str) -> None:
        """What computes these values is not in the kernel of an op that reads them."""
        for value in sources:
            owner = value.owner
            if isinstance(owner, Op) and (group := self.home.get(owner)) is not None:
                self.found.append((op, group, f"{owner.name} not fused into {op.name}: {why}"))

    def telling(self, group: Group) -> Op:
        """What a group is for those who read of it: its product, its first reduction or its first op."""
        ops = sorted((op for op in group.ops if self.home.get(op) is group), key=self.order.__getitem__)
        telling = [op for op in ops if op.name == "ng.dot"] or [op for op in ops if "reduction" in op.traits]
        return (telling or ops)[0]

    def tell(self) -> None:
        """Remarks on what reads from a group and is not in it after all, the first reason for each."""
        told: set[tuple[Op, Group]] = set()
        for op, refused, message in self.found:
            group = living(refused)
            alone = group.ops if group.kind == "alone" else ()
            if (
                not any(_is_no_kernel(o) for o in (op, *alone))
                and self.home[op] is not group
                and (op, group) not in told
            ):
                told.add((op, group))
                remark("fuse", message, op.location)


def _is_no_kernel(op: Op) -> bool:
    """Whether an op is a view, or costs nothing."""
    return op.name in FREE or (op.name == "ng.slice" and first_of_part(op) is not None)


def apart(op: Op) -> str:
    """Why nothing joins an op."""
    bodies = op.regions and op.name != "ng.fusion"
    return f"{op.name} {'has kernels' if bodies else 'is a kernel'} of its own"


def _sizes(sizes: Iterable[int]) -> str:
    return "x".join(str(size) for size in sizes if size != 1) or "1"
