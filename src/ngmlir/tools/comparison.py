# SPDX-License-Identifier: Apache-2.0
"""`ngmlir run --check numpy`: compares results with those of NumPy, and finds the first kernel whose results differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiler import compile_module, pipeline_for, resolve
from ..ir.core import Module, Op, Value
from ..ops import func
from ..ops.builder import function
from ..ops.interpreter import run as interpret
from ..passes.lower.to_kernels import name_of
from ..support.diagnostics import NgmlirError

Array = np.ndarray[Any, Any]

#: How far results may be from those of NumPy, of the largest element, by the bytes of an element.
_TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-10}
#: Kinds of elements that have to be equal: truth values, integers, texts.
_EXACT = "biuU"


def difference(array: Array, other: Array) -> float:
    """The largest difference, as a share of the largest finite element; infinite where shapes, NaN or infinities differ."""
    if array.shape != other.shape or array.dtype != other.dtype:
        return float("inf")
    if not array.size:
        return 0.0
    if array.dtype.kind in _EXACT:
        return 0.0 if np.array_equal(array, other) else float("inf")
    ours, theirs = array.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    ours, theirs = ours[finite], theirs[finite]
    if not np.isfinite(ours).all():
        return float("inf")
    if not ours.size:
        return 0.0
    apart, largest = float(np.abs(ours - theirs).max()), float(np.abs(theirs).max())
    return apart / largest if largest else apart


def differs(array: Array, other: Array) -> bool:
    """Whether a result is further from NumPy's than rounding explains."""
    allowed = _TOLERANCE[array.dtype.itemsize] if array.dtype.kind not in _EXACT else 0.0
    return not difference(array, other) <= allowed


def worst_element(array: Array, other: Array) -> str:
    """The position and values of the largest difference of two results; '' where they have other shapes or no elements."""
    if array.shape != other.shape or array.dtype != other.dtype or not array.size or array.dtype.kind == "U":
        return ""
    ours, theirs = array.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.asarray(np.abs(ours - theirs))
    # An element that is infinite or NaN on one side only is the largest difference.
    apart[np.isnan(ours) != np.isnan(theirs)] = np.inf
    apart[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0.0
    at = np.unravel_index(int(np.argmax(apart)), apart.shape)
    place = ", ".join(str(int(i)) for i in at)
    return f"element [{place}] is {array[at]!s}, not {other[at]!s}"


def first_kernel(module: Module, entry: str, target: str, arrays: Sequence[Array]) -> str:
    """Which kernel of a function is the first that gives something else than NumPy: its name, its ops, its line and the element.
    '' where that cannot be told, as of kernels that are in the text already."""
    try:
        fused = _fused(module, target)
        main = fused.lookup(entry)
        made = [op for op in main.block.ops if op.name == "ng.fusion"] if main is not None else []
        if main is None or not made:
            return ""
        values = [value for op in made for value in op.results]
        wider = fused.with_ops([_giving(op, values) if op is main else op for op in fused.ops])
        given = compile_module(wider, target, entry=entry)(*arrays)
        wanted = interpret(wider, *arrays, entry=entry)
    except NgmlirError:
        return ""
    owners = [op for op in made for _ in op.results]
    last = len(wanted) - len(values)
    for op, array, other in zip(owners, list(given)[last:], wanted[last:], strict=True):
        array = np.asarray(array)
        if differs(array, other):
            inner = list(dict.fromkeys(each.name for each in op.block.ops[:-1]))
            parts = ", ".join(inner[:8]) + (f" and {len(inner) - 8} more" if len(inner) > 8 else "")
            name = name_of(op)
            return f"kernel @{name} ({parts}) at {op.location}: {worst_element(array, other)}"
    return "no kernel, each by itself: a pass before fusion changes the values"


def _fused(module: Module, target: str) -> Module:
    """The program with all of its kernels to be as fusions."""
    machine = resolve(target)
    whole = pipeline_for(machine)
    last = next(at for at, step in enumerate(whole.steps) if step.name == "schedule")
    return replace(whole, steps=whole.steps[: last + 1]).from_stage_of(module).run(module, machine)


def _giving(main: Op, values: Sequence[Value]) -> Op:
    """The function, which also gives these values of its block."""
    block, end = main.block.emptied(), main.block.ops[-1]
    block.ops = [*main.block.ops[:-1], func.ReturnOp([*end.operands, *values], (), {}, (), end.location)]
    kept = {k: v for k, v in main.attributes.items() if k not in ("sym_name", "function_type", "res_attrs")}
    return function(main.symbol, block, kept, location=main.location)
