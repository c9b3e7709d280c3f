# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.linalg`: equations and factorizations beside NumPy's, their derivatives, and what matrices they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

nn = ng.numpy
la = nn.linalg
TARGETS = ["numpy", "cpu", "cuda-sim"]

_DRAW = np.random.default_rng(3)
SQUARE, TALL = _DRAW.normal(size=(2, 4, 4)), _DRAW.normal(size=(2, 4, 3))
WIDE = np.ascontiguousarray(np.swapaxes(TALL, 1, 2))
DEFINITE = SQUARE @ np.swapaxes(SQUARE, 1, 2) + np.eye(4)


def run(function: Callable[..., Any], *arrays: Any, target: str = "numpy") -> list[Any]:
    given = [nn.placeholder(a.shape, str(a.dtype)) for a in arrays]
    made = function(*given)
    return ng.compile([*made] if isinstance(made, tuple) else [made], given, target=target)(*arrays)


ONE_MATRIX: dict[str, tuple[list[Any], list[Callable[[Any, Any], Any]]]] = {
    "square": (
        [SQUARE, SQUARE[0], SQUARE[:, :1, :1], np.zeros((0, 3, 3))],
        [
            lambda m, x: m.linalg.inv(x), lambda m, x: m.linalg.det(x), lambda m, x: tuple(m.linalg.slogdet(x)),
            lambda m, x: m.linalg.matrix_power(x, -3), lambda m, x: m.linalg.matrix_power(x, 0),
        ],
    ),
    "definite": (
        [DEFINITE, DEFINITE[0], DEFINITE[1, 1:2, 1:2], np.tril(DEFINITE), np.zeros((2, 0, 0))],
        [
            lambda m, x: m.linalg.cholesky(x), lambda m, x: tuple(m.linalg.eigh(x)), lambda m, x: m.linalg.eigvalsh(x),
        ],
    ),
    "any": (
        [SQUARE, TALL, WIDE, TALL[0], WIDE[0], TALL[:, :1], TALL[..., :1], np.zeros((2, 3))],
        [
            lambda m, x: tuple(m.linalg.svd(x)), lambda m, x: tuple(m.linalg.svd(x, full_matrices=False)),
            lambda m, x: m.linalg.svdvals(x), lambda m, x: m.linalg.pinv(x), lambda m, x: m.linalg.pinv(x, 0.3),
            lambda m, x: tuple(m.linalg.qr(x)), lambda m, x: tuple(m.linalg.qr(x, "complete")), lambda m, x: m.linalg.qr(x, "r"),
            lambda m, x: m.linalg.matrix_rank(x), lambda m, x: m.linalg.matrix_rank(x, 1.0),
            lambda m, x: m.linalg.matrix_rank(x, rtol=0.5), lambda m, x: m.linalg.norm(x, 2, (-2, -1)),
            lambda m, x: m.linalg.norm(x, "nuc", (-1, -2), keepdims=True), lambda m, x: m.linalg.norm(x, -2, (-2, -1)),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ONE_MATRIX)
def test_values_are_those_of_numpy(kind: str, dtype: str) -> None:
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    arrays, functions = ONE_MATRIX[kind]
    for array in arrays:
        x = array.astype(dtype)
        for function in functions:
            found, wanted = run(lambda x, f=function: f(nn, x), x), function(np, x)
            for one, other in zip(found, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
                assert (one.dtype, one.shape) == (np.asarray(other).dtype, np.shape(other))
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equations_are_solved_as_by_numpy(dtype: str) -> None:
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    a, b = SQUARE.astype(dtype), TALL.astype(dtype)
    calls: list[tuple[str, Any, Any]] = [
        ("solve", a, b), ("solve", a, b[0]), ("solve", a[0], b), ("solve", a, b[0, :, 0]), ("solve", a[None], b[:, None]),
        ("lstsq", b[0], a[0]), ("lstsq", b[0], a[0, 0]), ("lstsq", b[0].T, a[0, :3]), ("lstsq", a[0], b[0]),
    ]  # fmt: skip
    for name, one, other in calls:
        wanted: Any = getattr(np.linalg, name)(one, other)
        found = run(getattr(la, name), one, other)
        for x, y in zip(found, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            assert (x.dtype, x.shape) == (np.asarray(y).dtype, np.shape(y))
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    (product,) = run(lambda *xs: la.multi_dot(xs), a[0, 0], a[1], b[0])
    np.testing.assert_allclose(product, np.linalg.multi_dot([a[0, 0], a[1], b[0]]), rtol=1e-4)
    (condition,) = run(la.cond, b)
    np.testing.assert_allclose(condition, np.linalg.cond(b), rtol=1e-4)
    np.testing.assert_allclose(run(lambda x: la.cond(x, 1), a)[0], np.linalg.cond(a, 1), rtol=1e-3)


def test_tensors_are_solved_as_by_numpy() -> None:
    a, b = np.random.default_rng(5).normal(size=(2, 3, 6)), TALL[0, :2]
    for ind, shape in ((2, (2, 3, 6)), (1, (6, 2, 3))):
        np.testing.assert_allclose(
            run(lambda x, i=ind: la.tensorinv(x, i), a.reshape(shape))[0],
            np.linalg.tensorinv(a.reshape(shape), ind),
        )
    np.testing.assert_allclose(run(la.tensorsolve, a, b)[0], np.linalg.tensorsolve(a, b))
    moved = np.moveaxis(a, 2, 0)
    np.testing.assert_allclose(
        run(lambda x, y: la.tensorsolve(x, y, (0,)), moved, b)[0], np.linalg.tensorsolve(moved, b, (0,))
    )


def test_all_functions_of_real_results_are_there() -> None:
    """What NumPy adds later is found here. Results of `eig` are complex."""
    assert {*np.linalg.__all__} - {*la.__all__} == {"eig", "eigvals"}
    assert {*np.fft.__all__} <= {*nn.fft.__all__}


def symmetric(x: Any) -> Any:
    return x + nn.matrix_transpose(x)


SLOPES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "inv": (la.inv, SQUARE), "det": (la.det, SQUARE), "slogdet": (lambda x: la.slogdet(x).logabsdet, SQUARE),
    "pinv": (la.pinv, TALL), "pinv of wide": (la.pinv, WIDE), "solve, left": (lambda x: la.solve(x, TALL), SQUARE),
    "solve, right": (lambda x: la.solve(SQUARE, x), TALL), "solve, vector": (lambda x: la.solve(SQUARE, x), TALL[0, :, 0]),
    "solve, broadcast": (lambda x: la.solve(x, TALL), SQUARE[0]), "lstsq": (lambda x: la.lstsq(x, TALL[0])[0], TALL[1]),
    "cholesky": (lambda x: la.cholesky(x @ nn.matrix_transpose(x) + np.eye(4)), SQUARE),
    "cholesky, upper": (lambda x: la.cholesky(x @ nn.matrix_transpose(x) + np.eye(4), upper=True), SQUARE),
    "eigenvalues": (lambda x: la.eigvalsh(symmetric(x)), SQUARE),
    "eigenvectors": (lambda x: la.eigh(symmetric(x), "U").eigenvectors, SQUARE),
    "singular values of full": (lambda x: la.svd(x).S, TALL), "R of complete": (lambda x: la.qr(x, "complete").R, TALL),
    "norm": (lambda x: la.norm(x, "nuc", (1, 2)) + la.norm(x, 2, (1, 2)), TALL), "power": (lambda x: la.matrix_power(x, -2), SQUARE),
    **{f"svd {n} {x.shape}": (lambda x, n=n: getattr(la.svd(x, full_matrices=False), n), x) for n in ("U", "S", "Vh") for x in (SQUARE, TALL, WIDE)},
    **{f"qr {n} {x.shape}": (lambda x, n=n: getattr(la.qr(x), n), x) for n in "QR" for x in (SQUARE, TALL, WIDE)},
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_first_and_second_derivatives_are_differences_of_values(target: str) -> None:
    """Along a direction, of a weighted sum of the elements; all functions in one program."""
    draw, step = np.random.default_rng(1), 1e-5
    inputs: list[Any] = []
    outputs: list[Any] = []
    at: list[Any] = []
    along: list[Any] = []
    for function, array in SLOPES.values():
        x = nn.placeholder(array.shape, "float64")
        direction = draw.normal(size=array.shape)
        made = function(x)
        cost = (made * draw.normal(size=made.shape)).sum()
        slope = (ng.deriv(cost, x) * direction).sum()
        inputs.append(x)
        outputs += [cost, slope, (ng.deriv(slope, x) * direction).sum()]
        at.append(array)
        along.append(direction)
    compiled = ng.compile(outputs, inputs, target=target)
    before, here, after = (
        np.array(compiled(*(a + s * d for a, d in zip(at, along, strict=True)))).reshape(-1, 3)
        for s in (-step, 0, step)
    )
    for name, low, now, high in zip(SLOPES, before, here, after, strict=True):
        differences = (high - low) / (2 * step)
        np.testing.assert_allclose(now[1:], differences[:2], rtol=1e-5, atol=1e-5, err_msg=name)


def gradient(function: Callable[[Any], Any], array: Any) -> Any:
    return run(lambda x: ng.deriv(function(x).sum(), x), np.asarray(array, np.float64))[0]


def test_gradients_of_symmetric_matrices_are_symmetric() -> None:
    for function in (la.cholesky, lambda x: la.eigh(x).eigenvectors, lambda x: la.eigh(x).eigenvalues):
        found = gradient(function, DEFINITE)
        np.testing.assert_allclose(found, np.swapaxes(found, 1, 2))


def test_values_that_are_equal_have_gradients_and_their_vectors_have_none() -> None:
    same = np.diag([2.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient(la.eigvalsh, same), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(gradient(la.svdvals, same), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(gradient(la.svdvals, np.zeros((2, 3))).shape, (2, 3))
    draw = np.random.default_rng(0).normal(size=(3, 3))
    assert not np.isfinite(gradient(lambda x: la.eigh(x).eigenvectors * draw, same)).all()
    assert not np.isfinite(gradient(lambda x: la.svd(x).U * draw, same)).all()


def test_the_determinant_has_a_gradient_at_singular_matrices() -> None:
    matrix = np.array([[1.0, 2, 3], [2, 4, 6], [0, 1, 1]])
    wanted = np.array([[-2.0, -2, 2], [1, 1, -1], [0, 0, 0]])  # the cofactors, by hand
    np.testing.assert_allclose(gradient(la.det, matrix), wanted, atol=1e-12)
    np.testing.assert_allclose(gradient(la.det, np.zeros((1, 1))), [[1]])


@pytest.mark.parametrize("target", TARGETS)
def test_matrices_without_a_result_are_refused_at_the_line_of_the_call(target: str) -> None:
    singular = np.ones((2, 3, 3), np.float32)
    for function, message in (
        (la.inv, "linalg.inv: Singular matrix"),
        (lambda x: la.solve(x, x), "linalg.solve: Singular matrix"),
        (lambda x: la.cholesky(-x), "linalg.cholesky: Matrix is not positive definite"),
        (lambda x: la.svd(x * np.nan), "linalg.svd: SVD did not converge"),
    ):
        with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
            run(
                lambda x, f=function: tuple(f(x)) if isinstance(f(x), tuple) else f(x),
                singular,
                target=target,
            )
        assert isinstance(caught.value, ng.UserError)
        assert caught.value.diagnostics[0].location.file == __file__
        assert caught.value.diagnostics[0].hint


def test_arguments_that_cannot_be_right_are_refused() -> None:
    x: Any = nn.ones((2, 3))
    for call, message in (
        (lambda: la.inv(x), "make no square matrices"), (lambda: la.det(nn.ones(3)), "at least two-dimensional"),
        (lambda: la.solve(nn.eye(3), x), "a right side of 2 elements"), (lambda: la.eigh(nn.eye(2), "X"), "UPLO"),
        (lambda: la.svd(x.astype("float16")), "float16 is unsupported in linalg"), (lambda: la.qr(x, "raw"), "the mode 'raw'"),
        (lambda: la.lstsq(x, nn.ones(3)), "lstsq: shapes"), (lambda: la.matrix_rank(x, 1, rtol=1), "both set"),
        (lambda: la.multi_dot([x]), "at least two"), (lambda: la.pinv(x, x), "the cutoff of singular values is a number"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=message):
            call()
    for part in ("U", "Vh"):
        with pytest.raises(ng.NotDifferentiable, match="not unique"):
            gradient(lambda x, part=part: getattr(la.svd(x), part), TALL)
    with pytest.raises(ng.NotDifferentiable, match="not unique"):
        gradient(lambda x: la.qr(x, "complete").Q, TALL)


def test_functions_of_numpy_make_these_ops() -> None:
    found = run(lambda x: np.linalg.solve(x, np.linalg.inv(x)), SQUARE)[0]
    np.testing.assert_allclose(found, np.linalg.matrix_power(SQUARE, -2))
