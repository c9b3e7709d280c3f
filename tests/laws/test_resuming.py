# SPDX-License-Identifier: Apache-2.0
"""Lowering goes on from whatever stage a program stands at: as text after any pass, it compiles to what it means."""

from __future__ import annotations

from random import Random

import pytest
from comparing import assert_close
from generators import arguments, grown

from ngmlir.compiler import lower, resolve
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline import Step
from ngmlir.rewrite.pipeline_parser import parse_pipeline


class Stages:
    """Keeps the program after each pass that changed it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.last: Module | None = None

    def before(self, step: Step, module: Module) -> None:
        self.last = module

    def after(self, step: Step, module: Module, seconds: float) -> None:
        if module is not self.last:
            self.texts[to_text(module)] = step.name


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("target", "pipeline"), [("x86-64-v3", "cpu"), ("sm_90a", "gpu")])
def test_every_stage_is_a_beginning(target: str, pipeline: str, seed: int) -> None:
    random, machine = Random(seed), resolve(target)
    module = grown(lambda low, high: random.randint(low, high))
    arrays = arguments(module)
    wanted = run(module, *arrays)
    stages = Stages()
    lower(module, machine, watch=[stages])
    for text, after in stages.texts.items():
        given = from_text(text)
        for resumed in (
            lower(given, machine, verify=True),
            parse_pipeline(pipeline, PASSES).going_on_with(given).run(given, machine, verify=True),
        ):
            try:
                assert_close(run(resumed, *arrays), wanted)
            except AssertionError as error:
                error.add_note(f"seed {seed}, gone on after {after}")
                raise


def test_passes_that_are_named_all_run() -> None:
    """Only a named pipeline says where a program is to get; passes one by one are what is asked for."""
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = ng.exp %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"
    fused = lower(from_text(text), "x86-64-v3", "canonical,fuse")
    steps = parse_pipeline("prune,cpu,dead-code", PASSES)
    assert steps.going_on_with(fused) == steps
    names = [step.name for step in parse_pipeline("cpu,dead-code", PASSES).going_on_with(fused).steps]
    assert names[:3] == ["attention", "fuse", "narrow-results"] and names[-2:] == ["barriers", "dead-code"]
