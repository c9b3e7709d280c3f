# SPDX-License-Identifier: Apache-2.0
"""`ng.recompute`: parts of a graph whose values are not kept until a gradient needs them, but computed again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from ..support.diagnostics import Location
from .errors import UserError, fail
from .node import Op
from .source import user_location
from .state import is_executed
from .tensor import Tensor
from .values import ConstantOp

P = ParamSpec("P")
R = TypeVar("R")

#: The entry of the metadata of tensors that says which parts end with them.
_KEY = "recompute"


@dataclass(frozen=True, eq=False)
class Part:
    """What is computed on the way from `sources` to `values`; these themselves are kept. Its `ops` are known where a function
    made them."""

    values: Sequence[Op]
    sources: Sequence[Op]
    location: Location
    ops: Collection[Op] = ()

    def ends_with(self, order: Mapping[Op, int]) -> Op | None:
        """The op that gives its last value in a program; None where that has none of them, or nothing that is computed on the
        way and used elsewhere."""
        values = [v.forwarded for v in self.values if v.forwarded in order]
        if not values:
            return None
        inside = {op.forwarded for op in self.ops}
        hidden = inside - set(values)
        if inside and not any(a.forwarded in hidden for op in order if op not in inside for a in op.args):
            return None
        return max(values, key=order.__getitem__)


def mark(values: Sequence[Op], sources: Sequence[Op], location: Location, ops: Collection[Op] = ()) -> None:
    """Has what is computed on the way from `sources` to `values` computed again where it is needed later."""
    part = Part(values, sources, location, ops)
    for value in values:
        value.metadata[_KEY] = (*value.metadata.get(_KEY, ()), part)


def parts_of(ops: Iterable[Op]) -> dict[Op, list[Part]]:
    """The parts of a program of these ops, which run in this order, by the op behind which each ends."""
    order = {op: at for at, op in enumerate(ops) if is_executed(op)}
    parts = dict.fromkeys(part for op in order for part in op.metadata.get(_KEY, ()))
    found: dict[Op, list[Part]] = {}
    for part in parts:
        end = part.ends_with(order)
        if end is not None:
            found.setdefault(end, []).append(part)
    return found


def recompute(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose values are not kept for gradients: `y = ng.recompute(block)(x)`, or as a decorator.

    What it returns (a tensor, or a list, tuple or dictionary of tensors) and what it is computed from stay in memory. What it computes on the way is
    given up when its result is there, and computed again, by the same kernels and so with the same bits, where a gradient needs it: a
    computation takes less memory and more time. What one kernel computes together with something that is kept is kept too. On
    `numpy`, and in the body of a loop or branch, it changes nothing.

    Raises UserError for what is no function, and where the function returns no tensor that it computed.
    """
    if not callable(function):
        fail(UserError, f"ng.recompute takes a function, not {function!r}", "ng.recompute(block)(x)")

    @wraps(function)
    def marked(*args: P.args, **named: P.kwargs) -> R:
        with Op.all_ops() as made:
            result = function(*args, **named)
        inside = set(made)
        values = [op for op in _tensors(result) if op in inside]
        if not values:
            fail(
                UserError,
                f"{getattr(function, '__name__', function)} returns no tensor that it computes",
                "what is computed again is what leads to the results of the function: return them",
            )
        sources = dict.fromkeys(arg for op in made for arg in op.args if arg not in inside)
        mark(values, [*sources], user_location(), inside)
        return result

    return marked


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, Mapping):
        return _tensors([*cast("Mapping[Any, Any]", result).values()])
    if not isinstance(result, (list, tuple)):
        return []
    return [op for each in cast("Sequence[Any]", result) for op in _tensors(each)]


def is_kept(op: Op) -> bool:
    """Whether the value of a source is stored in memory."""
    return is_executed(op) and isinstance(op, Tensor) and not isinstance(op, ConstantOp)
