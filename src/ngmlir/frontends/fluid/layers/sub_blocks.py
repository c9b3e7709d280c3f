# SPDX-License-Identifier: Apache-2.0
"""Blocks that layers fill: begun, and given to an operator, or taken back where an error leaves them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import ParamSpec

from ....op_graph.answers import locating
from ....programs.prune import reads_from_around, writes_around, writes_of
from ....programs.vartypes import VarType
from ....support.undo import changing, undone_on_failure
from .. import unique_name
from ..framework import Block, Program, Variable

P = ParamSpec("P")


def filled_by_user(function: Callable[P, Generator[None]]) -> Callable[P, AbstractContextManager[None]]:
    """As `contextmanager`, of what a user's `with` opens: errors are at that line, and leave nothing of it in the program."""

    @contextmanager
    @wraps(function)
    def filled(*args: P.args, **named: P.kwargs) -> Generator[None]:
        with undone_on_failure(of_user=True), locating():
            changing(args[0])
            yield from function(*args, **named)

    return filled


@contextmanager
def new_block(program: Program) -> Generator[Block]:
    """A block below the current one, which layers inside append to."""
    outer = program.current_block()
    made = program.create_block()
    try:
        yield made
    finally:
        program.make_current(outer)


def step_scopes(block: Block) -> Variable:
    """A variable by which the gradient of an operator finds what that was built of."""
    name = unique_name.generate("step_scopes")
    return block.create_var(name=name, type=VarType.STEP_SCOPES, stop_gradient=True)


def used_outside(block: Block) -> list[str]:
    """What a block uses of the blocks around it: what it reads, and what it writes that has a value before, which stays where it
    does not run."""
    reads = reads_from_around(block.view)
    return _seen(block, reads | {n for n in writes_around(block.view) if _has_value(block, n)})


def written_outside(block: Block) -> list[str]:
    """What a block writes of the blocks around it."""
    return _seen(block, writes_around(block.view))


def _seen(block: Block, names: set[str]) -> list[str]:
    parent = block.view.parent
    return sorted(n for n in names if parent is not None and parent.find(n) is not None)


def _has_value(block: Block, name: str) -> bool:
    parent = block.view.parent
    variable = None if parent is None else parent.find(name)
    if parent is None or variable is None:
        return False
    if variable.persistable or variable.flag("data"):
        return True
    return any(name in writes_of(o) for around in parent.around() for o in around.operators)
