# SPDX-License-Identifier: Apache-2.0
"""Symbol tables of the parser: values and blocks by region, and values that are used before their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..support.spelling import Hints
from .core import Block, Op, Value
from .types import TensorType, Type


class Complain(Protocol):
    """Records an error at an offset of the text, and a message for another place; parsing continues."""

    def __call__(
        self, message: str, start: int, hint: str = "", note: tuple[str, int] | None = None
    ) -> None: ...


def _made_from(name: str, has: Type, wanted: Type) -> str:
    """A hint with the op that converts a tensor to the stated type, if one op does."""
    if not (isinstance(has, TensorType) and isinstance(wanted, TensorType)):
        return ""
    if has.shape == wanted.shape and has.element is not wanted.element:
        return f"%cast = ng.cast {name} : ({has}) -> {wanted}"
    if has.element is wanted.element and not has.shape and wanted.shape:
        return f"%wide = ng.broadcast {name} dims [] : ({has}) -> {wanted}"
    return ""


class _Scope:
    """Names visible in a region, and where they are defined. `lost` are names that a text with errors may have defined."""

    __slots__ = ("blocks", "isolated", "lost", "starts", "values")

    def __init__(self, isolated: bool):
        self.values: dict[str, Value] = {}
        self.starts: dict[str, int] = {}
        self.blocks: dict[str, tuple[Block, int]] = {}
        self.lost: set[str] = set()
        self.isolated = isolated


class _Later:
    """Values that an isolated region uses before their definitions."""

    __slots__ = ("defined", "users", "values")

    def __init__(self) -> None:
        self.values: dict[str, tuple[Value, int]] = {}
        self.defined: dict[Value, Value] = {}
        self.users: list[Op] = []

    def settle(self) -> None:
        """Replaces placeholders by the values in all users: once per op, however many there are."""
        of = self.defined.get
        for op in self.users:
            op.operands = tuple([of(o, o) for o in op.operands])


class Scopes:
    """Regions from the outermost to the current one."""

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
        """Reports names that were used but not defined, unless part of the text could not be parsed."""
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
        """Drops the regions that an error left open."""
        while len(self.scopes) > depth:
            self.leave(complete=False)
        self.used_early = False

    # -- values ------------------------------------------------------------------------------------------

    def define(self, name: str, value: Value, start: int) -> None:
        if self.visible(name) is not None:
            self.complain(f"value {name} is defined twice", start, note=self.earlier(name))
            return
        scope = self.scopes[-1]
        scope.values[name] = value
        scope.starts[name] = start
        later = self.later[-1]
        early = later.values.pop(name, None) if later.values else None
        if early is None:
            return
        if early[0].type is not value.type:
            message = f"value {name} is {value.type} here but was used as {early[0].type}"
            self.complain(message, start, note=("previously used here", early[1]))
        later.defined[early[0]] = value

    def visible(self, name: str) -> Value | None:
        for scope in self.enclosing():
            found = scope.values.get(name)
            if found is not None:
                return found
        return None

    def earlier(self, name: str) -> tuple[str, int] | None:
        """A note with the place where a visible value is defined, or used first if its definition comes later."""
        starts = (scope.starts[name] for scope in self.enclosing() if name in scope.starts)
        if (start := next(starts, None)) is not None:
            return "previously defined here", start
        used = self.later[-1].values.get(name)
        return None if used is None else ("previously used here", used[1])

    def enclosing(self) -> Iterator[_Scope]:
        """The regions whose values are visible here, innermost first."""
        for scope in reversed(self.scopes):
            yield scope
            if scope.isolated:
                return

    def use(self, names: Sequence[tuple[str, int]], types: Sequence[Type]) -> list[Value]:
        """The values of these names (with offsets) and types; unknown ones may be defined later."""
        inner = self.scopes[-1].values.get
        out: list[Value] = []
        for (name, start), type in zip(names, types, strict=True):
            value = inner(name) or self.visible(name) or self.early(name, start, type)
            if value.type is not type:
                note = self.earlier(name)
                problem = f"value {name} is {value.type}, but {type} is stated here"
                self.complain(problem, start, _made_from(name, value.type, type), note)
            out.append(value)
        return out

    def early(self, name: str, start: int, type: Type) -> Value:
        """The placeholder of a value until its definition."""
        if self.is_lost(name):
            return Value(type, None, 0, name[1:])
        values = self.later[-1].values
        if name not in values:
            values[name] = (Value(type, None, 0, name[1:]), start)
        self.used_early = True
        return values[name][0]

    def is_lost(self, name: str) -> bool:
        """Whether a text with errors may have defined it."""
        return any(name in scope.lost for scope in self.enclosing())

    def made(self, op: Op) -> None:
        """Records `op` as the user of the values of the last `use`."""
        if self.used_early:
            self.later[-1].users.append(op)
            self.used_early = False

    def lose(self, names: Iterable[str]) -> None:
        """A text with these names could not be parsed: no errors are reported about names that it may have defined."""
        self.scopes[-1].lost.update(names)

    # -- blocks ------------------------------------------------------------------------------------------

    def block(self, label: str, start: int) -> Block:
        """The block of a label, which may come later in the text."""
        blocks = self.scopes[-1].blocks
        if label not in blocks:
            blocks[label] = (Block(), start)
        return blocks[label][0]

    def define_block(self, label: str, start: int) -> Block:
        """The block that begins here; a new one, and an error, if a block with that label exists."""
        starts, block = self.scopes[-1].starts, self.block(label, start)
        if label in starts:
            note = ("previously defined here", starts[label])
            self.complain(f"block {label} is defined twice", start, note=note)
            return Block()
        starts[label] = start
        return block

    # -- hints -------------------------------------------------------------------------------------------

    def closest(self, name: str) -> str:
        """A hint with the visible name that is most similar, later ones first."""
        return self.hints.did_you_mean(name, (n for s in self.enclosing() for n in reversed(s.values)))
