# SPDX-License-Identifier: Apache-2.0
"""What the names in a text stand for: values and blocks by region, and values that are used before they are defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..support.spelling import Hints
from .core import Block, Op, Value
from .types import Type


class Complain(Protocol):
    """Notes an error at an offset of the text; reading goes on."""

    def __call__(self, message: str, start: int, hint: str = "") -> None: ...


class _Scope:
    """Names visible in a region. `lost` are those that text which could not be read may define."""

    __slots__ = ("blocks", "isolated", "lost", "values")

    def __init__(self, isolated: bool):
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, tuple[Block, int]] = {}
        self.lost: set[str] = set()
        self.isolated = isolated


class _Later:
    """Values that an isolated region uses before it defines them."""

    __slots__ = ("defined", "users", "values")

    def __init__(self) -> None:
        self.values: dict[str, tuple[Value, int]] = {}
        self.defined: dict[Value, Value] = {}
        self.users: list[Op] = []

    def settle(self) -> None:
        """Gives the users the values in place of those that stood for them: once per op, however many there are."""
        of = self.defined.get
        for op in self.users:
            op.operands = tuple([of(o, o) for o in op.operands])


class Scopes:
    """Regions from the outermost to the one that is being read."""

    def __init__(self, complain: Complain, hints: Hints):
        self.complain = complain
        self.hints = hints
        self.scopes: list[_Scope] = [_Scope(True)]
        self.later: list[_Later] = [_Later()]
        self.used_early = False

    # -- regions -----------------------------------------------------------------------------------------

    def enter(self, isolated: bool) -> None:
        self.scopes.append(_Scope(isolated))
        if isolated:
            self.later.append(_Later())

    def leave(self, *, complete: bool = True) -> None:
        """Complains about what was used but not defined, unless part of the text could not be read."""
        scope = self.scopes[-1]
        if complete:
            for label, (block, start) in scope.blocks.items():
                if block.label != "defined":
                    defined = (name for name, (b, _) in scope.blocks.items() if b.label == "defined")
                    hint = self.hints.did_you_mean(label, defined)
                    self.complain(f"block {label} is used but not defined in this region", start, hint)
        if scope.isolated:
            later = self.later.pop()
            later.settle()
            if complete:
                for name, (_, start) in later.values.items():
                    if name not in scope.lost:
                        self.complain(f"value {name} is not defined", start, self.closest(name))
        self.scopes.pop()

    def unwind(self, depth: int) -> None:
        """Forgets the regions that an error left open."""
        while len(self.scopes) > depth:
            self.leave(complete=False)
        self.used_early = False

    # -- values ------------------------------------------------------------------------------------------

    def define(self, name: str, value: Value, start: int) -> None:
        if self.visible(name) is not None:
            self.complain(f"value {name} is defined twice", start)
            return
        self.scopes[-1].values[name] = value
        later = self.later[-1]
        early = later.values.pop(name, None) if later.values else None
        if early is None:
            return
        if early[0].type is not value.type:
            self.complain(f"value {name} is {value.type} here but was used as {early[0].type}", start)
        later.defined[early[0]] = value

    def visible(self, name: str) -> Value | None:
        for scope in self.enclosing():
            found = scope.values.get(name)
            if found is not None:
                return found
        return None

    def enclosing(self) -> Iterator[_Scope]:
        """The regions whose values are visible here, inside out."""
        for scope in reversed(self.scopes):
            yield scope
            if scope.isolated:
                return

    def use(self, names: Sequence[tuple[str, int]], types: Sequence[Type]) -> list[Value]:
        """The values called so (name and place), of these types; unknown ones may be defined later."""
        inner = self.scopes[-1].values.get
        out: list[Value] = []
        for (name, start), type in zip(names, types, strict=True):
            value = inner(name) or self.visible(name) or self.early(name, start, type)
            if value.type is not type:
                self.complain(f"value {name} is {value.type}, but {type} is stated here", start)
            out.append(value)
        return out

    def early(self, name: str, start: int, type: Type) -> Value:
        """What stands for a value until its definition comes."""
        if self.is_lost(name):
            return Value(type, None, 0, name[1:])
        values = self.later[-1].values
        if name not in values:
            values[name] = (Value(type, None, 0, name[1:]), start)
        self.used_early = True
        return values[name][0]

    def is_lost(self, name: str) -> bool:
        """Whether text that could not be read may define it."""
        return any(name in scope.lost for scope in self.enclosing())

    def made(self, op: Op) -> None:
        """Tells that `op` holds the values that were asked for last."""
        if self.used_early:
            self.later[-1].users.append(op)
            self.used_early = False

    def lose(self, names: Iterable[str]) -> None:
        """Text that names these could not be read: nothing is said about what it may have defined."""
        self.scopes[-1].lost.update(names)

    # -- blocks ------------------------------------------------------------------------------------------

    def block(self, label: str, start: int) -> Block:
        blocks = self.scopes[-1].blocks
        if label not in blocks:
            blocks[label] = (Block(), start)
        return blocks[label][0]

    # -- hints -------------------------------------------------------------------------------------------

    def closest(self, name: str) -> str:
        """A hint with the visible name that looks most like this one, the last ones first."""
        return self.hints.did_you_mean(name, (n for s in self.enclosing() for n in reversed(s.values)))
