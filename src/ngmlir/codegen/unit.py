# SPDX-License-Identifier: Apache-2.0
"""What code generation gives, and how the entry function says which of its buffers is what.

The entry function of a planned module takes its arguments, then the buffers of the results that are not tied
to an argument, then the constants, then the arena:

    func.func @main(%x, %out, %constant, %arena) attributes {ng.arguments = 1 : i64, ng.results = 2 : i64,
        ng.tied = array<i64: 0, 0>, ng.constants = [dense<...> : tensor<8xf32>]}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..ir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr
from ..ir.core import Module, Op, Value
from ..ir.elements import ElementsAttr
from ..ir.types import ShapedType
from ..support.artifact import Launch, Place
from ..support.diagnostics import Bug
from ..support.signature import Parameter, Signature

#: Constants begin at multiples of this many bytes.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Unit:
    """LLVM IR of one module. `launches` lists the kernels to run where the device does not run @main itself."""

    llvm: str
    signature: Signature
    constants: bytes = b""
    launches: tuple[Launch, ...] = ()


class Interface(NamedTuple):
    """The entry function seen from outside: its signature, where each buffer lies, the constants as bytes."""

    signature: Signature
    places: dict[Value, Place]
    constants: bytes


def entry_of(module: Module) -> Op:
    """The one function that the memory plan made."""
    found = [op for op in module.ops if op.name == "func.func" and "ng.arguments" in op.attributes]
    if len(found) != 1:
        raise Bug(f"a planned module has one entry function, this one has {len(found)}", module.location)
    return found[0]


def interface(function: Op) -> Interface:
    """Reads the attributes that the memory plan left on the entry function."""
    *buffers, arena = function.block.args
    arguments = buffers[: _count(function, "ng.arguments")]
    tied = _tied(function)
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
    blob = bytearray()
    given = function.attributes.get("ng.constants")
    for value, literal in zip(rest, given.items if isinstance(given, ArrayAttr) else (), strict=True):
        assert isinstance(literal, ElementsAttr)
        blob += bytes(-len(blob) % _ALIGNMENT)
        places[value] = Place("constant", 0, len(blob))
        blob += bytes(literal.data) * (literal.type.size if literal.splat else 1)
    signature = Signature(
        name=function.symbol,
        arguments=tuple(_parameter(value, function) for value in arguments),
        results=tuple(_parameter(value, function) for value in results),
        tied=tuple(sorted(tied.items())),
        arena_bytes=_shaped(arena).size,
    )
    return Interface(signature, places, bytes(blob))


def _count(function: Op, name: str) -> int:
    attribute = function.attributes.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else 0


def _tied(function: Op) -> dict[int, int]:
    attribute = function.attributes.get("ng.tied")
    if not isinstance(attribute, DenseArrayAttr):
        return {}
    return dict(zip(attribute.values[::2], attribute.values[1::2], strict=True))


def _shaped(value: Value) -> ShapedType:
    assert isinstance(value.type, ShapedType)
    return value.type


def _parameter(value: Value, function: Op) -> Parameter:
    type = _shaped(value)
    return Parameter(value.name, str(type.element), type.shape, function.location)
