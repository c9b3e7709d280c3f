# SPDX-License-Identifier: Apache-2.0
"""Passes and pipelines. A pass is a function from module to module; its keyword parameters are its options, and its
contract declares which stages it takes."""

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
    """One pass with its options; `anchor` is `func.func` if it runs on functions only, `pipeline` the named pipeline that it is
    from."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    anchor: str = ""
    pipeline: str = ""

    def __str__(self) -> str:
        inner = " ".join(f"{k}={v}" for k, v in self.options)
        text = f"{self.name}{{{inner}}}" if inner else self.name
        return f"{self.anchor}({text})" if self.anchor else text


class Watch(Protocol):
    """An observer that is called before and after each pass; it may print, time or compare."""

    def before(self, step: Step, module: Module) -> None: ...
    def after(self, step: Step, module: Module, seconds: float) -> None: ...


@dataclass(frozen=True)
class Pipeline:
    """Steps in order. `run` returns the module after the last one; with `verify`, the result of each pass is checked."""

    steps: tuple[Step, ...]
    passes: Passes = field(repr=False)

    def __str__(self) -> str:
        return ",".join(map(str, self.steps))

    def from_stage_of(self, module: Module) -> Pipeline:
        """The steps from the first one that takes a module of this stage; all steps if none does."""
        for at, step in enumerate(self.steps):
            needs = contract_of(self.passes[step.name]).needs
            if needs != STAGES and any(not violations(module, stage) for stage in needs):
                return replace(self, steps=self.steps[at:])
        return self

    def going_on_with(self, module: Module) -> Pipeline:
        """Drops steps that the module went through already from the named pipelines at the beginning: such a pipeline says which stage
        to reach, not from which. Passes that are named one by one all run."""
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
        stage: Stage | None = None  # unknown until a pass needs or returns one
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
    """The options of a step as Python values. Raises UserError for an unknown name or a value that is not allowed."""
    return option_values(function, step.name, step.options)


def stage_of(module: Module, name: str, passes: Passes) -> Stage:
    """The stage of a module, among those that pass `name` needs. Raises UserError with the violations of the last of them,
    and a hint what to run first."""
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
    # A plain program satisfies the rules of `named` and `fused`, too.
    found_in = "plain" if "plain" in others else others[0] if others else "none"
    asked = Diagnostic(message + found_in, severity="note")
    hint = way_to(name, passes, others) if others else ""
    raise UserError([replace(d, notes=(*d.notes, asked), hint=hint or d.hint) for d in found])


def _functions_only(before: Module, after: Module) -> Module:
    """The module `before` with its functions replaced by those of `after`, which are in the same order."""
    functions = iter([op for op in after.ops if op.name == "func.func"])
    return before.with_ops([next(functions) if op.name == "func.func" else op for op in before.ops])


def _check(module: Module, name: str, stage: Stage | None) -> None:
    """Raises Bug if the result of pass `name` is no valid module, or not of the stage of its contract."""
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
    """The first paragraph of a pass's docstring, which is its help."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
