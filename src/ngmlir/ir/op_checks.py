# SPDX-License-Identifier: Apache-2.0
"""Checks of an op alone: the number and types of its operands and results, its attributes, its regions; not its context.
They are done once per distinct (op, types, attributes)."""

from __future__ import annotations

from collections.abc import Sequence

from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import LEAST, assume, guarding, lengths_from
from ..support.spelling import did_you_mean
from .attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from .core import ModuleOp, Op, Region, UnregisteredOp, op_name
from .definition import (
    ATTRIBUTE_RULES,
    ELEMENTS,
    AttributeField,
    OpDefinition,
    Operand,
    Typing,
    is_narrow,
)
from .elements import ElementsAttr
from .types import FloatType, IntegerType, Type, element_type, i1, i64


def complaints(op: Op) -> Sequence[Diagnostic]:
    """Errors in an op's operands, attributes and result types (not in its context)."""
    definition = op.definition
    if definition is None or isinstance(op, UnregisteredOp):
        return ()
    if op.regions or definition.regions:
        return _violations(op, definition, tuple([_yielded(r) for r in op.regions]))
    kind = op.kind
    if kind.complaints is None:
        with lengths_from(LEAST), guarding(for_later=True) as found:
            kind.complaints = tuple(_violations(op, definition, ())), tuple(found)
    found, assumed = kind.complaints
    assume(assumed)
    return found


def _yielded(region: Region) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """Types of a region's arguments and of what its last block yields."""
    if not region.blocks:
        return (), ()
    first, last = region.blocks[0], region.blocks[-1]
    end = last.ops[-1] if last.ops else None
    return tuple(a.type for a in first.args), tuple(o.type for o in end.operands) if end else ()


def _violations(
    op: Op, definition: OpDefinition, yields: tuple[tuple[tuple[Type, ...], tuple[Type, ...]], ...]
) -> Sequence[Diagnostic]:
    unknown = _unknown_attributes(op, definition)
    for name in op.attributes.keys() & ATTRIBUTE_RULES.keys():
        unknown += ATTRIBUTE_RULES[name](op_name(op), op.attributes)
    if "\0" in op.symbol:
        unknown.append(Diagnostic("has a NUL in its symbol, which no object file can hold"))
    if isinstance(op, ModuleOp):
        if any(block.args for region in op.regions for block in region.blocks):
            unknown.append(Diagnostic("has a block with arguments, but no values for them"))
        return unknown
    bad = _signature_violations(op, definition)
    if bad or unknown or definition.rule is None:
        return [*unknown, *[Diagnostic(message) for message in bad]]
    stated = tuple(r.type for r in op.results)
    try:
        expected = tuple(
            definition.rule(Typing(tuple(o.type for o in op.operands), op.attributes, stated, yields))
        )
    except UserError as error:
        return error.diagnostics
    if expected != stated:
        return [Diagnostic(f"gives ({listed(expected)}), but ({listed(stated)}) is stated")]
    return ()


def _unknown_attributes(op: Op, definition: OpDefinition) -> list[Diagnostic]:
    """Attributes without a dialect's prefix belong to the op, so its definition must name them."""
    own = [field.name for field in definition.attributes]
    if "function" in definition.traits:
        own += _FUNCTION_ATTRIBUTES
    if "symbol_table" in definition.traits:
        own += _TABLE_ATTRIBUTES
    bad = [
        Diagnostic(
            f"has no attribute '{name}'",
            hint=did_you_mean(
                name, own, f"its attributes: {', '.join(own) or 'none'}; others need a prefix, x.{name}"
            ),
        )
        for name in op.attributes
        if "." not in name and name not in own
    ]
    for which in _FUNCTION_ATTRIBUTES[1:]:
        for name in _names_in(op.attributes.get(which)):
            if "." not in name:
                of = "an argument" if which == "arg_attrs" else "a result"
                bad.append(
                    Diagnostic(f"has the attribute '{name}' on {of}", hint=f"it needs a prefix, x.{name}")
                )
    return bad


def _names_in(attribute: Attribute | None) -> list[str]:
    if not isinstance(attribute, ArrayAttr):
        return []
    return [name for item in attribute.items if isinstance(item, DictAttr) for name, _ in item.items]


#: Attributes that every function-like op may have in addition to its own.
_FUNCTION_ATTRIBUTES = ("sym_visibility", "arg_attrs", "res_attrs")
#: Attributes that every op with a symbol table may have: it may be a symbol itself.
_TABLE_ATTRIBUTES = ("sym_name", "sym_visibility")


def _signature_violations(op: Op, definition: OpDefinition) -> list[str]:
    """Errors in the number of operands, results and regions, and in the kind of each."""
    bad: list[str] = []
    types = [o.type for o in op.operands]
    if definition.regions and len(op.regions) != len(definition.regions):
        bad.append(f"takes {len(definition.regions)} regions, not {len(op.regions)}")
    if not definition.regions and op.regions:
        bad.append("takes no regions")
    groups = definition.operand_groups(len(types), op.attributes)
    if groups is None:
        counted = [f"{o.counted} = {op.attributes.get(o.counted)}" for o in definition.operands if o.counted]
        told = f" with {', '.join(counted)}" if counted else ""
        return [*bad, f"takes {len(definition.operands)} operands{told}, not {len(types)}"]
    bound: dict[str, Type] = {}
    for operand, start, stop in groups:
        for type in types[start:stop]:
            bad += _constrained(operand, type, bound, "operand")
    bad += _attributes(op, definition)
    if bad or "function" in definition.traits:
        return bad
    results = [r.type for r in op.results]
    variadic = any(r.variadic for r in definition.results)
    if not variadic and len(results) != len(definition.results):
        return [f"gives {len(definition.results)} results, not {len(results)}"]
    if not variadic:
        for result, type in zip(definition.results, results, strict=True):
            bad += _constrained(result, type, bound, "result")
    return bad


def _constrained(operand: Operand, type: Type, bound: dict[str, Type], what: str) -> list[str]:
    if not operand.constraint.accepts(type):
        known = element_type(type)
        foreign = isinstance(known, (FloatType, IntegerType)) and not ELEMENTS["element"](known)
        note = f"; ngmlir cannot compute with {known}" if foreign else ""
        if is_narrow(known) and operand.constraint.element not in ("", "stored"):
            note = f"; {known} can only be stored and moved; convert it with ng.cast"
        return [f"{what} '{operand.name}' must be {operand.constraint.words}, not {type}{note}"]
    if operand.variable:
        known = bound.setdefault(operand.variable, type)
        if known is not type:
            return [f"{what} '{operand.name}' must be {known}, not {type}"]
    return []


def _attributes(op: Op, definition: OpDefinition) -> list[str]:
    bad: list[str] = []
    for field in definition.attributes:
        value = op.attributes.get(field.name)
        if value is None:
            if field.default is None and not field.optional:
                bad.append(f"needs the attribute '{field.name}' ({field.words})")
        elif not _is_kind(field, value):
            bad.append(f"attribute '{field.name}' must be {field.words}, not {value}")
    return bad


def _is_kind(field: AttributeField, value: Attribute) -> bool:
    match field.kind:
        case "i64":
            return isinstance(value, IntegerAttr) and value.type is i64
        case "i64s":
            return isinstance(value, DenseArrayAttr) and value.type is i64
        case "bools":
            return isinstance(value, DenseArrayAttr) and value.type is i1
        case "bool":
            return isinstance(value, IntegerAttr) and value.type is i1
        case "str" | "name":
            return isinstance(value, StringAttr)
        case "symbol":
            return isinstance(value, SymbolRefAttr)
        case "type":
            return isinstance(value, TypeAttr)
        case "unit":
            return isinstance(value, UnitAttr)
        case "axes":
            return isinstance(value, AxesAttr)
        case "number":
            return isinstance(value, (FloatAttr, IntegerAttr))
        case "literal":
            return isinstance(value, (FloatAttr, IntegerAttr, ElementsAttr))
        case kind if kind.startswith("enum("):
            return isinstance(value, StringAttr) and value.value in kind[5:-1].split("|")
        case _:
            return True


def listed(types: Sequence[Type]) -> str:
    """Types as messages have them."""
    return ", ".join(map(str, types))
