# SPDX-License-Identifier: Apache-2.0
"""A random program while it grows, and what is known of its values.

It is known of each value how large it can get, whether it is a whole number, and whether its bits depend on
the order of a sum or on a math library ("rough").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from ngmlir.ir.attributes import Attribute, AxesAttr, integers
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.elements import elements
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import (
    FloatType,
    IntegerType,
    TensorType,
    Type,
    bf16,
    element_type,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
    shape_of,
    ui8,
    ui32,
)  # fmt: skip
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function

A = TypeVar("A")

#: Element types, the usual ones first and more often.
ELEMENTS: tuple[Type, ...] = (f32, f32, f32, f32, f64, i32, i32, i64, i1, f16, bf16, i8, ui8, ui32)
#: The lengths of axes, and how many elements a tensor may have.
SMALL = ([3, 2, 4, 5, 1, 7, 8, 16, 6, 17], 600)
LARGE = ([64, 3, 65, 1, 200, 15, 127, 512, 1000], 150_000)
#: The largest number among arguments and constants.
MOST_GIVEN = 4


@dataclass(frozen=True)
class Fact:
    """What is known of a value: no element is larger than `bound`; NaN only where that is infinite."""

    bound: float = inf
    whole: bool = False
    rough: bool = False


def argument(random: np.random.Generator, type: Type) -> np.ndarray[Any, Any]:
    """Small whole numbers."""
    shape, dtype = shape_of(type), dtype_of(type)
    if dtype.kind == "b":
        return np.asarray(random.random(shape) < 0.5)
    low = 0 if dtype.kind == "u" else -MOST_GIVEN
    return np.asarray(random.integers(low, MOST_GIVEN + 1, shape)).astype(dtype)


def is_float(value: Value) -> bool:
    return isinstance(element_type(value.type), FloatType)


def is_integer(value: Value) -> bool:
    element = element_type(value.type)
    return isinstance(element, IntegerType) and element is not i1


def is_bool(value: Value) -> bool:
    return element_type(value.type) is i1


class Maker:
    def __init__(
        self,
        draw: Callable[[st.SearchStrategy[Any]], Any],
        exact: bool,
        elements: Sequence[Type],
        large: bool,
    ):
        self.draw, self.exact, self.elements = draw, exact, elements
        lengths, self.most = LARGE if large else SMALL
        self.named = self.chance(3)
        self.axes = [(name, self.pick(lengths)) for name in "NCHWK"]
        if self.chance(12):
            self.axes[0] = ("N", 0)
        self.block = Block()
        self.builder = Builder(self.block)
        self.facts: dict[Value, Fact] = {}
        self.scopes: list[list[Value]] = [[]]
        self.fresh = 0

    # -- choices -----------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == one_in

    def pick(self, options: Sequence[A]) -> A:
        return self.draw(st.sampled_from(list(options)))

    def some(self, options: Sequence[A], least: int = 1) -> list[A]:
        """A part of the options, in their order."""
        chosen = [o for o in options if self.chance(2)]
        return chosen if len(chosen) >= least else list(options)[:least]

    def value(self, good: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value, late ones first; a new one where none is good."""
        found = [v for scope in self.scopes for v in scope if good(v)]
        if found and not self.chance(8):
            # The latest as often as all others: so chains come about.
            return found[-1 - (self.number(0, len(found) - 1) if self.chance(2) else 0)]
        for element in sorted(self.elements, key=lambda e: self.number(0, 5)):
            probe = Value(self.type(element))
            self.facts[probe] = Fact(MOST_GIVEN, True)
            if good(probe):
                return self.source(probe.type)
        return found[-1] if found else self.source(self.tensor([None], [3], f32))

    def like(self, type: Type, good: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value of exactly this type."""
        found = [v for scope in self.scopes for v in scope if v.type is type and good(v)]
        if found and not self.chance(4):
            return found[-1 - self.number(0, len(found) - 1)]
        return self.source(type)

    def type(self, element: Type | None = None) -> TensorType:
        axes = [a for a in self.axes if self.chance(3)]
        while prod(s for _, s in axes) > self.most:
            axes.pop()
        return self.tensor([n for n, _ in axes], [s for _, s in axes], element or self.pick(self.elements))

    def tensor(self, names: Sequence[str | None], shape: Sequence[int], element: Type) -> TensorType:
        """A tensor type; None stands for a new axis name."""
        if not self.named:
            return TensorType(tuple(shape), element)
        return TensorType(tuple(shape), element, AxesAttr(*[n or self.new_name() for n in names]))

    def new_name(self) -> str:
        self.fresh += 1
        return f"R{self.fresh}"

    def names(self, value: Value) -> list[str]:
        assert isinstance(value.type, TensorType)
        return list(value.type.axes or [""] * value.type.rank)

    # -- values ------------------------------------------------------------------------------------------

    def smooth(self, value: Value) -> bool:
        return not self.facts[value].rough

    def add(self, value: Value, fact: Fact = Fact(), *, kept: Value | None = None) -> Value:
        """Makes a value known, with what is known of it (or what is known of another)."""
        self.facts[value] = self.facts[kept] if kept is not None else fact
        self.scopes[-1].append(value)
        return value

    def source(self, type: Type) -> Value:
        """An argument, or now and then a constant."""
        if self.chance(4):
            return self.constant(type)
        value = Value(type, self.block, len(self.block.args), f"a{len(self.block.args)}")
        self.block.args = (*self.block.args, value)
        self.facts[value] = Fact(MOST_GIVEN, True)
        self.scopes[0].append(value)
        return value

    def constant(self, type: Type) -> Value:
        assert isinstance(type, TensorType)
        random = np.random.default_rng(self.number(0, 7))
        if self.chance(2):
            array = np.full(type.shape, argument(random, TensorType((), type.element)))
        else:
            array = argument(random, type)
        value = self.builder.constant(type=type, value=elements(array, type))
        return self.add(value, Fact(MOST_GIVEN, True))

    def finished(self, tied: bool) -> Module:
        values = self.scopes[0]
        if not values:
            self.constant(self.tensor([], [], f32))
        results = [values[-1 - self.number(0, min(len(values) - 1, 5))] for _ in range(self.number(0, 3))]
        if self.chance(5):
            results.append(self.pick(values))
        results.append(values[-1])
        attributes: dict[str, Attribute] = {}
        if tied and self.chance(2):
            pairs: list[int] = []
            open_arguments = list(self.block.args)
            for i, value in enumerate(results):
                fitting = [a for a in open_arguments if a.type is value.type]
                if fitting and self.chance(2):
                    chosen = self.pick(fitting)
                    open_arguments.remove(chosen)
                    pairs += [i, chosen.index]
            if pairs:
                attributes["ng.tied"] = integers(pairs)
        self.builder.end(func.ReturnOp, *results)
        return module([function("main", self.block, attributes)])
