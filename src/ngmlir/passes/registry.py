# SPDX-License-Identifier: Apache-2.0
"""All passes by name: what `ngopt --list-passes` shows and lowering/pipelines may name."""

from __future__ import annotations

from ..rewrite.pipeline import Pass, name_of
from .fuse.align_sides import align_sides
from .fuse.attention import attention
from .fuse.byte_tables import byte_tables
from .fuse.check_target import check_target
from .fuse.fuse import fuse
from .fuse.narrow_results import narrow_results
from .fuse.narrow_weights import narrow_weights
from .fuse.nest import nest
from .fuse.prepare import prepare
from .fuse.recompute import recompute
from .fuse.select_parts import select_parts
from .fuse.short_floats import short_floats
from .fuse.split_reductions import split_reductions
from .graph.common_subexpressions import common_subexpressions
from .graph.dead_code import dead_code
from .graph.decompose import decompose
from .graph.emulate_narrow import emulate_narrow
from .graph.fold_constants import fold_constants
from .graph.fold_empty import fold_empty
from .graph.gathers_to_slices import gathers_to_slices
from .graph.hoist import hoist
from .graph.inline import inline
from .graph.integer_products import integer_products
from .graph.join_pads import join_pads
from .graph.layout import layout
from .graph.name_lengths import name_lengths
from .graph.narrow_products import narrow_products
from .graph.order_updates import order_updates
from .graph.place_samples import place_samples
from .graph.products_of_gathers import products_of_gathers
from .graph.prune import prune
from .graph.separate_windows import separate_windows
from .graph.shape import shape
from .graph.signs import signs
from .graph.sorting_networks import sorting_networks
from .graph.update_rows import update_rows
from .graph.write_parts import write_parts
from .lower.barriers import barriers
from .lower.check_bounds import check_bounds
from .lower.expand_math import expand_math
from .lower.overlap import overlap
from .lower.plan_memory import plan_memory
from .lower.rematerialize import rematerialize
from .lower.to_kernels import to_kernels
from .schedule.chain import chain
from .schedule.schedule import schedule

PASSES: dict[str, Pass] = {
    name_of(p): p
    for p in (
        inline,
        name_lengths,
        emulate_narrow,
        decompose,
        integer_products,
        update_rows,
        order_updates,
        write_parts,
        sorting_networks,
        join_pads,
        gathers_to_slices,
        place_samples,
        layout,
        separate_windows,
        shape,
        prune,
        products_of_gathers,
        narrow_products,
        narrow_weights,
        prepare,
        fold_constants,
        fold_empty,
        common_subexpressions,
        dead_code,
        hoist,
        signs,
        check_target,
        split_reductions,
        select_parts,
        short_floats,
        align_sides,
        attention,
        fuse,
        narrow_results,
        recompute,
        byte_tables,
        nest,
        chain,
        schedule,
        to_kernels,
        expand_math,
        overlap,
        rematerialize,
        plan_memory,
        barriers,
        check_bounds,
    )
}
