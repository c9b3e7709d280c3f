# SPDX-License-Identifier: Apache-2.0
"""The positions of boxes: in rows, so that arrows lead down, in an order with few crossings, each below its sources.

Rows follow from the longest path to a box; a box without sources is just above its first use. An arrow across a row has a
position in it, as a box without width. The order in a row is that of the mean places of neighbours (barycentres), row
by row down and up; the positions are then the means themselves, as far as the order leaves room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .drawing import Arrow, Box, Drawing

#: Sizes in pixels: of a letter, of a line, inside of a box around its text, between boxes, between rows.
LETTER, LINE, INSET, GAP, ROW_GAP = 6.7, 15.0, 8.0, 16.0, 30.0
#: What nothing leads to is drawn again where it is used so many rows further down.
_FAR = 5
#: Rounds over all rows, down and up.
_ROUNDS = 12

Point = tuple[float, float]


@dataclass
class Placed:
    """A drawing with the left upper corner and the size of each box, and the points of each arrow."""

    drawing: Drawing
    boxes: list[tuple[float, float, float, float]] = field(
        default_factory=list[tuple[float, float, float, float]]
    )
    routes: list[list[Point]] = field(default_factory=list[list[Point]])
    inside: dict[int, Placed] = field(default_factory=dict[int, "Placed"])
    width: float = 0.0
    height: float = 0.0


@dataclass(eq=False)
class _Node:
    """A box in its row, or the place of an arrow in a row that it goes past."""

    width: float
    height: float
    row: int
    x: float = 0.0
    above: list[_Node] = field(default_factory=list["_Node"])
    below: list[_Node] = field(default_factory=list["_Node"])


def text_height(box: Box) -> float:
    """The height of the text of a box, with its padding."""
    return LINE * len(box.lines) + 2 * INSET - 2


def placed(drawing: Drawing) -> Placed:
    """The places of all boxes and arrows."""
    if not drawing.boxes:
        return Placed(drawing)
    drawing = _repeated(drawing)
    made = Placed(drawing)
    nodes: list[_Node] = []
    for number, (box, row) in enumerate(zip(drawing.boxes, _rows(drawing), strict=True)):
        width, height = max(len(line) for line in box.lines) * LETTER + 2 * INSET, text_height(box)
        if box.inside and box.inside.boxes:
            inner = made.inside[number] = placed(box.inside)
            width, height = max(width, inner.width + 2 * INSET), height + inner.height + INSET
        nodes.append(_Node(width, height, row))
    paths = [_path(nodes[a.source], nodes[a.target]) for a in drawing.arrows]
    rows: list[list[_Node]] = [[] for _ in range(max(n.row for n in nodes) + 1)]
    for node in dict.fromkeys([*nodes, *(n for path in paths for n in path)]):
        rows[node.row].append(node)
    _order(rows)
    _position(rows)
    left = min(n.x - n.width / 2 for row in rows for n in row)
    tops: list[float] = []
    top = 0.0
    for row in rows:
        tops.append(top)
        top += max(n.height for n in row) + ROW_GAP
    made.height = top - ROW_GAP
    made.width = max(n.x + n.width / 2 for row in rows for n in row) - left
    for node in nodes:
        made.boxes.append((node.x - left - node.width / 2, tops[node.row], node.width, node.height))
    for path in paths:
        first, *middle, last = path
        points = [(first.x - left, tops[first.row] + first.height)]
        for node in middle:
            # Past the whole row, so that the arrow leads around the boxes in it.
            bottom = tops[node.row] + max(n.height for n in rows[node.row])
            points += [(node.x - left, tops[node.row]), (node.x - left, bottom)]
        made.routes.append([*points, (last.x - left, tops[last.row])])
    return made


def _rows(drawing: Drawing) -> list[int]:
    """The row of each box."""
    rows = [0] * len(drawing.boxes)
    targets: dict[int, list[int]] = {}
    has_source: set[int] = set()
    for arrow in sorted(drawing.arrows, key=lambda a: a.target):
        rows[arrow.target] = max(rows[arrow.target], rows[arrow.source] + 1)
        targets.setdefault(arrow.source, []).append(arrow.target)
        has_source.add(arrow.target)
    for number in reversed(range(len(rows))):
        # A box without sources that leads to one box only is just above that.
        if number in targets and number not in has_source:
            rows[number] = min(rows[t] for t in targets[number]) - 1
    return rows


def _repeated(drawing: Drawing) -> Drawing:
    """The drawing with copies of boxes without sources, where their uses are far from each other."""
    rows, targets = _rows(drawing), {a.target for a in drawing.arrows}
    boxes, arrows = list(drawing.boxes), []
    copies: dict[int, tuple[int, int]] = {}  # of a box: the copy used last, and the row of its first use
    for arrow in sorted(drawing.arrows, key=lambda a: rows[a.target]):
        if arrow.source not in targets and not boxes[arrow.source].inside:
            row = rows[arrow.target]
            at, first = copies.get(arrow.source, (arrow.source, row))
            if row > first + _FAR:
                at, first = len(boxes), row
                boxes.append(boxes[arrow.source])
            copies[arrow.source] = (at, first)
            arrow = Arrow(at, arrow.target, arrow.order)
        arrows.append(arrow)
    order = sorted(range(len(boxes)), key=lambda i: i >= len(drawing.boxes), reverse=True)  # copies first
    place = {old: new for new, old in enumerate(order)}
    moved = [Arrow(place[a.source], place[a.target], a.order) for a in arrows]
    return Drawing([boxes[i] for i in order], moved, drawing.note)


def _path(source: _Node, target: _Node) -> list[_Node]:
    """The boxes of an arrow, with its places in the rows between."""
    path = [source, *(_Node(8.0, 0.0, row) for row in range(source.row + 1, target.row)), target]
    for a, b in pairwise(path):
        a.below.append(b)
        b.above.append(a)
    return path


def _order(rows: Sequence[list[_Node]]) -> None:
    """Puts the nodes of each row into an order that few arrows cross: the best that was seen."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for round in range(_ROUNDS):
        if not fewest:
            break
        down = round % 2 == 0
        at = {n: float(i) for row in rows for i, n in enumerate(row)}
        for row in rows if down else reversed(rows):
            means = {n: _mean(n.above if down else n.below, at, at[n]) for n in row}
            row.sort(key=means.__getitem__)
            at.update((n, float(i)) for i, n in enumerate(row))
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, order in zip(rows, best, strict=True):
        row[:] = order


def _mean(nodes: Sequence[_Node], at: dict[_Node, float], default: float) -> float:
    return sum(at[n] for n in nodes) / len(nodes) if nodes else default


def _crossings(rows: Sequence[Sequence[_Node]]) -> int:
    """How many pairs of arrows cross between neighbouring rows."""
    count = 0
    for row, below in pairwise(rows):
        at = {n: i for i, n in enumerate(below)}
        ends: list[int] = []
        for node in row:
            for end in sorted(at[n] for n in node.below):
                count += sum(other > end for other in ends)
            ends += [at[n] for n in node.below]
    return count


def _position(rows: Sequence[Sequence[_Node]]) -> None:
    """Gives each node its x: near the mean of its neighbours, in the order of its row, with room between."""
    for row in rows:
        x = 0.0
        for node in row:
            node.x = x + node.width / 2
            x += node.width + GAP
    sides: list[Callable[[_Node], list[_Node]]] = [lambda n: n.above, lambda n: n.below]
    for round in range(_ROUNDS):
        side = sides[round % 2]
        for row in rows if round % 2 == 0 else list(reversed(rows)):
            _spread(row, [_wanted(side(n), n) for n in row])
    for row in rows:
        _spread(row, [_wanted([*n.above, *n.below], n) for n in row])


def _wanted(neighbours: Sequence[_Node], node: _Node) -> float:
    return sum(n.x for n in neighbours) / len(neighbours) if neighbours else node.x


def _spread(row: Sequence[_Node], wanted: Sequence[float]) -> None:
    """The positions closest to the wanted ones that keep the order and the distances: runs of nodes that touch move
    together, to the mean of what they want."""
    offsets: list[float] = []
    at = 0.0
    for i, node in enumerate(row):
        at += (row[i - 1].width + node.width) / 2 + GAP if i else 0.0
        offsets.append(at)
    runs: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while runs and runs[-1][0] / runs[-1][1] > total / count:
            before = runs.pop()
            total, count = total + before[0], count + before[1]
        runs.append((total, count))
    nodes = iter(zip(row, offsets, strict=True))
    for total, count in runs:
        for _ in range(count):
            node, offset = next(nodes)
            node.x = total / count + offset
