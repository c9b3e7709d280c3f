# SPDX-License-Identifier: Apache-2.0
"""The remarks of fusion: which ops became one kernel, and why others are not part of the kernels that they read
from. Reasons are recorded while groups are made, if the remarks are enabled, and emitted when the groups are final."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

from ...ir.core import Op, Value
from ...ir.types import shape_of
from ...ops.parts import first_of_part
from ...rewrite.remarks import is_enabled, remark, written_name
from ...support.diagnostics import Diagnostic
from ..analysis.group import FREE, MAX_OPS, Group, living
from ..analysis.space import IterationSpace

#: The topic of its remarks.
TOPIC = "fuse"

#: Why an op or a group does not join another, as remarks print it.
LOOPS = "it runs over other loops"
ALONE = "it is a kernel of its own"
BACK = "a kernel that is fused with neither would have to run between them"
WHOLE = "a matrix product, a gather, or an op that moves elements, needs the whole of it in memory first"
SIDES = "a matrix product reads its operands from memory"
TOO_MANY = f"a kernel has at most {MAX_OPS} ops"

#: The kinds of kernels, as remarks call them.
_KINDS = {
    "map": "elementwise",
    "rows": "row reduction",
    "columns": "column reduction",
    "dot": "matrix product",
}
#: Most ops of a kernel that a remark names.
_NAMED = 8


class _Refusal(NamedTuple):
    """An op that did not join a group that it reads from; `source` is the op that names the group in the remark."""

    reader: Op
    group: Group
    source: Op
    why: str


class Refusals:
    """Records which fusions were refused, and why. `group_by_op` and `order` are the mappings of the groups, which change meanwhile."""

    def __init__(self, space: IterationSpace, group_by_op: Mapping[Op, Group], order: Mapping[Op, int]):
        self.space, self.group_by_op, self.order = space, group_by_op, order
        self.why = ""  # the last reason
        self.enabled = is_enabled(TOPIC)
        self.found: list[_Refusal] = []

    def refuse(self, why: str) -> bool:
        """Records a reason and returns False."""
        self.why = why
        return False

    def join(self, op: Op, group: Group) -> None:
        """Records that an op which reads from a group did not join it, for the last reason."""
        if not self.enabled:
            return
        telling, why = self.naming_op(group), self.why
        if why is ALONE:
            why = own_kernel(telling)
        elif why is LOOPS:
            own = shape_of((op.operands if "reduction" in op.traits else op.results)[0].type)
            domain = [self.space.sizes[a] for a in self.space.resolve(group.domain or ())]
            # Loops over the same elements may have been merged: their lengths explain nothing then.
            mine, theirs = _sizes(own), _sizes(domain)
            told = mine.count("x") == theirs.count("x") or prod(own) != prod(domain)
            why += f" ({mine} against {theirs})" if told and mine != theirs else " (in another order)"
        self.found.append(_Refusal(op, group, telling, why))

    def sources(self, op: Op, sources: Iterable[Value], why: str) -> None:
        """Records that the ops that compute these values are not in the kernel of an op that reads them."""
        for value in sources:
            owner = value.owner
            if isinstance(owner, Op) and (group := self.group_by_op.get(owner)) is not None:
                self.found.append(_Refusal(op, group, owner, why))

    def naming_op(self, group: Group) -> Op:
        """The op that names a group in remarks: its product, its first reduction or its first op."""
        ops = self.members(group)
        telling = [op for op in ops if op.name == "ng.dot"] or [op for op in ops if "reduction" in op.traits]
        return (telling or ops)[0]

    def members(self, group: Group) -> list[Op]:
        """The ops of a group in order, without those that it only repeats."""
        return sorted(
            (op for op in group.ops if self.group_by_op.get(op) is group), key=self.order.__getitem__
        )

    def emit(self, groups: Iterable[Group]) -> None:
        """Emits a remark on each group of several ops, and on each op that reads from a group and is not in it in the end."""
        if not self.enabled:
            return
        for group in groups:
            self.emit_fused(group)
        told: set[tuple[object, object]] = set()
        for reader, refused, source, why in self.found:
            group = living(refused)
            alone = group.ops if group.kind == "alone" else ()
            if any(_is_no_kernel(o) for o in (reader, *alone)) or self.group_by_op[reader] is group:
                continue
            # One reason is enough for each pair of ops of the source program, whatever ops they became.
            pairs = {(reader, group), (_written(reader), _written(source))}
            if not pairs & told:
                told |= pairs
                message, notes = _not_fused(reader, source, why)
                remark(TOPIC, message, reader.location, notes)

    def emit_fused(self, group: Group) -> None:
        """Emits a remark on the ops that are one kernel, if they are several."""
        if group.kind == "alone":
            return
        at = self.naming_op(group).location
        parts: dict[str, None] = {}
        for op in self.members(group):
            if not _is_no_kernel(op):
                place = "" if op.location == at else f" ({_place(op, at.file)})"
                parts.setdefault(f"{written_name(op)}{place}")
        if len(parts) > 1:
            shown = list(parts)[:_NAMED]
            more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
            remark(TOPIC, f"fused into one kernel ({_KINDS[group.kind]}): {', '.join(shown)}{more}", at)


def _not_fused(reader: Op, source: Op, why: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The message on an op that is not in the kernel of an op that it reads, and a note with the location of that op."""
    one, other = written_name(reader), written_name(source)
    if reader.location == source.location and reader.location.known:
        parts = f"{reader.name} with {source.name}"
        return f"{one} is several kernels: {parts} is not fused: {why}", ()
    notes = (
        (Diagnostic(f"{other} is computed here", source.location, "note"),) if source.location.known else ()
    )
    return f"{one} is not fused with {other}, which it reads: {why}", notes


def _written(op: Op) -> object:
    """A key that identifies the op of the source program that an op was made from."""
    return (written_name(op), op.location) if op.location.known else op


def _place(op: Op, file: str) -> str:
    """The location of an op: only its line, if it is in `file`."""
    return f"line {op.location.line}" if op.location.file == file else str(op.location)


def _is_no_kernel(op: Op) -> bool:
    """Whether an op needs no kernel: it is a view, or repeated in its readers."""
    return op.name in FREE or (op.name == "ng.slice" and first_of_part(op) is not None)


def own_kernel(op: Op) -> str:
    """The reason why nothing is fused with an op that is a kernel, or has a body, of its own."""
    bodies = op.regions and op.name != "ng.fusion"
    return f"{written_name(op)} {'has kernels' if bodies else 'is a kernel'} of its own"


def _sizes(sizes: Iterable[int]) -> str:
    return "x".join(str(size) for size in sizes if size != 1) or "1"
