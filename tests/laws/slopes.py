# SPDX-License-Identifier: Apache-2.0
"""Gradients against differences of values, in f64: of any graph, and of an op as its entry in `dialects/` shows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from examples import wrapped

import ngmlir as ng
from ngmlir.ir.attributes import Attribute, StringAttr, boolean
from ngmlir.ir.core import Op
from ngmlir.ir.types import FloatType, TensorType, f64, i1, with_element
from ngmlir.op_graph.tensor import Tensor
from ngmlir.op_graph.verbs import VERBS
from ngmlir.ops import ng as dialect
from ngmlir.ops.words import from_text
from ngmlir.testing import numeric_derivative, ordinary_numbers

Array = np.ndarray[Any, Any]
STEP = 1e-6


def check_slopes(
    build: Callable[..., Tensor],
    values: Sequence[Array],
    axes: Sequence[Sequence[ng.Axis]],
    second: bool = True,
) -> None:
    """First derivatives by every input within 1e-6, second ones (of a weighted square) within 1e-5."""
    value, mixed, inputs = _weighed(build, values, axes)
    with ng.default_float("f64"):
        firsts = [ng.deriv(value, x) for x in inputs]
        rng = np.random.RandomState(8)
        mixed = sum((ng.sum(ng.square(d) * rng.uniform(0.5, 1.5), out_axes=()) for d in firsts), mixed)
        seconds = [ng.deriv(mixed, x) for x in inputs]
    run = ng.transformers.make_transformer("numpy").computation([value, mixed, *firsts, *seconds], *inputs)
    got = run(*values)
    assert [d.axes for d in firsts] == [x.axes for x in inputs]
    for i, x in enumerate(values):

        def at(v: Array, which: int, i: int = i) -> Any:
            return run(*values[:i], v, *values[i + 1 :])[which]

        expected = numeric_derivative(lambda v: at(v, 0), x, STEP)
        np.testing.assert_allclose(got[2 + i], expected, rtol=1e-6, atol=1e-6)
        if second:
            expected = numeric_derivative(lambda v: at(v, 1), x, STEP)
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            found = got[2 + len(values) + i]
            np.testing.assert_allclose(found / scale, expected / scale, rtol=1e-5, atol=1e-5)


def check_flat(
    build: Callable[..., Tensor], values: Sequence[Array], axes: Sequence[Sequence[ng.Axis]]
) -> None:
    """No input moves the value."""
    value, _, inputs = _weighed(build, values, axes)
    run = ng.transformers.make_transformer("numpy").computation(value, *inputs)
    for i, x in enumerate(values):
        found = numeric_derivative(lambda v, i=i: run(*values[:i], v, *values[i + 1 :]), x, STEP)
        assert not found.any(), f"the slope by operand {i} is {found.ravel()[np.flatnonzero(found)[0]]}"


def _weighed(
    build: Callable[..., Tensor], values: Sequence[Array], axes: Sequence[Sequence[ng.Axis]]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A weighted sum of the result, a zero, and the inputs. Infinities (an extreme of nothing) are left out."""
    rng = np.random.RandomState(7)
    with ng.default_float("f64"):
        inputs = [ng.placeholder(a) for a in axes]
        out = build(*inputs)
        first = ng.transformers.make_transformer("numpy").computation(out, *inputs)(*values)
        kept = ng.constant(np.isfinite(first), axes=out.axes, dtype="bool")
        weights = ng.constant(rng.uniform(0.5, 1.5, out.axes.known_shape), axes=out.axes)
        value = ng.sum(ng.where(kept, out, 0.0) * weights, out_axes=())
        return value, ng.constant(0.0), inputs


# ---- of one op ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """An op as the example of its entry applies it, floats in f64, with one choice of its bools and enums."""

    op: Op
    attributes: dict[str, Attribute]

    def __str__(self) -> str:
        chosen = [str(a) for n, a in self.attributes.items() if a is not self.op.attributes.get(n)]
        return "-".join([self.op.name, *chosen])

    @property
    def differentiable(self) -> list[int]:
        """The operands by which there may be a slope."""
        return [i for i, o in enumerate(self.op.operands) if isinstance(_type(o.type).element, FloatType)]

    @property
    def result(self) -> TensorType:
        """The type of the result: with floats where the op may have some."""
        (result,) = self.op.results
        assert self.op.definition is not None
        wide = with_element(_type(result.type), f64)
        takes = self.op.definition.results[0].constraint.accepts(wide)
        free = "stated" in self.op.traits or isinstance(_type(result.type).element, FloatType)
        return wide if takes and free else _type(result.type)

    @property
    def has_slopes(self) -> bool:
        return bool(self.differentiable) and isinstance(self.result.element, FloatType)

    def check(self, judge: Callable[..., None], **options: Any) -> None:
        """Holds `judge` (one of the checks above) against the op."""
        definition = self.op.definition
        assert definition is not None
        groups = definition.operand_groups(len(self.op.operands)) or []
        operands = [operand for operand, start, stop in groups for _ in range(start, stop)]
        random = np.random.default_rng(3)
        types = [_type(o.type) for o in self.op.operands]
        arrays = [
            ordinary_numbers(
                o.domain, with_element(t, f64) if isinstance(t.element, FloatType) else t, random
            )
            for o, t in zip(operands, types, strict=True)
        ]
        axes = [axes_of(t) for t in types]
        wanted = self.differentiable

        def build(*inputs: Tensor) -> Tensor:
            given: list[Tensor] = [
                inputs[wanted.index(i)]
                if i in wanted
                else ng.constant(a, axes=axes[i], dtype="bool" if t.element is i1 else str(t.element))
                for i, (a, t) in enumerate(zip(arrays, types, strict=True))
            ]
            if "stated" in definition.traits:
                return VERBS.stated(
                    type(self.op),
                    given,
                    self.attributes,
                    ng.make_axes(axes_of(self.result)),
                    self.result.element,
                )
            return VERBS.build(type(self.op), given, self.attributes)[0]

        judge(build, [arrays[i] for i in wanted], [axes[i] for i in wanted], **options)


def axes_of(type: TensorType) -> list[ng.Axis]:
    """Axes as the type names them; by their position where it does not."""
    names = type.axes or [f"D{i}" for i in range(type.rank)]
    return [ng.make_axis(size, name) for size, name in zip(type.shape, names, strict=True)]


def _type(type: Any) -> TensorType:
    assert isinstance(type, TensorType)
    return type


def examples() -> Iterator[Example]:
    """Every op of the ng dialect that has a value by itself, with each choice of its bools and enums."""
    for cls in dialect.OPS.values():
        definition = cls.definition
        if definition is None or "pure" not in definition.traits or "terminator" in definition.traits:
            continue
        (op,) = [o for o in from_text(wrapped(cls)).walk() if type(o) is cls]
        choices = [[(f.name, a) for a in _choices(f.kind)] for f in definition.attributes if _choices(f.kind)]
        for chosen in itertools.product(*choices):
            yield Example(op, {**op.attributes, **dict(chosen)})


def _choices(kind: str) -> list[Attribute]:
    if kind == "bool":
        return [boolean(False), boolean(True)]
    return [StringAttr(word) for word in kind[5:-1].split("|")] if kind.startswith("enum(") else []
