# SPDX-License-Identifier: Apache-2.0
"""Hints about passes to run first: for a pass that needs a program of another stage, and for an op without code generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..decl.pipeline_text import PipelineText, named_pipelines, step_names
from ..ir.core import Op, UnregisteredOp
from ..ops.decompositions import DECOMPOSITIONS
from ..ops.library import in_library
from .contracts import STAGES, Stage, contract_of


def way_to(
    name: str, passes: Mapping[str, Callable[..., Any]], stages: tuple[Stage, ...], since: str = ""
) -> str:
    """A hint how a program of one of these stages, which pass `since` led to, gets to a stage that pass `name` needs; ''
    where no pass does that."""
    needs = contract_of(passes[name]).needs
    if min(map(STAGES.index, needs)) < min(map(STAGES.index, stages)):
        past = since or " or ".join(_giving(passes, stages))
        return f"run {name} before {past}" if past else ""
    steps, pipeline = _usual(name, passes, stages)
    if steps:
        return f"run {steps} before {name}, as the pipeline {pipeline} does"
    before = " or ".join(
        name for name in _giving(passes, needs) if {*contract_of(passes[name]).needs} & {*stages}
    )
    return f"run {before} before {name}" if before else ""


def _giving(passes: Mapping[str, Callable[..., Any]], stages: tuple[Stage, ...]) -> list[str]:
    return [name for name, function in passes.items() if contract_of(function).gives in stages]


def _usual(name: str, passes: Mapping[str, Callable[..., Any]], stages: tuple[Stage, ...]) -> tuple[str, str]:
    """The steps before a pass in the longest named pipeline that contains it, from the first step that takes a program of these stages
    and leads to another stage; and the name of the pipeline."""
    for entry in _longest_first():
        steps = step_names(entry.steps)
        if name not in steps or not set(steps) <= set(passes):
            continue
        before = steps[: steps.index(name)]
        for at, step in enumerate(before):
            contract = contract_of(passes[step])
            takes = contract.needs != STAGES and set(contract.needs) & set(stages)
            if takes and contract.gives not in stages:
                return _abbreviated(before[at:]), entry.name
    return "", ""


def _abbreviated(steps: list[str]) -> str:
    """The steps as text, with those of named pipelines replaced by the names."""
    text = ",".join(steps)
    for entry in _longest_first():
        text = f",{text},".replace(f",{','.join(step_names(entry.steps))},", f",{entry.name},").strip(",")
    return text


def _longest_first() -> list[PipelineText]:
    return sorted(named_pipelines().entries, key=lambda entry: -len(entry.steps))


def pass_for(op: Op) -> str:
    """The hint for an op without code generation: the pass that replaces it by other ops; '' where there is none."""
    if isinstance(op, UnregisteredOp):
        return "ops of other dialects are kept as text only; write it with ops of ng"
    if op.name in DECOMPOSITIONS:
        return "run decompose first, as the pipelines cpu and gpu do"
    return "run expand-math first, as the pipelines cpu and gpu do" if in_library(op) else ""
