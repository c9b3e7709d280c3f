# SPDX-License-Identifier: Apache-2.0
"""Which builder makes the kernel of an op: for a fusion its schedule decides; other ops have one each, for each kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....ir.core import Op
from ....ops.schedules import (
    Along,
    Blocks,
    Boxes,
    Columns,
    Decode,
    DecodePanels,
    Digits,
    Flat,
    Panels,
    Rows,
    Stream,
    Strips,
    Tiles,
)
from ....support.diagnostics import Bug
from ....support.target import Kind, Target
from ...fuse.gradient_loops import streamed_gradient
from ...fuse.score_loops import streamed
from ...schedule.choosing import chosen, chosen_links
from .attention import attention_kernel
from .attention_gradient import gradient_kernel
from .boxes import boxes_kernel
from .chain import chain_kernel
from .columns import columns_kernel
from .concatenate import concatenate_kernel
from .cumulative import cumulative_by_blocks, cumulative_kernel, runs_kernel
from .decoded import decoded_kernel
from .dot import dot_kernel
from .finished import Finished
from .flat import flat_kernel
from .map import map_kernel
from .ragged import segment_cumulative_kernel, segment_expand_kernel, segment_reduce_kernel
from .ragged_blocks import segment_cumulative_by_blocks, segment_expand_by_blocks, segment_reduce_by_blocks
from .rows import rows_kernel
from .scatter import scatter_kernel
from .scatter_blocks import scatter_by_blocks
from .sorting import argsort_kernel
from .sorting_network import argsort_by_blocks
from .windows import overlap_add_kernel

_Table = Mapping[str, Callable[[Op, Target], Finished]]

_ALL: _Table = {
    "ng.overlap_add": overlap_add_kernel,
    "ng.concatenate": concatenate_kernel,
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
_BUILDERS: Mapping[Kind, _Table] = {"cpu": {**_ALL, **_CPU}, "gpu": {**_ALL, **_GPU}}


def has_kernel(op: Op, target: Target) -> bool:
    """Whether an op becomes a kernel of its own."""
    return op.name == "ng.fusion" or op.name in _BUILDERS[target.kind]


def kernel_of(op: Op, target: Target) -> Finished:
    """The kernel of an op that has one."""
    if op.name != "ng.fusion":
        return _BUILDERS[target.kind][op.name](op, target)
    match schedule := chosen(op, target):
        case Tiles():
            return map_kernel(op, target, schedule)
        case Boxes():
            return boxes_kernel(op, target, schedule)
        case Flat():
            return flat_kernel(op, target, schedule)
        case Rows():
            return rows_kernel(op, target, schedule)
        case Columns():
            return columns_kernel(op, target, schedule)
        case Decode() | DecodePanels() | Digits():
            return decoded_kernel(op, target, schedule)
        case Panels() | Along() | Blocks():
            return dot_kernel(op, target, schedule)
        case Strips():
            return chain_kernel(op, target, schedule, [cut for _, cut in chosen_links(op, target, schedule)])
        case Stream():
            gradient = streamed_gradient(op, target) if streamed(op, target) is None else None
            if gradient is not None:
                return gradient_kernel(op, gradient, target, schedule)
            return attention_kernel(op, target, schedule)
        case _:
            raise Bug(f"no kernel has schedules of kind '{schedule.by}'", op.location)
