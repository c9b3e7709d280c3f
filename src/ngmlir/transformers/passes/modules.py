# SPDX-License-Identifier: Apache-2.0
"""Passes over the module that a graph was lifted to: those of `ngopt`, by name, and functions from module to module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...ir.attributes import TypeAttr
from ...ir.core import Module, Op
from ...ir.types import FunctionType
from ...ir.verifier import check
from ...op_graph.errors import UserError, fail
from ...rewrite.pipeline_parser import parse_pipeline
from ...support.target import Target
from .graph import GraphPass


class ModulePass(GraphPass):
    """Rewrites the module of the functions that are compiled together; does nothing to ops of the graph."""

    def do_pass(self, ops: Any) -> None:
        """Nothing: the module is made later."""

    def do_module(self, module: Module, target: Target) -> Module:
        """The module after the pass, with the same functions, arguments and results."""
        raise NotImplementedError(f"{type(self).__name__} has no do_module")


class FunctionPass(ModulePass):
    """A function from module to module, of `(module)` or `(module, target)`."""

    def __init__(self, function: Callable[..., Module]):
        self.function = function
        parameters = inspect.signature(function).parameters.values()
        by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.takes_target = len(by_position) > 1 and by_position[1].default is inspect.Parameter.empty

    def do_module(self, module: Module, target: Target) -> Module:
        return self.function(module, target) if self.takes_target else self.function(module)


class PipelinePass(ModulePass):
    """Passes of `ngopt`, as text: `prune{assume=nsz+approx},dead-code`."""

    def __init__(self, text: str):
        from ...passes.registry import PASSES

        self.pipeline = parse_pipeline(text, PASSES, file="passes")

    def do_module(self, module: Module, target: Target) -> Module:
        return self.pipeline.run(module, target)


class RequiredTensorShaping(PipelinePass):
    """Fewer dimensions: elementwise ops become 1-d, reductions 2-d, products matrices. Compiled programs run this pass
    anyway."""

    def __init__(self) -> None:
        super().__init__("shape")


class CPUTensorShaping(RequiredTensorShaping):
    """An earlier name of the same pass."""


def run_on_module(each: ModulePass, module: Module, target: Target) -> Module:
    """The module that a pass returns; UserError unless it is a module with the same functions."""
    made = each.do_module(module, target)
    name = each.function.__name__ if isinstance(each, FunctionPass) else type(each).__name__
    if not isinstance(made, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"the pass {name} gives {made!r}", "a module pass must return a module")
    check(made, after=name)
    for function in module.ops:
        now = made.lookup(function.symbol)
        if now is None or _shapes(now) != _shapes(function):
            fail(
                UserError,
                f"the pass {name} changes the arguments or results of @{function.symbol}",
                "a pass must keep names, arguments and results of functions",
            )
    return made


def _shapes(function: Op) -> tuple[list[Any], list[Any]]:
    """Shapes and element types of a function's arguments and results; names of axes may be dropped."""
    attribute = function.attributes.get("function_type")
    if not isinstance(attribute, TypeAttr) or not isinstance(attribute.type, FunctionType):
        return [], []
    parts = attribute.type.inputs, attribute.type.results
    inputs, results = (
        [(getattr(t, "shape", ()), getattr(t, "element", t)) for t in types] for types in parts
    )
    return inputs, results
