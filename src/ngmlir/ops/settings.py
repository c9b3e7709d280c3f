# SPDX-License-Identifier: Apache-2.0
"""Settings of schedules: the knobs of a family, the values they take, and their attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ..ir.attributes import ArrayAttr, Attribute, DictAttr, IntegerAttr, StringAttr, boolean
from ..ir.types import i64
from ..support.machines import WARP

#: One setting of a knob, and some of them by name (including `by`).
Setting: TypeAlias = int | bool | str | tuple[int, ...] | tuple[str, ...]
Given: TypeAlias = Mapping[str, Setting]

#: Threads of a block, in whole warps: the most, and a usual number.
MOST_THREADS, FEW_THREADS = 1024, 128


class Knob(NamedTuple):
    """One knob: its description, how many numbers it takes (0: one, not a list), the least of them and their unit; or the
    words of which it takes any, or `yes` for true and false."""

    name: str
    doc: str
    count: int = 0
    least: int = 1
    unit: int = 1
    words: tuple[str, ...] = ()
    yes: bool = False

    @property
    def takes(self) -> str:
        """The accepted settings, in words, for messages."""
        if self.yes:
            return "true or false"
        if self.words:
            return f"a list of some of {', '.join(self.words)}"
        whole = f"{self.least} or more" + (f", in steps of {self.unit}" if self.unit > 1 else "")
        return f"a list of {self.count} numbers, each {whole}" if self.count else f"a number, {whole}"

    def accepts(self, setting: Setting) -> bool:
        """Whether a setting of this knob is valid by itself."""
        if self.yes:
            return isinstance(setting, bool)
        if self.words:
            return isinstance(setting, tuple) and all(word in self.words for word in setting)
        numbers = setting if isinstance(setting, tuple) else (setting,)
        if isinstance(setting, tuple) != bool(self.count) or len(numbers) != max(1, self.count):
            return False
        return all(
            isinstance(n, int) and not isinstance(n, bool) and n >= self.least and n % self.unit == 0
            for n in numbers
        )


def knob_field(doc: str, default: Any = dataclasses.MISSING, **details: Any) -> Any:
    """The field of a family that declares a knob."""
    return field(default=default, metadata={"knob": (doc, details)})


def threads_knob() -> Any:
    return knob_field("threads of a block that share a tile", 1)


def stages_knob() -> Any:
    return knob_field("loop iterations in flight, counting the current one; for tiles that threads share", 1)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The base of all families. `kind`: the kind of fusions of which they make kernels."""

    by: ClassVar[str]
    kind: ClassVar[str]
    #: The most elements of a tile, for up to FEW_THREADS threads: larger ones only make the code longer.
    largest: ClassVar[int] = 1 << 13

    @classmethod
    def knobs(cls) -> Mapping[str, Knob]:
        return _knobs(cls)

    @classmethod
    def open(cls, given: Given) -> set[str]:
        """The knobs that are left to choose: not given, and without a default."""
        return {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING} - given.keys()

    def conflicts(self) -> Iterator[str]:
        """Why no kernel can be built with these settings, though each is valid by itself."""
        threads = getattr(self, "threads", 1)
        if threads > 1 and (threads % WARP or threads > MOST_THREADS):
            yield f"a block has {WARP} to {MOST_THREADS} threads, in whole warps of {WARP}, not {threads}"
        if threads == 1 < getattr(self, "stages", 1):
            yield "stages need tiles that threads share (threads > 1)"
        sizes = self.tile_shape()
        for size in sizes:
            if threads > 1 and size & (size - 1):
                yield f"the size of a tile that threads share must be a power of two, not {size}"
        largest = self.largest * max(1, threads // FEW_THREADS)
        if prod(sizes) > largest:
            yield f"a tile has at most {largest} elements, not {prod(sizes)}"

    def tile_shape(self) -> tuple[int, ...]:
        """The sizes of one tile."""
        tile = getattr(self, "tile")  # noqa: B009 - each family has one
        return tile if isinstance(tile, tuple) else (tile,)

    def attribute(self) -> DictAttr:
        """The schedule as an attribute, without the knobs that have their default setting."""
        standing = {f.name: f.default for f in dataclasses.fields(self)}
        settings = {name: getattr(self, name) for name in standing}
        return to_attribute({"by": self.by, **{n: s for n, s in settings.items() if s != standing[n]}})


@cache
def _knobs(family: type[Schedule]) -> Mapping[str, Knob]:
    declared = {f.name: f.metadata["knob"] for f in dataclasses.fields(family)}
    return {name: Knob(name, doc, **details) for name, (doc, details) in declared.items()}


def to_attribute(given: Given) -> DictAttr:
    """Settings as an attribute."""
    return DictAttr(tuple([(name, setting_attribute(setting)) for name, setting in given.items()]))


def setting_attribute(setting: Setting | Attribute) -> Attribute:
    if isinstance(setting, Attribute):
        return setting
    if isinstance(setting, bool):
        return boolean(setting)
    if isinstance(setting, int):
        return IntegerAttr(setting, i64)
    return (
        StringAttr(setting) if isinstance(setting, str) else ArrayAttr(tuple(map(setting_attribute, setting)))
    )
