# SPDX-License-Identifier: Apache-2.0
"""Programs of many small tests, the numbers to try them on, and their check as machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from comparing import assert_same_bits
from growing import argument

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.literals import dtype_of, type_of_dtype
from ngmlir.ir.types import TensorType, Type
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run
from ngmlir.testing import special_numbers

Array = np.ndarray[Any, Any]


def compiled(of: Module, arrays: Sequence[Array], target: str = "cpu") -> tuple[Any, ...]:
    """The results of machine code."""
    return tuple(np.asarray(r) for r in compile_module(of, target)(*[np.array(a) for a in arrays]))


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

    def check(
        self,
        compare: Callable[[Sequence[Array], Sequence[Array], str], None] | None = None,
        target: str = "cpu",
    ) -> None:
        of = self.program()
        got, wanted = compiled(of, self.arrays, target), run(of, *self.arrays)
        compare = compare or assert_same_bits
        for (name, _), ours, theirs in zip(self.results, got, wanted, strict=True):
            compare([ours], [theirs], name)


def filled(element: Type, size: int, seed: int) -> Array:
    """`size` of the special numbers, in some order."""
    known = special_numbers(element)
    order = np.random.default_rng(seed).permutation(-(-size // len(known)) * len(known) or 1)
    return known[order % len(known)][:size]


def pairs(element: Type) -> tuple[Array, Array]:
    """Every two special numbers."""
    known = special_numbers(element)
    x, y = np.meshgrid(known, known, indexing="ij")
    return x.ravel(), y.ravel()
