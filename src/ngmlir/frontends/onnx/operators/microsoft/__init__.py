# SPDX-License-Identifier: Apache-2.0
"""The operators of the domain com.microsoft, which ONNX Runtime's optimizer, transformer tools and quantizers write."""

from . import (
    activations,
    attention,
    convolutions,
    embeddings,
    experts,
    grouped_attention,
    layout,
    normalization,
    packed_sequences,
    packed_weights,
    products,
    quantized,
    quantized_products,
    rotary,
    spectral,
)

__all__ = [
    "activations",
    "attention",
    "convolutions",
    "embeddings",
    "experts",
    "grouped_attention",
    "layout",
    "normalization",
    "packed_sequences",
    "packed_weights",
    "products",
    "quantized",
    "quantized_products",
    "rotary",
    "spectral",
]
