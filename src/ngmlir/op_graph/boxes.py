# SPDX-License-Identifier: Apache-2.0
"""Drawings of graphs, as their authors wrote them: ops, storage, writes and their order, bodies inside of their ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..pictures.drawing import Box, Drawing
from ..pictures.modules import kind_of

#: Of a storage, by its role, the kind of its box.
_STORAGE = {"placeholder": "input"}


def drawing_of(roots: Sequence[Any]) -> Drawing:
    """The ops that some need, and the order between them."""
    return _Writer(roots).drawing


class _Writer:
    """Draws the ops that `roots` need and that `region` holds; what is from around it is a box without its own sources."""

    def __init__(self, roots: Sequence[Any], region: Any = None):
        self.drawing = Drawing()
        self.boxes: dict[Any, int | None] = {}  # None: said in the boxes that use it
        self.region = region
        ops = region.inside(roots) if region is not None else roots[0].ordered_ops(roots)
        for op in sorted(ops, key=lambda op: (op.place, op.serial)):
            self.op(op)
        if region is not None:
            self.drawing.add(Box(("yield",), "result"), [self.box(r) for r in roots])

    def box(self, op: Any) -> int | None:
        """The box of an op."""
        op = op.forwarded
        if op not in self.boxes:
            # From around the body, or made after what uses it.
            kind = "input" if op.storage is None else _kind(op)
            self.boxes[op] = self.drawing.add(Box(_lines(op), kind, op.location))
        return self.boxes[op]

    def op(self, op: Any) -> None:
        if op in self.boxes:
            return
        if op.is_tensor_op and op.is_constant and op.const is not None and op.const.ndim == 0:
            self.boxes[op] = None
            return
        control = next((a for a in op.args if _has(a, "regions")), None)
        if control is not None and _has(op, "control"):  # one result of several
            self.boxes[op] = self.box(control)
            return
        said = [f"{a.forwarded.const:.6g}" for a in op.args if self.said(a)]
        first, *rest = _lines(op)
        box = Box((" ".join([first, *said]), *rest), _kind(op), op.location, self.inside(op))
        before = [self.box(o) for o in (*op.members, *op.other_deps)]
        # The target of a write is shown in the box of the write.
        sources = op.args[1:] if _has(op, "written") and _has(op.args[0].forwarded, "role") else op.args
        self.boxes[op] = self.drawing.add(box, [self.box(a) for a in sources], before)

    def said(self, op: Any) -> bool:
        op = op.forwarded
        return op in self.boxes and self.boxes[op] is None

    def inside(self, op: Any) -> Drawing | None:
        regions: Iterable[Any] = _own(op, "regions") or ()
        drawings = [_Writer(r.results, r).drawing for r in regions]
        if len(drawings) <= 1:
            return drawings[0] if drawings else None
        names = op.kind.definition.regions
        made = Drawing()
        for name, drawing in zip(names, drawings, strict=True):
            made.add(Box((name,), "control", op.location, drawing))
        return made


def _own(op: Any, name: str) -> Any:
    """What only some kinds of ops have, else None: a tensor that is asked looks for the method that was meant."""
    try:
        return object.__getattribute__(op, name)
    except AttributeError:
        return None


def _has(op: Any, name: str) -> bool:
    return _own(op, name) is not None


def _kind(op: Any) -> str:
    if _has(op, "role"):
        return _STORAGE.get(op.role.value, "state")
    if op.operation is not None:
        return kind_of(op.operation.definition.traits, op.is_view)
    if _has(op, "written"):
        return "write"
    if _has(op, "regions"):
        return "control"
    return "result" if _has(op, "returns") else "view"


def _lines(op: Any) -> tuple[str, ...]:
    """What a box says of an op: what it is, its name, its axes and elements."""
    kind = op.operation or _own(op, "kind")
    if _has(op, "role"):
        what, name = op.called, op.role.value
    else:
        what = (
            kind.name.rpartition(".")[2]
            if kind is not None
            else (op.drawn_as or op.__class__.__name__.removesuffix("Op").lower())
        )
        name = op.given_name
        if _has(op, "written"):
            what = f"{what} {op.written.called}"
    lines = [what, name] if name else [what]
    if op.is_tensor_op:
        axes = [f"{_short(a.name)}:{'?' if a.length is None else a.length}" for a in op.axes]
        lines.append(" ".join([*axes, str(op.element)]))
    return tuple(lines)


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:5]}\u2026{name[-5:]}"
