# SPDX-License-Identifier: Apache-2.0
"""The schedule of a fusion: the given settings, and the best choice of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ...ir.core import Op
from ...ops.schedules import (
    Along,
    Blocks,
    Boxes,
    DecodePanels,
    Digits,
    Flat,
    Panels,
    Strips,
    families,
    stated,
)
from ...ops.settings import Given, Schedule
from ...ops.stated_schedules import complaints, given_by
from ...support.diagnostics import Diagnostic, UserError
from ...support.lengths import is_open
from ...support.target import Target
from ..analysis.group import kind
from ..analysis.loop_nest import LoopNest, loop_nest
from ..analysis.product import Product, epilogue_cost, oriented, product_of
from ..analysis.views import source
from ..fuse.decoding.digits import digits
from ..fuse.decoding.fusions import DECODED
from ..fuse.decoding.panels import of_panels
from ..fuse.links import Link, faults, left_is_passed, links_of
from .along import along, most_rows_along, suits_along
from .attention import stream
from .blocks import blocks
from .candidate import Candidate, fixed, ranked
from .decoding import decoding
from .loops import columns, elementwise
from .moves import move_conflicts
from .products import panels, product_conflicts
from .rows import rows
from .strips import strip_rows, within

#: Loops whose predicted cycles are within this factor count as equal: then the shorter code is better.
_ALIKE = 1.03

_LOOPS: dict[str, Callable[[LoopNest, Target, Given], Iterable[Candidate[Schedule]]]] = {
    "map": elementwise,
    "rows": rows,
    "columns": columns,
}
#: The error for a fusion of this kind with other ops, or for a GPU.
_NO_ATTENTION = (
    "an attention is, on a CPU, a product, a softmax of its rows and a product with that, of f32 or f64"
)
_PRODUCTS: dict[str, Callable[[Product, Target, Given], Iterable[Candidate[Schedule]]]] = {
    "panels": panels,
    "along": along,
    "blocks": blocks,
}


def candidates(fusion: Op, target: Target, kept: Collection[int] = ()) -> list[Candidate[Schedule]]:
    """All schedules with the settings that the fusion states, the best first. UserError if none can be built.

    Operands whose numbers are in `kept` are the same in all runs of the kernel: they are packed once.
    """
    best, *others = _ranked(fusion, target, kept)
    product = _product_in(fusion, target)
    return [best, *[c for c in others if not _conflicts(c.schedule, target, fusion, product)]]


def _ranked(fusion: Op, target: Target, kept: Collection[int]) -> list[Candidate[Schedule]]:
    """The same, of which all but the best may be impossible to build."""
    given, sort = given_by(fusion), kind(fusion)
    wrong = list(complaints(given, sort))
    if wrong:
        raise _refused(fusion, [d.message for d in wrong], wrong[0].hint)
    found: list[Candidate[Schedule]]
    product = None
    if sort == "dot":
        product = _product(fusion, target, kept)
        found = ranked(_products(fusion, product, target, given), 1.0)
    elif sort == "chain":
        if faulty := _chain_conflicts(fusion, target):
            raise _refused(fusion, faulty)
        found = [_strips(fusion, target, given)]
    elif sort == DECODED:
        found = [*decoding(fusion, target, given)]
        if not found:
            raise _refused(
                fusion, ["rows in digits are multiplied by 'digits', and other rows by the others"]
            )
        found = ranked(found, 1.0)
    elif sort == "attention":
        found = [*stream(fusion, target, given)]
        if target.has_thread_blocks or not found:
            raise _refused(fusion, [_NO_ATTENTION])
    else:
        nest = loop_nest(fusion)
        found = [*_LOOPS[sort](nest, target, given)]
        if not found:
            raise _refused(fusion, move_conflicts(families(sort, given)[0], nest, target))
        found = ranked(found, _ALIKE)
    if own := stated(given):
        # Stated settings replace the chosen ones.
        found = [c._replace(schedule=replace(c.schedule, **own)) for c in found]
    if conflicts := _conflicts(found[0].schedule, target, fusion, product):
        raise _refused(fusion, conflicts)
    return found


def chosen(fusion: Op, target: Target, kept: Collection[int] = ()) -> Schedule:
    """The schedule with which the kernel of a fusion is built; `kept` as for `candidates`."""
    given = given_by(fusion)
    family, *others = families(kind(fusion), given) or [None]
    if family is not None and not others and not family.open(given):
        whole = family(**stated(given))
        if conflicts := _conflicts(whole, target, fusion, _product_in(fusion, target)):
            raise _refused(fusion, conflicts)
        return whole
    return _ranked(fusion, target, kept)[0].schedule


def chosen_links(
    chain: Op, target: Target, strips: Strips, kept: Collection[int] = ()
) -> list[tuple[Op, Schedule]]:
    """The fusions of a chain, and the schedule of each in strips of its rows; `kept` are operands of the chain."""
    arguments = {value: number for number, value in enumerate(chain.block.args)}
    found: list[tuple[Op, Schedule]] = []
    for link in links_of(chain, target):
        fusion = link.fusion
        same = [i for i, v in enumerate(fusion.operands) if arguments.get(source(v)) in kept]
        own = within(chosen(fusion, target, same), link, strips.rows)
        found.append((fusion, own))
        if wrong := _link_conflicts(fusion, link, own):
            raise _refused(fusion, wrong)
    return found


def _link_conflicts(fusion: Op, link: Link, schedule: Schedule) -> list[str]:
    found = [
        f"{name} is {setting}, but in strips of the chain it is {getattr(schedule, name)}"
        for name, setting in stated(given_by(fusion)).items()
        if getattr(schedule, name) != setting
    ]
    if isinstance(schedule, Along):
        found.append("in a chain products must use 'panels'")
    if isinstance(schedule, Panels) and "left" in schedule.pack and left_is_passed(link):
        found.append("a left operand that is computed in the chain is not packed before")
    return found


def _strips(fusion: Op, target: Target, given: Given) -> Candidate[Strips]:
    """Strips of as many rows as fit into the cache; the predicted cost is that of the fusions alone."""
    links = links_of(fusion, target)
    made = Strips(rows=fixed(given, "rows", strip_rows(links, target)))
    each = [_ranked(link.fusion, target, ())[0] for link in links]
    return Candidate(made, sum(c.cycles for c in each), sum(c.roof for c in each))


def _chain_conflicts(fusion: Op, target: Target) -> list[str]:
    if target.has_thread_blocks:
        return [f"a program of {target.name} has no temporary memory of its own for a chain"]
    return faults(fusion, target)


def _products(fusion: Op, product: Product, target: Target, given: Given) -> Iterable[Candidate[Schedule]]:
    there = ["blocks"] if target.has_thread_blocks else ["panels"]
    if not target.has_thread_blocks and suits_along(product):
        few = not is_open((product.rows,)) and product.rows <= most_rows_along(product, target)
        there.insert(0 if few else 1, "along")
    fitting = [f.by for f in families("dot", given)]
    usable = [by for by in there if by in fitting]
    if not usable:
        why = f"{target.name} computes this product by {' or '.join(there)}, not by {' or '.join(fitting)}"
        raise _refused(fusion, [why])
    return _PRODUCTS[usable[0]](product.usual, target, given)


def _product(fusion: Op, target: Target, kept: Collection[int] = ()) -> Product:
    """The product of a fusion as the kernel computes it."""
    nest = loop_nest(fusion)
    dot = next(op for op in nest.ops if op.name == "ng.dot")
    product, order = oriented(product_of(dot, nest.sides), target)
    return replace(product, kept=nest.side(dot.operands[order[1]])[0] in kept, end=epilogue_cost(nest, dot))


def buildable(schedule: Schedule, target: Target, fusion: Op) -> bool:
    """Whether the kernel of a fusion can be built with a schedule for a target."""
    return not _conflicts(schedule, target, fusion, _product_in(fusion, target))


def _product_in(fusion: Op, target: Target) -> Product | None:
    """The product of a fusion, None where it is of another kind."""
    return _product(fusion, target) if kind(fusion) == "dot" else None


def _conflicts(schedule: Schedule, target: Target, fusion: Op, product: Product | None) -> list[str]:
    found = list(schedule.conflicts())
    if isinstance(schedule, Strips):
        found += _chain_conflicts(fusion, target)
        rows = 0 if found else next(link.rows for link in links_of(fusion, target) if link.product)
        if 0 < rows < schedule.rows:
            found.append(f"a strip of {schedule.rows} rows of {rows}")
        return found
    if not isinstance(schedule, Blocks) and product is not None:
        found += product_conflicts(schedule, product, target)
    if isinstance(schedule, Digits | DecodePanels):
        weight = digits(fusion) or of_panels(fusion)
        if weight is not None and weight.width % schedule.tile[1]:
            found.append(
                f"tiles of {schedule.tile[1]} columns, which panels of {weight.width} are no multiples of"
            )
    if isinstance(schedule, Boxes | Flat):
        found += move_conflicts(type(schedule), loop_nest(fusion), target)
    threads = getattr(schedule, "threads", 1)
    if not target.has_thread_blocks and threads > 1:
        found.append(f"a program of {target.name} is run by one thread, not by {threads}")
    if target.has_thread_blocks and threads == 1:
        found.append(f"a program of {target.name} is run by a block of threads, not by one")
    return found


def _refused(fusion: Op, why: Iterable[str], hint: str = "") -> UserError:
    return UserError(
        [
            Diagnostic(f"no kernel can be built with this schedule: {each}", fusion.location, hint=hint)
            for each in why
        ]
    )
