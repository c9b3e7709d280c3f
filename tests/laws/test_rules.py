# SPDX-License-Identifier: Apache-2.0
"""Every rule of lowering/ holds as it says: the same bits without assumptions, what it names under them.

A rule is built as a program, rewritten by the engine, and both programs are run: on all 65,536 half-precision
values where it has one variable, on a dense set of special values where it has more. An assumption that is
not needed is an error too, and so is a rule that never fires.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from comparing import assert_close, assert_same_bits, largest_number
from generators import arguments, modules
from hypothesis import Phase, given, settings
from patterns import EXACT, operand_types

from ngmlir.decl.rule_text import Call, Number, Pattern, Rule, Variable
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import (
    TensorType,
    Type,
    bf16,
    element_type,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
    ui8,
    ui32,
    ui64,
)
from ngmlir.ir.verifier import check
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, build_op, function
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import WORDS, from_text, to_text
from ngmlir.rewrite.rules import apply_rules, load_rules, number_in
from ngmlir.support.diagnostics import UserError
from ngmlir.testing import special_numbers

Array = np.ndarray[Any, Any]
RULES = load_rules("prune")
#: Rules about shapes and types of their own: a program in which the rule fires, and what the result must be.
PROGRAMS = {
    "cast_nothing": ("%r = ng.cast %x : (tensor<4x3xf32>) -> tensor<4x3xf32>", "%x"),
    "bitcast_nothing": ("%r = ng.bitcast %x : (tensor<4x3xf32>) -> tensor<4x3xf32>", "%x"),
    "bitcast_bitcast": (
        "%a = ng.bitcast %x : (tensor<4x3xf32>) -> tensor<4x3xi32>\n%r = ng.bitcast %a : (tensor<4x3xi32>) -> tensor<4x3xui32>",
        "%r = ng.bitcast %x : (tensor<4x3xf32>) -> tensor<4x3xui32>",
    ),
    "reshape_nothing": ("%r = ng.reshape %x : (tensor<4x3xf32>) -> tensor<4x3xf32>", "%x"),
    "reshape_reshape": (
        "%a = ng.reshape %x : (tensor<4x3xf32>) -> tensor<12xf32>\n%r = ng.reshape %a : (tensor<12xf32>) -> tensor<6x2xf32>",
        "%r = ng.reshape %x : (tensor<4x3xf32>) -> tensor<6x2xf32>",
    ),
    "cast_axes_nothing": ("%r = ng.cast_axes %x : (tensor<4x3xf32>) -> tensor<4x3xf32>", "%x"),
    "cast_axes_cast_axes": (
        "%a = ng.cast_axes %x : (tensor<4x3xf32>) -> tensor<4x3xf32, #ng.axes<N, C>>\n"
        "%r = ng.cast_axes %a : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xf32, #ng.axes<N, K>>",
        "%r = ng.cast_axes %x : (tensor<4x3xf32>) -> tensor<4x3xf32, #ng.axes<N, K>>",
    ),
    "broadcast_nothing": ("%r = ng.broadcast %x dims [0, 1] : (tensor<4x3xf32>) -> tensor<4x3xf32>", "%x"),
}
NUMERIC = [rule for rule in RULES if rule.name not in PROGRAMS]
ROUNDING = frozenset({"reassoc", "approx"})


def name(rule: Rule) -> str:
    return rule.name


# -- a rule as a program -------------------------------------------------------------------------------------


@dataclass
class Program:
    """A pattern as a function whose results are the value of every op in it, the whole last."""

    block: Block = field(default_factory=Block)
    values: dict[str, Value] = field(default_factory=dict)
    made: list[Value] = field(default_factory=list)

    def module(self, results: Sequence[Value]) -> Module:
        Builder(self.block).end(func.ReturnOp, *results)
        made = module([function("main", self.block)])
        check(made)
        return made


def variable_types(rule: Rule, type: Type) -> dict[str, Type]:
    """`type` for every variable but those that stand where an op takes i1 only."""
    found: dict[str, Type] = {}

    def walk(pattern: Pattern, wanted: Type) -> None:
        match pattern:
            case Variable(variable):
                found[variable] = wanted
            case Call():
                for operand, inner in zip(pattern.operands, operand_types(pattern, type), strict=True):
                    walk(operand, inner)
            case Number():
                pass

    walk(rule.pattern, type)
    return found


def program(rule: Rule, type: Type) -> Program | None:
    """The rule's pattern on values of one type; None where its ops do not take that type."""
    made = Program()
    types = variable_types(rule, type)
    made.block.args = Block([types[v] for v in rule.variables], rule.variables).args
    made.values = dict(zip(rule.variables, made.block.args, strict=True))
    builder = Builder(made.block)

    def build(pattern: Pattern, wanted: Type) -> Value:
        match pattern:
            case Variable(variable):
                return made.values[variable]
            case Number():
                return builder.number(number_in(pattern.value, element_type(wanted)), wanted)
            case Call():
                # i1 stands for a truth that a comparison made, where the op around it takes one.
                operands = [
                    build(o, t) for o, t in zip(pattern.operands, operand_types(pattern, type), strict=True)
                ]
                op = builder.add_op(build_op(WORDS[pattern.op], operands, {}))
                made.made.append(op.result)
                return op.result

    try:
        build(rule.pattern, type)
        copy = Block()
        copy.args, copy.ops = made.block.args, list(made.block.ops)
        Program(copy).module(made.made[-1:])
    except (UserError, OverflowError):
        return None
    return made


def values_of(type: Type, count: int) -> list[Array]:
    """Arguments for `count` variables of one element type: every value, or every combination of special ones."""
    element = element_type(type)
    dtype = dtype_of(element)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        every = np.arange(256, dtype=np.uint8).view(dtype)
        chosen = every if count < 3 else every[::9]
    elif dtype.kind == "b":
        chosen = np.array([False, True])
    elif dtype.kind in "iu":
        chosen = special_numbers(element)[:: 1 if count < 3 else 2]
    elif dtype == np.float16 and count == 1:
        chosen = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    else:
        chosen = special_numbers(element)[:: 1 if count < 3 else 2]
    return [np.ascontiguousarray(c).reshape(-1) for c in np.meshgrid(*[chosen] * count, indexing="ij")]


# -- what a rule promises ------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """Both sides of a rule on many inputs, and for each input whether NaN or infinities take part, on either side.

    Where a rule may round otherwise (`reassoc`, `approx`), sums and products may also overflow otherwise: so infinite
    results are compared where an operand is infinite, and finite ones are left to the test on real numbers.
    """

    before: Array
    after: Array
    nan: Array
    infinite: Array
    given_infinite: Array  # among the operands

    def differing(self, assume: frozenset[str]) -> Array:
        """Which inputs tell the two sides apart, when `assume` is granted."""
        same = self.before == self.after
        if self.before.dtype.kind not in "biu":
            nans = np.isnan(self.before), np.isnan(self.after)
            if assume & ROUNDING:
                infinite = np.isinf(self.before) | np.isinf(self.after)
                same |= ~(infinite & self.given_infinite)
                same &= nans[0] == nans[1]
            if "nsz" not in assume:
                zero = (self.before == 0) & (self.after == 0)
                same &= ~zero | (np.signbit(self.before) == np.signbit(self.after))
            same |= nans[0] & nans[1]
        excluded = np.zeros_like(same)
        if "nnan" in assume:
            excluded |= self.nan
        if "ninf" in assume:
            excluded |= self.infinite
        return ~same & ~excluded


def rewritten(rule: Rule, made: Program) -> Module:
    block = Block()
    block.args, block.ops = made.block.args, list(made.block.ops)
    fired: list[str] = []
    before = Program(block).module(made.made[-1:])
    after = apply_rules(before, (rule,), rule.assumptions, lambda fires, op: fired.append(fires.name))
    assert fired.count(rule.name) >= 1 or after is before
    check(after)
    return after


def outcome(rule: Rule, type: Type, arguments: Sequence[Array] | None = None) -> Outcome | None:
    """None where the rule is not for values of this element type."""
    shape_probe = TensorType((1,), type)
    if program(rule, shape_probe) is None:
        return None
    types = variable_types(rule, shape_probe)
    if arguments is None:
        plain = [v for v in rule.variables if element_type(types[v]) is type]
        inputs = dict(zip(plain, values_of(type, len(plain)), strict=True)) if plain else {}
        count = len(next(iter(inputs.values()))) if inputs else 1
        truths = [v for v in rule.variables if v not in inputs]
        for i, variable in enumerate(truths):  # every combination of truths with every combination of values
            inputs = {k: np.tile(a, 2) for k, a in inputs.items()}
            inputs[variable] = np.repeat([False, True], count << i)
        arguments = [inputs[v] for v in rule.variables]
    size = len(arguments[0]) if arguments else 1
    made = program(rule, TensorType((size,), type))
    assert made is not None
    after = rewritten(rule, made)
    before = made.module(made.made)
    if to_text(after) == to_text(rebuilt(made)):
        return None
    steps = run(before, *arguments)
    (result,) = run(after, *arguments)
    given = [np.broadcast_to(a, (size,)) for a in arguments if a.dtype.kind not in "biu"]
    seen = [*given, *(a for a in (*steps, result) if a.dtype.kind not in "biu")]
    none = np.zeros((1, size), bool)
    nan, infinite = (np.any([*none, *map(f, seen)], axis=0) for f in (np.isnan, np.isinf))
    return Outcome(steps[-1], result, nan, infinite, np.any([*none, *map(np.isinf, given)], axis=0))


def rebuilt(made: Program) -> Module:
    block = Block()
    block.args, block.ops = made.block.args, [op for op in made.block.ops if op.name != "func.return"]
    return Program(block).module(made.made[-1:])


ELEMENTS: tuple[Type, ...] = (f16, bf16, f32, f64, i8, ui8, i32, ui32, i64, ui64, i1)


def outcomes(rule: Rule) -> Iterator[tuple[Type, Outcome]]:
    for type in ELEMENTS:
        found = outcome(rule, type)
        if found is not None:
            yield type, found


def uses_math(pattern: Pattern) -> bool:
    match pattern:
        case Call(op, operands):
            definition = WORDS[op].definition
            assert definition is not None
            return "math" in definition.traits or any(map(uses_math, operands))
        case _:
            return False


@pytest.mark.parametrize("rule", NUMERIC, ids=name)
def test_rule_holds(rule: Rule) -> None:
    fired = False
    for type, found in outcomes(rule):
        fired = True
        differing = found.differing(rule.assumptions)
        if type is f64 and uses_math(rule.pattern):
            # In f64 the reference of a math function may itself be off by its last bit.
            differing &= ~np.isclose(found.before, found.after, rtol=2.0**-52, atol=0)
        wrong = np.flatnonzero(differing)
        assert not len(wrong), (
            f"{rule.name} on {type}: {found.before[wrong[0]]!r} becomes {found.after[wrong[0]]!r}"
        )
    assert fired, f"{rule.name} never fires"


@pytest.mark.parametrize("rule", [r for r in NUMERIC if r.assumptions & ROUNDING], ids=name)
def test_rule_holds_for_real_numbers(rule: Rule) -> None:
    """Where only rounding tells the sides apart, they agree to a few roundings on numbers of ordinary size."""
    generator = np.random.default_rng(7)
    arguments = [generator.uniform(0.5, 4.0, 1000) * generator.choice([-1, 1], 1000) for _ in rule.variables]
    found = outcome(rule, f64, arguments)
    assert found is not None
    apart = found.differing(rule.assumptions - ROUNDING) & ~np.isclose(
        found.before, found.after, rtol=1e-12, atol=1e-12
    )
    assert not apart.any(), f"{rule.name}: {found.before[apart][0]!r} becomes {found.after[apart][0]!r}"


@pytest.mark.parametrize(
    ("rule", "assumption"),
    [(r, a) for r in NUMERIC for a in sorted(r.assumptions)],
    ids=lambda p: getattr(p, "name", p),
)
def test_assumption_is_needed(rule: Rule, assumption: str) -> None:
    found = outcome(rule, f16)
    assert found is not None
    assert found.differing(rule.assumptions - {assumption}).any(), f"{rule.name} needs no '{assumption}'"


@pytest.mark.parametrize("rule", NUMERIC, ids=name)
def test_rule_is_reached(rule: Rule) -> None:
    """No rule hides behind those above it, and what the rules leave they leave again."""
    fired: list[str] = []
    for type in ELEMENTS:
        made = program(rule, TensorType((4,), type))
        if made is None:
            continue
        before = made.module(made.made[-1:])
        alone = apply_rules(before, (rule,), rule.assumptions)
        if alone is before:
            continue
        after = apply_rules(before, RULES, rule.assumptions, lambda fires, op: fired.append(fires.name))
        check(after)
        assert apply_rules(after, RULES, rule.assumptions) is after
    assert rule.name in fired


@pytest.mark.parametrize("rule_name", PROGRAMS)
def test_view_rule(rule_name: str) -> None:
    lines, expected = PROGRAMS[rule_name]
    result = lines.rpartition("-> ")[2]

    def text(lines: str, value: str) -> str:
        return f"func.func @main(%x: tensor<4x3xf32>) -> {result} {{\n{lines}\nreturn {value} : {result}\n}}"

    before = from_text(text(lines, "%r"))
    fired: list[str] = []
    after = apply_rules(before, RULES, observer=lambda rule, op: fired.append(rule.name))
    check(after)
    assert rule_name in fired
    argument = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(run(after, argument)[0], run(before, argument)[0])
    wanted = from_text(text(expected, "%r") if " = " in expected else text("", expected))
    assert to_text(unused_removed(after)) == to_text(wanted)


def body(of: Module) -> Block:
    return of.ops[0].regions[0].block


def unused_removed(of: Module) -> Module:
    """The function without ops whose result nobody uses."""
    (main,) = of.ops
    used = {v for op in main.walk() for v in op.operands}
    block = Block()
    block.args, block.ops = body(of).args, [op for op in body(of).ops if not op.results or op.result in used]
    return module([function("main", block)])


def test_every_rule_is_tested() -> None:
    assert {r.name for r in NUMERIC} | set(PROGRAMS) == {r.name for r in RULES}


def test_type_of_the_replaced_op_is_kept() -> None:
    text = """
    func.func @main(%x: tensor<4x3xf16, #ng.axes<N, C>>) -> tensor<4x3xf16, #ng.axes<N, C>> {
      %r = ng.subtract %x, %x : tensor<4x3xf16, #ng.axes<N, C>>
      return %r : tensor<4x3xf16, #ng.axes<N, C>>
    }"""
    after = apply_rules(from_text(text), RULES, frozenset({"nnan"}))
    assert "ng.constant dense<0.0> : tensor<4x3xf16, #ng.axes<N, C>>" in to_text(after)


def test_constants_are_seen_through_broadcasts_and_in_either_order() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %one = ng.constant dense<1.0> : tensor<f32>
      %wide = ng.broadcast %one dims [] : (tensor<f32>) -> tensor<4xf32>
      %r = ng.multiply %wide, %x : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    assert "ng.multiply" not in to_text(apply_rules(from_text(text), RULES))


def test_zeros_are_told_apart() -> None:
    def pruned(zero: str) -> str:
        text = f"""
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %z = ng.constant dense<{zero}> : tensor<4xf32>
          %r = ng.add %x, %z : tensor<4xf32>
          return %r : tensor<4xf32>
        }}"""
        return to_text(apply_rules(from_text(text), RULES))

    assert "ng.add" not in pruned("-0.0")
    assert "ng.add" in pruned("0.0")


def test_rules_meet_in_one_sweep() -> None:
    """What a rule builds is offered to the rules again, so a chain collapses whatever its length."""
    lines = [f"%{i + 1} = ng.negative %{i} : tensor<4xf32>" for i in range(100)]
    text = (
        "func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {\n"
        + "\n".join(lines)
        + "\nreturn %100 : tensor<4xf32>\n}"
    )
    after = unused_removed(apply_rules(from_text(text), RULES))
    assert [op.name for op in body(after).ops] == ["func.return"]
    assert body(after).ops[0].operands == body(after).args


def test_special_values_are_dense() -> None:
    pairs = list(itertools.islice(zip(*values_of(f16, 2), strict=True), 10))
    assert len(pairs) == 10
    assert len(values_of(f16, 1)[0]) == 1 << 16


@pytest.mark.parametrize("rule", EXACT, ids=name)
def test_exact_rule_fires_in_random_programs(rule: Rule) -> None:
    """And keeps their meaning, whatever stands around it."""
    fired: list[str] = []
    # Functions of the library stand only in programs whose last bits are free.
    exact = not uses_math(rule.pattern)

    @settings(max_examples=4, phases=[Phase.generate])  # to shrink a program takes minutes
    @given(of=modules(exact=exact, control=False, most_ops=5, rule=rule))
    def holds(of: Module) -> None:
        after = apply_rules(of, RULES, observer=lambda fires, op: fired.append(fires.name))
        check(after)
        arrays = arguments(of)
        wanted, got = run(of, *arrays), run(after, *arrays)
        if exact:
            assert_same_bits(got, wanted)
        else:
            assert_close(got, wanted, largest_number(of, arrays))

    holds()
    assert rule.name in fired
