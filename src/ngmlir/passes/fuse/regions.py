# SPDX-License-Identifier: Apache-2.0
"""Visits the blocks that may contain fusions: those of functions and of their control flow, but not of fusions themselves."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Block, Module, Op


def in_functions(module: Module, written: Callable[[Block], Block]) -> Module:
    """The module with the blocks of its functions rewritten by `written`."""
    return module.with_ops([nested(op, written) if op.name == "func.func" else op for op in module.ops])


def nested(op: Op, written: Callable[[Block], Block]) -> Op:
    """An op with the blocks of its regions rewritten by `written`; a fusion is not changed."""
    return op.with_blocks(written) if op.regions and op.name != "ng.fusion" else op
