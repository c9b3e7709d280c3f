# SPDX-License-Identifier: Apache-2.0
"""Drawings: boxes, some of which contain drawings, and arrows between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..support.diagnostics import UNKNOWN, Location

#: So many boxes are drawn of one graph; of more, chains are folded, and what is furthest from the results is left out.
MOST = 160


@dataclass(frozen=True)
class Box:
    """A box: lines of text (the first is what it is), a kind (which says its colour), and where it is from."""

    lines: tuple[str, ...]
    kind: str = "op"
    place: Location = UNKNOWN
    inside: Drawing | None = None


@dataclass(frozen=True)
class Arrow:
    """From one box to a later one, by number. `order` is an arrow that no value goes along."""

    source: int
    target: int
    order: bool = False


@dataclass
class Drawing:
    """Boxes, each after those that arrows lead to it from."""

    boxes: list[Box] = field(default_factory=list[Box])
    arrows: list[Arrow] = field(default_factory=list[Arrow])
    note: str = ""

    def add(self, box: Box, sources: Sequence[int | None] = (), before: Sequence[int | None] = ()) -> int:
        """Adds a box that is computed from others, after some more; gives its number."""
        number = len(self.boxes)
        self.boxes.append(box)
        given = dict.fromkeys(s for s in sources if s is not None and s != number)
        self.arrows += [Arrow(s, number) for s in given]
        self.arrows += [
            Arrow(s, number, True) for s in dict.fromkeys(before) if s is not None and s not in given
        ]
        return number

    @property
    def count(self) -> int:
        """How many boxes there are, those inside of others too."""
        return len(self.boxes) + sum(box.inside.count for box in self.boxes if box.inside)

    def kinds(self) -> set[str]:
        """The kinds of its boxes, those inside of others too."""
        inner = [kind for box in self.boxes if box.inside for kind in box.inside.kinds()]
        return {*(box.kind for box in self.boxes), *inner}


def reduced(drawing: Drawing, most: int = MOST) -> Drawing:
    """A drawing of at most so many boxes, whose note says what was folded and what left out."""
    boxes = [replace(b, inside=reduced(b.inside, most)) if b.inside else b for b in drawing.boxes]
    made = Drawing(boxes, drawing.arrows, drawing.note)
    if len(boxes) <= most:
        return made
    made = _folded(made)
    notes = [f"sequences of ops are shortened ({len(boxes)} ops)"] if len(made.boxes) < len(boxes) else []
    if len(made.boxes) > most:
        left_out = len(made.boxes) - most
        made = _last(made, most)
        notes.append(f"{left_out} earlier boxes are not shown")
    made.note = "; ".join([n for n in (drawing.note, *notes) if n])
    return made


def _folded(drawing: Drawing) -> Drawing:
    """The drawing with chains folded into one box: a box with one source is joined to it, if that has no other use."""
    sources: dict[int, list[int]] = {}
    uses: dict[int, int] = {}
    for arrow in drawing.arrows:
        sources.setdefault(arrow.target, []).append(arrow.source)
        uses[arrow.source] = uses.get(arrow.source, 0) + 1
    made = Drawing(note=drawing.note)
    place: dict[int, int] = {}
    chains: dict[int, int] = {}
    for number, box in enumerate(drawing.boxes):
        before = sources.get(number, [])
        if len(before) == 1 and not box.inside:
            (source,) = before
            at = place[source]
            other = made.boxes[at]
            if uses[source] == 1 and not other.inside and other.kind not in ("input", "state", "constant"):
                length = chains[at] = chains.get(at, 1) + 1
                first = other.lines[0].split(" \u2192 ")[0].split(" \u2026 ")[0]
                link = "\u2192" if length == 2 else "\u2026"
                lines = (f"{first} {link} {box.lines[0]}", *box.lines[1:2], f"{length} ops")
                made.boxes[at] = replace(box, lines=lines)
                place[number] = at
                continue
        place[number] = len(made.boxes)
        made.boxes.append(box)
    seen: dict[tuple[int, int], Arrow] = {}
    for arrow in drawing.arrows:
        ends = place[arrow.source], place[arrow.target]
        if ends[0] != ends[1]:
            seen.setdefault(ends, Arrow(*ends, arrow.order))
    made.arrows = list(seen.values())
    return made


def _last(drawing: Drawing, most: int) -> Drawing:
    """The last boxes, and the arrows between them."""
    first = len(drawing.boxes) - most
    arrows = [Arrow(a.source - first, a.target - first, a.order) for a in drawing.arrows if a.source >= first]
    return Drawing(drawing.boxes[first:], [a for a in arrows if a.target >= 0], drawing.note)
