# SPDX-License-Identifier: Apache-2.0
"""Passes of transformers: over ops, as the document of transformers writes them, and over modules."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.ir.core import Module
from ngmlir.op_graph.op_graph import Add, Op
from ngmlir.ops.words import from_text, to_text
from ngmlir.support.target import Target
from ngmlir.transformers.passes.passes import (
    CPUTensorShaping,
    GraphPass,
    GraphRewritePass,
    ModulePass,
    PeepholeGraphPass,
    RequiredTensorShaping,
    SimplePrune,
    generic_method,
    visit,
)

C = ng.make_axis(3, "C")
NAMES = ["numpy", "cpu", "cuda-sim"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def made(name: str, *passes: Any) -> Any:
    return closing(ngt.make_transformer_factory(name, passes=[*passes])())


class WithoutZeros(PeepholeGraphPass):
    """That of the document, word for word."""

    @visit.on_type(Add)
    def visit(self, op: Any) -> None:
        x, y = op.args
        rep = None
        if x.is_scalar and x.is_constant:
            if x.const == 0:
                rep = y
        elif y.is_scalar and y.is_constant:
            if y.const == 0:
                rep = x
        if rep is not None:
            self.replace_op(op, rep)


def test_the_pass_of_the_document(name: str) -> None:
    x = ng.placeholder([C])
    y = 0 + (x + 0)
    z = y * 2
    with made(name, WithoutZeros()) as transformer:
        double = transformer.computation(z, x)
        assert double([1, 2, 3]).tolist() == [2, 4, 6]
        assert y.forwarded is x and z.args[0] is x and z.forward is None
        assert "ng.add" not in to_text(double.module)
        assert transformer.computation(y, x)([1, 2, 3]).tolist() == [1, 2, 3]


def test_visits_are_inherited_and_added_to() -> None:
    seen: list[str] = []

    class Seeing(PeepholeGraphPass):
        @generic_method(dispatch_base_type=Op)
        def visit(self, op: Any) -> None:
            seen.append("op")

        @visit.on_type(ng.ElementWiseOp)
        def visit(self, op: Any) -> None:
            seen.append("elementwise")

        @visit.on_type(ng.Sum | ng.Prod)
        def visit(self, op: Any) -> None:
            seen.append("reduction")

    class More(Seeing):
        @visit.on_type((ng.ExpOp, ng.LogOp))
        def visit(self, op: Any) -> None:
            seen.append("exp")

    class Plain(PeepholeGraphPass):
        def visit(self, op: Any) -> None:
            seen.append(type(op).__name__)

    x = ng.variable([C], initial_value=0)
    y = ng.sum(ng.exp(x) + ng.prod(x), out_axes=())
    expected = {
        Seeing: ["op", "elementwise", "reduction", "op", "elementwise", "reduction"],
        More: ["op", "exp", "reduction", "op", "elementwise", "reduction"],
        Plain: ["AssignableTensorOp", "ExpOp", "ProductOp", "BroadcastOp", "AddOp", "SumOp"],
    }
    for kind, words in expected.items():
        seen.clear()
        kind().do_pass([y])
        assert seen == words


def test_a_pass_begins_and_ends_and_sees_all_results_once(name: str) -> None:
    seen: list[Any] = []

    class Watching(GraphPass):
        def begin_pass(self) -> None:
            seen.append("begin")

        def do_pass(self, ops: Any) -> None:
            seen.append([*ops])

        def end_pass(self) -> None:
            seen.append("end")

    x = ng.placeholder([C])
    y, z, later = x + 1, x * 2, x - 3
    with made(name, Watching) as transformer:
        one, other = transformer.computation(y, x), transformer.computation([z, y], x)
        assert transformer.all_results == ng.op_graph.ordered.OrderedSet([y, z])
        assert one([1, 2, 3]).tolist() == [2, 3, 4]
        assert other([1, 2, 3])[0].tolist() == [2, 4, 6]
        assert seen == ["begin", [y, z], "end"]
        transformer.computation(later, x)([1, 2, 3])
        assert seen[3:] == ["begin", [later], "end"]
    with pytest.raises(TypeError, match="do_pass"):
        GraphPass()  # type: ignore[abstract]


def test_passes_are_a_list_in_order() -> None:
    first, second, third = SimplePrune(), WithoutZeros(), RequiredTensorShaping()
    with made("cpu", first) as transformer:
        transformer.register_graph_pass(third)
        transformer.register_graph_pass(second, 0)
        transformer.register_graph_pass(CPUTensorShaping, position=1)
        assert [type(p) for p in transformer.graph_passes] == [
            WithoutZeros, CPUTensorShaping, SimplePrune, RequiredTensorShaping,
        ]  # fmt: skip
        assert all(isinstance(p, GraphPass) for p in transformer.graph_passes)
        for wrong in (3, None, int, "no-such-pass"):
            with pytest.raises(ng.UserError):
                transformer.register_graph_pass(wrong)
    with pytest.raises(ng.UserError, match="list"):
        ngt.make_transformer_factory("cpu", passes="prune")()
    with made("cpu") as transformer:
        assert transformer.graph_passes == []


def test_passes_can_be_run_by_hand() -> None:
    x = ng.placeholder([C])
    y = (x + 0) * 1
    with made("numpy", SimplePrune()) as transformer:
        transformer.run_registered_graph_passes([y])
    assert y.forwarded is x


# ---- SimplePrune


@pytest.mark.parametrize(
    "build, is_x",
    [
        (lambda x: x + 0, True),
        (lambda x: 0 + x, True),
        (lambda x: x - 0, True),
        (lambda x: x * 1, True),
        (lambda x: ng.negative(-x), True),
        (lambda x: ng.log(ng.exp(x)), True),
        (lambda x: ng.log(ng.exp(x + 0)) * 1, True),
        (lambda x: ng.exp(ng.log(x)), False),
        (lambda x: x * -1, False),
        (lambda x: x + 1, False),
        (lambda x: x * 0, False),
    ],
)
def test_simple_prune(name: str, build: Any, is_x: bool) -> None:
    x, y = ng.placeholder([C]), None
    y = build(x)
    assert (y.args[0].forwarded is not y) and y.forward is None
    with made(name) as transformer:
        before = transformer.computation(y, x)([0.5, 2, 1])
    with made(name, SimplePrune()) as transformer:
        np.testing.assert_allclose(transformer.computation(y, x)([0.5, 2, 1]), before, rtol=1e-6)
    assert (y.forwarded is x) == is_x


def test_rules_are_asked_for_by_name_and_assumption() -> None:
    def pruned(build: Any, *args: Any, **named: Any) -> bool:
        y = build(ng.placeholder([C]))
        SimplePrune(*args, **named).do_pass([y])
        return y.forward is not None

    def add(x: Any) -> Any:
        return x + 0

    def log(x: Any) -> Any:
        return ng.log(ng.exp(x))

    assert pruned(add) and pruned(add, ["add_zero"]) and not pruned(log, ["add_zero"])
    assert not pruned(add, assume=()) and pruned(add, assume=["nsz"]) and not pruned(log, assume="nsz")
    assert pruned(log, assume="nsz+approx") and not pruned(add, ["add_zero"], assume=())
    assert pruned(lambda x: x * 1, assume=()) and pruned(lambda x: ng.exp(ng.log(x)), "exp_log")
    assert pruned(lambda x: ng.exp(x) - 1, ["exp_less_one"])
    assert {r.name for r in SimplePrune(assume=()).rules} < {r.name for r in SimplePrune().rules}
    for wrong in (["add_zer"], [""]):
        with pytest.raises(ng.UserError, match="no rule"):
            SimplePrune(wrong)
    with pytest.raises(ng.UserError, match="no assumption"):
        SimplePrune(assume=["fast"])


def test_a_replacement_has_the_type_of_what_it_replaces() -> None:
    whole = ng.placeholder([C], dtype="i32")
    y = whole + 0  # float32
    SimplePrune().do_pass([y])
    assert isinstance(y.forwarded, ng.CastOp) and y.forwarded.dtype == np.float32
    scalar = ng.placeholder(())
    z = scalar + ng.constant(0, [C])
    SimplePrune().do_pass([z])
    assert z.forwarded.axes == z.axes and isinstance(z.forwarded, ng.BroadcastOp)


def test_gradients_of_what_was_pruned(name: str) -> None:
    x = ng.variable([C], initial_value=[1, 2, 3])
    y = ng.sum(ng.log(ng.exp(x * x + 0)), out_axes=())
    with made(name, SimplePrune()) as transformer:
        np.testing.assert_allclose(transformer.computation(y)(), 14)
        np.testing.assert_allclose(transformer.computation(ng.deriv(y, x))(), [2, 4, 6])


def test_bodies_of_loops_and_branches_are_visited(name: str) -> None:
    series, start = ng.placeholder([ng.make_axis(4, "T")]), ng.variable((), initial_value=1)

    def step(total: Any, item: Any) -> Any:
        inner = ng.cond(item + 0 > 1, lambda: item * 1, lambda: total + 0)
        return (total + inner) * 1 + 0, total + start

    last, _ = ng.scan(step, start + 0, series, "T")
    with made(name) as transformer:
        before = transformer.computation(last, series)([1, 2, 3, 4])
    with made(name, SimplePrune()) as transformer:
        run = transformer.computation(last, series)
        assert run([1, 2, 3, 4]) == before
        text = to_text(run.module)
        assert "ng.multiply" not in text and text.count("ng.add") == 1


def test_what_a_visit_makes_takes_the_place_of_what_it_replaces() -> None:
    w = ng.variable([C], initial_value=1)

    class Squares(PeepholeGraphPass):
        @visit.on_type(ng.Multiply)
        def visit(self, op: Any) -> None:
            x, y = op.args
            if x is y:
                self.replace_op(op, ng.square(x))

    y = w * w
    ng.assign(w, w + 1)
    z = w * w
    with made("numpy", Squares()) as transformer:
        run = transformer.computation([y, z, w])
        assert [v[0] for v in run()] == [1, 4, 2] and [v[0] for v in run()] == [4, 9, 3]
        assert isinstance(y.forwarded, ng.SquareOp) and y.forwarded.location == y.location


def test_a_value_stays_that_of_its_place() -> None:
    x = ng.variable((), initial_value=1)
    y = x + 0
    ng.fill(x, 7)
    z = x + 0
    with made("numpy", SimplePrune()) as transformer:
        assert [float(v) for v in transformer.computation([y, z, x])()] == [1, 7, 7]
    v = ng.variable((), initial_value=1)
    early = v + 0
    with made("numpy", SimplePrune()) as transformer:
        assert float(transformer.computation(early)()) == 1 and early.forwarded is v
        with ng.Op.saved_user_deps():
            write = ng.assign(v, 5)  # made after the pass, and still it comes after `early`
        assert [float(r) for r in transformer.computation([early, write, v])()[::2]] == [1, 5]
        assert early.forwarded is not v


def _plus_nothing(x: Any) -> Any:
    return x + 0


def _less_nothing(x: Any) -> Any:
    return x - 0


def _times_one(x: Any) -> Any:
    return x * 1


def _negated_twice(x: Any) -> Any:
    return ng.negative(ng.negative(x))


def _branch(x: Any, y: Any) -> Any:
    return ng.cond(ng.sum(x, out_axes=()) > 3, lambda: x + 0, lambda: y * 1 + 0)


def _program(draw: random.Random, between: Any) -> list[Any]:
    """A program of reads and writes in which rules fire; `between` is told of computations while it is being built."""
    pair = ng.make_axis(2, "C")
    state = [ng.variable([pair], initial_value=[i + 1, i + 2]) for i in range(2)]
    state.append(ng.placeholder([pair], initial_value=5))
    tensors: list[Any] = [*state]
    returns: list[Any] = []

    def pick() -> Any:
        return draw.choice(tensors)

    for _ in range(draw.randint(4, 18)):
        x = pick()
        match draw.choice("copy copy copy add write guard list view snapshot branch run".split()):
            case "copy":
                tensors.append(draw.choice([_plus_nothing, _times_one, _negated_twice, _less_nothing])(x))
            case "add":
                tensors.append(pick() + pick())
            case "write":
                ng.assign(draw.choice(state), pick() + draw.choice([0, 1]))
            case "guard":
                with ng.Op.saved_user_deps():
                    returns.append([pick(), ng.assign(draw.choice(state), pick() * 2)])
            case "list":
                tensors.append(ng.sequential([pick(), ng.assign(draw.choice(state), pick() + 1), pick()]))
            case "view":
                tensors.append(draw.choice(state)[0:2] + 0)
            case "snapshot":
                tensors.append(ng.value_of(pick()))
            case "branch":
                tensors.append(_branch(pick(), pick()))
            case _:
                between([pick(), pick()])
    return [*returns, [pick(), pick(), pick()], [tensors[-1], *state]]


def _results(seed: int, passes: list[Any]) -> list[Any]:
    found: list[Any] = []
    with made("numpy", *passes) as transformer:
        returns = _program(random.Random(seed), lambda ops: found.append(transformer.computation(ops)()))
        computations = [transformer.computation(each) for each in returns]
        found += [run() for run in (*computations, *computations)]
    return [None if v is None else v.tolist() for values in found for v in values]


@pytest.mark.parametrize("seed", range(40))
def test_pruning_changes_no_program_of_reads_and_writes(seed: int) -> None:
    try:
        expected = _results(seed, [])
    except ng.UserError:
        return  # the program waits for itself
    assert _results(seed, [SimplePrune(["add_zero", "multiply_one", "negative_negative", "subtract_zero"])]) == expected  # fmt: skip


# ---- what is refused


def test_a_pass_that_never_ends_is_refused() -> None:
    class Forever(PeepholeGraphPass):
        @visit.on_type(ng.Add)
        def visit(self, op: Any) -> None:
            self.replace_op(op, op.args[1] + op.args[0])

    with pytest.raises(ng.UserError, match="Forever does not terminate"):
        Forever().do_pass([ng.placeholder([C]) + 1])


def test_a_replacement_of_another_type_is_refused() -> None:
    class Wrong(PeepholeGraphPass):
        @visit.on_type(ng.ExpOp)
        def visit(self, op: Any) -> None:
            self.replace_op(op, ng.constant(1))

    with pytest.raises(ng.IncompatibleAxesError):
        Wrong().do_pass([ng.exp(ng.placeholder([C]))])


# ---- passes over modules


def _with_subtractions(module: Module) -> Module:
    return from_text(to_text(module).replace("ng.add", "ng.subtract"))


def test_functions_from_module_to_module_are_passes(name: str) -> None:
    x = ng.placeholder([C])
    y = x + 1
    told: list[str] = []

    def watch(module: Module, target: Target) -> Module:
        told.append(target.name)
        return module

    class Adding(ModulePass):
        def do_module(self, module: Module, target: Target) -> Module:
            return from_text(to_text(module).replace("ng.subtract", "ng.multiply"))

    with made(name) as transformer:
        assert transformer.computation(y, x)([1, 2, 3]).tolist() == [2, 3, 4]
    with made(name, _with_subtractions, watch) as transformer:
        assert transformer.computation(y, x)([1, 2, 3]).tolist() == [0, 1, 2]
    with made(name, _with_subtractions, Adding) as transformer:
        assert transformer.computation(y, x)([1, 2, 3]).tolist() == [1, 2, 3]
    with made(name) as transformer:  # what was compiled for others is not found again here
        assert transformer.computation(y, x)([1, 2, 3]).tolist() == [2, 3, 4]
    assert len(told) == 1 and y.forward is None


def test_passes_of_ngopt_are_named_by_text(name: str) -> None:
    x = ng.placeholder([C])
    for passes in (
        ["prune{assume=nsz+approx}, dead-code"],
        [CPUTensorShaping()],
        [RequiredTensorShaping],
        ["simplify"],
    ):
        with made(name, *passes) as transformer:
            y = ng.sum(ng.log(ng.exp(x + 0)), out_axes=())
            np.testing.assert_allclose(transformer.computation(y, x)([1, 2, 3]), 6, rtol=1e-6)
            assert y.forward is None


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda module: None, "gives None"),
        (lambda module: from_text("module { func.func @main() { func.return } }"), "changes the arguments or results of @main"),
        (lambda module: from_text("module { func.func @other() { func.return } }"), "changes the arguments or results of @main"),
    ],
)  # fmt: skip
def test_passes_over_modules_keep_what_functions_take_and_give(wrong: Any, message: str) -> None:
    x = ng.placeholder([C])
    with made("numpy", wrong) as transformer, pytest.raises(ng.UserError, match=message):
        transformer.computation(x + 1, x)([1, 2, 3])


# ---- patterns


class Found(GraphRewritePass):
    """Replaces what matches by what a function makes of the labels."""

    def __init__(self, pattern: Any, make: Any):
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.make = make
        self.register_pattern(pattern, self.replace)

    def replace(self, op: Any, labels: Any) -> Any:
        self.found.append({label: found.called for label, found in labels.items()})
        return self.make(op, labels)


def test_patterns_match_in_either_order_and_at_any_axes(name: str) -> None:
    N = ng.make_axis(2, "N")
    x, b = ng.placeholder([C], name="x"), ng.variable([N], initial_value=[1, 2], name="b")
    a, bias = (
        ng.PatternLabelOp("a"),
        ng.PatternLabelOp("bias", lambda op: isinstance(op, ng.AssignableTensorOp)),
    )
    fused = Found(ng.maximum(a, 0) + bias, lambda op, of: ng.broadcast(of["a"] * 100 + of["bias"], op.axes))
    y, other = b + ng.maximum(ng.exp(x), 0), b + ng.maximum(x, 1)
    with made(name, fused) as transformer:
        found = transformer.computation([y, other], x)([0, 0, 2])
    np.testing.assert_allclose(found[0], np.exp([0, 0, 2]) * 100 + [[1], [2]], rtol=1e-6)
    assert found[1].tolist() == [[2, 2, 3], [3, 3, 4]]
    assert len(fused.found) == 1 and fused.found[0]["bias"] == "b"


def test_a_label_is_one_op_wherever_it_stands() -> None:
    x, y = ng.placeholder([C]), ng.placeholder([C])
    a = ng.PatternLabelOp("a")
    fused = Found(a * a, lambda op, of: ng.square(of["a"]))
    both = [x * x, x * y]
    with made("numpy", fused) as transformer:
        assert transformer.computation(both, x, y)(3, 4)[1].tolist() == [12] * 3
    assert [type(op.forwarded) for op in both] == [ng.SquareOp, ng.Multiply] and len(fused.found) == 1


def test_ops_may_be_skipped() -> None:
    N, K = ng.make_axis(2, "N"), ng.make_axis(1, "any")
    v, w = ng.variable([N, C], initial_value=2, name="v"), ng.variable([C], initial_value=3, name="w")
    left, right = ng.PatternLabelOp("left", axes=[K]), ng.PatternLabelOp("right", axes=[K])
    product = ng.PatternSkipOp(ng.dot(left, right), lambda op: isinstance(op, ng.NegativeOp))
    look = Found(ng.exp(product), lambda op, of: None)
    with made("numpy", look) as transformer:
        transformer.computation([ng.exp(ng.negative(-ng.dot(v, w))), ng.exp(ng.dot(v, w)), ng.exp(v)])()
    assert look.found == [{"left": "v", "right": "w"}] * 2


def test_what_is_written_between_is_not_read_in_place() -> None:
    w = ng.variable([C], initial_value=1)
    inner = ng.exp(w)
    ng.assign(w, 5)
    y = ng.log(inner)
    fused = Found(ng.log(ng.exp(ng.PatternLabelOp("a"))), lambda op, of: of["a"])
    with made("numpy", fused) as transformer:
        np.testing.assert_allclose(transformer.computation(y)(), 1, rtol=1e-6)
    assert fused.found == []


def test_wrong_patterns_are_refused() -> None:
    a = ng.PatternLabelOp("a")
    with pytest.raises(ng.UserError, match="not a pattern with a function"):
        Found(a + 1, None).register_pattern(a, None)  # type: ignore[arg-type]
    with pytest.raises(ng.UserError, match="not a function of an op"):
        ng.PatternLabelOp("a", "constant")
    with pytest.raises(ng.UserError, match="is for patterns only"):
        ng.compile(a + 1)()
