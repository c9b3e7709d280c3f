# SPDX-License-Identifier: Apache-2.0
"""Reads `lowering/pipelines`: which passes make a program ready for a kind of target, in order.

loose = shape, prune{assume=nsz}, dead-code
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..support.diagnostics import Location
from ..support.home import folder
from ..support.spelling import did_you_mean
from .lines import complaint, entries

_ENTRY = re.compile(r"(?P<name>[\w-]+)\s*=\s*(?P<steps>.*)$")
_STEP = re.compile(r"\s*(?P<name>[\w-]+)\s*(?:\{[^{}]*\})?\s*")


@dataclass(frozen=True)
class PipelineText:
    """One named pipeline; `steps` is its text, which may name earlier pipelines."""

    name: str
    steps: str
    location: Location


@dataclass(frozen=True)
class Pipelines:
    """All named pipelines, in the order of the file."""

    entries: tuple[PipelineText, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.entries)

    def expanded(self, text: str) -> str:
        """`text` with each named pipeline replaced by its steps."""
        known = {entry.name: entry.steps for entry in self.entries}
        return re.sub(r"(?<![\w{=.-])[\w-]+(?![\w{=.(-])", lambda m: known.get(m[0], m[0]), text)

    def check(self, passes: Iterable[str]) -> None:
        """UserError for the first step that is no pass."""
        known = set(passes)
        for entry in self.entries:
            for step in step_names(entry.steps):
                if step not in known:
                    hint = did_you_mean(step, known, "see ngopt --list-passes")
                    raise complaint(
                        f"pipeline '{entry.name}' names an unknown pass '{step}'", entry.location, hint
                    )


def step_names(steps: str) -> list[str]:
    """The passes of a pipeline without their options."""
    return re.findall(r"[\w-]+", re.sub(r"\{[^{}]*\}", "", steps))


def read_pipelines(path: Path) -> Pipelines:
    """The pipelines in a file. A pipeline may name those above it as a step."""
    known: dict[str, PipelineText] = {}
    for where, text in entries(path):
        found = _ENTRY.match(text)
        if found is None:
            raise complaint("expected: name = pass, pass{option=value}, ...", where)
        name, steps = found["name"], found["steps"].strip().rstrip(",")
        if name in known:
            raise complaint(f"pipeline '{name}' stands already at {known[name].location}", where)
        at = 0
        while at < len(steps):
            step = _STEP.match(steps, at)
            if step is None or (step.end() < len(steps) and steps[step.end()] != ","):
                raise complaint(f"expected the name of a pass at '{steps[at:].strip()}'", where)
            at = step.end() + 1
        steps = Pipelines(tuple(known.values())).expanded(steps)
        known[name] = PipelineText(name, steps, where)
    return Pipelines(tuple(known.values()))


@cache
def named_pipelines() -> Pipelines:
    """The pipelines of `lowering/pipelines`."""
    return read_pipelines(folder("lowering") / "pipelines")
