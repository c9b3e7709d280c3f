# SPDX-License-Identifier: Apache-2.0
"""Products of batches that multiply by the same matrix, and convolutions of several images that become such products, on a CPU; against
NumPy in double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import compile_module, compile_open
from ngmlir.ops.words import from_text

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
}

IMAGES = """func.func @main(%x: tensor<[N]xCxHxWxXX>, %w: tensor<KxCxYY>, %b: tensor<KxRR>) -> tensor<[N]xKxHxWxRR> {
  %0 = ng.dot %x, %w contract [1] x [1] : (tensor<[N]xCxHxWxXX>, tensor<KxCxYY>) -> tensor<[N]xHxWxKxRR>
  %1 = ng.transpose %0 perm [0, 3, 1, 2] : (tensor<[N]xHxWxKxRR>) -> tensor<[N]xKxHxWxRR>
  %2 = ng.broadcast %b dims [1] : (tensor<KxRR>) -> tensor<[N]xKxHxWxRR>
  %3 = ng.add %1, %2 : tensor<[N]xKxHxWxRR>
  return %3 : tensor<[N]xKxHxWxRR>
}"""


def images(channels: int, height: int, width: int, filters: int, types: tuple[str, str, str]) -> str:
    text = IMAGES
    for name, size in zip("CHWK", (channels, height, width, filters), strict=True):
        text = text.replace(f"x{name}x", f"x{size}x").replace(f"<{name}x", f"<{size}x")
    for name, type in zip(("XX", "YY", "RR"), types, strict=True):
        text = text.replace(f"x{name}>", f"x{type}>")
    return text


def arrays(batch: int, sizes: tuple[int, int, int, int], types: tuple[str, str, str]) -> list[Any]:
    random = np.random.default_rng(0)
    channels, height, width, filters = sizes
    shapes = [(batch, channels, height, width), (filters, channels), (filters,)]
    low = 0 if types[0] == "ui8" else -9
    return [
        random.integers(low, 10, shape).astype(TYPES[type]) for shape, type in zip(shapes, types, strict=True)
    ]


def check(got: Any, x: Any, w: Any, b: Any) -> None:
    """Small integers: sums are exact."""
    want = np.einsum("nchw,kc->nkhw", x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_array_equal(
        np.asarray(got).astype(np.float64), want + b.astype(np.float64)[:, None, None]
    )


@pytest.mark.parametrize(
    "types",
    [
        ("f32", "f32", "f32"),
        ("f64", "f64", "f64"),
        ("bf16", "bf16", "f32"),
        ("f16", "f16", "f32"),
        ("ui8", "i8", "i32"),
        ("i8", "i8", "i32"),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("sizes", [(3, 8, 9, 5), (17, 13, 11, 33), (64, 7, 7, 2), (1, 16, 40, 1)], ids=str)
def test_images(sizes: tuple[int, int, int, int], types: tuple[str, str, str]) -> None:
    for batch in (1, 3):
        given = arrays(batch, sizes, types)
        text = images(*sizes, types).replace("[N]", str(batch))
        result: Any = compile_module(from_text(text), "cpu")(*given)
        check(result[0], *given)


def test_any_number_of_images() -> None:
    sizes, types = (17, 13, 11, 33), ("f32", "f32", "f32")
    run = compile_open(lambda lengths: from_text(images(*sizes, types), lengths=lengths), {"N": 4})
    for batch in (2, 5, 9):
        assert run.serves({"N": batch})
        given = arrays(batch, sizes, types)
        check(run(*given)[0], *given)


REPEATED = """func.func @main(%x: tensor<4x7x50xf32>, %w: tensor<W>) -> tensor<4x9x50xf32> {
  BODY
  %r = ng.dot %m, %x contract [D] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<S>, tensor<4x7x50xf32>) -> tensor<4x9x50xf32>
  return %r : tensor<4x9x50xf32>
}"""


@pytest.mark.parametrize("form", ["matrix", "turned", "row", "part", "inner", "one"])
def test_the_same_matrix(form: str) -> None:
    random = np.random.default_rng(1)
    matrix = "%m = ng.broadcast {0} dims [1, 2] : (tensor<{1}xf32>) -> tensor<4x{1}xf32>"
    depth, shape, body, w = 2, "4x9x7xf32", "", random.integers(-9, 10, (9, 7)).astype(np.float32)
    wanted = w
    if form == "matrix":
        body = matrix.format("%w", "9x7")
    elif form == "turned":
        depth, shape, w, body = 1, "4x7x9xf32", np.ascontiguousarray(w.T), matrix.format("%w", "7x9")
    elif form == "row":
        w = w.reshape(-1)
        body = "%a = ng.broadcast %w dims [1] : (tensor<63xf32>) -> tensor<4x63xf32>\n"
        body += "%m = ng.reshape %a : (tensor<4x63xf32>) -> tensor<4x9x7xf32>"
    elif form == "part":
        w = random.integers(-9, 10, (12, 16)).astype(np.float32)
        wanted = w[2:11, 1:15:2]
        body = (
            "%a = ng.slice %w from [2, 1] to [11, 15] step [1, 2] : (tensor<12x16xf32>) -> tensor<9x7xf32>\n"
        )
        body += matrix.format("%a", "9x7")
    elif form == "inner":
        w = random.integers(-9, 10, 9).astype(np.float32)
        wanted = np.repeat(w[:, None], 7, 1)
        body = "%m = ng.broadcast %w dims [1] : (tensor<9xf32>) -> tensor<4x9x7xf32>"
    else:
        w = np.float32(3)
        wanted = np.full((9, 7), 3, np.float32)
        body = "%m = ng.broadcast %w dims [] : (tensor<f32>) -> tensor<4x9x7xf32>"
    own = "x".join([*map(str, np.shape(w)), "f32"])
    text = REPEATED.replace("W>", f"{own}>").replace("BODY", body).replace("[D]", f"[{depth}]")
    x = random.integers(-9, 10, (4, 7, 50)).astype(np.float32)
    result: Any = compile_module(from_text(text.replace("<S>", f"<{shape}>")), "cpu")(x, np.asarray(w))
    np.testing.assert_array_equal(result[0], wanted @ x)
