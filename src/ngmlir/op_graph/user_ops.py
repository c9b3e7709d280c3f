# SPDX-License-Identifier: Apache-2.0
"""Ops that a user defines: a composition of other ops, a function of NumPy arrays, or a kernel, with derivatives that the user may define."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper, wraps
from typing import Any, NoReturn, TypeVar, cast

from ..ir.types import Type
from ..support.diagnostics import Location
from ..support.registrations import Origin, Registrations
from ..support.spelling import counted
from .axes import Axes
from .calls import mismatch
from .errors import NotDifferentiable, UserError, fail
from .node import Op
from .nodes import DebugInfo
from .schemas import Schema
from .stating import AliasOp, stating_as
from .tensor import Tensor
from .values import as_op
from .verbs import VERBS

G = TypeVar("G", bound=Callable[..., Any])


class Call:
    """The arguments of a call, of which the tensors may be others another time; lists and dictionaries are looked into."""

    def __init__(self, args: Sequence[Any], named: Mapping[str, Any]):
        self.args, self.named = tuple(args), dict(named)
        self.tensors: list[Tensor] = []
        self._map((self.args, self.named), self._collect)

    def _collect(self, value: Tensor) -> Tensor:
        self.tensors.append(value)
        return value

    def filled(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these in the place of the tensors."""
        given = iter(tensors)
        return self._map((self.args, self.named), lambda _: next(given))

    def _map(self, value: Any, change: Callable[[Tensor], Any]) -> Any:
        if isinstance(value, Tensor):
            return change(value)
        if isinstance(value, (list, tuple)):
            made = [self._map(item, change) for item in cast("Sequence[Any]", value)]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, dict):
            return {k: self._map(v, change) for k, v in cast("dict[Any, Any]", value).items()}
        return value


class UserDerivative(Schema):
    """A tensor is what an op of a user's gives for `operands`."""

    def __init__(self, definition: Definition, call: Call, operands: Sequence[Tensor]):
        self.definition = definition
        self.call = call
        self.operands = tuple(operands)

    @property
    def is_derivative(self) -> bool:
        return self.definition.gradient_function is not None

    def gradient(self, op: Tensor, delta: Tensor) -> Any:
        """What the user's own function gives."""
        args, named = self.call.filled(self.operands)
        function = self.definition.gradient_function
        assert function is not None
        if wrong := mismatch(function, (delta, op, *args), named):
            words = ", ".join(
                ["delta", "y", *(f"x{i}" if len(args) > 1 else "x" for i in range(len(args))), *named]
            )
            fail(
                UserError,
                f"the gradient of {self.definition.name} cannot be called: {wrong}",
                f"its arguments are the gradient of the result, the result, and the op's arguments: def gradient({words})",
            )
        return function(delta, op, *args, **named)


class Definition(DebugInfo):
    """A function that makes one op. `@f.gradient` states the op's derivative."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        name = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self.name = name if name.isidentifier() else "function"
        self.gradient_function: Callable[..., Any] | None = None
        if hasattr(function, "__code__"):
            code = function.__code__
            self.location = Location(code.co_filename, code.co_firstlineno, 1)
        update_wrapper(self, function, updated=())
        self._stated = stating_as(self.apply, function)

    def gradient(self, function: G) -> G:
        """States the derivative: `function(delta, result, *arguments)` gives a gradient for each tensor among the arguments
        (or None for one that has none), in their order; for a single tensor, it alone. `delta` is the gradient of the
        result. What it builds is graph, so that it has derivatives too."""
        if not callable(function):
            fail(UserError, f"the gradient of {self.name} is {function!r}, not a function")
        self.gradient_function = function
        return function

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The op on these arguments; it takes `axes=`, `name=` and `metadata=` too, as all functions of ops do."""
        return self._stated(*args, **named)

    def apply(self, *args: Any, **named: Any) -> Any:
        """The op on these arguments."""
        raise NotImplementedError

    def registered(self) -> None:
        """Registers the name, which text may call the op by. UserError that names the first place, where another op has it."""
        if getattr(self.function, "__name__", "").isidentifier():
            NAMES.add(self.name, f"an op {self.name}", Origin.of(self.function, self.location))

    def __repr__(self) -> str:
        return f"<op {self.name} of {self.location}>"


#: The names of the ops of users.
NAMES = Registrations()


def op_class_name(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Op"


# ---- what no ops of the graph compute


class OpaqueOp(Tensor):
    """An op whose value something else than ops of the graph computes: a function of NumPy arrays, or a kernel.

    `index` says which of several results it is.
    """

    #: What made it, of the class that goes with its own.
    definition: Any

    def __init__(
        self, call: Call, operands: Sequence[Tensor], axes: Axes, element: Type, index: int | None = None
    ):
        super().__init__(operands, None, axes, element)
        self.call, self.index = call, index
        self.schemas.append(self._derivative(operands))

    def _derivative(self, operands: Sequence[Tensor]) -> UserDerivative:
        if self.index is None:
            return UserDerivative(self.definition, self.call, operands)
        return PartDerivative(self.definition, self.call, operands, self.index)

    def copy_with_args(self, args: Sequence[Op]) -> OpaqueOp:
        made = super().copy_with_args(args)
        made.schemas.append(self._derivative([as_op(a) for a in args]))
        return made

    copy_with_new_args = copy_with_args

    def refuse_derivative(self) -> NoReturn:
        """Raises NotDifferentiable: the derivative that is needed was not defined."""
        fail(
            NotDifferentiable,
            f"the {self.definition.kind} {self.definition.name} has no gradient",
            f"@{self.definition.name}.gradient defines it; ng.stop_gradient(...) stops the gradient",
            self.location,
        )


class OpaqueDefinition(Definition):
    """What makes ops of one kind of these."""

    kind = "op"

    def several(self, call: Call, operands: Sequence[Tensor]) -> tuple[OpaqueOp, ...]:
        """The ops of several results, on these operands."""
        raise NotImplementedError


class PartDerivative(UserDerivative):
    """A tensor is one of several results: the gradient of the others is 0 here, and theirs are added up."""

    def __init__(self, definition: OpaqueDefinition, call: Call, operands: Sequence[Tensor], index: int):
        super().__init__(definition, call, operands)
        self.index = index

    def gradient(self, op: Tensor, delta: Tensor) -> Any:
        definition = cast("OpaqueDefinition", self.definition)
        args, named = self.call.filled(self.operands)
        results = list(definition.several(self.call, self.operands))
        results[self.index] = cast("OpaqueOp", op)
        deltas = [delta if i == self.index else VERBS.number_like(0, r) for i, r in enumerate(results)]
        assert definition.gradient_function is not None
        return definition.gradient_function(tuple(deltas), tuple(results), *args, **named)


# ---- compositions


class CompositeOp(AliasOp):
    """An op that a user composed of others: its value is that of its expansion."""

    definition: CompositeDefinition

    def __init__(self, call: Call, operands: Sequence[Tensor], expansion: Tensor, index: int | None):
        self.call, self.index = call, index
        self.expansion = expansion
        Tensor.__init__(self, operands, None, expansion.axes, expansion.element)
        self.wait_for_pending(expansion.storage_now)
        if index is None:
            self.schemas.append(UserDerivative(self.definition, call, operands))

    @property
    def aliased(self) -> Op:
        return self.expansion

    @property
    def members(self) -> tuple[Op, ...]:
        return (self.expansion,)

    def copy_with_args(self, args: Sequence[Op]) -> CompositeOp:
        """The same op with other operands: its function is called again."""
        args = tuple(args)
        if len(args) != len(self.args):
            fail(
                UserError,
                f"{self.called} is computed from {counted(len(self.args), 'argument')}, not {len(args)}",
            )
        made = self.definition.composed(self.call, args, self.location)
        return self._kept(made if self.index is None else made[self.index])

    copy_with_new_args = copy_with_args

    def again(self, now: Callable[[Op], Op]) -> CompositeOp:
        """A copy of the op from the replacements of its operands and its expansion."""
        operands = [as_op(now(a)) for a in self.args]
        return self._kept(type(self)(self.call, operands, as_op(now(self.expansion)), self.index))

    def _kept(self, made: CompositeOp) -> CompositeOp:
        made.location, made.given_name, made.metadata = self.location, self.given_name, dict(self.metadata)
        return made


class CompositeDefinition(Definition):
    """What `ng.composite_op` gives."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        #: The class of its ops.
        self.op_class: type[CompositeOp] = type(
            op_class_name(self.name), (CompositeOp,), {"definition": self, "__doc__": function.__doc__}
        )

    def apply(self, *args: Any, **named: Any) -> Any:
        """The op on these arguments."""
        call = Call(args, named)
        return self.composed(call, call.tensors, None)

    def composed(self, call: Call, operands: Sequence[Any], place: Location | None) -> Any:
        place = DebugInfo().location if place is None else place
        args, named = call.filled(operands)
        with Op.all_ops() as inside:
            try:
                result = self.function(*args, **named)
            except Exception as error:
                error.add_note(f"in the op {self.name}, used at {place}")
                raise
        for op in inside:  # users see one op, at the line where it is used
            op.location = place
        if isinstance(result, (tuple, list)):
            several = [*cast("Sequence[Any]", result)]
            if self.gradient_function is not None:
                fail(
                    UserError,
                    f"{self.name} gives {counted(len(several), 'value')}, and defines a gradient",
                    "an op with a gradient must return one value",
                )
            return tuple([self._op(call, operands, value, i) for i, value in enumerate(several)])
        return self._op(call, operands, result, None)

    def _op(self, call: Call, operands: Sequence[Any], value: Any, index: int | None) -> CompositeOp:
        if isinstance(value, Op) and not isinstance(value, Tensor):
            fail(
                UserError,
                f"{self.name} gives {value.called}, which has no value",
                "an op must return tensors",
            )
        return self.op_class(call, operands, as_op(value), index)


def composite_op(function: Callable[..., Any]) -> CompositeDefinition:
    """A decorator: what `function` builds is one op, with its own class and name, in messages, graphs and searches.

    `@f.gradient` states a derivative; without one, derivatives follow the ops that it is made of. Errors come from where the op
    is used. The function is called once for each use (and again where the op is copied onto other operands). A second op of
    its name is a UserError that names the first place (docs/graph.md says what counts as the same definition).
    """
    if not callable(function):
        fail(UserError, f"{function!r} is not a function", "@ng.composite_op decorates a function")
    made = CompositeDefinition(function)
    made.registered()
    return made


_CLASSES: dict[Callable[..., Any], type[CompositeOp]] = {}


def one_op(class_name: str) -> Callable[[G], G]:
    """A decorator for functions of `ng`: what they build is one op, of a class of this name, whose arguments are theirs."""

    def decorate(function: G) -> G:
        definition = CompositeDefinition(function)
        definition.op_class.__name__ = definition.op_class.__qualname__ = class_name

        @wraps(function)
        def made(*args: Any, **named: Any) -> Any:
            return definition.apply(*args, **named)

        _CLASSES[made] = definition.op_class
        return cast(G, made)

    return decorate


def class_of(function: Callable[..., Any]) -> type[CompositeOp]:
    """The class of the ops that a function decorated with `one_op` makes."""
    return _CLASSES[function]


def class_called(name: str) -> type[CompositeOp] | None:
    """The class of that name, of those that `one_op` made."""
    return next((each for each in _CLASSES.values() if each.__name__ == name), None)
