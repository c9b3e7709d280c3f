# SPDX-License-Identifier: Apache-2.0
"""What ranks have of variables: all of one, some steps of a dimension, or a part of a sum; and operators on such parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, pairwise
from typing import TypeAlias

from ..ir.attributes import DenseArrayAttr, DictAttr
from ..ir.types import DYNAMIC, TensorType
from .descriptions import Operator
from .infer import Types
from .names import EMPTY
from .sparse_rows import whole_type
from .spreads import Place

#: By how much lengths are longer where an operator on parts is compared with the one on the whole.
SCALE = 2


class Held(Enum):
    """What a rank has of a variable that is not divided."""

    WHOLE = "all of it"
    SUM = "a part of a sum"


@dataclass(frozen=True)
class Split:
    """A variable of which each rank has some steps of a dimension: `sections` are how many, from rank 0 on."""

    dimension: int
    sections: tuple[int, ...]

    def bounds(self, rank: int) -> tuple[int, int]:
        """The steps of a rank: the first one, and the one behind the last."""
        return [*pairwise([0, *accumulate(self.sections)])][rank]

    def local(self, type: TensorType, rank: int) -> TensorType:
        """The type of a rank's part."""
        shape = list(type.shape)
        shape[self.dimension] = self.sections[rank]
        return TensorType(tuple(shape), type.element, type.encoding)


State: TypeAlias = Split | Held


def unchanged(
    operator: Operator, attributes: DictAttr, states: Mapping[str, State], rank: int | None, scale: int
) -> DictAttr:
    """The attributes, unchanged."""
    return attributes


def lengthened(type: TensorType, state: State, rank: int | None, scale: int) -> TensorType:
    """The type of a rank's part (or of the whole), so many times as long where it is divided."""
    if not isinstance(state, Split):
        return type
    shape = [*type.shape]
    shape[state.dimension] = scale * (sum(state.sections) if rank is None else state.sections[rank])
    return TensorType(tuple(shape), type.element, type.encoding)


def scaled(operator: Operator, types: Types, states: Mapping[str, State], rank: int | None) -> Types:
    """The types of what an operator reads where lengths that are divided are longer: a part of one element would be built otherwise."""
    made: list[tuple[str, tuple[TensorType | None, ...]]] = []
    for slot, own in types:
        of = [states.get(name, Held.WHOLE) for name in operator.inputs[slot]]
        plain = [whole_type(type) for type in own]
        longer = [t and lengthened(t, state, rank, SCALE) for t, state in zip(plain, of, strict=True)]
        made.append((slot, tuple(longer)))
    return tuple(made)


def places_in(slots: Mapping[str, Sequence[str]]) -> Iterable[tuple[Place, str]]:
    """The variables in slots, each with where it is."""
    return (((slot, i), n) for slot, names in slots.items() for i, n in enumerate(names) if n != EMPTY)


def shortened(
    operator: Operator,
    attributes: DictAttr,
    states: Mapping[str, State],
    rank: int | None,
    scale: int,
) -> DictAttr:
    """Attributes in which the length of a divided dimension stands, with that of a part (or of the whole)."""
    changed = dict(attributes.items)
    for _, name in (*places_in(operator.inputs), *places_in(operator.outputs)):
        state = states.get(name)
        if not isinstance(state, Split):
            continue
        d, length = state.dimension, operator.block.visible(name).type.shape[state.dimension]
        for key, value in attributes.items:
            if isinstance(value, DenseArrayAttr) and len(value.values) > d and value.values[d] == length:
                values = [*value.values]
                values[d] = scale * (length if rank is None else state.sections[rank])
                changed[key] = DenseArrayAttr(value.type, tuple(values))
    return DictAttr(tuple(changed.items()))


def same_shape(made: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether shapes agree, where lengths are known."""
    return len(made) == len(declared) and all(
        m == d or d == DYNAMIC for m, d in zip(made, declared, strict=True)
    )
