# SPDX-License-Identifier: Apache-2.0
"""Rank 8: helpers for tests of programs that use ngmlir: executors, derivative checks, random tensors."""

from __future__ import annotations

from .execution import (
    ExecutorFactory,
    assert_allclose,
    check_derivative,
    executor,
    numeric_derivative,
)
from .random import RandomTensorGenerator

__all__ = [
    "ExecutorFactory",
    "RandomTensorGenerator",
    "assert_allclose",
    "check_derivative",
    "executor",
    "numeric_derivative",
]
