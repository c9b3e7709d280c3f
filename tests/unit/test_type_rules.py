# SPDX-License-Identifier: Apache-2.0
"""The type rules: shapes, axis names and element types of results, and what is refused."""

from __future__ import annotations

import inspect
import re

import pytest

from ngmlir.ir.attributes import Attribute
from ngmlir.ir.core import Op, Value
from ngmlir.ir.types import FunctionType, Type
from ngmlir.ops import ng_rules, tile_rules
from ngmlir.ops.builder import build_op
from ngmlir.ops.fields import get_type
from ngmlir.ops.words import WORDS, from_text
from ngmlir.support.diagnostics import UserError


def typed(name: str, clause: str, attributes: str = "", *, infer: bool = False) -> list[str]:
    """The result types of an op whose operand and result types `clause` states; inferred where asked."""
    declared = from_text(f"func.func private @f{clause} attributes {{{attributes}}}", verify=False).ops[0]
    type = get_type(declared, "function_type")
    assert isinstance(type, FunctionType)
    values: dict[str, Attribute] = {
        k: v
        for k, v in declared.attributes.items()
        if k not in ("sym_name", "function_type", "sym_visibility")
    }
    stated: tuple[Type, ...] | None = None if infer else type.results
    op: Op = build_op(WORDS[name], [Value(t) for t in type.inputs], values, types=stated)
    return [str(r.type) for r in op.results]


AX = "#ng.axes"
#: Op, operand types, attributes, inferred result.
GOOD = (
    ("ng.add", "(tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>)", "", "tensor<4x3xf32, #ng.axes<N, C>>"),
    ("ng.less", "(vector<4xf32>, vector<4xf32>)", "", "vector<4xi1>"),
    ("ng.less", "(index, index)", "", "i1"),
    ("ng.select", "(tensor<4xi1>, tensor<4xbf16>, tensor<4xbf16>)", "", "tensor<4xbf16>"),
    ("ng.transpose", "(tensor<4x3x?xf32, #ng.axes<N, C, H>>)", "permutation = array<i64: 2, 0, 1>", "tensor<?x4x3xf32, #ng.axes<H, N, C>>"),
    ("ng.slice", "(tensor<4x7xf32, #ng.axes<N, C>>)", "starts = array<i64: 0, 6>, limits = array<i64: 4, -1>, steps = array<i64: 2, -3>", "tensor<2x3xf32, #ng.axes<N, C>>"),
    ("ng.pad", "(tensor<4x?xf32>)", "low = array<i64: 1, 2>, high = array<i64: 0, 3>", "tensor<5x?xf32>"),
    ("ng.concatenate", "(tensor<4x3xf32>, tensor<2x3xf32>, tensor<0x3xf32>)", "axis = 0 : i64", "tensor<6x3xf32>"),
    ("ng.concatenate", "(tensor<4x3xf32>, tensor<?x3xf32>)", "axis = 0 : i64", "tensor<?x3xf32>"),
    ("ng.first_max", "(tensor<4x3xf32, #ng.axes<N, C>>)", "axes = array<i64: 0>", "tensor<3xf32, #ng.axes<C>>"),
    ("ng.gather", "(tensor<10x3xf32, #ng.axes<V, C>>, tensor<4x2xi8, #ng.axes<N, T>>)", "axis = 0 : i64", "tensor<4x2x3xf32, #ng.axes<N, T, C>>"),
    ("ng.lookup", "(tensor<10x3xf32>, tensor<i64>)", "axis = 0 : i64", "tensor<3xf32>"),
    ("ng.gather_elements", "(tensor<4x3xf32>, tensor<4x2xui8>)", "axis = 1 : i64", "tensor<4x2xf32>"),
    ("ng.scatter", "(tensor<10x3xf32>, tensor<4xi32>, tensor<4x3xf32>)", 'axis = 0 : i64, combine = "add"', "tensor<10x3xf32>"),
    ("ng.sum", "(tensor<4x3x2xf32, #ng.axes<N, C, K>>)", "axes = array<i64: 2, 0>", "tensor<3xf32, #ng.axes<C>>"),
    ("ng.max", "(vector<4x3xf32>)", "axes = array<i64: 0, 1>", "f32"),
    ("ng.mean", "(tensor<4xf16>)", "axes = array<i64: 0>", "tensor<f16>"),
    ("ng.dot", "(tensor<2x4x3xf32, #ng.axes<B, N, C>>, tensor<3x2x5xf32, #ng.axes<C, B, K>>)", "lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>, lhs_batch = array<i64: 0>, rhs_batch = array<i64: 1>", "tensor<2x4x5xf32, #ng.axes<B, N, K>>"),
    ("ng.cross_entropy", "(tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>)", "axes = array<i64: 1>", "tensor<4xf32, #ng.axes<N>>"),
    ("ng.cumulative_sum", "(tensor<4xi8>)", "axis = 0 : i64", "tensor<4xi8>"),
    ("tile.dot", "(vector<6x4xbf16>, vector<4x8xbf16>, vector<6x8xf32>)", "", "vector<6x8xf32>"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "attributes", "result"), GOOD)
def test_results_follow(name: str, operands: str, attributes: str, result: str) -> None:
    assert typed(name, operands, attributes, infer=True) == [result]


#: Op, types, attributes, what is said.
BAD = (
    ("ng.select", "(tensor<4xi1>, tensor<3xf32>, tensor<3xf32>)", "", "the condition of tensor<3xf32> must be tensor<3xi1>, not tensor<4xi1>"),
    ("ng.cast", "(tensor<4xf32>) -> tensor<5xi32>", "", "a cast keeps shape and axes"),
    ("ng.bitcast", "(tensor<4xf32>) -> tensor<4xi16>", "", "a bitcast keeps the width: f32 to i16"),
    ("ng.bitcast", "(tensor<4xi1>) -> tensor<4xi8>", "", "a bitcast keeps the width: i1 to i8"),
    ("ng.bitcast", "(tensor<4xf32>) -> tensor<2x2xi32>", "", "a bitcast keeps shape and axes"),
    ("ng.iota", "() -> tensor<4xi32>", "dimension = 1 : i64", "dimension 1 of tensor<4xi32>"),
    ("ng.broadcast", "(tensor<3xf32>) -> tensor<4x3xf64>", "dimensions = array<i64: 1>", "cannot broadcast tensor<3xf32> to tensor<4x3xf64>"),
    ("ng.broadcast", "(tensor<3xf32>) -> tensor<4x3xf32>", "dimensions = array<i64: 0, 1>", "1 dimensions, but 2 places for them"),
    ("ng.broadcast", "(tensor<3xf32>) -> tensor<4x3xf32>", "dimensions = array<i64: 2>", "dimensions [2] of tensor<4x3xf32>"),
    ("ng.broadcast", "(tensor<3xf32>) -> tensor<4x3xf32>", "dimensions = array<i64: 0>", "dimension 0 of tensor<3xf32> is not dimension 0 of"),
    ("ng.broadcast", "(tensor<3x4xf32>) -> tensor<4x3xf32>", "dimensions = array<i64: 1, 0>", "must ascend; transpose first"),
    ("ng.broadcast", "(tensor<3xf32, #ng.axes<C>>) -> tensor<4x3xf32, #ng.axes<N, K>>", "dimensions = array<i64: 1>", "axis C of"),
    ("ng.transpose", "(tensor<3x4xf32>) -> tensor<4x3xf32>", "permutation = array<i64: 0, 0>", "[0, 0] is no permutation of 2 dimensions"),
    ("ng.reshape", "(tensor<3x4xf32>) -> tensor<5xf32>", "", "12 elements cannot take the shape of tensor<5xf32>"),
    ("ng.reshape", "(tensor<3x4xf32>) -> tensor<12xi32>", "", "cannot reshape"),
    ("ng.reshape", "(tensor<4xf32>) -> vector<4xf32>", "", "cannot reshape"),
    ("ng.cast_axes", "(tensor<3x4xf32>) -> tensor<4x3xf32>", "", "cast_axes keeps the shape"),
    ("ng.slice", "(tensor<4xf32>)", "starts = array<i64: 0>, limits = array<i64: 5>, steps = array<i64: 1>", "elements 0 to 4 of dimension 0, which has 4"),
    ("ng.slice", "(tensor<4xf32>)", "starts = array<i64: -1>, limits = array<i64: 2>, steps = array<i64: 1>", "elements -1 to 1 of dimension 0"),
    ("ng.slice", "(tensor<4xf32>)", "starts = array<i64: 0>, limits = array<i64: 2>, steps = array<i64: 0>", "step 0 in dimension 0"),
    ("ng.slice", "(tensor<4xf32>)", "starts = array<i64>, limits = array<i64: 2>, steps = array<i64: 1>", "1 dimensions, but 0 starts, 1 limits, 1 steps"),
    ("ng.pad", "(tensor<4xf32>)", "low = array<i64: -1>, high = array<i64: 0>", "a padding is negative"),
    ("ng.pad", "(tensor<4xf32>)", "low = array<i64: 1>, high = array<i64: 0>, value = 1 : i8", "the padding value is i8, the tensor f32"),
    ("ng.pad", "(tensor<4xf32>)", "low = array<i64: 1, 1>, high = array<i64: 0>", "1 dimensions, but 2 and 1 paddings"),
    ("ng.concatenate", "() -> tensor<4xf32>", "axis = 0 : i64", "nothing to concatenate"),
    ("ng.concatenate", "(tensor<4x3xf32>, tensor<4x2xf32>)", "axis = 0 : i64", "differ outside axis 0"),
    ("ng.concatenate", "(tensor<4xf32>, tensor<4xf64>)", "axis = 0 : i64", "cannot concatenate"),
    ("ng.concatenate", "(tensor<4xf32>, tensor<4xf32>)", "axis = 1 : i64", "axis 1 of an operand with 1 dimensions"),
    ("ng.concatenate", "(tensor<4xf32, #ng.axes<N>>, tensor<4xf32, #ng.axes<C>>)", "axis = 0 : i64", "axes of tensor<4xf32, #ng.axes<N>> and"),
    ("ng.stack", "() -> tensor<1x4xf32>", "axis = 0 : i64", "nothing to stack"),
    ("ng.stack", "(tensor<4xf32>, tensor<3xf32>) -> tensor<2x4xf32>", "axis = 0 : i64", "stacked tensors must have one type"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<5x0xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "a window of 5 elements along dimension 0, which has 4"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<3x1xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 2>", "a window of 5 elements (3 taps, 2 apart) along dimension 0, which has 4"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<0x5xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "windows of 0 taps"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<?x2xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "windows of an unknown number of taps"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x3xf32>", "axes = array<i64: 0>, steps = array<i64: 0>, dilations = array<i64: 1>", "step 0 and dilation 1 along dimension 0"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x3xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 0>", "step 1 and dilation 0 along dimension 0"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x3xf32>", "axes = array<i64: 0>, steps = array<i64: 1, 1>, dilations = array<i64: 1>", "1 axes, but 2 steps and 1 dilations"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x3xf32>", "axes = array<i64: 1>, steps = array<i64: 1>, dilations = array<i64: 1>", "axes [1] of an operand with 1 dimensions"),
    ("ng.windows", "(tensor<4x4xf32>) -> tensor<2x2x3x3xf32>", "axes = array<i64: 1, 1>, steps = array<i64: 1, 1>, dilations = array<i64: 1, 1>", "axes [1, 1] name a dimension twice"),
    ("ng.windows", "(tensor<4x4xf32>) -> tensor<2xf32>", "axes = array<i64: 0, 1>, steps = array<i64: 1, 1>, dilations = array<i64: 1, 1>", "2 axes need at least 2 dimensions of taps, but tensor<2xf32> has 1"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x4xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "these windows of tensor<4xf32> are like tensor<2x3xf32>, not tensor<2x4xf32>"),
    ("ng.windows", "(tensor<4xf32>) -> tensor<2x3xf64>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "are like tensor<2x3xf32>, not tensor<2x3xf64>"),
    ("ng.windows", "(tensor<4xf32, #ng.axes<W>>) -> tensor<2x3xf32, #ng.axes<S, H>>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "axes of tensor<4xf32, #ng.axes<W>> and"),
    ("ng.overlap_add", "(tensor<2x3xf32>) -> tensor<5xf32>", "axes = array<i64: 0>, steps = array<i64: 1>, dilations = array<i64: 1>", "these windows of tensor<5xf32> are like tensor<2x4xf32>, not tensor<2x3xf32>"),
    ("ng.gather", "(tensor<4x3xf32, #ng.axes<N, C>>, tensor<4xi32, #ng.axes<C>>)", "axis = 0 : i64", "collide"),
    ("ng.gather", "(tensor<0x3xf32>, tensor<4xi32>)", "axis = 0 : i64", "axis 0 of tensor<0x3xf32> has no elements to take"),
    ("ng.gather_elements", "(tensor<4x3xf32>, tensor<4xi32>)", "axis = 0 : i64", "differ in rank"),
    ("ng.gather_elements", "(tensor<4x3xf32>, tensor<2x2xi32>)", "axis = 0 : i64", "differ outside axis 0"),
    ("ng.scatter", "(tensor<10x3xf32>, tensor<4xi32>, tensor<3x3xf32>)", "axis = 0 : i64", "the updates must be like tensor<4x3xf32>"),
    ("ng.one_hot", "(tensor<4xi32>) -> tensor<10xf32>", "axis = 0 : i64", "one_hot of tensor<4xi32> cannot be tensor<10xf32>"),
    ("ng.one_hot", "(tensor<4xi32>) -> tensor<5x10xf32>", "axis = 1 : i64", "one_hot of tensor<4xi32> cannot be tensor<5x10xf32>"),
    ("ng.one_hot", "(tensor<4xi32, #ng.axes<N>>) -> tensor<4x10xf32, #ng.axes<C, Y>>", "axis = 1 : i64", "axes of tensor<4xi32, #ng.axes<N>> and"),
    ("ng.sum", "(tensor<4xf32>)", "axes = array<i64: 0, 0>", "axes [0, 0] name a dimension twice"),
    ("ng.argmax", "(tensor<4xf32>) -> tensor<4xi32>", "axes = array<i64>", "argmax and argmin need an axis"),
    ("ng.argmax", "(tensor<129xf32>) -> tensor<i8>", "axes = array<i64: 0>", "i8 cannot count 129 positions"),
    ("ng.argmin", "(tensor<16x17x9xf32>) -> tensor<9xui8>", "axes = array<i64: 0, 1>", "ui8 cannot count 272 positions"),
    ("ng.argmax", "(tensor<65536x32769xf32>) -> tensor<i32>", "axes = array<i64: 0, 1>", "i32 cannot count 2147549184 positions"),
    ("ng.argmax", "(tensor<0xf32>) -> tensor<i32>", "axes = array<i64: 0>", "the position of an extreme of nothing"),
    ("ng.dot", "(tensor<4xf32>, tensor<4xf64>)", "lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>, lhs_batch = array<i64>, rhs_batch = array<i64>", "cannot multiply tensor<4xf32> and tensor<4xf64>"),
    ("ng.dot", "(tensor<4xf32>, tensor<3xf32>)", "lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>, lhs_batch = array<i64>, rhs_batch = array<i64>", "contract dimension 0 of tensor<4xf32> is not dimension 0"),
    ("ng.dot", "(tensor<4xf32>, tensor<4xf32>)", "lhs_contract = array<i64: 0>, rhs_contract = array<i64>, lhs_batch = array<i64>, rhs_batch = array<i64>", "1 contract dimensions on the left, 0 on the right"),
    ("ng.dot", "(tensor<4x4xf32>, tensor<4x4xf32>)", "lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>, lhs_batch = array<i64: 0>, rhs_batch = array<i64: 1>", "a dimension is used twice"),
    ("ng.dot", "(tensor<4x3xf32, #ng.axes<N, C>>, tensor<3x4xf32, #ng.axes<C, N>>)", "lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, lhs_batch = array<i64>, rhs_batch = array<i64>", "share an axis that is neither contracted nor batched"),
    ("ng.random_bits", "(tensor<2xi64>) -> tensor<4xui32>", "", "the key must be tensor<2xui64> (seed, stream), not tensor<2xi64>"),
    ("ng.random_bits", "(tensor<2xui64>) -> tensor<4xi32>", "", "random bits are ui32"),
    ("ng.random_normal", "(tensor<3xui64>) -> tensor<4xf32>", "", "the key must be tensor<2xui64>"),
    ("tile.load", "(memref<4x5xf32>, index) -> vector<4xf32>", "", "1 indices into memref<4x5xf32>"),
    ("tile.load", "(memref<4xf32>, index) -> vector<4xf64>", "", "differ in element type"),
    ("tile.load", "(memref<4xf32>, index) -> vector<2x2xf32>", "", "a tile of 2 dimensions from memref<4xf32>"),
    ("tile.load", "(memref<4x4xf32>, index, index) -> vector<2x2xf32>", "dims = array<i64: 0, 0>", "dims [0, 0] of memref<4x4xf32>"),
    ("tile.load", "(memref<4x4xf32>, index, index) -> vector<2x2xf32>", "steps = array<i64: 1>", "1 steps for 2 dimensions"),
    ("tile.store", "(vector<4xf32>, memref<4xf64>, index)", "", "differ in element type"),
    ("tile.gather", "(memref<4x4xf32>, index) -> vector<2xf32>", "", "1 indices into memref<4x4xf32>"),
    ("tile.gather", "(memref<4xf32>, vector<3xi32>) -> vector<2xf32>", "", "indices vector<3xi32> for a tile of shape [2]"),
    ("tile.scatter", "(vector<2xf32>, vector<3xi1>, memref<4xf32>, vector<2xi32>)", 'combine = "set"', "a mask vector<3xi1> for vector<2xf32>"),
    ("tile.subview", "(memref<4x4xf32>, index, index) -> memref<2x2xf32>", "", "strides of memref<2x2xf32> are not those of memref<4x4xf32>"),
    ("tile.subview", "(memref<4xf32>, index) -> memref<5xf32>", "", "does not fit"),
    ("tile.subview", "(memref<4xf32>, index) -> memref<2xf32, 3>", "", "is no window into"),
    ("tile.dot", "(vector<6x4xf32>, vector<5x8xf32>, vector<6x8xf32>)", "", "is not vector<6x8xf32>"),
    ("tile.dot", "(vector<6x4xf32>, vector<4x8xf16>, vector<6x8xf32>)", "", "differ in element type"),
    ("tile.dot", "(vector<6x4xf32>, vector<4x8xf32>, vector<6x8xi32>)", "", "cannot be accumulated in"),
    ("tile.copy", "(memref<4xf32>, memref<5xf32>)", "", "cannot copy memref<4xf32> to memref<5xf32>"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "types", "attributes", "what"), BAD)
def test_what_is_refused(name: str, types: str, attributes: str, what: str) -> None:
    with pytest.raises(UserError, match=re.escape(what)):
        typed(name, types, attributes)


def test_every_rule_is_used_and_documented_by_use() -> None:
    used = {
        op.definition.rule.__name__
        for op in WORDS.values()
        if op.definition is not None and op.definition.rule is not None
    }
    public = {
        n
        for rules in (ng_rules, tile_rules)
        for n, f in inspect.getmembers(rules, inspect.isfunction)
        if f.__module__ == rules.__name__
        and list(inspect.signature(f).parameters) == ["t"]
        and not n.startswith("_")
    }
    assert public <= used | {"copy"}


SCAN = """func.func @f(%h: tensor<3xf32>, %xs: tensor<5x3xf32>, %ys: tensor<4x3xf32>, %p: tensor<f32>) {{
  {0} ({{
  ^bb0(%a: tensor<3xf32>, %x: tensor<3xf32>):
    ng.yield {2} : tensor<3xf32>
  }}) {1}
  return
}}"""


@pytest.mark.parametrize(
    ("head", "tail", "yields", "what"),
    [
        (
            '%s = "ng.scan"(%h)',
            "{carried = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32>",
            "%a",
            "a scan needs a sequence to run over",
        ),
        (
            '%s = "ng.scan"(%h, %xs)',
            "{carried = 3 : i64} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>",
            "%a",
            "takes 2 operands with carried = 3 : i64, not 2",
        ),
        (
            '%s = "ng.scan"(%h, %xs, %ys)',
            "{carried = 1 : i64} : (tensor<3xf32>, tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<3xf32>",
            "%a",
            "must agree in their first dimension",
        ),
        (
            '%s = "ng.scan"(%h, %p)',
            "{carried = 1 : i64} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
            "%a",
            "must agree in their first dimension",
        ),
        (
            '%s, %t = "ng.scan"(%h, %xs)',
            "{carried = 1 : i64} : (tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<3xf32>)",
            "%a, %x",
            "but (tensor<3xf32>, tensor<3xf32>) is stated",
        ),
        (
            '%s = "ng.scan"(%xs, %xs)',
            "{carried = 1 : i64} : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>",
            "%a",
            "the body takes (tensor<3xf32>, tensor<3xf32>), but",
        ),
    ],
)
def test_scans(head: str, tail: str, yields: str, what: str) -> None:
    with pytest.raises(UserError, match=re.escape(what)):
        from_text(SCAN.format(head, tail, yields))


def test_other_regions() -> None:
    loop = "func.func @f(%x: f32, %i: i32) {{\n  {0}\n  return\n}}"
    for body, what in (
        (
            "%r = ng.while iter(%a = %x) -> f32 {\n  ng.yield %a : f32\n} do {\n  ng.yield %a : f32\n}",
            "the condition must yield one i1",
        ),
        (
            '%r = "ng.while"(%x) ({\n^bb0(%a: i32):\n  ng.yield %a : i32\n}, {\n^bb0(%a: f32):\n  ng.yield %a : f32\n}) : (f32) -> f32',
            "the condition takes (i32), but (f32) is needed",
        ),
        (
            '%r = "ng.fusion"(%x) ({\n^bb0(%a: i32):\n  ng.yield %a : i32\n}) {kind = "m"} : (f32) -> f32',
            "the body takes (i32), but (f32) is needed",
        ),
        (
            "ng.if %x {\n  ng.yield\n} else {\n  ng.yield\n}",
            "operand 'condition' must be a tensor, vector or scalar of i1, not f32",
        ),
    ):
        with pytest.raises(UserError, match=re.escape(what)):
            from_text(loop.format(body))
