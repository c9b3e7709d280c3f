# SPDX-License-Identifier: Apache-2.0
"""The plan of a program's memory: which bytes of the arena hold what, from which step to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.core import Module, Op, Value, callee, op_name
from ..ir.literals import item_bytes
from ..ir.types import MemRefType
from ..support.diagnostics import UserError
from .svg import framed, text

_WIDTH, _HEIGHT, _LEFT, _TOP = 760.0, 320.0, 90.0, 26.0
_COLOURS = ("#bfdbfe", "#fde68a", "#bbf7d0", "#fecaca", "#ddd6fe", "#fbcfe8", "#a5f3fc", "#fed7aa")


@dataclass
class Held:
    """A part of the arena that is in use from a first to a last step."""

    name: str
    start: int
    stop: int
    first: int
    last: int
    is_read: bool = False


@dataclass(frozen=True)
class MemoryPlan:
    """The steps of a planned function, and what its arena of `size` bytes holds meanwhile. `str` lists it."""

    size: int
    steps: tuple[str, ...]
    held: tuple[Held, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.held)} buffers in {self.size:,} bytes, over {len(self.steps)} steps"]
        for h in self.held:
            lines.append(f"{h.start:>12,} .. {h.stop:>12,}  steps {h.first:>4} .. {h.last:<4} {h.name}")
        return "\n".join(lines) + "\n"

    def _repr_svg_(self) -> str:
        return plan_svg(self)


def memory_plan(module: Module, entry: str = "main") -> MemoryPlan:
    """The plan of a function; UserError where its memory is not planned yet."""
    main = module.lookup(entry)
    if main is None or "ng.arguments" not in main.attributes:
        raise UserError(f"the module has no planned @{entry}", hint="run the pass plan-memory: ngopt -p cpu")
    arena = main.block.args[-1]
    assert isinstance(arena.type, MemRefType)
    reader = _Reader(arena)
    reader.read(main.block.ops)
    held = sorted(reader.held, key=lambda h: (h.start, h.first))
    return MemoryPlan(arena.type.size, tuple(reader.steps), tuple(held))


class _Reader:
    """Visits the steps of a function and records which views of the arena each uses."""

    def __init__(self, arena: Value):
        self.arena = arena
        self.steps: list[str] = []
        self.held: list[Held] = []
        self.places: dict[Value, tuple[int, int]] = {}
        self.open: dict[tuple[int, int], Held] = {}

    def read(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op.name == "tile.view" and op.operands[0] is self.arena:
                type = op.results[0].type
                offset = getattr(op, "offset", 0)
                assert isinstance(type, MemRefType)
                self.places[op.results[0]] = (offset, offset + type.size * item_bytes(type.element))
            elif op.results and op.operands and op.operands[0] in self.places:
                self.places[op.results[0]] = self.places[op.operands[0]]
            elif op.regions:
                self.nested(op)
            elif any(o in self.places for o in op.operands) or callee(op):
                self.step(op)

    def nested(self, op: Op) -> None:
        """A buffer from outside that a loop body uses is needed in all iterations."""
        before, first = dict(self.open), len(self.steps)
        for region in op.regions:
            for block in region.blocks:
                self.read(block.ops)
        for held in before.values():
            if held.last >= first:
                held.last = max(len(self.steps) - 1, held.last)

    def step(self, op: Op) -> None:
        now = len(self.steps)
        self.steps.append(f"@{callee(op)}" if callee(op) else op_name(op).rpartition(".")[2])
        reads = getattr(op, "sources", op.operands[:1])
        for value in op.operands:
            place = self.places.get(value)
            if place is None:
                continue
            held = self.open.get(place)
            is_read = any(value is r for r in reads)
            if held is None or (held.is_read and not is_read and held.last < now):
                held = self.open[place] = Held(_name(value, op), *place, now, now)
                self.held.append(held)
            held.last = now
            held.is_read |= is_read


def _name(value: Value, op: Op) -> str:
    return value.name or (f"@{callee(op)}" if callee(op) else "buffer")


def plan_svg(plan: MemoryPlan) -> str:
    """Bytes of the arena over steps: a rectangle for each part."""
    lines: list[str] = []
    count = max(1, len(plan.steps))
    across, down = _WIDTH / count, _HEIGHT / max(1, plan.size)
    lines.append(
        text(
            _LEFT,
            16,
            f"{plan.size:,} bytes at the peak, {len(plan.held)} buffers, {len(plan.steps)} launches",
            more=' font-weight="bold"',
        )
    )
    lines.append(
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="#f9fafb" stroke="#9ca3af"/>'
    )
    for part in range(5):
        y = _TOP + _HEIGHT * part / 4
        lines.append(text(_LEFT - 6, y + 4, _bytes(plan.size * part // 4), "#6b7280", "end"))
        lines.append(f'<path d="M{_LEFT} {y:.1f}h{_WIDTH}" stroke="#e5e7eb"/>')
    for i, held in enumerate(plan.held):
        x, width = _LEFT + held.first * across, (held.last - held.first + 1) * across
        y, height = _TOP + held.start * down, max(1.0, (held.stop - held.start) * down)
        title = f"{held.name}: {held.stop - held.start:,} bytes at offset {held.start:,}, in use from launch {held.first} to {held.last}"
        lines.append(f"<g><title>{_escaped(title)}</title>")
        lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_COLOURS[i % len(_COLOURS)]}" stroke="#6b7280" stroke-width="0.5"/>'
        )
        if height > 12 and width > 7 * 5:
            letters = int(width // 7)
            lines.append(text(x + 3, y + min(height / 2 + 4, 40), held.name[:letters]))
        lines.append("</g>")
    for i, step in enumerate(plan.steps):
        if count <= 60:
            x = _LEFT + (i + 0.5) * across
            at = _TOP + _HEIGHT + 8
            turned = f' transform="rotate(60 {x:.1f} {at:.1f})"'
            lines.append(text(x, at, f"{i} {step[:40]}", "#6b7280", "start", turned))
    longest = max([min(len(s), 40) for s in plan.steps] or [0]) if count <= 60 else 0
    return framed(_LEFT + _WIDTH + 150, _TOP + _HEIGHT + 20 + longest * 6, lines)


def _escaped(content: str) -> str:
    return content.replace("&", "&amp;").replace("<", "&lt;")


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
