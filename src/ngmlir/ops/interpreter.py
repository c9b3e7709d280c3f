# SPDX-License-Identifier: Apache-2.0
"""Runs a module in NumPy, op by op: the reference of all tests, at every stage from the graph to the memory plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.core import Block, Module, Op, Region, Value
from ..ir.elements import ElementsAttr
from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import MemRefType, ShapedType, TensorType, Type, shape_of
from ..support.arrays import UNMASK, is_masked
from ..support.diagnostics import Bug, Limit, UserError
from ..support.spelling import did_you_mean
from . import ng
from .builder import build_op
from .fields import array_items, find_symbols, get_i64
from .meaning import EFFECTS, MEANING
from .meaning.numbers import Array
from .meaning.tiles import fresh, launch
from .rules import same_size
from .tied import tied_pairs


def run(
    module: Module, *arrays: Any, entry: str = "main", order: int | None = None, exact: bool = False
) -> tuple[Array, ...]:
    """The results of function (or kernel) `entry`; the arrays are not changed.

    A function whose memory is planned takes its arguments alone: result buffers, constants, prepared buffers and the
    arena are made here. `order` is a seed that shuffles the programs of each kernel; with `exact`, tile products round as
    their definition says.
    """
    runner = _Runner(module, order, exact)
    function = runner.functions.get(entry)
    if function is None or not function.regions or not function.regions[0].blocks:
        hint = did_you_mean(f"@{entry}", (f"@{name}" for name in runner.functions))
        raise UserError(f"the module has no function @{entry} to run", module.location, hint=hint)
    types = [a.type for a in function.regions[0].block.args]
    with np.errstate(all="ignore"):
        if function.name == "tile.kernel":
            return _run_kernel(runner, function, types, arrays)
        if "ng.arguments" in function.attributes:
            return _run_planned(runner, function, types, arrays)
        return tuple(runner.isolated(function.regions[0].block, _checked(function, types, arrays)))


def evaluate(op: Op, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of one op without regions or side effects; Limit for another."""
    with np.errstate(all="ignore"):
        return _values(op, arrays)


def _values(op: Op, arrays: Sequence[Array]) -> tuple[Array, ...]:
    meaning = MEANING.get(op.name)
    if meaning is None:
        raise Limit(f"{op.name} has no reference implementation", op.location)
    result, type = np.asarray(meaning(op, arrays)), op.results[0].type
    if result.dtype != dtype_of(type) or not _has_shape(result, type):
        raise Bug(
            f"the reference value of {op.name} is {result.dtype}{list(result.shape)}, not {type}", op.location
        )
    return (result,)


def _has_shape(array: Array, type: Type) -> bool:
    shape = shape_of(type)
    return shape == array.shape or (len(shape) == array.ndim and all(map(same_size, shape, array.shape)))


def _checked(function: Op, types: Sequence[Type], arrays: Sequence[Any]) -> list[Array]:
    """The arguments as arrays; UserError if they do not fit the types."""
    if len(types) != len(arrays):
        raise UserError(
            f"@{function.symbol} takes {len(types)} arguments, not {len(arrays)}", function.location
        )
    found: list[Array] = []
    for i, (type, given) in enumerate(zip(types, arrays, strict=True)):
        if is_masked(given):
            message = f"argument {i} of @{function.symbol} is a masked array; its mask would be lost"
            raise UserError(message, function.location, hint=UNMASK)
        # Arrays and scalars of NumPy keep their type, to be compared; other values get the argument's.
        typed = isinstance(given, (np.ndarray, np.generic))
        array: Array = np.asarray(given, None if typed else dtype_of(type))
        if array.dtype != dtype_of(type) or not _has_shape(array, type):
            raise UserError(
                f"argument {i} of @{function.symbol} is {type}, not {array.dtype} of shape {list(array.shape)}",
                function.location,
            )
        found.append(array)
    return found


def _run_kernel(
    runner: _Runner, kernel: Op, types: Sequence[Type], arrays: Sequence[Any]
) -> tuple[Array, ...]:
    buffers = [t for t in types if isinstance(t, MemRefType)]
    read = len(buffers) - get_i64(kernel, "outputs")
    results = [fresh(t) for t in buffers[read:]]
    launch(runner, kernel, [*_checked(kernel, buffers[:read], arrays), *results])
    return tuple(results)


def _run_planned(
    runner: _Runner, function: Op, types: Sequence[Type], arrays: Sequence[Any]
) -> tuple[Array, ...]:
    given = get_i64(function, "ng.arguments")
    tied = tied_pairs(function)
    arguments = [np.array(a) for a in _checked(function, types[:given], arrays)]
    count = get_i64(function, "ng.results")
    own = [fresh(t) for t in types[given : given + count - len(tied)]]
    stored = array_items(function.attributes["ng.constants"]) if "ng.constants" in function.attributes else ()
    constants = [np.array(c.array()) for c in stored if isinstance(c, ElementsAttr)]
    makers = [runner.symbol(function, name) for name in find_symbols(function, "ng.prepared")]
    prepared = [
        a for maker in makers for a in _run_planned(runner, maker, [b.type for b in maker.block.args], ())
    ]
    rest = [fresh(t) for t in types[given + len(own) + len(constants) + len(prepared) :]]
    runner.isolated(function.regions[0].block, [*arguments, *own, *constants, *prepared, *rest])
    untied = iter(own)
    return tuple(arguments[tied[i]] if i in tied else next(untied) for i in range(count))


class _Runner:
    """Runs blocks; `values` are those of the isolated region that is running."""

    def __init__(self, module: Module, order: int | None, exact: bool):
        self.functions = {op.symbol: op for op in module.ops if op.symbol}
        self.order, self.exact = order, exact
        self.values: dict[Value, Any] = {}
        #: Constants are the same in every iteration of a loop and in every program of a kernel.
        self.constants: dict[Op, tuple[Array, ...]] = {}

    def symbol(self, op: Op, name: str) -> Op:
        found = self.functions.get(name)
        if found is None:
            hint = did_you_mean(f"@{name}", (f"@{each}" for each in self.functions))
            raise UserError(f"{op.name} calls @{name}, which is not defined", op.location, hint=hint)
        return found

    def isolated(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        outer, self.values = self.values, {}
        try:
            return self.block(block, arguments)
        finally:
            self.values = outer

    def block(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        values = self.values
        values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            operands = [values[o] for o in op.operands]
            if "terminator" in op.traits:
                return operands
            effect = EFFECTS.get(op.name)
            if effect is not None:
                results = effect(self, op, operands)
            elif operands:
                results = _values(op, operands)
            else:
                results = self.constants.get(op) or self.constants.setdefault(op, _values(op, ()))
            values.update(zip(op.results, results, strict=True))
        return []


class ArrayVerbs(ng.NgVerbs[Array]):
    """The verbs of `ng` on NumPy arrays: ops are evaluated at once."""

    def build(
        self,
        op: type[Op],
        operands: Sequence[Array],
        attributes: Mapping[str, Any],
        *,
        types: Sequence[Type] | None = None,
        regions: Sequence[Region] = (),
    ) -> Sequence[Array]:
        given = [Value(TensorType(a.shape, type_of_dtype(a.dtype))) for a in operands]
        return evaluate(build_op(op, given, attributes, types=[_unnamed(t) for t in types or ()]), operands)


def _unnamed(type: Type) -> Type:
    """The type without axis names, which arrays do not have."""
    return TensorType(type.shape, type.element) if isinstance(type, ShapedType) else type
