# SPDX-License-Identifier: Apache-2.0
"""One program per kind of kernel, compiled for each device that is here, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir import compiler
from ngmlir.ir.literals import dtype_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

#: op | operand types | result type
PROGRAMS = """
ng.transpose %a perm [1, 0] | tensor<37x53xf32> | tensor<53x37xf32>
ng.transpose %a perm [0, 2, 1] | tensor<3x37x53xf32> | tensor<3x53x37xf32>
ng.transpose %a perm [2, 0, 1] | tensor<3x5x7xi8> | tensor<7x3x5xi8>
ng.transpose %a perm [1, 0, 2] | tensor<3x5x70xf64> | tensor<5x3x70xf64>
ng.slice %a from [0, 2] to [4, -1] step [2, -1] | tensor<4x3xf32> | tensor<2x3xf32>
ng.slice %a from [1, 3] to [40, 90] step [3, 2] | tensor<40x100xf32> | tensor<13x44xf32>
ng.pad %a low [1, 0] high [1, 2] | tensor<4x3xf32> | tensor<6x5xf32>
ng.pad %a low [1, 17] high [1, 2] | tensor<4x300xf32> | tensor<6x319xf32>
ng.windows %a axes [1] steps [2] dilations [1] | tensor<2x9x3xf32> | tensor<3x2x4x3xf32>
ng.windows %a axes [1, 2] steps [2, 1] dilations [1, 2] | tensor<2x9x11x3xf32> | tensor<3x2x2x4x9x3xf32>
ng.windows %a axes [2, 3] steps [2, 2] dilations [1, 1] | tensor<2x3x13x17xi8> | tensor<3x3x2x3x6x8xi8>
ng.windows %a axes [0] steps [1] dilations [1] | tensor<5xf64> | tensor<5x1xf64>
ng.windows %a axes [0] steps [7] dilations [1] | tensor<100xf32> | tensor<1x15xf32>
ng.overlap_add %a axes [1] steps [2] dilations [1] | tensor<3x2x4x3xf32> | tensor<2x9x3xf32>
ng.overlap_add %a axes [1, 2] steps [2, 1] dilations [1, 2] | tensor<3x2x2x4x9x3xf32> | tensor<2x9x11x3xf32>
ng.overlap_add %a axes [2, 3] steps [2, 2] dilations [1, 1] | tensor<3x3x2x3x6x8xi8> | tensor<2x3x13x17xi8>
ng.overlap_add %a axes [2, 3] steps [2, 3] dilations [1, 2] | tensor<3x3x2x3x6x30xbf16> | tensor<2x3x14x93xbf16>
ng.overlap_add %a axes [0] steps [1] dilations [1] | tensor<5x1xf64> | tensor<5xf64>
ng.overlap_add %a axes [0] steps [7] dilations [1] | tensor<1x15xf32> | tensor<100xf32>
ng.overlap_add %a axes [0] steps [4] dilations [6] | tensor<5x200xi32> | tensor<823xi32>
ng.first_max %a axes [0, 2] | tensor<3x33x10xf32> | tensor<33xf32>
ng.concatenate %a, %b axis 0 | tensor<4x3xf32> , tensor<2x3xf32> | tensor<6x3xf32>
ng.concatenate %a, %b axis 1 | tensor<4x30xf32> , tensor<4x50xf32> | tensor<4x80xf32>
ng.gather %a[%b] axis 0 | tensor<10x3xf32> , tensor<4xi32> | tensor<4x3xf32>
ng.gather %a[%b] axis 1 | tensor<10x30xf32> , tensor<4x5xi64> | tensor<10x4x5xf32>
ng.gather_elements %a[%b] axis 1 | tensor<4x30xf32> , tensor<4x20xi32> | tensor<4x20xf32>
ng.gather_elements %a[%b] axis 0 | tensor<4x30xf32> , tensor<2x30xi32> | tensor<2x30xf32>
ng.scatter %a[%b], %c axis 0 {combine = "add"} | tensor<10x3xf32> , tensor<4xi32> , tensor<4x3xf32> | tensor<10x3xf32>
ng.scatter %a[%b], %c axis 0 {combine = "set"} | tensor<10xf32> , tensor<40xi32> , tensor<40xf32> | tensor<10xf32>
ng.scatter %a[%b], %c axis 0 {combine = "set"} | tensor<10xf32> , tensor<700xi32> , tensor<700xf32> | tensor<10xf32>
ng.argmax %a axes [1] | tensor<4x1000xf32> | tensor<4xi32>
ng.argmin %a axes [0] | tensor<40x100xf32> | tensor<100xi64>
ng.argmax %a axes [0, 2] | tensor<4x5x6xi32> | tensor<5xi32>
ng.argmax %a axes [0] | tensor<7xf64> | tensor<i32>
ng.cumulative_sum %a axis 1 | tensor<4x1000xf32> | tensor<4x1000xf32>
ng.cumulative_sum %a axis 1 {reverse = true, exclusive = true} | tensor<4x1000xf32> | tensor<4x1000xf32>
ng.cumulative_max %a axis 0 | tensor<40x100xi32> | tensor<40x100xi32>
ng.cumulative_product %a axis 0 {exclusive = true} | tensor<40xf64> | tensor<40xf64>
ng.one_hot %a axis 1 | tensor<4xi32> | tensor<4x10xf32>
ng.softmax %a axes [1] | tensor<33x1000xf32> | tensor<33x1000xf32>
ng.softmax %a axes [0] | tensor<33x100xf32> | tensor<33x100xf32>
ng.log_softmax %a axes [0, 1] | tensor<33x10xf32> | tensor<33x10xf32>
ng.mean %a axes [0] | tensor<33x10xf32> | tensor<10xf32>
ng.sum %a axes [1] | tensor<3x33x10xf16> | tensor<3x10xf16>
ng.max %a axes [0, 2] | tensor<3x33x10xi64> | tensor<33xi64>
ng.any %a axes [1] | tensor<3x33xi1> | tensor<3xi1>
ng.sum %a axes [0] | tensor<1000000xf32> | tensor<f32>
ng.sum %a axes [0] | tensor<60000x10xf32> | tensor<10xf32>
ng.max %a axes [1] | tensor<2x300000xf16> | tensor<2xf16>
ng.argmax %a axes [0] | tensor<600000xf32> | tensor<i32>
ng.argmin %a axes [0] | tensor<200000x3xi8> | tensor<3xi64>
ng.cumulative_sum %a axis 0 {reverse = true} | tensor<50000xi32> | tensor<50000xi32>
ng.cumulative_max %a axis 1 {exclusive = true} | tensor<2x50000xf32> | tensor<2x50000xf32>
ng.cumulative_sum %a axis 1 {reverse = true} | tensor<501x33xi32> | tensor<501x33xi32>
ng.cumulative_sum %a axis 1 {exclusive = true} | tensor<77x1x5xf64> | tensor<77x1x5xf64>
ng.cumulative_sum %a axis 1 {reverse = true, exclusive = true} | tensor<3x301x37xi8> | tensor<3x301x37xi8>
ng.cumulative_max %a axis 0 {reverse = true} | tensor<1001x3xf16> | tensor<1001x3xf16>
ng.cumulative_sum %a axis 1 {exclusive = true} | tensor<2x65x200xi64> | tensor<2x65x200xi64>
ng.dot %a, %b contract [0] x [0] | tensor<600000xf32> , tensor<600000xf32> | tensor<f32>
ng.dot %a, %b contract [0] x [0] | tensor<32768x24xf32> , tensor<32768x20xf32> | tensor<24x20xf32>
ng.dot %a, %b contract [1] x [0] | tensor<20x4096xf32> , tensor<4096x24xf32> | tensor<20x24xf32>
ng.dot %a, %b contract [1] x [0] | tensor<20x4096xbf16> , tensor<4096xbf16> | tensor<20xbf16>
ng.broadcast %a dims [1] | tensor<10xf32> | tensor<6001x10xf32>
ng.scatter %a[%b], %c axis 1 {combine = "add"} | tensor<2x3000x70xf32> , tensor<40xi32> , tensor<2x40x70xf32> | tensor<2x3000x70xf32>
ng.exp %a | tensor<1000003xf32> | tensor<1000003xf32>
ng.tanh %a | tensor<77xf64> | tensor<77xf64>
ng.erf %a | tensor<77xf16> | tensor<77xf16>
ng.power %a, %b | tensor<77xf32> , tensor<77xf32> | tensor<77xf32>
ng.floor_divide %a, %b | tensor<77xi32> , tensor<77xi32> | tensor<77xi32>
ng.remainder %a, %b | tensor<77xf32> , tensor<77xf32> | tensor<77xf32>
ng.random_uniform %a | tensor<2xui64> | tensor<50x7xf32>
ng.dot %a, %b contract [1] x [0] | tensor<64x64xf64> , tensor<64x64xf64> | tensor<64x64xf64>
ng.dot %a, %b contract [0] x [1] | tensor<33x65xi32> , tensor<7x33xi32> | tensor<65x7xi32>
ng.dot %a, %b contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} | tensor<3x33x65xf32> , tensor<3x65x7xf32> | tensor<3x33x7xf32>
ng.dot %a, %b contract [1] x [0] | tensor<1x100xf32> , tensor<100x1000xf32> | tensor<1x1000xf32>
ng.dot %a, %b contract [0] x [0] | tensor<100xf32> , tensor<100xf32> | tensor<f32>
ng.dot %a, %b contract [] x [] | tensor<10xf32> , tensor<20xf32> | tensor<10x20xf32>
ng.dot %a, %b contract [1] x [0] | tensor<200x300xf16> , tensor<300x100xf16> | tensor<200x100xf16>
ng.sum %a axes [1] | tensor<3x0xf32> | tensor<3xf32>
ng.iota {dimension = 1 : i64} |  | tensor<3x5xf32>
ng.cast %a | tensor<100xf32> | tensor<100xi8>
ng.broadcast %a dims [1] | tensor<5xf32> | tensor<3x5x7xf32>
ng.stack %a, %b axis 1 | tensor<3x5xf32> , tensor<3x5xf32> | tensor<3x2x5xf32>
ng.cross_entropy %a, %b axes [1] | tensor<64x10xf32> , tensor<64x10xf32> | tensor<64xf32>
"""


def program(line: str) -> tuple[str, list[str]]:
    op, operands, result = (part.strip() for part in line.split("|"))
    types = [t.strip() for t in operands.split(" , ") if t.strip()]
    names = ["%a", "%b", "%c"][: len(types)]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    return (
        f"func.func @main({arguments}) -> {result} {{\n"
        f"  %r = {op} : ({', '.join(types)}) -> {result}\n"
        f"  return %r : {result}\n}}\n"
    ), types


def values(type: object, random: np.random.Generator) -> np.ndarray:
    dtype, shape = dtype_of(type), type.shape  # type: ignore[attr-defined, arg-type]
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -20, 20, shape).astype(dtype)
    return np.asarray(random.normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("line", PROGRAMS.strip().splitlines())
def test_kernels_give_the_reference(line: str, target: str) -> None:
    text, _ = program(line)
    module = from_text(text)
    main = module.lookup("main")
    assert main is not None
    random = np.random.default_rng(7)
    arrays = [values(a.type, random) for a in main.block.args]
    (expected,) = run(module, *arrays)
    (got,) = compiler.compile_module(module, target)(*arrays)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
    else:
        # Sums cancel: what counts is the error beside all that was added.
        total = sum(float(np.abs(a.astype(np.float64)).sum()) for a in arrays)
        rtol = 1e-5 if expected.dtype.itemsize >= 4 else 2e-3
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=2e-5 + 4e-9 * total)
