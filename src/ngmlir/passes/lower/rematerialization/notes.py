# SPDX-License-Identifier: Apache-2.0
"""What the notes `ng.recompute` of a function say: which values are not kept from which step on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .steps import Held, Step, Steps, root_of


def dropped(found: Steps, order: Sequence[Step]) -> dict[Step, list[Held]]:
    """By the step from whose end on they are not kept: the values on the way from the sources of notes to their values, where
    steps run in that order.

    One kernel may give a value of a note and others. Those that what follows reads before the next note ends, or behind the last
    note at once, are kept with it: they are what this is computed from.
    """
    place = {step: at for at, step in enumerate(order)}
    ends: list[tuple[int, list[Held], list[Held]]] = []
    for note in found.notes:
        values, sources = (
            [found.held[v] for v in map(root_of, each) if v in found.held]
            for each in (note.values, note.sources)
        )
        if values:
            ends.append((max(place[held.maker] for held in values), values, sources))
    ends.sort(key=lambda end: end[0])
    made: dict[Step, list[Held]] = {}
    together: dict[Held, list[Held]] = {}  # what is kept with the value of a note
    for number, (end, values, sources) in enumerate(ends):
        given = [*sources, *(held for source in sources for held in together.get(source, ()))]
        inside = _on_the_way(given, values)
        is_last = number + 1 == len(ends)
        behind = _behind([*values, *inside], order[end + 1 :]) if is_last else ()
        until = end if is_last else ends[number + 1][0]
        for held in inside:
            later = [reader for reader in held.readers if place[reader] > end]
            if not later:
                continue
            first = min(later, key=place.__getitem__)
            if first in behind if is_last else place[first] > until:
                made.setdefault(order[end], []).append(held)
            else:
                for value in values:
                    together.setdefault(value, []).append(held)
    return made


def _on_the_way(sources: Collection[Held], values: Sequence[Held]) -> list[Held]:
    """What is computed between some values and others."""
    kept, outside = {*values, *sources}, {held.maker for held in sources}
    inside: dict[Step, None] = {}
    waiting = [held.maker for held in values]
    while waiting:
        step = waiting.pop()
        if step not in inside and step not in outside:
            inside[step] = None
            waiting += [read.maker for read in step.reads]
    return [held for step in inside for held in step.gives if held not in kept]


def _behind(values: Collection[Held], steps: Sequence[Step]) -> set[Step]:
    """Of the steps that follow the last note, those that need what others of them compute of its values: not what reads these
    first."""
    given = set(values)
    reached: set[Step] = set()
    behind: set[Step] = set()
    for step in steps:
        if any(read.maker in reached for read in step.reads):
            behind.add(step)
        if step in behind or any(read in given for read in step.reads):
            reached.add(step)
    return behind
