# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX: `load(path)` reads one, `ng.compile` makes a function of it.

    model = ngmlir.frontends.onnx.load("model.onnx")
    run = ng.compile(model, target="cpu")
    y, = run(x)                     # by position, or run(input=x)

The package `onnx` is needed (`pip install ngmlir[onnx]`) and imported when a model is read that was not read before.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...support.diagnostics import UserError

if TYPE_CHECKING:
    from .model import Model

__all__ = ["load"]


def load(source: Any, threads: int | None = None, *, exact: bool = False) -> Model:
    """A model, read from a file (a path), from bytes, or from a `ModelProto`; nothing is compiled yet. Its programs use so many
    `threads` on the CPU, where `ng.compile` does not say it.

    Products between DequantizeLinear and QuantizeLinear multiply the integers: sums are exact and scaled once, so that what is
    quantized again may differ by one step from the f32 product of dequantized operands. With `exact` they are that product.

    Weights in files beside the model are mapped, and have to lie in its folder. Raises UserError for what is no model,
    Limit with every operator that is not supported.
    """
    if find_spec("onnx") is None:
        raise UserError("reading models needs the package onnx", hint="pip install ngmlir[onnx]")
    from .model import Model

    return Model(source, threads, exact)
