# SPDX-License-Identifier: Apache-2.0
"""Element types as users spell them, and constants."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, cast

import numpy as np

from ..ir.core import Value
from ..ir.literals import dtype_of, type_of_dtype
from ..ir.narrow import NARROW
from ..ir.types import FloatType, IndexType, IntegerType, TensorType, Type
from ..ops import ng
from ..ops.builder import Builder
from ..ops.lengths import Length as Following
from ..ops.lengths import Long, Size, product
from ..support.arrays import UNMASK, copy_into, is_masked, misfit, misfit_hint, misfit_text
from ..support.lengths import Length, NeedsLength, is_open
from ..support.memory import empty_bytes
from .axes import Axes, AxesLike, AxesOrNames, Axis, DerivedAxis, make_axes
from .building import BUILDING
from .calls import listed
from .errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from .foreign import refuse_sameness
from .node import Op
from .ordered import OrderedSet
from .tensor import Tensor
from .writes import InitTensorOp

#: Copies of at least so many bytes are aligned and in huge pages.
_LARGE_BYTES = 64 * 1024

_BY_NAME = {
    **{n: FloatType(n) for n in ("f16", "bf16", "f32", "f64", *NARROW)},
    **{f"{u}i{w}": IntegerType(w, u) for u in ("", "u") for w in (2, 4, 8, 16, 32, 64)},
    "i1": IntegerType(1),
    "bool": IntegerType(1),
    "bfloat16": FloatType("bf16"),
    "index": IndexType(),
}


def element_of(dtype: Any) -> Type:
    """The element type that a user means: a NumPy dtype, a name (`f32`, `float32`, `bf16`), a type of the IR."""
    if isinstance(dtype, Type):
        return dtype
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    try:
        return type_of_dtype(dtype)
    except TypeError:
        fail(
            UserError,
            f"there is no element type {dtype!r}",
            f"one of {', '.join(_BY_NAME)}, or a NumPy dtype",
        )


def default_dtype(dtype: Any = None) -> np.dtype[Any]:
    """`dtype`, or the default element type of results: float32, unless inside `default_float`."""
    return dtype_of(BUILDING.float if dtype is None else element_of(dtype))


def default_int_dtype(dtype: Any = None) -> np.dtype[Any]:
    """`dtype`, or the default element type of positions: int32."""
    return dtype_of(BUILDING.integer if dtype is None else element_of(dtype))


@contextmanager
def default_float(dtype: Any) -> Generator[None]:
    """A context manager: results and storage created inside have this element type instead of float32."""
    outer = BUILDING.float
    BUILDING.float = element_of(dtype)
    try:
        yield
    finally:
        BUILDING.float = outer


class ConstantOp(Tensor):
    """A number (repeated over the axes) or an array, known now."""

    operation = ng.ConstantOp
    is_constant = True
    has_new_axes = False  # it was made of an array for which no axes were given

    def __init__(self, value: np.ndarray[Any, Any], axes: Axes, element: Any):
        super().__init__((), None, axes, element)
        self.value = value
        self._initializer: InitTensorOp | None = None

    @property
    def initializers(self) -> OrderedSet[Op]:
        """One that does nothing: programs hold the value."""
        if self._initializer is None:
            self._initializer = InitTensorOp(self, self)
        return OrderedSet([self._initializer])

    @property
    def const(self) -> Any:
        return self.value[()] if self.value.ndim == 0 else self.value

    @property
    def shown_type(self) -> str:
        if self.is_scalar:
            return f"{super().shown_type} = {self.value[()]}"
        edge = 3 if self.value.ndim == 1 else 1
        values = np.array2string(self.value, precision=6, separator=", ", threshold=8, edgeitems=edge)
        return f"{super().shown_type} = {' '.join(values.split())}"

    @property
    def is_scalar(self) -> bool:
        # A number with axes stays a number: it is one value, repeated.
        return self.value.ndim == 0

    def array(self) -> np.ndarray[Any, Any]:
        """All elements, with the lengths that the axes have now."""
        shape = self.axes.known_shape
        if self.value.ndim and self.value.shape != shape:
            differing = [a for a, n in zip(self.axes, self.value.shape, strict=True) if a.length != n]
            made = ", ".join(f"{n} along {a.name}" for a, n in zip(self.axes, self.value.shape, strict=True))
            now = ", ".join(f"{a.name} has {a.length}" for a in differing)
            fail(
                AxisLengthError,
                f"the constant {self.called} holds {made}, but {now} now",
                "make it a placeholder, or pass as many elements as it has",
                self.location,
            )
        return np.broadcast_to(self.value, shape)


class FollowingOp(Tensor):
    """A constant that follows from lengths: `function` of what they are when a program is made, over the axes."""

    operation = ng.ConstantOp
    is_constant = True

    def __init__(
        self,
        function: Callable[..., np.ndarray[Any, Any] | int],
        lengths: Sequence[Size],
        axes: Axes,
        element: Type,
    ):
        super().__init__((), None, axes, element)
        self.function = function
        self.lengths = tuple(lengths)

    def array(self) -> np.ndarray[Any, Any]:
        """All elements, with the lengths that the axes have now."""
        found = np.asarray(self.function(*self.known_lengths()))
        return np.broadcast_to(found.astype(self.dtype, copy=False), self.axes.known_shape)

    def opened(self, b: Builder, type: TensorType) -> Value | None:
        """Its value, where a program is made for any lengths and it follows from these; else None. NeedsLength where elements do that
        are not one number."""
        lengths = self.known_lengths()
        if not is_open(lengths):
            return None
        found = self.function(*lengths)
        if not isinstance(found, Length):
            raise NeedsLength(f"the elements of {self.called}")
        return b.extent(value=found, type=type)

    def known_lengths(self) -> list[int]:
        return [n if isinstance(n, int) else _known(n) for n in self.lengths]


class ProgressionOp(FollowingOp):
    """Numbers along one axis with a constant step."""

    def __init__(self, first: Size, step: Size, axes: Axes, element: Type):
        (axis,) = axes
        super().__init__(_progression, (first, step, axis), axes, element)

    def opened(self, b: Builder, type: TensorType) -> Value | None:
        lengths = self.known_lengths()
        first, step, _ = lengths
        return b.progression(first, [step], type) if is_open(lengths) else None


def _progression(first: int, step: int, count: int) -> np.ndarray[Any, Any]:
    return first + step * np.arange(count)


def _known(length: Long) -> int:
    if isinstance(length, Axis):
        return length.known_length
    known = length.length
    return DerivedAxis("", cast(Following, length)).known_length if known is None else known


def size_op(counted: Axes, axes: Axes, element: Type) -> FollowingOp:
    """How many elements some axes hold."""
    return FollowingOp(product, tuple(counted), axes, element)


class ValueFor:
    """What messages call a value that is fed; worked out where there is a message."""

    def __init__(self, op: Op):
        self.op = op

    def __str__(self) -> str:
        return f"the value for {self.op.called}"


def numbers(value: Any, what: object = "the value") -> np.ndarray[Any, Any]:
    """A number or anything that NumPy makes an array of real numbers (or booleans) of; UserError for the rest."""
    refuse_sameness(value)
    if isinstance(value, Op) and not isinstance(value, Tensor):
        fail(
            UserError,
            f"{value.name} is an assignment or a group, which has no value",
            "after `w -= g` the name w refers to the assignment: use ng.assign(w, w - g), which leaves w as it is",
        )
    if is_masked(value):
        fail(UserError, f"{what} is a masked array; its mask would be lost", UNMASK)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = _from_dlpack(value, what)
    try:
        array: np.ndarray[Any, Any] = np.asarray(value)
    except UserError:  # of tensors
        hint = "a tensor has a value only when a computation returns it"
        fail(UserError, f"{what} is neither a number nor an array: {value!r}", hint)
    except (TypeError, ValueError):
        fail(
            UserError, f"{what} is neither a number nor an array: {value!r}", "rows must have the same length"
        )
    kind = array.dtype.kind
    if kind == "c":
        fail(UserError, f"{what} has complex elements", "take their real part first")
    # Python's integers beyond 64 bits are objects; the small floats of ml_dtypes are of kind V, as records are.
    real = kind == "O" and all(isinstance(item, Real) for item in array.flat)
    if not (real or kind in "biuf" or (kind == "V" and not array.dtype.name.startswith("void"))):
        hint = "use a number, a list of numbers, or an array"
        if callable(value):
            hint = "call the function with placeholders: what it returns is a graph"
        fail(UserError, f"{what} is neither a number nor an array: {value!r}", hint)
    return array


def _from_dlpack(value: Any, what: object) -> Any:
    """The array of another library without a copy; a copy for one on a device."""
    try:
        on_host = value.__dlpack_device__()[0] == 1
        return np.from_dlpack(value) if on_host else np.from_dlpack(value, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        fail(UserError, f"{what} cannot be read by DLPack: {error}", "copy it to the host first")


def _held(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A copy that programs can use in place: aligned, and in huge pages."""
    copy = empty_bytes(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    copy_into(copy, array)
    return copy


def converted(
    array: np.ndarray[Any, Any],
    element: Type,
    what: object = "the value",
    copied: Callable[[np.ndarray[Any, Any], np.dtype[Any]], np.ndarray[Any, Any]] = _held,
) -> np.ndarray[Any, Any]:
    """A copy in an element type, by `copied` if it is large. Floats round (to infinity when too big); what an integer type
    cannot hold, a fraction too, is a UserError."""
    dtype = dtype_of(element)
    wrong = misfit(array, dtype)
    if wrong is not None:
        hint = misfit_hint(wrong[1], dtype, element.text)
        fail(UserError, f"{what} holds {misfit_text(*wrong)}, which {element} cannot hold", hint)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return array.astype(dtype) if array.nbytes < _LARGE_BYTES else copied(array, dtype)
    except (OverflowError, ValueError):  # of Python objects
        fail(UserError, f"{what} holds a number that {element} cannot hold")


def _fixed(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is immutable: it and all arrays that it is a view of are read-only."""
    at: Any = array
    while isinstance(at, np.ndarray):
        if at.flags.writeable:
            return False
        at = cast(Any, at).base
    return at is None or isinstance(at, bytes) or (isinstance(at, mmap.mmap) and memoryview(at).readonly)


def as_elements(value: Any, element: Type, what: object = "the value") -> np.ndarray[Any, Any]:
    """A number or an array as a read-only array of an element type."""
    given = numbers(value, what)
    # Immutable arrays are not copied, so a file that is mapped for reading stays mapped.
    kept = (
        given.dtype == dtype_of(element)
        and given.flags.c_contiguous
        and given.flags.aligned
        and _fixed(given)
    )
    array = given if kept else converted(given, element, what)
    array.flags.writeable = False
    return array


def adopt(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Makes the array read-only and returns it: constants and initial values of its type use it without a copy.

    Raises UserError for an array whose memory is still writeable through another one.
    """
    given = numbers(array, "the array")
    views: list[Any] = []
    at: Any = given
    while isinstance(at, np.ndarray):
        views.append(at)
        at = cast(Any, at).base
    if at is not None and not isinstance(at, bytes) and not memoryview(at).readonly:
        fail(
            UserError,
            f"the memory of this array belongs to a {type(at).__name__}, which can still change it",
            "pass a copy: ng.adopt(array.copy())",
        )
    for view in views:
        view.flags.writeable = False
    return given


def broadcast_value(
    array: np.ndarray[Any, Any],
    axes: Axes,
    shape: Sequence[int | None],
    called: Callable[[], str],
    made: str = "",
) -> np.ndarray[Any, Any]:
    """An array repeated to a shape (None: as long as the array) as NumPy does it; but one row is no batch."""
    given = (1,) * (len(axes) - array.ndim) + array.shape
    if len(given) == len(axes):
        for axis, length, wanted in zip(
            axes, given[len(axes) - array.ndim :], shape[len(axes) - array.ndim :], strict=False
        ):
            if axis.is_batch and length == 1 and wanted not in (None, 1):
                fail(
                    AxisLengthError,
                    f"one row for {called()}, which has {wanted} along {axis.name}",
                    "a batch is not made of one row: give as many, or a value without that axis",
                )
        whole = tuple([n if w is None else w for n, w in zip(given, shape, strict=True)])
        if all(n in (1, w) for n, w in zip(given, whole, strict=True)):
            return np.broadcast_to(array, whole)
    names = ", ".join(f"{a.name}: {'?' if n is None else n}" for a, n in zip(axes, shape, strict=True))
    differing = [
        f"{n} elements along {a.name}"
        for a, n, w in zip(axes, given, shape, strict=False)
        if w not in (None, n) and n != 1
    ]
    why = f": it has {differing[0]}" if differing and len(given) == len(axes) else ""
    fail(
        AxisLengthError if why else IncompatibleAxesError,
        f"{called()} has axes ({names}), a value of shape {array.shape} cannot be broadcast to them{why}",
        made,
    )


def as_array(value: Any, axes: Axes, element: Type, what: object = "the value") -> np.ndarray[Any, Any]:
    """A number (rank 0) or an array that fits the axes, in an element type."""
    array = as_elements(value, element, what)
    if array.ndim == 0:
        return array
    if array.ndim != len(axes):
        fail(
            IncompatibleAxesError,
            f"{what} has {array.ndim} dimensions, the axes ({', '.join(axes.names)}) have {len(axes)}",
        )
    for axis, length in zip(axes, array.shape, strict=True):
        if axis.length not in (None, length):
            fail(
                AxisLengthError,
                f"{what} has {length} elements along {axis.name}, whose length is {axis.length}",
            )
    return array


def _named(axes: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """Axes, of which names stand for new ones, as long as an array is in their places."""
    if len(axes) != len(shape):
        return [*axes]
    return [Axis(n, a) if isinstance(a, str) else a for a, n in zip(axes, shape, strict=True)]


def constant(const: Any, axes: AxesOrNames | None = None, dtype: Any = None) -> Tensor:
    """A value known now: a number, repeated over the axes, or an array (which gets new axes if none are given, and for names
    axes of its lengths).

    An array is copied once, into memory that programs then use; an immutable one (`writeable` is false for
    it and all that it is a view of, as with `np.load(file, mmap_mode="r")` or after `ng.adopt(array)`) is used without a
    copy.
    """
    if isinstance(const, Tensor):
        return const
    element = BUILDING.float if dtype is None else element_of(dtype)
    new_axes = axes is None
    if axes is None:
        axes = [Axis(length) for length in numbers(const, "the constant").shape]
    elif isinstance(axes, (str, list, tuple)):
        given: list[Any] = [axes] if isinstance(axes, str) else [*cast("Sequence[Any]", axes)]
        if any(isinstance(axis, str) for axis in given):
            axes = _named(given, numbers(const, "the constant").shape)
    axes = make_axes(cast(AxesLike, axes))
    value = as_array(const, axes, element, "the constant")
    if value.ndim:
        for axis, length in zip(axes, value.shape, strict=True):
            if axis.length is None:
                axis.length = length
    made = ConstantOp(value, axes, element)
    made.has_new_axes = new_axes
    return made


def as_op(value: Any) -> Tensor:
    """The tensor itself; numbers and arrays become constants. UserError for a sequence without a value."""
    if not isinstance(value, Tensor):
        return constant(value)
    if value.lacks_value:
        value.refuse_use()
    return value


def as_ops(values: Any) -> tuple[Tensor, ...]:
    return tuple(as_op(v) for v in listed(values, "tensors"))
