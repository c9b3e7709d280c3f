# SPDX-License-Identifier: Apache-2.0
"""Wrong uses of the Python API: each gives the right result, or an error that names the user's line and the reason."""

from __future__ import annotations

import fractions
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph.errors import MissingValue
from ngmlir.transformers import (
    UninitializedVariable,
    allocate_transformer,
    make_transformer,
    set_transformer_factory,
)

TRANSFORMERS = ["numpy", "cpu"]


def matrix(dtype: Any = None) -> ng.Tensor:
    return ng.placeholder([ng.make_axis(3, "C"), ng.make_axis(4, "H")], dtype=dtype, name="x")


def vector(initial: Any = None) -> ng.Tensor:
    return ng.variable([ng.make_axis(3, "C")], initial_value=initial)


def located(
    kind: type[ng.UserError], message: str, wrong: Callable[..., Any], *given: Any, **named: Any
) -> None:
    """`wrong(*given)` raises this error, and the error says that it happened in this file."""
    with pytest.raises(kind) as caught:
        wrong(*given, **named)
    (found,) = caught.value.diagnostics
    assert message in found.message, found.message
    assert found.location.file == __file__
    assert found.location.line > 0 and found.location.column > 0
    assert str(caught.value).startswith(f"{__file__}:{found.location.line}:{found.location.column}: error: ")


# ---- values that are fed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((4, 3)), "a value of shape (4, 3) cannot be broadcast"),
        (np.ones((2, 3, 4)), "a value of shape (2, 3, 4) cannot be broadcast"),
        (np.ones((3, 4, 1)), "a value of shape (3, 4, 1) cannot be broadcast"),
        (np.ones((0,)), "a value of shape (0,) cannot be broadcast"),
        (np.ones((3, 4), complex), "complex elements"),
        ("hello", "neither a number nor an array"),
        ("3.5", "neither a number nor an array"),
        (b"3", "neither a number nor an array"),
        (None, "neither a number nor an array"),
        (object(), "neither a number nor an array"),
        ({"a": 1}, "neither a number nor an array"),
        ([[1, 2], [3]], "neither a number nor an array"),
        ([1, None, 2], "neither a number nor an array"),
        (np.datetime64("2020-01-01"), "neither a number nor an array"),
        (np.zeros((3, 4), [("a", "f4")]), "neither a number nor an array"),
        (ng.constant(1), "neither a number nor an array"),
        (10**400, "holds a number that f32 cannot hold"),
    ],
)
def test_values_that_do_not_fit(name: str, value: Any, message: str) -> None:
    x = matrix()
    doubled = make_transformer(name).computation(x * 2, x)
    located(ng.UserError, message, lambda: doubled(value))
    assert doubled(np.ones((3, 4))).sum() == 24  # nothing is left broken


def test_a_function_is_no_graph() -> None:
    with pytest.raises(ng.UserError, match="hint: call the function with placeholders"):
        ng.compile(lambda x: x)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(4, 3).T,
        np.arange(12.0).reshape(3, 4)[::-1, ::-1],
        np.arange(48.0).reshape(6, 8)[::2, ::2],
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.arange(12, dtype=">i8").reshape(3, 4),
        np.ones((3, 4), ml_dtypes.bfloat16),
        np.ones((3, 4), bool),
        np.broadcast_to(np.float32(2), (3, 4)),
        np.arange(4.0),
        np.float64(3),
        7,
        True,
        10**30,
        fractions.Fraction(1, 4),
        [[1, 2, 3, 4]] * 3,
    ],
)
def test_values_that_fit(name: str, value: Any) -> None:
    x = matrix()
    given = np.asarray(value)
    given.flags.writeable = False
    doubled = make_transformer(name).computation(x * 2, x)(value if np.ndim(value) == 0 else given)
    np.testing.assert_array_equal(doubled, np.broadcast_to(2 * given.astype(np.float32), (3, 4)))
    assert doubled.dtype == np.float32


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_floats_into_integers(name: str) -> None:
    transformer = make_transformer(name)
    for dtype, low, high in (("i8", -128, 127), ("i32", -(2**31), 2**31 - 1), ("ui8", 0, 255)):
        x = ng.placeholder((), dtype=dtype)
        same = transformer.computation(ng.add(x, 0, dtype=dtype), x)
        for wrong in (np.nan, np.inf, -np.inf, high + 1.0, low - 1.0, 1e30, 0.5, high - 0.5, low - 0.5):
            located(ng.UserError, f"which {dtype} cannot hold", same, wrong)
            located(ng.UserError, "cannot hold", ng.constant, wrong, dtype=dtype)
        assert same(float(low)) == low and same(float(high)) == high
    x = ng.placeholder((), dtype="i64")
    same = transformer.computation(ng.add(x, 0, dtype="i64"), x)
    assert same(-(2.0**63)) == -(2**63) and same(2**63 - 1) == 2**63 - 1
    located(ng.UserError, "i64 cannot hold", lambda: same(2.0**63))
    located(ng.UserError, "i64 cannot hold", lambda: same(2**70))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_integers_into_narrower_integers(name: str) -> None:
    x = ng.placeholder([ng.make_axis(2, "A"), ng.make_axis(3, "B")], dtype="i32")
    same = make_transformer(name).computation(ng.add(x, 0, dtype="i32"), x)
    given = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(same(given), given)
    given[1, 2] = 2**31
    for wrong in (
        given,
        given.tolist(),
        given.astype(np.uint32),
        given.astype(object),
        given.astype(np.float32),
    ):
        located(ng.UserError, "which i32 cannot hold", lambda v=wrong: same(v))
        located(ng.UserError, "at [1, 2]", lambda v=wrong: same(v))
        located(ng.UserError, "the constant holds", lambda v=wrong: ng.constant(v, dtype="i32"))
    state = ng.persistent_tensor([ng.make_axis(2, "A")], dtype="ui8", initial_value=0)
    transformer = make_transformer(name)
    transformer.computation(ng.assign(state, 1))()
    view = transformer.get_op_tensor_view(state)
    located(
        ng.UserError,
        "holds 256 at [1], which ui8 cannot hold",
        lambda: view.__setitem__(slice(None), [1, 256]),
    )
    located(
        ng.UserError,
        "-1, which ui8 cannot hold",
        lambda: ng.persistent_tensor((), dtype="ui8", initial_value=-1),
    )


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_masks_are_not_lost(name: str) -> None:
    x = vector()
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    doubled = make_transformer(name).computation(x * 2, x)
    for wrong in (lambda: doubled(masked), lambda: ng.constant(masked), lambda: vector(masked)):
        located(ng.UserError, "is a masked array; its mask would be lost", wrong)
    np.testing.assert_array_equal(doubled(masked.filled(0)), [2, 0, 6])


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_scalars_and_empty_axes(name: str) -> None:
    transformer = make_transformer(name)
    x, nothing = ng.placeholder(()), ng.placeholder([ng.make_axis(0, "E")])
    assert transformer.computation(x * 2, x)(np.array(3)) == 6
    located(ng.UserError, "a value of shape (1,)", lambda: transformer.computation(x * 2, x)([3.0]))
    assert transformer.computation(ng.sum(nothing, out_axes=()), nothing)(np.ones(0)) == 0
    assert transformer.computation(nothing + 1, nothing)(5).shape == (0,)
    located(
        ng.UserError,
        "the position of an extreme of nothing",
        lambda: transformer.computation(ng.argmax(nothing, out_axes=()), nothing)([]),
    )


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_calls(name: str) -> None:
    transformer = make_transformer(name)
    x = matrix()
    doubled = transformer.computation(x * 2, x)
    located(ng.UserError, "takes 1 value (x", lambda: doubled())
    located(ng.UserError, "but 2 were given", lambda: doubled(1, 2))
    located(ng.UserError, "takes no keyword arguments, such as x", lambda: doubled(x=1))
    located(MissingValue, "no value for x", lambda: doubled(feed_dict={}))
    located(ng.UserError, "feed_dict is [1]", lambda: doubled(feed_dict=[1]))
    located(ng.UserError, "by position and in feed_dict", lambda: doubled(1, feed_dict={x: 1}))
    located(ng.MissingPlaceholder, "is used, but is not a parameter", lambda: transformer.computation(x * 2))
    located(ng.NotAssignable, "3 cannot be a parameter", lambda: transformer.computation(x, 3))
    located(ng.NotAssignable, "cannot be a parameter", lambda: transformer.computation(x, x, ng.constant(1)))
    located(ng.UserError, "is given twice as a parameter", lambda: transformer.computation(x, x, x))
    located(ng.UserError, "neither a number nor an array", lambda: transformer.computation("x"))
    located(ng.UserError, "neither a number nor an array", lambda: transformer.computation([[x]], x))
    located(
        UninitializedVariable,
        "read before it is initialized",
        lambda: transformer.computation(vector() * 1)(),
    )
    transformer.close()
    located(ng.UserError, "the transformer is closed", lambda: doubled(1))
    located(ng.UserError, "the transformer is closed", lambda: transformer.computation(x, x))
    located(ng.UserError, "the transformer is closed", lambda: transformer.get_tensor_view_value(vector(0)))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_contents(name: str) -> None:
    transformer = make_transformer(name)
    v = vector([1, 2, 3])
    view = transformer.get_op_tensor_view(v)

    def put(item: Any, value: Any) -> None:
        view[item] = value

    located(ng.UserError, "a value of shape (5,) cannot be put at", lambda: put(..., np.ones(5)))
    located(ng.UserError, "cannot be put at 9 of", lambda: put(9, 1))
    located(ng.UserError, "neither a number nor an array", lambda: put(0, "x"))
    located(ng.UserError, "the array to fill (5,)", lambda: view.get(np.ones(5)))
    located(ng.NotAssignable, "3 is not a tensor", lambda: transformer.get_op_tensor_view(3))
    located(ng.NotAssignable, "is computed", lambda: transformer.get_op_tensor_view(v + 1))
    np.testing.assert_array_equal(view.get(), [1, 2, 3])


def test_transformers_by_name() -> None:
    unsupported = ng.UnsupportedTransformerException
    located(unsupported, "there is no transformer 'tpu'", lambda: make_transformer("tpu"))
    located(unsupported, "there is no transformer '3'", lambda: make_transformer(3))
    located(unsupported, "there is no transformer 'tpu'", lambda: ng.compile(ng.constant(1), target="tpu"))
    located(
        ng.UserError,
        "'numpy' cannot be made with speed: got an unexpected",
        lambda: allocate_transformer("numpy", speed=1),
    )
    located(ng.UserError, "the factory is 3, not a function", lambda: set_transformer_factory(3))


# ---- building a graph -------------------------------------------------------------------------------------------


def test_axes() -> None:
    C = ng.make_axis(3, "C")
    for length in (-1, "three", 3.5, float("nan"), float("inf"), [3], 1j):
        located(ng.AxisLengthError, "axis A cannot have the length", ng.make_axis, length, "A")
    located(ng.AxisLengthError, "cannot have the length 'A'", lambda: ng.make_axis("A"))
    located(ng.UserError, "the name of an axis must be a string, not 5", lambda: ng.make_axis(3, 5))
    assert ng.make_axis(np.int64(3)).length == 3 == ng.make_axis(3.0).length
    located(ng.DuplicateAxisNames, "axis C appears twice", lambda: ng.placeholder([C, ng.make_axis(3, "C")]))
    for axes in (None, 3, [3, 4], "CH", [None]):
        located(ng.IncompatibleAxesError, "is not an axis", ng.placeholder, axes)
    x = matrix()
    located(ng.IncompatibleAxesError, "is not an axis", lambda: ng.sum(x, reduction_axes=1))
    located(ng.IncompatibleAxesError, "is not an axis", lambda: ng.one_hot(x, None))
    located(ng.IncompatibleAxesError, "no axis Z", lambda: ng.sum(x, reduction_axes=[ng.make_axis(1, "Z")]))
    located(
        ng.AxisLengthError, "3 elements on the left and 5", lambda: x + ng.placeholder([ng.make_axis(5, "C")])
    )
    located(ng.AxisLengthError, "2 tensors stacked", lambda: ng.stack([x, x], ng.make_axis(3, "Z")))
    located(ng.DuplicateAxisNames, "axis C appears twice", ng.stack, [x], "C")
    for wrong in (3, "C", None):
        if wrong != "C":  # the name of a new axis
            located(ng.IncompatibleAxesError, "is not an axis", ng.stack, [x], wrong)
        located(ng.IncompatibleAxesError, "is not an axis", ng.slice_axis, wrong, slice(2))
        located(ng.IncompatibleAxesError, "is not an axis", ng.FlattenedAxis, wrong)
        located(ng.AxisLengthError, "must be 1 or -1, not", ng.slice_axis, C, wrong)
        located(ng.UserError, "is not a mapping of axes", ng.map_roles, x, wrong)
    for transformer in map(make_transformer, TRANSFORMERS):
        n = ng.placeholder([ng.make_axis(name="N")])
        located(ng.AxisLengthError, "the length of axis N is not set", transformer.computation(n * 2, n), 1)
        huge = ng.placeholder([ng.make_axis(2**62, "A")])
        located(ng.AxisLengthError, "no memory can hold", transformer.computation(huge * 2, huge), 1)


def test_operands() -> None:
    x = matrix()
    for wrong in ("a", None, object(), [[1], [1, 2]], 1j, {}, b"a", [x]):
        for function in (ng.add, ng.multiply, ng.greater, ng.maximum, ng.dot):
            located(ng.UserError, "the constant ", function, x, wrong)
            located(ng.UserError, "the constant ", function, wrong, x)
        located(ng.UserError, "the constant ", ng.constant, wrong)
    for dtype in ("float31", complex, object, 3, "S4"):
        located(ng.UserError, "there is no element type", ng.placeholder, (), dtype=dtype)
        located(ng.UserError, "there is no element type", ng.cast, x, dtype)
        located(ng.UserError, "there is no element type", ng.default_float(dtype).__enter__)
    located(ng.UserError, "cannot hold", lambda: ng.constant(10**30, dtype="i32"))
    located(ng.UserError, "no truth value", lambda: bool(x > 1))
    located(ng.UserError, "cannot be iterated over", lambda: list(x))
    for item in ("a", 1.5, None, [0, 1], x, slice(0, 1.5), slice(None, None, 0), (1, 2, 3), 7):
        located(ng.UserError, "ind" if not isinstance(item, slice) else "cannot slice", x.__getitem__, item)
    located(ng.NotDifferentiable, "needs error=", lambda: ng.deriv(x * 2, x))
    located(ng.UserError, "the name of an op must be a string", lambda: x.named(5))
    located(ng.UserError, "not a list of ops", lambda: ng.lift(x))


def test_lists() -> None:
    x, Z = matrix(), ng.make_axis(1, "Z")
    for wrong in (3, None, x, "x"):
        located(ng.UserError, "expected a list of tensors, not", ng.stack, wrong, Z)
        located(ng.UserError, "expected a list of tensors, not", ng.concat_along_axis, wrong, Z)
        located(ng.UserError, "expected a list of paddings, not", ng.pad, x, wrong)
        located(ng.UserError, "expected a list of slices, not", ng.tensor_slice, x, wrong)
        located(ng.UserError, "expected a list of placeholders, not", ng.compile, x * 2, wrong)
        located(ng.UserError, "expected a list of placeholders, not", ng.lift, [x * 2], wrong)
    for wrong in ("ab", (1, 2, 3), 1.5, None):
        located(ng.UserError, "a padding must be an integer or a pair", ng.pad, x, [wrong, 0])


def test_with_statement_stands_at_the_users_line() -> None:
    def enter() -> None:
        with ng.default_float("float31"):
            pass

    with pytest.raises(ng.UserError) as caught:
        enter()
    place = caught.value.diagnostics[0].location
    assert (place.file, place.line) == (__file__, enter.__code__.co_firstlineno + 1)


def test_storage() -> None:
    located(ng.NotAssignable, "is a constant", lambda: ng.assign(ng.constant(1), 2))
    located(ng.NotAssignable, "is computed", lambda: ng.assign(matrix() + 1, 2))
    located(ng.NotAssignable, "3 is not a tensor", lambda: ng.assign(3, 2))
    for wrong in ("x", None, [[1], [1, 2]], object()):
        located(ng.UserError, "neither a number nor an array", ng.assign, vector(), wrong)
        located(ng.UserError, "neither a number nor an array", vector, [wrong])
    located(ng.AxisLengthError, "5 elements along C", lambda: ng.assign(vector(), np.ones(5)))
    located(ng.AxisLengthError, "4 elements along C", lambda: vector(np.ones(4)))
    located(ng.AxisLengthError, "4 elements along C", lambda: vector(lambda axes: np.ones(4)))
    located(ng.UserError, "must be known when it is created", lambda: vector(matrix() + 1))
    located(ng.UserError, "the initial value is called with 1 value", lambda: vector(lambda: np.ones(3)))
    for name in TRANSFORMERS:
        later = ng.make_axis(name="C")
        late = ng.variable([later], initial_value=lambda axes: np.ones(4))
        later.length = 3
        read = make_transformer(name).computation(late * 1)
        located(ng.AxisLengthError, "4 elements along C", read)


def test_control() -> None:
    one, x = ng.constant(1), matrix()
    T = ng.make_axis(4, "T")
    series = ng.constant([1, 2, 3, 4], [T])
    located(ng.UserError, "the first branch is 1, not a function", lambda: ng.cond(one > 0, 1, lambda: one))
    located(ng.UserError, "called with 0 values", lambda: ng.cond(one > 0, lambda: one, lambda v: v))
    located(ng.IncompatibleAxesError, "must be a scalar", lambda: ng.cond(x > 1, lambda: x, lambda: x))
    located(
        ng.UserError, "the condition is called with 1 value", lambda: ng.while_loop(lambda: True, abs, one)
    )
    located(ng.UserError, "the body of a scan is called with 2", lambda: ng.scan(lambda s: s, one, series, T))
    located(ng.UserError, "must return (carried, outputs)", lambda: ng.scan(lambda s, i: s, one, series, T))
    located(ng.AxisNotFound, "no axis T", lambda: ng.scan(lambda s, i: (s, s), one, ng.constant([1, 2]), T))
    for group in (ng.sequential, ng.doall):
        located(ng.UserError, "expected a list of ops, not 3", group, 3)
        located(ng.UserError, "neither a number nor an array", group, [None])
    located(ng.UserError, "3 is not an op", lambda: x.add_control_dep(3))
    first = one + 1
    second = first * 2
    first.add_control_dep(second)
    for name in TRANSFORMERS:
        computation = make_transformer(name).computation(second)
        with pytest.raises(ng.CycleError, match=r"test_bad_input\.py:\d+:\d+: error: .* before itself"):
            computation()


def test_parameters_in_the_place_of_results_are_told_apart() -> None:
    x = ng.placeholder([ng.make_axis(3, name="A")])
    with pytest.raises(ng.NotAssignable) as caught:
        ng.compile([x], [ng.tanh(x)])
    assert caught.value.diagnostics[0].hint == "results come first, then their parameters"
