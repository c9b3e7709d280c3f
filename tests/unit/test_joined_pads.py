# SPDX-License-Identifier: Apache-2.0
"""Sums of padded tensors become concatenations: the same bits, and no more work than there is to copy."""

from __future__ import annotations

from math import inf, nan, prod

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.ir.types import shape_of
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.graph.join_pads import join_pads

CPU = cpu_target("x86-64-v3")
NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, -3e38, 0.1, inf, -inf, nan], "f4")


def drawn(seed: int) -> tuple[str, list[np.ndarray]]:
    """A sum of tensors in boxes of any kind, some of them of all."""
    random = np.random.RandomState(seed)
    shape = random.randint(1, 9, random.randint(1, 4))
    whole = f"tensor<{'x'.join(map(str, shape))}xf32>"
    lines: list[str] = []
    arrays: list[np.ndarray] = []
    total = ""
    for i in range(random.randint(3, 12)):
        low = random.randint(0, shape)
        size = np.minimum(random.randint(1, 4, len(shape)), shape - low)
        if random.rand() < 0.1:
            low, size = 0 * shape, shape
        type = f"tensor<{'x'.join(map(str, size))}xf32>"
        arrays.append(random.choice(NUMBERS[: 11 if seed % 2 else 8], size))
        high = shape - low - size
        lines.append(
            f"%p{i} = ng.pad %x{i} low {[*map(int, low)]} high {[*map(int, high)]} : ({type}) -> {whole}"
        )
        if total:
            sides = (total, f"%p{i}") if random.rand() < 0.7 else (f"%p{i}", total)
            lines.append(f"%s{i} = ng.add {', '.join(sides)} : {whole}")
        total = f"%s{i}" if total else f"%p{i}"
    types = [f"tensor<{'x'.join(map(str, a.shape))}xf32>" for a in arrays]
    taken = ", ".join(f"%x{i}: {type}" for i, type in enumerate(types))
    body = "\n".join(lines)
    return f"func.func @main({taken}) -> {whole} {{\n{body}\nreturn {total} : {whole}\n}}", arrays


def test_joined_sums_have_the_same_bits() -> None:
    joined = 0
    for seed in range(300):
        text, arrays = drawn(seed)
        before = from_text(text)
        after = join_pads(before, CPU)
        joined += after is not before
        (expected,), (actual,) = (run(m, *arrays) for m in (before, after))
        known = ~np.isnan(expected)
        assert np.array_equal(np.isnan(actual), ~known), text
        assert expected[known].tobytes() == actual[known].tobytes(), text
    assert joined > 50


@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_slices_grows_with_their_number(axis: int) -> None:
    def moved(count: int) -> int:
        """Elements that the gradient of a sum of slices reads and writes."""
        axes = [ng.make_axis(count, name="T"), ng.make_axis(4, name="H")]
        x = ng.placeholder(axes if axis == 0 else axes[::-1])
        total = ng.constant(0.0)
        for i in range(count):
            total = total + ng.square(x[i] if axis == 0 else x[:, i]) * i
        module = join_pads(ng.lift([ng.deriv(ng.sum(total, out_axes=()), x)], [x]).module, CPU)
        ops = module.ops[0].block.ops
        assert not any(op.name == "ng.pad" for op in ops)
        return sum(prod(shape_of(op.result.type)) for op in ops if op.name in ("ng.add", "ng.concatenate"))

    ten, hundred, thousand = map(moved, (10, 100, 1000))
    assert hundred <= 11 * ten and thousand <= 11 * hundred


def sliced(seed: int) -> tuple[np.ndarray, ng.Tensor, ng.Tensor, np.ndarray]:
    """An array, a placeholder for it, the gradient of a sum of its slices with steps, and what that is."""
    random = np.random.RandomState(seed)
    shape = tuple(map(int, random.randint(1, 14, random.randint(1, 3))))
    x = ng.placeholder([ng.make_axis(n, f"A{i}") for i, n in enumerate(shape)])
    array, expected = random.rand(*shape).astype("f4"), np.zeros(shape, "f4")
    steps = random.choice([-3, -2, -1, 1, 2, 3, 10], len(shape))
    total = ng.constant(0.0)
    for i in range(1, random.randint(2, 6)):
        if random.rand() < 0.1:
            steps = random.choice([-3, -2, -1, 1, 2, 3], len(shape))
        ends = [[None if e > n else int(e) for e in random.randint(-n, 2 * n, 2)] for n in shape]
        item = tuple(slice(e[0], e[1], int(step)) for e, step in zip(ends, steps, strict=True))
        total = total + ng.sum(ng.square(x[item]) * i, out_axes=())
        expected[item] += i * 2 * array[item]
    return array, x, ng.deriv(total, x), expected


def test_gradients_of_slices_with_steps() -> None:
    joined = 0
    for seed in range(150):
        array, x, gradient, expected = sliced(seed)
        before = ng.lift([gradient], [x]).module
        assert not any(op.name == "ng.scatter" for op in before.ops[0].block.ops)
        after = join_pads(before, CPU)
        joined += after is not before
        (plain,), (made,) = (run(m, array) for m in (before, after))
        assert plain.tobytes() == made.tobytes(), seed
        np.testing.assert_allclose(made, expected, rtol=1e-5)
    assert joined > 5


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_gradients_of_slices_with_steps_on_devices(target: str) -> None:
    for seed in range(8):
        array, x, gradient, expected = sliced(seed)
        found = ng.transformers.make_transformer(target).computation(gradient, x)(array)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_phases_of_one_line_are_joined_in_one_copy() -> None:
    x = ng.placeholder([ng.make_axis(1000, "T")])
    total = ng.constant(0.0)
    for i in range(100):
        total = total + ng.sum(ng.square(x[i::100]) * i, out_axes=())
    module = join_pads(ng.lift([ng.deriv(total, x)], [x]).module, CPU)
    ops = module.ops[0].block.ops
    (together,) = (op for op in ops if op.name == "ng.concatenate")
    assert len(together.operands) == 100 and not any(op.name == "ng.pad" for op in ops)
