# SPDX-License-Identifier: Apache-2.0
"""The table of ops that are kernels of their own."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.core import Op
from ....support.target import Target
from .concatenate import concatenate_kernel
from .extremes import arg_kernel
from .indexed import gather_elements_kernel, gather_kernel, scatter_kernel
from .ragged import segment_cumulative_kernel, segment_expand_kernel, segment_reduce_kernel
from .running import cumulative_kernel, runs_kernel
from .single import Single
from .sorting import argsort_kernel
from .windows import overlap_add_kernel

SINGLES: dict[str, Callable[[Op, Target], Single]] = {
    "ng.overlap_add": overlap_add_kernel,
    "ng.concatenate": concatenate_kernel,
    "ng.gather": gather_kernel,
    "ng.gather_elements": gather_elements_kernel,
    "ng.scatter": scatter_kernel,
    "ng.argmax": arg_kernel,
    "ng.argmin": arg_kernel,
    "ng.argsort": argsort_kernel,
    "ng.cumulative_sum": cumulative_kernel,
    "ng.cumulative_product": cumulative_kernel,
    "ng.cumulative_max": cumulative_kernel,
    "ng.cumulative_min": cumulative_kernel,
    "ng.cumulative_runs": runs_kernel,
    "ng.segment_reduce": segment_reduce_kernel,
    "ng.segment_cumulative": segment_cumulative_kernel,
    "ng.segment_expand": segment_expand_kernel,
}
