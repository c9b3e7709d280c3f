# SPDX-License-Identifier: Apache-2.0
"""What every op means, in NumPy: the reference that passes, targets and gradients are held to.

`MEANING` has the ops on arrays alone: op name -> function(op, arrays) -> array. A scalar is an array without
dimensions, a tile an array like any other. Ops with regions, calls, kernels and buffers are in `EFFECTS`:
op name -> function(runner, op, operands) -> results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.core import Op
from .control import CONTROL
from .elementwise import ELEMENTWISE
from .indexing import INDEXING
from .networks import NETWORKS
from .numbers import Array
from .products import PRODUCTS
from .random import RANDOM
from .reductions import REDUCTIONS
from .segments import SEGMENTS
from .shape import SHAPE
from .tiles import TILES

MEANING: dict[str, Callable[[Op, Sequence[Array]], Any]] = {
    **ELEMENTWISE,
    **SHAPE,
    **INDEXING,
    **REDUCTIONS,
    **PRODUCTS,
    **RANDOM,
    **NETWORKS,
    **SEGMENTS,
}

EFFECTS: dict[str, Callable[..., Sequence[Any]]] = {**CONTROL, **TILES}
