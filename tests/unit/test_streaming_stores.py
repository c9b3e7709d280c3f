# SPDX-License-Identifier: Apache-2.0
"""Outputs greater than the caches are written past them where they are aligned; results do not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ngmlir.compiler import emit, lower
from ngmlir.llvm.machine import assemble, host_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.cpu import CpuExecutable, load
from ngmlir.support.artifact import Artifact
from ngmlir.support.memory import empty_bytes

TIED = "attributes {ng.tied = array<i64: 0, 1>}"
#: A machine for which some kilobytes are much.
SMALL = replace(host_target(), l2_bytes=256)


def built(text: str) -> tuple[str, CpuExecutable]:
    unit = emit(lower(from_text(text), SMALL), SMALL)
    artifact = Artifact("object", assemble(unit.llvm, SMALL), unit.entries, SMALL.key, unit.constants)
    return unit.llvm, load(artifact)


def placed(shape: tuple[int, ...], dtype: type, offset: int) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return empty_bytes(size + 64)[offset : offset + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("offset", [0, 16, 48])
@pytest.mark.parametrize("size", [1024, 40_000, 40_003])
@pytest.mark.parametrize("kind, dtype", [("f32", np.float32), ("f64", np.float64), ("i8", np.int8)])
def test_maps(size: int, offset: int, kind: str, dtype: type) -> None:
    type = f"tensor<{size}x{kind}>"
    text = f"func.func @main(%a: {type}, %o: {type}) -> {type} {TIED} {{\n  %r = ng.negative %a : {type}\n  return %r : {type}\n}}\n"
    llvm, executable = built(text)
    if size * np.dtype(dtype).itemsize >= 8 * SMALL.l2_bytes:
        assert "!nontemporal" in llvm and "fence seq_cst" in llvm
    x = (np.arange(size) % 100).astype(dtype)
    out = placed((size,), dtype, offset)
    executable.bind({1: out})(x)
    np.testing.assert_array_equal(out, -x)


@pytest.mark.parametrize("offset", [0, 32])
@pytest.mark.parametrize("shape", [(64, 128), (65, 70)])
def test_transposes(shape: tuple[int, int], offset: int) -> None:
    a, r = f"tensor<{shape[0]}x{shape[1]}xf32>", f"tensor<{shape[1]}x{shape[0]}xf32>"
    body = f"  %r = ng.transpose %a perm [1, 0] : ({a}) -> {r}\n  return %r : {r}\n"
    _, executable = built(f"func.func @main(%a: {a}, %o: {r}) -> {r} {TIED} {{\n{body}}}\n")
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    out = placed(shape[::-1], np.float32, offset)
    executable.bind({1: out})(x)
    np.testing.assert_array_equal(out, x.T)


def test_small_outputs_stay_in_the_caches() -> None:
    type = "tensor<64xf32>"
    text = f"func.func @main(%a: {type}) -> {type} {{\n  %r = ng.negative %a : {type}\n  return %r : {type}\n}}\n"
    assert "!nontemporal" not in built(text)[0]
