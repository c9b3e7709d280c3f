# SPDX-License-Identifier: Apache-2.0
"""Products with costly ends, of one or several results and with operands of the result's size: ptxas has registers for all."""

from __future__ import annotations

import random

import pytest

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime import ptxas

_SIZE, _DEPTH = 4096, 1024


def spills(text: str, arch: str) -> dict[str, int]:
    """Bytes that each kernel spills."""
    target = nvptx_target(arch)
    artifact = assemble(lower(from_text(text), target), target)
    return {name: k.spill_stores for name, k in ptxas.assemble(artifact.code.decode(), arch).kernels.items()}


class _End:
    """A product of two tensors and what is computed of it, element by element, in f32."""

    def __init__(self, side: str, result: str, inputs: int):
        self.result, self.wide = (f"tensor<{_SIZE}x{_SIZE}x{e}>" for e in (result, "f32"))
        left, right = f"tensor<{_SIZE}x{_DEPTH}x{side}>", f"tensor<{_DEPTH}x{_SIZE}x{side}>"
        self.arguments = f"%x: {left}, %w: {right}" + "".join(
            f", %g{n}: {self.result}" for n in range(inputs)
        )
        self.lines = [f"%d = ng.dot %x, %w contract [1] x [0] : ({left}, {right}) -> {self.result}"]
        self.names = 0
        self.product = self.widened("%d")
        self.inputs = [self.widened(f"%g{n}") for n in range(inputs)]

    def add(self, text: str) -> str:
        self.names += 1
        self.lines.append(f"%v{self.names} = {text}")
        return f"%v{self.names}"

    def op(self, name: str, *operands: str) -> str:
        return self.add(f"ng.{name} {', '.join(operands)} : {self.wide}")

    def widened(self, value: str) -> str:
        same = self.result == self.wide
        return value if same else self.add(f"ng.cast {value} : ({self.result}) -> {self.wide}")

    def text(self, *results: str) -> str:
        same = self.result == self.wide
        given = [v if same else self.add(f"ng.cast {v} : ({self.wide}) -> {self.result}") for v in results]
        types = ", ".join([self.result] * len(given))
        body = "\n  ".join([*self.lines, f"return {', '.join(given)} : {types}"])
        return f"func.func @main({self.arguments}) -> ({types}) {{\n  {body}\n}}"


def silu_and_gradient(side: str, result: str) -> str:
    """What a training step keeps of a gated layer, or computes of one: its sigmoid, and the gradient."""
    end = _End(side, result, 1)
    s = end.op("sigmoid", end.product)
    y = end.op("multiply", end.product, s)
    one = end.add(f"ng.constant dense<1.0> : {end.wide}")
    slope = end.op("add", s, end.op("multiply", y, end.op("subtract", one, s)))
    return end.text(s, y, end.op("multiply", end.inputs[0], slope))


def random_end(seed: int) -> str:
    """One to three results of up to six ops, with up to two operands."""
    rng = random.Random(seed)
    side = rng.choice(["bf16", "f16", "f32"])
    end = _End(side, rng.choice([side, "f32"]), rng.randrange(3))
    values = [end.product]
    for _ in range(rng.randrange(2, 6)):
        if rng.random() < 0.6:
            values.append(end.op(rng.choice(["exp", "tanh", "sigmoid", "erf"]), rng.choice(values)))
        else:
            other = rng.choice([*values, *end.inputs])
            values.append(end.op(rng.choice(["add", "multiply", "divide"]), values[-1], other))
    if end.inputs:
        values.append(end.op("add", values[-1], end.inputs[0]))
    return end.text(*dict.fromkeys([values[-1], *rng.sample(values, rng.randrange(3))]))


@pytest.mark.skipif(not ptxas.available(), reason="ptxas is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("side", "result"), [("bf16", "bf16"), ("bf16", "f32"), ("f32", "f32")])
def test_a_gated_layer_and_its_gradient(side: str, result: str, arch: str) -> None:
    assert not any(spills(silu_and_gradient(side, result), arch).values())


@pytest.mark.skipif(not ptxas.available(), reason="ptxas is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_random_ends(seed: int) -> None:
    assert not any(spills(random_end(seed), ("sm_80", "sm_90a")[seed % 2]).values())


@pytest.mark.skipif(not ptxas.available(), reason="ptxas is not installed")
def test_a_convolution_of_halves() -> None:
    """Windows along the columns of the right side: each thread knows where each piece of them lies."""
    text = """func.func @main(%x: tensor<8x64x56x56xf16>, %w: tensor<64x64x3x3xf16>) -> tensor<64x8x56x56xf16> {
  %p = ng.pad %x low [0, 0, 1, 1] high [0, 0, 1, 1] : (tensor<8x64x56x56xf16>) -> tensor<8x64x58x58xf16>
  %v = ng.windows %p axes [2, 3] steps [1, 1] dilations [1, 1] : (tensor<8x64x58x58xf16>) -> tensor<3x3x8x64x56x56xf16>
  %d = ng.dot %w, %v contract [1, 2, 3] x [3, 0, 1] : (tensor<64x64x3x3xf16>, tensor<3x3x8x64x56x56xf16>) -> tensor<64x8x56x56xf16>
  return %d : tensor<64x8x56x56xf16>
}"""
    assert not any(spills(text, "sm_90a").values())
