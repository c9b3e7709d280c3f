# SPDX-License-Identifier: Apache-2.0
"""Passes that match patterns, and call a function for the replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.patterns import Labels, matches
from ...op_graph.tensor import Tensor
from .graph import PeepholeGraphPass

#: `callback(op, labels)`: the op at which the pattern matches, and the ops bound to its labels. It returns the
#: replacement, or calls `replace_op` itself; None leaves the op unchanged.
Callback = Callable[[Tensor, Labels], Any]


class GraphRewritePass(PeepholeGraphPass):
    """Replaces what matches patterns, until none matches any more.

    A pattern is a graph of ops, `ng.PatternLabelOp` and `ng.PatternSkipOp`: an op matches one of its class whose
    arguments match, in either order if the op is commutative; numbers match equal numbers. Attributes and axes are
    ignored: constraints of labels, and the callback, can check them. Patterns are tried in the order in which they were
    registered.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patterns: list[tuple[Tensor, Callback]] = []

    def register_pattern(self, pattern: Tensor, callback: Callback) -> None:
        """Adds a pattern and the function to call where it matches. Raises UserError for other objects."""
        if not isinstance(pattern, Tensor) or not callable(callback):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(
                UserError,
                f"{pattern!r} with {callback!r} is not a pattern with a function",
                'self.register_pattern(ng.log(ng.exp(ng.PatternLabelOp("x"))), self.log_of_exp)',
            )
        self.patterns.append((pattern, callback))

    def visit(self, op: Op) -> None:
        """Calls the function of the first pattern that matches and yields a replacement."""
        for pattern, callback in self.patterns:
            for labels in matches(pattern, op):
                assert isinstance(op, Tensor)
                replacement = callback(op, labels)
                if replacement is not None:
                    self.replace_op(op, replacement)
                if op in self.replacements:
                    return
