# SPDX-License-Identifier: Apache-2.0
"""What operators that run a block are built with: the values that go into the block and come out.

What a block writes of the blocks around it is carried by the loop, or comes out of the branch; everything else that it reads is
used from around it. Of each such operator it is noted of which values it was built, under the name of its step scopes: its
gradient is the derivative of what it gave by these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

from .. import numpy as np
from ..ir.types import i1
from ..op_graph.building import BUILDING
from ..op_graph.regions import GraphRegion, within
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.lengths import are_same
from .arrays import Array, StackedArray, TensorArray
from .definition import Context, Levels
from .descriptions import BlockView, Operator
from .names import offsets_names
from .prune import reads_from_around, reads_of, writes_around
from .rank_tables import RankTable
from .sparse_rows import SparseRows, dense

#: What goes into blocks and comes out of them: a tensor, an array of them, a rank table.
Kept: TypeAlias = Tensor | Array | RankTable
#: What a variable holds: this, or sparse rows.
Held: TypeAlias = Kept | SparseRows


class Lowering(Context, Protocol):
    """What blocks are built in."""

    values: dict[str, Held]
    ran: dict[tuple[str, ...], list[Ran]]
    #: Inside of blocks that run: their numbers of the iteration or step, the outermost first.
    turns: tuple[Tensor | None, ...]
    #: Of offsets inside of a block: the greatest length of their sequences, in all steps.
    bounds: dict[Tensor, int]

    def read(self, operator: Operator, name: str) -> Held:
        """The value that a variable has now."""
        ...

    def write(self, operator: Operator, name: str, value: Held, levels: Levels = ()) -> None:
        """Gives a variable a value, and the offsets of its ragged levels."""
        ...

    def levels_of(self, operator: Operator, name: str) -> Levels:
        """The offsets that a variable has now."""
        ...

    def run(self, block: BlockView) -> None:
        """Builds the operators of a block."""
        ...

    def inside(
        self, block: BlockView, known: Mapping[str, Held], turn: Tensor | None
    ) -> AbstractContextManager[None]:
        """Has what is built inside see these values, and no variables of that block from elsewhere."""
        ...


@dataclass(frozen=True)
class Ran:
    """The input and output values of an operator, by the names of variables."""

    inputs: Mapping[str, Kept]
    outputs: Mapping[str, Kept]


def kept(value: Held) -> Kept:
    """A value as it goes into blocks: of sparse rows the matrix."""
    return dense(value) if isinstance(value, SparseRows) else value


def parts_of(value: Kept) -> list[Tensor]:
    """The tensors that a value consists of."""
    return [value] if isinstance(value, Tensor) else value.parts()


def like(value: Kept, parts: Sequence[Tensor]) -> Kept:
    """A value of the same kind of other tensors."""
    return parts[0] if isinstance(value, Tensor) else value.of(parts)


def called(value: Held) -> str:
    """What a value is, in words."""
    return (
        "a rank table"
        if isinstance(value, RankTable)
        else "a tensor"
        if isinstance(value, Tensor)
        else "an array"
    )


def flat(values: Mapping[str, Kept]) -> list[Tensor]:
    return [part for value in values.values() for part in parts_of(value)]


def shaped(values: Mapping[str, Kept], parts: Sequence[Tensor]) -> dict[str, Kept]:
    """Values of the same kinds by the same names, of other tensors in the order of `flat`."""
    left = iter(parts)
    return {n: like(v, list(islice(left, len(parts_of(v))))) for n, v in values.items()}


def truth(value: Kept) -> Tensor:
    """A condition, one bool, as the graph takes it. UserError for a tensor of more elements."""
    if not isinstance(value, Tensor) or value.type.shape not in ((), (1,)):
        said = "an array" if not isinstance(value, Tensor) else f"of shape {list(value.type.shape)}"
        raise UserError(
            f"a condition is one bool, and this one is {said}", hint="layers.reduce_min makes one of several"
        )
    whole = value if value.element is i1 else np.not_equal(value, 0)
    return np.reshape(whole, [])


class Entered:
    """What an operator's block uses from around it, and writes there."""

    def __init__(self, lowering: Lowering, operator: Operator):
        block = operator.sub_block
        if block is None:
            raise UserError(
                f"operator {operator.type} has no block to run",
                operator.location,
                hint="sub_block= gives it one",
            )
        self.lowering, self.operator, self.block = lowering, operator, block
        wrote, reads = writes_around(block), reads_from_around(block)
        self.wrote = sorted(n for n in wrote if block.parent is not None and block.parent.find(n) is not None)
        self.used: dict[str, Kept] = {}
        for name in sorted(reads | wrote):
            held = self._held(name, name in reads)
            if held is not None:
                self.used[name] = like(held, [ReadOp(p) for p in parts_of(held)])

    def _held(self, name: str, is_read: bool) -> Kept | None:
        variable = self.operator.block.find(name)
        if name in self.lowering.values or (variable is not None and variable.persistable):
            return kept(self.lowering.read(self.operator, name))
        if is_read and not _is_written_first(self.block, name):
            return kept(self.lowering.read(self.operator, name))  # tells that it has none
        return None

    def before(self) -> dict[str, Kept]:
        """What the names that the block writes hold before: zeros of their types for those that hold nothing."""
        found = {name: self.used[name] if name in self.used else self._nothing(name) for name in self.wrote}
        known = {name: held for name, held in found.items() if held is not None}
        if len(known) < len(found):
            # Which lengths they have, the block says, which is built once to see it.
            with within(GraphRegion(BUILDING.region)):
                made = self.built(known, also=[name for name in found if name not in known])
            known.update(
                (n, like(v, [np.zeros_like(p) for p in parts_of(v)]))
                for n, v in made.items()
                if n not in known
            )
        return {name: known[name] for name in self.wrote}

    def _nothing(self, name: str) -> Kept | None:
        variable = self.operator.block.visible(name)
        if variable.holds == "tensor_array":
            return TensorArray()
        if not variable.type.static:
            return None
        return cast_elements(np.zeros(variable.type.shape), variable.element)

    def built(
        self, known: Mapping[str, Kept], turn: Tensor | None = None, also: Sequence[str] = ()
    ) -> dict[str, Kept]:
        """The block, built here from these values of what it writes: what that is after it, and `also` what these are."""
        with self.lowering.inside(self.block, {**self.used, **known}, turn):
            before = dict(self.lowering.values)
            self.lowering.run(self.block)
            for name in known:
                self._same_offsets(name, before)
            return {name: kept(self.lowering.values[name]) for name in (*known, *also)}

    def _same_offsets(self, name: str, before: Mapping[str, Held]) -> None:
        """Limit where a block changes the offsets of a variable from around it: only values are carried."""
        for each in offsets_names(name, self.block.visible(name).ragged):
            if each in before and self.lowering.values[each] is not before[each]:
                message = f"the block of operator {self.operator.type} changes the offsets of '{name}', which is around it"
                hint = "layers.array_write(x, i, array=array) keeps the offsets of each element"
                raise Limit(message, self.operator.location, hint=hint)

    def fitting(self, given: Mapping[str, Kept], wanted: Mapping[str, Kept]) -> list[Tensor]:
        """What the block gives, as tensors of the shapes that it takes."""
        found: list[Tensor] = []
        for name, value in given.items():
            for made, before in zip(parts_of(value), parts_of(wanted[name]), strict=True):
                if not are_same(made.type.shape, before.type.shape):
                    message = f"the block of operator {self.operator.type} writes '{name}' with the shape {list(made.type.shape)}, and it was {list(before.type.shape)}"
                    hint = "what is carried from iteration to iteration keeps its shape; an array takes tensors of any number"
                    raise UserError(Diagnostic(message, self.operator.location, hint=hint))
                found.append(cast_elements(made, before.element))
        return found

    def finish(
        self,
        outputs: Mapping[str, Kept],
        inputs: Mapping[str, Kept] | None = None,
        levels: Mapping[str, Levels] | None = None,
    ) -> None:
        """Writes what came out, with the offsets of what is ragged, and notes of what it was built."""
        scopes = scopes_of(self.operator)
        if scopes:
            self.lowering.ran[(self.operator.type, *scopes)] = [Ran(inputs or dict(self.used), dict(outputs))]
        for name, value in outputs.items():
            self.lowering.write(self.operator, name, value, (levels or {}).get(name, ()))


def scopes_of(operator: Operator) -> list[str]:
    """The names under which the gradient of an operator finds of what it was built."""
    slot = next((s for s in _SCOPES if s in operator.outputs or s in operator.inputs), None)
    if slot is None:
        return []
    return operator.outputs[slot] if slot in operator.outputs else operator.inputs[slot]


_SCOPES = ("StepScopes", "Scope", "step_scopes")


def _is_written_first(block: BlockView, name: str) -> bool:
    """Whether an operator of the block writes a name before any reads it."""
    for operator in block.operators:
        if name in reads_of(operator):
            return False
        if name in operator.writes:
            return True
    return False


def all_operators(block: BlockView) -> Iterator[Operator]:
    for operator in block.operators:
        yield operator
        if operator.sub_block is not None:
            yield from all_operators(operator.sub_block)


def empty_array(entered: Entered, name: str, capacity: int) -> StackedArray:
    """An array without elements, with place for as many; what its elements are, the block says, which is built once to see it."""
    with within(GraphRegion(BUILDING.region)):
        made = entered.built(entered.before())[name]
        element = (
            made.read(np.asarray([0], dtype="int64")) if isinstance(made, StackedArray) else parts_of(made)[0]
        )
    zeros = cast_elements(np.zeros([max(capacity, 1), *element.type.shape]), element.element)
    return StackedArray(zeros, np.asarray([0], dtype="int64"))
