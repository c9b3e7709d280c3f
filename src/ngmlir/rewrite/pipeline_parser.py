# SPDX-License-Identifier: Apache-2.0
"""Parser of pipelines: `prune,tile{size=64},plan-memory`, also in MLIR's syntax with anchors, `builtin.module(...)`.

Errors have the position in the text: unknown passes, options and values, a pass in an anchor that it cannot run
on, and an order in which a pass could never get a program of a stage that it needs.
"""

from __future__ import annotations

from dataclasses import replace

from ..decl.neighbour_text import pass_neighbours
from ..decl.pipeline_text import named_pipelines
from ..support.diagnostics import Location, UserError
from ..support.spelling import did_you_mean
from .advice import way_to
from .contracts import STAGES, Stage, contract_of
from .pipeline import Passes, Pipeline, Step, options_of

_ANCHORS = ("builtin.module", "func.func")
_SHORT = {"module": "builtin.module"}


def parse_pipeline(text: str, passes: Passes, *, file: str = "<pipeline>") -> Pipeline:
    """`a,b{option=1 other=x},c`, possibly inside `builtin.module(...)` and, for passes on functions, `func.func(...)`.

    Raises UserError with the position in `text`.
    """
    reader = _Reader(text, passes, file)
    steps = reader.pipeline("", 0)
    reader.check_order()
    return Pipeline(tuple(steps), passes)


class _Reader:
    def __init__(self, text: str, passes: Passes, file: str):
        self.text, self.passes, self.file = text, passes, file
        self.at = 0
        self.read: list[tuple[Step, int]] = []
        self.named = {entry.name: entry.steps for entry in named_pipelines().entries}

    def error(self, message: str, at: int, hint: str = "") -> UserError:
        return UserError(message, Location(self.file, 1, at + 1), hint=hint, source=self.text)

    def pipeline(self, anchor: str, depth: int) -> list[Step]:
        if depth > 16:
            raise self.error("anchors nested too deeply", self.at)
        steps: list[Step] = []
        while True:
            self.space()
            start = self.at
            name = self.name()
            self.space()
            if self.peek() == "(" and name:
                steps += self.anchored(_SHORT.get(name, name), anchor, start, depth)
            elif name in self.named and name not in self.passes and self.peek() != "{":
                steps += self.steps_of(name, anchor, start)
            elif name:
                steps.append(self.step(name, anchor, start))
            elif steps or (depth == 0 and self.text.strip()):
                raise self.error("expected the name of a pass", start)
            self.space()
            if self.peek() == ",":
                self.at += 1
                continue
            if depth == 0 and self.at < len(self.text):
                raise self.error(f"unexpected '{self.text[self.at]}'", self.at)
            return steps

    def anchored(self, name: str, outer: str, start: int, depth: int) -> list[Step]:
        """Parses `name(...)`: the passes inside run on ops of that kind."""
        if name not in _ANCHORS:
            hint = f"'{name}' is a pass" if name in self.passes else did_you_mean(name, _ANCHORS)
            raise self.error(f"passes run on {' or '.join(_ANCHORS)}, not on '{name}'", start, hint)
        if outer == "func.func":
            raise self.error(f"there is no {name} in a func.func to run passes on", start)
        self.at += 1
        steps = self.pipeline("func.func" if name == "func.func" else "", depth + 1)
        if self.peek() != ")":
            raise self.error("expected ')'", self.at)
        self.at += 1
        return steps

    def steps_of(self, name: str, anchor: str, start: int) -> list[Step]:
        """The steps of a named pipeline, which replace its name."""
        if anchor:
            raise self.error(f"pipeline '{name}' runs on builtin.module, not on {anchor}", start)
        inner = _Reader(self.named[name], self.passes, f"pipeline '{name}'")
        steps = [replace(step, pipeline=name) for step in inner.pipeline("", 0)]
        self.read += [(step, start) for step in steps]
        return steps

    def step(self, name: str, anchor: str, start: int) -> Step:
        if name not in self.passes:
            if name in self.named:
                hint = f"it stands for passes, each with its own: see ngopt --help-pass {name}"
                raise self.error(f"pipeline '{name}' takes no options", start, hint)
            known = [*self.passes, *self.named]
            hint = pass_neighbours().get(name) or did_you_mean(name, known, "see --list-passes")
            raise self.error(f"unknown pass '{name}'", start, hint)
        function = self.passes[name]
        if anchor and contract_of(function).anchor != "function":
            hint = f"write it outside: builtin.module({name}, func.func(...))"
            raise self.error(f"pass '{name}' runs on builtin.module, not on {anchor}", start, hint)
        options: list[tuple[str, str]] = []
        if self.peek() == "{":
            close = self.text.find("}", self.at)
            if close < 0:
                raise self.error("'{' is not closed", self.at)
            for part in self.text[self.at + 1 : close].replace(",", " ").split():
                key, equals, value = part.partition("=")
                options.append((key, value if equals else "true"))
            self.at = close + 1
        step = Step(name, tuple(options), anchor)
        try:
            options_of(function, step)
        except UserError as error:
            raise self.error(error.diagnostics[0].message, start, error.diagnostics[0].hint) from None
        self.read.append((step, start))
        return step

    def check_order(self) -> None:
        """Raises UserError for the first pass that no program can reach in a stage that the pass takes."""
        possible: tuple[Stage, ...] = STAGES
        since = ""
        for step, start in self.read:
            contract = contract_of(self.passes[step.name])
            kept: tuple[Stage, ...] = tuple([s for s in possible if s in contract.needs])
            if not kept:
                raise self.error(
                    f"pass '{step.name}' takes a program of stage {' or '.join(contract.needs)}, but "
                    f"after '{since}' it is {' or '.join(possible)}",
                    start,
                    way_to(step.name, self.passes, possible, since),
                )
            if kept != possible or contract.gives:
                since = step.name
            possible = (contract.gives,) if contract.gives else kept

    def name(self) -> str:
        start = self.at
        while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] in "-_."):
            self.at += 1
        return self.text[start : self.at]

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""
