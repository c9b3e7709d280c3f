# SPDX-License-Identifier: Apache-2.0
"""What is known of the values of an elementwise op before it is used: found by trying its reference, so no op is named.

A random program must know how large its values can get, whether they are whole, and whether a last bit more or less of
an operand can turn into another result. All of that is measured on a grid of operands within their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
from growing import Fact

from ngmlir.ir.core import Op, Value
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import FloatType, IntegerType, TensorType, Type, f16, f64, i1, i64
from ngmlir.ops import ng
from ngmlir.ops.builder import build_op
from ngmlir.ops.interpreter import evaluate

Array = np.ndarray[Any, Any]
#: How far apart two operands are that a last bit may have parted; the reference itself is much finer.
STEP = 1e-6
#: The largest bound up to which whole operands are tried one by one.
EVERY = 64


class Reach(NamedTuple):
    """What is known of a result: no element is larger than `bound`, which is infinite where it may be NaN."""

    bound: float
    keeps_whole: bool = False  # of whole operands
    makes_whole: bool = False  # of any
    slope: float = inf  # by how much it moves with its operands
    sign_of_nan: bool = False  # whether it shows the sign of a NaN, which is nobody's business


def same_type(op: type[Op], element: Type) -> bool:
    """Whether the op takes only values of this type and gives one."""
    definition = op.definition
    assert definition is not None
    types = [
        o.constraint.accepts(TensorType((1,), element)) for o in (*definition.operands, *definition.results)
    ]
    variables = {o.variable for o in (*definition.operands, *definition.results)}
    return all(types) and len(variables) == 1 and "" not in variables and "stated" not in definition.traits


#: The ops that random programs draw from: elementwise, of values of one type.
ELEMENTWISE = [op for op in ng.OPS.values() if op.definition and "elementwise" in op.definition.traits]


@cache
def ops_on(element: Type, operands: int) -> list[type[Op]]:
    return [op for op in ELEMENTWISE if same_type(op, element) and len(op.definition.operands) == operands]  # type: ignore[union-attr]


def value(op: type[Op], element: Type, *arrays: Array) -> Array:
    made = build_op(op, [Value(TensorType(a.shape, element)) for a in arrays], {})
    (found,) = evaluate(made, [a.astype(dtype_of(element)) for a in arrays])
    return found


def reach(op: type[Op], element: Type, bounds: tuple[float, ...]) -> Reach:
    """What the op gives for operands of these bounds."""
    if isinstance(element, IntegerType):
        found = Reach(1, True, True) if element is i1 else Reach(inf, True, True)
        if element is not i1 and not element.unsigned:
            found = _of_integers(op, bounds)
        return found if found.bound < 2 ** (element.width - 1) or element is i1 else Reach(inf, True, True)
    # A few bounds stand for all: the next power of two above.
    found = _of_floats(
        op, tuple(float(2.0 ** np.ceil(np.log2(max(b, 1)))) if b < inf else inf for b in bounds)
    )
    return found._replace(bound=inf) if element is f16 and found.bound > 3e4 else found


@cache
def _of_floats(op: type[Op], bounds: tuple[float, ...]) -> Reach:
    with np.errstate(all="ignore"):
        sign_of_nan = False
        for i in range(len(bounds)):
            plain = [np.ones(1)] * len(bounds)
            nans = [[*plain[:i], np.copysign(np.full(1, np.nan), s), *plain[i + 1 :]] for s in (1, -1)]
            one, other = (value(op, f64, *n) for n in nans)
            sign_of_nan |= not np.isnan(one).any() and one.tobytes() != other.tobytes()
        if inf in bounds:
            return Reach(inf, sign_of_nan=sign_of_nan)
        lines = [_grid(b, {1: 4001, 2: 161}.get(len(bounds), 21)) for b in bounds]
        arrays = [g.ravel() for g in np.meshgrid(*lines, indexing="ij")]
        found = value(op, f64, *arrays).astype(np.float64)
        bound = float(np.abs(found).max()) if np.isfinite(found).all() else inf
        inside = all(
            (o.domain.low <= -b and b <= o.domain.high) or o.domain == type(o.domain)()
            for o, b in zip(op.definition.operands, bounds, strict=True)  # type: ignore[union-attr]
        )
        slope = 0.0
        for i in range(len(arrays)):
            for to in (STEP, -STEP):
                moved = value(op, f64, *arrays[:i], arrays[i] + to, *arrays[i + 1 :]).astype(np.float64)
                slope = max(slope, float(np.nan_to_num(np.abs(moved - found), nan=inf).max()) / STEP)
        whole = np.all([a == np.round(a) for a in arrays], axis=0)
        steps = found == np.round(found)
        # Beyond the domain there may be poles, which a grid need not meet.
        if not inside:
            bound = slope = inf
        if op.definition.errors:  # type: ignore[union-attr]
            bound *= 1.01  # its greatest value may lie beside the grid
        return Reach(bound, bool(steps[whole].all()), bool(steps.all()), slope, sign_of_nan)


def _grid(bound: float, count: int) -> Array:
    """Numbers of both signs up to a bound, the whole and half ones up to 8 among them."""
    small = np.arange(-16, 17) / 2
    return np.unique(
        np.concatenate([np.linspace(-bound, bound, count), small[np.abs(small) <= bound], [0.0, -0.0]])
    )


@cache
def _of_integers(op: type[Op], bounds: tuple[float, ...]) -> Reach:
    """Bounds as if nothing wrapped; infinite where nothing can be said."""
    if max(bounds) > EVERY:
        return Reach(inf, True, True)
    line = [np.arange(-int(b), int(b) + 1) for b in bounds]
    arrays = [g.ravel() for g in np.meshgrid(*line, indexing="ij")]
    found = value(op, i64, *arrays)
    return Reach(float(np.abs(found.astype(np.float64)).max()), True, True)


def may_err(op: type[Op], element: Type) -> bool:
    """Whether targets need not give the bits of the reference."""
    assert op.definition is not None
    return bool(op.definition.errors) and isinstance(element, FloatType)


def fits(exact: bool, op: type[Op], element: Type, facts: Sequence[Fact]) -> bool:
    """Whether the result of the op on values like these is the same, or nearly, whoever computes it."""
    bounds = tuple(f.bound for f in facts)
    if not isinstance(element, FloatType):
        return True
    known = reach(op, element, bounds)
    if known.sign_of_nan and inf in bounds:
        return False
    if may_err(op, element) and (exact or (max(bounds) > 8 and known.slope > 2)):
        return False
    if any(f.rough for f in facts):
        # What a last bit moves must stay small beside the result.
        return known.bound <= 1e6 and known.slope <= max(1.2, 4 * known.bound / max(bounds))
    return known.bound <= 1e6 or known.bound == inf
