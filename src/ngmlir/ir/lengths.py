# SPDX-License-Identifier: Apache-2.0
"""The open lengths on which types and attributes of a program depend (support/lengths.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ..support.lengths import Length, value_at
from .attributes import ArrayAttr, Attribute, DenseArrayAttr, DictAttr, IntegerAttr, TypeAttr
from .core import Op
from .elements import ElementsAttr
from .nest import NestAttr
from .types import FunctionType, MemRefType, ShapedType, TensorType, Type


def lengths_of(top: Op) -> list[str]:
    """The names of all lengths in an op and the ops below it, in order."""
    found: set[str] = set()
    for op in top.walk():
        for value in (*op.operands, *op.results):
            found |= _names_of_type(value.type)
        for attribute in op.attributes.values():
            found |= _names_of(attribute)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    found |= _names_of_type(argument.type)
    return sorted(found)


def _names_of(attribute: Attribute) -> frozenset[str]:
    return frozenset(n for number in _numbers(attribute) for n in number.expression.names())


def _numbers(attribute: Attribute) -> Iterator[Length]:
    match attribute:
        case IntegerAttr(value=Length() as value):
            yield value
        case DenseArrayAttr():
            yield from (v for v in attribute.values if isinstance(v, Length))
        case ArrayAttr():
            for item in attribute.items:
                yield from _numbers(item)
        case DictAttr():
            for _, item in attribute.items:
                yield from _numbers(item)
        case TypeAttr():
            yield from _in_type(attribute.type)
        case ElementsAttr():
            yield from _in_type(attribute.type)
        case NestAttr():
            yield from attribute.lengths()
        case _:
            pass


@lru_cache(4096)
def _names_of_type(type: Type) -> frozenset[str]:
    return frozenset(n for number in _in_type(type) for n in number.expression.names())


def _in_type(type: Type) -> Iterator[Length]:
    match type:
        case FunctionType():
            for part in (*type.inputs, *type.results):
                yield from _in_type(part)
        case ShapedType():
            numbers = (*type.shape, *(type.row_strides if isinstance(type, MemRefType) else ()))
            yield from (n for n in numbers if isinstance(n, Length))
        case _:
            pass


def type_at(type: Type, lengths: Mapping[str, int]) -> Type:
    """A type for these lengths, which may follow from others."""
    match type:
        case FunctionType():
            inputs, results = (
                tuple([type_at(part, lengths) for part in parts]) for parts in (type.inputs, type.results)
            )
            return FunctionType(inputs, results)
        case TensorType():
            shape = tuple([value_at(size, lengths) for size in type.shape])
            return TensorType(shape, type.element, type.encoding)
        case _:
            return type


def attribute_at(attribute: Attribute, lengths: Mapping[str, int]) -> Attribute:
    """An attribute of an op on tensors for these lengths."""
    match attribute:
        case IntegerAttr():
            return IntegerAttr(value_at(attribute.value, lengths), attribute.type)
        case DenseArrayAttr():
            values = tuple([value_at(value, lengths) for value in attribute.values])
            return DenseArrayAttr(attribute.type, values)
        case ArrayAttr():
            return ArrayAttr(tuple([attribute_at(item, lengths) for item in attribute.items]))
        case DictAttr():
            return DictAttr(tuple([(name, attribute_at(item, lengths)) for name, item in attribute.items]))
        case TypeAttr():
            return TypeAttr(type_at(attribute.type, lengths))
        case ElementsAttr() if any(_in_type(attribute.type)):  # all its elements are equal
            type = type_at(attribute.type, lengths)
            assert isinstance(type, TensorType)
            return ElementsAttr(attribute.data if type.size else b"", type)
        case _:
            return attribute
