# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals: known while a model is read, so nothing of them is left in the program."""

from __future__ import annotations

import numpy as np

from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Absent, Tensor, TensorList, Thing
from .layout import pieces


@operator("SequenceEmpty")
def sequence_empty(n: Node) -> TensorList:
    return TensorList()


@operator("SequenceConstruct")
def sequence_construct(n: Node, *parts: Tensor) -> TensorList:
    return TensorList(parts)


def _place(n: Node, position: Tensor, length: int) -> int:
    found = int(n.settle(position).reshape(()))
    if not -length <= found < length:
        raise UserError(f"position {found} of a sequence of {length}")
    return found % length


@operator("SequenceAt")
def sequence_at(n: Node, sequence: TensorList, position: Tensor) -> Tensor:
    return sequence[_place(n, position, len(sequence))]


@operator("SequenceInsert")
def sequence_insert(
    n: Node, sequence: TensorList, tensor: Tensor, position: Tensor | None = None
) -> TensorList:
    place = len(sequence)
    if position is not None:
        found = int(n.settle(position).reshape(()))
        place = found + len(sequence) if found < 0 else found
        if not 0 <= place <= len(sequence):
            raise UserError(f"position {found} in a sequence of {len(sequence)}")
    return TensorList([*sequence[:place], tensor, *sequence[place:]])


@operator("SequenceErase")
def sequence_erase(n: Node, sequence: TensorList, position: Tensor | None = None) -> TensorList:
    place = len(sequence) - 1 if position is None else _place(n, position, len(sequence))
    return TensorList([*sequence[:place], *sequence[place + 1 :]])


@operator("SequenceLength")
def sequence_length(n: Node, sequence: TensorList) -> Tensor:
    return n.verbs.known(np.array(len(sequence), np.int64))


@operator("SplitToSequence")
def split_to_sequence(n: Node, x: Tensor, split: Tensor | None = None) -> TensorList:
    axis = x.axis(n.integer("axis"))
    length = x.shape[axis]
    if split is None:
        parts = pieces(x, [1] * length, axis)
        return TensorList(parts if n.flag("keepdims", True) else [p.without_axes([axis]) for p in parts])
    given = n.settle(split)
    if given.ndim:
        return TensorList(pieces(x, given.tolist(), axis))
    each = int(given)
    return TensorList(pieces(x, [min(each, length - at) for at in range(0, length, each)], axis))


@operator("ConcatFromSequence")
def concat_from_sequence(n: Node, sequence: TensorList) -> Tensor:
    axis = n.integer("axis")
    return n.verbs.stacked(sequence, axis) if n.flag("new_axis") else n.verbs.joined(sequence, axis)


@operator("SequenceMap")
def sequence_map(n: Node, sequence: TensorList, *others: Thing) -> list[Thing]:
    rounds: list[list[Thing]] = []
    for i, each in enumerate(sequence):
        rounds.append(
            n.run(n.graph("body"), [each, *(o[i] if isinstance(o, TensorList) else o for o in others)])
        )
    return [TensorList(column) for column in zip(*rounds, strict=True)]  # pyright: ignore[reportArgumentType]


@operator("Optional")
def optional(n: Node, thing: Thing | None = None) -> Thing:
    return Absent() if thing is None else thing


@operator("OptionalHasElement")
def optional_has_element(n: Node, thing: Thing | None = None) -> Tensor:
    return n.verbs.known(np.array(not (thing is None or isinstance(thing, Absent))))


@operator("OptionalGetElement")
def optional_get_element(n: Node, thing: Thing) -> Thing:
    if isinstance(thing, Absent):
        raise UserError("the optional holds nothing")
    return thing
