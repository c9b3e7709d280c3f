# SPDX-License-Identifier: Apache-2.0
"""The types of what an operator gives, from those of what it takes: its function, applied to tensors of these types.

A length that is not known is tried with two numbers: what differs in the results depends on it, and is not known either. What
was found is kept, since layers repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..ir.attributes import DictAttr, StringAttr
from ..ir.types import DYNAMIC, TensorType, i64, ui64
from ..op_graph.node import Op, closure
from ..op_graph.positions import Positions
from ..op_graph.state import AssignableTensorOp, Role
from ..op_graph.tensor import Tensor
from ..support.diagnostics import UserError
from .attributes import values_of
from .catalogue import REGISTRY
from .descriptions import Operator, Variable
from .names import EMPTY, GRADIENT
from .places import at
from .sparse_rows import RowsType, SparseRows

#: What stands for lengths that are not known: both have many divisors, as lengths of batches do.
_LENGTHS = (240, 480)

#: Of each slot the types of its variables; None for one that holds no tensor.
Types = tuple[tuple[str, tuple[TensorType | RowsType | None, ...]], ...]


def infer_types(operator: Operator) -> None:
    """Gives the variables that an operator writes their types.

    Raises UserError, at the operator's line, where what it takes does not fit together.
    """
    definition = REGISTRY.get(operator.type)
    if operator.type.endswith("_grad"):
        _as_forward(operator)
        return
    if definition.build is None:
        return
    block, where = operator.block, operator.location
    taken = types_of(operator)
    with at(where):
        given = output_types(operator.type, taken, operator.dictionary)
    for slot, names in operator.outputs.items():
        for name, type in zip(names, given.get(slot, ()), strict=False):
            if name != EMPTY and type is not None:
                _declare(block.visible(name, where), type)


def _declare(variable: Variable, type: TensorType | RowsType) -> None:
    holds = "selected_rows" if isinstance(type, RowsType) else "tensor"
    variable.type = type.whole if isinstance(type, RowsType) else type
    if variable.holds != holds and variable.holds in ("tensor", "selected_rows"):
        variable.set(holds=StringAttr(holds))


def types_of(operator: Operator) -> Types:
    """The types of what an operator reads."""

    visible, where = operator.block.visible, operator.location

    def type_of(variable: Variable) -> TensorType | RowsType:
        return RowsType(variable.type) if variable.holds == "selected_rows" else variable.type

    return tuple(
        [
            (slot, tuple([None if n == EMPTY else type_of(visible(n, where)) for n in names]))
            for slot, names in operator.inputs.items()
        ]
    )


def _as_forward(operator: Operator) -> None:
    """A gradient has the type of what it is the gradient of; that of a table may be sparse rows."""
    is_sparse = operator.attribute("is_sparse") is True
    for slot, names in operator.outputs.items():
        for name, source in zip(names, operator.inputs.get(slot.removesuffix(GRADIENT), ()), strict=False):
            if name != EMPTY:
                type = operator.block.visible(source).type
                is_table = is_sparse and slot == "W" + GRADIENT
                made = operator.block.visible(name, operator.location)
                _declare(made, RowsType(type) if is_table else type)


@lru_cache(maxsize=1 << 14)
def output_types(
    type: str, inputs: Types, attributes: DictAttr
) -> Mapping[str, Sequence[TensorType | RowsType | None]]:
    """The types in each output slot of an operator."""
    is_open = any(t is not None and not t.static for _, types in inputs for t in types)
    if not is_open:
        return _applied(type, inputs, attributes, _LENGTHS[0])
    try:
        found = _applied(type, inputs, attributes, _LENGTHS[0])
    except UserError as error:
        first, *rest = error.diagnostics
        said = f"lengths that are not known are {_LENGTHS[0]} here"
        hint = f"{first.hint}; {said}" if first.hint else said
        raise UserError([replace(first, hint=hint), *rest]) from None
    again = _applied(type, inputs, attributes, _LENGTHS[1])
    return {
        slot: [_common(a, b) for a, b in zip(types, again[slot], strict=True)]
        for slot, types in found.items()
    }


@lru_cache(maxsize=1 << 12)
def read_inputs(
    type: str, inputs: Types, attributes: DictAttr, wanted: tuple[str, ...]
) -> frozenset[tuple[str, int]]:
    """Which inputs, by slot and place, the values in some output slots of an operator depend on."""
    values, given = _built(type, inputs, attributes, _LENGTHS[0])
    roots = [part for slot in wanted for v in given.get(slot, ()) if v is not None for part in _parts(v)]
    seen = closure(roots)
    return frozenset(
        {
            (slot, i)
            for slot, each in values.items()
            for i, v in enumerate(each)
            if v is not None and any(part in seen for part in _parts(v))
        }
    )


def _parts(value: Tensor | SparseRows) -> tuple[Tensor, ...]:
    return value.parts if isinstance(value, SparseRows) else (value,)


def _common(a: TensorType | RowsType | None, b: TensorType | RowsType | None) -> TensorType | RowsType | None:
    if isinstance(a, RowsType) and isinstance(b, RowsType):
        whole = _common(a.whole, b.whole)
        assert isinstance(whole, TensorType)
        return RowsType(whole)
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return None
    shape = tuple([m if m == n else DYNAMIC for m, n in zip(a.shape, b.shape, strict=True)])
    return TensorType(shape, a.element)


def _applied(
    type: str, inputs: Types, attributes: DictAttr, length: int
) -> dict[str, list[TensorType | RowsType | None]]:
    _, given = _built(type, inputs, attributes, length)
    return {slot: [_type_of(v) for v in made] for slot, made in given.items()}


def _type_of(value: Any) -> TensorType | RowsType | None:
    if isinstance(value, SparseRows):
        return value.type
    return TensorType(value.type.shape, value.element) if isinstance(value, Tensor) else None


def _built(
    type: str, inputs: Types, attributes: DictAttr, length: int
) -> tuple[dict[str, list[Tensor | SparseRows | None]], Mapping[str, Sequence[Any]]]:
    """An operator built on tensors that stand for its inputs: these, and what it gives."""
    definition = REGISTRY.get(type)
    with Op.saved_user_deps(), Op.all_ops(isolate=True):
        values = {
            slot: [None if t is None else _stand_in(t, length) for t in types] for slot, types in inputs
        }
        return values, definition.values(_Types(), values, values_of(definition.entry, attributes))


def _stand_in(type: TensorType | RowsType, length: int) -> Tensor | SparseRows:
    if isinstance(type, RowsType):
        height, *width = [length if n == DYNAMIC else n for n in type.whole.shape]
        ids, rows = (
            TensorType(shape, e) for shape, e in (((length,), i64), ((length, *width), type.whole.element))
        )
        return SparseRows(_tensor(ids, length), _tensor(rows, length), height)
    return _tensor(type, length)


def _tensor(type: TensorType, length: int) -> Tensor:
    shape = [length if n == DYNAMIC else n for n in type.shape]
    return AssignableTensorOp(Positions.of(shape), type.element, Role.PLACEHOLDER)


class _Types:
    """What operators are built in while only types are asked for."""

    def random_key(self, seed: int) -> Tensor:
        return AssignableTensorOp(Positions.of([2]), ui64, Role.PLACEHOLDER)


def _forget() -> None:
    output_types.cache_clear()
    read_inputs.cache_clear()


REGISTRY.changed.append(_forget)
