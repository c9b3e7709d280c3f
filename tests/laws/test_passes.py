# SPDX-License-Identifier: Apache-2.0
"""What holds for every pass on every program: it keeps the meaning, its output is well-formed and can be
written down, it leaves its input alone, and it does the same each time."""

from __future__ import annotations

import pytest
from comparing import assert_close, assert_same_bits, largest_number
from generators import arguments, modules
from hard import HARD, WITH_LOOPS
from hypothesis import given
from keeping import CPU, GPU, LATE, SETTLING, assert_well_formed, stages
from tables import compiled

from ngmlir.compiler import pipeline_for
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.support.target import Target


@pytest.mark.parametrize("name", [p for p in PASSES if p not in LATE])
@given(of=modules(exact=True))
def test_pass_keeps_every_bit(name: str, of: Module) -> None:
    arrays = arguments(of)
    made = PASSES[name](of, CPU)
    assert_well_formed(made)
    if name != "expand-math":  # random_normal
        assert_same_bits(run(made, *arrays), run(of, *arrays), name)


@given(of=modules(exact=True))
def test_way_to_the_cpu_keeps_every_bit(of: Module) -> None:
    arrays = arguments(of)
    wanted = run(of, *arrays)
    for name, stage in stages(of, CPU):
        assert_same_bits(run(stage, *arrays), wanted, name)


@given(of=modules(exact=True))
def test_way_to_a_gpu_keeps_every_bit(of: Module) -> None:
    arrays = arguments(of)
    wanted = run(of, *arrays)
    for name, stage in stages(of, GPU):
        assert_same_bits(run(stage, *arrays), wanted, name)


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@given(of=modules(control=False))
def test_way_down_keeps_numbers(target: Target, of: Module) -> None:
    """With sums, products and functions whose last bits depend on the order and on the library."""
    arrays = arguments(of)
    wanted, scale = run(of, *arrays), largest_number(of, arrays)
    for name, stage in stages(of, target):
        assert_close(run(stage, *arrays), wanted, scale, name)


@given(of=modules())
def test_way_down_keeps_numbers_in_loops(of: Module) -> None:
    arrays = arguments(of)
    wanted, scale = run(of, *arrays), largest_number(of, arrays)
    *_, (name, last) = stages(of, CPU)
    assert_close(run(last, *arrays), wanted, scale, name)


@given(of=modules(exact=True))
def test_programs_of_a_kernel_may_run_in_any_order(of: Module) -> None:
    arrays = arguments(of)
    *_, (_, last) = stages(of, CPU)
    assert_same_bits(run(last, *arrays, order=1), run(last, *arrays))


@pytest.mark.parametrize("text", [*HARD.values(), *WITH_LOOPS.values()], ids=[*HARD, *WITH_LOOPS])
def test_hard_program(text: str) -> None:
    of = from_text(f"func.func @main{text}")
    arrays = arguments(of, 5)
    wanted = run(of, *arrays)
    for target in (CPU, GPU) if text in HARD.values() else (CPU,):
        for name, stage in stages(of, target):
            assert_same_bits(run(stage, *arrays), wanted, f"{target.name} after {name}")
    assert_same_bits(compiled(of, arrays), wanted, "compiled")


@pytest.mark.parametrize("name", [n for n in SETTLING if n in PASSES])
@given(of=modules())
def test_pass_settles(name: str, of: Module) -> None:
    once = PASSES[name](of, CPU)
    assert to_text(PASSES[name](once, CPU)) == to_text(once)


def test_every_pass_is_on_some_way() -> None:
    used = {step.name for target in (CPU, GPU) for step in pipeline_for(target, checked=True).steps}
    assert used == set(PASSES)
