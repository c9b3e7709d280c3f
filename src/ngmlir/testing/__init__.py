# SPDX-License-Identifier: Apache-2.0
"""Rank 8: helpers for tests of programs and ops: executors, derivative checks, random tensors, numbers to try an op on."""

from __future__ import annotations

from .execution import (
    ExecutorFactory,
    assert_allclose,
    check_derivative,
    executor,
    numeric_derivative,
)
from .numbers import ordinary_numbers, special_numbers
from .random import RandomTensorGenerator

__all__ = [
    "ExecutorFactory",
    "RandomTensorGenerator",
    "assert_allclose",
    "check_derivative",
    "executor",
    "numeric_derivative",
    "ordinary_numbers",
    "special_numbers",
]
