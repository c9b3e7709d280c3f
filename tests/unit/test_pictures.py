# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, modules and memory plans: well-formed, complete, and readable: no box on another."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations
from random import Random
from typing import Any

import pytest
from examples import wrapped

import ngmlir as ng
from ngmlir.compiler import lower, resolve
from ngmlir.ir.core import Op
from ngmlir.ops import ng as words
from ngmlir.ops.words import from_text
from ngmlir.pictures.drawing import MOST, Box, Drawing, reduced
from ngmlir.pictures.layout import Placed, placed


def texts(svg: str) -> list[str]:
    """The lines of text in a picture, which must be XML."""
    root = ElementTree.fromstring(svg)
    return [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]


def model() -> tuple[Any, Any, Any]:
    N, T, H = ng.make_axis(4, "N"), ng.make_axis(5, "REC"), ng.make_axis(3, "H")
    x, w = ng.placeholder([T, N, H]).named("x"), ng.variable([H, H.named("K")], initial_value=0.5).named("w")

    def step(h: Any, each: Any) -> Any:
        new = ng.tanh(ng.cast_axes(ng.dot(h, w), h.axes) + each)
        return new, new

    h, _ = ng.scan(step, ng.constant(0.0, axes=[N, H]), x, T)
    loss = ng.sum(ng.cond(ng.sum(h, out_axes=()) > 0, lambda: h * 2, lambda: ng.exp(h)), out_axes=())
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w - 0.1 * ng.deriv(loss, w))
    return loss, update, x


def test_what_has_a_picture() -> None:
    loss, update, x = model()
    computation = ng.computation([loss, update], x)
    module = ng.lift(computation).module
    for what in (loss, [loss, update], computation, module, lower(module, resolve("x86-64-v3"))):
        words = " ".join(texts(ng.pictures.svg(what)))
        assert "x" in words and ("scan" in words or "for" in words)
        dot = ng.pictures.dot(what)
        assert dot.startswith("digraph {") and dot.count("{") == dot.count("}")
    assert {"tanh", "assign w", "then", "else", "yield"} <= set(texts(ng.pictures.svg(update)))
    assert texts(loss._repr_html_()) == texts(loss._repr_svg_()) == texts(ng.pictures.svg(loss))
    assert texts(module._repr_svg_() or "") == texts(ng.pictures.svg(module))
    with pytest.raises(ng.UserError, match="no picture of 3"):
        ng.pictures.svg(3)
    with pytest.raises(ng.UserError, match="no picture"):
        ng.pictures.dot([])


@pytest.mark.parametrize("op", [op for op in words.OPS.values() if "terminator" not in op.definition.traits])
def test_the_example_of_every_op(op: type[Op]) -> None:
    assert (
        op.name.partition(".")[2] in " ".join(texts(ng.pictures.svg(from_text(wrapped(op)))))
        or op is words.ConstantOp
    )


def test_boxes_say_where_they_are_from() -> None:
    A = ng.make_axis(3, '<"A&')
    x = ng.placeholder([A]).named('<"x&')
    svg = ng.pictures.svg(ng.exp(x))
    titles = [e.text or "" for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert any(t.startswith("exp") and "test_pictures.py:" in t for t in titles)
    assert '<"x&' in texts(svg)


def test_lengths_need_not_be_known() -> None:
    x = ng.placeholder([ng.make_axis(name="N"), ng.make_axis(name="F")])
    assert "N:? F:? f32" in texts(ng.pictures.svg(ng.exp(x)))


def drawn(count: int, seed: int, most_sources: int = 3) -> Drawing:
    draw, random = Drawing(), Random(seed)
    for number in range(count):
        sources = [
            random.randrange(max(0, number - 12), number)
            for _ in range(random.randrange(most_sources))
            if number
        ]
        inside = drawn(4, seed + 1) if number % 17 == 5 else None
        draw.add(Box(("x" * random.randrange(1, 20),) * random.randrange(1, 4), inside=inside), sources)
    return draw


def disjoint(made: Placed) -> None:
    for (x, y, w, h), (u, v, s, t) in combinations(made.boxes, 2):
        assert x + w <= u + 1e-6 or u + s <= x + 1e-6 or y + h <= v + 1e-6 or v + t <= y + 1e-6
    for number, (x, y, w, h) in enumerate(made.boxes):
        assert x >= -1e-6 and x + w <= made.width + 1e-6 and y + h <= made.height + 1e-6
        if number in made.inside:
            inner = made.inside[number]
            assert inner.width < w and inner.height < h
            disjoint(inner)
    for arrow, route in zip(made.drawing.arrows, made.routes, strict=True):
        assert [y for _, y in route] == sorted(y for _, y in route)  # arrows lead down
        (x, y, w, h), (u, v, s, _) = made.boxes[arrow.source], made.boxes[arrow.target]
        assert x <= route[0][0] <= x + w and route[0][1] == y + h
        assert u <= route[-1][0] <= u + s and route[-1][1] == v


@pytest.mark.parametrize("count", [1, 2, 5, 30, 150])
def test_no_box_stands_on_another(count: int) -> None:
    for seed in range(3):
        disjoint(placed(drawn(count, seed)))


def test_arrows_of_a_tree_do_not_cross() -> None:
    """The layout finds the order without crossings where there is one that is easy."""
    draw = Drawing()
    rows = [[draw.add(Box((f"{i}",))) for i in range(8)]]
    while len(rows[-1]) > 1:
        above = rows[-1]
        pairs = [(above[i], above[-1 - i]) for i in range(len(above) // 2)]
        rows.append([draw.add(Box((f"{a} {b}",)), [a, b]) for a, b in pairs])
    made = placed(draw)
    lines = [(route[0], route[-1]) for route in made.routes]
    for ((a, y), (b, _)), ((c, z), (d, _)) in combinations(lines, 2):
        assert y != z or (a - c) * (b - d) >= 0


def test_large_graphs_are_folded_and_say_so() -> None:
    A = ng.make_axis(3, "A")
    x = y = ng.placeholder([A])
    for _ in range(3 * MOST):
        y = ng.exp(y)
    (*boxes, note) = texts(ng.pictures.svg(y))
    assert "shortened" in note and any("exp \u2026 exp" in b for b in boxes) and f"{3 * MOST} ops" in boxes
    for _ in range(2 * MOST):
        y = y * (y + x)
    assert re.search(r"\d+ earlier boxes are not shown", texts(ng.pictures.svg(y))[-1])
    assert len(reduced(ng.pictures.drawing(y)).boxes) == MOST
    assert ng.pictures.dot(y).count("[label=") > 7 * MOST


def test_the_memory_plan() -> None:
    module = from_text(
        """
        func.func @main(%x: memref<4xf32>, %0: memref<4xf32>, %arena: memref<128xi8>)
            attributes {ng.arguments = 1 : i64, ng.results = 1 : i64} {
          %1 = tile.view %arena at 0 : memref<4xf32>
          %2 = tile.view %arena at 64 : memref<4xf32>
          tile.launch @k ins(%x) outs(%1)
          tile.launch @k ins(%1) outs(%2)
          tile.launch @k ins(%2) outs(%1)
          tile.launch @k ins(%1) outs(%0)
          func.return
        }
        tile.kernel @k ins(%a: memref<4xf32>) outs(%b: memref<4xf32>) {
          tile.copy %a, %b : memref<4xf32>, memref<4xf32>
          tile.return
        }"""
    )
    plan = ng.pictures.memory_plan(module)
    assert [(h.start, h.stop, h.first, h.last) for h in plan.held] == [
        (0, 16, 0, 1),
        (0, 16, 2, 3),
        (64, 80, 1, 2),
    ]
    assert plan.size == 128 and len(plan.steps) == 4
    assert "3 buffers in 128 bytes" in str(plan)
    assert any("128 bytes" in t for t in texts(ng.pictures.svg(plan)))
    loss, update, x = model()
    lifted = ng.lift([loss, update], [x]).module
    planned = ng.pictures.memory_plan(lower(lifted, resolve("x86-64-v3")))
    for a, b in combinations(planned.held, 2):
        together = a.first <= b.last and b.first <= a.last
        assert (
            not together or a.stop <= b.start or b.stop <= a.start or (a.start, a.stop) == (b.start, b.stop)
        )
    with pytest.raises(ng.UserError, match="no planned @main"):
        ng.pictures.memory_plan(lifted)
