# SPDX-License-Identifier: Apache-2.0
"""What a model is called with: what its inputs take, and what is given for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ...ir.literals import dtype_of, type_of_dtype
from ...ir.types import Type, f32
from ...support.diagnostics import Limit, UserError
from .elements import element_of

if TYPE_CHECKING:
    from onnx import TypeProto

Array: TypeAlias = "np.ndarray[Any, Any]"
#: An array, a list of arrays, or None for an optional that holds nothing.
Given: TypeAlias = "Array | list[Array] | None"

#: Arrays of at most so many bytes are kept.
_LITTLE = 4096


@dataclass(frozen=True)
class Port:
    """An input or output: what it is called and what it takes. Lengths that are not stated are None or a name."""

    name: str
    kind: str  # tensor, sequence or optional
    element: Type
    shape: tuple[int | str | None, ...] | None


def stated_port(name: str, type: TypeProto) -> Port:
    """What a model says of an input. Raises UserError and Limit where that cannot be one of ours."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # bytes that are no UTF-8
        raise UserError(f"the name of an input is no text: {name!r}")
    kind, inner = "tensor", type
    if inner.HasField("optional_type"):
        kind, inner = "optional", inner.optional_type.elem_type
    if inner.HasField("sequence_type"):
        kind, inner = ("optional" if kind == "optional" else "sequence"), inner.sequence_type.elem_type
    if not inner.HasField("tensor_type"):
        raise Limit(f"the input '{name}' is neither a tensor nor a sequence of tensors")
    tensor = inner.tensor_type
    shape = None
    if tensor.HasField("shape"):
        # Exporters say -1 of a length that they do not know, or name it "?".
        shape = tuple(
            (d.dim_value if d.dim_value >= 0 else None)
            if d.HasField("dim_value")
            else (d.dim_param.strip("? ") or None)
            for d in tensor.shape.dim
        )
    return Port(name, kind, element_of(tensor.elem_type, f"the input '{name}'"), shape)


def port_of(name: str, value: Given) -> Port:
    """What takes such a value."""
    leaves = value if isinstance(value, list) else [] if value is None else [value]
    kind = "sequence" if isinstance(value, list) else "optional" if value is None else "tensor"
    return Port(name, kind, element_type_of(leaves[0]) if leaves else f32, None)


def given_of(ports: Sequence[Port], values: Sequence[Any], named: Mapping[str, Any]) -> list[Given]:
    """The values of all inputs, given in their order or by their names, as arrays that fit them.

    Raises UserError where an input is missing, unknown, or given something else.
    """
    names = [port.name for port in ports]
    if values and named:
        raise UserError("inputs are given by position and by name", hint="use one of them")
    if named:
        lost = [name for name in named if name not in names]
        lacking = [name for name in names if name not in named]
        if lost or lacking:
            problem = f"there is no input '{lost[0]}'" if lost else f"the input '{lacking[0]}' is not given"
            raise UserError(problem, hint=f"the inputs are {', '.join(names)}")
        values = [named[name] for name in names]
    if len(values) != len(ports):
        raise UserError(
            f"the model takes {len(ports)} inputs, but {len(values)} were given",
            hint=f"its inputs are {', '.join(names)}",
        )
    sizes: dict[str, int] = {}
    return [_converted(port, value, sizes) for port, value in zip(ports, values, strict=True)]


def _converted(port: Port, value: Any, sizes: dict[str, int]) -> Given:
    if port.kind == "optional" and value is None:
        return None
    if port.kind != "tensor" and isinstance(value, (list, tuple)):
        return [_array(port, each) for each in cast(Sequence[Any], value)]
    array = _array(port, value)
    if port.shape is None or port.kind != "tensor":
        return array
    fits = len(port.shape) == array.ndim
    for stated, length in zip(port.shape, array.shape, strict=False):
        expected = sizes.setdefault(stated, length) if isinstance(stated, str) else stated
        fits = fits and expected in (None, length)
    if not fits:
        stated = ", ".join("?" if d is None else str(d) for d in port.shape)
        raise UserError(f"the input '{port.name}' has the shape [{stated}], not {list(array.shape)}")
    return array


def _array(port: Port, value: Any) -> Array:
    dtype = dtype_of(port.element)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"the value of '{port.name}' is no array: {error}") from None
    if array.dtype != dtype:
        if array.dtype.kind not in "biuf" or (
            isinstance(value, np.ndarray) and not np.can_cast(array.dtype, dtype, "same_kind")
        ):
            raise UserError(f"the input '{port.name}' takes {dtype}, not {array.dtype}")
        array = array.astype(dtype)
    return array


def leaves_of(values: Sequence[Given]) -> list[tuple[tuple[int, int], Array]]:
    """The arrays of all inputs, each with the number of its input and its place in that."""
    found: list[tuple[tuple[int, int], Array]] = []
    for i, value in enumerate(values):
        if isinstance(value, list):
            found.extend(((i, k), array) for k, array in enumerate(value))
        elif value is not None:
            found.append(((i, 0), value))
    return found


def element_type_of(array: Array) -> Type:
    return type_of_dtype(array.dtype)


def without_elements(value: Array | list[Array]) -> Array | list[Array]:
    """Zeros in place of elements, which take no memory."""
    if isinstance(value, list):
        return [np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in value]
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)


def content(array: Array) -> bytes:
    """What tells the elements of an array from others."""
    return array.tobytes() if array.nbytes <= _LITTLE else blake2b(array.tobytes()).digest()
