# SPDX-License-Identifier: Apache-2.0
"""Contracts: the stages of a program that a pass takes, and the one that it returns. They are declared by a decorator of the pass;
pipelines are checked against them.

The stages of a program, each a set of rules that `stages.py` checks:

    program   operators on named variables, in blocks
    named     tensor ops, perhaps with axis names, as a graph is lifted or a person writes them
    plain     the same without axis names
    fused     plain, with ops grouped in fusions
    kernels   functions contain only calls of kernels, views, constants and control flow
    planned   functions work on buffers, each of which has its address
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, TypeVar, get_args

from ..ir.core import Module
from ..support.target import Kind, Target

Stage = Literal["program", "named", "plain", "fused", "kernels", "planned"]
STAGES: tuple[Stage, ...] = get_args(Stage)
#: What a pass runs on: the whole module, or each function independently (then it may be inside `func.func(...)`).
Anchor = Literal["module", "function"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Contract:
    """`needs`: the stages that the pass takes; `gives`: the stage that it returns, or None if it does not change it; `only`:
    the kind of target that it is for, or None if it is for all."""

    needs: tuple[Stage, ...] = STAGES
    gives: Stage | None = None
    anchor: Anchor = "module"
    only: Kind | None = None

    @property
    def stages(self) -> str:
        """`plain -> fused`, for lists; for a pass of one kind of target `plain -> the same, cpu only`."""
        needs = "any" if self.needs == STAGES else " | ".join(self.needs)
        only = f", {self.only} only" if self.only else ""
        return f"{needs} -> {self.gives or 'the same'}{only}"


def contract(
    *,
    needs: tuple[Stage, ...] = STAGES,
    gives: Stage | None = None,
    anchor: Anchor = "module",
    only: Kind | None = None,
) -> Callable[[F], F]:
    """Declares the contract of a pass; a pass without one takes any stage and does not change it. For targets of another kind
    than `only` the pass changes nothing."""

    def declare(function: F) -> F:
        @wraps(function)
        def selected(module: Module, target: Target, **options: Any) -> Module:
            return function(module, target, **options) if target.kind == only else module

        made: Any = function if only is None else selected
        setattr(made, _KEY, Contract(needs, gives, anchor, only))
        return made

    return declare


def contract_of(function: Callable[..., Any]) -> Contract:
    found = getattr(function, _KEY, None)
    return found if isinstance(found, Contract) else Contract()


_KEY = "__contract__"
