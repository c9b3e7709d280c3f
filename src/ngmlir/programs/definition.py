# SPDX-License-Identifier: Apache-2.0
"""An operator: its entry, and the function that builds it of `ng` ops. Types and gradients follow from both.

The function takes the variables of the input slots by position, in the order of the entry (a list for a list slot, None for an
optional one that is empty), and attributes by name. It gives the outputs in the order of the entry. A function with a
parameter `context` is also given what it is built in.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from ..decl.operator_text import OperatorEntry, Slot
from ..ir.types import FloatType
from ..op_graph.deriv import Adjoints
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..op_graph.verbs import cast as cast_elements
from ..op_graph.writes import ReadOp
from ..support.diagnostics import UserError
from .descriptions import Operator
from .names import GRADIENT
from .sparse_rows import all_dense, dense, has_rows

T = TypeVar("T")
#: Of each slot its values; an optional one may be left out.
Values: TypeAlias = Mapping[str, Sequence[Any]]
#: Of each slot the names of its variables.
Names: TypeAlias = Mapping[str, Sequence[str]]


#: The offsets of a ragged value, i32, one tensor a level, the outermost first. A level has one offset more than sequences; each
#: level cuts the sequences of the next one, the last level cuts rows. Values of one raggedness have the same tensors.
Levels: TypeAlias = tuple[Tensor, ...]


class Context(Protocol):
    """What a function that builds an operator may ask of the program that it is built in."""

    def random_key(self, seed: int) -> Tensor:
        """Two ui64 for a random op: the same at each run where `seed` is not 0, fresh ones where it is."""
        ...

    def levels(self, slot: str, at: int = 0) -> Levels:
        """The raggedness of an input, the one at a place of its slot; no levels where it is not ragged."""
        ...

    def give_levels(self, slot: str, levels: Levels, at: int = 0) -> None:
        """States the raggedness of an output, where it is not that of the first ragged input that has as many rows."""
        ...

    @property
    def is_trial(self) -> bool:
        """Whether only types are asked for: lengths that are not known are made up."""
        ...

    def size(self, count: Tensor, most: Callable[[], int] | None = None) -> int:
        """A length that depends on values: what `count`, one integer, is in the run that is compiled for. Where `most` is given, whose
        result it never exceeds, it may be that: what is behind `count` is not used then."""
        ...

    def lengths(self, key: object, counts: Sequence[Tensor]) -> Sequence[int]:
        """Lengths that depend on values, which are found out together; those that were found for an equal key before."""
        ...

    def longest(self, offsets: Tensor) -> int:
        """The greatest length of sequences in the run that is compiled for; 0 where there are none."""
        ...

    def require(self, holds: Tensor, message: str, hint: str = "") -> None:
        """States that bools hold. Where one does not, a run is refused before it begins, with a UserError of this message. Values that
        an iteration of a loop computes are not looked at."""
        ...

    def agree(self, offsets: Tensor, others: Tensor) -> None:
        """States that two levels must be equal: where both are fed, a run with others is refused."""
        ...

    def outputs(self, entry: OperatorEntry) -> Names:
        """The variables that the operator of this entry gives: what is built is the operator, or a gradient of it, which takes some."""
        ...

    def shared(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives; what it gave for an equal key before, in the same block."""
        ...


@dataclass(frozen=True)
class Built:
    """An operator that was built: reads of its inputs, each a separate value at which a gradient can end, and its results by slot."""

    reads: Values
    outputs: Values


@dataclass(frozen=True)
class GradientOp:
    """One operator of a gradient, as a maker describes it: slots hold names of variables."""

    type: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def require_integers(given: Tensor, slot: str, things: str, hint: str = "") -> None:
    """UserError where what an input holds is no number of a row or class."""
    if isinstance(given.element, FloatType):
        message = f"{slot} chooses each {things} by its number, an integer, and holds {given.element} here"
        hint = (
            hint
            or 'layers.cast(x, "int64") makes integers; layers.data(name, shape, dtype="int64") is fed them'
        )
        raise UserError(message, hint=hint)


#: Given an operator, the operators that compute the gradients of its inputs from those of its outputs.
GradientMaker: TypeAlias = Callable[[Operator], Sequence[GradientOp]]


@dataclass
class Definition:
    """An operator: its entry, what builds it, and what makes its gradient where that is not `<type>_grad`."""

    entry: OperatorEntry
    build: Callable[..., Any] | None
    maker: GradientMaker | None = None
    #: Whether `build` only says the types of what the operator gives: kernels compute it.
    is_shape_only: bool = False
    #: What builds it where some of its inputs are sparse rows.
    on_rows: Callable[..., Any] | None = None

    @property
    def type(self) -> str:
        return self.entry.type

    @property
    def has_gradient(self) -> bool:
        return self.entry.gradient != ()

    @property
    def needs_kernel(self) -> bool:
        """Whether only kernels compute it."""
        return self.is_shape_only

    @property
    def has_value(self) -> bool:
        """Whether a function of tensors computes it."""
        return self.build is not None

    @property
    def is_builtin(self) -> bool:
        """Whether the operator is one of ngmlir: its version says what it computes."""
        return self.build is None or self.build.__module__.startswith("ngmlir.")

    @cached_property
    def takes_context(self) -> bool:
        """Whether it is more than a function of tensors: it draws random numbers."""
        return self.build is not None and "context" in inspect.signature(self.build).parameters

    @cached_property
    def _parameters(self) -> dict[str, str]:
        """Attribute -> the parameter that takes it."""
        return {a.name: python_name(a.name) for a in self.entry.attributes if a.type != "block"}

    def named(self, context: Context, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes as the function takes them, and the context where it does."""
        named = {parameter: attributes[name] for name, parameter in self._parameters.items()}
        return {**named, "context": context} if self.takes_context else named

    def values(self, context: Context, inputs: Values, attributes: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Builds the operator: the values of its output slots. UserError for one that only what runs a program carries out."""
        if self.build is None:
            raise UserError(
                f"operator {self.type} has no value of its own: what runs a program carries it out"
            )
        self._check_numbers(inputs, attributes)
        made: Any = NotImplemented
        if self.on_rows is not None and has_rows(inputs):
            made = self.on_rows(*self._given(inputs), **self.named(context, attributes))
        if made is NotImplemented:
            made = self.build(*self._given(all_dense(inputs)), **self.named(context, attributes))
        results: Sequence[Any] = cast("Sequence[Any]", made) if isinstance(made, tuple) else [made]
        return {
            slot.name: list(result) if slot.many else [result]
            for slot, result in zip(self.entry.outputs, results, strict=True)
        }

    def _check_numbers(self, inputs: Values, attributes: Mapping[str, Any]) -> None:
        """UserError where an input that chooses rows or classes by their numbers holds no integers."""
        numbers = self.entry.numbers
        if numbers is None or attributes.get(numbers.unless):
            return
        hint = f"with {numbers.unless}=True it holds no numbers" if numbers.unless else ""
        for given in inputs.get(numbers.slot, ()):
            require_integers(dense(given), numbers.slot, numbers.things, hint)

    @cached_property
    def draws(self) -> bool:
        """Whether it may draw random numbers, so that another operator with the same inputs gives other results."""
        return any(attribute.name == "seed" for attribute in self.entry.attributes)

    def built(self, context: Context, inputs: Values, attributes: Mapping[str, Any]) -> Built:
        """The operator, built of reads of its inputs; as it was built before, where it is more than a function of tensors. An operator that
        draws random numbers is built for itself, and for its gradient."""

        def make() -> Built:
            reads = {slot: [None if v is None else ReadOp(v) for v in each] for slot, each in inputs.items()}
            return Built(reads, self.values(context, reads, attributes))

        if not self.takes_context:
            return make()
        slots = {s: tuple(each) for s, each in sorted(inputs.items()) if any(v is not None for v in each)}
        levels = [context.levels(slot, at) for slot, each in slots.items() for at in range(len(each))]
        settings = [(a.name, repr(attributes.get(a.name))) for a in self.entry.attributes]
        key = self.type, *slots.items(), *levels, *settings
        if not self.draws:
            return context.shared(key, make)
        known: list[tuple[Names, Built]] = context.shared(key, list)
        names = context.outputs(self.entry)
        for others, built in known:
            if all(others.get(slot) == each for slot, each in names.items()):
                return built
        known.append((names, make()))
        return known[-1][1]

    def _given(self, inputs: Values) -> list[Any]:
        return [_argument(slot, inputs.get(slot.name, ())) for slot in self.entry.inputs]


@dataclass
class GradientDefinition(Definition):
    """`<type>_grad`: the derivative of what builds the operator `forward`, or what `build` gives.

    `build` takes three mappings from slots to lists, the inputs, the outputs and the gradients of these (None for one that is
    missing), and attributes by name; it gives the gradients of inputs by slot.
    """

    forward: Definition | None = None

    @property
    def has_value(self) -> bool:
        assert self.forward is not None
        return super().has_value or self.forward.has_value

    @property
    def needs_kernel(self) -> bool:
        """Whether only kernels compute it."""
        return self.is_shape_only

    @property
    def is_builtin(self) -> bool:
        assert self.forward is not None
        return super().is_builtin and self.forward.is_builtin

    def values(self, context: Context, inputs: Values, attributes: Mapping[str, Any]) -> dict[str, list[Any]]:
        forward = self.forward
        assert forward is not None
        inputs = all_dense(inputs)
        taken = {s.name: list(inputs.get(s.name, ())) for s in forward.entry.inputs}
        errors = {s.name: list(inputs.get(s.name + GRADIENT, ())) for s in forward.entry.outputs}
        if self.build is not None:
            given = {s.name: list(inputs.get(s.name, ())) for s in forward.entry.outputs}
            made = self.build(taken, given, errors, **self.named(context, attributes))
            return {slot + GRADIENT: list(values) for slot, values in made.items()}
        return _derivative(forward, context, taken, errors, attributes, [s.name for s in self.entry.outputs])


def _derivative(
    forward: Definition,
    context: Context,
    inputs: Values,
    errors: Values,
    attributes: Mapping[str, Any],
    wanted: Sequence[str],
) -> dict[str, list[Any]]:
    """The gradients of the inputs. An operator that is a function of tensors alone is built once more, since equal ops of a program
    become one; loops do not, so others are differentiated as they were built."""
    built = forward.built(context, inputs, attributes)
    reads, outputs = built.reads, built.outputs
    dependents: list[tuple[Tensor, Tensor]] = []
    for slot, values in errors.items():
        for output, error in zip(outputs[slot], values, strict=False):
            if error is not None and isinstance(dense(output).element, FloatType):
                dependents.append((dense(output), cast_elements(error, dense(output).element)))
    stops = {read for each in reads.values() for read in each if read is not None}
    sums = Adjoints(dependents, stops).sums
    return {
        slot + GRADIENT: [None if read is None else _gradient(read, sums.get(read)) for read in each]
        for slot, each in reads.items()
        if slot + GRADIENT in wanted
    }


def _gradient(read: Tensor, found: Tensor | None) -> Tensor | None:
    if not isinstance(read.element, FloatType):
        return None
    return VERBS.number_like(0, read) if found is None else cast_elements(found, read.element)


def _argument(slot: Slot, values: Sequence[Any]) -> Any:
    if slot.many:
        return list(values)
    return values[0] if values else None


def python_name(name: str) -> str:
    """The parameter that takes an attribute: `lambda` -> `lambda_`."""
    return name + "_" if keyword.iskeyword(name) else name


def gradient_entry(forward: OperatorEntry) -> OperatorEntry:
    """The entry of `<type>_grad`: it takes what the operator takes and gives, and the gradients of what it gives."""
    wanted = forward.gradient
    given = [s for s in forward.outputs if not s.intermediate]
    return OperatorEntry(
        f"{forward.type}_grad",
        forward.location,
        [
            *forward.inputs,
            *[Slot(s.name, s.doc, s.many, True) for s in forward.outputs],
            *[Slot(s.name + GRADIENT, f"The gradient of {s.name}.", s.many, True) for s in given],
        ],
        [
            Slot(s.name + GRADIENT, f"The gradient of {s.name}.", s.many, True)
            for s in forward.inputs
            if wanted is None or s.name in wanted
        ],
        list(forward.attributes),
        None,
        f"The gradient of {forward.type}.",
    )
