# SPDX-License-Identifier: Apache-2.0
"""What is said of an op when it is made, and finding ops by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng

C, H = ng.make_axis(3, "C"), ng.make_axis(4, "H")


def run(*results: ng.Tensor) -> Any:
    return ng.transformers.make_transformer("numpy").computation(list(results))()


def test_every_function_takes_axes_name_and_metadata() -> None:
    x, y = ng.placeholder([C, H], name="x"), ng.placeholder([H, C], name="y")
    made = ng.add(x, y, axes=[C, H], name="s", metadata={"layer": 1})
    assert (made.axes.names, made.name, made.metadata) == (("C", "H"), "s", {"layer": 1})
    assert ng.exp(x, axes=["H", "C"]).axes.names == ("H", "C")
    assert ng.softmax(x, name="p").schemas
    assert ng.dot(x, y, name="d").name == "d"
    assert ng.deriv(ng.sum(x, out_axes=()), x, name="dx").name == "dx"
    assert ng.assign(ng.variable((), initial_value=0), 1, metadata={"k": 2}).metadata == {"k": 2}
    for function in (ng.placeholder, ng.variable, ng.persistent_tensor, ng.temporary):
        kept: Any = function
        assert kept([C], metadata={"stochastic": "dropout"}).metadata == {"stochastic": "dropout"}
    with ng.metadata(model="m"), ng.name_scope("block"):
        inside = ng.multiply(x, y, name="p", metadata={"layer": 2})
    assert (inside.name, inside.metadata) == ("block/p", {"model": "m", "layer": 2})


def test_the_values_are_in_the_axes_that_were_stated() -> None:
    x = ng.constant(np.arange(12).reshape(3, 4), [C, H])
    turned = ng.multiply(x, 2, axes=["H", "C"])
    assert np.array_equal(run(turned)[0], np.arange(12).reshape(3, 4).T * 2)


def test_what_stood_before_keeps_its_name() -> None:
    x = ng.placeholder([C], name="x", initial_value=2)
    same = ng.cast(x, "f32", name="same", metadata={"a": 1})
    assert (x.name, x.metadata, same.name) == ("x", {}, "same")
    value, slope = run(same, ng.deriv(ng.sum(same * same, out_axes=()), x))
    assert value.tolist() == [2, 2, 2]
    assert slope.tolist() == [4, 4, 4]


def test_several_values_take_metadata_only() -> None:
    T = ng.make_axis(2, "T")
    results = ng.scan(
        lambda total, item: (total + item, item),
        ng.constant(0),
        ng.constant([1, 2], [T]),
        T,
        metadata={"k": 1},
    )
    assert [r.metadata for r in results] == [{"k": 1}] * 2
    with pytest.raises(ng.UserError, match="scan gives several values"):
        ng.scan(lambda total, item: (total, item), ng.constant(0), ng.constant([1, 2], [T]), T, name="s")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ng.exp(x, axes=[C]), r"exp gives the axes \(C, H\), but \(C\) were stated"),
        (lambda x: ng.exp(x, axes=["K"]), "no axis K"),
        (lambda x: ng.exp(x, metadata=3), "metadata is 3"),
        (lambda x: ng.exp(x, name=3), "the name of an op is a string"),
        (lambda x: ng.as_ops([x], name="n"), "several values"),
        (lambda x: ng.compute_reduction_axes(x, None, None, name="n"), "several values|makes no op"),
        (lambda x: ng.doall([x], axes=[C]), "makes no tensor"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ng.UserError, match=message):
        call(ng.placeholder([C, H]))


def test_an_unknown_word_stays_a_type_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        ng.exp(ng.constant(1), colour="red")


def test_finding_ops() -> None:
    with ng.name_scope("encoder"):
        w = ng.variable([C], initial_value=1, name="w", metadata={"layer": 1, "trained": True})
    bias = ng.variable([C], initial_value=0, metadata={"layer": 2})
    y = ng.add(w, bias, name="y", metadata={"layer": 2})
    ops = ng.Op.ordered_ops([y])
    assert ng.select_ops(ops, metadata={"layer": 2}) == [bias, y]
    assert ng.select_ops(ops, metadata={"layer": lambda n: n < 2}) == [w]
    assert ng.select_ops(ops, metadata="trained") == [w]
    assert ng.select_ops(ops, metadata=["trained", "layer"]) == [w]
    assert ng.select_ops(y, "encoder/*") == ng.select_ops(y, "w") == [w]
    assert ng.select_ops(ops, kind="Add") == ng.select_ops(ops, kind=type(y)) == [y]
    assert ng.select_ops(ops, where=lambda op: op.is_trainable) == [w, bias]
    assert ng.select_ops(ops, "bias") == [bias]  # what it was assigned to
    assert ng.select_ops(ops, "nothing") == []
    assert ng.find_op(y, "encoder/w") is ng.find_op(ops, "w") is w
    with pytest.raises(ng.UserError, match="no op is called encoder/v") as raised:
        ng.find_op(y, "encoder/v")
    assert "encoder/w" in raised.value.diagnostics[0].hint
    whole = w * ng.exp(w, name="w")
    assert ng.find_op(whole, "w").name == "w"  # a whole name comes before a last part
    with ng.name_scope("decoder"):
        twice = w * ng.exp(w, name="w")
    with pytest.raises(ng.UserError, match="2 ops are called w"):
        ng.find_op(twice, "w")


def test_an_op_is_made_with_name_and_metadata() -> None:
    op = ng.Op(name="marker", metadata={"k": "v"})
    assert (op.name, op.short_name, op.metadata) == ("marker", "marker", {"k": "v"})
    assert op.filename == __file__


def test_every_op_is_copied_with_other_arguments() -> None:
    x, y = ng.constant([1, 2, 3], [C]), ng.constant([4, 5, 6], [C])
    made = ng.exp(x - y, name="e", metadata={"k": 1})
    again = made.copy_with_args([x])
    assert type(again) is type(made)
    assert (again.args, again.name, again.metadata) == ((x,), "e", {"k": 1})
    assert np.allclose(run(again)[0], np.exp([1, 2, 3]))
    with pytest.raises(ng.UserError, match="1 argument, not 2"):
        made.copy_with_args([x, y])
    v = ng.variable((), initial_value=1)
    with ng.Op.saved_user_deps():
        write = ng.assign(v, v + 1)
        other = write.copy_with_args([v, ng.constant(7)])
    assert run(v, ng.sequential([other, v]))[0] == 7
    assert run(write.copy_with_new_args(write.args), v) == (None, 2)
    group = ng.doall([write])
    assert group.copy_with_args([]).members == (write,)
    assert v.copy_with_args([]) is v


def test_loops_and_branches_are_copied_too() -> None:
    T = ng.make_axis(3, "T")
    scale, series = ng.constant(2), ng.constant([1, 2, 3], [T])
    last, _ = ng.scan(lambda total, item: (total + scale * item, total), ng.constant(0), series, T)
    (loop,) = last.args
    again: Any = loop.copy_with_args([ng.constant(10), *loop.args[1:]])
    assert [float(v) for v in run(last, again.results[0])] == [12, 22]
    with pytest.raises(ng.UserError, match="has bodies"):
        loop.copy_with_args([*loop.args[:-1], ng.constant(3)])


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_operators_on_bits(target: str) -> None:
    numbers = np.array([1, 6, -3], np.int32)
    x = ng.constant(numbers, [C], dtype="i32")
    truth = x > 0
    flags = numbers > 0
    made = [x & 3, 3 & x, x | 8, 8 | x, x ^ 5, 5 ^ x, x << 2, 1 << (x & 3), x >> 1, ~x, truth & (x > 2), ~truth,
            truth ^ True, True | truth, +x]  # fmt: skip
    want = [numbers & 3, 3 & numbers, numbers | 8, 8 | numbers, numbers ^ 5, 5 ^ numbers, numbers << 2,
            1 << (numbers & 3), numbers >> 1, ~numbers, flags & (numbers > 2), ~flags, flags ^ True, True | flags,
            numbers]  # fmt: skip
    values = ng.transformers.make_transformer(target).computation(made)()
    for value, expected in zip(values, want, strict=True):
        assert value.dtype == expected.dtype
        assert np.array_equal(value, expected)
    pairs = [*divmod(x, 4), *divmod(7, x)]
    expected = [*divmod(numbers, 4), *divmod(7, numbers)]
    for value, one in zip(
        ng.transformers.make_transformer(target).computation(pairs)(), expected, strict=True
    ):
        assert np.array_equal(value, one)


def test_floats_are_true_or_not() -> None:
    x = ng.constant([0.0, 2.0, 0.5], [C])
    assert run(x & 1.0)[0].tolist() == [False, True, True]
    with pytest.raises(ng.UserError, match="integers or booleans"):
        _ = x ^ x


def test_names_stand_for_new_axes_where_their_lengths_are_known() -> None:
    x = ng.constant(np.arange(12).reshape(3, 4), ["C", "H"])
    assert x.axes.names == ("C", "H")
    assert x.axes.lengths == (3, 4)
    assert ng.constant([1, 2], "N").axes.lengths == (2,)
    assert ng.constant(np.ones((3, 2)), [C, "N"]).axes.names == ("C", "N")
    turned = ng.cast_axes(x, ["A", H])
    assert (turned.axes.names, turned.axes.lengths) == (("A", "H"), (3, 4))
    assert ng.pad(x, [1, 0], axes=["P", "H"]).axes["P"].length == 5
    assert ng.tensor_slice(x, [slice(0, 2), 1], axes="S").axes["S"].length == 2
    assert ng.stack([x, x], "T").axes.lengths == (2, 3, 4)
    for wrong in (lambda: ng.constant(1, ["C"]), lambda: ng.constant(np.ones(3), ["C", "H"])):
        with pytest.raises(ng.IncompatibleAxesError, match="is not an axis"):
            wrong()
    with pytest.raises(ng.AxisLengthError):
        ng.cast_axes(x, [H, "C"])
