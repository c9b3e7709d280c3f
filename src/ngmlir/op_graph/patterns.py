# SPDX-License-Identifier: Apache-2.0
"""Patterns of graphs, which are graphs themselves: ops of functions of `ng` on labels, which stand for any op.

x = ng.PatternLabelOp("x")
pattern = ng.log(ng.exp(x))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..ops import ng
from .axes import AxesLike, make_axes
from .errors import UserError, fail
from .node import Op
from .tensor import Tensor, as_tensor
from .values import ConstantOp, as_op, element_of

#: What the labels of a pattern stand for.
Labels = Mapping[str, Tensor]

#: Ops that only bring operands to the axes of others: a pattern has them or not, as its labels have axes.
_FITTING = (ng.BroadcastOp, ng.TransposeOp, ng.CastAxesOp)


def _anything(op: Op) -> bool:
    return True


class PatternOp(Tensor):
    """An op for patterns only."""


class PatternLabelOp(PatternOp):
    """Stands for any op of which `constraint_fn` is true; the same op wherever the label stands.

    It may have axes, where the functions that the pattern is made by need some; which ones does not matter for a match.
    """

    def __init__(
        self,
        label: str,
        constraint_fn: Callable[[Any], Any] = _anything,
        axes: AxesLike = (),
        dtype: Any = None,
    ):
        if not callable(constraint_fn):
            fail(
                UserError,
                f"the constraint of the label {label} is {constraint_fn!r}, not a function of an op",
            )
        super().__init__((), {}, make_axes(axes), element_of("f32" if dtype is None else dtype))
        self.label = label
        self.constraint_fn = constraint_fn


class PatternSkipOp(PatternOp):
    """What `arg` matches, under any number of ops of which `is_optional_op_fn` is true."""

    def __init__(self, arg: Any, is_optional_op_fn: Callable[[Any], Any] = _anything):
        arg = as_op(arg)
        super().__init__((arg,), {}, arg.axes, arg.element)
        self.is_optional_op_fn = is_optional_op_fn


def matches(pattern: Tensor, op: Op) -> Iterator[Labels]:
    """All matches of a pattern rooted at an op."""
    for found in _match(pattern, op, {}):
        if all(_reads_the_same(op, value) for value in found.values()):
            yield found


def _reads_the_same(op: Op, value: Tensor) -> bool:
    """Whether `value`, found below `op`, can be read in its place: what is written to may be another by then."""
    storage = value.storage_now
    return storage is None or not storage.has_writes or value in [arg.forwarded for arg in op.args]


def _match(pattern: Op, op: Op, found: Labels) -> Iterator[Labels]:
    pattern, op = pattern.forwarded, op.forwarded
    if not isinstance(op, Tensor):
        return
    if isinstance(pattern, PatternLabelOp):
        known = found.get(pattern.label)
        if known is not None:
            if known is op:
                yield found
        elif pattern.constraint_fn(op):
            yield {**found, pattern.label: op}
    elif isinstance(pattern, PatternSkipOp):
        yield from _match(pattern.args[0], op, found)
        if pattern.is_optional_op_fn(op) and op.args:
            yield from _match(pattern, op.args[0], found)
    elif isinstance(pattern, ConstantOp):
        if isinstance(op, ConstantOp) and _number(pattern) is not None and _number(pattern) == _number(op):
            yield found
    elif type(pattern) is type(op) and len(pattern.args) == len(op.args):
        if not op.args:
            if op is pattern:
                yield found
            return
        yield from _match_all(pattern.args, op.args, found)
        if op.is_commutative and op.args[0] is not op.args[1]:
            yield from _match_all(pattern.args, op.args[::-1], found)
        return
    # Operands that were brought to the axes of others.
    if pattern.operation in _FITTING and op.operation not in _FITTING:
        yield from _match(pattern.args[0], op, found)
    elif op.operation in _FITTING and pattern.operation not in _FITTING and op.args:
        yield from _match(pattern, op.args[0], found)


def _match_all(patterns: Sequence[Op], ops: Sequence[Op], found: Labels) -> Iterator[Labels]:
    if not patterns:
        yield found
        return
    for each in _match(patterns[0], ops[0], found):
        yield from _match_all(patterns[1:], ops[1:], each)


def _number(op: ConstantOp) -> Any:
    """The number that all elements of a constant are."""
    return op.value.item() if as_tensor(op).is_scalar else None
