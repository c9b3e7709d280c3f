# SPDX-License-Identifier: Apache-2.0
"""Random well-typed modules of ng ops, and arguments for them: what laws about text and passes are tested on.

    @given(modules())
    def test_a_pass_keeps_the_meaning(module):
        arrays = arguments(module)
        assert_close(run(my_pass(module, TARGET), *arrays), run(module, *arrays))

With `smooth`, there are no ops that jump (floor, comparisons, casts to integers ...), so that results stay
close where a pass may round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from ngmlir.ir.attributes import elements
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import FloatType, TensorType, Type, element_type, f32, f64, i1, i32, shape_of, with_element
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function

ELEMENTS = (f32, f64, i32, i1)
SIZES = st.sampled_from((1, 2, 3, 3, 4, 5, 7, 0))
SHAPES = st.lists(SIZES, max_size=3).map(tuple)

Draw = Callable[..., object]


class _Growing:
    """A function under construction: a step draws an op that fits some value and appends it."""

    def __init__(self, draw: Draw, types: Sequence[Type], smooth: bool):
        self.draw = draw
        self.block = Block(types, [f"x{i}" for i in range(len(types))])
        self.builder = Builder(self.block)
        self.values: list[Value] = list(self.block.args)
        self.smooth = smooth

    def pick(self, options: Sequence[object]) -> object:
        return self.draw(st.sampled_from(list(options)))

    def value(self, fits: Callable[[Type], bool] = lambda t: True) -> Value | None:
        """One of the values so far, the later ones sooner."""
        fitting = [v for v in self.values if fits(v.type)]
        return self.draw(st.sampled_from(fitting[::-1])) if fitting else None  # type: ignore[return-value]

    def axes(self, value: Value, least: int = 0) -> list[int]:
        rank = len(shape_of(value.type))
        return sorted(self.draw(st.sets(st.integers(0, rank - 1), min_size=least)))  # type: ignore[call-overload]

    def step(self) -> None:
        kinds = [self.unary, self.binary, self.moved, self.reduced, self.multiplied, self.row, self.made, self.chosen]
        made = self.pick(kinds)()  # type: ignore[operator]
        if made is not None and prod(shape_of(made.type)) <= 500:
            self.values.append(made)

    def unary(self) -> Value | None:
        b, x = self.builder, self.value()
        if x is None:
            return None
        element = element_type(x.type)
        if element is i1:
            return self.pick((b.bitwise_not, lambda v: b.cast(v, type=with_element(v.type, f32))))(x)  # type: ignore[operator]
        if element is i32:
            return self.pick((b.negative, b.absolute, b.square, b.sign, b.bitwise_not))(x)  # type: ignore[operator]
        options = [b.negative, b.absolute, b.square, b.tanh, b.sigmoid, b.sin, b.erf, lambda v: b.exp(b.tanh(v))]
        options += [lambda v: b.cast(v, type=with_element(v.type, f64 if element is f32 else f32))]
        options += [lambda v: b.sqrt(b.add(b.square(v), b.number(0.5, v.type)))]
        if not self.smooth:
            options += [b.floor, b.round, b.sign, lambda v: b.cast(b.tanh(v), type=with_element(v.type, i32)), b.log, b.sqrt]
        return self.pick(options)(x)  # type: ignore[operator]

    def binary(self) -> Value | None:
        b, x = self.builder, self.value()
        if x is None:
            return None
        y = self.value(lambda t: t is x.type)
        assert y is not None
        element = element_type(x.type)
        if element is i1:
            options = [b.bitwise_and, b.bitwise_or, b.bitwise_xor, b.equal]
        elif element is i32:
            options = [b.add, b.subtract, b.multiply, b.maximum, b.bitwise_xor, b.floor_divide, b.remainder, b.less, b.equal]
        else:
            options = [b.add, b.subtract, b.multiply, b.maximum, b.minimum, lambda p, q: b.fma(p, q, p), lambda p, q: b.divide(p, b.add(b.square(q), b.number(1, q.type)))]
            options += [] if self.smooth else [b.divide, b.remainder, b.floor_divide, b.less, b.greater_equal, b.not_equal, b.copysign]
        return self.pick(options)(x, y)  # type: ignore[operator]

    def chosen(self) -> Value | None:
        b, condition = self.builder, self.value(lambda t: element_type(t) is i1)
        if condition is None:
            return None
        like = self.value(lambda t: shape_of(t) == shape_of(condition.type))
        assert like is not None
        other = self.value(lambda t: t is like.type)
        assert other is not None
        return b.select(condition, like, other)

    def moved(self) -> Value | None:
        return self.pick((self.broadcast, self.reshape, self.transpose, self.slice, self.pad, self.join))()  # type: ignore[operator]

    def broadcast(self) -> Value | None:
        x = self.value(lambda t: len(shape_of(t)) < 3)
        if x is None:
            return None
        shape, places = list(shape_of(x.type)), list(range(len(shape_of(x.type))))
        at = self.draw(st.integers(0, len(shape)))
        shape.insert(at, self.draw(SIZES))  # type: ignore[arg-type]
        places = [p + (p >= at) for p in places]  # type: ignore[operator]
        return self.builder.broadcast(x, type=TensorType(tuple(shape), element_type(x.type)), dimensions=places)

    def reshape(self) -> Value | None:
        x = self.value()
        if x is None:
            return None
        size = prod(shape_of(x.type))
        shapes = [(size,), (1, size), (size, 1)] + [(d, size // d) for d in (2, 3, 4, 5) if size and size % d == 0]
        return self.builder.reshape(x, type=TensorType(self.pick(shapes), element_type(x.type)))  # type: ignore[arg-type]

    def transpose(self) -> Value | None:
        x = self.value()
        if x is None:
            return None
        return self.builder.transpose(x, permutation=self.draw(st.permutations(range(len(shape_of(x.type))))))  # type: ignore[arg-type]

    def slice(self) -> Value | None:
        x = self.value()
        if x is None:
            return None
        starts, limits, steps = [], [], []
        for size in shape_of(x.type):
            step = self.pick((1, 1, 2, -1, -2))
            low, high = sorted(self.draw(st.tuples(st.integers(0, size), st.integers(0, size))))  # type: ignore[call-overload]
            starts.append(low if step > 0 else high - 1)  # type: ignore[operator]
            limits.append(high if step > 0 else low - 1)  # type: ignore[operator]
            steps.append(step)
        return self.builder.slice(x, starts=starts, limits=limits, steps=steps)  # type: ignore[arg-type]

    def pad(self) -> Value | None:
        x = self.value()
        if x is None:
            return None
        some = st.lists(st.integers(0, 2), min_size=len(shape_of(x.type)), max_size=len(shape_of(x.type)))
        return self.builder.pad(x, low=self.draw(some), high=self.draw(some))  # type: ignore[arg-type]

    def join(self) -> Value | None:
        x = self.value(lambda t: len(shape_of(t)) > 0)
        if x is None:
            return None
        axis = self.draw(st.integers(0, len(shape_of(x.type)) - 1))
        y = self.value(lambda t: t is x.type)
        assert y is not None
        return self.builder.concatenate([x, y, x][: self.pick((1, 2, 3))], axis=axis)  # type: ignore[misc, arg-type]

    def reduced(self) -> Value | None:
        b, x = self.builder, self.value(lambda t: len(shape_of(t)) > 0)
        if x is None:
            return None
        element, axes = element_type(x.type), self.axes(x)
        if element is i1:
            return self.pick((b.any, b.all))(x, axes=axes)  # type: ignore[operator]
        if not axes or self.draw(st.booleans()):
            return b.cumulative_sum(x, axis=axes[0] if axes else 0, reverse=self.draw(st.booleans()), exclusive=self.draw(st.booleans()))  # type: ignore[arg-type]
        options = [b.sum, b.max, b.min] + ([b.mean] if isinstance(element, FloatType) else [])
        return self.pick(options)(x, axes=axes)  # type: ignore[operator]

    def multiplied(self) -> Value | None:
        x = self.value(lambda t: len(shape_of(t)) in (1, 2) and element_type(t) is not i1)
        if x is None:
            return None
        size, element = shape_of(x.type)[-1], element_type(x.type)
        y = self.value(lambda t: len(shape_of(t)) in (1, 2) and shape_of(t)[0] == size and element_type(t) is element)
        if y is None:
            return None
        return self.builder.dot(x, y, lhs_contract=[len(shape_of(x.type)) - 1], rhs_contract=[0])

    def row(self) -> Value | None:
        b = self.builder
        x = self.value(lambda t: len(shape_of(t)) > 0 and 0 not in shape_of(t) and isinstance(element_type(t), FloatType))
        if x is None:
            return None
        return self.pick((b.softmax, b.log_softmax))(x, axes=self.axes(x, 1))  # type: ignore[operator]

    def made(self) -> Value | None:
        b, shape, element = self.builder, self.draw(SHAPES), self.pick(ELEMENTS)
        type = TensorType(shape, element)  # type: ignore[arg-type]
        if element is not i1 and shape and self.draw(st.booleans()):
            return b.iota(type=type, dimension=self.draw(st.integers(0, len(shape) - 1)))  # type: ignore[arg-type]
        return b.constant(type=type, value=elements(sample(type, self.draw(st.integers(0, 9))), type))  # type: ignore[arg-type]


def sample(type: Type, seed: int) -> np.ndarray:
    """Small numbers of a type."""
    rng = np.random.default_rng(seed)
    shape = shape_of(type)
    if element_type(type) is i1:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if isinstance(element_type(type), FloatType):
        return np.asarray(rng.uniform(-2, 2, shape)).astype(dtype_of(type))
    return np.asarray(rng.integers(-4, 5, shape)).astype(dtype_of(type))


@st.composite
def modules(draw: Draw, *, steps: int = 12, smooth: bool = False) -> Module:
    """A module with a function @main of up to three arguments, some ops, and up to three results."""
    types = st.builds(TensorType, SHAPES, st.sampled_from((f32, f64) if smooth else ELEMENTS))
    growing = _Growing(draw, draw(st.lists(types, min_size=1, max_size=3)), smooth)  # type: ignore[arg-type]
    for _ in range(draw(st.integers(1, steps))):  # type: ignore[call-overload]
        growing.step()
    results = draw(st.lists(st.sampled_from(growing.values[::-1]), min_size=1, max_size=3))
    growing.builder.end(func.ReturnOp, *results)  # type: ignore[misc]
    return module([function("main", growing.block)])


def arguments(of: Module, seed: int = 0, entry: str = "main") -> list[np.ndarray]:
    """Arrays for a function's arguments."""
    main = of.lookup(entry)
    assert main is not None
    return [sample(a.type, seed + i) for i, a in enumerate(main.regions[0].block.args)]
