# SPDX-License-Identifier: Apache-2.0
"""The table of CPU lowerings: op -> the function that emits it.

A new elementwise op needs a line in `codegen/elementwise.py` and nothing here. Ops with the trait `math` are absent
because expand-math has replaced them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.core import Op
from ...ops import ng
from . import arithmetic, control, dot, indexed, memory, reductions, shapes
from .emitter import Emitter, Lowering


def _nothing(e: Emitter, op: Op) -> None:
    """No code: one thread runs a program, and its copies are complete when they return."""


def _copy_async(e: Emitter, op: Any) -> None:
    memory.copy(e, op)
    e.define(op.result, [])


TABLE: Mapping[str, Lowering] = {
    # elementwise
    **{
        name: arithmetic.elementwise
        for name, op in ng.OPS.items()
        if op.definition is not None and {"elementwise", "math"} & op.definition.traits == {"elementwise"}
    },
    "ng.select": arithmetic.select,
    "ng.cast": arithmetic.cast,
    "ng.bitcast": arithmetic.bitcast,
    # constants and shape
    "ng.constant": shapes.constant,
    "ng.iota": shapes.iota,
    "ng.extent": shapes.extent,
    "ng.broadcast": shapes.broadcast,
    "ng.transpose": shapes.transpose,
    "ng.reshape": shapes.reshape,
    "ng.slice": shapes.slice,
    "ng.concatenate": shapes.concatenate,
    # reductions
    "ng.sum": reductions.reduce,
    "ng.product": reductions.reduce,
    "ng.max": reductions.reduce,
    "ng.min": reductions.reduce,
    "ng.any": reductions.reduce,
    "ng.all": reductions.reduce,
    "ng.cumulative_sum": reductions.cumulate,
    "ng.cumulative_product": reductions.cumulate,
    "ng.cumulative_max": reductions.cumulate,
    "ng.cumulative_min": reductions.cumulate,
    # matrix products
    "tile.dot": dot.dot,
    # memory
    "tile.load": memory.load,
    "tile.store": memory.store,
    "tile.gather": indexed.gather,
    "tile.scatter": indexed.scatter,
    "tile.lookup_table": indexed.lookup_table,
    "tile.view": memory.view,
    "tile.subview": memory.subview,
    "tile.alloc": memory.alloc,
    "tile.prefetch": memory.prefetch,
    "tile.copy": memory.copy,
    "tile.copy_async": _copy_async,
    "tile.wait": _nothing,
    "tile.barrier": _nothing,
    # control flow
    "tile.for": control.for_,
    "ng.if": control.if_,
    "ng.while": control.while_,
}
