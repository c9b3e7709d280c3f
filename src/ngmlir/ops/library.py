# SPDX-License-Identifier: Apache-2.0
"""Which ops the math library (`lowering/math`) implements."""

from __future__ import annotations

from ..ir.core import Op
from ..ir.types import FloatType, element_type
from . import ng

#: Attribute of an exponential whose operand is never above zero; set by the pass `signs`.
NONPOSITIVE = "ng.nonpositive"
#: Instructions of a function of the math library, approximately.
MATH_WORK = 20
#: Exact ops whose arithmetic on floats is too long for a decomposition.
_EXACT = frozenset({ng.RemainderOp.name})
#: All ops that the library implements for some element types.
LIBRARY = _EXACT | {
    name for name, op in ng.OPS.items() if op.definition is not None and "math" in op.definition.traits
}


def in_library(op: Op) -> bool:
    """Whether the pass `expand-math` replaces an op by arithmetic."""
    return "math" in op.traits or (
        op.name in _EXACT and isinstance(element_type(op.results[0].type), FloatType)
    )
