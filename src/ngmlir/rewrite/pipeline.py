# SPDX-License-Identifier: Apache-2.0
"""Passes and pipelines. A pass is a function from module to module; its keyword parameters are its options.

`prune,tile{size=64},plan-memory` is a pipeline; MLIR's anchored spelling `builtin.module(...)` is taken too.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ..ir.core import Module
from ..ir.verifier import check
from ..support.diagnostics import Bug, Location, NgmlirError, UserError
from ..support.spelling import did_you_mean
from ..support.target import Target

Pass: TypeAlias = Callable[..., Module]
#: Pass name -> function `(module, target, *, options) -> module`.
Passes: TypeAlias = Mapping[str, Pass]


@dataclass(frozen=True)
class Step:
    """One pass with its options."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        inner = " ".join(f"{k}={v}" for k, v in self.options)
        return f"{self.name}{{{inner}}}" if inner else self.name


class Watch(Protocol):
    """Told before and after each pass; may print, time or compare."""

    def before(self, step: Step, module: Module) -> None: ...
    def after(self, step: Step, module: Module, seconds: float) -> None: ...


@dataclass(frozen=True)
class Pipeline:
    """Steps in order. `run` gives the last module; with `verify`, each pass's output is checked."""

    steps: tuple[Step, ...]
    passes: Passes = field(repr=False)

    def __str__(self) -> str:
        return ",".join(map(str, self.steps))

    def run(
        self, module: Module, target: Target, *, verify: bool = False, watch: Sequence[Watch] = ()
    ) -> Module:
        for step in self.steps:
            for observer in watch:
                observer.before(step, module)
            started = time.perf_counter()
            function = self.passes[step.name]
            try:
                module = function(module, target, **options_of(function, step))
            except NgmlirError:
                raise
            except RecursionError:
                raise UserError(
                    "the program is nested too deeply", hint=f"seen in pass {step.name}"
                ) from None
            seconds = time.perf_counter() - started
            if verify:
                try:
                    check(module, after=step.name)
                except UserError as error:
                    raise Bug(error.diagnostics) from error
            for observer in watch:
                observer.after(step, module, seconds)
        return module


def name_of(function: Pass) -> str:
    """`plan_memory` -> `plan-memory`."""
    return function.__name__.replace("_", "-")


def summary_of(function: Pass) -> str:
    """The first sentence of a pass's docstring: its help."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")


def option_fields(function: Pass) -> dict[str, inspect.Parameter]:
    """The options of a pass: its keyword-only parameters, by their spelling in text."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name.replace("_", "-"): p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def options_of(function: Pass, step: Step) -> dict[str, Any]:
    """The options of a step as Python values; UserError for an unknown name or a value of the wrong kind."""
    fields = option_fields(function)
    out: dict[str, Any] = {}
    for name, text in step.options:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise UserError(f"pass '{step.name}' has no option '{name}'", hint=f"its options: {known}")
        out[fields[name].name] = _option(step.name, name, text, fields[name].default)
    return out


def _option(step: str, name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text not in ("true", "false", "0", "1"):
            raise UserError(f"option '{name}' of '{step}' must be true or false, not '{text}'")
        return text in ("true", "1")
    for kind in (int, float):
        if isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                raise UserError(f"option '{name}' of '{step}' must be a number, not '{text}'") from None
    return text


def parse_pipeline(text: str, passes: Passes, *, file: str = "<pipeline>") -> Pipeline:
    """`a,b{option=1 other=x},c`, possibly inside `builtin.module(...)` and `func.func(...)`."""
    return Pipeline(tuple(_Reader(text, passes, file).pipeline(0)), passes)


class _Reader:
    def __init__(self, text: str, passes: Passes, file: str):
        self.text, self.passes, self.file = text, passes, file
        self.at = 0

    def error(self, message: str, at: int, hint: str = "") -> UserError:
        return UserError(message, Location(self.file, 1, at + 1), hint=hint, source=self.text)

    def pipeline(self, depth: int) -> list[Step]:
        if depth > 16:
            raise self.error("anchors nested too deeply", self.at)
        steps: list[Step] = []
        while True:
            self.space()
            start = self.at
            while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] in "-_."):
                self.at += 1
            name = self.text[start : self.at]
            self.space()
            if self.peek() == "(" and name in ("builtin.module", "func.func", "module"):
                self.at += 1
                steps += self.pipeline(depth + 1)
                if self.peek() != ")":
                    raise self.error("expected ')'", self.at)
                self.at += 1
            elif name:
                steps.append(self.step(name, start))
            elif steps or (depth == 0 and self.text.strip()):
                raise self.error("expected the name of a pass", start)
            self.space()
            if self.peek() == ",":
                self.at += 1
                continue
            if depth == 0 and self.at < len(self.text):
                raise self.error(f"unexpected '{self.text[self.at]}'", self.at)
            return steps

    def step(self, name: str, start: int) -> Step:
        if name not in self.passes:
            hint = did_you_mean(name, self.passes, "see --list-passes")
            raise self.error(f"unknown pass '{name}'", start, hint)
        options: list[tuple[str, str]] = []
        if self.peek() == "{":
            close = self.text.find("}", self.at)
            if close < 0:
                raise self.error("'{' is not closed", self.at)
            for part in self.text[self.at + 1 : close].replace(",", " ").split():
                key, equals, value = part.partition("=")
                options.append((key, value if equals else "true"))
            self.at = close + 1
        step = Step(name, tuple(options))
        options_of(self.passes[name], step)
        return step

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""
