# SPDX-License-Identifier: Apache-2.0
"""Helpers that programs of layers use."""

from __future__ import annotations

from typing import Any

from ..common.utils import (
    ConvParameters,
    conv_output_dim,
    deconv_output_dim,
    make_convparams,
    make_poolparams,
    squeeze_axes,
)

__all__ = [
    "ConvParameters",
    "conv_output_dim",
    "deconv_output_dim",
    "get_function_or_class_name",
    "make_convparams",
    "make_poolparams",
    "squeeze_axes",
]


def get_function_or_class_name(obj: Any) -> str:
    """The name of a function or a class; of any other object that of its class."""
    return getattr(obj, "__name__", None) or type(obj).__name__
