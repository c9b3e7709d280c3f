# SPDX-License-Identifier: Apache-2.0
"""Rewrites a module by the rules of a text file in `lowering/`.

Rules are applied in one forward sweep: an op's operands are simplified before it, and rules are applied again to the ops
that a rule builds. The first rule in the file that matches is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

from ..decl.rule_text import Call, Number, Pattern, Rule, Variable, read_rules
from ..ir.attributes import FloatAttr, IntegerAttr, numeric_literal
from ..ir.core import Module, Op, Value
from ..ir.definition import ELEMENTS, OpDefinition
from ..ir.elements import ElementsAttr
from ..ir.literals import integer_fits, item_bytes
from ..ir.types import FloatType, IndexType, IntegerType, Type, element_type, i1
from ..ops.builder import Builder, build_op
from ..ops.words import WORDS
from ..support.diagnostics import UserError
from ..support.home import folder
from .sweep import sweep

Rules = tuple[Rule, ...]
Bindings = Mapping[str, Value]
#: Called with each rule that is applied, and the op that it replaces.
Observer = Callable[[Rule, Op], None]

#: Most rules that are applied to one op in sequence. A set of rules that needs more does not terminate.
MOST_STEPS = 64


@cache
def load_rules(name: str) -> Rules:
    """The rules of `lowering/NAME.rules`."""
    counts = {
        op: len(cls.definition.operands)
        for op, cls in WORDS.items()
        if cls.definition is not None and len(cls.definition.results) == 1 and not cls.definition.regions
    }
    rules = read_rules(folder("lowering") / f"{name}.rules", counts)
    for rule in rules:
        _check_target(rule, rule.target)
    return rules


def _check_target(rule: Rule, target: Pattern) -> None:
    """Raises UserError where the attributes or the type of an op to build are not determined."""
    if not isinstance(target, Call):
        return
    definition = WORDS[target.op].definition
    assert definition is not None
    if any(a.default is None and not a.optional for a in definition.attributes):
        raise UserError(f"rule '{rule.name}' builds {target.op} without its attributes", rule.location)
    if target is not rule.target and "stated" in definition.traits:
        raise UserError(f"rule '{rule.name}' builds {target.op} of an unknown type", rule.location)
    for operand in target.operands:
        _check_target(rule, operand)


def apply_rules(
    module: Module, rules: Rules, assume: frozenset[str] = frozenset(), observer: Observer | None = None
) -> Module:
    """The module after applying all rules whose assumptions are in `assume`; the same module if none applies."""
    engine = _Engine(rules, assume, observer)
    return sweep(module, engine.rewrite, frozenset(engine.by_op))


class _Engine:
    def __init__(self, rules: Rules, assume: frozenset[str], observer: Observer | None):
        self.by_op: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.assumptions <= assume:
                self.by_op.setdefault(rule.pattern.op, []).append(rule)
        self.observer = observer
        self.steps = 0

    def rewrite(self, op: Op, builder: Builder) -> Sequence[Value] | None:
        self.steps = 0
        found = self.simpler(op, builder)
        return None if found is None else (found,)

    def simpler(self, op: Op, builder: Builder) -> Value | None:
        """The value that replaces the op's result; None where no rule applies."""
        for rule in self.by_op.get(op.name, ()):
            bindings = _match_rule(rule, op)
            if bindings is None:
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise UserError(f"the rules do not terminate; the last one was '{rule.name}'", rule.location)
            if self.observer is not None:
                self.observer(rule, op)
            return self.built(rule.target, bindings, op.result.type, builder)
        return None

    def built(self, target: Pattern, bindings: Bindings, type: Type, builder: Builder) -> Value:
        match target:
            case Variable(name):
                return bindings[name]
            case Number(value):
                return builder.number(number_in(value, element_type(type)), type)
            case Call(name, patterns):
                cls = WORDS[name]
                assert cls.definition is not None
                operands: list[Value | None] = [
                    None if isinstance(p, Number) else self.built(p, bindings, type, builder)
                    for p in patterns
                ]
                wanted = _number_types(cls.definition, operands, type)
                given = [
                    builder.number(number_in(p.value, element_type(t)), t) if isinstance(p, Number) else v
                    for p, t, v in zip(patterns, wanted, operands, strict=True)
                ]
                made = build_op(
                    cls, [v for v in given if v is not None], {}, types=[type], location=builder.location
                )
                return self.simpler(made, builder) or builder.add_op(made).result


def _number_types(definition: OpDefinition, operands: Sequence[Value | None], result: Type) -> list[Type]:
    """For each operand the type of a number in its place: that of an operand with the same type variable, else that of the result."""
    known = {d.variable: v.type for d, v in zip(definition.operands, operands, strict=True) if v is not None}
    return [known.get(d.variable, result) for d in definition.operands]


# -- matching ------------------------------------------------------------------------------------------------


def _match_rule(rule: Rule, op: Op) -> Bindings | None:
    for bindings in _match_call(rule.pattern, op, {}):
        if rule.when and not is_kind(rule.when, element_type(op.operands[-1].type)):
            return None
        # The replacement must be a value of the same type, or a number that the type can represent.
        match rule.target:
            case Variable(name) if bindings[name].type is not op.result.type:
                continue
            case Number(value) if not holds(element_type(op.result.type), value):
                continue
            case _:
                return bindings
    return None


def _match(pattern: Pattern, value: Value, bindings: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Variable(name):
            bound = bindings.get(name)
            if bound is None:
                yield {**bindings, name: value}
            elif bound is value:
                yield bindings
        case Number(number):
            if _is_number(value, number):
                yield bindings
        case Call(name):
            if isinstance(value.owner, Op) and value.owner.name == name:
                yield from _match_call(pattern, value.owner, bindings)


def _match_call(pattern: Call, op: Op, bindings: Bindings) -> Iterator[Bindings]:
    yield from _match_all(pattern.operands, op.operands, bindings)
    if "commutative" in op.traits and op.operands[0] is not op.operands[1]:
        yield from _match_all(pattern.operands, op.operands[::-1], bindings)


def _match_all(
    patterns: Sequence[Pattern], values: Sequence[Value], bindings: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bindings
        return
    for found in _match(patterns[0], values[0], bindings):
        yield from _match_all(patterns[1:], values[1:], found)


def _is_number(value: Value, number: float | int | bool | Literal["ones"]) -> bool:
    """Whether every element of `value` is a constant with the bits of `number`."""
    op = value.owner
    while isinstance(op, Op) and "view" in op.traits:
        op = op.operands[0].owner
    if not isinstance(op, Op) or op.name != "ng.constant":
        return False
    element = element_type(op.result.type)
    if not holds(element, number):
        return False
    wanted, literal = numeric_literal(number_in(number, element), element), op.attributes["value"]
    if not isinstance(literal, ElementsAttr):
        return literal is wanted
    assert isinstance(wanted, (FloatAttr, IntegerAttr))
    bits = wanted.bits if isinstance(wanted, FloatAttr) else wanted.value
    return literal.splat and literal.bits == bits & ((1 << 8 * item_bytes(element)) - 1)


def number_in(number: float | int | bool | Literal["ones"], element: Type) -> float | int | bool:
    """`number` as one of this element type."""
    if number != "ones":
        return number
    if element is i1:
        return True
    return (1 << element.width) - 1 if isinstance(element, IntegerType) and element.unsigned else -1


def holds(element: Type, number: float | int | bool | Literal["ones"]) -> bool:
    """Whether an element type can represent `number`."""
    if number == "ones":
        return ELEMENTS["bits"](element)
    if isinstance(number, bool) or element is i1:
        return isinstance(number, bool) and element is i1
    if isinstance(element, FloatType):
        return True
    return (
        isinstance(number, int)
        and isinstance(element, (IntegerType, IndexType))
        and integer_fits(number, element)
    )


def is_kind(kind: str, element: Type) -> bool:
    match kind:
        case "unsigned":
            return isinstance(element, IntegerType) and element.unsigned
        case "signed":
            return ELEMENTS["integer"](element) and not is_kind("unsigned", element)
        case _:
            return ELEMENTS[kind](element)
