# SPDX-License-Identifier: Apache-2.0
"""Bounds checks: a damaged kernel touches nothing outside its buffers, and is told of exactly where the reference, which
looks at every access, tells of it; a good one computes what it did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from comparing import assert_same_bits
from generators import arguments, modules
from hypothesis import given, settings
from hypothesis import strategies as st

from ngmlir.compiler import compile_module, lower
from ngmlir.ir.core import Module
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.accesses import check_accesses
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.lower.check_bounds import check_bounds
from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target

CPU, GPU = cpu_target("x86-64-v3"), nvptx_target("sm_90a")


def damaged(of: Module, which: int, by: int) -> Module:
    """The planned program with one index constant of a kernel moved, or one mask taken away; as a person's file, in
    which every op has a line."""
    lines = to_text(of).split("\n")
    kernel = next((i for i, line in enumerate(lines) if "tile.kernel" in line), len(lines))
    weak = [i for i in range(kernel, len(lines)) if re.search(r"constant -?\d+ : index|\{masked\}", lines[i])]
    if weak:
        at = weak[which % len(weak)]
        line = lines[at].replace(" {masked}", "")
        lines[at] = re.sub(r"(constant )(-?\d+)( : index)", lambda m: f"{m[1]}{int(m[2]) + by}{m[3]}", line)
    return from_text("\n".join(lines), file="damaged.ngir", verify=False)


def complaints(of: Module, arrays: Sequence[Any]) -> str:
    try:
        run(of, *arrays)
    except UserError as error:
        return str(error)
    return ""


def hold(of: Module, arrays: Sequence[Any], target: Target, device: str) -> Sequence[Any]:
    """The law for one planned program; gives what it computes, or [] where it is stopped."""
    wanted = complaints(of, arrays)
    safe = check_bounds(of, target)
    check(safe)
    check_accesses(safe)
    assert to_text(from_text(to_text(safe))) == to_text(safe)
    assert check_bounds(safe, target) is safe
    assert not complaints(safe, arrays), "a checked program leaves its buffers"
    try:
        got = [np.asarray(array) for array in compile_module(safe, device)(*arrays)]
    except UserError as error:
        lines = {d.location.line for d in error.diagnostics}
        assert wanted, f"only the checks object: {error}"
        assert any(f":{line}:" in wanted for line in lines), f"{error}\n{wanted}"
        return []
    except SimulationFault as fault:
        assert fault.kind == "race", (
            "the checks let a fault through"
        )  # inside of buffers blocks may meet, once damaged
        return []
    assert not wanted, f"the checks have nothing to say: {wanted}"
    return got


@given(of=modules(exact=True), which=st.integers(1, 60), by=st.sampled_from([1, -1, 7, -100, 1000]))
def test_a_damaged_program_on_a_cpu(of: Module, which: int, by: int) -> None:
    hold(damaged(lower(of, CPU), which, by), arguments(of), CPU, "cpu")


@settings(max_examples=8)
@given(of=modules(exact=True, control=False), which=st.integers(1, 60), by=st.sampled_from([1, -1, 7, -100]))
def test_a_damaged_program_on_a_gpu(of: Module, which: int, by: int) -> None:
    hold(damaged(lower(of, GPU), which, by), arguments(of), GPU, "cuda-sim")


@given(of=modules(exact=True))
def test_a_good_program(of: Module) -> None:
    arrays = arguments(of)
    assert_same_bits(hold(lower(of, CPU), arrays, CPU, "cpu"), run(of, *arrays))
