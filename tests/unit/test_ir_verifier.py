# SPDX-License-Identifier: Apache-2.0
"""What makes a module bad: one case per kind of violation, with what is said about it."""

from __future__ import annotations

import random
import re

import pytest

from ngmlir.ir.attributes import IntegerAttr, StringAttr, integers
from ngmlir.ir.core import Block, Op, Region, UnregisteredOp, module
from ngmlir.ir.dominance import reachable_dominators
from ngmlir.ir.types import TensorType, f32, i1, i32
from ngmlir.ir.verifier import check, verify
from ngmlir.ops import func, ng, tile
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.words import from_text, to_text
from ngmlir.support.diagnostics import UserError

HEAD = "func.func @f(%x: tensor<4x3xf32>, %y: tensor<4xf32>, %c: tensor<i1>) {\n"
TAIL = "\n  return\n}"

#: Body of @f, and what is said about it.
BAD = (
    # structure
    ('"ng.add"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>', "2:1", "'ng.add' takes 2 operands, not 1"),
    ('"ng.exp"(%x) : (tensor<4x3xf32>) -> ()', "2:1", "'ng.exp' gives 1 results, not 0"),
    ('"ng.sum"(%x) : (tensor<4x3xf32>) -> tensor<4xf32>', "2:1", "'ng.sum' needs the attribute 'axes' (integers, array<i64: ...>)"),
    ('"ng.sum"(%x) {axes = 1 : i64} : (tensor<4x3xf32>) -> tensor<4xf32>', "2:1", "'ng.sum' attribute 'axes' must be integers, array<i64: ...>, not 1 : i64"),
    ('"ng.scatter"(%x, %y, %y) {axis = 0 : i64, combine = "mul"} : (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x3xf32>', "2:1", "operand 'indices' must be a tensor of integers, not tensor<4xf32>"),
    ('"ng.if"(%c) ({\n  ng.yield\n}) : (tensor<i1>) -> ()', "2:1", "'ng.if' takes 2 regions, not 1"),
    ('"ng.exp"(%y) ({\n  ng.yield\n}) : (tensor<4xf32>) -> tensor<4xf32>', "2:1", "'ng.exp' takes no regions"),
    ("ng.if %c {\n  %e = ng.exp %y : tensor<4xf32>\n} else {\n  ng.yield\n}", "3:3", "a block of 'ng.if' does not end with a terminator"),
    ('"func.return"() : () -> ()\n  %e = ng.exp %y : tensor<4xf32>', "2:1", "'func.return' is a terminator but not the last op of its block"),
    # types
    ("%e = ng.bitwise_not %x : tensor<4x3xf32>", "2:1", "'ng.bitwise_not' operand 'input' must be a tensor, vector or scalar of integers or i1, not tensor<4x3xf32>"),
    ("%e = ng.add %x, %y : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>", "2:1", "'ng.add' operand 'rhs' must be tensor<4x3xf32>, not tensor<4xf32>"),
    ("%e = ng.exp %y : (tensor<4xf32>) -> tensor<5xf32>", "2:1", "'ng.exp' result 'result' must be tensor<4xf32>, not tensor<5xf32>"),
    ("%e = ng.sum %x axes [1] : (tensor<4x3xf32>) -> tensor<3xf32>", "2:1", "'ng.sum' gives (tensor<4xf32>), but (tensor<3xf32>) is stated"),
    ("%e = ng.sum %x axes [2] : (tensor<4x3xf32>) -> tensor<4xf32>", "2:1", "'ng.sum' axes [2] of an operand with 2 dimensions"),
    # dominance
    ("%a = ng.exp %b : tensor<4xf32>\n  %b = ng.exp %y : tensor<4xf32>", "2:1", "'ng.exp' uses operand %b which does not dominate this use"),
    # symbols
    ("func.call @missing() : () -> ()", "2:1", "'func.call' calls @missing, which is not defined in this module"),
    ("%e = func.call @g(%y) : (tensor<4xf32>) -> tensor<4xf32>", "2:1", "calls @g as (tensor<4xf32>) -> tensor<4xf32>, but it is (tensor<4xf32>) -> f32"),
    ("%e = tile.call @k ins(%y) -> tensor<5xf32>", "2:1", "gives @k the buffers (tensor<4xf32>, tensor<5xf32>), but it takes (memref<4xf32>, memref<4xf32>)"),
    # yields
    ("%e = ng.if %c -> tensor<4xf32> {\n  ng.yield %y : tensor<4xf32>\n} else {\n  ng.yield %c : tensor<i1>\n}", "2:1", "the else region yields (tensor<i1>), but (tensor<4xf32>) is needed"),
)  # fmt: skip
REST = """
func.func private @g(tensor<4xf32>) -> f32
tile.kernel @k ins(%a: memref<4xf32>) outs(%b: memref<4xf32>) grid(%i < 1) {
  tile.return
}"""


@pytest.mark.parametrize(("body", "where", "what"), BAD)
def test_violations(body: str, where: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(HEAD + body + TAIL + REST, file="f.ngir")
    said = [d for d in caught.value.diagnostics if what in d.message]
    assert said, str(caught.value)
    line, column = where.split(":")
    # An op with results stands where its results are named, or where its name is.
    assert str(said[0].location).startswith(f"f.ngir:{line}:"), said
    assert said[0].location.column >= int(column)


def test_functions_say_what_they_take_and_give() -> None:
    for text, what in (
        (
            "func.func @f(%x: f32) -> i32 {\n  return %x : f32\n}",
            "'func.return' returns (f32), but @f gives (i32)",
        ),
        (
            "func.func @f() {return}\nfunc.func @f() {return}",
            "'func.func' defines @f, which is already defined",
        ),
        (
            '"func.func"() ({\n^bb0(%x: f32):\n  func.return\n}) {sym_name = "f", function_type = () -> ()} : () -> ()',
            "takes (f32), but its type says ()",
        ),
        (
            '"func.func"() ({\n  func.return\n}) {sym_name = "f", function_type = i32} : () -> ()',
            "needs a function type",
        ),
        (
            '"tile.kernel"() ({\n  tile.return\n}) {sym_name = "f", function_type = () -> ()} : () -> ()',
            "needs the attribute 'grid'",
        ),
        ("func.func @f()", "'func.func' @f has no body, so it must be private"),
        (
            '"func.func"() ({}) {sym_name = "f", sym_visibility = "private", function_type = (i32) -> (), arg_attrs = [{}, {}]} : () -> ()',
            "needs one dictionary for each of its 1 arguments in arg_attrs, not [{}, {}]",
        ),
        (
            '"func.func"() ({}) {sym_name = "f", sym_visibility = "private", function_type = () -> i32, res_attrs = [1]} : () -> ()',
            "needs one dictionary for each of its 1 results in res_attrs, not [1]",
        ),
        (
            '"builtin.module"() ({\n^a(%x: i32):\n}) : () -> ()',
            "'builtin.module' has a block with arguments, but no values for them",
        ),
    ):
        with pytest.raises(UserError, match=re.escape(what)):
            from_text(text, file="f.ngir")


@pytest.mark.parametrize(
    "text",
    [
        '"my.call"() {callee = "printf"} : () -> ()',
        '"my.call"() {callee = @printf} : () -> ()',
        'func.func @f(%x: f32) -> i32 {\n  "my.return"(%x) : (f32) -> ()\n}',
        '"my.graph"() ({\n  %0 = "my.use"(%1) : (i32) -> i32\n  "my.inner"() ({\n    "my.use"(%1, %2) : (i32, i32) -> ()\n'
        '    %2 = "my.def"() : () -> i32\n  }) : () -> ()\n  %1 = "my.def"() : () -> i32\n}) : () -> ()',
    ],
)
def test_what_ops_of_other_dialects_mean_is_not_guessed(text: str) -> None:
    """Neither that they call, nor that they return, nor that their one block is run in order."""
    module = from_text(text, unregistered=True)
    assert to_text(from_text(to_text(module), unregistered=True)) == to_text(module)


def test_graph_regions_are_seen_from_nowhere_else() -> None:
    for text in (
        '"my.graph"() ({\n  %0 = "my.def"() : () -> i32\n}) : () -> ()\n"my.use"(%0) : (i32) -> ()',
        'func.func @f() {\n  "my.graph"() ({\n    "my.use"(%0) : (i32) -> ()\n  }) : () -> ()\n  %0 = "my.def"() : () -> i32\n  return\n}',
        '"my.graph"() ({\n^a:\n  "my.use"(%0) : (i32) -> ()\n  "my.br"()[^b] : () -> ()\n^b:\n  %0 = "my.def"() : () -> i32\n}) : () -> ()',
    ):
        with pytest.raises(UserError, match="is not defined|does not dominate"):
            from_text(text, unregistered=True)


def test_isolated_ops_see_nothing_around_them() -> None:
    text = "func.func @f(%x: f32) {\n  %r = ng.fusion map(%a = %x) -> f32 {\n      ng.yield %x : f32\n  }\n  return\n}"
    with pytest.raises(UserError, match="value %x is not defined"):
        from_text(text)
    outer = Block([f32])
    inner = Block([f32])
    inner.ops.append(ng.YieldOp([outer.args[0]]))
    fusion = ng.FusionOp([outer.args[0]], [f32], {"kind": StringAttr("map")}, [Region(inner)])
    outer.ops += [fusion, func.ReturnOp()]
    found = verify(module([function("f", outer)]))
    assert ["does not dominate" in d.message for d in found] == [True]


def test_all_violations_are_found_in_order() -> None:
    body = "%a = ng.exp %c : tensor<i1>\n  %b = ng.sum %x axes [5] : (tensor<4x3xf32>) -> f32\n  return %x : tensor<4x3xf32>\n}"
    with pytest.raises(UserError) as caught:
        from_text(HEAD + "  " + body, file="f.ngir")
    assert [d.location.line for d in caught.value.diagnostics] == sorted(
        d.location.line for d in caught.value.diagnostics
    )
    assert len(caught.value.diagnostics) == 3


def test_blocks_that_jump() -> None:
    """In a region of several blocks a value is seen where its block dominates."""
    text = """func.func @f(%x: f32) {{
      "x.split"()[^a, ^b] : () -> ()
    ^a:
      %v = ng.exp %x : f32
      "x.jump"()[^c] : () -> ()
    ^b:
      "x.jump"()[^c] : () -> ()
    ^c:
      %w = ng.exp %{0} : f32
      return
    }}"""
    assert verify(from_text(text.format("x"), unregistered=True)) == ()
    with pytest.raises(UserError, match="%v which does not dominate"):
        from_text(text.format("v"), unregistered=True)


def test_the_pass_is_named() -> None:
    bad = module([ng.ExpOp([Block([i1]).args[0]], [i1])])
    with pytest.raises(UserError) as caught:
        check(bad, after="my-pass")
    assert "the module is not valid after my-pass" in str(caught.value)


def test_verdicts_do_not_leak_between_equal_ops() -> None:
    """What is remembered of an op is what was checked: types and attributes, not the place."""
    t = TensorType((4, 3), f32)
    for axes, good in (((1,), True), ((2,), False), ((1,), True)):
        block = Block([t])
        result = TensorType((4,), f32)
        op = ng.SumOp([block.args[0]], [result], {"axes": integers(axes)})
        block.ops += [op, func.ReturnOp([op.result])]
        assert (verify(module([function("f", block)])) == ()) is good
        assert op.verified is good


def test_a_shared_op_is_checked_where_it_stands() -> None:
    block = Block([f32])
    exp = ng.ExpOp([block.args[0]], [f32])
    block.ops += [exp, func.ReturnOp()]
    assert verify(module([function("f", block)])) == ()
    stranger = Block([f32])
    stranger.ops += [exp, func.ReturnOp()]
    assert "does not dominate" in verify(module([function("g", stranger)]))[0].message


def test_attributes_of_every_kind() -> None:
    for change, what in (
        ({"axis": IntegerAttr(0, i32)}, "attribute 'axis' must be an i64"),
        ({"reverse": IntegerAttr(1, i32)}, "attribute 'reverse' must be true or false"),
    ):
        block = Block([TensorType((3,), f32)])
        values = {
            "axis": IntegerAttr(0),
            "reverse": IntegerAttr(0, i1),
            "exclusive": IntegerAttr(0, i1),
            **change,
        }
        op = ng.CumulativeSumOp([block.args[0]], [block.args[0].type], values)
        block.ops += [op, func.ReturnOp()]
        assert what in verify(module([function("f", block)]))[0].message
    for name, value, what in (
        ("combine", StringAttr("mul"), "must be set, add, max or min"),
        ("masked", IntegerAttr(1), "must be there without a value"),
    ):
        cls: type[Op] = tile.ScatterOp if name == "combine" else tile.LoadOp
        text = from_text(_example(cls))
        bad = next(o for o in text.walk() if isinstance(o, cls)).rebuilt(attributes={name: value})
        assert any(what in m.message for m in verify(module([bad])))


def _example(op: type[Op]) -> str:
    assert op.definition is not None
    if op is tile.LoadOp:
        return f"func.func @f(%a: memref<8x100xf32>, %i: index, %j: index) {{\n{op.definition.example}\n return\n}}"
    return f"func.func @f(%a: memref<100xf32>, %v: vector<64xf32>, %m: vector<64xi1>, %i: vector<64xi32>) {{\n{op.definition.example}\n return\n}}"


def test_deep_chains_are_no_deep_recursion() -> None:
    block = Block([f32])
    builder = Builder(block)
    x = block.args[0]
    for _ in range(20_000):
        x = builder.exp(x)
    builder.end(func.ReturnOp, x)
    assert verify(module([function("f", block)])) == ()


def test_hints_of_type_rules_are_kept() -> None:
    with pytest.raises(UserError) as caught:
        from_text(HEAD + "%e = ng.pad %y low [-1] high [0] : (tensor<4xf32>) -> tensor<3xf32>" + TAIL)
    assert caught.value.diagnostics[0].hint == "use ng.slice to remove elements"


def test_dominators_are_those_of_the_definition() -> None:
    """A block dominates another if the other cannot be reached without it; the nearest such is the immediate one."""
    rng = random.Random(3)
    for _ in range(500):
        blocks = [Block() for _ in range(rng.randint(1, 9))]
        for block in blocks:
            successors = [rng.choice(blocks) for _ in range(rng.randint(0, 3))]
            block.ops.append(UnregisteredOp(successors=successors))
        reached = _reached(blocks[0], None)
        above = {b: {d for d in reached if d is not b and b not in _reached(blocks[0], d)} for b in reached}
        found = reachable_dominators(Region(*blocks))
        assert {block for block, _ in found} == set(blocks) and len(found) == len(blocks)
        done = set[Block]()
        for block, parent in found:
            if parent is None:
                assert block is blocks[0] or block not in reached
            else:
                assert parent in done and above[block] == {parent, *above[parent]}
            done.add(block)


def _reached(entry: Block, without: Block | None) -> set[Block]:
    seen, left = set[Block](), [entry]
    while left:
        block = left.pop()
        if block is not without and block not in seen:
            seen.add(block)
            left += block.ops[-1].successors
    return seen


def test_hints_name_the_terminator_of_a_block() -> None:
    with pytest.raises(UserError) as caught:
        from_text("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = ng.exp %x : tensor<4xf32>\n}")
    assert "func.return" in caught.value.diagnostics[0].hint
