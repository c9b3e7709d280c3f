# SPDX-License-Identifier: Apache-2.0
"""Programs back to graphs: what is lifted again prints as it did, and the graph can be built on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import wrapped

import ngmlir as ng
from ngmlir.ir.core import Op
from ngmlir.ir.types import TensorType
from ngmlir.ops import ng as words
from ngmlir.ops.words import from_text, to_text


def settles(module: Any) -> None:
    text = to_text(module)
    assert str(ng.lift(ng.raise_(module))) == text
    assert str(module) == text


@pytest.mark.parametrize("op", [op for op in words.OPS.values() if "terminator" not in op.definition.traits])
def test_the_example_of_every_op(op: type[Op]) -> None:
    module = from_text(wrapped(op))
    function = next(f for f in module.ops if f.name == "func.func")
    values = [*function.block.args, *(r for o in function.walk() for r in o.results)]
    if op is words.FusionOp or not all(isinstance(v.type, TensorType) for v in values):
        with pytest.raises(ng.UserError):
            ng.raise_(module, function.symbol)
    elif op is words.RecomputeOp:
        # A note about what nothing computes says nothing.
        assert "ng.recompute" not in str(ng.lift(ng.raise_(module, function.symbol)))
    else:
        assert str(ng.lift(ng.raise_(module, function.symbol))) == str(module)


def test_a_note_stays() -> None:
    settles(
        from_text("""
          func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
            %b = ng.exp %a : tensor<4xf32>
            %c = ng.tanh %b : tensor<4xf32>
            %d = ng.exp %c : tensor<4xf32>
            ng.recompute %d from(%b)
            %e = ng.multiply %c, %d : tensor<4xf32>
            return %d, %e : tensor<4xf32>, tensor<4xf32>
          }""")
    )


def test_a_training_step() -> None:
    N, T, H = ng.make_axis(4, "N"), ng.make_axis(5, "REC"), ng.make_axis(3, "H")
    x = ng.placeholder([T, N, H]).named("x")
    w = ng.variable([H, H.named("K")], initial_value=0.25).named("w")

    def step(h: Any, each: Any) -> Any:
        new = ng.tanh(ng.cast_axes(ng.dot(h, w), h.axes) + each)
        return new, new

    h, hs = ng.scan(step, ng.constant(0.0, axes=[N, H]), x, T)
    loss = ng.sum(ng.square(hs), out_axes=()) + ng.sum(h, out_axes=())
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w - 0.1 * ng.deriv(loss, w))
    settles(ng.lift([loss, update], [x]).module)
    settles(ng.lift([update, w], [x]).module)


def test_branches_and_loops() -> None:
    A = ng.make_axis(3, "A")
    x, n = ng.placeholder([A]), ng.placeholder((), dtype="i32")
    chosen = ng.cond(ng.sum(x, out_axes=()) > 0, lambda: (x * 2, x), lambda: (x, x + 1))
    looped = ng.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 1.5), (0, chosen[0]))
    settles(ng.lift([*looped, chosen[1]], [x, n]).module)


@pytest.mark.parametrize(
    "body",
    [
        "%r = ng.add %x, %x : tensor<2xf32>\n return %r : tensor<2xf32>",
        "%dead = ng.exp %x : tensor<2xf32>\n %r = ng.slice %x from [0] to [1] step [1] : (tensor<2xf32>) -> tensor<1xf32>\n return %x : tensor<2xf32>",
        "%r = ng.constant dense<0x7FA00001> : tensor<2xf32>\n return %r : tensor<2xf32>",
        "%r = ng.constant dense<[-0.0, 0.0]> : tensor<2xf32>\n return %r : tensor<2xf32>",
        "return %x : tensor<2xf32>",
        "%r = ng.add %x, %x {ng.schedule = {tile = 8 : i64}} : tensor<2xf32>\n return %r : tensor<2xf32>",
    ],
)
@pytest.mark.parametrize(
    "argument", ["%x: tensor<2xf32>", '%x: tensor<2xf32> {ng.name = "a/b c"}', "%0: tensor<2xf32>"]
)
@pytest.mark.parametrize("tie", ["", " attributes {ng.tied = array<i64: 0, 0>}"])
def test_programs_by_hand(body: str, argument: str, tie: str) -> None:
    if argument.startswith("%0"):
        body = body.replace("%x", "%0")
    settles(from_text(f"func.func @main({argument}) -> tensor<2xf32>{tie} {{\n {body}\n}}"))


def test_ties_stand_where_they_stood() -> None:
    module = from_text(
        """
        func.func @step(%w: tensor<2xf32>, %x: tensor<2xf32>, %v: tensor<2xf32>)
            -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) attributes {ng.tied = array<i64: 2, 2, 0, 0>} {
          %0 = ng.add %w, %x : tensor<2xf32>
          %1 = ng.multiply %v, %0 : tensor<2xf32>
          return %0, %w, %1, %x : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
        }"""
    )
    raised = ng.raise_(module, "step")
    assert str(ng.lift(raised)) == str(module)
    w, x, v = raised.parameters
    with ng.transformers.make_transformer("numpy") as transformer:
        step, read = transformer.add_computation(raised), transformer.computation([w, v])
        before, given = step([1, 2], [3, 4], [5, 6])
        assert before.tolist() == [1, 2] and given.tolist() == [3, 4]
        assert [a.tolist() for a in read()] == [[4, 6], [20, 36]]


def test_a_raised_graph_is_a_graph() -> None:
    """It has derivatives, can be run on every transformer, and be built on."""
    A = ng.make_axis(3, "A")
    x = ng.placeholder([A]).named("x")
    raised = ng.raise_(ng.lift([ng.sum(ng.exp(x * x), out_axes=())], [x]).module)
    (value,), (again,) = raised.returns, raised.parameters
    gradient = ng.deriv(value, again) + ng.constant([1.0, 2.0, 3.0], axes=[A])
    run = ng.compile([value, gradient], [again])
    a = np.array([0.5, -1, 0.25], np.float32)
    assert np.allclose(run(a)[0], np.exp(a * a).sum())
    assert np.allclose(run(a)[1], 2 * a * np.exp(a * a) + [1, 2, 3])


def test_a_batch_keeps_its_length() -> None:
    """The program was made for it: another length is refused, not computed wrongly."""
    N = ng.make_axis(4, "N")
    x = ng.placeholder([N]).named("x")
    run = ng.compile(ng.raise_(ng.lift([ng.mean(x, out_axes=())], [x]).module))
    assert float(run([1, 2, 3, 6])[0]) == 3
    with pytest.raises(ng.UserError, match="4"):
        run([1, 2])


def test_host_functions_come_along() -> None:
    @ng.host_op
    def doubled_on_the_host(a: Any) -> Any:
        return a * 2

    A = ng.make_axis(3, "A")
    x = ng.placeholder([A]).named("x")
    lifted = ng.lift([doubled_on_the_host(doubled_on_the_host(x)) + 1], [x])
    settles(lifted.module)
    assert ng.compile(ng.raise_(lifted.module))([1, 2, 3])[0].tolist() == [5, 9, 13]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32> }", "no function @main.*"),
        ("func.func @main(%x: f32) -> f32 {\n return %x : f32 }", "is not a tensor"),
        ("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n return %x : tensor<?xf32> }", "length without a name"),
        (
            "func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32> }\n"
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
            " return %0 : tensor<2xf32> }",
            "@f is called",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n %0 = ng.fusion loop(%x) -> tensor<2xf32> {\n"
            " %1 = ng.exp %x : tensor<2xf32>\n ng.yield %1 : tensor<2xf32>\n }\n return %0 : tensor<2xf32> }",
            "ng.fusion cannot be part of a graph",
        ),
    ],
)  # fmt: skip
def test_what_no_graph_is(text: str, message: str) -> None:
    with pytest.raises(ng.NgmlirError, match=message):
        ng.raise_(from_text(text))
