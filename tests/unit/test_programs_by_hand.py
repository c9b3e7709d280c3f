# SPDX-License-Identifier: Apache-2.0
"""Small programs that a person writes and no graph gives: scalars in functions, values returned as they came, indices."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES
from ngmlir.support.diagnostics import NgmlirError

TARGETS = ["cpu", "cuda-sim"]
ELEMENTS = [*DTYPES, "index"]


def one(element: str) -> str:
    return "true" if element == "i1" else "1.0" if element[0] in "fb" else "1"


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "text",
    [
        "func.func @main() -> T {\n  %0 = ng.constant 1 : T\n  return %0 : T\n}",
        "func.func @main(%x: T) -> (T, T) {\n  return %x, %x : T, T\n}",
        "func.func @main(%x: T) -> T {\n  return %x : T\n}",
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = ng.constant 1 : T\n"
        "  %1 = ng.select %2, %0, %0 : (i1, T, T) -> T\n  %2 = ng.constant true : i1\n  return %x : tensor<2xf32>\n}",
        "func.func @main(%x: tensor<i1>) -> T {\n  %r = ng.if %x -> T {\n    %k = ng.constant 1 : T\n"
        "    ng.yield %k : T\n  } {\n    %k = ng.constant 1 : T\n    ng.yield %k : T\n  }\n  return %r : T\n}",
        "func.func private @f(%x: T) -> T {\n  return %x : T\n}\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %k = ng.constant 1 : T\n  %1 = func.call @f(%k) : (T) -> T\n  return %x : tensor<2xf32>\n}",
    ],
)
def test_scalars_in_functions_are_answered_at_their_line(text: str, target: str, element: str) -> None:
    program = text.replace("constant 1", f"constant {one(element)}").replace("T", element)
    try:
        made = compile_module(from_text(program, file="p.ngir"), target)
    except NgmlirError as error:
        for found in error.diagnostics:
            assert found.location.file == "p.ngir" and found.location.line > 0
    else:
        (result,) = made(np.ones(2, np.float32))  # the scalar was not needed
        np.testing.assert_array_equal(result, 1)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", TARGETS)
def test_one_value_is_returned_twice(target: str, element: str) -> None:
    for shape in ("", "3x", "0x"):
        type = f"tensor<{shape}{element}>"
        text = (
            f"func.func @main(%x: {type}) -> ({type}, {type}, {type}, {type}) {{\n"
            f"  %0 = ng.constant dense<{'' if shape == '0x' else one(element)}> : {type}\n"
            f"  return %x, %0, %x, %0 : {type}, {type}, {type}, {type}\n}}"
        )
        given = np.zeros([int(d) for d in shape.split("x") if d], DTYPES.get(element, np.int64))
        results = compile_module(from_text(text), target)(given)
        for result, value in zip(map(np.asarray, results), (0, 1, 0, 1), strict=True):
            assert result.dtype == given.dtype and result.shape == given.shape
            expected = np.full_like(given, 1) if value else given  # not every type has a zero
            assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_tensors_of_indices(target: str) -> None:
    module: Module = from_text("""
func.func @main(%x: tensor<3xindex>, %y: tensor<3xf32>) -> (tensor<3xindex>, tensor<3xindex>, tensor<3xi1>, tensor<index>) {
  %c = ng.constant dense<[1, 2, -3]> : tensor<3xindex>
  %0 = ng.floor_divide %x, %c : tensor<3xindex>
  %1 = ng.cast %y : (tensor<3xf32>) -> tensor<3xindex>
  %2 = ng.less %x, %c : (tensor<3xindex>, tensor<3xindex>) -> tensor<3xi1>
  %3 = ng.sum %x axes [0] : (tensor<3xindex>) -> tensor<index>
  return %0, %1, %2, %3 : tensor<3xindex>, tensor<3xindex>, tensor<3xi1>, tensor<index>
}""")
    given = [np.array([2**40, -7, 5]), np.array([1.5, -2.5, 1e10], np.float32)]
    for got, want in zip(compile_module(module, target)(*given), run(module, *given), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
