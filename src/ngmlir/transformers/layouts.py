# SPDX-License-Identifier: Apache-2.0
"""Memory layouts of values and their costs, for passes that ask a transformer.

There is one layout: row-major, in the order of the axes. Kernels read views of it in place, so an op has no cost from
its layout, and any other layout costs a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ..op_graph.tensor import Tensor


@dataclass(frozen=True)
class Layout:
    """The names of the axes, the outermost first."""

    axes: tuple[str, ...]


def layouts_of(op: Tensor) -> list[Layout]:
    """The layouts that the value of an op can have."""
    return [Layout(op.axes.names)]


@dataclass(frozen=True)
class LayoutCost:
    """The cost of a layout for the value of an op."""

    op: Tensor

    def get_cost(self, layout: Layout) -> float:
        """0 for a layout that it can have, else infinity."""
        return 0.0 if layout in layouts_of(self.op) else inf


@dataclass(frozen=True)
class LayoutChangeCost:
    """The cost of reading an argument of an op in another layout."""

    op: Tensor
    arg: Tensor

    def get_cost(self, arg_layout: Layout, op_layout: Layout) -> float:
        """The bytes that a copy moves if the argument's layout is not that of its axes; the layout of the op itself has
        no cost."""
        copied = 2 * self.arg.tensor_description().tensor_size
        return 0.0 if arg_layout in layouts_of(self.arg) else float(copied)


class Layouts:
    """The methods of transformers for layouts."""

    def get_layouts(self, op: Tensor) -> list[Layout]:
        """The layouts that the value of an op can have, the default first."""
        return layouts_of(op)

    def get_layout_cost_function(self, op: Tensor) -> LayoutCost:
        """The cost of a layout of an op: `get_cost(layout)`."""
        return LayoutCost(op)

    def get_layout_change_cost_function(self, op: Tensor, arg: Tensor) -> LayoutChangeCost:
        """The cost of reading an argument in another layout: `get_cost(arg_layout, op_layout)`, in bytes."""
        return LayoutChangeCost(op, arg)
