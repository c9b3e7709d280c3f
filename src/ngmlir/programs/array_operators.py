# SPDX-License-Identifier: Apache-2.0
"""Operators on arrays of tensors: what they do to the values of the environment that a program is lowered in."""

from __future__ import annotations

from collections.abc import Callable

from .. import numpy as np
from ..op_graph.known import known_integer
from ..op_graph.tensor import Tensor
from ..support.diagnostics import Limit, UserError
from .arrays import Array, StackedArray, TensorArray, summed
from .block_values import Held, Kept, Lowering, called, kept
from .descriptions import Operator
from .names import GRADIENT


def _array(lowering: Lowering, operator: Operator, name: str) -> Array:
    held = kept(lowering.read(operator, name))
    if not isinstance(held, (TensorArray, StackedArray)):
        raise UserError(
            f"operator {operator.type} takes an array, and '{name}' is {called(held)}",
            hint="layers.create_array(dtype), layers.array_write(x, i) make one",
        )
    return held


def _tensor(lowering: Lowering, operator: Operator, slot: str) -> Tensor:
    (name,) = operator.inputs[slot]
    held = kept(lowering.read(operator, name))
    if not isinstance(held, Tensor):
        raise UserError(f"operator {operator.type} takes a tensor as {slot}, and '{name}' is an array")
    return held


def _index(lowering: Lowering, operator: Operator) -> Tensor:
    index = _tensor(lowering, operator, "I")
    if index.type.shape not in ((), (1,)):
        raise UserError(
            f"a position in an array is one integer, and '{operator.inputs['I'][0]}' has the shape {list(index.type.shape)}"
        )
    return index


def write_to_array(lowering: Lowering, operator: Operator) -> None:
    (name,) = operator.outputs["Out"]
    held = lowering.values.get(name, TensorArray())
    if not isinstance(held, (TensorArray, StackedArray)):
        raise UserError(f"operator write_to_array writes an array, and '{name}' is a tensor")
    value = _tensor(lowering, operator, "X")
    whole = lowering.values.get(name.partition(GRADIENT)[0])
    levels, index = lowering.levels_of(operator, operator.inputs["X"][0]), _index(lowering, operator)
    # A gradient of an array has place for as many elements.
    if held == TensorArray() and isinstance(whole, StackedArray):
        held = held.stacked(whole.capacity, value)
    elif held == TensorArray() and isinstance(whole, TensorArray) and known_integer(index) is None:
        held = held.stacked(len(whole.elements), value)
    made = held.written(index, value, levels)
    lowering.write(operator, name, made)


def read_from_array(lowering: Lowering, operator: Operator) -> None:
    array = _array(lowering, operator, operator.inputs["X"][0])
    if isinstance(array, StackedArray) and array.has_more and not lowering.turns:
        message = f"a loop wrote ragged elements to the array '{operator.inputs['X'][0]}', whose first element is not ragged"
        hint = "layers.lod_reset(x, y) gives the first element offsets"
        raise Limit(message, operator.location, hint=hint)
    index, (name,) = _index(lowering, operator), operator.outputs["Out"]
    source, is_gradient, _ = name.partition(GRADIENT)
    of = lowering.values.get(source)
    if is_gradient and isinstance(of, Tensor) and isinstance(array, TensorArray) and array.has_none_at(index):
        # Nothing read that element, or another one took its place.
        lowering.write(operator, name, np.zeros_like(of))
    else:
        lowering.write(operator, name, array.read(index), array.levels_at(index))


def clear_in_array(lowering: Lowering, operator: Operator) -> None:
    array = _array(lowering, operator, operator.inputs["X"][0])
    lowering.write(operator, operator.outputs["Out"][0], array.written(_index(lowering, operator), None))


def lod_array_length(lowering: Lowering, operator: Operator) -> None:
    array = _array(lowering, operator, operator.inputs["X"][0])
    lowering.write(operator, operator.outputs["Out"][0], array.length)


def _held(lowering: Lowering, operator: Operator, name: str) -> Held | None:
    """What a variable holds; an array that nothing was written to has no elements."""
    found = lowering.values.get(name)
    if found is None and (variable := operator.block.find(name)) is not None:
        return TensorArray() if variable.holds == "tensor_array" else None
    return found


def of_arrays(lowering: Lowering, operator: Operator) -> bool:
    """Builds `sum`, `assign` or `fill_zeros_like` of arrays; False for an operator that takes none."""
    held = [_held(lowering, operator, n) for n in operator.reads]
    arrays = [a for a in held if isinstance(a, (TensorArray, StackedArray))]
    if not arrays:
        return False
    made = _OF_ARRAYS.get(operator.type)
    if made is None or len(arrays) < len(held):
        name = next(n for n, a in zip(operator.reads, held, strict=True) if a in arrays)
        raise UserError(
            f"operator {operator.type} takes tensors, and '{name}' is an array",
            hint="layers.array_read(array, i) gives one of its elements",
        )
    lowering.write(operator, operator.writes[0], made(arrays))
    return True


def _zeros(arrays: list[Array]) -> Kept:
    (array,) = arrays
    return (
        array.of([p * 0 for p in array.parts()])
        if isinstance(array, TensorArray)
        else array.of([array.values * 0])
    )


_OF_ARRAYS: dict[str, Callable[[list[Array]], Kept]] = {
    "sum": summed,
    "assign": lambda arrays: arrays[0],
    "fill_zeros_like": _zeros,
}

ARRAY_OPERATORS: dict[str, Callable[[Lowering, Operator], None]] = {
    "write_to_array": write_to_array,
    "read_from_array": read_from_array,
    "clear_in_array": clear_in_array,
    "lod_array_length": lod_array_length,
}
