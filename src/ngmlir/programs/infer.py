# SPDX-License-Identifier: Apache-2.0
"""The types of what an operator gives, from those of what it takes: its function, applied to tensors of these types.

A length that is not known is tried with two numbers: what differs in the results depends on it, and is not known either. A ragged
input is tried with sequences of one row, so that there are as many of these. What was found is kept, since layers repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..decl.operator_text import OperatorEntry
from ..ir.attributes import DenseArrayAttr, DictAttr, IntegerAttr, StringAttr
from ..ir.types import DYNAMIC, TensorType, i32, i64, ui64
from ..op_graph.node import Op, closure
from ..op_graph.positions import Positions
from ..op_graph.state import AssignableTensorOp, Role
from ..op_graph.tensor import Tensor
from ..support.diagnostics import UserError
from .attributes import values_of
from .catalogue import REGISTRY
from .definition import Levels, Names, T
from .descriptions import Operator, Variable
from .names import EMPTY, GRADIENT, offsets_names
from .places import at
from .ragged import shared
from .sparse_rows import RowsType, SparseRows
from .vartypes import element_of

#: Substitutes for unknown lengths: both have many divisors, as lengths of batches do.
_LENGTHS = (240, 480)
#: The greatest number that such a length is tried to be a multiple of.
_MOST_FACTOR = 1 << 20

#: Of each slot the types of its variables; None for one that holds no tensor.
Types = tuple[tuple[str, tuple[TensorType | RowsType | None, ...]], ...]

#: Of each slot, for each of its variables, how many offsets each of its ragged levels has.
Raggedness = tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]


class Given(NamedTuple):
    """What an operator gives, by slot: the types, and the numbers of ragged levels."""

    types: Mapping[str, Sequence[TensorType | RowsType | None]]
    ragged: Mapping[str, Sequence[int]]


def infer_types(operator: Operator) -> None:
    """Gives the variables that an operator writes their types.

    Raises UserError, at the operator's line, where what it takes does not fit together.
    """
    definition = REGISTRY.get(operator.type)
    if operator.type.endswith("_grad"):
        _as_forward(operator)
        return
    if definition.build is None:
        _of_arrays(operator)
        return
    block, where = operator.block, operator.location
    taken = types_of(operator)
    with at(where):
        given = outputs(operator.type, taken, operator.dictionary, raggedness_of(operator))
    for slot, names in operator.outputs.items():
        ragged = given.ragged.get(slot, ())
        for name, type, levels in zip(names, given.types.get(slot, ()), ragged, strict=False):
            if name != EMPTY and type is not None:
                _declare(block.visible(name, where), type, levels)


def _declare(variable: Variable, type: TensorType | RowsType, ragged: int) -> None:
    holds = "selected_rows" if isinstance(type, RowsType) else "tensor"
    variable.type = type.whole if isinstance(type, RowsType) else type
    variable.ragged = ragged
    if variable.holds != holds and variable.holds in ("tensor", "selected_rows"):
        variable.set(holds=StringAttr(holds))


def _of_arrays(operator: Operator) -> None:
    """An array has the type of its elements."""
    block, where = operator.block, operator.location
    match operator.type:
        case "write_to_array" | "read_from_array" | "clear_in_array":
            given, made = _first(operator, "X"), _result(operator)
            if given.type.shape and not made.type.shape:
                made.type, made.ragged = given.type, given.ragged
        case "lod_tensor_to_array":
            given, made = _first(operator, "X"), _result(operator)
            made.type, made.ragged = given.type, max(given.ragged - 1, 0)
        case "array_to_lod_tensor":
            given, made = _first(operator, "X"), _result(operator)
            made.type, made.ragged = given.type, given.ragged + 1
        case "beam_search_decode":
            for slot, source in (("SentenceIds", "Ids"), ("SentenceScores", "Scores")):
                made = operator.block.visible(operator.outputs[slot][0], operator.location)
                made.type, made.ragged = TensorType((DYNAMIC,), _first(operator, source).type.element), 2
        case "fill_constant_by_rank_table":
            element = element_of(operator.attribute("dtype"))
            _result(operator).type = TensorType((DYNAMIC, *operator.attribute("shape")), element)
        case "shrink_rnn_memory" | "reorder_lod_tensor_by_rank":
            given, made = _first(operator, "X"), _result(operator)
            made.type, made.ragged = given.type, given.ragged
        case "lod_array_length" | "max_sequence_len":
            block.visible(operator.outputs["Out"][0], where).type = TensorType((1,), i64)
        case _:
            pass


def _first(operator: Operator, slot: str) -> Variable:
    return operator.block.visible(operator.inputs[slot][0], operator.location)


def _result(operator: Operator) -> Variable:
    return operator.block.visible(operator.outputs["Out"][0], operator.location)


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


def raggedness_of(operator: Operator) -> Raggedness:
    """The ragged levels of what an operator reads; nothing where none has any."""

    block, where = operator.block, operator.location

    def offsets(name: str) -> tuple[int, ...]:
        levels = 0 if name == EMPTY else block.visible(name, where).ragged
        declared = [block.find(each) for each in offsets_names(name, levels)]
        return tuple([DYNAMIC if v is None else v.shape[0] for v in declared])

    found = tuple([(slot, tuple(map(offsets, names))) for slot, names in operator.inputs.items()])
    return found if any(any(levels) for _, levels in found) else ()


def _as_forward(operator: Operator) -> None:
    """A gradient has the type and the raggedness of what it is the gradient of; that of a table may be sparse rows."""
    is_sparse = operator.attribute("is_sparse") is True
    for slot, names in operator.outputs.items():
        for name, source in zip(names, operator.inputs.get(slot.removesuffix(GRADIENT), ()), strict=False):
            if EMPTY not in (name, source):
                forward = operator.block.visible(source)
                is_table = is_sparse and slot == "W" + GRADIENT
                made = operator.block.visible(name, operator.location)
                _declare(made, RowsType(forward.type) if is_table else forward.type, forward.ragged)


@lru_cache(maxsize=1 << 14)
def outputs(type: str, inputs: Types, attributes: DictAttr, ragged: Raggedness = ()) -> Given:
    """The types and the raggedness in each output slot of an operator."""
    is_open = bool(ragged) or any(t is not None and not t.static for _, types in inputs for t in types)
    try:
        found, computes_lengths = _applied(type, inputs, attributes, ragged, _LENGTHS[0])
        if not is_open and not computes_lengths:
            return found
        return _for_all(found, _applied(type, inputs, attributes, ragged, _LENGTHS[1])[0])
    except UserError as error:
        if not is_open:
            raise
        # A length that is not known may be a multiple of a number among the attributes, one that is known, or one that a shape asks for.
        for factor in _factors(attributes):
            with suppress(UserError):
                one, other = (_applied(type, inputs, attributes, ragged, n * factor)[0] for n in _LENGTHS)
                return _for_all(one, other)
        shapes = [_shape(t) for _, types in inputs for t in types if t is not None]
        known = {n for shape in shapes for n in shape if n > 1}
        for length in (*sorted(known), *sorted(_asked_for(shapes, attributes) - known)):
            with suppress(UserError):
                found, _ = _applied(type, inputs, attributes, ragged, length)
                types = _left_open(found.types, inputs, length) if length in known else found.types
                return Given(types, found.ragged)
        first, *rest = error.diagnostics
        said = f"lengths that are not known are {_LENGTHS[0]} here"
        if str(_LENGTHS[0]) not in first.message:
            raise
        hint = f"{first.hint}; {said}" if first.hint else said
        raise UserError([replace(first, hint=hint), *rest]) from None


def _for_all(found: Given, again: Given) -> Given:
    """What an operator gives for all lengths, of what it gives for two: what differs is not known."""
    types = {
        slot: [_common(a, b) for a, b in zip(types, again.types[slot], strict=True)]
        for slot, types in found.types.items()
    }
    return Given(types, found.ragged)


def _factors(attributes: DictAttr) -> list[int]:
    """The numbers above 1 of the attributes and the products of their arrays, of which a length may have to be a multiple."""
    arrays = [
        value.values if isinstance(value, DenseArrayAttr) else (value.value,)
        for _, value in attributes.items
        if isinstance(value, DenseArrayAttr | IntegerAttr)
    ]
    found = {prod(n for n in array if n > 0) for array in arrays}
    return sorted(n for n in found if 1 < n <= _MOST_FACTOR)


def _asked_for(shapes: Sequence[Sequence[int]], attributes: DictAttr) -> set[int]:
    """The lengths of the only dimension of an input that is not known with which it has as many elements as a shape in an attribute."""
    asked = [
        prod(value.values)
        for _, value in attributes.items
        if isinstance(value, DenseArrayAttr) and value.values and all(n > 0 for n in value.values)
    ]
    open = [prod(n for n in shape if n != DYNAMIC) for shape in shapes if shape.count(DYNAMIC) == 1]
    return {count // rest for count in asked for rest in open if rest and count % rest == 0}


def _left_open(found: Mapping[str, Sequence[Any]], inputs: Types, length: int) -> Mapping[str, Sequence[Any]]:
    """Types found for one length of the dimensions that are not known: where an input has such a dimension, a result of that length may
    have another one; not one with the shape of an input."""
    shapes = [_shape(t) for _, types in inputs for t in types if t is not None]
    places = {d for shape in shapes for d, n in enumerate(shape) if n == DYNAMIC}

    def left_open(type: Any) -> Any:
        if not isinstance(type, TensorType) or type.shape in shapes:
            return type
        shape = [DYNAMIC if n == length and d in places else n for d, n in enumerate(type.shape)]
        return TensorType(tuple(shape), type.element)

    return {slot: [left_open(type) for type in types] for slot, types in found.items()}


@lru_cache(maxsize=1 << 12)
def read_inputs(
    type: str, inputs: Types, attributes: DictAttr, wanted: tuple[str, ...], ragged: Raggedness = ()
) -> frozenset[tuple[str, int]]:
    """Which inputs, by slot and place, the values in some output slots of an operator depend on; on their offsets too."""
    if not REGISTRY.get(type).has_value:  # what it runs may read all
        return frozenset({(slot, i) for slot, each in inputs for i in range(len(each))})
    context, values, given = built(type, inputs, attributes, ragged, _LENGTHS[0])
    roots = [part for slot in wanted for v in given.get(slot, ()) if v is not None for part in _parts(v)]
    seen = closure([*roots, *context.sizes])
    return frozenset(
        {
            (slot, i)
            for slot, each in values.items()
            for i, v in enumerate(each)
            if v is not None and any(part in seen for part in (*_parts(v), *context.levels(slot, i)))
        }
    )


def _shape(type: TensorType | RowsType) -> tuple[int, ...]:
    return (type.whole if isinstance(type, RowsType) else type).shape


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


def _type_of(value: Any) -> TensorType | RowsType | None:
    if isinstance(value, SparseRows):
        return value.type
    return TensorType(value.type.shape, value.element) if isinstance(value, Tensor) else None


def _applied(
    type: str, inputs: Types, attributes: DictAttr, ragged: Raggedness, length: int
) -> tuple[Given, bool]:
    """What an operator gives, and whether lengths of it are computed."""
    context, values, given = built(type, inputs, attributes, ragged, length)
    taken = {
        slot: [(rows_of(v), len(context.levels(slot, i))) for i, v in enumerate(each)]
        for slot, each in values.items()
    }

    def levels(slot: str, i: int, value: Any) -> int:
        if (slot, i) in context.given:
            return len(context.given[slot, i])
        source = shared(rows_of(value), taken) if ragged else None
        return 0 if source is None else taken[source[0]][source[1]][1]

    types = {slot: [_type_of(v) for v in made] for slot, made in given.items()}
    ragged_levels = {slot: [levels(slot, i, v) for i, v in enumerate(made)] for slot, made in given.items()}
    return Given(types, ragged_levels), bool(context.sizes)


def rows_of(value: Any) -> int | None:
    """The length of the first dimension of a tensor; None of what has none."""
    return value.type.shape[0] if isinstance(value, Tensor) and value.type.shape else None


def built(
    type: str, inputs: Types, attributes: DictAttr, ragged: Raggedness, length: int = _LENGTHS[0]
) -> tuple[StandIns, dict[str, list[Tensor | SparseRows | None]], Mapping[str, Sequence[Any]]]:
    """An operator built on tensors that stand for its inputs: what it was built in, these, and what it gives."""
    definition = REGISTRY.get(type)
    with Op.saved_user_deps(), Op.all_ops(isolate=True):
        context = StandIns(dict(ragged), length)
        values = {
            slot: [None if t is None else _stand_in(t, length) for t in types] for slot, types in inputs
        }
        made = definition.values(context, values, values_of(definition.entry, attributes))
        return context, values, made


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


class StandIns:
    """What operators are built in while only types are asked for."""

    is_trial = True

    def __init__(self, ragged: Mapping[str, Sequence[Sequence[int]]], length: int):
        self.length = length
        self.given: dict[tuple[str, int], Levels] = {}
        #: What lengths depend on.
        self.sizes: list[Tensor] = []
        self._levels = {
            (slot, i): tuple([_tensor(TensorType((n,), i32), length + 1) for n in offsets])
            for slot, each in ragged.items()
            for i, offsets in enumerate(each)
        }

    def random_key(self, seed: int) -> Tensor:
        return AssignableTensorOp(Positions.of([2]), ui64, Role.PLACEHOLDER)

    def levels(self, slot: str, at: int = 0) -> Levels:
        return self._levels.get((slot, at), ())

    def give_levels(self, slot: str, levels: Levels, at: int = 0) -> None:
        self.given[slot, at] = levels

    def size(self, count: Tensor, most: Callable[[], int] | None = None) -> int:
        self.sizes.append(count)
        return self.length

    def lengths(self, key: object, counts: Sequence[Tensor]) -> Sequence[int]:
        return [self.size(count) for count in counts]

    def longest(self, offsets: Tensor) -> int:
        return self.size(offsets)

    def require(self, holds: Tensor, message: str, hint: str = "") -> None:
        self.sizes.append(holds)

    def agree(self, offsets: Tensor, others: Tensor) -> None:
        pass

    def outputs(self, entry: OperatorEntry) -> Names:
        return {}

    def shared(self, key: object, make: Callable[[], T]) -> T:
        return make()


def _forget() -> None:
    outputs.cache_clear()
    read_inputs.cache_clear()


REGISTRY.changed.append(_forget)
