# SPDX-License-Identifier: Apache-2.0
"""Tensors whose axes are positions: their operators, storage, derivatives, draws, and how they meet named axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from test_numpy_calls import DTYPES, check, drawn

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.llvm.machine import cpu_target
from ngmlir.passes.registry import PASSES

nn = ng.numpy
TARGETS = ["numpy", "cpu", "cuda-sim"]


def value(*tensors: Any, target: str = "numpy") -> Any:
    made = ng.compile(list(tensors), target=target)()
    return made[0] if len(tensors) == 1 else made


def shapes(draw: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast together."""
    whole = draw.integers(1, 5, draw.integers(0, 4))
    made: list[tuple[int, ...]] = []
    for _ in range(count):
        own = np.where(draw.random(len(whole)) < 0.3, 1, whole)[draw.integers(0, len(whole) + 1) :]
        made.append(tuple(int(n) for n in own))
    return made


BINARY = (
    "add subtract multiply divide floor_divide remainder maximum minimum fmax fmin equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor arctan2 copysign hypot power "
    "logaddexp heaviside fmod float_power"
).split()
UNARY = (
    "negative absolute sign square sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh floor ceil trunc rint fabs invert logical_not isnan isinf isfinite signbit cbrt deg2rad rad2deg"
).split()


def attempted(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args, **options))
    except TypeError:
        return None


def calls(name: str, operands: int) -> list[tuple[tuple[Any, ...], Any]]:
    """Arguments of each type with each, broadcast in some way, and what NumPy makes of them."""
    draw = np.random.default_rng(len(name))
    made: list[tuple[tuple[Any, ...], Any]] = []
    for dtypes in itertools.product(DTYPES, [*DTYPES, "weak int", "weak float"][: 99 if operands > 1 else 1]):
        dims = shapes(draw, operands)
        args: list[Any] = []
        for dtype, shape in zip(dtypes[:operands], dims, strict=True):
            low = 1 if name in ("power", "float_power", "floor_divide", "remainder", "fmod") else -3
            args.append({"weak int": 2, "weak float": 1.5}.get(dtype, None))
            if args[-1] is None:
                args[-1] = drawn(shape, dtype, low, 3)
        want = attempted(getattr(np, name), *args)
        if want is not None and want.dtype.kind in "biuf" and want.dtype.itemsize <= 8:
            made.append((tuple(args), want))
        elif want is None:
            with pytest.raises(ng.UserError, match="is not defined for|takes|works on"):
                getattr(nn, name)(*args)
    return made


def compare_all(names: Sequence[str], operands: int, target: str, every: int = 1) -> None:
    for name in names:
        table = calls(name, operands)[::every]
        arrays = [a for args, _ in table for a in args if isinstance(a, np.ndarray)]
        inputs = [nn.placeholder(a.shape, a.dtype) for a in arrays]
        fed = iter(inputs)
        made = [
            getattr(nn, name)(*[next(fed) if isinstance(a, np.ndarray) else a for a in args])
            for args, _ in table
        ]
        for (args, want), got in zip(table, ng.compile(made, inputs, target=target)(*arrays), strict=True):
            try:
                check(got, want)
            except AssertionError as error:
                raise AssertionError(f"{name} of {[getattr(a, 'dtype', a) for a in args]}: {error}") from None


@pytest.mark.parametrize("part", range(4))
def test_elementwise_functions_of_all_types(part: int) -> None:
    compare_all(BINARY[part::4], 2, "numpy", every=2)
    compare_all(UNARY[part::4], 1, "numpy")


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_elementwise_functions_on_other_targets(target: str) -> None:
    compare_all(["add", "less", "floor_divide"], 2, target, every=9)
    compare_all(["exp", "sign"], 1, target)


# ---- what is written


@pytest.mark.parametrize("target", TARGETS)
def test_at(target: str) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x, at = nn.placeholder(a.shape), nn.placeholder((2,), "int32")
    items: list[Any] = [
        1, (0, slice(None, None, -2)), (..., 0), (slice(None), [2, 0], 1), (a > 7), ([0, 1], slice(None), [3, 3]),
        (0, 1, 2), (slice(None), slice(1, 3), slice(0, 4, 3)), (None, 1, ..., None), slice(5, 9),
    ]  # fmt: skip
    made: list[ng.Tensor] = []
    wants: list[np.ndarray[Any, Any]] = []
    for item in items:
        for how, into in (("set", None), ("add", np.add), ("multiply", np.multiply), ("max", np.maximum)):
            want = a.copy()
            if into is None:
                want[item] = 5.5
            else:
                want[item] = into(want[item], 5.5)
            made.append(getattr(x.at[item], how)(5.5))
            wants.append(want)
    tied = a.copy()
    np.add.at(tied, (np.array([1, 1]), np.array([0, 0])), np.array([[1.0], [10]]))
    made += [
        x.at[[1, 1], 0].add([[1.0], [10]]),
        x.at[at, 0].add([[1.0], [10]]),
        x.at[0, at[0]].set(x[1, 0]),
        x.at[1].get(),
    ]
    last = a.copy()
    last[0, 1] = a[1, 0]
    wants += [tied, tied, last, a[1]]
    for got, want in zip(ng.compile(made, [x, at], target=target)(a, [1, 1]), wants, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_storage_is_written_to_by_items(target: str) -> None:
    start = np.arange(12, dtype=np.float32).reshape(3, 4)
    for item, new in (
        ((1, slice(None, None, 2)), [7, 8]), (slice(None, None, -1), np.arange(4)), ([2, 0], [[1], [2]]),
        (start > 5, 0), ((..., 0), 1), ((slice(None), None, [1, 3]), 9), ((0, 1), 2.5),
    ):  # fmt: skip
        w = nn.variable(start)
        w[item] = new
        want = start.copy()
        want[item] = new
        np.testing.assert_array_equal(value(w, target=target), want)
    w = nn.variable(start)
    w += 1
    c = nn.variable(np.zeros((2, 2)), dtype="float32")
    ng.assign(c, [1, 2])
    np.testing.assert_array_equal(value(c + 0, target=target), [[1, 2], [1, 2]])
    with pytest.raises(ng.NotAssignable, match=r"x\.at\[item\]\.set"):
        (c * 2)[0] = 1


def test_state_is_kept_as_that_of_named_axes() -> None:
    w = nn.variable([1.0, 2.0], name="w")
    step = ng.sequential([ng.assign(w, w * 2), w])
    transformer = ng.transformers.make_transformer("cpu")
    run = transformer.computation(step)
    assert run().tolist() == [2, 4] and run().tolist() == [4, 8]
    assert run.state()["w"].dtype == np.float64
    x = nn.placeholder((2, 3), "float32", name="x")
    f = transformer.computation(x.sum(axis=1), x)
    assert f(np.ones((2, 3))).tolist() == [3, 3] and f([[1], [2]]).tolist() == [3, 6]
    with pytest.raises(ng.UserError):
        f(np.ones((3, 2)))


# ---- derivatives


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_derivatives(target: str) -> None:
    """Against central differences, of functions of each file."""
    draw = np.random.default_rng(3)
    at = draw.uniform(0.2, 0.8, (3, 4))
    other = draw.uniform(0.2, 0.8, (4, 3))
    functions: list[Callable[[Any], ng.Tensor]] = [
        lambda x: x @ other, lambda x: other.T + x[:, :1], lambda x: x[[0, 0, 2], 1:], lambda x: x[::-1, None, ::2] ** 2,
        lambda x: nn.sort(x, axis=1) * np.arange(4), lambda x: nn.sort(x, axis=0)[0], lambda x: nn.top_k(x, 2)[0],
        lambda x: nn.einsum("ij,jk,kl->il", x, other, x), lambda x: nn.var(x, axis=0, ddof=1), lambda x: nn.std(x),
        lambda x: nn.median(x, axis=1), lambda x: nn.concatenate([x, x * x], axis=1), lambda x: nn.pad(x, 2, "reflect"),
        lambda x: nn.where(x > 0.5, x, x**2), lambda x: nn.cumsum(x, axis=1), lambda x: nn.cumprod(x), lambda x: nn.max(x, axis=0),
        lambda x: x.at[1, 2:].set(x[0, :2] * 3), lambda x: x.at[[0, 0]].add(x[1:]), lambda x: nn.linalg.norm(x, axis=1),
        lambda x: nn.roll(x, 1, axis=1) * x, lambda x: nn.tile(x, (2, 2)).reshape(4, -1)[1], lambda x: nn.outer(x, x)[3],
        lambda x: nn.kron(x[:2, :2], x[1:]), lambda x: nn.tensordot(x, x, axes=([0], [0])), lambda x: nn.mean(x, axis=1, where=at > 0.4),
        lambda x: nn.diag(x[0]) @ x.T, lambda x: nn.hypot(x, 0.3), lambda x: nn.logaddexp(x, x.T[0, 0]), lambda x: nn.prod(x, axis=0),
        lambda x: nn.interp(x, [0, 0.4, 1], [1, 2, 0]), lambda x: nn.take_along_axis(x, np.array([[1], [0], [3]]), 1),
        lambda x: nn.repeat(x, [1, 0, 2], axis=0), lambda x: nn.cross(x[:, :3], x[:, 1:]), lambda x: nn.quantile(x, 0.3, axis=0),
        lambda x: nn.cbrt(x), lambda x: nn.convolve(x[0], x[1]), lambda x: nn.clip(x, 0.3, 0.6), lambda x: nn.stack([x[0], x[1]], -1),
        lambda x: nn.gradient(x, axis=1, edge_order=2), lambda x: nn.cov(x), lambda x: nn.insert(x, 1, x[2] * 2, axis=0),
        lambda x: nn.polyval(x[0, :3], x), lambda x: nn.block([[x, x[:, :1]], [nn.ones((1, 5))]]),
    ]  # fmt: skip
    x = nn.placeholder(at.shape)
    functions = functions[:: 1 if target == "numpy" else 4]  # derivatives are graphs as others are
    weights = [draw.uniform(-1, 1, f(x).shape) for f in functions]
    losses = [nn.sum(f(x) * w) for f, w in zip(functions, weights, strict=True)]
    slopes = [ng.deriv(loss, x) for loss in losses]
    assert all(s.family is nn and s.shape == at.shape for s in slopes)
    computed = ng.compile([*losses, *slopes], [x], target=target)
    found = computed(at)[len(losses) :]
    numeric = [np.zeros_like(at) for _ in losses]
    for place in np.ndindex(*at.shape):
        near = at.copy()
        near[place] += 1e-6
        up = computed(near)[: len(losses)]
        near[place] -= 2e-6
        down = computed(near)[: len(losses)]
        for grid, high, low in zip(numeric, up, down, strict=True):
            grid[place] = (high - low) / 2e-6
    for i, (got, want) in enumerate(zip(found, numeric, strict=True)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7, err_msg=f"function {i}")


def test_second_derivatives_and_errors() -> None:
    x = nn.variable([1.0, 2.0, 3.0])
    once = ng.deriv((x**3).sum(), x)
    assert value(ng.deriv(once.sum(), x)).tolist() == [6, 12, 18]
    assert value(ng.deriv(x * x, x, error=nn.asarray([1.0, 0, 2]))).tolist() == [2, 0, 12]
    with pytest.raises(ng.NotDifferentiable, match="needs error="):
        ng.deriv(x * x, x)
    with pytest.raises(ng.IncompatibleAxesError):
        ng.deriv(x * x, x, error=nn.ones(2))


# ---- families


N, C = ng.make_axis(2, "N"), ng.make_axis(3, "C")


def test_lengths_match_by_place_alone() -> None:
    x, y = nn.ones((3,)), nn.ones((3,))
    assert (x + y).shape == (3,)
    square = nn.asarray(np.arange(9.0).reshape(3, 3))
    assert (
        value(square + square.T).tolist()
        == (np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T).tolist()
    )
    assert "axes" not in str(square.type)


def test_from_names_to_places_and_back() -> None:
    named = ng.placeholder([N, C])
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = nn.asarray(named)
    assert array.shape == (2, 3) and array.family is nn and named.family is not nn
    back = ng.cast_axes(nn.flip(array, 1) * 2, [N, C])
    total = ng.sum(back * named, out_axes=[N])
    slope = ng.deriv(ng.sum(total, out_axes=()), named)
    for target in TARGETS:
        got, sloped = ng.compile([total, slope], [named], target=target)(given)
        np.testing.assert_allclose(got, (given[:, ::-1] * 2 * given).sum(1))
        np.testing.assert_allclose(sloped, 4 * given[:, ::-1])
    assert slope.axes == named.axes


def test_other_families_are_refused_with_what_to_write() -> None:
    named, array = ng.placeholder([N, C], name="x"), nn.ones((2, 3))
    for mixed in (
        lambda: array + named, lambda: nn.exp(named), lambda: nn.stack([array, named]), lambda: array @ named,
        lambda: nn.where(array > 0, named, 1), lambda: nn.sum(named),
    ):  # fmt: skip
        with pytest.raises(
            ng.IncompatibleAxesError, match=r"asarray\(x\) takes the axes of x in their order"
        ):
            mixed()
    for mixed in (
        lambda: named + array, lambda: ng.exp(array), lambda: ng.dot(named, array), lambda: ng.sum(array), lambda: ng.softmax(array),
    ):  # fmt: skip
        with pytest.raises(ng.IncompatibleAxesError, match=r"ng\.cast_axes\(x, axes\) names the axes of x"):
            mixed()


def test_a_single_number_belongs_to_every_family() -> None:
    named, array = ng.constant(np.ones((2, 3)), [N, C]), nn.ones((2, 3))
    one, other = array.sum(), ng.sum(named, out_axes=())
    for made, family in (
        (one * named, named.family),
        (named * one, named.family),
        (other + array, nn),
        (array - other, nn),
    ):
        assert made.family is family and value(made).shape == (2, 3)
    assert float(value(one + other)) == 12 and float(value(ng.exp(one) * 0)) == 0
    assert value(nn.stack([one, other])).tolist() == [6, 6]


def test_identity_stays_what_equals_asks() -> None:
    x, y = nn.ones(3), nn.ones(3)
    assert x == x and x != y and x in [y, x] and {x: 1}[x] == 1
    assert value(nn.equal(x, y)).all()
    with pytest.raises(ng.UserError, match="same node"):
        nn.sum(x == y)


def test_functions_of_numpy_make_graph() -> None:
    x: Any = nn.asarray(np.arange(6.0).reshape(2, 3))
    a = np.arange(6.0).reshape(2, 3)
    for made, want in (
        (np.exp(x), np.exp(a)), (np.add(x, 1, dtype="float32"), np.add(a, 1, dtype="float32")), (np.sum(x, axis=0, keepdims=True), a.sum(0, keepdims=True)), (np.concatenate([x, a]), np.concatenate([a, a])),
        (np.einsum("ij->j", x), a.sum(0)), (a @ x.T, a @ a.T), (np.linalg.norm(x), np.linalg.norm(a)), (a * x, a * a),
        (np.where(x > 2, x, 0), np.where(a > 2, a, 0)), (np.float32(2) + x, 2 + a), (np.matmul(x, a.T), a @ a.T),
    ):  # fmt: skip
        np.testing.assert_allclose(value(made), want)
    assert [float(value(row.sum())) for row in x] == [3, 12]
    with pytest.raises(ng.UserError, match="has no elements while the graph is built"):
        np.linalg.eig(x)
    for refused in (float, np.asarray, bool):
        with pytest.raises(ng.UserError):
            refused(x)
    with pytest.raises(ng.UserError, match=r"ng.numpy.asarray\(x\) leaves it in the graph"):
        np.asanyarray(x)
    assert nn.asanyarray(x) is x and nn.ascontiguousarray(x) is x
    assert value(nn.ascontiguousarray(3)).shape == (1,)


def test_functions_that_need_known_numbers_say_so() -> None:
    """What decides a shape is known while the graph is built; other arguments that do not fit are told as NumPy tells them."""
    x, at = nn.placeholder((3, 4)), nn.placeholder((2,), "int64", name="at")
    for refused, problem in (
        (lambda: nn.insert(x, at, 1, axis=0), "obj must be known while the graph is built, unlike at"),
        (lambda: nn.delete(x, at, axis=0), "obj must be known"),
        (lambda: nn.tril_indices(at), "tril_indices needs constant arguments"),
        (lambda: nn.ix_(nn.greater(at, 0)), "how many are true must be known"),
        (lambda: nn.ix_(x), "ix_ takes rows"),
        (lambda: nn.histogram(x, "auto"), "depends on data"),
        (lambda: nn.histogram(x, [2, 1]), "must increase"),
        (lambda: nn.histogram(x, x), "a number or a row of bounds"),
        (lambda: nn.histogram(x, 0), "0 bins"),
        (lambda: nn.histogram(x, 3, (1, 0)), "range is a finite low and high"),
        (lambda: nn.histogram(x, 3, weights=at), "2 weights for 12 elements"),
        (lambda: nn.ravel_multi_index((at,), (3, 4)), "1 indices and 2 modes for 2 dimensions"),
        (lambda: nn.ravel_multi_index(([3], [0]), (3, 4)), "out of range for 3 elements"),
        (lambda: nn.ravel_multi_index((at,), (3,), mode="up"), "mode must be"),
        (lambda: nn.unravel_index(at, (3, 4), order="A"), "order is 'C' or 'F'"),
        (lambda: nn.diag_indices_from(x), "has no diagonal of all axes"),
        (lambda: nn.triu_indices_from(at), r"an array of shape \(2,\) is no matrix"),
        (lambda: nn.vecmat(x, nn.ones((1, 2))), "vecmat: .* do not match: 4 is not 1"),
        (lambda: nn.matvec(x, nn.ones(1)), "matvec: .* do not match: 4 is not 1"),
        (lambda: nn.vecdot(x, x[:, :1]), "vecdot: .* do not match: 4 is not 1"),
        (lambda: nn.matvec(x, x[0, 0]), r"matvec: shapes \(3, 4\) and \(\) do not match"),
        (lambda: nn.unwrap(nn.ones(3, "uint8"), period=4), "which cannot be negative"),
        (lambda: nn.gradient(x, 1.0, 2.0, 3.0), "3 distances for 2 axes"),
        (lambda: nn.gradient(x, [1, 2], axis=0), r"coordinates of shape \(2,\) for 3 elements"),
        (lambda: nn.gradient(x[:1]), "1 elements along axis 0"),
        (lambda: nn.gradient(x, edge_order=3), "edge_order is 1 or 2"),
        (lambda: nn.cov(nn.ones((2, 2, 2))), "1 or 2 dimensions"),
        (lambda: nn.cov(x, fweights=at), r"fweights of shape \(2,\) for 4 observations"),
        (lambda: nn.block([[x], x]), "nested to different depths"),
        (lambda: nn.resize(x, (-1, 2)), "0 or more"),
        (lambda: nn.vander(x), "vander takes a row"),
        (lambda: nn.polyfit(at, x, 1), "points of shapes"),
        (lambda: nn.cumulative_sum(x), "needs axis="),
        (lambda: nn.apply_along_axis(nn.sum, 1, nn.zeros((0, 3))), "no row to apply"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=problem):
            refused()


def test_functions_that_change_an_argument_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"x\.at\[item\]\.set"):
        _ = nn.fill_diagonal


def test_control_flow() -> None:
    x = nn.asarray(np.arange(12.0).reshape(4, 3))
    last, sums = ng.scan(lambda total, row: (total + row, total * row.sum()), nn.zeros(3), x, x.axes[0])
    branch = ng.cond(x.sum() > 3, lambda: x * 2, lambda: x)
    looped = ng.while_loop(lambda v: nn.all(v < 100), lambda v: v * 2, nn.ones(2))
    slope = ng.deriv(nn.sum(last * last), x)
    a = np.arange(12.0).reshape(4, 3)
    for target in ("numpy", "cpu"):
        one, two, three, four, five = value(last, sums, branch, looped, slope, target=target)
        np.testing.assert_allclose(one, a.sum(0))
        np.testing.assert_allclose(two, (np.cumsum(a, 0) - a) * a.sum(1, keepdims=True))
        np.testing.assert_allclose(three, a * 2)
        assert four.tolist() == [128, 128]
        np.testing.assert_allclose(five, np.broadcast_to(2 * a.sum(0), (4, 3)))


# ---- draws


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_draws(target: str) -> None:
    generator = nn.random.default_rng(5)
    made = [
        generator.random((50, 40)), generator.normal(3, 2, (2000,)), generator.integers(-2, 3, 2000), generator.permutation(64),
        generator.choice([10, 20, 30], 3, replace=False), generator.choice(4, 2000, p=[0.5, 0, 0.5, 0]), generator.uniform(2, [3, 5]),
        generator.choice(5, 3, replace=False, p=[0.5, 0, 0.25, 0.25, 0]), generator.standard_normal(4, "float32"),
    ]  # fmt: skip
    unit, normal, whole, order, three, weighed, two, spread, small = value(*made, target=target)
    assert unit.dtype == np.float64 and 0 <= unit.min() and unit.max() < 1 and abs(unit.mean() - 0.5) < 0.03
    assert abs(normal.mean() - 3) < 0.2 and abs(normal.std() - 2) < 0.2
    assert whole.dtype == np.int64 and set(whole.tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(order.tolist()) == [*range(64)] and order.tolist() != [*range(64)]
    assert sorted(three.tolist()) == [10, 20, 30]
    assert set(weighed.tolist()) == {0, 2} and abs((weighed == 0).mean() - 0.5) < 0.1
    assert 2 <= two[0] < 3 and 2 <= two[1] < 5 and small.dtype == np.float32
    assert sorted(spread.tolist()) == [0, 2, 3]


def test_draws_are_new_and_seeds_repeat_them() -> None:
    one = ng.transformers.make_transformer("numpy").computation(
        [nn.random.rand(3), nn.random.randn(3), nn.random.rand(3)]
    )
    first, second = one(), one()
    assert not (first[0] == second[0]).any() and not (first[0] == first[2]).any()
    again = [value(*[g.random(4), g.random(4)]) for g in (nn.random.default_rng(1), nn.random.default_rng(1))]
    np.testing.assert_array_equal(again[0][0], again[1][0])
    assert not (again[0][0] == again[0][1]).any()
    assert not (value(nn.random.default_rng(2).random(4)) == again[0][0]).any()


# ---- errors


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (lambda x: x[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        (lambda x: x[[0, 3]], IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        (lambda x: x[0, 0, 0], IndexError, "too many indices for array: array is 2-dimensional, but 3 were indexed"),
        (lambda x: x[1.5], IndexError, "only integers, slices"),
        (lambda x: x[..., ..., 0], ValueError, "single ellipsis"),
        (lambda x: x[x > 0], ValueError, "size of the result would depend on data"),
        (lambda x: x[np.array([True, False])], IndexError, r"boolean index of shape \(2,\) did not match"),
        (lambda x: x + nn.ones((2,)), ValueError, r"shapes \(3, 4\) \(2,\) cannot be broadcast together"),
        (lambda x: x @ x, ValueError, r"shapes \(3, 4\) and \(3, 4\) do not match: 4 is not 3"),
        (lambda x: x.reshape(5, -1), ValueError, r"cannot reshape array of size 12 into shape \(5, -1\)"),
        (lambda x: nn.sum(x, axis=2), ValueError, "axis 2 is out of bounds for array of dimension 2"),
        (lambda x: x.sum(axis="N"), ValueError, "an axis of an array is an integer"),
        (lambda x: nn.concatenate([x, x[:, :2]]), ValueError, r"shapes \(3, 4\) and \(3, 2\) cannot be concatenated"),
        (lambda x: nn.stack([x, x[0]]), ValueError, "same shape"),
        (lambda x: nn.squeeze(x, 0), ValueError, "size not equal to one"),
        (lambda x: nn.where(x > 0), ValueError, "depends on data"),
        (lambda x: nn.max(x[:0]), ValueError, "has no identity"),
        (lambda x: nn.split(x, 2), ValueError, "equal division"),
        (lambda x: nn.einsum("ij,j->ik", x, x[0]), ValueError, "a letter, or has one of no operand"),
        (lambda x: nn.einsum("ij,ij->i", x, x[:, :2]), ValueError, "letter 'j' has lengths 4 and 2"),
        (lambda x: x << 1, ValueError, "left_shift is not defined for float64"),
        (lambda x: nn.pad(x, -1), ValueError, "negative"),
        (lambda x: nn.pad(x, 1, "mean"), ValueError, "mode 'mean' is not there"),
        (lambda x: nn.pad(x, 0, "linear_ramp"), ValueError, "mode 'linear_ramp' is not there"),
        (lambda x: nn.unique(nn.placeholder((3,))), ValueError, "length of the result depends on data"),
        (lambda x: nn.nonzero(nn.placeholder((3,))), ValueError, "length of the result depends on data"),
        (lambda x: nn.union1d(x, x), AttributeError, "size of the result would depend on data"),
        (lambda x: nn.roots, AttributeError, "its results may be complex"),
        (lambda x: nn.r_[x, x], AttributeError, r"concatenate\(\[x, y\]\)"),
        (lambda x: nn.poly(x), ValueError, "a row of zeros, not an array of shape"),
        (lambda x: nn.polyint(x[0], 2, [1, 2, 3]), ValueError, "3 constants for 2 integrals"),
        (lambda x: nn.polyder(x[0], -1), ValueError, "0 or more, not -1"),
        (lambda x: nn.apply_over_axes(lambda y, axis: y[0, 0], x, 0), ValueError, "as many axes, or one less"),
        (lambda x: nn.gcd(x, 2), ValueError, "gcd is not defined for float64"),
        (lambda x: nn.exp(x, where=x > 0), TypeError, r"write where\(condition, f\(x\), y\)"),
        (lambda x: x.sum(out=x), TypeError, r"write y = f\(x\)"),
        (lambda x: nn.zeros(2, order="F"), TypeError, "leave order= out"),
        (lambda x: x.astype("int8", casting="safe"), TypeError, r"ng\.numpy\.astype\(x, dtype, copy=True\)"),
        (lambda x: x.reshape(2, 6, sort=1), TypeError, r"x\.reshape\("),
        (lambda x: np.exp(x, where=x > 0), ValueError, "has no argument 'where'"),
        (lambda x: np.heaviside.at(x, 0, 1), ValueError, "has no heaviside.at"),
        (lambda x: nn.add.reduceat(x, [0]), ValueError, r"segment_sum\(x, offsets\)"),
        (lambda x: nn.less.reduce(x), ValueError, "No loop matching"),
        (lambda x: nn.subtract.reduce(x, axis=(0, 1)), ValueError, "not reorderable"),
        (lambda x: nn.fmax.reduce(x[:0]), ValueError, "has no identity"),
        (lambda x: nn.hypot.reduce(x, where=x > 0), TypeError, r"write where\(condition"),
        (lambda x: nn.maximum.accumulate(x, axis=2), ValueError, "out of bounds"),
        (lambda x: x[x == 1], ValueError, "same node"),
        (lambda x: x.at[x == 1], ValueError, "same node"),
        (lambda x: nn.einsum(x, x), ValueError, r"einsum\(x, \[0, 1\], y, \[1, 2\], \[0, 2\]\)"),
        (lambda x: nn.einsum(x, [0, -1]), ValueError, "from 0 to 51"),
        (lambda x: nn.arange(0, 4, 0), ValueError, "division by zero"),
        (lambda x: x.unsqueeze(0), AttributeError, r"write x\[:, None\]"),
        (lambda x: x.view(-1), AttributeError, r"write x\.reshape"),
        (lambda x: x.equal(1), AttributeError, r"write ng\.numpy\.equal"),
        (lambda x: nn.cat([x, x]), AttributeError, r"write ng\.numpy\.concatenate"),
        (lambda x: np.isnat(x), ValueError, "takes arrays"),
        (lambda x: nn.quantile(x, 0.5, method="inverted_cdf"), ValueError, "is not there"),
        (lambda x: x.nothing, AttributeError, "a tensor has no attribute 'nothing'"),
        (lambda x: nn.asarray(["a"]), ValueError, "neither a number nor an array"),
        (lambda x: nn.top_k(x, 9), ValueError, "k=9 of 4"),
        (lambda x: nn.asarray([300], "uint8"), ValueError, "cannot hold"),
    ],
)  # fmt: skip
def test_errors(wrong: Callable[[Any], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        wrong(nn.asarray(np.ones((3, 4))))


def test_positions_that_are_computed_are_held_within_their_axis() -> None:
    x, at = nn.asarray([1.0, 2.0, 3.0]), nn.placeholder((4,), "int64")
    read, wrote = ng.compile([x[at], x.at[at].add(1)], [at])([-9, -1, 1, 9])
    assert read.tolist() == [1, 3, 2, 3] and wrote.tolist() == [2, 3, 5]


def test_the_base_set_is_what_decomposition_leaves() -> None:
    """All kinds of tensors end in the semi-primitive ops of a transformer."""
    x = nn.placeholder((4, 3))
    outputs = [nn.sort(x), nn.var(x), nn.sign(x) // 2, ng.softmax(ng.cast_axes(x, [ng.make_axis(4, "N"), C]))]
    module = ng.lift(outputs, [x]).module
    cpu, cuda, reference = (ngt.Transformer.transformers[n].base_set() for n in ("cpu", "cuda-sim", "numpy"))
    assert {"ng.add", "ng.dot", "ng.exp"} <= cpu & cuda and {"ng.softmax", "ng.mean"} <= reference - cpu
    assert "ng.argsort" in cpu & cuda
    used = {op.name for op in module.walk() if op.name.startswith("ng.")}
    left = {
        op.name
        for op in PASSES["decompose"](module, cpu_target("x86-64-v3")).walk()
        if op.name.startswith("ng.")
    }
    assert used <= reference and not used <= cpu and left <= cpu


def test_the_family_is_loaded_when_it_is_asked_for() -> None:
    import subprocess
    import sys

    code = "import sys, ngmlir as ng; print('ngmlir.numpy' in sys.modules); ng.numpy.ones(3); print('ngmlir.numpy' in sys.modules)"
    assert subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split() == ["False", "True"]


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_gradients_of_look_ups_along_an_axis_add_up_where_elements_came_from(target: str) -> None:
    # More elements than the indices' own type can count.
    draw = np.random.default_rng(0)
    where = draw.integers(-30, 30, (20, 40)).astype("int8")
    x, weights = nn.variable(draw.normal(size=(30, 40)).astype("float32")), draw.integers(0, 9, (20, 40))
    total = (nn.take_along_axis(x, nn.array(where), 0) * weights.astype("float32")).sum()
    expected = np.zeros((30, 40))
    np.add.at(expected, (where.astype(int), np.arange(40)[None]), weights)
    made = ng.transformers.make_transformer(target)
    np.testing.assert_array_equal(made.computation(ng.deriv(total, x))(), expected)
    made.close()
