# SPDX-License-Identifier: Apache-2.0
"""Machine code of programs that gather computes what the interpreter does, also at indices from the end and out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fused_gathers import FUSED_GATHERS

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Value
from ngmlir.ir.types import IntegerType, element_type, shape_of
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES


def array_for(argument: Value, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Numbers, or indices around the lengths of the programs."""
    element, shape = element_type(argument.type), shape_of(argument.type)
    if not isinstance(element, IntegerType):
        return random.standard_normal(shape).astype(DTYPES[element.text])
    return random.integers(0 if element.unsigned else -60, 60, shape).astype(DTYPES[element.text])


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("text", FUSED_GATHERS.values(), ids=FUSED_GATHERS)
def test_against_the_interpreter(text: str, target: str) -> None:
    module = from_text(f"func.func @main{text}")
    random = np.random.default_rng(5)
    arrays = [array_for(argument, random) for argument in module.ops[0].block.args]
    wanted = interpret(module, *arrays)
    for one, other in zip(compile_module(module, target)(*arrays), wanted, strict=True):
        made, meant = (np.asarray(x).astype(np.float64) for x in (one, other))
        np.testing.assert_allclose(made, meant, rtol=1e-5, atol=1e-5)
