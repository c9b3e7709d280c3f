# SPDX-License-Identifier: Apache-2.0
"""The output of code generation, and how an entry function describes its buffers.

An entry function of a planned module takes its arguments, then the buffers of the results that are not tied to an
argument, then the constants, the prepared buffers, in a checked program the buffer of the checks, then the arena:

    func.func @main(%x, %out, %constant, %arena) attributes {ng.arguments = 1 : i64, ng.results = 2 : i64,
        ng.tied = array<i64: 0, 0>, ng.constants = [dense<...> : tensor<8xf32>]}

The prepared buffers are the results of the functions that `ng.prepared` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..ir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr, StringAttr
from ..ir.core import Module, Op, Value, callee
from ..ir.elements import ElementsAttr
from ..ir.lengths import lengths_of
from ..ir.literals import item_bytes
from ..ir.types import IndexType, ShapedType, i64
from ..ops import tile
from ..ops.fields import find_symbols, get_str
from ..ops.tied import tied_pairs
from ..support.artifact import Artifact, Check, Constant, Entry, Place
from ..support.diagnostics import UserError
from ..support.signature import Parameter, Signature
from ..support.target import Target


@dataclass(frozen=True)
class Piece:
    """LLVM IR that is compiled separately, and emitted on demand.

    `key` is everything it depends on besides the target, or None if it is of use to this program only; `size` is the
    number of ops that it comes from.
    """

    name: str
    key: str | None
    text: Callable[[], str]
    size: int


@dataclass(frozen=True, kw_only=True)
class Outside:
    """The description of a program besides its code, for an `Artifact`."""

    entries: tuple[Entry, ...]
    constants: tuple[Constant, ...]
    checks: tuple[Check, ...]
    prepared: tuple[Entry, ...]
    spent: tuple[int, ...]

    def artifact(
        self, kind: Literal["object", "ptx"], code: bytes, target: Target, kernels: Sequence[bytes] = ()
    ) -> Artifact:
        """The artifact: this description with the code."""
        return Artifact(
            kind,
            code,
            self.entries,
            target.key,
            self.constants,
            self.checks,
            tuple(kernels),
            self.prepared,
            self.spent,
        )


@dataclass(frozen=True, kw_only=True)
class Unit(Outside):
    """LLVM IR of one module."""

    llvm: str


@dataclass(frozen=True, kw_only=True)
class Parts(Outside):
    """A unit in separate parts that are linked together: one for each kernel, and the last one for the entries."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Interface:
    """The interface of an entry function: its signature, and the place of each of its buffers."""

    function: Op
    signature: Signature
    places: dict[Value, Place]
    alignments: dict[Value, int]  # of the constants and prepared buffers
    once: bool  # whether it is called once, when the program is loaded

    @property
    def constants(self) -> tuple[int, ...]:
        """The numbers of the constants that it reads."""
        return tuple(place.index for place in self.places.values() if place.space == "constant")


@dataclass
class Constants:
    """The constants of a program, without duplicates."""

    numbers: dict[ElementsAttr, int] = field(default_factory=dict[ElementsAttr, int])

    def number(self, literal: ElementsAttr) -> int:
        """The index of a constant in the table."""
        return self.numbers.setdefault(literal, len(self.numbers))

    def table(self) -> tuple[Constant, ...]:
        return tuple(Constant(c.data, c.type.size if c.splat else 1, alignment_of(c)) for c in self.numbers)


def alignment_of(literal: ElementsAttr) -> int:
    """The alignment of a constant in bytes. A large one is not copied from where its maker put it, so only that of its
    elements is promised."""
    return item_bytes(literal.type.element) if literal.opaque else 64


def described(
    module: Module, interfaces: Sequence[Interface], entries: Sequence[Entry], constants: Constants
) -> dict[str, Any]:
    """The fields of `Outside` for a module whose functions with these interfaces became these entries."""
    pairs = list(zip(interfaces, entries, strict=True))
    table = constants.table()
    read = {number for each in interfaces if not each.once for number in each.constants}
    return {
        "entries": tuple([entry for each, entry in pairs if not each.once]),
        "constants": table,
        "checks": checks(module),
        "prepared": tuple([replace(entry, reads=each.constants) for each, entry in pairs if each.once]),
        "spent": tuple([i for i in range(len(table)) if i not in read]),
    }


def interfaces(module: Module) -> tuple[list[Interface], Constants]:
    """The functions of a planned module that have a body. UserError if there are none, or one is not planned."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    constants = Constants()
    for function in functions:
        if "ng.arguments" not in function.attributes:
            raise UserError(
                f"@{function.symbol} has no memory plan", function.location, hint="run plan-memory first"
            )
    if not functions:
        raise UserError("the module has no function to call", module.location, hint="define func.func @main")
    slots: dict[str, range] = {}
    for name in dict.fromkeys(name for f in functions for name in find_symbols(f, "ng.prepared")):
        maker, first = module.lookup(name), sum(map(len, slots.values()))
        assert maker is not None
        slots[name] = range(first, first + _count(maker, "ng.results"))
    # In the order of their slots.
    functions.sort(key=lambda f: list(slots).index(f.symbol) if f.symbol in slots else -1)
    return [_interface(module, function, constants, slots) for function in functions], constants


def checks(module: Module) -> tuple[Check, ...]:
    """The checks of a checked module, by number."""
    found: dict[int, Check] = {}
    for top in module.ops:
        for op in top.walk():
            match op.attributes.get("ng.check"):
                case ArrayAttr(
                    items=(IntegerAttr() as number, StringAttr() as before, StringAttr() as after)
                ):
                    found[number.value] = Check(before.value, after.value, op.location)
                case _:
                    pass
    return tuple(found[number] for number in sorted(found))


def _interface(module: Module, function: Op, constants: Constants, slots: Mapping[str, range]) -> Interface:
    """Reads the attributes of an entry function that plan-memory has set."""
    *buffers, arena = function.block.args
    arguments = buffers[: _count(function, "ng.arguments")]
    tied = tied_pairs(function)
    places = {value: Place("argument", i) for i, value in enumerate(arguments)}
    places[arena] = Place("arena")
    results: list[Value] = []
    rest = iter(buffers[len(arguments) :])
    for i in range(_count(function, "ng.results")):
        if i in tied:
            results.append(arguments[tied[i]])
        else:
            results.append(next(rest))
            places[results[-1]] = Place("result", i)
    alignments: dict[Value, int] = {}
    for literal in _literals(function):
        value = next(rest)
        places[value] = Place("constant", constants.number(literal))
        alignments[value] = alignment_of(literal)
    for name in find_symbols(function, "ng.prepared"):
        for slot in slots[name]:
            value = next(rest)
            places[value] = Place("prepared", slot)
            alignments[value] = 64
    places |= {value: Place("checks") for value in rest}
    signature = Signature(
        name=function.symbol,
        arguments=tuple(_parameter(value, function) for value in arguments),
        results=tuple(_parameter(value, function) for value in results),
        tied=tuple(sorted(tied.items())),
        arena_bytes=_shaped(arena).size,
        lengths=_lengths(module, function),
        arena=_parts_of_arena(function),
    )
    once = function.symbol in slots and get_str(function, "sym_visibility") == "private"
    return Interface(function, signature, places, alignments, once)


def _lengths(module: Module, function: Op) -> tuple[str, ...]:
    """The lengths of a function, and those that only a kernel reads, such as one whose number it writes."""
    found = {*lengths_of(function)}
    launched = {callee(op) for op in function.walk() if isinstance(op, tile.LaunchOp)}
    for kernel in module.ops:
        if "sym_name" in kernel.attributes and kernel.symbol in launched:
            found.update(lengths_of(kernel))
    return tuple(sorted(found))


def _literals(function: Op) -> Sequence[ElementsAttr]:
    given = function.attributes.get("ng.constants")
    items = given.items if isinstance(given, ArrayAttr) else ()
    return [literal for literal in items if isinstance(literal, ElementsAttr)]


def _count(function: Op, name: str) -> int:
    attribute = function.attributes.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else 0


def _parts_of_arena(function: Op) -> tuple[tuple[int, int, int], ...]:
    attribute = function.attributes.get("ng.arena")
    if not isinstance(attribute, DenseArrayAttr):
        return ()
    values = attribute.values
    return tuple(zip(values[::3], values[1::3], values[2::3], strict=True))


def _shaped(value: Value) -> ShapedType:
    assert isinstance(value.type, ShapedType)
    return value.type


def _parameter(value: Value, function: Op) -> Parameter:
    type = _shaped(value)
    element = i64 if isinstance(type.element, IndexType) else type.element  # as wide as an address
    return Parameter(value.name, str(element), type.shape, function.location)
