# SPDX-License-Identifier: Apache-2.0
"""Matrix products with fused transposes, scales and activations; inverses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .....ir.types import TensorType, i32, i64
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..elementwise import gelu_of
from ..products import gemm, multiplied
from .activations import activated

#: Attributes of a fused activation.
_PARAMETERS: dict[str, Any] = {f"activation_{name}": float | None for name in ("alpha", "beta", "gamma")}
_TURNS: dict[str, Any] = {"alpha": 1.0, "transA": 0, "transB": 0}
_BATCH_TURNS: dict[str, Any] = {"transBatchA": 0, "transBatchB": 0}
#: The greatest number of rows of a matrix that is inverted.
_MOST = 64


def _turned(n: Node, x: Tensor, side: str) -> Tensor:
    """An operand transposed to [..., rows, columns], as its attributes say."""
    if x.rank > 2 and n.flag(f"transBatch{side}"):
        x = x.moved(0, -2)
    return x.moved(-1, -2) if x.rank > 1 and n.flag(f"trans{side}") else x


@contributed("FusedMatMul", **_TURNS, **_BATCH_TURNS)
@contributed("TransposeMatMul", **_TURNS)
def fused_matmul(n: Node, a: Tensor, b: Tensor) -> Tensor:
    made, alpha = multiplied(_turned(n, a, "A"), _turned(n, b, "B")), n.number("alpha")
    return made if alpha == 1 else made * alpha


def _activation_parameters(n: Node) -> dict[str, float]:
    given = {name.removeprefix("activation_"): n.attributes.get(name) for name in _PARAMETERS}
    return {name: float(found.f) for name, found in given.items() if found is not None}


@contributed(
    "FusedMatMulActivation",
    activation=str,
    activation_axis=int | None,
    **_PARAMETERS,
    **_TURNS,
    **_BATCH_TURNS,
)
def fused_matmul_activation(n: Node, a: Tensor, b: Tensor) -> Tensor:
    return activated(n, fused_matmul(n, a, b), n.text("activation"), _activation_parameters(n))


@contributed("FusedGemm", activation="", beta=1.0, **_PARAMETERS, **_TURNS)
def fused_gemm(n: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    made = gemm(n, a, b, c)
    return activated(n, made, n.text("activation"), _activation_parameters(n))


@contributed("GemmFastGelu")
def gemm_fast_gelu(n: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    made = multiplied(x, weights)
    return gelu_of(made if bias is None else made + bias, tanh=True)


@contributed("MatMulInteger16")
def matmul_integer16(n: Node, a: Tensor, b: Tensor) -> Tensor:
    return multiplied(a.cast(i32), b.cast(i32))


@contributed("Inverse")
def inverse(n: Node, x: Tensor) -> Tensor:
    """Gauss-Jordan elimination with partial pivoting, unrolled."""
    size = x.shape[-1]
    if x.rank < 2 or x.shape[-2] != size:
        raise n.limit(f"the inverse of {list(x.shape)}, which are no square matrices")
    if size > _MOST:
        raise n.limit(f"the inverse of matrices of {size} rows")
    batch, wide = prod(x.shape[:-2]), x.computed()
    eye = n.verbs.known(np.eye(size, dtype=bool)).cast(wide.element)
    m = n.verbs.joined([wide.reshape([batch, size, size]), eye.broadcast([batch, size, size])], 2)
    for k in range(size):
        column = n.verbs.absolute(m.at(2, k).part(1, k, size))
        pivot = n.verbs.argmax(column, type=TensorType((batch,), i64), axes=[1]) + k
        line = n.verbs.arange(size).reshape([1, size])
        chosen = pivot.with_axes([1]).equals(line).with_axes([2])
        row = chosen.where(m, n.verbs.numbers(0, m.element)).sum([1], keep=True)
        # Swap the row of the pivot and row k.
        m = chosen.where(m.part(1, k, k + 1), m)
        row = row / row.part(2, k, k + 1)
        here = line.equals(k).with_axes([2])
        m = here.where(row, m - m.part(2, k, k + 1) * row)
    return m.part(2, size, 2 * size).reshape(x.shape).cast(x.element)
