# SPDX-License-Identifier: Apache-2.0
"""What the notes `ng.recompute` of a function mean: which values are not kept after which step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .steps import Step, Steps, StoredValue, root_of


def dropped(found: Steps, order: Sequence[Step]) -> dict[Step, list[StoredValue]]:
    """The values that are not kept, by the step after which they are dropped: those computed between the sources and the values of a
    note, where steps run in that order.

    One kernel may compute a value of a note together with others. Others from which later values are computed are kept with it: those
    first read before the next note ends; after the last note, those first read by a step that depends on no other step after the note.
    """
    place = {step: at for at, step in enumerate(order)}
    ends: list[tuple[int, list[StoredValue], list[StoredValue]]] = []
    for note in found.notes:
        values, sources = (
            [found.held[v] for v in map(root_of, each) if v in found.held]
            for each in (note.values, note.sources)
        )
        if values:
            ends.append((max(place[held.maker] for held in values), values, sources))
    ends.sort(key=lambda end: end[0])
    made: dict[Step, list[StoredValue]] = {}
    together: dict[StoredValue, list[StoredValue]] = {}  # the values that are kept with the value of a note
    for number, (end, values, sources) in enumerate(ends):
        given = [*sources, *(held for source in sources for held in together.get(source, ()))]
        inside = _on_the_way(given, values)
        is_last = number + 1 == len(ends)
        behind = _dependents([*values, *inside], order[end + 1 :]) if is_last else ()
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


def _on_the_way(sources: Collection[StoredValue], values: Sequence[StoredValue]) -> list[StoredValue]:
    """The values that are computed between `sources` and `values`."""
    kept, outside = {*values, *sources}, {held.maker for held in sources}
    inside: dict[Step, None] = {}
    waiting = [held.maker for held in values]
    while waiting:
        step = waiting.pop()
        if step not in inside and step not in outside:
            inside[step] = None
            waiting += [read.maker for read in step.reads]
    return [held for step in inside for held in step.gives if held not in kept]


def _dependents(values: Collection[StoredValue], steps: Sequence[Step]) -> set[Step]:
    """Of the steps after the last note, those that depend on its values through others of them; not those that only read these
    directly."""
    given = set(values)
    reached: set[Step] = set()
    behind: set[Step] = set()
    for step in steps:
        if any(read.maker in reached for read in step.reads):
            behind.add(step)
        if step in behind or any(read in given for read in step.reads):
            reached.add(step)
    return behind
