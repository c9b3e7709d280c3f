# SPDX-License-Identifier: Apache-2.0
"""The math library, and what is composed of it, through the whole compiler: every device gives the bits of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_artifact, resolve
from ngmlir.ir.core import Module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import FloatType
from ngmlir.ops import ng
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.graph.decompose import decompose
from ngmlir.passes.lower.expand_math import expand_math
from ngmlir.runtime import cpu, gpu
from ngmlir.runtime.cuda_sim import CudaSimDevice

SIZE = 301  # no multiple of a register or a block
#: What may be off from the reference is all the same alike on all devices.
NAMES = [n[3:] for n, op in ng.OPS.items() if op.definition and op.definition.errors]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5, 1e30, -1e20, 1e-42, 3e-310, 131072.0, 2.0**45]


def program(name: str, element: str) -> Module:
    type = f"tensor<{SIZE}x{element}>"
    definition = ng.OPS[f"ng.{name}"].definition
    assert definition is not None
    operands = ", ".join(["%x", "%y"][: len(definition.operands)])
    return from_text(
        f"func.func @main(%x: {type}, %y: {type}) -> {type} {{ %r = ng.{name} {operands} : {type} return %r : {type} }}"
    )


def arguments(element: str) -> list[np.ndarray]:
    random, dtype = np.random.default_rng(1), dtype_of(FloatType(element))
    with np.errstate(over="ignore"):
        x = np.concatenate([SPECIAL, random.normal(0, 3, SIZE - len(SPECIAL))]).astype(dtype)
        y = np.concatenate([random.normal(0, 3, SIZE - len(SPECIAL)), SPECIAL]).astype(dtype)
    return [x, y]


def bits(array: np.ndarray) -> np.ndarray:
    """The bits of an array, all NaNs alike."""
    clean = np.where(np.isnan(array.astype(np.float64)), array.dtype.type(np.nan), array)
    return np.ascontiguousarray(clean).view(f"u{array.dtype.itemsize}")


def on_cpu(module: Module, arrays: list[np.ndarray]) -> np.ndarray:
    return cpu.load(compile_artifact(module, "cpu"))(*arrays)[0]


def on_simulated_gpu(module: Module, arrays: list[np.ndarray]) -> np.ndarray:
    return gpu.load(compile_artifact(module, "cuda-sim"), CudaSimDevice()).run(arrays)[0]


@pytest.mark.parametrize("device", [on_cpu, on_simulated_gpu])
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_all_devices_give_the_bits_of_the_interpreter(name, element, device):
    module, arrays = program(name, element), arguments(element)
    target = resolve("cpu")
    (expected,) = run(expand_math(decompose(module, target), target), *arrays)
    found = device(module, arrays)
    assert np.array_equal(bits(found), bits(expected))
