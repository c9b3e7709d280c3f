# SPDX-License-Identifier: Apache-2.0
"""Padding with elements of the tensor itself, at fixed and at open lengths, is what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_module, compile_open
from ngmlir.ops.words import from_text

MODES = ("edge", "reflect", "symmetric", "wrap")
Widths = list[tuple[int, int]]
#: A shape, and what is padded before and after each axis.
CASES: list[tuple[tuple[int, ...], Widths]] = [
    ((5,), [(2, 4)]),
    ((2,), [(1, 0)]),
    ((130,), [(0, 63)]),
    ((3, 7), [(2, 1), (0, 0)]),
    ((3, 37), [(0, 0), (17, 36)]),
    ((5, 11, 3), [(0, 0), (4, 10), (0, 0)]),
    ((4, 5, 19), [(1, 3), (0, 2), (18, 1)]),
    ((2, 3, 33, 65), [(0, 0), (0, 0), (3, 0), (0, 16)]),
]


def padded_text(shape: tuple[Any, ...], widths: Widths, mode: str, element: str) -> str:
    both = (
        shape,
        [
            f"[{n} + {a + b}]" if isinstance(n, str) else n + a + b
            for n, (a, b) in zip(shape, widths, strict=True)
        ],
    )
    source, target = ("x".join(f"[{n}]" if n in ("M", "N") else str(n) for n in dims) for dims in both)
    low, high = zip(*widths, strict=True)
    types = f"(tensor<{source}x{element}>) -> tensor<{target}x{element}>"
    return f"""func.func @main(%x: tensor<{source}x{element}>) -> tensor<{target}x{element}> {{
      %r = ng.border_pad %x low {[*low]} high {[*high]} {{border = "{mode}"}} : {types}
      return %r : tensor<{target}x{element}>
    }}"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["i8", "f32", "f64"])
def test_fixed_lengths(mode: str, dtype: str) -> None:
    kind = {"i8": np.int8, "f32": np.float32, "f64": np.float64}[dtype]
    for shape, widths in CASES:
        x = np.arange(np.prod(shape)).reshape(shape).astype(kind)
        run = compile_module(from_text(padded_text(shape, widths, mode, dtype)), "cpu")
        np.testing.assert_array_equal(run(x)[0], np.pad(x, widths, mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", MODES)
def test_open_lengths(mode: str) -> None:
    for open_shape, widths in [
        (("N",), [(2, 1)]),
        ((3, "N"), [(1, 1), (3, 2)]),
        (("M", "N", 5), [(1, 0), (2, 3), (0, 0)]),
        ((2, "M", "N"), [(0, 0), (0, 2), (4, 1)]),
    ]:
        text = padded_text(open_shape, widths, mode, "f32")
        names = [n for n in ("M", "N") if n in open_shape]
        run = compile_open(
            lambda lengths, text=text: from_text(text, lengths=lengths), dict.fromkeys(names, 40)
        )
        for n in (5, 17, 64, 131):
            lengths = {"M": n + 1, "N": n}
            x = np.random.default_rng(n).standard_normal([lengths.get(s, s) for s in open_shape], np.float32)  # type: ignore[call-overload]
            np.testing.assert_array_equal(run(x)[0], np.pad(x, widths, mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", MODES)
def test_named_axes(mode: str) -> None:
    C, D = ng.make_axis(5, name="C"), ng.make_axis(7, name="D")
    x = ng.placeholder([C, D])
    padded = ng.pad(x, [(2, 1), 0], border=mode)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    values = np.arange(35, dtype=np.float32).reshape(5, 7)
    slope = ng.deriv(ng.sum(padded * padded), x)
    made, found = ng.compile([padded, slope], [x])(values)
    np.testing.assert_array_equal(made, np.pad(values, [(2, 1), (0, 0)], mode))  # type: ignore[call-overload]
    rows = np.pad(np.arange(5), (2, 1), mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(found, 2 * values * np.bincount(rows)[:, None])


def test_borders_that_do_not_fit() -> None:
    x = ng.placeholder([ng.make_axis(3, name="C")])
    for arguments, message in [
        ({"border": "reflekt"}, "there is no border 'reflekt'\n.*\n.*\nhint: did you mean reflect"),
        ({"border": "reflect"}, "C has 3 elements, too few to be padded by \\(3, 0\\)"),
        ({"border": "edge", "value": 1}, "has no value 1"),
    ]:
        with pytest.raises(ng.UserError, match=message):
            ng.pad(x, [(3, 0)], **arguments)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
