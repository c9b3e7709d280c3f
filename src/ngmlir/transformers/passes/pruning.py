# SPDX-License-Identifier: Apache-2.0
"""Simplification of ops by the rules of `lowering/prune.rules`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ...decl.rule_text import ASSUMPTIONS, Call, Number, Pattern, Rule, Variable
from ...ir.literals import dtype_of
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.tensor import Tensor, as_tensor
from ...op_graph.values import ConstantOp, constant
from ...op_graph.verbs import VERBS
from ...ops.words import WORDS
from ...rewrite.rules import Rules, holds, is_kind, load_rules, number_in
from ...support.spelling import did_you_mean
from .graph import PeepholeGraphPass

Bindings = Mapping[str, Tensor]


#: The rules whose assumptions `SimplePrune()` grants by default; it also uses all rules that assume nothing.
RULES = ("add_zero", "multiply_zero", "log_exp")


class SimplePrune(PeepholeGraphPass):
    """Replaces `x + 0`, `x * 0`, `x * 1`, `log(exp(x))` and the like by simpler ops, by rules of
    `lowering/prune.rules`.

    By default it uses the rules that assume nothing (results keep their bits) and `add_zero` (assumes that the sign of
    a zero does not matter), `multiply_zero` (also that nothing is NaN or infinite) and `log_exp` (assumes real numbers
    whose exponential does not overflow). `rules` names the only rules to use, and grants their assumptions; `assume`
    grants the named assumptions to all rules: `SimplePrune(assume=["nsz"])`, or none, `SimplePrune(assume=())`. With
    both, the named rules are used that assume no more.

    Raises UserError for an unknown rule or assumption.
    """

    def __init__(self, rules: Iterable[str] | None = None, assume: Iterable[str] | None = None):
        super().__init__()
        known = load_rules("prune")
        named = None if rules is None else _words(rules)
        granted = None if assume is None else _words(assume)
        _check("rule", named or (), [rule.name for rule in known])
        _check("assumption", granted or (), ASSUMPTIONS)
        if named is not None:
            known = tuple(rule for rule in known if rule.name in named)
        elif granted is None:
            known = tuple(rule for rule in known if not rule.assumptions or rule.name in RULES)
        self.rules: Rules = (
            known if granted is None else tuple(rule for rule in known if rule.assumptions <= set(granted))
        )
        self._by_op: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._by_op.setdefault(rule.pattern.op, []).append(rule)

    def visit(self, op: Op) -> None:
        """Replaces the op by the first rule of the file that matches."""
        if not isinstance(op, Tensor) or op.operation is None or op.is_constant:
            return
        for rule in self._by_op.get(op.operation.name, ()):
            for found in _matches(rule.pattern, op, {}):
                if _fits(rule, op, found):
                    self.replace_op(op, _built(rule.target, found, op))
                    return


def _words(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given.replace("+", " ").split() if isinstance(given, str) else given)


def _check(kind: str, given: Iterable[str], known: Sequence[str]) -> None:
    for word in given:
        if word not in known:
            fail(
                UserError, f"there is no {kind} {word!r}", did_you_mean(word, known, "see lowering/README.md")
            )


def _fits(rule: Rule, op: Tensor, found: Bindings) -> bool:
    operands = [as_tensor(arg) for arg in op.args]
    if rule.when and not is_kind(rule.when, operands[-1].element):
        return False
    match rule.target:
        case Variable(name) if found[name].type is not op.type:
            return False
        case Number(value) if not holds(op.element, value):
            return False
        case _:
            # Storage that an op deeper in the pattern read may have been written since.
            return all(
                storage is None or not storage.has_writes or value in [arg.forwarded for arg in op.args]
                for value in found.values()
                for storage in (value.storage_now,)
            )


def _matches(pattern: Pattern, op: Op, found: Bindings) -> Iterator[Bindings]:
    op = as_tensor(op.forwarded)
    match pattern:
        case Variable(name):
            if found.get(name, op) is op:
                yield {**found, name: op}
        case Number(value):
            if _is_number(op, value):
                yield found
        case Call(name, operands):
            if op.operation is None or op.operation.name != name:
                return
            yield from _match_all(operands, op.args, found)
            if "commutative" in _traits(op) and op.args[0] is not op.args[1]:
                yield from _match_all(operands, op.args[::-1], found)


def _traits(op: Tensor) -> frozenset[str]:
    definition = None if op.operation is None else op.operation.definition
    return frozenset() if definition is None else definition.traits


def _match_all(patterns: Sequence[Pattern], ops: Sequence[Op], found: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield found
        return
    for each in _matches(patterns[0], ops[0], found):
        yield from _match_all(patterns[1:], ops[1:], each)


def _is_number(op: Tensor, number: float | int | bool | Literal["ones"]) -> bool:
    """Whether all elements are a constant with the bits of `number`."""
    while op.is_view and op.args:
        op = as_tensor(op.args[0].forwarded)
    if not isinstance(op, ConstantOp) or op.value.ndim or not holds(op.element, number):
        return False
    return op.value.tobytes() == dtype_of(op.element).type(number_in(number, op.element)).tobytes()


def _built(target: Pattern, found: Bindings, op: Tensor) -> Tensor:
    match target:
        case Variable(name):
            return found[name]
        case Number(value):
            return constant(number_in(value, op.element), axes=op.axes, dtype=op.element)
        case Call(name, patterns):
            cls = WORDS[name]
            operands = [_built(pattern, found, op) for pattern in patterns]
            return VERBS.stated(cls, operands, {}, op.axes, op.element)
