# SPDX-License-Identifier: Apache-2.0
"""Programs of many small tests, the numbers to try them on, and their check as machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from comparing import assert_same_bits
from growing import argument

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.literals import dtype_of, type_of_dtype
from ngmlir.ir.types import IntegerType, TensorType, Type, i1
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run

Array = np.ndarray[Any, Any]


def compiled(of: Module, arrays: Sequence[Array]) -> tuple[Any, ...]:
    """The results of machine code."""
    return tuple(compile_module(of, "cpu")(*[np.array(a) for a in arrays]))


class Table:
    """A program of many small tests; each result has a name."""

    def __init__(self) -> None:
        self.block = Block()
        self.b = Builder(self.block)
        self.arrays: list[Array] = []
        self.results: list[tuple[str, Value]] = []

    def argument(self, array: Any, element: Type | None = None) -> Value:
        array = np.asarray(array)
        type = TensorType(array.shape, element or type_of_dtype(array.dtype))
        self.arrays.append(array.astype(dtype_of(type)))
        value = Value(type, self.block, len(self.block.args), f"a{len(self.block.args)}")
        self.block.args = (*self.block.args, value)
        return value

    def whole(self, shape: Sequence[int], element: Type, seed: int = 0) -> Value:
        """Small whole numbers, whose sums are exact."""
        return self.argument(
            argument(np.random.default_rng(seed), TensorType(tuple(shape), element)), element
        )

    def result(self, name: str, *values: Value) -> None:
        self.results += [(name, v) for v in values]

    def program(self) -> Module:
        self.b.end(func.ReturnOp, *[v for _, v in self.results])
        return module([function("main", self.block)])

    def check(self, compare: Callable[[Sequence[Array], Sequence[Array], str], None] | None = None) -> None:
        of = self.program()
        got, wanted = compiled(of, self.arrays), run(of, *self.arrays)
        compare = compare or assert_same_bits
        for (name, _), ours, theirs in zip(self.results, got, wanted, strict=True):
            compare([ours], [theirs], name)


def specials(element: Type) -> Array:
    """The numbers at the edges of a type, and some in between."""
    dtype = dtype_of(element)
    if element is i1:
        return np.array([False, True])
    if isinstance(element, IntegerType):
        info = np.iinfo(dtype)
        edges = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 5, 7, 8, 31, 32, 64, 100]
        return np.array([*edges, *([-1, -2, -7] if not element.unsigned else [])], dtype)
    real = ml_dtypes.finfo(dtype)
    tiny, least, most = (float(x) for x in (real.tiny, real.smallest_subnormal, real.max))
    step = float(real.eps)
    half = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        3.0,
        7.0,
        0.1,
        1e-3,
        tiny,
        least,
        tiny * 1.5,
        most,
        1 + step,
        1 / step,
        np.inf,
    ]
    return np.array([*half, *(-x for x in half), np.nan]).astype(dtype)


def filled(element: Type, size: int, seed: int) -> Array:
    """`size` of the special numbers, in some order."""
    known = specials(element)
    order = np.random.default_rng(seed).permutation(-(-size // len(known)) * len(known) or 1)
    return known[order % len(known)][:size]


def pairs(element: Type) -> tuple[Array, Array]:
    """Every two special numbers."""
    known = specials(element)
    x, y = np.meshgrid(known, known, indexing="ij")
    return x.ravel(), y.ravel()
