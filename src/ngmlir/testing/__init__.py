# SPDX-License-Identifier: Apache-2.0
"""Layer 8: helpers for tests of programs and ops: executors, derivative checks, random tensors, numbers to try an op on,
convolutions in NumPy."""

from __future__ import annotations

from ..op_graph.answers import answer_all
from .convolution import ConvParams, reference_conv, reference_deconv_bprop, reference_deconv_fprop
from .execution import (
    ExecutorFactory,
    assert_allclose,
    check_derivative,
    executor,
    numeric_derivative,
)
from .numbers import ordinary_numbers, special_numbers, wide_numbers
from .random import RandomTensorGenerator
from .settings import is_flex_factory, raise_all_numpy_errors, with_error_settings

__all__ = [
    "ConvParams",
    "ExecutorFactory",
    "RandomTensorGenerator",
    "assert_allclose",
    "check_derivative",
    "executor",
    "is_flex_factory",
    "numeric_derivative",
    "ordinary_numbers",
    "raise_all_numpy_errors",
    "reference_conv",
    "reference_deconv_bprop",
    "reference_deconv_fprop",
    "special_numbers",
    "wide_numbers",
    "with_error_settings",
]


def __dir__() -> list[str]:
    return sorted(__all__)


answer_all(globals(), __all__, "ng.testing")
