# SPDX-License-Identifier: Apache-2.0
"""Which ops the math library (`lowering/math`) carries out."""

from __future__ import annotations

from ..ir.core import Op
from ..ir.types import FloatType, element_type
from . import ng

#: Says of an exponential that its operand is never above zero; the pass `signs` finds out.
NONPOSITIVE = "ng.nonpositive"
#: Instructions of a function of the math library, about.
MATH_WORK = 20
#: Ops that are exact, and of floats too long to be written in place of each other.
_EXACT = frozenset({ng.RemainderOp.name})
#: All ops of which the library carries out some.
LIBRARY = _EXACT | {
    name for name, op in ng.OPS.items() if op.definition is not None and "math" in op.definition.traits
}


def in_library(op: Op) -> bool:
    """Whether the pass `expand-math` puts arithmetic in place of an op."""
    return "math" in op.traits or (
        op.name in _EXACT and isinstance(element_type(op.results[0].type), FloatType)
    )
