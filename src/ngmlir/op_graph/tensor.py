# SPDX-License-Identifier: Apache-2.0
"""Ops that have a value: a tensor with named axes and an element type, and the operators on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex, TypeVar, cast

from ..ir.attributes import AxesAttr
from ..ir.literals import dtype_of
from ..ir.types import TensorType, Type
from ..ops.settings import Setting
from ..ops.stated_schedules import complaints
from .attributes import resolved
from .axes import Axes, Axis
from .descriptions import TensorDescription, viewed
from .errors import IncompatibleAxesError, UserError, fail
from .foreign import DEFERRING, Foreign, Sameness, defers, missing, refuse_sameness
from .node import Op
from .schemas import HandledDerivative, derivative_of

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T", bound="Tensor")

#: An index in `x[...]`, for one axis.
Index = SupportsIndex | slice | EllipsisType


class Tensor(Op, Foreign):
    """A node with a value. Its axes decide which functions its operators and methods call: see `family`."""

    is_tensor_op = True
    is_persistent = is_input = is_constant = False
    by_hand: ClassVar[Any]  # the module `adjoints`
    is_alias = False  # its value is that of `aliased`

    def __init__(
        self,
        args: Sequence[Op],
        attributes: dict[str, Any] | None = None,
        axes: Axes | None = None,
        element: Type | None = None,
        **unknown: Any,
    ):
        if axes is None or element is None or unknown:
            refuse_making(type(self))
        super().__init__(args, attributes)
        self.axes = axes
        self.element = element
        self._follow_args()

    @property
    def aliased(self) -> Op:
        """For an alias: the tensor whose value it has."""
        return self.args[0]

    def _follow_args(self) -> None:
        if self.is_view and self.args:
            self.storage = self.args[0].storage

    def check_replacement(self, op: Op) -> None:
        """UserError where `op` has no value, or one with other axes, lengths or elements."""
        if not isinstance(op, Tensor) or op.lacks_value:
            fail(UserError, f"{self.called} has a value, so {op.called} cannot replace it")
        mine, other = (f"({t.axes.shown})" for t in (self, op))
        known = zip(self.axes.lengths, op.axes.lengths, strict=False)
        if self.axes != op.axes or any(a != b for a, b in known if a is not None and b is not None):
            fail(
                IncompatibleAxesError,
                f"{self.called} has axes {mine}, what is to replace it {other}",
                "users of it expect these axes, in this order: ng.axes_with_order, ng.broadcast or ng.cast_axes",
            )
        if self.element is not op.element:
            fail(
                UserError,
                f"{self.called} holds {self.element}, what is to replace it {op.element}",
                f"ng.cast(replacement, {self.element.text!r})",
            )

    @property
    def family(self) -> Any:
        """The functions that its operators and methods are: those of `ng` where axes have names, else of `ng.numpy`."""
        return self.axes.family

    def family_with(self, other: Any) -> Any:
        """The family of an operator on this and `other`: a single number goes with the other side."""
        if isinstance(other, Tensor):
            return self.axes.family if self.axes else other.family
        return DEFERRING if defers(other) else self.axes.family

    # ---- type

    @property
    def type(self) -> TensorType:
        """The type in the `ng` dialect, with the lengths that the axes have now."""
        return tensor_type(self.axes, self.element)

    @property
    def shown_type(self) -> str:
        return f" ({self.axes.shown}) {self.element.text}"

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtype_of(self.element)

    @property
    def shape(self) -> Any:
        """The axes (lengths: `axes.lengths`); the lengths of a tensor whose axes are positions."""
        return self.family.shape_of(self)

    def scheduled(self: T, **knobs: Setting) -> T:
        """This tensor, after saying how the kernel that will compute it is to be cut.

        What is given here is obeyed and the rest is chosen: `ng.dot(x, w).scheduled(tile=(6, 16))`. The knobs are those
        of `ng.schedule` (docs/schedules.md). Raises UserError for one that no kernel has, or a setting that it cannot
        take; what cannot be built together is refused when the program is compiled. Ops that share a kernel must not
        contradict each other.
        """
        given = {name: cast(Setting, tuple(s)) if isinstance(s, list) else s for name, s in knobs.items()}
        if self.operation is None or self.is_constant:
            fail(UserError, f"{self.called} is not computed by a kernel, so it has no schedule")
        for wrong in complaints(given):
            fail(UserError, wrong.message, wrong.hint)
        self.metadata["schedule"] = {**self.metadata.get("schedule", {}), **given}
        return self

    def shape_dict(self) -> dict[str, int | None]:
        return {axis.name: axis.length for axis in self.axes}

    def tensor_description(self) -> TensorDescription:
        """The memory layout of the value: row-major for storage and computed values, that of the storage for a view.

        Raises AxisLengthError while a length is not set.
        """
        if not self.is_view or self.storage is None:
            return TensorDescription(self.axes, self.dtype, name=self.called)
        below = as_tensor(self.args[0].forwarded).tensor_description()
        return viewed(self.operation, resolved(self.attributes), self.axes, below)

    @property
    def is_scalar(self) -> bool:
        return not self.axes

    @property
    def const(self) -> Any:
        """The value of a constant; None for other tensors."""
        return None

    @cached_property
    def one(self) -> Tensor:
        """A constant 1 of this tensor's type: the same op each time."""
        return self.family.constant(1, axes=self.axes, dtype=self.element)

    def variables(self) -> list[Tensor]:
        return [as_tensor(op) for op in super().variables()]

    def placeholders(self) -> list[Tensor]:
        return [as_tensor(op) for op in super().placeholders()]

    # ---- gradients by hand: `adjoints` says how, which is above

    def adjoints(self, error: Any = None) -> dict[Op, Tensor]:
        """The gradients of this tensor by all that it is computed from and that has one: `{op: gradient}`.

        `error` is as in `ng.deriv`, and so are the errors raised.
        """
        return self.by_hand.adjoints(self, error)

    def generate_adjoints(self, adjoints: Any, delta: Any, *args: Any) -> None:
        """Adds to a dictionary `{op: gradient}` what the arguments of this op receive of `delta`, the gradient of the op.

        `args`, where they are given, are the op's. Raises NotDifferentiable for a host op that states no derivative.
        """
        self.by_hand.generate_adjoints(self, adjoints, delta, args)

    def generate_add_delta(self, adjoints: Any, delta: Any) -> None:
        """Adds `delta` to the gradient of this op in a dictionary `{op: gradient}`."""
        self.by_hand.generate_add_delta(self, adjoints, delta)

    @property
    def deriv_handler(self) -> Any:
        """What says the derivative of this op: itself, or what was set: something with `args` and
        `generate_adjoints(adjoints, delta, *args)`, which `ng.deriv` then asks; None is this op again."""
        own = derivative_of(self)
        return own.handler if isinstance(own, HandledDerivative) else self

    @deriv_handler.setter
    def deriv_handler(self, handler: Any) -> None:
        self.schemas[:] = [s for s in self.schemas if not isinstance(s, HandledDerivative)]
        if handler is not None and handler is not self:
            self.schemas.insert(0, HandledDerivative(handler))

    @property
    def effective_tensor_op(self) -> Tensor:
        """The op whose value this one has: of a sequence its last member, of a read the storage; forwarding is followed."""
        return self.by_hand.effective(self)

    tensor = effective_tensor_op

    # ---- methods that are functions

    def insert_axis(self, index: int, axis: Axis) -> Tensor:
        """The tensor repeated along a new axis, which is inserted at `index`."""
        return self.family.broadcast(self, [*self.axes[:index], axis, *self.axes[index:]])

    def append_axis(self, axis: Axis) -> Tensor:
        """The tensor repeated along a new last axis."""
        return self.insert_axis(len(self.axes), axis)

    def sum(self, *args: Any, **options: Any) -> Tensor:
        """As the function `sum` of its family, of this tensor."""
        return self.family.sum(self, *args, **options)

    def prod(self, *args: Any, **options: Any) -> Tensor:
        """As the function `prod` of its family, of this tensor."""
        return self.family.prod(self, *args, **options)

    def mean(self, *args: Any, **options: Any) -> Tensor:
        """As the function `mean` of its family, of this tensor."""
        return self.family.mean(self, *args, **options)

    def max(self, *args: Any, **options: Any) -> Tensor:
        """As the function `max` of its family, of this tensor."""
        return self.family.max(self, *args, **options)

    def min(self, *args: Any, **options: Any) -> Tensor:
        """As the function `min` of its family, of this tensor."""
        return self.family.min(self, *args, **options)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order, as in NumPy; functions match axes by name, so that it is seldom needed."""
        return self.family.Transpose(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = self.family.METHODS.get(name)
        if method is None:
            raise missing("a tensor", name, dir(self), self.family.WRITE.get(name))
        return method(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.family.METHODS]

    # ---- operators: `==` and `!=` stay identity

    __hash__ = Op.__hash__

    def __eq__(self, other: object) -> Sameness:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Sameness(self is other)

    def __ne__(self, other: object) -> Sameness:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Sameness(self is not other)

    def __bool__(self) -> bool:
        fail(
            UserError,
            f"{self.called} is symbolic and has no truth value",
            "use ng.cond or ng.where",
        )

    def __add__(self, other: Any) -> Tensor:
        return self.family_with(other).add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self.family_with(other).add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self.family_with(other).subtract(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.family_with(other).subtract(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self.family_with(other).multiply(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self.family_with(other).multiply(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self.family_with(other).divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self.family_with(other).divide(other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return self.family_with(other).floordivide(self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return self.family_with(other).floordivide(other, self)

    def __mod__(self, other: Any) -> Tensor:
        return self.family_with(other).mod(self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return self.family_with(other).mod(other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Tensor:
        made = self.family_with(other).power(self, other)
        return made if modulo is None else made % modulo

    def __rpow__(self, other: Any) -> Tensor:
        return self.family_with(other).power(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self.family_with(other).matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self.family_with(other).matmul(other, self)

    def __and__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_and(self, other)

    def __rand__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_and(other, self)

    def __or__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_or(self, other)

    def __ror__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_or(other, self)

    def __xor__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_xor(self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return self.family_with(other).bit_xor(other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return self.family_with(other).shift_left(self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return self.family_with(other).shift_left(other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return self.family_with(other).shift_right(self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return self.family_with(other).shift_right(other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __neg__(self) -> Tensor:
        return self.family.negative(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return self.family.absolute(self)

    def __invert__(self) -> Tensor:
        return self.family.invert(self)

    def __lt__(self, other: Any) -> Tensor:
        return self.family_with(other).less(self, other)

    def __le__(self, other: Any) -> Tensor:
        return self.family_with(other).less_equal(self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self.family_with(other).greater(self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self.family_with(other).greater_equal(self, other)

    def __getitem__(self, item: Any) -> Tensor:
        refuse_sameness(*(item if isinstance(item, tuple) else (item,)))
        return self.family.getitem(self, item)

    def __setitem__(self, item: Any, value: Any) -> None:
        refuse_sameness(*(item if isinstance(item, tuple) else (item,)))
        self.family.set_item(self, item, value)

    def __iter__(self) -> Any:
        return self.family.iterate(self)


def refuse_making(cls: type[Tensor]) -> NoReturn:
    """The error where a program makes an op by its class."""
    if cls.operation is None:
        hint = "use ng.composite_op to define an op by other ops, ng.host_op by a NumPy function, ng.tile_op by a kernel"
        fail(UserError, f"{cls.__name__} does not define what it computes", hint)
    function = cls.operation.name.removeprefix("ng.")
    known = function in getattr(Axes.family, "__all__", ())
    hint = f"ng.{function}(...)" if known else "docs/ops.md lists the functions"
    fail(UserError, f"{cls.__name__} is the class of a function's result and cannot be instantiated", hint)


def as_tensor(op: Op) -> Tensor:
    """An op of which is known that it has a value."""
    assert isinstance(op, Tensor), f"{op!r} has no value"
    return op


def tensor_type(axes: Axes, element: Type) -> TensorType:
    names = axes.type_names
    return TensorType(axes.shape, element, None if names is None else AxesAttr(*names))
