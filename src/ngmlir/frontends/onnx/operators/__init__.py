# SPDX-License-Identifier: Apache-2.0
"""The operators of ONNX, by family: each a function from a node and its inputs to what `ng` computes them with."""

from . import (
    control,
    detection,
    elementwise,
    indexing,
    layout,
    normalization,
    products,
    quantization,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
    sorting,
    spectral,
    training,
    windows,
)

__all__ = [
    "control",
    "detection",
    "elementwise",
    "indexing",
    "layout",
    "normalization",
    "products",
    "quantization",
    "recurrent",
    "reductions",
    "resizing",
    "sampling",
    "sequences",
    "sorting",
    "spectral",
    "training",
    "windows",
]
