# SPDX-License-Identifier: Apache-2.0
"""Kernels written by hand, as whole planned modules, compiled and run beside the interpreter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ngmlir.codegen import cpu
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import assemble, host_target
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.words import from_text
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.target import Target


def host_with_vectors(bytes: int) -> Target:
    """This machine, with registers of so many bytes; where it has none so wide, the test is skipped."""
    host = host_target()
    if bytes > host.vector_bytes:
        pytest.skip(f"code with vectors of {bytes} bytes cannot run: this machine has {host.vector_bytes}")
    return replace(host, vector_bytes=bytes)


def planned(
    inputs: Mapping[str, str], outputs: Mapping[str, str], body: str, grid: Sequence[int] = (1,)
) -> str:
    """A module with one kernel: `inputs` and `outputs` are memref types by name; `%cN` is the index N."""
    read, written = (
        ", ".join(f"%{name}: {type}" for name, type in each.items()) for each in (inputs, outputs)
    )
    programs = ", ".join(f"%p{d} < {size}" for d, size in enumerate(grid))
    numbers = sorted({int(n) for n in re.findall(r"%c(\d+)\b", body)})
    constants = "\n".join(f"  %c{n} = ng.constant {n} : index" for n in numbers)
    given, made = (", ".join(f"%{name}" for name in each) for each in (inputs, outputs))
    outer = ", ".join(filter(None, (read, written)))
    return f"""
tile.kernel @k ins({read}) outs({written}) grid({programs}) {{
{constants}
{body}
  tile.return
}}
func.func @main({outer}, %arena: memref<0xi8>) attributes {{ng.arguments = {len(inputs)} : i64, ng.results = {len(outputs)} : i64}} {{
  tile.launch @k ins({given}) outs({made})
  func.return
}}
"""


def compiled(module: Module | str, arrays: Sequence[np.ndarray], target: Target | None = None) -> tuple:
    """The results of a planned module, as machine code gives them."""
    module = from_text(module) if isinstance(module, str) else module
    target = target or host_target()
    unit = cpu.emit(module, target)
    code = assemble(unit.llvm, target)
    return load(Artifact("object", code, unit.entries, target.key, unit.constants))(*arrays)


def interpreted(module: Module | str, arrays: Sequence[np.ndarray]) -> tuple:
    """The same, as the interpreter gives them."""
    return interpret(from_text(module) if isinstance(module, str) else module, *arrays)


def agree(text: str, *arrays: np.ndarray, target: Target | None = None, tolerance: float = 0.0) -> None:
    """Asserts that machine code and interpreter give the same: to the bit (any NaN is a NaN), or nearly."""
    module = from_text(text)
    got = compiled(module, arrays, target)
    want = interpreted(module, arrays)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if tolerance:
            a, b = ours.astype(np.float64), theirs.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        else:
            same_bits(ours, theirs)


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Equal bits, except that all NaNs are alike."""
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    a, b = ours.view(bits).copy(), theirs.view(bits).copy()
    if ours.dtype.kind == "f" or ours.dtype.name == "bfloat16":
        for array, where in ((a, ours), (b, theirs)):
            with np.errstate(invalid="ignore"):
                array[np.isnan(where.astype(np.float64))] = 12345
    wrong = np.argwhere(a != b)
    assert not len(wrong), (
        f"{len(wrong)} differ, first at {wrong[0]}: {ours[tuple(wrong[0])]} != {theirs[tuple(wrong[0])]}"
    )
