# SPDX-License-Identifier: Apache-2.0
"""Operators between kernels: `cast`, `layout` and `copy` around one whose kernel takes another form, and pairs of them that cancel.

Before the operator each tensor of the kernel's form is made of the program's own, behind it the other way round. Where the output of
one such operator is the input of another, the pair between them changes nothing, and is left out; but a `cast` to fewer bits and
back is not, since it rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.attributes import DictAttr
from ..ir.types import FloatType, TensorType, Type
from .choosing import Choice
from .descriptions import BlockView, Operator
from .inserting import declare_like, insert_for
from .kernel_values import permuted
from .names import EMPTY
from .vartypes import element_of, number_of

#: The operators that only change the form of a tensor.
CHANGES = ("cast", "layout", "copy")


@dataclass(frozen=True)
class _Step:
    """One change of a tensor: an operator, and what it is called after."""

    type: str
    source: Any
    target: Any

    def back(self) -> _Step:
        return _Step(self.type, self.target, self.source)

    def applied(self, type: TensorType) -> TensorType:
        if self.type == "cast":
            return TensorType(type.shape, self.target)
        return permuted(type, self.source, self.target) if self.type == "layout" else type

    def attributes(self) -> Mapping[str, Any]:
        if self.type == "cast":
            return {"in_dtype": number_of(self.source), "out_dtype": number_of(self.target)}
        return {"source": self.source, "target": self.target}


class Changes:
    """The operators that change tensors for kernels, in one block of a program that runs at `place`."""

    def __init__(self, block: BlockView, place: str):
        self.block, self.place = block, place
        #: The variables that were declared for them.
        self._made: set[str] = set()

    def surround(self, operator: Operator, choice: Choice) -> None:
        """Has an operator work on tensors of the form that its kernel takes."""
        self._replace(operator, "inputs", choice, self._before)
        self._replace(operator, "outputs", choice, self._behind)

    def _replace(
        self,
        operator: Operator,
        side: str,
        choice: Choice,
        change: Callable[[Operator, str, Sequence[_Step]], str],
    ) -> None:
        slots: Mapping[str, list[str]] = getattr(operator, side)
        for slot, names in list(slots.items()):
            changed = [n if n == EMPTY else change(operator, n, self._steps(choice, slot, n)) for n in names]
            operator.set_slot(side, slot, changed)

    def _steps(self, choice: Choice, slot: str, name: str) -> list[_Step]:
        """What is changed of a variable in a slot."""
        type, kernel, situation = self.block.visible(name).type, choice.kernel, choice.situation
        assert kernel is not None and situation is not None
        found: list[_Step] = []
        if choice.element is not None and type.element is situation.element:
            found.append(_Step("cast", type.element, choice.element))
        if choice.layout and slot in kernel.slots and len(type.shape) == len(choice.layout):
            found.append(_Step("layout", situation.layout, choice.layout))
        if choice.place:
            found.append(_Step("copy", self.place, choice.place))
        return found

    def _before(self, operator: Operator, name: str, steps: Sequence[_Step]) -> str:
        for step in steps:
            made = self._declared(name, step)
            insert_for(operator, operator.index, step.type, name, made, step.attributes())
            name = made
        return name

    def _behind(self, operator: Operator, name: str, steps: Sequence[_Step]) -> str:
        """The name that the operator writes instead of `name`, which is computed from it afterwards."""
        for step in steps:
            made = self._declared(name, step)
            # Right behind the operator: what changes the last form back comes first.
            insert_for(operator, operator.index + 1, step.type, made, name, step.back().attributes())
            name = made
        return name

    def _declared(self, name: str, step: _Step) -> str:
        """Declares what a step makes of a variable."""
        type = step.applied(self.block.visible(name).type)
        made = declare_like(self.block, name, type, f"{name}.{step.target}", ".")
        self._made.add(made)
        return made

    # ---- pairs

    def cancel(self) -> None:
        """Leaves out changes that undo one another, that are made twice, and that nothing reads any more."""
        operators = self.block.operators
        has_fetch = any(operator.type == "fetch" for operator in operators)
        last = {name: at for at, operator in enumerate(operators) for name in operator.writes}
        versions: dict[str, int] = {}
        made: dict[tuple[str, int], tuple[Operator, str]] = {}  # what a change wrote -> it, and what it read
        known: dict[tuple[str, int, DictAttr], str] = {}  # what was changed, and how -> the result
        instead: dict[tuple[str, int], str] = {}
        kept: set[int] = set()
        for at, operator in enumerate(operators):
            for slot, names in list(operator.inputs.items()):
                found = [instead.get((n, versions.get(n, 0)), n) for n in names]
                if found != names:
                    operator.set_slot("inputs", slot, found)
            if operator.type in CHANGES:
                (source,), (target,) = operator.reads, operator.writes
                key = (source, versions.get(source, 0))
                first = made.get(key)
                same = known.get((*key, operator.dictionary))
                if first is not None and _undoes(operator, first[0]):
                    same = first[1]
                versions[target] = versions.get(target, 0) + 1
                # What is written again later cannot stand for another.
                if (
                    same is not None
                    and self._is_free(target, has_fetch)
                    and last[target] == at
                    and last.get(same, -1) < at
                ):
                    instead[target, versions[target]] = same
                    continue
                if last[target] == at:
                    known[(*key, operator.dictionary)] = target
                if last.get(source, -1) < at:
                    made[target, versions[target]] = (operator, source)
            else:
                for name in operator.writes:
                    versions[name] = versions.get(name, 0) + 1
            kept.add(at)
        self.block.keep_operators(kept)
        self._remove_unread(has_fetch)

    def _is_free(self, name: str, has_fetch: bool) -> bool:
        """Whether a variable is not read after the block has run. What a program without `fetch` operators gives is not known."""
        variable = self.block.find(name)
        if name in self._made:
            return True
        return variable is not None and not variable.persistable and has_fetch

    def _remove_unread(self, has_fetch: bool) -> None:
        """Removes changes whose results nothing reads, and the variables that were declared for them."""
        read: set[str] = set()
        kept: set[int] = set()
        for at, operator in reversed(list(enumerate(self.block.operators))):
            if operator.type in CHANGES:
                (name,) = operator.writes
                if name not in read and self._is_free(name, has_fetch):
                    continue
            kept.add(at)
            read.update(operator.reads)
        self.block.keep_operators(kept)
        used = {n for operator in self.block.operators for n in (*operator.reads, *operator.writes)}
        for name in self._made - used:
            self.block.remove_variable(name)


def _undoes(second: Operator, first: Operator) -> bool:
    """Whether two changes, one behind the other, give what was there before."""
    if first.type != second.type:
        return False
    names = ("in_dtype", "out_dtype") if first.type == "cast" else ("source", "target")
    a, b = ([op.attribute(n) for n in names] for op in (first, second))
    return a == b[::-1] and (first.type != "cast" or _holds(element_of(a[1]), element_of(a[0])))


def _holds(wide: Type, narrow: Type) -> bool:
    """Whether a type has every number of another one."""
    if not isinstance(wide, FloatType) or not isinstance(narrow, FloatType):
        return wide is narrow
    return wide is narrow or (wide.width > narrow.width and wide.width >= 32)
