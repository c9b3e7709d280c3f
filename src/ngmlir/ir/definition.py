# SPDX-License-Identifier: Apache-2.0
"""The definition of an op, as a dialect file states it. The values come from `dialects/`; this module has only the classes.

An op's text, its checks and its result types all follow from this record, so no fact about an op is stated twice.
`rule` is a function of the folder that implements the op's semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..support.diagnostics import Diagnostic
from .attributes import Attribute, IntegerAttr
from .forms import Part, named, read_form
from .loops import OF_TRAIT, Loops, read_loops
from .narrow import NARROW
from .types import (
    FloatType,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
    Type,
    VectorType,
    element_type,
    i1,
    index,
    token,
)


class Typing(NamedTuple):
    """The input of a type rule. `results` are the stated types (empty while inferring); `regions` has, for each
    region, the types of its arguments and the types that it yields."""

    operands: tuple[Type, ...]
    attributes: Mapping[str, Attribute]
    results: tuple[Type, ...] = ()
    regions: tuple[tuple[tuple[Type, ...], tuple[Type, ...]], ...] = ()


#: Returns the result types; raises UserError (without a location: the caller knows it) if the op is ill-typed.
#: The rule of an op whose result type is a free choice (a reshape) checks the stated types and returns them.
Rule = Callable[[Typing], Sequence[Type]]

#: Reports errors of an attribute that any op may have, given the op's name and all of its attributes.
AttributeRule = Callable[[str, Mapping[str, Attribute]], Iterable[Diagnostic]]
#: Those of the dialects here, by the attribute's name.
ATTRIBUTE_RULES: dict[str, AttributeRule] = {}

CONTAINERS: dict[str, Callable[[Type], bool]] = {
    "tensor": lambda t: isinstance(t, TensorType),
    "vector": lambda t: isinstance(t, VectorType),
    "memref": lambda t: isinstance(t, MemRefType),
    "scalar": lambda t: isinstance(t, (FloatType, IntegerType, IndexType)),
    "tile": lambda t: isinstance(t, (VectorType, FloatType, IntegerType, IndexType)),
    "value": lambda t: isinstance(t, (TensorType, VectorType, FloatType, IntegerType, IndexType)),
    "any": lambda t: True,
}
COMPUTED_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
COMPUTED_WIDTHS = frozenset({8, 16, 32, 64})
#: Also those that are stored and cast only.
STORED_FLOATS = COMPUTED_FLOATS | NARROW.keys()
STORED_WIDTHS = frozenset({2, 4})


def _computed_integer(t: Type, signs: tuple[str, ...] = ("", "u")) -> bool:
    return isinstance(t, IntegerType) and t.width in COMPUTED_WIDTHS and t.sign in signs


def is_narrow(t: Type) -> bool:
    """Whether values of a type are only stored and cast, not computed with: floats of 8 bits and fewer, integers of 2 and 4."""
    return t.text in NARROW or (
        isinstance(t, IntegerType) and t.width in STORED_WIDTHS and t.sign in ("", "u")
    )


ELEMENTS: dict[str, Callable[[Type], bool]] = {
    "float": lambda t: t.text in COMPUTED_FLOATS,
    "integer": lambda t: _computed_integer(t) or isinstance(t, IndexType),
    "signed": lambda t: t.text in COMPUTED_FLOATS or _computed_integer(t, ("",)) or isinstance(t, IndexType),
    "bits": lambda t: t is i1 or _computed_integer(t) or isinstance(t, IndexType),
    "bool": lambda t: t is i1,
    "numeric": lambda t: t.text in COMPUTED_FLOATS or _computed_integer(t) or isinstance(t, IndexType),
    "index": lambda t: isinstance(t, IndexType),
    "token": lambda t: t.text == "!tile.token",
    "element": lambda t: (
        t is i1 or t.text in COMPUTED_FLOATS or _computed_integer(t) or isinstance(t, IndexType)
    ),
    "stored": lambda t: ELEMENTS["element"](t) or is_narrow(t),
}


#: The same in words, for messages.
CONTAINER_WORDS = {
    "tensor": "a tensor",
    "vector": "a vector",
    "memref": "a memref",
    "scalar": "a scalar",
    "tile": "a vector or scalar",
    "value": "a tensor, vector or scalar",
    "any": "a value",
}
ELEMENT_WORDS = {
    "float": "floats",
    "integer": "integers",
    "signed": "floats or integers with a sign",
    "bits": "integers or i1",
    "bool": "i1",
    "numeric": "floats or integers",
    "index": "index",
    "token": "!tile.token",
    "element": "floats, integers or i1",
    "stored": "floats, integers or i1, of any width",
}
KIND_WORDS = {
    "i64": "an i64",
    "i64s": "integers, array<i64: ...>",
    "bool": "true or false",
    "bools": "true and false, array<i1: ...>",
    "str": "a string",
    "name": "the name of a symbol, @...",
    "symbol": "a symbol, @...",
    "type": "a type",
    "unit": "there without a value",
    "axes": "axis names, #ng.axes<...>",
    "number": "a number",
    "literal": "a number or dense<...>",
    "any": "any attribute",
}


@dataclass(frozen=True)
class Constraint:
    """`tensor(float)`: what kind of type, holding what elements. `text` is its spelling in the dialect file."""

    text: str
    container: str = "any"
    element: str = ""

    def accepts(self, type: Type) -> bool:
        if not CONTAINERS[self.container](type):
            return False
        return not self.element or ELEMENTS[self.element](element_type(type))

    @property
    def words(self) -> str:
        """The accepted types in words, for messages: `a tensor of floats`."""
        container = CONTAINER_WORDS[self.container]
        if not self.element:
            return container
        element = ELEMENT_WORDS[self.element]
        alone = self.element in ("index", "token") and self.container in ("scalar", "any")
        return element if alone else f"{container} of {element}"


class Domain(NamedTuple):
    """The numbers that tests give an operand: ordinary ones in [low, high], and with `special` all special ones too. `rising`
    numbers are in ascending order, begin with `low` and end with `high`."""

    low: float = -4.0
    high: float = 4.0
    special: bool = True
    rising: bool = False


EVERYWHERE = Domain()
_NONE: Mapping[str, Attribute] = {}


@dataclass(frozen=True)
class Operand:
    """An operand or result: `variable` names a type shared with the others of the same variable.

    A `static` operand may be a number that is known: then the op has an attribute of that name in its place; the form
    may omit it where it is `default`. Of an op with several variadic operands all but one are `counted`: the
    attribute of that name is their number.
    """

    name: str
    constraint: Constraint
    variable: str = ""
    variadic: bool = False
    domain: Domain = EVERYWHERE
    static: bool = False
    default: int | None = None
    counted: str = ""

    @property
    def only_type(self) -> Type | None:
        """The type, where the constraint allows no other."""
        if self.constraint.text == "scalar(index)":
            return index
        return token if self.constraint.element == "token" else None


@dataclass(frozen=True)
class AttributeField:
    """An attribute: its kind (`i64`, `i64s`, `bool`, `str`, `name`, `symbol`, `type`, `number`, `literal`, `axes`,
    `enum(a|b)`, `bools`, `any`) and its default (None = required, written as in the dialect file)."""

    name: str
    kind: str
    default: Attribute | None = None
    optional: bool = False

    @property
    def words(self) -> str:
        """What it must be, in words, for messages."""
        if self.kind.startswith("enum("):
            *words, last = self.kind[5:-1].split("|")
            return f"{', '.join(words)} or {last}" if words else last
        return KIND_WORDS[self.kind]


@dataclass(frozen=True)
class OpDefinition:
    """The whole definition of an op."""

    name: str
    operands: tuple[Operand, ...] = ()
    results: tuple[Operand, ...] = ()
    attributes: tuple[AttributeField, ...] = ()
    regions: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    rule: Rule | None = None  # returns the result types; None = they follow from the signature
    form: tuple[str, ...] = ()  # the printed form between the op's name and its types
    loops_text: str = ""  # which loop each dimension is; "" = that of a trait, or none
    errors: tuple[tuple[str, float], ...] = ()  # by element type: the largest, in units in the last place
    points: tuple[tuple[tuple[float, ...], float], ...] = ()  # operands and the required result
    doc: str = ""
    given: str = ""  # the operands of the example, with their types, where it does not show them
    example: str = ""

    @property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    @cached_property
    def form_is_operands(self) -> bool:
        """Whether the form is the operands in order, separated by commas."""
        names = [f"${o.name}" for o in self.operands]
        return [p for p in self.form if p != ","] == names

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The form, parsed."""
        return read_form(self.form)

    @cached_property
    def loops(self) -> Loops | None:
        """The loops of the dimensions of operands and results; None if no line states them."""
        text = self.loops_text or next((OF_TRAIT[t] for t in OF_TRAIT if t in self.traits), "")
        return read_loops(text) if text else None

    @cached_property
    def states_types(self) -> bool:
        """Whether the form states types itself (and the place of its dictionary), instead of a clause at the end with all types."""
        return any(part.kind == "dictionary" for part in self.parts)

    @cached_property
    def shown(self) -> frozenset[str]:
        """The attributes that the form shows outside the dictionary."""
        counts = {o.counted for o in self.operands if o.counted}
        return frozenset({part.text for part in named(self.parts) if part.kind == "value"} | counts)

    @cached_property
    def arguments(self) -> tuple[Part, ...]:
        """The parts of the form that name the arguments of the regions, in order."""
        return tuple(part for part in named(self.parts) if part.kind == "arguments")

    @cached_property
    def _simple(self) -> bool:
        return not any(o.static or o.counted for o in self.operands)

    def operand(self, name: str) -> Operand | None:
        return next((o for o in self.operands if o.name == name), None)

    def attribute_field(self, name: str) -> AttributeField | None:
        for item in self.attributes:
            if item.name == name:
                return item
        return None

    def operand_groups(
        self, count: int, attributes: Mapping[str, Attribute] = _NONE
    ) -> list[tuple[Operand, int, int]] | None:
        """Each operand with the range [start, stop) of actual operands it takes; None if `count` does not fit.

        A single variadic operand takes the rest; of several, the attributes state how many the others take.
        """
        if self._simple:
            widths = [int(not o.variadic) for o in self.operands]
        else:
            widths = [_width(o, attributes) for o in self.operands]
        spare = count - sum(widths)
        free = next((i for i, o in enumerate(self.operands) if o.variadic and not o.counted), None)
        if spare < 0 or min(widths, default=0) < 0 or (spare and free is None):
            return None
        if free is not None:
            widths[free] = spare
        groups: list[tuple[Operand, int, int]] = []
        at = 0
        for operand, width in zip(self.operands, widths, strict=True):
            groups.append((operand, at, at + width))
            at += width
        return groups

    def infer(self, typing: Typing) -> Sequence[Type]:
        """Result types from operands, attributes and regions; UserError if the op is ill-typed.

        If the result types of an op do not follow from these, they must be stated in `typing.results`.
        """
        if self.rule is not None:
            return self.rule(typing)
        groups = self.operand_groups(len(typing.operands)) or []
        bound = {
            o.variable: typing.operands[start] for o, start, stop in groups if o.variable and stop > start
        }
        out = [bound[r.variable] for r in self.results if r.variable in bound]
        return out if len(out) == len(self.results) else typing.results


def _width(operand: Operand, attributes: Mapping[str, Attribute]) -> int:
    """How many operands it takes; not for a variadic one that takes the rest."""
    if operand.static:
        return int(operand.name not in attributes)
    if not operand.variadic:
        return 1
    count = attributes.get(operand.counted) if operand.counted else None
    return count.value if isinstance(count, IntegerAttr) else 0
