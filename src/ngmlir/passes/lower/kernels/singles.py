# SPDX-License-Identifier: Apache-2.0
"""The table of ops that are kernels of their own, for each kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....ir.core import Op
from ....support.target import Kind, Target
from .concatenate import concatenate_kernel
from .exchanges import argsort_by_blocks
from .indexed import gather_elements_kernel, gather_kernel, scatter_by_blocks, scatter_kernel
from .ragged import segment_cumulative_kernel, segment_expand_kernel, segment_reduce_kernel
from .ragged_blocks import segment_cumulative_by_blocks, segment_expand_by_blocks, segment_reduce_by_blocks
from .running import cumulative_by_blocks, cumulative_kernel, runs_kernel
from .single import Single
from .sorting import argsort_kernel
from .windows import overlap_add_kernel

_Table = Mapping[str, Callable[[Op, Target], Single]]

_ALL: _Table = {
    "ng.overlap_add": overlap_add_kernel,
    "ng.concatenate": concatenate_kernel,
    "ng.gather": gather_kernel,
    "ng.gather_elements": gather_elements_kernel,
    "ng.cumulative_runs": runs_kernel,
}
_CPU: _Table = {
    "ng.scatter": scatter_kernel,
    "ng.argsort": argsort_kernel,
    "ng.cumulative_sum": cumulative_kernel,
    "ng.cumulative_product": cumulative_kernel,
    "ng.cumulative_max": cumulative_kernel,
    "ng.cumulative_min": cumulative_kernel,
    "ng.segment_reduce": segment_reduce_kernel,
    "ng.segment_cumulative": segment_cumulative_kernel,
    "ng.segment_expand": segment_expand_kernel,
}
#: A block of threads shares a tile.
_GPU: _Table = {
    "ng.scatter": scatter_by_blocks,
    "ng.argsort": argsort_by_blocks,
    "ng.cumulative_sum": cumulative_by_blocks,
    "ng.cumulative_product": cumulative_by_blocks,
    "ng.cumulative_max": cumulative_by_blocks,
    "ng.cumulative_min": cumulative_by_blocks,
    "ng.segment_reduce": segment_reduce_by_blocks,
    "ng.segment_cumulative": segment_cumulative_by_blocks,
    "ng.segment_expand": segment_expand_by_blocks,
}
SINGLES: Mapping[Kind, _Table] = {"cpu": {**_ALL, **_CPU}, "gpu": {**_ALL, **_GPU}}
