# SPDX-License-Identifier: Apache-2.0
"""All passes by name: what `ngopt --list-passes` shows and lowering/pipelines may name."""

from __future__ import annotations

from ..rewrite.pipeline import Pass, name_of
from .align_sides import align_sides
from .attention import attention
from .barriers import barriers
from .chain import chain
from .check_bounds import check_bounds
from .check_target import check_target
from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .decompose import decompose
from .emulate_narrow import emulate_narrow
from .expand_math import expand_math
from .fold_constants import fold_constants
from .fold_empty import fold_empty
from .fuse import fuse
from .gathers_to_slices import gathers_to_slices
from .hoist import hoist
from .inline import inline
from .integer_products import integer_products
from .join_pads import join_pads
from .layout import layout
from .narrow_products import narrow_products
from .narrow_results import narrow_results
from .narrow_weights import narrow_weights
from .nest import nest
from .order_updates import order_updates
from .overlap import overlap
from .place_samples import place_samples
from .plan_memory import plan_memory
from .prepare import prepare
from .prune import prune
from .recompute import recompute
from .rematerialize import rematerialize
from .schedule import schedule
from .select_parts import select_parts
from .shape import shape
from .short_floats import short_floats
from .signs import signs
from .sizes import sizes
from .sorting_networks import sorting_networks
from .split_reductions import split_reductions
from .to_kernels import to_kernels
from .update_rows import update_rows
from .write_parts import write_parts

PASSES: dict[str, Pass] = {
    name_of(p): p
    for p in (
        inline,
        sizes,
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
        shape,
        prune,
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
