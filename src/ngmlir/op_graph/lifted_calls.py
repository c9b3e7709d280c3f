# SPDX-License-Identifier: Apache-2.0
"""Calls in a lifted program of what the graph does not compute: Python functions, and kernels that users wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir import core
from ..ir.attributes import StringAttr
from ..ir.core import Block, Region, Value
from ..ir.structure import structure
from ..ir.types import FunctionType, TensorType, Type
from ..ops import func, tile
from ..ops.builder import Builder, build_op
from ..ops.fields import attributes_of
from ..ops.hosts import HOST
from .host_ops import HostOp
from .kernel_texts import buffers
from .node import Op
from .tile_ops import TileOp, plain_types


class Calls:
    """Writes the calls of the function `name`, and what they call; `known` are kernels that its module has already, by symbol."""

    def __init__(self, builder: Builder, name: str, known: Mapping[str, core.Op]):
        self.builder, self.name, self.known = builder, name, known
        #: The Python functions that are called, with the types of operands and result -> symbol.
        self.hosts: dict[tuple[str, tuple[Type, ...], Type], str] = {}
        self.kernels: dict[str, core.Op] = {}
        self._made: dict[tuple[Block, int, tuple[Value, ...]], Sequence[Value]] = {}
        self._parts: dict[tuple[int, tuple[Op, ...]], dict[int, TileOp]] = {}

    def expect(self, ops: Iterable[Op]) -> None:
        """Takes note of the results of one call that are needed."""
        for op in ops:
            if isinstance(op, TileOp) and op.index is not None:
                self._parts.setdefault((id(op.call), op.args), {})[op.index] = op

    def host(self, op: HostOp, operands: Sequence[Value], type: TensorType) -> Value:
        """A call of a Python function, which the module declares by its name."""
        types = tuple([o.type for o in operands])
        key = (op.function.name, types, type)
        symbol = self.hosts.get(key)
        if symbol is None:
            taken = sum(name == op.function.name for name, _, _ in self.hosts)
            symbol = self.hosts[key] = f"host_{op.function.name}" + (f"_{taken}" if taken else "")
        made = build_op(
            func.CallOp,
            operands,
            {"callee": symbol},
            types=[type],
            location=op.location,
            names=[op.given_name],
        )
        self.builder.add_op(made)
        return made.result

    def kernel(self, op: TileOp, operands: Sequence[Value], type: TensorType) -> Value:
        """A result of a call of a kernel, which the module holds; several results are of one call."""
        # What was called in the body of a loop is not known around it.
        key = (self.builder.block, id(op.call), tuple(operands))
        results = self._made.get(key)
        if results is None:
            kernel = op.kernel(plain_types([o.type for o in operands if isinstance(o.type, TensorType)]))
            parts = {0: op} if op.index is None else self._parts[id(op.call), op.args]
            types = [
                parts[i].type if i in parts else TensorType(t.shape, t.element)
                for i, t in enumerate(buffers(kernel)[1])
            ]
            made = build_op(
                tile.CallOp, operands, {"callee": self._symbol(kernel)}, types=types, location=op.location,
                names=[parts[i].given_name if i in parts else "" for i in range(len(types))],
            )  # fmt: skip
            results = self._made[key] = self.builder.add_op(made).results
        return results[op.index or 0]

    def _symbol(self, kernel: core.Op) -> str:
        """What the module calls a kernel, which it holds from now on."""
        symbol, number, own = kernel.symbol, 0, structure(kernel)
        while symbol == self.name or structure(self._there(symbol) or kernel) != own:
            number += 1
            symbol = f"{kernel.symbol}_{number}"
        if symbol not in self.kernels:
            renamed = {**kernel.attributes, "sym_name": StringAttr(symbol)}
            self.kernels[symbol] = kernel if symbol == kernel.symbol else kernel.rebuilt(attributes=renamed)
        return symbol

    def _there(self, symbol: str) -> core.Op | None:
        return self.known.get(symbol) or self.kernels.get(symbol)

    def declarations(self) -> list[core.Op]:
        """The Python functions that are called, and the kernels."""
        hosts = [
            func.FuncOp(
                (),
                (),
                {
                    **attributes_of(
                        func.FuncOp, {"sym_name": symbol, "function_type": FunctionType(taken, (given,))}
                    ),
                    "sym_visibility": StringAttr("private"),
                    HOST: StringAttr(name),
                },
                (Region(),),
            )
            for (name, taken, given), symbol in self.hosts.items()
        ]
        return [*hosts, *self.kernels.values()]
