# SPDX-License-Identifier: Apache-2.0
"""`ng.memory_limit` of a function: how many bytes its temporaries may take (pass `rematerialize`)."""

from __future__ import annotations

from ..ir.attributes import IntegerAttr
from ..ir.core import Module, Op
from ..ir.types import i64
from ..support.diagnostics import UserError
from .tied import count_in

LIMIT = "ng.memory_limit"


def limit_of(function: Op) -> int:
    """The limit of a function; 0 if it has none. Raises UserError if it is not a number of bytes."""
    said = function.attributes.get(LIMIT)
    limit = 0 if said is None else count_in(said)
    if limit is None:
        raise UserError(f"'{LIMIT}' must be a non-negative i64", function.location)
    return limit


def with_limit(module: Module, limit: int) -> Module:
    """The module with the limit on its functions; itself for 0."""
    if not limit:
        return module

    def stated(op: Op) -> Op:
        if op.name != "func.func" or not op.regions[0].blocks:
            return op
        return op.rebuilt(attributes={**op.attributes, LIMIT: IntegerAttr(limit, i64)})

    return module.with_ops([stated(op) for op in module.ops])


def checked_limit(limit: object, is_planned: bool = True) -> int:
    """Validates a limit. UserError if it is not a number of bytes, or no memory is planned."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UserError(
            f"a memory limit is a number of bytes, not {limit!r}", hint="memory_limit=64 * 1024**2"
        )
    if not is_planned:
        hint = "use 'cpu', 'cuda' or 'cuda-sim', or leave memory_limit= out"
        raise UserError("'numpy' plans no memory, so it cannot hold a limit", hint=hint)
    return limit
