# SPDX-License-Identifier: Apache-2.0
"""Programs of named variables: text and bytes, what a block sees, extraction, gradients, and the way to values."""

from __future__ import annotations

import inspect
import random
import re
import textwrap

import numpy as np
import pytest
from program_texts import TRAINED, appended, random_program, typed

from ngmlir.ir.types import i64
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.programs.attributes import completed
from ngmlir.programs.backward import append_backward, append_gradients
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.definition import Definition
from ngmlir.programs.descriptions import Operator, Program
from ngmlir.programs.lower import lower
from ngmlir.programs.passes import PROGRAM_PASSES
from ngmlir.programs.prune import pruned
from ngmlir.programs.text import parse_bytes, program_bytes, program_text, read_program
from ngmlir.support.diagnostics import UserError

CPU = cpu_target("x86-64-v3")


# ---- text and bytes


def test_a_thousand_programs_survive_text_and_bytes() -> None:
    for seed in range(1000):
        program = random_program(seed, seed % 20)
        text = program_text(program)
        assert program_text(read_program(text)) == text
        again = parse_bytes(program_bytes(program))
        assert program_text(again, locations=True) == program_text(program, locations=True)


def test_bytes_that_were_cut_or_altered_are_refused() -> None:
    data = program_bytes(random_program(1))
    with pytest.raises(UserError, match="cut short"):
        parse_bytes(data[: len(data) // 2])
    for at in range(0, len(data) - 80, 97):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(UserError):
            parse_bytes(bytes(damaged))


def test_a_later_version_is_refused() -> None:
    text = program_text(random_program(1)).replace("program.version = 1", "program.version = 2")
    with pytest.raises(UserError, match="of version 2"):
        read_program(text)


def test_edits_show_in_the_text() -> None:
    program = random_program(3)
    block = program.top
    operator = block.operators[4]
    before = program.edits
    operator.rename("inputs", operator.reads[0], "w1")
    block.variables["w0"].set_flag("stop_gradient", True)
    assert program.edits == before + 2
    again = read_program(program_text(program))
    assert again.top.operators[4].inputs == operator.inputs
    assert again.top.variables["w0"].flag("stop_gradient")


def test_a_copy_is_edited_by_itself() -> None:
    program = random_program(5)
    text = program_text(program)
    copy = program.copy()
    copy.top.remove_operators(0, 3)
    copy.top.declare("more", typed(2))
    assert program_text(program) == text


# ---- blocks


def with_sub_block() -> Program:
    return read_program("""
        module attributes {program.version = 1 : i64} {
          program.var @x : tensor<4xf32>
          program.block 1 {
            program.var @y : tensor<4xf32>
            program.op relu {X = [@x]} -> {Out = [@y]}
          }
          program.block 2 {
          }
        }
    """)


def test_names_climb_to_the_blocks_around() -> None:
    program = with_sub_block()
    inner = program.block(1)
    assert inner.find("x") is program.top.variables["x"]
    assert inner.find("y") is inner.variables["y"]
    assert program.top.find("y") is None
    with pytest.raises(UserError, match="is of block 1, which block 2 does not see"):
        program.block(2).visible("y")


def test_an_inner_name_hides_the_outer_one() -> None:
    program = with_sub_block()
    program.block(1).declare("x", typed(2))
    assert program.block(1).visible("x").shape == (2,)
    assert program.top.visible("x").shape == (4,)


def test_block_numbers_are_given_once() -> None:
    program = with_sub_block()
    assert program.top.append_block().index == 3
    assert [b.index for b in read_program(program_text(program)).blocks] == [0, 1, 2, 3]


# ---- extraction


def op(program: Program, type: str, inputs: list[str], outputs: list[str]) -> Operator:
    slots = {"X": inputs[:1], "Y": inputs[1:]} if len(inputs) > 1 else {"X": inputs}
    return appended(program.top, type, slots, {"Out": outputs})


def declared(*names: str) -> Program:
    program = Program()
    for name in names:
        program.top.declare(name, typed(4))
    return program


def kept(program: Program, *targets: Operator) -> int:
    return len(pruned(program, list(targets)).top.operators)


def test_extraction_keeps_as_many_operators_as_are_needed() -> None:
    one = declared("a")
    f = op(one, "relu", ["a"], ["b"])
    assert kept(one) == 0
    assert kept(one, f) == 1

    chain = declared("a")
    ops = [op(chain, "relu", [a], [b]) for a, b in zip("abcd", "bcde", strict=True)]
    assert [kept(chain, o) for o in ops] == [1, 2, 3, 4]

    join = declared("a0", "a1", "a2")
    for i in range(3):
        op(join, "relu", [f"a{i}"], [f"b{i}"])
    g = appended(join.top, "sum", {"X": ["b0", "b1", "b2"]}, {"Out": ["c"]})
    assert kept(join, g) == 4

    fork = declared("a")
    appended(fork.top, "top_k", {"X": ["a"]}, {"Out": ["b"], "Indices": ["c"]}, k=2)
    b = op(fork, "relu", ["b"], ["b1"])
    c = appended(fork.top, "cast", {"X": ["c"]}, {"Out": ["c1"]}, in_dtype="int64", out_dtype="float32")
    assert kept(fork, c) == 2
    assert kept(fork, b, c) == 3


def test_extraction_keeps_the_reachable_operators() -> None:
    for seed in range(1000):
        drawn = random.Random(seed)
        program = random_program(seed, 2 + seed % 15)
        ops = program.top.operators
        targets = drawn.sample(ops, drawn.randint(1, min(3, len(ops))))
        writers = {name: o for o in ops for name in o.writes}
        reachable: set[int] = set()
        stack = list(targets)
        while stack:
            each = stack.pop()
            if each.index not in reachable:
                reachable.add(each.index)
                stack += [writers[name] for name in each.reads if name in writers]
        found = pruned(program, targets).top
        assert [o.writes for o in found.operators] == [ops[i].writes for i in sorted(reachable)]
        assert set(found.variables) == {n for o in found.operators for n in (*o.reads, *o.writes)}


# ---- gradients


def types(program: Program, first: int) -> list[str]:
    return [o.type for o in program.top.operators[first:]]


def test_a_variable_read_twice_has_one_sum() -> None:
    program = Program()
    block = program.top
    block.declare("w", typed(4), flags=["persistable"], parameter=TRAINED)
    op(program, "elementwise_mul", ["w", "w"], ["y"])
    op(program, "mean", ["y"], ["loss"])
    first = len(block.operators)
    append_backward(block.variables["loss"])
    assert types(program, first) == ["fill_constant", "mean_grad", "elementwise_mul_grad", "sum"]
    assert block.operators[-1].inputs["X"] == ["w@GRAD@RENAME@0", "w@GRAD@RENAME@1"]
    w = np.array([1, 2, 3, 4], np.float32)
    assert np.allclose(value(program, "w@GRAD", w=w), 2 * w / 4)


def test_a_table_read_four_times_has_one_sum_of_four() -> None:
    program = Program()
    block = program.top
    block.declare("w", typed(5, 2), flags=["persistable"], parameter=TRAINED)
    for i in range(4):
        block.declare(f"i{i}", typed(3, 1, element=i64), flags=["data", "stop_gradient"])
        appended(block, "lookup_table", {"W": ["w"], "Ids": [f"i{i}"]}, {"Out": [f"e{i}"]})
    appended(block, "concat", {"X": [f"e{i}" for i in range(4)]}, {"Out": ["c"]}, axis=1)
    op(program, "mean", ["c"], ["loss"])
    append_backward(block.variables["loss"])
    sums = [o for o in block.operators if o.type == "sum"]
    assert [len(o.inputs["X"]) for o in sums] == [4]


def test_no_gradient_goes_where_none_is_wanted() -> None:
    program = Program()
    block = program.top
    block.declare("x", typed(4), flags=["data", "stop_gradient"])
    block.declare("w", typed(4), flags=["persistable"], parameter=TRAINED)
    op(program, "relu", ["x"], ["a"])  # computed from data alone
    op(program, "elementwise_mul", ["a", "w"], ["b"])
    op(program, "tanh", ["b"], ["stopped"])
    block.variables["stopped"].set_flag("stop_gradient", True)
    op(program, "elementwise_add", ["b", "stopped"], ["c"])
    op(program, "mean", ["c"], ["loss"])
    first = len(block.operators)
    append_backward(block.variables["loss"], no_gradient=["a"])
    assert types(program, first) == [
        "fill_constant",
        "mean_grad",
        "elementwise_add_grad",
        "elementwise_mul_grad",
    ]
    assert block.operators[-1].outputs == {"Y@GRAD": ["w@GRAD"]}


def test_gradients_of_gradients() -> None:
    program = Program()
    block = program.top
    block.declare("x", typed(1))
    op(program, "square", ["x"], ["x2"])
    op(program, "elementwise_mul", ["x2", "x"], ["y"])
    (dx,) = append_gradients([block.variables["y"]], [block.variables["x"]], [None])
    assert dx is not None
    copy = appended(block, "assign", {"X": [dx.name]}, {"Out": ["dx"]})
    assert copy.writes == ["dx"]
    (ddx,) = append_gradients([block.variables["dx"]], [block.variables["x"]], [None])
    assert ddx is not None
    assert np.allclose(value(program, "dx", x=np.float32([2])), 12)  # 3 x^2
    assert np.allclose(value(program, ddx.name, x=np.float32([2])), 12)  # 6 x


def test_a_value_that_a_gradient_needs_is_kept_before_it_is_overwritten() -> None:
    program = Program()
    block = program.top
    block.declare("w", typed(4), flags=["persistable"], parameter=TRAINED)
    op(program, "tanh", ["w"], ["h"])
    op(program, "square", ["h"], ["h"])
    op(program, "square", ["h"], ["h"])
    op(program, "mean", ["h"], ["loss"])
    append_backward(block.variables["loss"])
    assert [o.type for o in block.operators[:6]] == ["tanh", "assign", "square", "assign", "square", "mean"]
    w = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    t = np.tanh(w)
    assert np.allclose(value(program, "w@GRAD", w=w), 4 * t**3 * (1 - t * t) / 4, rtol=1e-5)


def test_a_loss_is_one_number() -> None:
    program = random_program(2)
    with pytest.raises(UserError, match="gradients are of one number"):
        append_backward(program.top.variables["v3"])


def value(program: Program, name: str, **values: np.ndarray) -> np.ndarray:
    """What a variable holds at the end, computed by the reference."""
    copy = program.copy()
    top = copy.top
    top.declare("feed", holds="feed_list", flags=["persistable"])
    top.declare("fetch", holds="fetch_list", flags=["persistable"])
    for i, each in enumerate(values):
        top.insert(
            i, "feed", {"X": ["feed"]}, {"Out": [each]}, completed(REGISTRY.get("feed").entry, {"col": i})
        )
    appended(top, "fetch", {"X": [name]}, {"Out": ["fetch"]}, col=0)
    lowered = lower(copy)
    return run(lowered.module, *values.values())[0]


# ---- passes


@pytest.mark.parametrize("name", PROGRAM_PASSES)
def test_the_example_of_a_pass_holds(name: str) -> None:
    doc = inspect.getdoc(PROGRAM_PASSES[name]) or ""
    found = re.search(r"^Before:\n(.*?)^After(?:, with `(\w+)=(\w+)`)?:\n(.*)", doc, re.MULTILINE | re.DOTALL)
    assert found, f"the docstring of {name} has no Before and After"
    options = {found[2]: found[3]} if found[2] else {}
    made = PROGRAM_PASSES[name](from_text(textwrap.dedent(found[1])), CPU, **options)
    assert to_text(made) == to_text(from_text(textwrap.dedent(found[4])))


# ---- the registry


def test_a_second_operator_of_one_type_is_refused() -> None:
    with pytest.raises(UserError, match="there is an operator relu already"):
        REGISTRY.add(Definition(REGISTRY.entries["relu"], lambda x: x))


def test_every_entry_has_a_function() -> None:
    assert set(REGISTRY.entries) <= set(REGISTRY.definitions)


@pytest.mark.parametrize("type", REGISTRY.entries)
def test_attributes_out_of_range_are_refused(type: str) -> None:
    entry = REGISTRY.get(type).entry
    for field in entry.attributes:
        wrong = {"int": "x", "string": 1, "bool": 3, "float": "x", "ints": [0.5], "dtype": "complex99"}.get(
            field.type, object()
        )
        needed = {a.name: _fitting(a) for a in entry.attributes if a.required and a.name != field.name}
        for given in [wrong, *[_beyond(limit, field.type) for limit in field.limits]]:
            with pytest.raises(UserError):
                completed(entry, {**needed, field.name: given})


def _fitting(field: object) -> object:
    kind = field.type  # pyright: ignore[reportAttributeAccessIssue]
    return {
        "int": 1,
        "long": 1,
        "float": 0.5,
        "ints": [1],
        "floats": [0.5],
        "dtype": "float32",
        "bool": True,
    }.get(kind, "AVERAGE")


def _beyond(limit: object, type: str) -> object:
    bound = limit.bound  # pyright: ignore[reportAttributeAccessIssue]
    kind = limit.kind  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(bound, tuple):
        return "none of these"
    number = {"at least": bound - 1, "at most": bound + 1}.get(kind, bound)
    one = float(number) if type.startswith("float") else int(number)
    return [one] if type.endswith("s") else one
