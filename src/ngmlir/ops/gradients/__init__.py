# SPDX-License-Identifier: Apache-2.0
"""The gradient of each op, written on verbs: a rule makes more of the same graph, so gradients of gradients work.

A rule gets the op's operands and results and `delta`, the gradient with respect to its first result, and gives
one gradient per operand (None: no gradient flows there). An op whose traits say `flat` or `stops` needs no rule.
Where an op has a kink, the rule takes a side: the gradient of `max` goes to every element that is the greatest,
that of `maximum` to neither side of a tie, that of `absolute` at 0 is 0.
"""

from __future__ import annotations

from typing import Any

from .. import ng
from .elementwise import ELEMENTWISE
from .indexing import INDEXING
from .networks import NETWORKS
from .products import PRODUCTS
from .reductions import REDUCTIONS
from .rules import Applied as Applied
from .rules import GradientVerbs as GradientVerbs
from .rules import Rule
from .segments import SEGMENTS
from .shape import SHAPE

#: Op name -> its rule.
GRADIENTS: dict[str, Rule[Any]] = {
    **ELEMENTWISE,
    **SHAPE,
    **INDEXING,
    **REDUCTIONS,
    **PRODUCTS,
    **NETWORKS,
    **SEGMENTS,
}

#: Ops through which no gradient flows: they are flat, or their entry in `dialects/` stops it.
NO_GRADIENT = frozenset(
    name for name, op in ng.OPS.items() if op.definition and op.definition.traits & {"flat", "stops"}
)
