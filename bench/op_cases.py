# SPDX-License-Identifier: Apache-2.0
"""The ops that bench/ops.py measures: each as a program, its arguments, and NumPy's best way to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np

from ngmlir.ir.literals import type_of_dtype
from ngmlir.ir.types import TensorType
from ngmlir.ops.meaning import MEANING
from ngmlir.ops.ng import OPS
from ngmlir.runtime.buffers import DTYPES

#: Writes the result of some arrays into the last of them.
Numpy = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One op on arguments of one size. `operations` counts additions and multiplications of a product."""

    family: str
    name: str
    elements: int
    text: str
    arguments: tuple[np.ndarray, ...]
    shape: tuple[int, ...]  # of the result
    dtype: np.dtype
    numpy: Numpy
    operations: int = 0
    tolerance: float = 1e-5
    rival: str = ""  # a program of ours that is measured in NumPy's place, on the same arguments in f32

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize + sum(a.nbytes for a in self.arguments)


Shape = tuple[int, ...]
Operand = tuple[Shape, str]


def tensor(operand: Operand) -> str:
    shape, kind = operand
    return f"tensor<{''.join(f'{d}x' for d in shape)}{kind}>"


def program(arguments: Sequence[Operand], result: Operand, body: str) -> str:
    """@main on %a, %b ...; its result %r is written where the last argument lies, as a variable's new value."""
    names = [f"%{'abcdef'[i]}: {tensor(o)}" for i, o in enumerate(arguments)]
    count = len(names)
    return (
        f"func.func @main({', '.join([*names, f'%out: {tensor(result)}'])}) -> {tensor(result)}"
        f" attributes {{ng.tied = array<i64: 0, {count}>}} {{\n"
        f"{body}\n  return %r : {tensor(result)}\n}}\n"
    )


_RANDOM = np.random.default_rng(20)


def numbers(operand: Operand, low: float = -4.0, high: float = 4.0) -> np.ndarray:
    shape, kind = operand
    dtype = DTYPES[kind]
    if kind == "i1":
        return _RANDOM.random(shape) < 0.5
    if dtype.kind in "iu":
        return _RANDOM.integers(int(max(low, 0) if dtype.kind == "u" else low), int(high), shape).astype(
            dtype
        )
    return _RANDOM.uniform(low, high, shape).astype(np.float32).astype(dtype)


class Cases:
    """Collects the cases of one number of elements."""

    def __init__(self, elements: int):
        self.elements = elements
        self.side = isqrt(elements)
        self.found: list[Case] = []

    def add(
        self, family: str, name: str, arguments: Sequence[Operand], result: Operand, body: str, numpy: Numpy,
        values: Sequence[np.ndarray | None] = (), **more: Any,
    ) -> None:  # fmt: skip
        given = [*values, *[None] * (len(arguments) - len(values))]
        arrays = tuple(numbers(o) if v is None else v for o, v in zip(arguments, given, strict=True))
        text = program(arguments, result, body)
        kind = DTYPES[result[1]]
        self.found.append(Case(family, name, self.elements, text, arrays, result[0], kind, numpy, **more))

    # -- elementwise -------------------------------------------------------------------------------------

    def elementwise_op(self, name: str, kind: str, *ranges: tuple[float, float]) -> None:
        """An op on operands of one type, from its domain or from other ranges."""
        definition = OPS[f"ng.{name}"].definition
        assert definition is not None
        numpy = _NUMPY.get(name, getattr(np, name, None))
        count, line = len(definition.operands), (self.elements,)
        type, result = (line, kind), (line, "i1" if "compare" in definition.traits else kind)
        given = ranges or [(o.domain.low, o.domain.high) for o in definition.operands]
        values = [numbers(type, low, high) for low, high in given]
        if "compare" in definition.traits:
            family, types = "compare", f"({', '.join([tensor(type)] * count)}) -> {tensor(result)}"
        else:
            family, types = ("math" if definition.errors else ("unary", "binary")[count - 1]), tensor(type)

        def call(*arrays: np.ndarray) -> None:
            if numpy is None:
                np.copyto(arrays[-1], MEANING[f"ng.{name}"](None, arrays[:-1]))  # type: ignore[arg-type]
            else:
                numpy(*arrays[:-1], out=arrays[-1])

        body = f"  %r = ng.{name} {', '.join(['%a', '%b'][:count])} : {types}"
        # What NumPy has no function for is beside the reference, and so in a family of its own.
        self.add(
            family if numpy is not None else "reference", f"{name}_{kind}", [type] * count, result, body, call, values,
            tolerance={"f16": 4e-3, "f64": 1e-12}.get(kind, 2e-5),
        )  # fmt: skip

    def cast(self, source: str, target: str) -> None:
        a, r = ((self.elements,), source), ((self.elements,), target)
        low = 0.0 if target.startswith("u") else -4.0
        self.add(
            "cast", f"cast_{source}_{target}", [a], r, f"  %r = ng.cast %a : ({tensor(a)}) -> {tensor(r)}",
            lambda a, out: np.copyto(out, a, casting="unsafe"), [numbers(a, low, 100.0)],
        )  # fmt: skip

    def elementwise(self) -> None:
        chosen = dict.fromkeys((name, "f32") for name in _on("f32"))
        chosen |= dict.fromkeys((name, "i32") for name in _on("i32") if name not in _on("f32"))
        for name in _on("f32"):
            if OPS[f"ng.{name}"].definition.errors:  # type: ignore[union-attr]
                chosen |= {(name, "f64"): None, (name, "f16"): None}
        chosen |= dict.fromkeys(tuple(pair.split("_on_")) for pair in _BESIDES.split())  # type: ignore[arg-type]
        for name, kind in chosen:
            if kind[0] in "iu" and name.startswith("shift"):
                self.elementwise_op(name, kind, (-100, 100), (0, 16))
            elif kind[0] in "iu" and name in ("floor_divide", "remainder"):
                self.elementwise_op(name, kind, (-100, 100), (1, 100))
            else:
                self.elementwise_op(name, kind)
        for source, target in _CASTS:
            self.cast(source, target)
        self.select("f32")
        self.select("i8")

    def select(self, kind: str) -> None:
        n = (self.elements,)
        c, t = (n, "i1"), (n, kind)

        self.add(
            "select", f"select_{kind}", [c, t, t], t,
            f"  %r = ng.select %a, %b, %c : ({tensor(c)}, {tensor(t)}, {tensor(t)}) -> {tensor(t)}",
            lambda c, a, b, out: np.copyto(out, np.where(c, a, b)),
        )  # fmt: skip

    def broadcasts(self) -> None:
        for kind in ("f32", "i8"):
            matrix = ((self.side, self.side), kind)
            for which, dims, shape in (("row", 1, (self.side,)), ("column", 0, (self.side,))):
                vector = (shape, kind)

                def numpy(
                    a: np.ndarray, b: np.ndarray, out: np.ndarray, column: bool = which == "column"
                ) -> None:
                    np.add(a, b[:, None] if column else b, out=out)

                body = (
                    f"  %w = ng.broadcast %b dims [{dims}] : ({tensor(vector)}) -> {tensor(matrix)}\n"
                    f"  %r = ng.add %a, %w : {tensor(matrix)}"
                )
                self.add("broadcast", f"add_{which}_{kind}", [matrix, vector], matrix, body, numpy)

    # -- reductions --------------------------------------------------------------------------------------

    def shapes(self) -> Iterator[tuple[str, Shape, tuple[int, ...]]]:
        n, side = self.elements, self.side
        yield "last", (side, side), (1,)
        yield "first", (side, side), (0,)
        yield "all", (n,), (0,)
        yield "last8", (n // 8, 8), (1,)
        yield "last37", (n // 37, 37), (1,)
        yield "first5", (n // 5, 5), (0,)
        yield "middle", (n // 256, 16, 16), (1,)

    def reduction(
        self, name: str, numpy: Numpy, kind: str, which: str, shape: Shape, axes: tuple[int, ...]
    ) -> None:
        a = (shape, kind)
        r = (tuple(d for i, d in enumerate(shape) if i not in axes), kind)
        low, high = (0.9, 1.1) if name == "product" else (-4.0, 4.0)
        # What decides `any` and `all` comes last, so that nobody stops early.
        values = np.full(shape, name == "all") if kind == "i1" else numbers(a, low, high)

        def call(a: np.ndarray, out: np.ndarray) -> None:
            numpy(a, axis=axes, out=out)

        tolerance = {"f64": 1e-10, "f16": 2e-2}.get(kind, 1e-3)
        body = f"  %r = ng.{name} %a axes [{', '.join(map(str, axes))}] : ({tensor(a)}) -> {tensor(r)}"
        self.add("reduce", f"{name}_{which}_{kind}", [a], r, body, call, [values], tolerance=tolerance)

    def reductions(self) -> None:
        for which, shape, axes in self.shapes():
            self.reduction("sum", np.add.reduce, "f32", which, shape, axes)
            self.reduction("max", np.maximum.reduce, "f32", which, shape, axes)
            if which in ("last", "first", "all"):
                for name, numpy, kind in _REDUCTIONS:
                    self.reduction(name, numpy, kind, which, shape, axes)
            if which != "middle":
                self.arg(which, shape, axes, "f32")
            if which in ("last", "all"):
                self.arg(which, shape, axes, "i32")
        self.cumulative("cumulative_sum", np.add.accumulate, "f32", (self.elements,), 0)
        self.cumulative("cumulative_sum", np.add.accumulate, "f32", (self.side, self.side), 1)
        self.cumulative("cumulative_sum", np.add.accumulate, "f32", (self.side, self.side), 0)
        self.cumulative("cumulative_sum", np.add.accumulate, "f64", (self.elements,), 0)
        self.cumulative("cumulative_sum", np.add.accumulate, "i32", (self.elements,), 0)
        self.cumulative("cumulative_max", np.maximum.accumulate, "f32", (self.elements,), 0)

    def arg(self, which: str, shape: Shape, axes: tuple[int, ...], kind: str) -> None:
        a, r = (shape, kind), (tuple(d for i, d in enumerate(shape) if i not in axes), "i64")
        values = numbers(a, -1e6, 1e6)

        def call(a: np.ndarray, out: np.ndarray) -> None:
            np.argmax(a, axis=axes[0], out=out)

        body = f"  %r = ng.argmax %a axes [{axes[0]}] : ({tensor(a)}) -> {tensor(r)}"
        self.add("argmax", f"argmax_{which}_{kind}", [a], r, body, call, [values])

    def cumulative(self, name: str, numpy: Numpy, kind: str, shape: Shape, axis: int) -> None:
        type = (shape, kind)
        where = f"{len(shape)}d_{'last' if axis == len(shape) - 1 else 'first'}"
        values = numbers(type, 0.0, 4.0)

        def call(a: np.ndarray, out: np.ndarray) -> None:
            numpy(a, axis=axis, out=out)

        body = f"  %r = ng.{name} %a axis {axis} : {tensor(type)}"
        # NumPy adds one after the other, and so gathers the greater error.
        self.add("cumulative", f"{name}_{where}_{kind}", [type], type, body, call, [values], tolerance=3e-3)

    def networks(self) -> None:
        for rows, columns in ((self.side, self.side), (self.elements // 10, 10)):
            type = ((rows, columns), "f32")
            one = ((rows,), "f32")
            for name, numpy in (("softmax", _softmax), ("log_softmax", _log_softmax)):
                body = f"  %r = ng.{name} %a axes [1] : {tensor(type)}"
                self.add("softmax", f"{name}_{columns}", [type], type, body, numpy)
            targets = np.zeros(type[0], np.float32)
            targets[np.arange(rows), _RANDOM.integers(0, columns, rows)] = 1
            body = (
                f"  %r = ng.cross_entropy %a, %b axes [1] : ({tensor(type)}, {tensor(type)}) -> {tensor(one)}"
            )
            self.add(
                "softmax",
                f"cross_entropy_{columns}",
                [type, type],
                one,
                body,
                _cross_entropy,
                [None, targets],
            )

        for columns in (768, 64):
            self.layer_norm(max(1, self.elements // columns), columns)
        self.gelu()

    def layer_norm(self, rows: int, columns: int) -> None:
        x, one, vector = ((rows, columns), "f32"), ((rows,), "f32"), ((columns,), "f32")
        t, o, v = tensor(x), tensor(one), tensor(vector)
        body = f"""  %m = ng.mean %a axes [1] : ({t}) -> {o}
  %mw = ng.broadcast %m dims [0] : ({o}) -> {t}
  %d = ng.subtract %a, %mw : {t}
  %dd = ng.multiply %d, %d : {t}
  %v = ng.mean %dd axes [1] : ({t}) -> {o}
  %e = ng.constant dense<1.0e-5> : {o}
  %ve = ng.add %v, %e : {o}
  %s = ng.rsqrt %ve : {o}
  %sw = ng.broadcast %s dims [0] : ({o}) -> {t}
  %n = ng.multiply %d, %sw : {t}
  %g = ng.broadcast %b dims [1] : ({v}) -> {t}
  %ng = ng.multiply %n, %g : {t}
  %h = ng.broadcast %c dims [1] : ({v}) -> {t}
  %r = ng.add %ng, %h : {t}"""
        self.add(
            "layer norm",
            f"layer_norm_{columns}",
            [x, vector, vector],
            x,
            body,
            _layer_norm,
            tolerance=1e-4,
        )

    def gelu(self) -> None:
        """By way of tanh, as networks have it."""
        x = ((self.elements,), "f32")
        constants = {"half": 0.5, "one": 1.0, "cubic": 0.044715, "scale": 0.7978845608}
        lines = [f"%{name} = ng.constant dense<{value}> : TYPE" for name, value in constants.items()]
        lines += [
            "%x2 = ng.multiply %a, %a : TYPE", "%x3 = ng.multiply %x2, %a : TYPE",
            "%c3 = ng.multiply %x3, %cubic : TYPE", "%in = ng.add %a, %c3 : TYPE",
            "%sc = ng.multiply %in, %scale : TYPE", "%t = ng.tanh %sc : TYPE",
            "%t1 = ng.add %t, %one : TYPE", "%h = ng.multiply %a, %half : TYPE",
            "%r = ng.multiply %h, %t1 : TYPE",
        ]  # fmt: skip
        body = "\n".join(f"  {line.replace('TYPE', tensor(x))}" for line in lines)
        self.add("chain", "gelu", [x], x, body, _gelu, tolerance=1e-4)

    # -- moves -------------------------------------------------------------------------------------------

    def transpose(self, label: str, shape: Shape, order: tuple[int, ...], kind: str) -> None:
        a, r = (shape, kind), (tuple(shape[d] for d in order), kind)
        self.add(
            "transpose", f"transpose_{label}_{kind}", [a], r,
            f"  %r = ng.transpose %a perm [{', '.join(map(str, order))}] : ({tensor(a)}) -> {tensor(r)}",
            lambda a, out: np.copyto(out, a.transpose(order)),
        )  # fmt: skip

    def moves(self) -> None:
        n, side = self.elements, self.side
        for kind in ("f32", "f64", "i8", "f16"):
            self.transpose("2d", (side, side), (1, 0), kind)
        self.transpose("batched", (n // 256, 16, 16), (0, 2, 1), "f32")
        self.transpose("heads", (side, 4, side // 4), (1, 0, 2), "f32")
        self.transpose("nchw", (n // 1024, 16, 64), (0, 2, 1), "f32")
        self.transpose("odd", (n // 37, 37), (1, 0), "f32")
        for label, kind, starts, limits, steps in (
            ("step2", "f32", (0,), (n,), (2,)),
            ("step2", "i8", (0,), (n,), (2,)),
            ("reverse", "f32", (n - 1,), (-1,), (-1,)),
            ("window", "f32", (1, 1), (side - 1, side - 1), (1, 1)),
            ("grid", "f32", (0, 0), (side, side), (2, 2)),
            ("columns", "f32", (0, 3), (side, side), (1, 5)),
        ):
            self.slice(label, kind, starts, limits, steps)
        for kind in ("f32", "i8"):
            self.pad("pad", (side, side), kind)
            self.concatenate("rows", [(side, side), (side, side)], 0, kind)
            self.concatenate("columns", [(side, side), (side, side)], 1, kind)
        self.concatenate("flat", [(n,), (n // 2,), (n,)], 0, "f32")
        self.concatenate("thin", [(n // 4, 3), (n // 4, 1)], 1, "f32")

    def slice(self, label: str, kind: str, starts: Shape, limits: Shape, steps: Shape) -> None:
        shape = (self.elements,) if len(starts) == 1 else (self.side, self.side)
        window = tuple(
            slice(s, None if limit < 0 else limit, step)
            for s, limit, step in zip(starts, limits, steps, strict=True)
        )
        a, r = (shape, kind), (np.empty(shape, np.int8)[window].shape, kind)
        self.add(
            "slice", f"slice_{label}_{kind}", [a], r,
            f"  %r = ng.slice %a from {list(starts)} to {list(limits)} step {list(steps)} : ({tensor(a)}) -> {tensor(r)}",
            lambda a, out: np.copyto(out, a[window]),
        )  # fmt: skip

    def pad(self, label: str, shape: Shape, kind: str) -> None:
        a, r = (shape, kind), ((shape[0] + 2, shape[1] + 2), kind)

        def numpy(a: np.ndarray, out: np.ndarray) -> None:
            out[0] = out[-1] = 0
            out[:, 0] = out[:, -1] = 0
            out[1:-1, 1:-1] = a

        body = f"  %r = ng.pad %a low [1, 1] high [1, 1] : ({tensor(a)}) -> {tensor(r)}"
        self.add("pad", f"{label}_{kind}", [a], r, body, numpy)

    def concatenate(self, label: str, shapes: Sequence[Shape], axis: int, kind: str) -> None:
        types = [(shape, kind) for shape in shapes]
        total = list(shapes[0])
        total[axis] = sum(s[axis] for s in shapes)
        r = (tuple(total), kind)
        names = ", ".join(f"%{'abcdef'[i]}" for i in range(len(types)))
        body = f"  %r = ng.concatenate {names} axis {axis} : ({', '.join(map(tensor, types))}) -> {tensor(r)}"
        self.add(
            "concatenate", f"concatenate_{label}_{kind}", types, r, body,
            lambda *arrays: np.concatenate(arrays[:-1], axis=axis, out=arrays[-1]),
        )  # fmt: skip

    def indexed(self) -> None:
        n, side = self.elements, self.side
        for kind in ("f32", "f64", "i8"):
            self.gather(f"flat_{kind}", (n,), (n,), kind)
        self.gather("rows_f32", (max(side, 64), 64), (n // 64,), "f32")
        self.gather("thin_f32", (n // 4, 4), (n // 4,), "f32")
        a, i, r = ((side, side), "f32"), ((side, side), "i32"), ((side, side), "f32")
        index = _RANDOM.integers(0, side, i[0]).astype(np.int32)

        def along(a: np.ndarray, i: np.ndarray, out: np.ndarray) -> None:
            out[...] = np.take_along_axis(a, i, axis=1)

        body = f"  %r = ng.gather_elements %a[%b] axis 1 : ({tensor(a)}, {tensor(i)}) -> {tensor(r)}"
        self.add("gather", "gather_elements_f32", [a, i], r, body, along, [None, index])
        for combine in ("set", "add", "max"):
            self.scatter("flat", (n,), (n,), combine)
            self.scatter("rows", (side, 64), (n // 64,), combine)
        self.one_hot(n // 10, 10)
        self.one_hot(max(1, n // 1000), 1000)

    def gather(self, label: str, shape: Shape, count: Shape, kind: str) -> None:
        a, i, r = (shape, kind), (count, "i32"), ((*count, *shape[1:]), kind)
        index = _RANDOM.integers(0, shape[0], count).astype(np.int32)
        self.add(
            "gather", f"gather_{label}", [a, i], r,
            f"  %r = ng.gather %a[%b] axis 0 : ({tensor(a)}, {tensor(i)}) -> {tensor(r)}",
            lambda a, i, out: np.take(a, i, axis=0, out=out, mode="clip"), [None, index],
        )  # fmt: skip

    def scatter(self, label: str, shape: Shape, count: Shape, combine: str) -> None:
        a, i, u = (shape, "f32"), (count, "i32"), ((*count, *shape[1:]), "f32")
        index = _RANDOM.integers(0, shape[0], count).astype(np.int32)
        at = {"add": np.add.at, "max": np.maximum.at}.get(combine)

        def numpy(a: np.ndarray, i: np.ndarray, u: np.ndarray, out: np.ndarray) -> None:
            np.copyto(out, a)
            if at:
                at(out, i, u)
            else:
                out[i] = u

        body = (
            f'  %r = ng.scatter %a[%b], %c axis 0 {{combine = "{combine}"}} : '
            f"({tensor(a)}, {tensor(i)}, {tensor(u)}) -> {tensor(a)}"
        )
        self.add(
            "scatter", f"scatter_{combine}_{label}", [a, i, u], a, body, numpy, [None, index], tolerance=1e-4
        )

    def one_hot(self, rows: int, classes: int) -> None:
        i, r = ((rows,), "i32"), ((rows, classes), "f32")
        index = _RANDOM.integers(0, classes, rows).astype(np.int32)
        every = np.arange(rows)

        def numpy(i: np.ndarray, out: np.ndarray) -> None:
            out.fill(0)
            out[every, i] = 1

        body = f"  %r = ng.one_hot %a axis 1 : ({tensor(i)}) -> {tensor(r)}"
        self.add("one_hot", f"one_hot_{classes}", [i], r, body, numpy, [index])

    # -- products ----------------------------------------------------------------------------------------

    def dot(
        self,
        label: str,
        m: int,
        k: int,
        n: int,
        kind: str = "f32",
        lhs: str = "N",
        rhs: str = "N",
        batch: int = 0,
        family: str = "dot",
    ) -> None:
        before = (batch,) if batch else ()
        a = ((*before, *((m, k) if lhs == "N" else (k, m))), kind)
        b = ((*before, *((k, n) if rhs == "N" else (n, k))), kind)
        r = ((*before, m, n), kind)
        first = len(before)
        where = f"contract [{first + (lhs == 'N')}] x [{first + (rhs == 'T')}]"
        batches = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
        body = f"  %r = ng.dot %a, %b {where}{batches} : ({tensor(a)}, {tensor(b)}) -> {tensor(r)}"

        def numpy(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
            np.matmul(
                a.swapaxes(-1, -2) if lhs == "T" else a, b.swapaxes(-1, -2) if rhs == "T" else b, out=out
            )

        self.add(
            family, f"dot_{lhs}{rhs}_{label}_{kind}", [a, b], r, body, numpy,
            operations=2 * max(1, batch) * m * k * n,
            tolerance={"f16": 3e-2, "bf16": 3e-2, "f64": 1e-10}.get(kind, 1e-3),
        )  # fmt: skip

    def products(self) -> None:
        s = self.side
        for lhs, rhs in (("N", "N"), ("N", "T"), ("T", "N"), ("T", "T")):
            self.dot("square", s, s, s, lhs=lhs, rhs=rhs)
            self.dot("rows8", 8, s, s, lhs=lhs, rhs=rhs)
            self.dot("row", 1, s, s, lhs=lhs, rhs=rhs)
            self.dot("column", s, s, 1, lhs=lhs, rhs=rhs)
        self.dot("columns8", s, s, 8)
        self.dot("half", s // 2, s, 2 * s)
        self.dot("odd", s + 1, s - 1, s + 3)
        self.dot("thin", s, 16, s)
        self.dot("outer", s, 1, s)
        self.dot("inner", 1, self.elements, 1, rhs="T")
        self.dot("square", s, s, s, "f64")
        self.dot("batch16", 16, 16, 16, batch=self.elements // 256)
        self.dot("batch64", 64, 64, 64, batch=max(1, self.elements // 4096), rhs="T")
        if s <= 256:
            for kind in ("i32", "i8", "f16"):
                self.dot("square", s, s, s, kind)

    def all(self) -> list[Case]:
        self.elementwise()
        self.broadcasts()
        self.reductions()
        self.networks()
        self.moves()
        self.indexed()
        self.products()
        return self.found


def cases(elements: int) -> list[Case]:
    """All cases on about `elements` elements (a square number of at least 1024, for square matrices)."""
    return Cases(elements).all()


def compare(case: Case, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Integers must be equal, floats nearly: sums have other orders, and NumPy errs too."""
    if ours.dtype.kind in "biu":
        np.testing.assert_array_equal(ours, theirs, err_msg=case.name)
        return
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    scale = float(np.abs(b).max(initial=0.0)) if case.operations or case.family == "reduce" else 1.0
    np.testing.assert_allclose(
        a, b, rtol=case.tolerance, atol=case.tolerance * max(scale, 1e-30), err_msg=case.name
    )


# ---- NumPy's ways --------------------------------------------------------------------------------------------


def _softmax(a: np.ndarray, out: np.ndarray) -> None:
    np.subtract(a, a.max(axis=1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=1, keepdims=True), out=out)


def _log_softmax(a: np.ndarray, out: np.ndarray) -> None:
    np.subtract(a, a.max(axis=1, keepdims=True), out=out)
    np.subtract(out, np.log(np.exp(out).sum(axis=1, keepdims=True)), out=out)


def _cross_entropy(a: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    shifted = a - a.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    shifted *= targets
    np.negative(shifted.sum(axis=1), out=out)


def _layer_norm(a: np.ndarray, gain: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    count = np.float32(a.shape[1])
    np.subtract(a, np.add.reduce(a, axis=1, keepdims=True) / count, out=out)
    variance = np.einsum("ij,ij->i", out, out)[:, None] / count
    np.multiply(out, 1 / np.sqrt(variance + np.float32(1e-5)), out=out)
    np.multiply(out, gain, out=out)
    np.add(out, bias, out=out)


def _gelu(a: np.ndarray, out: np.ndarray) -> None:
    np.multiply(a, a, out=out)
    np.multiply(out, np.float32(0.044715 * 0.7978845608), out=out)
    np.add(out, np.float32(0.7978845608), out=out)
    np.multiply(out, a, out=out)
    np.tanh(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.multiply(out, a, out=out)
    np.multiply(out, np.float32(0.5), out=out)


def _sigmoid(a: np.ndarray, out: np.ndarray) -> None:
    np.negative(a, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)


def _rsqrt(a: np.ndarray, out: np.ndarray) -> None:
    np.sqrt(a, out=out)
    np.reciprocal(out, out=out)


def _shifted_down(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    np.right_shift(a.view(np.uint32), b.view(np.uint32), out=out.view(np.uint32))


def _mean(a: np.ndarray, axis: tuple[int, ...], out: np.ndarray) -> None:
    np.add.reduce(a, axis=axis, out=out)
    np.divide(out, out.dtype.type(prod(a.shape[d] for d in axis)), out=out)


#: NumPy's best way where it is no function of the op's own name.
_NUMPY: dict[str, Numpy] = {
    "rsqrt": _rsqrt, "sigmoid": _sigmoid, "round": np.rint, "shift_left": np.left_shift,
    "shift_right_logical": _shifted_down, "shift_right_arithmetic": np.right_shift,
    "softplus": lambda a, out: np.logaddexp(a, 0, out=out),
}  # fmt: skip

#: What is measured beside every op in f32 (or i32), and every function of the math library in f64 and f16.
_BESIDES = """
sqrt_on_f64 sqrt_on_f16 floor_on_f64 floor_on_f16 absolute_on_i32 absolute_on_i8 negative_on_i32 negative_on_i8
add_on_f64 add_on_f16 add_on_i32 add_on_i8 multiply_on_f64 multiply_on_f16 multiply_on_i32 multiply_on_i8
maximum_on_f64 maximum_on_f16 maximum_on_i32 maximum_on_i8 floor_divide_on_i8 floor_divide_on_i16 floor_divide_on_i32
floor_divide_on_i64 floor_divide_on_ui32 remainder_on_i32 less_on_f64 less_on_i32 less_on_i8
"""


def _on(kind: str) -> list[str]:
    """The elementwise ops of one or two operands of this type."""
    type = TensorType((1,), type_of_dtype(DTYPES[kind]))
    return [
        name[3:]
        for name, op in OPS.items()
        for definition in [op.definition]
        if definition is not None and "elementwise" in definition.traits and "stated" not in definition.traits
        if len(definition.operands) < 3 and all(o.constraint.accepts(type) for o in definition.operands)
    ]


_CASTS = (
    ("f32", "f64"), ("f64", "f32"), ("f32", "f16"), ("f16", "f32"), ("f32", "i32"), ("i32", "f32"), ("f32", "i8"),
    ("i8", "f32"), ("f32", "i1"), ("i1", "f32"), ("i64", "i32"), ("i32", "i64"), ("i8", "i32"), ("i32", "i8"),
    ("f64", "i64"), ("i64", "f64"), ("f32", "ui8"), ("ui8", "f32"), ("f64", "f16"), ("f32", "i64"),
)  # fmt: skip

_REDUCTIONS: tuple[tuple[str, Numpy, str], ...] = (
    ("sum", np.add.reduce, "f64"), ("sum", np.add.reduce, "f16"), ("sum", np.add.reduce, "i32"),
    ("max", np.maximum.reduce, "i8"), ("max", np.maximum.reduce, "f64"), ("product", np.multiply.reduce, "f32"),
    ("mean", _mean, "f32"), ("any", np.logical_or.reduce, "i1"), ("all", np.logical_and.reduce, "i1"),
)  # fmt: skip
