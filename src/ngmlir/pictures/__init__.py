# SPDX-License-Identifier: Apache-2.0
"""Layer 2: graphs, modules and memory plans as SVG and as text for Graphviz, without any other program.

`svg(what)` and `dot(what)` take a tensor or op, a list of them, a computation or a module; notebooks show these by
themselves. `memory_plan(module)` is the plan of a module whose memory is planned.
"""

from __future__ import annotations

from .dot import dot_of
from .drawing import Drawing
from .memory import MemoryPlan, memory_plan
from .shown import drawing
from .svg import svg_of

__all__ = ["Drawing", "MemoryPlan", "dot", "drawing", "memory_plan", "svg"]


def svg(what: object) -> str:
    """A picture of a tensor or op with all that it depends on, of several, of a computation, a module or a memory plan.

    Of a graph of more than `pictures.drawing.MOST` ops chains are folded and then the ops furthest from the results left out; a
    line below says so. Raises UserError for what has no picture.
    """
    return what._repr_svg_() if isinstance(what, MemoryPlan) else svg_of(drawing(what))  # pyright: ignore[reportPrivateUsage]


def dot(what: object) -> str:
    """The whole graph in the DOT language: `dot -Tpdf` of Graphviz draws it. Raises UserError for what is no graph."""
    return dot_of(drawing(what))


def __dir__() -> list[str]:
    return sorted(__all__)
