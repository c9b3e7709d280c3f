# SPDX-License-Identifier: Apache-2.0
"""Passes and pipelines. A pass is a function from module to module; its keyword parameters are its options, and its
contract says which programs it takes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from ..ir.core import Module
from ..ir.verifier import check
from ..ops.accesses import check_accesses
from ..ops.copies import check_copies
from ..support.collector import collecting_rarely
from ..support.diagnostics import Bug, Diagnostic, NgmlirError, UserError
from ..support.lengths import guarding
from ..support.target import Target
from .advice import way_to
from .contracts import STAGES, Stage, contract_of
from .options import option_values
from .remarks import remark
from .stages import violations

Pass: TypeAlias = Callable[..., Module]
#: Pass name -> function `(module, target, *, options) -> module`.
Passes: TypeAlias = Mapping[str, Pass]


@dataclass(frozen=True)
class Step:
    """One pass with its options; `anchor` is `func.func` where only functions go through it, `pipeline` the named pipeline
    that it was written as a part of."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    anchor: str = ""
    pipeline: str = ""

    def __str__(self) -> str:
        inner = " ".join(f"{k}={v}" for k, v in self.options)
        text = f"{self.name}{{{inner}}}" if inner else self.name
        return f"{self.anchor}({text})" if self.anchor else text


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

    def from_stage_of(self, module: Module) -> Pipeline:
        """The steps that are left for a module which went through the first ones already; all where none takes it."""
        for at, step in enumerate(self.steps):
            needs = contract_of(self.passes[step.name]).needs
            if needs != STAGES and any(not violations(module, stage) for stage in needs):
                return replace(self, steps=self.steps[at:])
        return self

    def going_on_with(self, module: Module) -> Pipeline:
        """The steps that are left of named pipelines at the beginning: they say where a program is to get, not from where.
        Passes that are named one by one all run."""
        count = next((at for at, step in enumerate(self.steps) if not step.pipeline), len(self.steps))
        left = replace(self, steps=self.steps[:count]).from_stage_of(module)
        return replace(self, steps=(*left.steps, *self.steps[count:]))

    def run(
        self, module: Module, target: Target, *, verify: bool = False, watch: Sequence[Watch] = ()
    ) -> Module:
        with collecting_rarely(), guarding() as guards:
            made = self._run(module, target, verify, watch)
        for guard in guards:
            remark("lengths", f"what the passes made is right where {guard}", module.location)
        return made

    def _run(self, module: Module, target: Target, verify: bool, watch: Sequence[Watch]) -> Module:
        stage: Stage | None = None  # not known until a pass asks for one or leads to one
        for step in self.steps:
            for observer in watch:
                observer.before(step, module)
            started = time.perf_counter()
            function = self.passes[step.name]
            contract = contract_of(function)
            if stage is None and contract.needs != STAGES:
                stage = stage_of(module, step.name, self.passes)
            try:
                made = function(module, target, **options_of(function, step))
            except NgmlirError:
                raise
            except RecursionError:
                raise UserError("the program is nested too deeply", hint=f"in pass {step.name}") from None
            module = _functions_only(module, made) if step.anchor else made
            seconds = time.perf_counter() - started
            stage = contract.gives or stage
            if verify:
                _check(module, step.name, stage)
            for observer in watch:
                observer.after(step, module, seconds)
        return module


def options_of(function: Pass, step: Step) -> dict[str, Any]:
    """The options of a step as Python values; UserError for an unknown name or a value that it does not take."""
    return option_values(function, step.name, step.options)


def stage_of(module: Module, name: str, passes: Passes) -> Stage:
    """Which of the stages that pass `name` needs a module is in; UserError with what keeps it from the last of them,
    and with what to run first."""
    needs = contract_of(passes[name]).needs
    found: list[Diagnostic] = []
    for stage in needs:
        found = violations(module, stage)
        if not found:
            return stage
    others: tuple[Stage, ...] = tuple(
        [stage for stage in STAGES if stage not in needs and not violations(module, stage)]
    )
    message = f"pass '{name}' takes a program of stage {' or '.join(needs)}, and this is "
    # A plain program is one with names too, and one in which nothing is fused.
    found_in = "plain" if "plain" in others else others[0] if others else "none"
    asked = Diagnostic(message + found_in, severity="note")
    hint = way_to(name, passes, others) if others else ""
    raise UserError([replace(d, notes=(*d.notes, asked), hint=hint or d.hint) for d in found])


def _functions_only(before: Module, after: Module) -> Module:
    """The functions of `after` among the other ops of `before`; a pass on functions keeps their order."""
    functions = iter([op for op in after.ops if op.name == "func.func"])
    return before.with_ops([next(functions) if op.name == "func.func" else op for op in before.ops])


def _check(module: Module, name: str, stage: Stage | None) -> None:
    """Bug if what pass `name` made is no valid module, or not of the stage that it promises."""
    try:
        check(module, after=name)
        check_accesses(module)
        check_copies(module)
    except UserError as error:
        raise Bug(error.diagnostics) from error
    found = violations(module, stage) if stage is not None else []
    if found:
        raise Bug([Diagnostic(f"the module is not {stage} after {name}"), *found])


def name_of(function: Pass) -> str:
    """`plan_memory` -> `plan-memory`."""
    return function.__name__.replace("_", "-")


def summary_of(function: Pass) -> str:
    """The first sentence of a pass's docstring: its help."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
