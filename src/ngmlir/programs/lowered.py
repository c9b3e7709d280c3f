# SPDX-License-Identifier: Apache-2.0
"""A program as a function of values."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.core import Module
from ..op_graph.host_ops import HostOp
from ..op_graph.lift import Trace
from .descriptions import Operator
from .interface import Interface


@dataclass(frozen=True)
class Written:
    """What an operator writes to a variable: the result of that number among those that are tied to no argument."""

    operator: Operator
    name: str
    result: int


@dataclass(frozen=True)
class Lowered:
    """A program as a function of values; `fetches` names its results that are tied to no argument. `written` is what its operators
    write, in their order, where every value is a result too. The Python functions that it calls live as long as this does.

    With `measures` it is the part of the program that computes lengths, its only result, which have to be known to lower the rest.
    """

    module: Module
    interface: Interface
    fetches: tuple[str, ...]
    written: tuple[Written, ...]
    trace: Trace
    measures: bool = False

    @property
    def calls_python(self) -> bool:
        """Whether functions of Python compute a part of it."""
        return any(isinstance(t.op, HostOp) for ops in self.trace.ops.values() for t in ops)
