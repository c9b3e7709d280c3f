# SPDX-License-Identifier: Apache-2.0
"""Loops of ONNX, however they say when they end, against the same rounds in NumPy; and conditionals around what does not fit."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ENDLESS = (1 << 63) - 1
ROUNDS: dict[str, Any] = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Sub": np.subtract}


def info(name: str, kind: int = F, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[str], held: dict[str, Any]) -> Any:
    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


class Loop:
    """A loop of random rounds: `a` is changed by `k`, by `x` from around the loop and by the number of the round; the loop
    ends when `c`, which grows by its step, is no longer below its limit."""

    def __init__(self, seed: int, asks: bool, each: bool):
        random = Random(seed)
        self.ops = [(random.choice([*ROUNDS]), random.choice("kxi")) for _ in range(random.randint(1, 4))]
        self.asks, self.each, self.limit = asks, each, random.choice([0.5, 3.5, 40.0])
        self.k = np.float32(random.choice([0.5, -0.25, 1.0]))

    def graph(self) -> Any:
        nodes, last = [helper.make_node("Cast", ["i"], ["fi"], to=F)], "a"
        for at, (op, other) in enumerate(self.ops):
            nodes.append(helper.make_node(op, [last, "fi" if other == "i" else other], [f"a{at}"]))
            last = f"a{at}"
        nodes.append(helper.make_node("Add", ["c", "one"], ["c_next"]))
        nodes.append(helper.make_node("Less", ["c_next", "limit"], ["less"]))
        nodes.append(helper.make_node("Or", ["less", "never_asks"], ["going_on"]))
        outputs = [info("going_on", B), info(last), info("c_next")]
        if self.each:
            nodes.append(helper.make_node("ReduceSum", [last], ["sum"], keepdims=0))
            outputs += [info("sum"), info("c_next")]
        return helper.make_graph(
            nodes, "body", [info("i", I, []), info("going", B, []), info("a"), info("c")], outputs
        )

    def held(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "one": np.float32(1),
            "limit": np.float32(self.limit),
            "never_asks": np.array(not self.asks),
        }

    def run(self, x: Any, a: Any, most: int, going: bool) -> list[Any]:
        c, i, sums, counts = np.float32(0), 0, [], []
        while going and i < most:
            for op, other in self.ops:
                a = ROUNDS[op](a, {"k": self.k, "x": x, "i": np.float32(i)}[other])
            c, i = c + np.float32(1), i + 1
            sums.append(a.sum())
            counts.append(c)
            going = bool(c < self.limit) or not self.asks
        return [a, c, *([np.array(sums, np.float32), np.array(counts, np.float32)] if self.each else [])]


#: How a loop says when it ends: a count, the first condition, whether its rounds ask, and whether each gives something.
WAYS = [
    way
    for way in product(
        ["none", "known", "endless", "given"], ["none", "known", "given"], [False, True], [False, True]
    )
    if way[2] or way[0] in ("known", "given")  # else it never ends
]


@pytest.mark.parametrize(("count", "first", "asks", "each"), WAYS)
def test_loops(count: str, first: str, asks: bool, each: bool) -> None:
    for seed in range(3):
        loop = Loop(seed, asks, each)
        held, inputs = loop.held(), [info("x", F, ["n"]), info("a0", F, ["n"])]
        most = {"none": ENDLESS, "endless": ENDLESS, "known": (0, 3, 25)[seed], "given": (25, 3, 0)[seed]}[
            count
        ]
        names = ["" if count == "none" else "m", "" if first == "none" else "begin"]
        for name, what, value in (("m", count, np.int64(most)), ("begin", first, np.array(True))):
            if what == "given":
                inputs.append(info(name, I if name == "m" else B, []))
            elif what != "none":
                held[name] = value
        outputs = ["a_last", "c_last", *(["sums", "counts"] if each else [])]
        held["c0"] = np.float32(0)
        # The results of each round are read behind the loop too.
        nodes = [helper.make_node("Loop", [*names, "a0", "c0"], outputs, body=loop.graph())]
        nodes += [helper.make_node("Add", [outputs[-2], outputs[-2]], ["twice"])]
        run = ng.compile(load(model_of(nodes, inputs, [*outputs, "twice"], held)), target="cpu")
        random = np.random.default_rng(seed)
        for n, going in ((3, True), (400, True), (3, False), (3, True)):
            x, a = (random.uniform(-1, 1, n).astype(np.float32) for _ in "xa")
            more = [np.int64(most)] if count == "given" else []
            if first == "given":
                more.append(np.array(going))
            elif not going:
                continue
            wanted = loop.run(x, a, most, going)
            found = run(x, a, *more)
            for ours, theirs in zip(found, [*wanted, wanted[-2] * 2], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)


def counted(times: Any, depth: int, inner: Any) -> Any:
    """The node of a loop around loops, each of which adds `k` so many times."""
    body = helper.make_graph(
        [inner(depth)],
        f"body{depth}",
        [info(f"i{depth}", I, []), info(f"g{depth}", B, []), info(f"a{depth}")],
        [info(f"g{depth}", B), info(f"b{depth}")],
    )
    return helper.make_node("Loop", [times, "", f"a{depth - 1}"], [f"b{depth - 1}"], body=body)


def test_loops_in_loops_are_not_unrolled() -> None:
    def inner(depth: int) -> Any:
        if depth == 16:
            return helper.make_node("Add", ["a16", "k"], ["b16"])
        return counted("two", depth + 1, inner)

    nodes = [counted("two", 1, inner)]
    model = load(model_of(nodes, [info("a0", F, [2])], ["b0"], {"two": np.int64(2), "k": np.float32(1)}))
    a = np.zeros(2, np.float32)
    assert sum(1 for _ in model.module([a]).walk()) < 1000
    assert ng.compile(model, target="cpu")(a)[0].tolist() == [65536.0, 65536.0]


def test_a_count_that_is_given_is_one_program() -> None:
    nodes = [counted("m", 1, lambda depth: helper.make_node("Add", ["a1", "k"], ["b1"]))]
    model = load(model_of(nodes, [info("a0", F, [2]), info("m", I, [])], ["b0"], {"k": np.float32(1)}))
    run = ng.compile(model, target="cpu")
    a = np.zeros(2, np.float32)
    assert [run(a, np.int64(m))[0][0] for m in (0, 1, 5, 1000)] == [0, 1, 5, 1000]
    assert model.deciding == set() and len(run._programs) == 1


def rows_one_after_the_other() -> Any:
    """A recurrence as other tools export it: no count, a counter that is carried and compared, in floats, with a length of the
    input, and weights that are carried unchanged."""
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "t"], ["row"], axis=0),
            helper.make_node("MatMul", ["h", "w"], ["hw"]),
            helper.make_node("Add", ["row", "hw"], ["h_next"]),
            helper.make_node("Add", ["t", "two"], ["t_next"]),
            helper.make_node("Identity", ["w"], ["w_next"]),
            helper.make_node("Cast", ["t_next"], ["now"], to=F),
            helper.make_node("Less", ["now", "end"], ["going_on"]),
        ],
        "body",
        [info("i", I, []), info("going", B, []), info("t", I, []), info("h"), info("w")],
        [info("going_on", B), info("t_next", I), info("h_next"), info("w_next"), info("h_next")],
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=0, end=1),
        helper.make_node("Squeeze", ["length"], ["scalar"]),
        helper.make_node("Cast", ["scalar"], ["end"], to=F),
        helper.make_node("Less", ["zero", "end"], ["begin"]),
        helper.make_node("Loop", ["", "begin", "t0", "h0", "w0"], ["t", "last", "w", "all"], body=body),
    ]
    held = {
        "two": np.int64(2),
        "t0": np.int64(0),
        "zero": np.float32(0),
        "h0": np.zeros((1, 3), np.float32),
        "w0": np.diag([0.5, -1, 0.25]).astype(np.float32),
    }
    return model_of(nodes, [info("x", F, ["T", 3])], ["all", "last", "t"], held)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_a_count_that_follows_from_a_length_is_known(target: str) -> None:
    model = load(rows_one_after_the_other())
    run, w = ng.compile(model, target=target), np.diag([0.5, -1, 0.25]).astype(np.float32)
    names = {op.name for op in model.module([np.zeros((9, 3), np.float32)]).walk()}
    assert "ng.scan" in names and "ng.while" not in names
    for length in (9, 1, 4, 5000, 2, 33):
        x = np.random.default_rng(length).standard_normal((length, 3)).astype(np.float32)
        steps, h = [], np.zeros((1, 3), np.float32)
        for row in x[::2]:
            h = row + h @ w
            steps.append(h)
        found = run(x)
        np.testing.assert_allclose(found[0], np.array(steps).reshape(-1, 1, 3), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-6)
        assert found[2] == 2 * len(steps)


def test_a_loop_without_an_end_is_refused() -> None:
    nodes = [counted("", 1, lambda depth: helper.make_node("Add", ["a1", "k"], ["b1"]))]
    model = load(model_of(nodes, [info("a0", F, [2])], ["b0"], {"k": np.float32(1)}))
    with pytest.raises(ng.UserError, match=r"node 'b0' \(Loop\): .*it never ends"):
        ng.compile(model, target="cpu")(np.zeros(2, np.float32))


def test_a_branch_that_does_not_fit_is_there_for_others() -> None:
    """One branch takes frames of 256 elements, the other of 512: which is built the condition decides."""
    random = np.random.default_rng(1)
    held = {"w": random.normal(size=(1, 16, 3)), "r": random.normal(size=(1, 16, 4)), "rate": np.int64(16000)}

    def branch(name: str, shape: list[int]) -> Any:
        nodes = [
            helper.make_node("Constant", [], [f"s{name}"], value_ints=shape),
            helper.make_node("Reshape", ["x", f"s{name}"], [f"x{name}"]),
            helper.make_node("LSTM", [f"x{name}", "w", "r"], ["", f"h{name}"], hidden_size=4),
        ]
        outer = helper.make_graph(nodes, name, [], [info(f"h{name}")])
        same = helper.make_graph(
            [helper.make_node("Identity", ["z"], [f"o{name}"])], "e", [], [info(f"o{name}")]
        )
        node = helper.make_node("If", ["also"], [f"y{name}"], then_branch=outer, else_branch=same)
        return helper.make_graph([node], f"n{name}", [], [info(f"y{name}")])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["fast"]),
        helper.make_node(
            "If", ["fast"], ["y"], then_branch=branch("a", [5, 2, 3]), else_branch=branch("b", [5, 1, 3])
        ),
    ]
    inputs = [info("x", F, ["n"]), info("sr", I, []), info("also", B, []), info("z", F, [1, "b", 4])]
    held = {name: np.asarray(a, np.int64 if name == "rate" else np.float32) for name, a in held.items()}
    run = ng.compile(load(model_of(nodes, inputs, ["y"], held)), target="cpu")
    for rate, batch in ((16000, 2), (8000, 1), (16000, 2)):
        x, z = random.normal(size=15 * batch).astype(np.float32), np.ones((1, batch, 4), np.float32)
        found = [run(x, np.int64(rate), np.array(also), z)[0] for also in (True, False)]
        assert found[0].shape == (1, batch, 4) and not np.array_equal(found[0], z)
        assert np.array_equal(found[1], z)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_loops_in_branches_in_loops(target: str) -> None:
    """The inner loop halves until nothing is above its limit, in one branch of a condition that changes from round to round."""
    inner = helper.make_graph(
        [
            helper.make_node("Mul", ["u", "half"], ["v"]),
            helper.make_node("ReduceMax", ["v"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "limit"], ["above"]),
        ],
        "halve",
        [info("j", I, []), info("h", B, []), info("u")],
        [info("above", B), info("v")],
    )
    then = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "a"], ["less"], body=inner)], "then", [], [info("less")]
    )
    other = helper.make_graph([helper.make_node("Add", ["a", "x"], ["more"])], "else", [], [info("more")])
    nodes = [
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "many"], ["full"]),
        helper.make_node("If", ["full"], ["b"], then_branch=then, else_branch=other),
    ]
    outer = helper.make_graph(
        nodes, "outer", [info("i", I, []), info("g", B, []), info("a")], [info("g", B), info("b"), info("s")]
    )
    held = {"half": 0.5, "limit": 0.3, "many": 4.0}
    weights: dict[str, Any] = {name: np.float32(v) for name, v in held.items()}
    weights.update(yes=np.array(True), twenty=np.int64(20))
    loop = helper.make_node("Loop", ["twenty", "", "x"], ["last", "sums"], body=outer)
    run = ng.compile(load(model_of([loop], [info("x", F, ["n"])], ["last", "sums"], weights)), target=target)
    for n in (1, 3, 100):
        x = np.random.default_rng(n).uniform(0.1, 1, n).astype(np.float32)
        a, sums = x, []
        for _ in range(20):
            sums.append(a.sum())
            if sums[-1] > 4:
                a = a * np.float32(0.5)
                while a.max() > np.float32(0.3):
                    a = a * np.float32(0.5)
            else:
                a = a + x
        found = run(x)
        np.testing.assert_allclose(found["last"], a, rtol=1e-5)
        np.testing.assert_allclose(found["sums"], sums, rtol=1e-5)


def test_operators_of_parts_are_for_parts_alone() -> None:
    node = helper.make_node("Rounds", ["x", "x", "x"], ["y"], domain="ngmlir.parts")
    made = model_of([node], [info("x", F, [1])], ["y"], {})
    made.opset_import.append(helper.make_opsetid("ngmlir.parts", 1))
    with pytest.raises(ng.Limit, match="does not have the operator ngmlir.parts.Rounds"):
        load(made)
