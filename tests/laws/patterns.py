# SPDX-License-Identifier: Apache-2.0
"""What rules look for, grown into random programs: the left side of a rule on values that are there."""

from __future__ import annotations

from math import inf

from growing import Fact, Maker
from reach import fits, may_err, reach, same_type

from ngmlir.decl.rule_text import Call, Number, Pattern, Rule, Variable
from ngmlir.ir.core import Value
from ngmlir.ir.definition import ELEMENTS
from ngmlir.ir.types import IntegerType, TensorType, Type, i1, with_element
from ngmlir.ops.builder import build_op
from ngmlir.ops.words import WORDS
from ngmlir.rewrite.rules import holds, load_rules, number_in


def is_about_types(rule: Rule) -> bool:
    """Whether it concerns shapes or types, and not numbers."""

    def stated(pattern: Pattern) -> bool:
        if not isinstance(pattern, Call):
            return False
        definition = WORDS[pattern.op].definition
        return definition is not None and (
            "stated" in definition.traits or any(map(stated, pattern.operands))
        )

    return stated(rule.pattern)


#: The rules that need no assumption, about numbers.
EXACT = [rule for rule in load_rules("prune") if not rule.assumptions and not is_about_types(rule)]


def operand_types(call: Call, type: Type) -> list[Type]:
    """The types of an op's operands where it works on values of one type: truths where it takes only these."""
    definition = WORDS[call.op].definition
    assert definition is not None
    truth = with_element(type, i1)
    return [truth if o.constraint.element == "bool" else type for o in definition.operands]


class _NoFit(Exception):
    """The rule is not about values of this type, or of these values."""


def grow(m: Maker, rule: Rule) -> bool:
    """Adds the rule's left side on values of some element type; False where none fits."""
    for element in [*dict.fromkeys([m.pick(m.elements), *m.elements])]:
        if not _of_kind(rule.when, element):
            continue
        try:
            base = m.type(element)
            value = _grown(m, rule.pattern, base, base, {})
        except _NoFit:
            continue  # what was made stays, unused
        m.add(value, kept=value)
        return True
    return False


def _of_kind(kind: str, element: Type) -> bool:
    unsigned = isinstance(element, IntegerType) and element.unsigned
    if kind in ("signed", "unsigned"):
        return ELEMENTS["integer"](element) and unsigned == (kind == "unsigned")
    return not kind or ELEMENTS[kind](element)


def _grown(m: Maker, pattern: Pattern, type: TensorType, base: TensorType, known: dict[str, Value]) -> Value:
    """A part of a rule about values of type `base`, where one of `type` is wanted."""
    match pattern:
        case Variable(name):
            if name not in known:
                # Mostly another value than that of another variable, else a rule about equal ones comes first.
                others = () if m.chance(4) else tuple(known.values())
                known[name] = m.like(type, lambda v: v not in others and m.smooth(v))
            if known[name].type is not type:
                raise _NoFit
            return known[name]
        case Number(number):
            if not holds(type.element, number):
                raise _NoFit
            value = m.builder.number(number_in(number, type.element), type)
            size = float(number) if not isinstance(number, str) else inf
            m.facts[value] = Fact(abs(size), abs(size) < inf and size == round(size))
            return value
        case Call():
            wanted = [_tensor(t) for t in operand_types(pattern, base)]
            operands = [_grown(m, p, t, base, known) for p, t in zip(pattern.operands, wanted, strict=True)]
            return _applied(m, pattern.op, operands)


def _applied(m: Maker, name: str, operands: list[Value]) -> Value:
    """The op on values, with what is known of its result."""
    op = WORDS[name]
    definition = op.definition
    assert definition is not None
    named = {o.variable: v.type for o, v in zip(definition.operands, operands, strict=True) if o.variable}
    for operand, v in zip(definition.operands, operands, strict=True):
        if not operand.constraint.accepts(v.type) or named.get(operand.variable, v.type) is not v.type:
            raise _NoFit
    facts, element = [m.facts[v] for v in operands], _tensor(operands[-1].type).element
    rough = any(f.rough for f in facts)
    if same_type(op, element):
        if not fits(m.exact, op, element, facts):
            raise _NoFit
        found = reach(op, element, tuple(f.bound for f in facts))
        whole = found.makes_whole or (found.keeps_whole and all(f.whole for f in facts))
        fact = Fact(found.bound, whole and found.bound < inf, rough or may_err(op, element))
    elif "compare" in definition.traits:
        if rough:
            raise _NoFit
        fact = Fact(1, True)
    else:
        chosen = [f for f, v in zip(facts, operands, strict=True) if v.type is operands[-1].type]
        fact = Fact(max(f.bound for f in chosen), all(f.whole for f in chosen), rough)
    value = m.builder.add_op(build_op(op, operands, {})).result
    m.facts[value] = fact
    return value


def _tensor(type: Type) -> TensorType:
    assert isinstance(type, TensorType)
    return type
