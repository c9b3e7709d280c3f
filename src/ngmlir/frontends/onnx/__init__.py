# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX: `load(path)` reads one, `ng.compile` makes a function of it.

    model = ngmlir.frontends.onnx.load("model.onnx")
    run = ng.compile(model, target="cpu")
    y, = run(x)                     # by position, or run(input=x)

The package `onnx` is needed (`pip install ngmlir[onnx]`) and imported when a model is read that was not read before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...support.diagnostics import UserError

if TYPE_CHECKING:
    from .model import Model
    from .quantization.quantizing import Quantized

__all__ = ["load", "quantize"]


def load(source: Any, threads: int | None = None, *, exact: bool = False) -> Model:
    """A model, read from a file (a path), from bytes, or from a `ModelProto`; nothing is compiled yet. Its programs use so many
    `threads` on the CPU, where `ng.compile` does not say it.

    Products between DequantizeLinear and QuantizeLinear multiply the integers: sums are exact and scaled once, so that what is
    quantized again may differ by one step from the f32 product of dequantized operands. Products of f32 with quantized
    weights sum integers too, each row rounded to 23 bits below its greatest number in a block. With `exact` all are the f32
    product of dequantized operands.

    Weights in external files are mapped, and must be in the folder of the model. Raises UserError for what is no model,
    Limit with every operator that is not supported.
    """
    _needs_onnx()
    from .model import Model

    return Model(source, threads, exact)


def quantize(
    source: Any,
    calibration: Any = None,
    *,
    mode: str = "static",
    bits: int = 8,
    block: int = 32,
    method: str = "minmax",
    keep: Sequence[str] = (),
    random: int = 0,
    timed: bool = False,
    target: str = "cpu",
    progress: Callable[[str], None] | None = None,
) -> Quantized:
    """A quantised form of a model in f32: `.model` is a `ModelProto`, `.report` tells its accuracy, `.save(path)` writes it.

    `source` is a path, bytes, a `ModelProto`, or what `load` gave. `mode`:

    - "static": products and convolutions multiply codes of 8 bits, u8 by s8, whose ranges are measured over `calibration`
      ("minmax", or "percentile": all but 1e-4 of the elements). Weights have a scale for each output channel. `QuantizeLinear` and
      `DequantizeLinear` say so in the model.
    - "dynamic": so do products of matrices (not convolutions), with the range of each call.
    - "weights": weights alone have 8 bits, with a scale for each channel; with `bits=4`, weights of matrix products have 4, with a
      scale for each `block` (16 to 256) of neighbours along the depth. Activations stay in f32.

    `calibration` are inputs of the model as they occur in use: a mapping from names to arrays, an array where there is one input, a
    path (`.npz`, `.npy`, a folder of these), or a sequence of such. Arrays are split along their first dimension where the model
    leaves it open or states a divisor of it. A fifth of the calls is used to compare with f32 and not to calibrate. `random` makes
    up so many samples instead, to try things out. `keep` names nodes that stay in f32 (`layer1*` names all that begin so). With
    `timed`, a call is timed in both forms. `target` runs the model meanwhile; `progress` is told of each step.

    Raises UserError for models that are quantised already or have nothing to quantize, for NaN and infinities in weights, data or
    tensors between, for data that does not fit the inputs, and for names that are none; Limit as `load` does.
    """
    _needs_onnx()
    from .places import at_the_users_line
    from .quantization.quantizing import quantized

    with at_the_users_line():
        return quantized(
            source, calibration, mode, bits, block, method, keep, random, timed, target, progress
        )


def _needs_onnx() -> None:
    if find_spec("onnx") is None:
        raise UserError("reading models needs the package onnx", hint="pip install ngmlir[onnx]")
