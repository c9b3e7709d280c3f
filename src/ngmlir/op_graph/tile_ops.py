# SPDX-License-Identifier: Apache-2.0
"""Ops that a kernel computes which a user wrote, in text of the tile dialect."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from ..ir.core import Op
from ..ir.structure import structure
from ..ir.types import MemRefType, TensorType, Type
from ..ops.hosts import HostFunction, op_of_kernel
from ..support.registrations import Origin
from .axes import Axes, make_axes
from .axis import Axis
from .errors import AxisLengthError, UserError, fail
from .kernel_texts import KernelReader, KernelText, buffers, takes
from .positions import Positions
from .source import user_location
from .tensor import Tensor
from .user_ops import NAMES, Call, OpaqueDefinition, OpaqueOp, op_class_name
from .values import as_op


class TileOp(OpaqueOp):
    """An op whose value a kernel computes that a user wrote."""

    definition: TileDefinition

    def kernel(self, types: Sequence[TensorType]) -> Op:
        """The kernel that computes it from operands of these types."""
        return self.definition.kernel(self.call, types, self)


class TileDefinition(OpaqueDefinition):
    """What `ng.tile_op` gives. A kernel that is an op of the IR is called as it is."""

    kind = "tile op"

    def __init__(
        self,
        name: str,
        text: KernelText | Op,
        shape_rule: Callable[..., Any] | None = None,
        reference: Callable[..., Any] | None = None,
    ):
        def called(*operands: Any, **arguments: Any) -> None: ...

        called.__name__ = called.__qualname__ = name
        called.__doc__ = f"The op {name}, which a kernel computes."
        super().__init__(called)
        self.name, self.location = name, user_location()
        self.text, self.shape_rule, self.reference = text, shape_rule, reference
        self.op_class: type[TileOp] = type(
            op_class_name(name), (TileOp,), {"definition": self, "__doc__": called.__doc__}
        )
        self._kernels: list[Op] = []
        if isinstance(text, Op):
            self._kernels.append(text)
        else:
            #: What this process knows by the name that its kernels have.
            self.known = HostFunction(name, None, self.location, definition=self)
            self._reader = KernelReader(name, self.known.name, self.location)
            if not callable(text):
                self._kernels += self._reader.read(text)
        self._made: dict[Hashable, list[Op]] = {}  # by types and arguments, where a function makes the text
        self._references: dict[Hashable, HostFunction] = {}  # by the structure of a kernel
        for kernel in self._kernels:
            self._refer(kernel, {})

    # ---- kernels

    def kernels(self, call: Call, types: Sequence[TensorType]) -> list[Op]:
        """The kernels to choose from for operands of these types."""
        if not callable(self.text):
            return self._kernels
        key = (tuple(types), tuple((name, repr(value)) for name, value in sorted(call.named.items())))
        found = self._made.get(key)
        if found is None:
            text: Any = self.text(*types, **call.named)
            if not isinstance(text, (str, Path)):
                hint = "it returns the text of a kernel: tile.kernel @name ins(...) outs(...) { ... }"
                fail(UserError, f"the function of the tile op {self.name} gives {text!r}", hint)
            found = self._made[key] = self._reader.read(text)
            for kernel in found:
                self._refer(kernel, call.named)
        return found

    def _refer(self, kernel: Op, named: Mapping[str, Any]) -> None:
        """Sets the reference of a user's kernel with these arguments."""
        if self.reference is not None:
            function = partial(self.reference, **named)
            self._references[structure(kernel)] = HostFunction(
                self.name, function, self.location, what="reference of the tile op"
            )

    def reference_of(self, kernel: Op) -> HostFunction | None:
        """The NumPy function that computes what a kernel does; None for kernels that are not the user's, or have no reference."""
        return self._references.get(structure(kernel)) if self._references else None

    def kernel(self, call: Call, types: Sequence[TensorType], op: TileOp | None = None) -> Op:
        """The kernel that takes operands of these types. UserError, at `op`, where none does."""
        location = None if op is None else op.location
        if not all(t.static for t in types):
            hint = "set the length first: axis.length = ..."
            fail(AxisLengthError, f"the tile op {self.name} takes operands of known shape", hint, location)
        found = self.kernels(call, types)
        for kernel in found:
            if takes(kernel, types):
                return kernel
        there = " or ".join(f"({', '.join(map(str, buffers(k)[0]))})" for k in found)
        given = ", ".join(map(str, types))
        hint = "ng.cast changes the elements of an operand, ng.broadcast, ng.flatten and ng.axes_with_order its shape"
        fail(
            UserError,
            f"no kernel of the tile op {self.name} takes ({given}): there is {there}",
            hint,
            location,
        )

    def owns(self, kernel: Op, types: Sequence[TensorType]) -> bool:
        """Whether this kernel is what it calls on operands of these types, and not one of an op that is called the same elsewhere."""
        known = self._made.get((tuple(types), ()), ()) if callable(self.text) else self._kernels
        return structure(kernel) in {structure(k) for k in known}

    # ---- ops

    def apply(self, *args: Any, **named: Any) -> TileOp | tuple[TileOp, ...]:
        """The op on these operands (tensors, arrays, numbers), with the parameters of its text by name."""
        if named and not callable(self.text):
            fail(
                UserError, f"the tile op {self.name} takes operands by position only, not {', '.join(named)}"
            )
        call = Call([as_op(a) for a in args], named)
        made = self.several(call, call.tensors)
        return made[0] if len(made) == 1 else made

    def several(self, call: Call, operands: Sequence[Tensor]) -> tuple[TileOp, ...]:
        """The ops of all results, on these operands."""
        kernel = self.kernel(call, plain_types([o.type for o in operands]))
        written = buffers(kernel)[1]
        axes = self._axes(call, operands, written)
        one = len(written) == 1
        return tuple(
            [
                self.op_class(call, operands, a, t.element, None if one else i)
                for i, (a, t) in enumerate(zip(axes, written, strict=True))
            ]
        )

    def _axes(self, call: Call, operands: Sequence[Tensor], written: Sequence[MemRefType]) -> list[Axes]:
        """The axes of the results: by the shape rule, else those of an operand of these lengths, else by position."""
        if self.shape_rule is None:
            return [_like(operands, t.shape) for t in written]
        args, named = call.filled(operands)
        said = self.shape_rule(*args, **named)
        each: Sequence[Any] = cast("Sequence[Any]", said) if len(written) > 1 else [said]
        if not isinstance(each, (tuple, list)) or len(each) != len(written):
            message = f"the shape rule of {self.name} gives {said!r}, and its kernel {len(written)} results"
            fail(UserError, message, "it returns a tuple of the axes of each")
        found = [_axes(axes) for axes in each]
        for axes, type in zip(found, written, strict=True):
            if axes.lengths != type.shape:
                fail(
                    AxisLengthError,
                    f"the shape rule of {self.name} gives {list(axes.lengths)}, and its kernel writes {type}",
                    "both say what the result is: change the one that is wrong",
                )
        return found


def plain_types(types: Sequence[TensorType]) -> list[TensorType]:
    """The types without names of axes, of which kernels know nothing."""
    return [TensorType(t.shape, t.element) for t in types]


def raised(kernel: Op, operands: Sequence[Tensor], shapes: Sequence[tuple[Axes, Type]]) -> list[TileOp]:
    """The op of a kernel that a module holds, with results of these axes and elements. It has the gradient that this process knows
    for its name."""
    types = plain_types([o.type for o in operands])
    definition: object = op_of_kernel(kernel)
    if not isinstance(definition, TileDefinition) or not definition.owns(kernel, types):
        definition = TileDefinition(kernel.symbol, kernel)
    call = Call(list(operands), {})
    one = len(shapes) == 1
    return [
        definition.op_class(call, operands, axes, element, None if one else i)
        for i, (axes, element) in enumerate(shapes)
    ]


def _like(operands: Sequence[Tensor], shape: tuple[int, ...]) -> Axes:
    return next((o.axes for o in operands if o.axes.lengths == shape), Positions.of(shape))


def _axes(said: Any) -> Axes:
    """Axes as `make_axes` takes them, or lengths."""
    lengths = cast("Sequence[Any]", said) if isinstance(said, (tuple, list)) else ()
    if lengths and all(isinstance(n, int) for n in lengths):
        return Positions([Axis(n) for n in lengths])
    return make_axes(cast("Any", said))


def tile_op(
    name: str,
    text: KernelText,
    *,
    shape_rule: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
) -> TileDefinition:
    """An op that a kernel computes, which is written by hand: text of the tile dialect, `tile.kernel @name ins(...) outs(...)`.

    Args:
        name: what the op is called, in messages, graphs and text.
        text: the text, or a file of it (a Path, or a name that ends in `.ngir`). It may hold several kernels: the one that takes
            the shapes and elements of the operands is called. A function of the types of the operands (`x.shape`, `x.element`) makes
            the text for each shape, and may take arguments by name.
        shape_rule: a function of the operands that gives the axes, or the lengths, of the result (of several, a tuple). Without one,
            the axes are those of the first operand of the same lengths; where there is none, they have no names.
        gradient: `gradient(delta, result, *operands)` gives the gradient of each operand, in ops; `@f.gradient` states it too.
        reference: a function of NumPy arrays that gives what the kernel does; on `numpy` it is called. Without one, the ops of
            the kernel are interpreted there.

    The op is a function of tensors, arrays and numbers. A program that uses it holds its kernels, as text does, and runs wherever
    their ops do. Raises UserError with file:line:col where the text is not valid, and at the call where no kernel takes the operands;
    Limit for buffers of unknown shape. A second op of its name is a UserError that names the first place.
    """
    if not isinstance(name, str) or not name.isidentifier():  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"{name!r} is no name for an op", "use letters, digits and _")
    if not callable(text) and not isinstance(text, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(
            UserError,
            f"the kernel of {name} is {text!r}",
            "give its text, a file of it, or a function that makes it",
        )
    for what, function in (("shape rule", shape_rule), ("reference", reference)):
        if function is not None and not callable(function):
            fail(UserError, f"the {what} of {name} is {function!r}, not a function")
    made = TileDefinition(name, text, shape_rule, reference)
    NAMES.add(name, f"an op {name}", Origin.at(made.location))
    if gradient is not None:
        made.gradient(gradient)
    return made
