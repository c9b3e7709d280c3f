# SPDX-License-Identifier: Apache-2.0
"""The op graph: axes, nodes, element types, functions by axis name, errors at the user's line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.ops import ng as dialect
from ngmlir.ops.words import from_text, to_text

N, REC, C, H, W = (ng.make_axis(n, name) for n, name in ((2, "N"), (3, "REC"), (4, "C"), (5, "H"), (3, "W")))


def value(returns: Any, *fed: tuple[ng.Tensor, Any]) -> Any:
    computation = ng.transformers.make_transformer("numpy").computation(returns, *(p for p, _ in fed))
    return computation(*(v for _, v in fed))


def array(*axes: ng.Axis, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).uniform(-1, 1, [a.known_length for a in axes]).astype(np.float32)


def tensor(*axes: ng.Axis, seed: int = 0) -> ng.Tensor:
    return ng.constant(array(*axes, seed=seed), axes)


# ---- axes


def test_an_axis_is_its_name() -> None:
    assert ng.make_axis(2, "A") == ng.make_axis(3, "A")
    assert hash(ng.make_axis(2, "A")) == hash(ng.make_axis(3, "A"))
    assert ng.make_axis(2) != ng.make_axis(2)
    assert ng.make_axes([H, W]) == ng.make_axes(a for a in (H, W))
    assert ng.make_axes([H, W]) != ng.make_axes([W, H])


def test_axes_from_many_things() -> None:
    assert ng.make_axes().names == ()
    assert ng.make_axes(H).names == ("H",)
    assert ng.make_axes(map(lambda a: a, (H, W))).names == ("H", "W")
    assert ng.make_axes({"a": H, "b": W}.values()).names == ("H", "W")
    assert ng.make_axes({"P": 2, "Q": None}).lengths == (2, None)
    nested = ng.make_axes([C, [H, W]])
    assert nested.lengths == (4, 15)
    assert nested.full_lengths == (4, (5, 3))
    assert nested[1] == ng.make_axes([H, W]).flatten()
    with pytest.raises(ng.IncompatibleAxesError):
        ng.make_axes(["H"])


def test_sets_of_axes() -> None:
    x, y = ng.make_axes([C, H]), ng.make_axes([H, W])
    assert (x | y).names == ("C", "H", "W")
    assert (x & y).names == ("H",)
    assert (x - y).names == ("C",)
    assert (x + W).names == ("C", "H", "W")
    assert ng.make_axes([H]).is_sub_set(x) and x.is_super_set([H]) and x.is_equal_set([H, C])
    assert x.is_not_equal_set(y)
    with pytest.raises(ng.DuplicateAxisNames, match="axis H"):
        x + y
    with pytest.raises(ng.UserError):
        x == [C, H]  # noqa: B015
    assert not ng.make_axes() and x


def test_selecting_axes() -> None:
    x = ng.make_axes([C, H, W, REC, N])
    assert x.batch_axis() == N and x.recurrent_axis() == REC and x.channel_axis() == C
    assert x.sample_axes().names == ("C", "H", "W", "REC")
    assert x.feature_axes().names == ("C", "H", "W")
    assert x.spatial_axes().names == ("H", "W")
    assert x.index(W) == x.index("W") == 2
    assert x.get_by_names("W", "C").names == ("W", "C")
    assert x.size == 4 * 5 * 3 * 3 * 2
    assert not ng.make_axes([[N, C]])[0].is_batch
    with pytest.raises(ng.AxisNotFound, match="no axis Z"):
        x.index("Z")


def test_names_stand_for_axes() -> None:
    n, i = ng.make_axis(2, "N"), ng.constant([0, 1], [ng.make_axis(2, "I")], dtype="i32")
    x = ng.placeholder([C, H, n])
    assert x.axes["H"] is H and "H" in x.axes and "Q" not in x.axes
    assert (x.axes - "H").names == ("C", "N") and (x.axes & ["N", "C"]).names == ("C", "N")
    assert ng.make_axes([]) == ng.make_axes({}) == ng.make_axes() == (x.axes - x.axes)
    made = {
        "C,N": [ng.sum(x, "H"), ng.max(x, ["H"]), ng.mean(x, out_axes=["C", "N"]), ng.argmax(x, reduction_axes="H")],
        "C,I,N": [ng.gather(x, i, "H"), ng.gather(x, i, H)],
        "N,C,H": [ng.axes_with_order(x, ["N", "C", "H"]), ng.broadcast(x, ["N", C, "H"])],
        "C,K,N": [ng.map_roles(x, {"H": "K"}), ng.map_roles(x, {H: ng.make_axis(9, "K")}), ng.cast_role(x, ["C", "K", n])],
        "C,H,N": [ng.softmax(x, "H"), ng.cumulative_sum(x, "H"), ng.concat_along_axis([x, x], "H")],
        "C.H,N": [ng.flatten(x, [["C", "H"], "N"])],
        "N": [ng.L2_norm(x, out_axes="N"), ng.cross_entropy_multi(ng.softmax(x), x, out_axes="N")],
        "N,C,H,K": [ng.dot(x, ng.map_roles(x, {"C": "K"}), batch_axes=["N", "H"])],
    }  # fmt: skip
    for names, tensors in made.items():
        for tensor in tensors:
            assert sorted(tensor.axes.names) == sorted(names.split(",")), (names, tensor.axes)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.axes["Heigth"],
        lambda x: ng.sum(x, "Heigth"),
        lambda x: ng.softmax(x, ["Heigth"]),
        lambda x: ng.gather(x, ng.constant(0, dtype="i32"), "Heigth"),
        lambda x: ng.map_roles(x, {"Heigth": "K"}),
        lambda x: ng.scan(lambda c, s: (c, s), ng.constant(0), x, "Heigth"),
        lambda x: ng.axes_with_order(x, ["C", "Heigth"]),
    ],
)
def test_an_unknown_name_is_answered_with_those_that_are_there(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(ng.AxisNotFound, match=r"no axis Heigth in \(C, Height\)[\s\S]*did you mean Height"):
        wrong(ng.placeholder([C, ng.make_axis(5, "Height")]))


def test_a_name_twice_is_answered_with_all() -> None:
    x = ng.placeholder([C, H])
    with pytest.raises(ng.DuplicateAxisNames, match=r"H appears twice in \(H, H\)"):
        ng.map_roles(x, {"C": "H"})
    with pytest.raises(ng.IncompatibleAxesError, match=r"'H' is not an axis[\s\S]*make_axis\(length, 'H'\)"):
        ng.placeholder(["H"])
    with pytest.raises(ng.IncompatibleAxesError, match="1 is not an axis"):
        ng.gather(x, ng.constant(0, dtype="i32"), 1)
    with pytest.raises(ng.UserError, match="3 is neither an axis nor the name of one"):
        ng.map_roles(x, {"H": 3})


def test_lengths() -> None:
    with pytest.raises(ng.AxisLengthError):
        ng.make_axis(-1)
    late = ng.make_axis(name="L")
    x = ng.placeholder([late, C])
    y = ng.sum(x[:, 1:3] * 2 + 1, reduction_axes=[late])
    gradient = ng.deriv(ng.mean(x * x, out_axes=()), x)
    with pytest.raises(ng.AxisLengthError, match=r"length of axis L is not set[\s\S]*L.length"):
        value(y, (x, 1))  # a number has no axes, so nothing says how long L is
    assert value(y, (x, np.ones((2, 4)))).tolist() == [6, 6]
    late.length = 6
    assert value(y, (x, np.ones((6, 4)))).tolist() == [18, 18]
    np.testing.assert_allclose(value(gradient, (x, np.ones((6, 4)))), 2 / 24)
    late.length = 3
    assert value(y, (x, np.ones((3, 4)))).tolist() == [9, 9]
    np.testing.assert_allclose(value(gradient, (x, np.ones((3, 4)))), 2 / 12)


def test_slicing_an_axis() -> None:
    assert ng.slice_axis(H, slice(1, 3)).length == 2
    assert ng.slice_axis(H, slice(None, None, -1)).length == 5
    assert ng.slice_axis(H, slice(1, 3)) == H
    with pytest.raises(ng.AxisLengthError):
        ng.slice_axis(H, slice(None, None, 2))


# ---- nodes


def test_a_node_knows_what_it_is_made_of() -> None:
    x, y = ng.constant(0), ng.constant(1)
    total = ng.add(x, y)
    assert type(total).__name__ == "AddOp"
    assert isinstance(total, ng.Op)
    assert total.args == (x, y)
    assert total.initializers == set()
    with_value = ng.variable((), initial_value=3)
    assert [type(i).__name__ for i in with_value.initializers] == ["InitTensorOp"]
    assert (total == total) == True and (total == x) == False  # noqa: E712
    assert (total != total) == False and (total != x) == True  # noqa: E712


def test_a_node_knows_who_made_it() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    made = tensor(H) + 1
    assert made.filename == __file__
    assert made.lineno == line
    assert made.file_info == f'File "{__file__}", line {line}'
    assert made.location.column == 12


def test_names_are_settable_and_kept() -> None:
    a, b = ng.constant(1).named("zz"), ng.constant(2).named("zz")
    assert a.name == b.name == "zz"
    a.name = "other"
    assert a.name == "other"
    assert ng.constant(1).name != ng.constant(1).name


def test_metadata() -> None:
    with ng.metadata(stochastic="dropout", layer=1):
        with ng.metadata(layer=2):
            inner = ng.constant(1) + 1
        outer = ng.constant(1)
    assert inner.metadata == {"stochastic": "dropout", "layer": 2}
    assert outer.metadata == {"stochastic": "dropout", "layer": 1}
    assert (ng.constant(1)).metadata == {}


def test_recording_and_traversal() -> None:
    with ng.Op.all_ops() as ops:
        x = ng.variable([H], initial_value=1)
        y = ng.exp(x) * ng.placeholder([H])
    assert ops[0] is x and ops[-1] is y
    assert y.variables() == [x]
    assert [p.is_placeholder for p in y.placeholders()] == [True]
    assert ng.Op.ordered_ops([y]) == [op for op in ops if op not in x.initializers]
    seen: list[ng.Op] = []
    ng.Op.visit_input_closure([y], seen.append)
    assert seen == ng.Op.ordered_ops([y])


def test_forwarding() -> None:
    x = ng.constant(2.0)
    old = x * 3
    user = old + 1
    old.replace_self(x * 5)
    assert old.forwarded is old.forward and old.snap() is old.forwarded
    assert value(user) == 11
    assert value(old) == 10
    gone = x * 7
    late = gone + 1
    gone.forward = ng.Invalid
    assert gone.snap() is gone
    with pytest.raises(ng.InvalidOp, match=r"test_graph.py:\d+"):
        value(late)
    with pytest.raises(ng.InvalidOp):
        x.forward = x


def test_a_node_has_no_truth_and_no_items() -> None:
    with pytest.raises(ng.UserError, match=r"ng.cond"):
        bool(tensor(H) > 0)
    with pytest.raises(ng.UserError, match="iterated"):
        list(tensor(H))


# ---- element types


def test_results_are_float32() -> None:
    integers = ng.constant([1, 2, 3], [W], dtype="i32")
    doubles = ng.constant([1.0, 2, 3], [W], dtype=np.float64)
    for made in (integers + integers, ng.sum(integers), ng.one_hot(integers, C), ng.exp(integers)):
        assert made.dtype == np.float32
    assert ng.add(integers, integers, dtype="i32").dtype == np.int32
    assert value(ng.add(integers, integers, dtype="i32")).tolist() == [2, 4, 6]
    assert ng.constant(5).dtype == np.float32
    assert ng.argmax(doubles).dtype == np.int32
    for kept in (integers[1:], ng.stack([integers, integers], ng.make_axis(2)), ng.flatten(integers)):
        assert kept.dtype == np.int32
    with ng.default_float("f64"):
        assert (doubles * 0.1).dtype == np.float64
        assert value(doubles * 0.1)[0] == 0.1
        assert ng.placeholder([H]).dtype == np.float64


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_what_has_64_bits_keeps_them(backend: str) -> None:
    doubles = ng.constant([0.1, 2, 3], [W], dtype="f64")
    longs = ng.constant([2**40, 1, -3], [W], dtype="i64")
    counts = ng.constant([2**63, 1, 3], [W], dtype="ui64")
    singles = ng.constant([1, 2, 3], [W])
    small = ng.constant([1, 2, 3], [W], dtype="i32")
    logits = ng.softmax(doubles)
    made: dict[str, list[Any]] = {
        "f64": [
            doubles * 2, doubles + doubles, 1 - doubles, doubles * singles, doubles * longs, ng.sum(doubles),
            ng.dot(doubles, doubles), ng.dot(doubles, singles), ng.exp(doubles), ng.mean(doubles), logits,
            ng.cross_entropy_multi(logits, singles), ng.variance(doubles), ng.where(doubles > 1, doubles, 0.0),
            ng.cumulative_sum(doubles, W), ng.max(doubles), doubles**2, ng.sigmoid(doubles),
            ng.mean(longs), longs / 2, longs / longs, longs * 0.5, ng.exp(longs), longs**2, longs + counts,
            ng.stack([doubles, singles], ng.make_axis(2)),
        ],
        "i64": [
            ng.sum(longs), longs + longs, longs + 1, 2 * longs, -longs, longs * small, ng.dot(longs, longs),
            ng.max(longs), ng.prod(longs), ng.cumulative_sum(longs, W), longs % 7, longs // 7, abs(longs),
            ng.where(longs > 0, longs, 0), longs + (small > 1), ng.concat_along_axis([longs, small], W),
        ],
        "ui64": [ng.sum(counts), counts + 1],
        "f32": [longs * singles, singles * 2.5, singles + small, small / 2, ng.sum(small > 1)],
        "i32": [ng.argmax(doubles)],
    }  # fmt: skip
    for element, tensors in made.items():
        for tensor in tensors:
            assert str(tensor.element) == element, (element, tensor)
    exact = [
        ng.sum(longs),
        longs + 1,
        ng.dot(longs, small),
        ng.max(longs),
        doubles * 1,
        longs / 4,
        ng.sum(counts),
    ]
    with ngt.make_transformer(backend) as transformer:
        values = [v.tolist() for v in transformer.computation(exact)()]
    assert values == [
        2**40 - 2, [2**40 + 1, 2, -2], 2**40 + 2 - 9, 2**40, [0.1, 2, 3], [2**38, 0.25, -0.75], 2**63 + 4
    ]  # fmt: skip


def test_constants_lose_nothing() -> None:
    small = ng.constant([1, 2, 3], [W], dtype="i32")
    for wrong in (
        lambda: ng.constant(0.5, dtype="i32"),
        lambda: ng.constant([1, 2**40], dtype="i32"),
        lambda: ng.constant(np.array([1, 2.5]), dtype="i8"),
        lambda: ng.add(small, 0.5, dtype="i32"),
        lambda: ng.variable([W], dtype="i32", initial_value=0.5),
        lambda: ng.fill(ng.variable([W], dtype="i32"), 1e20),
    ):
        with pytest.raises(ng.UserError, match=r"i(32|8) cannot hold"):
            wrong()
    with pytest.raises(ng.UserError, match="i32 holds integers: round first"):
        ng.constant(0.5, dtype="i32")
    assert ng.constant([1.0, -2.0], dtype="i8").const.tolist() == [1, -2]
    assert value(small > 0.5).tolist() == [True] * 3


def test_comparisons_are_bool_and_count_as_numbers() -> None:
    x = ng.constant([1.0, 2, 3], [W])
    above = x > 1.5
    assert above.dtype == np.bool_
    assert value(above).tolist() == [False, True, True]
    assert value(above * 2 + above).tolist() == [0, 3, 3]
    assert value(ng.sum(above)) == 2
    assert value(ng.greater(x, 1.5, dtype="f32")).dtype == np.float32
    assert value(ng.where(above & ~(x > 2.5), x, -x)).tolist() == [-1, 2, -3]


def test_floor_and_mod_take_the_sign_of_the_divisor() -> None:
    x = ng.constant([-7.0, 7, -7], [W])
    y = ng.constant([3.0, -3, -3], [W])
    assert value(x // y).tolist() == [-3, -3, 2]
    assert value(x % y).tolist() == [2, -2, -1]
    assert value(7 % y).tolist() == [1, -2, -2]


def test_bits() -> None:
    x = ng.constant([5, 6, -8], [W], dtype="i32")
    assert value(ng.bitwise_and(x, 4)).tolist() == [4, 4, 0]
    assert value(ng.shift_right(x, 1)).tolist() == [2, 3, -4]
    assert value(ng.shift_right_logical(x, 1)).tolist() == [2, 3, 2**31 - 4]
    with pytest.raises(ng.UserError, match="integers"):
        ng.bitwise_or(tensor(W), 1)


# ---- axes by name


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((H, W), (W, H), "W H"),
        ((C, H), (W, H, N), "C H W N"),
        ((H,), (C, H), "C H"),
        ((C, H), (H,), "C H"),
        ((), (H, W), "H W"),
        ((H,), (W,), "H W"),
    ],
)
def test_order_of_binary_results(
    left: tuple[ng.Axis, ...], right: tuple[ng.Axis, ...], expected: str
) -> None:
    x, y = tensor(*left), tensor(*right, seed=1)
    made = x + y
    assert " ".join(made.axes.names) == expected
    letters = {"N": "n", "C": "c", "H": "h", "W": "w"}

    def spelled(names: tuple[str, ...]) -> str:
        return "".join(letters[n] for n in names)

    ones = np.ones(made.axes.known_shape, np.float32)
    out = spelled(made.axes.names)
    wide = [np.einsum(f"{spelled(t.axes.names)},{out}->{out}", t.value, ones) for t in (x, y)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(value(made), wide[0] + wide[1], rtol=1e-6)


def test_an_array_gets_axes_of_its_own() -> None:
    made = tensor(W) * np.ones(3)
    assert made.axes.lengths == (3, 3) and made.axes[0] == W
    assert isinstance(np.ones(3) * tensor(W), ng.Tensor)


def test_lengths_must_agree() -> None:
    with pytest.raises(
        ng.AxisLengthError, match=r"test_graph.py:\d+:\d+: error: axis H has 5 elements on the left and 6"
    ):
        tensor(H) + tensor(ng.make_axis(6, "H"))
    with pytest.raises(ng.AxisLengthError, match="H"):
        ng.constant([1, 2], [H])
    with pytest.raises(ng.IncompatibleAxesError, match="2 dimensions"):
        ng.constant([[1, 2]], [H])


def test_default_reductions_spare_batch_and_time() -> None:
    x = tensor(C, REC, N)
    a = array(C, REC, N)
    for f, g in (
        (ng.sum, np.sum),
        (ng.max, np.max),
        (ng.min, np.min),
        (ng.prod, np.prod),
        (ng.mean, np.mean),
    ):
        assert f(x).axes.names == ("REC", "N")
        np.testing.assert_allclose(value(f(x)), g(a, 0), rtol=1e-5, atol=1e-6)
    assert ng.squared_L2(x).axes.names == ng.L1_norm(x).axes.names == ("N",)
    np.testing.assert_allclose(value(ng.L2_norm(x)), np.sqrt((a * a).sum((0, 1))), rtol=1e-5)
    np.testing.assert_allclose(value(ng.variance(x)), a.var(0), rtol=1e-5)
    assert value(ng.tensor_size(x)) == 12 and value(ng.batch_size(x)) == 2
    np.testing.assert_array_equal(value(ng.argmax(x)), a.argmax(0))


def test_reductions_by_out_axes() -> None:
    x, a = tensor(C, H, W), array(C, H, W)
    np.testing.assert_allclose(value(ng.sum(x, out_axes=[W, C])), a.sum(1).T, rtol=1e-5, atol=1e-6)
    assert ng.sum(x, reduction_axes=[]) is x
    np.testing.assert_array_equal(value(ng.argmin(x, reduction_axes=[C, H])), a.reshape(20, 3).argmin(0))
    for wrong in (
        {"reduction_axes": [N]},
        {"out_axes": [C], "reduction_axes": [H]},
        {"out_axes": [C], "reduction_axes": [C, H, W]},
    ):
        with pytest.raises(ng.IncompatibleAxesError, match=r"test_graph.py:\d+"):
            ng.sum(x, **wrong)


def test_dot_contracts_shared_names() -> None:
    x, y = tensor(C, H, W), tensor(N, W, H, seed=1)
    made = ng.dot(x, y)
    assert made.axes.names == ("C", "N")
    np.testing.assert_allclose(
        value(made), np.einsum("chw,nwh->cn", array(C, H, W), array(N, W, H, seed=1)), rtol=1e-5
    )
    assert ng.dot(tensor(C), tensor(H)).axes.names == ("C", "H")
    assert ng.dot(tensor(C), tensor(C)).axes.names == ()
    assert ng.dot(2, tensor(C)).axes.names == ("C",)
    batched = ng.dot(tensor(C, H, N), tensor(W, N, C, seed=1), batch_axes=[N])
    assert batched.axes.names == ("N", "H", "W")
    assert (tensor(C, H) @ tensor(H, W)).axes.names == ("C", "W")


def test_slices() -> None:
    x, a = tensor(C, H, W), array(C, H, W)
    for item in (
        0,
        -1,
        slice(1, 3),
        (slice(None), 2),
        (Ellipsis, 1),
        (1, Ellipsis, slice(0, 2)),
        (slice(None, None, -1), slice(None, None, 2)),
        (slice(-3, 100),),
    ):
        np.testing.assert_array_equal(value(x[item]), a[item])
    assert x[1:3].axes.names == ("C", "H", "W") and x[1:3].axes[0].length == 2
    assert x[..., 0].axes.names == ("C", "H")
    assert x[:].axes[0] is x.axes[0]
    assert x[:] is x
    with pytest.raises(ng.UserError, match="index 9 of axis C, which has 4"):
        x[9]
    with pytest.raises(ng.IncompatibleAxesError):
        x[0, 0, 0, 0]
    np.testing.assert_array_equal(value(ng.slice_along_axis(x, H, 2)), a[:, 2])


def test_moves() -> None:
    x, a = tensor(C, H), array(C, H)
    np.testing.assert_array_equal(value(ng.Transpose(x)), a.T)
    np.testing.assert_array_equal(value(ng.axes_with_order(x, [H, C])), a.T)
    np.testing.assert_array_equal(value(ng.flatten(x)), a.ravel())
    np.testing.assert_array_equal(value(ng.unflatten(ng.flatten(x))), a)
    assert ng.unflatten(ng.flatten(x)).axes == x.axes
    np.testing.assert_array_equal(value(ng.pad(x, [(1, 2), 0])), np.pad(a, [(1, 2), (0, 0)]))
    assert ng.pad(x, [(1, 2), 0]).axes[1] is x.axes[1]
    assert ng.pad(x, {"a": 0, "b": 0}.values()) is x
    np.testing.assert_array_equal(value(ng.concat_along_axis([x, x[1:]], C)), np.concatenate([a, a[1:]]))
    pair = ng.make_axis(name="pair")
    np.testing.assert_array_equal(value(ng.stack([x, ng.Transpose(x)], pair, 1)), np.stack([a, a], 1))
    assert pair.length == 2
    assert ng.cast_role(x, [W, N]).axes.lengths == (4, 5)
    assert ng.map_roles(x, {"C": "Z"}).axes.names == ("Z", "H")
    assert ng.expand_dims(x, N, 1).axes.names == ("C", "N", "H")
    assert x.append_axis(N).axes.names == ("C", "H", "N")
    for wrong, kind in (
        (lambda: ng.pad(x, [1]), ng.IncompatibleAxesError),
        (lambda: ng.cast_axes(x, [W, N]), ng.AxisLengthError),
        (lambda: ng.axes_with_order(x, [C]), ng.IncompatibleAxesError),
        (lambda: ng.concat_along_axis([x, tensor(C)], C), ng.AxisNotFound),
        (lambda: ng.map_roles(x, {"C": "H"}), ng.DuplicateAxisNames),
        (lambda: ng.broadcast(x, [C]), ng.IncompatibleAxesError),
    ):
        with pytest.raises(kind, match=r"test_graph.py:\d+"):
            wrong()


def test_indexing() -> None:
    x, a = tensor(C, H), array(C, H)
    index = ng.constant([3, 0, -1], [W], dtype="i32")
    np.testing.assert_array_equal(value(ng.gather(x, index, C)), a[[3, 0, 3]])
    assert value(ng.one_hot(ng.constant([1, 9, 3], [W]), C)).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 1],
    ]
    assert ng.one_hot(index, C).axes.names == ("C", "W")
    own = ng.constant([[0, 1], [3, 2], [1, 1], [0, 0], [-1, 9]], [H, ng.make_axis(2, "C")], dtype="i32")
    picked = [[a[[0, 3, 1, 0, 3], range(5)]], [a[[1, 2, 1, 0, 3], range(5)]]]
    np.testing.assert_array_equal(value(ng.gather_elements(x, own, C)), np.concatenate(picked))
    np.testing.assert_array_equal(value(ng.lookuptable(x, index, [W, H])), a[[3, 0, 3]])
    np.testing.assert_array_equal(value(ng.lookuptable(x, ng.constant([1, 2], [N]), [C, N])), a[:, [1, 2]])
    with pytest.raises(ng.IncompatibleAxesError, match="reorder"):
        ng.lookuptable(x, index, [H, W])
    assert value(ng.cumulative_sum(ng.constant([1, 2, 3], [W]), W, reverse=True)).tolist() == [6, 5, 3]


def test_softmax_and_its_schema() -> None:
    x = tensor(C, N)
    s = ng.softmax(x)
    assert [type(schema).__name__ for schema in s.schemas] == ["Softmax"]
    e = np.exp(array(C, N))
    np.testing.assert_allclose(value(s), e / e.sum(0), rtol=1e-5)
    labels = ng.one_hot(ng.constant([1, 3], [N]), C)
    np.testing.assert_allclose(
        value(ng.cross_entropy_multi(s, labels)), -np.log((e / e.sum(0))[[1, 3], [0, 1]]), rtol=1e-5
    )
    with pytest.raises(ng.UnmatchedAxesError, match="contained"):
        ng.cross_entropy_multi(s, tensor(H, N))
    with pytest.raises(ng.AxisNotFound):
        ng.softmax(x, normalization_axes=[H])


def test_control_flow() -> None:
    x = ng.placeholder(())
    picked = ng.cond(x > 0, lambda: (x * 2, x + 100), lambda: (-x, x - 1))
    assert [float(v) for v in value(picked, (x, 3))] == [6, 103]
    assert [float(v) for v in value(picked, (x, -3))] == [3, -4]
    doubled, steps = ng.while_loop(lambda v, n: v < 100, lambda v, n: (v * 2, n + 1), (x, ng.constant(0)))
    assert [float(v) for v in value((doubled, steps), (x, 3))] == [192, 6]
    series = ng.constant(np.arange(12.0).reshape(4, 3), [C, REC])
    last, sums = ng.scan(lambda c, s: (c + s, c + s), ng.constant(np.zeros(4), [C]), series, REC)
    assert sums.axes.names == ("REC", "C")
    np.testing.assert_array_equal(value(sums), np.arange(12.0).reshape(4, 3).cumsum(1).T)
    np.testing.assert_array_equal(value(last), np.arange(12.0).reshape(4, 3).sum(1))
    leaked: list[ng.Tensor] = []
    ng.cond(x > 0, lambda: leaked.append(x * 5) or leaked[0], lambda: x)
    for wrong, kind in (
        (lambda: value(leaked[0] + 1, (x, 1)), ng.OutsideRegion),
        (lambda: ng.cond(x > 0, lambda: (x, x), lambda: x), ng.UserError),
        (lambda: ng.cond(tensor(H) > 0, lambda: x, lambda: x), ng.IncompatibleAxesError),
        (lambda: ng.while_loop(lambda v: v < 1, lambda v: ng.broadcast(v, [H]), x), ng.IncompatibleAxesError),
        (lambda: ng.scan(lambda c, s: c, x, series, REC), ng.UserError),
        (lambda: ng.cond(x > 0, lambda: ng.assign(ng.variable(()), x), lambda: x), ng.UserError),
        (lambda: ng.cond(x > 0, lambda: None, lambda: None), ng.UserError),
    ):
        with pytest.raises(kind, match=r"test_graph.py:\d+"):
            wrong()


def test_pending_writes_reach_loops() -> None:
    w = ng.variable((), initial_value=1)
    ng.assign(w, w + 1)
    assert value(ng.cond(ng.constant(1) > 0, lambda: w * 10, lambda: w)) == 20


# ---- derivatives: what is no rule of an op


def test_deriv() -> None:
    x, y = ng.placeholder([C, H]), ng.variable([H], initial_value=2)
    total = ng.sum(x * y, out_axes=())
    d = ng.deriv(total, x)
    assert d.axes == x.axes and d.location.file == __file__
    assert ng.deriv(total, x).args == d.args  # one backward graph for all
    assert value(ng.deriv(total, ng.placeholder([W]))).tolist() == [0, 0, 0]
    e = ng.placeholder([H, C])
    np.testing.assert_allclose(value(ng.deriv(x * y, x, e), (e, array(H, C))), array(H, C).T * 2)
    part = x * y
    whole = ng.sum(part * part, out_axes=())
    np.testing.assert_allclose(value(ng.deriv(whole, part), (x, array(C, H))), array(C, H) * 4, rtol=1e-6)
    for wrong, kind in (
        (lambda: ng.deriv(x * y, x), ng.NotDifferentiable),
        (lambda: ng.deriv(x * y, x, ng.placeholder([W])), ng.IncompatibleAxesError),
        (lambda: ng.deriv(ng.argmax(x), x), ng.NotDifferentiable),
    ):
        with pytest.raises(kind, match=r"test_graph.py:\d+"):
            wrong()


def test_gradients_are_small_graphs() -> None:
    x = ng.placeholder([C, N])
    t = ng.placeholder([C, N])
    loss = ng.sum(ng.cross_entropy_multi(ng.softmax(ng.relu(x)), t), out_axes=())
    text = to_text(ng.lift([ng.deriv(loss, x)], [x, t]).module)
    assert text.count("ng.select") == 1 and text.count("ng.exp") == 0 and "ng.max " not in text


# ---- lifting


def test_lifting_is_deterministic_and_verified() -> None:
    def build() -> str:
        x, w = ng.placeholder([C, N]), ng.variable([H, C], initial_value=0)
        y = ng.tanh(ng.dot(w, x))
        step = ng.assign(w, w - ng.deriv(ng.sum(y, out_axes=()), w))
        return to_text(ng.lift([y, step], [x]).module)

    text = build()
    assert build() == text
    assert to_text(from_text(text)) == text
    assert "ng.tied = array<i64: 1, 1>" in text
    assert text.count("func.return") == 1


def test_lifted_ops_know_the_users_line() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    made = ng.lift([ng.exp(tensor(H))]).module
    exp = next(op for op in made.walk() if op.name == "ng.exp")
    assert (exp.location.file, exp.location.line) == (__file__, line)


def test_importing_is_quick_and_quiet() -> None:
    probe = "import sys, ngmlir; print(ngmlir.__name__, [m for m in ('llvmlite', 'cuda', 'ngmlir.compiler') if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert out.stdout == "ngmlir []\n" and out.stderr == ""


@pytest.mark.parametrize("f", [ng.exp, ng.negative, ng.sum, ng.softmax])
def test_functions_take_numbers_and_arrays(f: Callable[[Any], ng.Tensor]) -> None:
    assert value(f(2.0)) is not None
    assert value(f(np.ones(3))) is not None


def test_every_op_is_a_function() -> None:
    other_names = {
        "product": "prod", "remainder": "mod", "floor_divide": "floordivide", "select": "where", "lookup": "lookuptable",
        "cumulative_product": "cumulative_prod", "shift_right_arithmetic": "shift_right", "slice": "tensor_slice",
        "transpose": "Transpose", "border_pad": "pad", "reshape": "flatten", "concatenate": "concat_along_axis", "if": "cond", "while": "while_loop",
        "random_uniform": "uniform", "random_normal": "normal", "cross_entropy": "cross_entropy_multi",
        "first_max": "pool", "normalize": "layer_norm", "segment_reduce": "segment_sum", "segment_cumulative": "segment_cumulative_sum",
    }  # fmt: skip
    made_by_passes = {"yield", "fusion", "cumulative_runs", "extent"}
    for op in dialect.OPS:
        name = op.removeprefix("ng.")
        assert name in made_by_passes or hasattr(ng, other_names.get(name, name)), op
