# SPDX-License-Identifier: Apache-2.0
"""Kernels of GPUs that read narrow rows through slices, pads, transposes and reshapes, several rows in one tile."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from test_gpu_ideals import TARGET, tensor

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.fields import get_i64s
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load

ELEMENTS = ["f32", "i8", "f64", "i32"]


def drawn(random: np.random.RandomState, element: str) -> str:
    """A program that reads a chain of moves of %a beside %b, which is not moved."""
    shape = tuple(int(n) for n in random.choice([1, 2, 3, 5, 8, 17, 40], random.randint(2, 5)))
    lines, name, taken = list[str](), "%a", shape
    for number in range(random.randint(1, 4)):
        size, rank = shape, len(shape)
        match random.randint(5):
            case 4:
                axis, step = random.randint(rank), random.randint(1, 3)
                taps = random.randint(1, shape[axis] + 1)
                count = (shape[axis] - taps) // step + 1
                shape = (taps, *shape[:axis], count, *shape[axis + 1 :])
                op = f"ng.windows {name} axes [{axis}] steps [{step}] dilations [1]"
            case 0:
                low, steps = [random.randint(0, n) for n in shape], random.randint(1, 3, rank).tolist()
                high = [random.randint(l + 1, n + 1) for l, n in zip(low, shape, strict=True)]
                shape = tuple(-(-(h - l) // s) for l, h, s in zip(low, high, steps, strict=True))
                op = f"ng.slice {name} from {low} to {high} step {steps}"
            case 1:
                low, high = random.randint(0, 3, rank).tolist(), random.randint(0, 3, rank).tolist()
                shape = tuple(l + n + h for l, n, h in zip(low, shape, high, strict=True))
                fill = "3.0" if element[0] == "f" else "3"
                op = f"ng.pad {name} low {low} high {high} {{value = {fill} : {element}}}"
            case 2:
                order = random.permutation(rank).tolist()
                shape = tuple(shape[d] for d in order)
                op = f"ng.transpose {name} perm {order}"
            case _:
                at = random.randint(0, rank)
                shape = (*shape[:at], 1, *shape[at:]) if rank < 4 else (shape[0] * shape[1], *shape[2:])
                op = f"ng.reshape {name}"
        name = f"%m{number}"
        lines.append(f"{name} = {op} : ({tensor(size, element)}) -> {tensor(shape, element)}")
    whole = tensor(shape, element)
    lines.append(f"%x = ng.add {name}, %b : {whole}")
    if random.randint(2):
        result, kept = "%x", whole
    else:
        axes = sorted(random.permutation(len(shape))[: random.randint(1, len(shape) + 1)].tolist())
        kept = tensor(tuple(n for d, n in enumerate(shape) if d not in axes), element)
        lines.append(f"%y = ng.max %x axes {axes} : ({whole}) -> {kept}")
        result = "%y"
    body = "\n  ".join(lines)
    text = (
        f"func.func @main(%a: {tensor(taken, element)}, %b: {whole}) -> {kept} {{\n  {body}\n"
        f"  return {result} : {kept}\n}}\n"
    )
    return text


@pytest.mark.parametrize("machine", ["sm_90a", "sm_53"])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("seed", range(12))
def test_what_moves_is_read_where_it_lies(seed: int, element: str, machine: str) -> None:
    """Where multiprocessors are few, a block takes several rows of small results too."""
    random = np.random.RandomState(seed)
    text = drawn(random, element)
    module = from_text(text)
    main = module.lookup("main")
    assert main is not None
    arrays = [
        random.randint(-9, 9, a.type.shape).astype(DTYPES[element])  # type: ignore[attr-defined]
        for a in main.block.args
    ]
    (expected,) = run(module, *arrays)
    target = nvptx_target(machine)
    (got,) = load(assemble(lower(module, target), target), CudaSimDevice()).run(arrays)
    np.testing.assert_array_equal(got, expected, err_msg=text)


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("ng.pad %a low [0, 1] high [0, 1]", (5000, 12)),
        ("ng.slice %a from [0, 1] to [5000, 9] step [1, 1]", (5000, 8)),
        ("ng.slice %a from [7, 0] to [4000, 10] step [3, 2]", (1331, 5)),
    ],
)
@pytest.mark.parametrize("reduced", [False, True])
def test_narrow_rows_lie_side_by_side_in_a_block(op: str, shape: tuple[int, int], reduced: bool) -> None:
    """Of 10 columns each thread has 16 bytes: a block for each row would have most threads idle."""
    x, y, sums = tensor((5000, 10), "f32"), tensor(shape, "f32"), tensor(shape[:1], "f32")
    last, result = (
        (f"ng.max %p axes [1] : ({y}) -> {sums}", sums) if reduced else (f"ng.negative %p : {y}", y)
    )
    body = f" %p = {op} : ({x}) -> {y}\n %r = {last}\n return %r : {result}\n"
    module = lower(from_text(f"func.func @main(%a: {x}) -> {result} {{\n{body}}}"), TARGET)
    (kernel,) = [op for op in module.walk() if op.name == "tile.kernel"]
    assert prod(get_i64s(kernel, "grid")) <= -(-prod(shape) // 128)


@pytest.mark.parametrize("element", ["f32", "i8", "f64"])
@pytest.mark.parametrize(
    ("axes", "taps", "step"), [((2, 3), 3, 2), ((1, 2), 2, 2), ((2, 3), 5, 1), ((1, 2), 6, 3)]
)
def test_results_of_small_windows_lie_side_by_side(
    axes: tuple[int, int], taps: int, step: int, element: str
) -> None:
    """With a border that counts as 3, of which some tiles have a part."""
    shape = (5, 9, 21, 13)
    bordered = tuple(n + 2 * (d in axes) for d, n in enumerate(shape))
    result = tuple((n - taps) // step + 1 if d in axes else n for d, n in enumerate(bordered))
    x, padded, y = tensor(shape, element), tensor(bordered, element), tensor(result, element)
    border, fill = [int(d in axes) for d in range(4)], "3.0" if element[0] == "f" else "3"
    windows = tensor((taps, taps, *result), element)
    text = f"""func.func @main(%a: {x}) -> {y} {{
      %p = ng.pad %a low {border} high {border} {{value = {fill} : {element}}} : ({x}) -> {padded}
      %w = ng.windows %p axes [{axes[0]}, {axes[1]}] steps [{step}, {step}] dilations [1, 1] : ({padded}) -> {windows}
      %r = ng.max %w axes [0, 1] : ({windows}) -> {y}
      return %r : {y}
    }}"""
    module, target = from_text(text), nvptx_target("sm_53")
    lowered = lower(module, target)
    given = np.random.default_rng(taps).integers(-9, 9, shape).astype(DTYPES[element])
    (expected,) = run(module, given)
    (got,) = load(assemble(lowered, target), CudaSimDevice()).run([given])
    np.testing.assert_array_equal(got, expected)
    (kernel,) = [op for op in lowered.walk() if op.name == "tile.kernel"]
    assert prod(get_i64s(kernel, "grid")) < prod(result[:-1]) // 2
