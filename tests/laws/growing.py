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

from ngmlir.ir.attributes import Attribute, AxesAttr, integers
from ngmlir.ir.core import Block, Module, Value, count_uses, module
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
    i16,
    i32,
    i64,
    shape_of,
    ui8,
    ui16,
    ui32,
    ui64,
)  # fmt: skip
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.testing import special_numbers

A = TypeVar("A")

#: Element types, the usual ones first and more often.
ELEMENTS: tuple[Type, ...] = (
    f32, f32, f32, f32, f64, f64, i32, i32, i64, i1, f16, bf16, i8, i16, ui8, ui16, ui32, ui64
)  # fmt: skip
#: The lengths of axes, and how many elements a tensor may have.
SMALL = ([3, 2, 4, 5, 1, 7, 8, 16, 6, 17], 600)
LARGE = ([64, 3, 65, 1, 200, 15, 127, 512, 1000], 150_000)
#: The largest number among arguments and constants.
MOST_GIVEN = 4
#: Arguments whose names begin so hold special numbers.
SPECIAL = "s"


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


def special_argument(random: np.random.Generator, type: Type) -> np.ndarray[Any, Any]:
    """Infinities, NaN, zeros of both signs, denormals, the ends of the range, and ordinary numbers."""
    return np.asarray(random.choice(special_numbers(element_type(type)), shape_of(type)))


def argument_named(name: str, type: Type, seed: int = 0) -> np.ndarray[Any, Any]:
    """What an argument holds: that depends on nothing but its name and type, so a program may lose others."""
    random = np.random.default_rng([seed, *name.encode()])
    return (special_argument if name.startswith(SPECIAL) else argument)(random, type)


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
        number: Callable[[int, int], int],
        exact: bool,
        elements: Sequence[Type],
        large: bool,
    ):
        """`number` chooses between two ends, both included; all else is chosen by it."""
        self.number, self.exact, self.elements = number, exact, elements
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

    def chance(self, one_in: int) -> bool:
        return self.number(1, one_in) == one_in

    def pick(self, options: Sequence[A]) -> A:
        return options[self.number(0, len(options) - 1)]

    def shuffled(self, options: Sequence[A]) -> list[A]:
        left = list(options)
        return [left.pop(self.number(0, len(left) - 1)) for _ in options]

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
        """An argument, or now and then a constant. Its name says what it holds (`argument_named`)."""
        if self.chance(4):
            return self.constant(type)
        special = self.special()
        name = f"{SPECIAL if special else 'a'}{len(self.block.args)}"
        value = Value(type, self.block, len(self.block.args), name)
        self.block.args = (*self.block.args, value)
        self.facts[value] = Fact() if special else Fact(MOST_GIVEN, True)
        self.scopes[0].append(value)
        return value

    def special(self) -> bool:
        """Whether a new value is to hold special numbers: now and then, where no sum or function may see them."""
        return self.exact and self.chance(4)

    def constant(self, type: Type) -> Value:
        assert isinstance(type, TensorType)
        random = np.random.default_rng(self.number(0, 7))
        special = self.special()
        draw = special_argument if special else argument
        if self.chance(2):
            array = np.full(type.shape, draw(random, TensorType((), type.element)))
        else:
            array = draw(random, type)
        value = self.builder.constant(type=type, value=elements(array, type))
        return self.add(value, Fact() if special else Fact(MOST_GIVEN, True))

    def finished(self, tied: bool) -> Module:
        values = self.scopes[0]
        if not values:
            self.constant(self.tensor([], [], f32))
        # Nearly all that nothing uses is given back, else much of the program would be dead; then some values twice,
        # some that others use, and arguments.
        uses = count_uses(self.block)
        results = [v for v in values if not uses.get(v) and v.owner is not self.block and not self.chance(10)]
        results += [self.pick(values) for _ in range(self.number(0, 2))]
        if self.chance(4):
            results.append(self.pick(results or values))
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
