# SPDX-License-Identifier: Apache-2.0
"""Checks of the values of placeholders, in addition to shape and type. They run before the program, so that no state has changed.

An op records its checks in `schemas`. Constants are checked when the op is built and, since lengths of axes may be set
later, when a program is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ops import ng
from ..ops.offsets import OFFSETS_HINT, wrong_offsets
from ..support.diagnostics import Location
from .axes import Axis
from .errors import UserError, fail
from .node import Op
from .tensor import Tensor
from .values import ConstantOp


@dataclass(frozen=True)
class FedCheck(ABC):
    """Something that is asked of the values of `source`, a placeholder or a constant, about an axis."""

    source: Tensor
    axis: Axis

    @abstractmethod
    def check(self, values: np.ndarray[Any, Any], length: int | None) -> None:
        """UserError, at the user's line, for values that are not as they must be where the axis has this length."""

    def look(self) -> bool:
        """Whether the source is a constant, which is looked at."""
        if isinstance(self.source, ConstantOp):
            self.check(self.source.array(), self.axis.length)
            return True
        return False


def note(op: Op, check: FedCheck) -> None:
    """Notes that an op asks something of a placeholder or a constant."""
    check.look()
    op.schemas.append(check)


def shown(op: Op) -> Op:
    """What an op shows in another order or in other elements."""
    while op.args and (op.operation in (ng.CastOp, ng.BroadcastOp, ng.TransposeOp, ng.CastAxesOp)):
        op = op.args[0]
    return op


def fed_checks(ops: Iterable[Op]) -> dict[Op, list[FedCheck]]:
    """What some ops ask of placeholders, by these; what they ask of constants is looked at."""
    found: dict[Op, list[FedCheck]] = {}
    for op in ops:
        for check in op.schemas:
            if not isinstance(check, FedCheck):
                continue
            if not check.look() and check not in found.setdefault(check.source, []):
                found[check.source].append(check)
    return found


@dataclass(frozen=True)
class OffsetsCheck(FedCheck):
    """The offsets of segments, of the rows along an axis; the op that reads them was built at `location`."""

    location: Location

    def check(self, values: np.ndarray[Any, Any], length: int | None) -> None:
        if not values.size:
            return
        if wrong := wrong_offsets(values, length, f"rows along {self.axis.name}"):
            message = f"the offsets in {self.source.called} {wrong}"
            fail(UserError, message, f"{OFFSETS_HINT}; these are read at {self.location}")


def check_offsets(op: Tensor, offsets: Tensor, rows: Axis) -> Tensor:
    """The op, after noting that it reads offsets of segments of the rows along an axis."""
    source = shown(offsets)
    if isinstance(source, Tensor) and (source.is_placeholder or isinstance(source, ConstantOp)):
        note(op, OffsetsCheck(source, rows, op.location))
    return op
