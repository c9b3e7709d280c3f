# SPDX-License-Identifier: Apache-2.0
"""What a pass asks of a program and what it makes of it. Declared beside the pass; pipelines are checked against it.

The stages of a program, each a set of rules that `stages.py` checks:

    program   operators on named variables, in blocks
    named     tensor ops, perhaps with axis names, as a graph is lifted or a person writes them
    plain     the same without axis names
    fused     plain, with ops grouped in fusions
    kernels   functions only call kernels, view and hold values, and control what runs
    planned   functions work on buffers, each of which has its place
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

Stage = Literal["program", "named", "plain", "fused", "kernels", "planned"]
STAGES: tuple[Stage, ...] = get_args(Stage)
#: What a pass is given: the whole module, or each function by itself (then it may stand inside `func.func(...)`).
Anchor = Literal["module", "function"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Contract:
    """`needs`: the stages that the pass takes; `gives`: the one that it leads to, or None where it stays in that."""

    needs: tuple[Stage, ...] = STAGES
    gives: Stage | None = None
    anchor: Anchor = "module"

    @property
    def stages(self) -> str:
        """`plain -> fused`, for lists."""
        needs = "any" if self.needs == STAGES else " | ".join(self.needs)
        return f"{needs} -> {self.gives or 'the same'}"


def contract(
    *, needs: tuple[Stage, ...] = STAGES, gives: Stage | None = None, anchor: Anchor = "module"
) -> Callable[[F], F]:
    """Declares the contract of a pass; without one it takes any stage and stays in it."""

    def declare(function: F) -> F:
        setattr(function, _KEY, Contract(needs, gives, anchor))
        return function

    return declare


def contract_of(function: Callable[..., Any]) -> Contract:
    found = getattr(function, _KEY, None)
    return found if isinstance(found, Contract) else Contract()


_KEY = "__contract__"
