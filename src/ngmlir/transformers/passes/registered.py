# SPDX-License-Identifier: Apache-2.0
"""The list of passes of a transformer: those over ops run first, when computations are transformed, then those over the
module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...ir.core import Module
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.ordered import OrderedSet
from ...runtime.targets import device_named, machine_of
from .graph import GraphPass
from .modules import FunctionPass, ModulePass, PipelinePass, run_on_module

#: The forms of a pass: a pass, its class, a function from module to module, or passes of `ngopt` as text.
PassLike = GraphPass | type[GraphPass] | Callable[..., Module] | str


def as_pass(given: PassLike) -> GraphPass:
    """The pass in any of these forms; UserError for other objects."""
    if isinstance(given, GraphPass):
        return given
    if isinstance(given, str):
        return PipelinePass(given)
    if isinstance(given, type) and issubclass(given, GraphPass):
        return given()
    if isinstance(given, type) or not callable(given):
        fail(
            UserError,
            f"{given!r} is not a pass",
            "a pass is a GraphPass, a function from module to module, or text such as 'prune{assume=nsz}'",
        )
    return FunctionPass(given)


class Passes:
    """Passes in order."""

    def __init__(self, passes: Iterable[PassLike]):
        if isinstance(passes, str) or not isinstance(passes, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"passes must be a list, not {passes!r}", "use [x] for a single one")
        self.listed: list[GraphPass] = [as_pass(each) for each in passes]

    def add(self, given: PassLike, position: int | None) -> None:
        self.listed.insert(len(self.listed) if position is None else position, as_pass(given))

    def run(self, ops: Iterable[Op]) -> None:
        """Runs all passes on the ops that some ops depend on."""
        roots = OrderedSet(op.forwarded for op in ops)
        for each in list(self.listed):
            _around(each, each.do_pass, roots)
            roots = OrderedSet(op.forwarded for op in roots)

    def transformed(self, module: Module, target: str) -> Module:
        """The module after the passes over modules, for a kind of transformer."""
        passes = [each for each in self.listed if isinstance(each, ModulePass)]
        if not passes:
            return module
        machine = machine_of(device_named(target))
        for each in passes:
            module = run_on_module(each, module, machine)
        return module


def _around(each: GraphPass, do: Callable[[Any], Any], ops: Any) -> None:
    each.begin_pass()
    try:
        do(ops)
    finally:
        each.end_pass()
