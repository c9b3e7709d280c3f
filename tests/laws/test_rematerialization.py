# SPDX-License-Identifier: Apache-2.0
"""Rematerialization: a program gives the same bits with whatever limit it has and whatever it is told not to keep; its plan is at most the
limit, and no larger than it was."""

from __future__ import annotations

import pytest
from comparing import assert_same_bits
from generators import arguments, modules
from hypothesis import given
from hypothesis import strategies as st
from keeping import CPU, GPU, assert_well_formed, until
from test_rematerialized_programs import noted
from watching import check_plan

from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.passes.lower.plan_memory import plan_memory, planned_bytes
from ngmlir.passes.lower.rematerialize import rematerialize
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target


def held(of: Module, target: Target, share: float) -> None:
    before = until("rematerialize", of, target)
    free = planned_bytes(plan_memory(rematerialize(before, target), target))
    limit = max(1, int(free * share))
    try:
        after = rematerialize(before, target, limit=limit)
    except UserError as error:
        assert "bytes" in str(error) and share < 1
        return
    assert_well_formed(after)
    planned = plan_memory(after, target)
    assert planned_bytes(planned) <= limit
    arrays = arguments(of)
    check_plan(after, planned, arrays, target.alignment)
    assert_same_bits(run(planned, *arrays), run(before, *arrays))


@given(of=modules(exact=True), share=st.sampled_from([1.0, 0.8, 0.6, 0.4]))
def test_limits_on_a_cpu(of: Module, share: float) -> None:
    held(of, CPU, share)


@given(of=modules(exact=True, control=False), share=st.sampled_from([0.8, 0.6]))
def test_limits_on_a_gpu(of: Module, share: float) -> None:
    held(of, GPU, share)


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@given(of=modules(exact=True, control=False), seed=st.integers(0, 1000))
def test_notes_change_no_bit_and_need_no_more(target: Target, of: Module, seed: int) -> None:
    marked = noted(of, seed)
    assert_well_formed(marked)
    arrays = arguments(of)
    wanted = run(of, *arrays)
    assert_same_bits(run(marked, *arrays), wanted)
    before = until("rematerialize", marked, target)
    after = rematerialize(before, target)
    assert "ng.recompute" not in str(after)
    assert_same_bits(run(after, *arrays), wanted)


@given(of=modules(exact=True), seed=st.integers(0, 1000))
def test_notes_beside_loops_and_branches(of: Module, seed: int) -> None:
    arrays = arguments(of)
    after = rematerialize(until("rematerialize", noted(of, seed), CPU), CPU)
    assert_same_bits(run(after, *arrays), run(of, *arrays))
