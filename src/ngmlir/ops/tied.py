# SPDX-License-Identifier: Apache-2.0
"""`ng.tied` of a function: pairs (result, argument) that share one buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..ir.attributes import Attribute, DenseArrayAttr, IntegerAttr, TypeAttr
from ..ir.core import Op
from ..ir.types import FunctionType, Type, i64


class Signature(NamedTuple):
    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


def signature(function: Op) -> Signature:
    """The types of the arguments and results of a function; empty if it states none."""
    attribute = function.attributes.get("function_type")
    type = attribute.type if isinstance(attribute, TypeAttr) else None
    return Signature(type.inputs, type.results) if isinstance(type, FunctionType) else Signature((), ())


def count_in(attribute: Attribute | None) -> int | None:
    """The value of an i64 attribute that is a count, otherwise None."""
    if isinstance(attribute, IntegerAttr) and attribute.type is i64 and attribute.value >= 0:
        return attribute.value
    return None


def tied_pairs(function: Op) -> dict[int, int]:
    """For each result that shares the buffer of an argument the number of that argument."""
    attribute = function.attributes.get("ng.tied")
    flat = attribute.values if isinstance(attribute, DenseArrayAttr) else ()
    return dict(zip(flat[::2], flat[1::2], strict=True))


def tied_violations(function: Op) -> Iterator[str]:
    """Errors in the pairs."""
    attribute = function.attributes.get("ng.tied")
    if attribute is None:
        return
    if not isinstance(attribute, DenseArrayAttr) or attribute.type is not i64 or len(attribute.values) % 2:
        yield "'ng.tied' must be array<i64: result, argument, ...>"
        return
    inputs, outputs = signature(function)
    planned = "ng.arguments" in function.attributes
    arguments = count_in(function.attributes.get("ng.arguments")) if planned else len(inputs)
    results = count_in(function.attributes.get("ng.results")) if planned else len(outputs)
    pairs = list(zip(attribute.values[::2], attribute.values[1::2], strict=True))
    for result, argument in pairs:
        if not 0 <= result < (results or 0) or not 0 <= argument < (arguments or 0):
            yield f"'ng.tied' pairs result {result} with argument {argument}, which are not both there"
        elif not planned and inputs[argument] is not outputs[result]:
            yield f"'ng.tied' pairs {outputs[result]} with {inputs[argument]}"
    for what in (0, 1):
        if len({pair[what] for pair in pairs}) < len(pairs):
            yield f"'ng.tied' pairs {'an argument' if what else 'a result'} twice"
