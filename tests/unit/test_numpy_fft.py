# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.fft` beside NumPy's: lengths that are split in each way, norms, axes, complex arrays, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

nn = ng.numpy
TARGETS = ["numpy", "cpu", "cuda-sim"]
Complex = nn.fft.Complex
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def run(function: Callable[..., Any], *arrays: Any, target: str = "numpy") -> Any:
    given = [nn.placeholder(a.shape, str(a.dtype)) for a in arrays]
    made = function(*given)
    if isinstance(made, Complex):
        real, imag = ng.compile([*made], given, target=target)(*arrays)
        return real + np.array(1j, made.dtype) * imag
    return ng.compile(made, given, target=target)(*arrays)


def of_pair(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda real, imag: function(Complex(real, imag))


def compare(found: Any, wanted: Any, tolerance: float) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max(initial=0))
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_transforms_along_one_axis_are_those_of_numpy(dtype: str) -> None:
    """512 is the longest product, 1024 is split, 521 is prime."""
    draw = np.random.default_rng(0)
    for n in (1, 2, 3, 8, 13, 512, 521, 1024):
        x, y = draw.normal(size=(2, 2, n)).astype(dtype)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            one, other = getattr(nn.fft, name), getattr(np.fft, name)
            for length, norm in ((None, None), (5, "ortho"), (8, "forward"), (n + 3, "backward")):
                if length is None and n == 1 and name in ("irfft", "hfft"):
                    continue
                compare(
                    run(partial(one, n=length, norm=norm), x), other(x, length, norm=norm), TOLERANCE[dtype]
                )
                if name not in ("rfft", "ihfft"):
                    found = run(of_pair(partial(one, n=length, norm=norm)), x, y)
                    compare(found, other(x + np.complex64(1j) * y, length, norm=norm), TOLERANCE[dtype])
        compare(
            run(lambda x: nn.fft.fft(nn.matrix_transpose(x), axis=0), x),
            np.fft.fft(x.T, axis=0),
            TOLERANCE[dtype],
        )


@pytest.mark.parametrize("target", TARGETS)
def test_transforms_along_several_axes_are_those_of_numpy(target: str) -> None:
    x = np.random.default_rng(1).normal(size=(3, 4, 6))
    for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"):
        options: list[dict[str, Any]] = [{}, {"s": (3, 5), "axes": (2, 0), "norm": "ortho"}]
        for given in options if target == "numpy" else options[1:]:
            compare(
                run(partial(getattr(nn.fft, name), **given), x, target=target),
                getattr(np.fft, name)(x, **given),
                1e-12,
            )
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 1, (0, 2)):
            compare(
                run(partial(getattr(nn.fft, name), axes=axes), x, target=target),
                getattr(np.fft, name)(x, axes),
                0,
            )


def test_other_elements_are_computed_as_numpy_does() -> None:
    for dtype in ("int32", "float16", "bool"):
        x = np.array([[1, 0, 1, 1], [0, 1, 1, 0]], dtype)
        compare(run(nn.fft.rfft, x), np.fft.rfft(x), 1e-6)
    z = np.array([1 + 2j, 3 - 1j])
    compare(run(lambda: nn.fft.fft(z)), np.fft.fft(z), 1e-12)
    compare(run(lambda: nn.fft.fftfreq(5, 0.1)), np.fft.fftfreq(5, 0.1), 0)
    compare(run(lambda: nn.fft.rfftfreq(6)), np.fft.rfftfreq(6), 0)
    compare(run(lambda: np.fft.fft(nn.asarray([1.0, 2.0]))), np.fft.fft([1.0, 2.0]), 1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_first_and_second_derivatives_are_differences_of_values(target: str) -> None:
    draw = np.random.default_rng(2)
    functions: list[tuple[Callable[[Any], Any], int]] = [
        (lambda x: abs(nn.fft.rfft(x)), 9), (lambda x: nn.fft.fft(x).angle(), 5), (lambda x: nn.fft.irfft(x, 9), 5),
        (lambda x: nn.fft.ifft(Complex(x, x * x), 4).imag, 6), (lambda x: (nn.fft.fft(x) * nn.fft.ifft(x)).real, 7),
        (lambda x: nn.fft.fft(x).imag, 521),
    ]  # fmt: skip
    inputs, outputs, at, along = [], [], [], []
    for function, length in functions:
        x: Any = nn.placeholder((length,), "float64")
        direction = draw.normal(size=length)
        made = function(x)
        cost = (nn.tanh(made * 0.1) * draw.normal(size=made.shape)).sum()
        slope = (ng.deriv(cost, x) * direction).sum()
        inputs.append(x)
        outputs += [cost, slope, (ng.deriv(slope, x) * direction).sum()]
        at.append(draw.normal(size=length))
        along.append(direction)
    compiled = ng.compile(outputs, inputs, target=target)
    low, now, high = (
        np.array(compiled(*(a + s * d for a, d in zip(at, along, strict=True)))).reshape(-1, 3)
        for s in (-1e-5, 0, 1e-5)
    )
    np.testing.assert_allclose(now[:, 1:], (high - low)[:, :2] / 2e-5, rtol=1e-5, atol=1e-5)


def test_arithmetic_of_pairs_is_that_of_complex_numbers() -> None:
    draw = np.random.default_rng(3)
    a, b, c, d = draw.normal(size=(4, 2, 3))
    functions: list[Callable[[Any, Any, Any], Any]] = [
        lambda z, w, r: z + w, lambda z, w, r: z - w, lambda z, w, r: z * w, lambda z, w, r: z / w, lambda z, w, r: z * 2 + 1,
        lambda z, w, r: 1 - z, lambda z, w, r: 2 / z, lambda z, w, r: z * (1 - 2j), lambda z, w, r: r * z, lambda z, w, r: z / r,
        lambda z, w, r: -z, lambda z, w, r: z.conj(), lambda z, w, r: abs(z), lambda z, w, r: z[1:, ::-1], lambda z, w, r: z[..., None] * w[0],
        lambda z, w, r: np.array([1j, 2, 3 - 1j]) * z, lambda z, w, r: +z,
    ]  # fmt: skip
    for function in functions:
        found = run(lambda a, b, c, d, f=function: f(Complex(a, b), Complex(c, d), d), a, b, c, d)
        compare(found, function(a + 1j * b, c + 1j * d, d), 1e-12)
    compare(run(lambda a, b: Complex(a, b).angle(), a, b), np.angle(a + 1j * b), 1e-12)
    z = Complex(a.astype("float32"), 1)
    assert (z.shape, z.ndim, z.dtype) == ((2, 3), 2, np.dtype("complex64"))
    x: Any = nn.placeholder((4,), "float64")
    slope = ng.compile(ng.deriv(abs(nn.fft.fft(x)).sum(), x), [x], target="numpy")(np.zeros(4))
    np.testing.assert_array_equal(slope, np.zeros(4))


def test_what_no_transform_has_is_refused() -> None:
    x: Any = nn.ones((2, 3))
    z = Complex(x, x)
    for call, message in (
        (lambda: nn.fft.fft(x, 0), "Invalid number of FFT data points"), (lambda: nn.fft.fft(x, axis=2), "out of bounds"),
        (lambda: nn.fft.fft(x, norm="both"), "Invalid norm value"), (lambda: nn.fft.fftn(x, (2,), (0, 1)), "different lengths"),
        (lambda: nn.fft.rfft(z), "rfft is of a real array"), (lambda: z == z, "not compared"), (lambda: bool(z), "no truth value"),
        (lambda: nn.negative(z), r"a Complex, a pair of tensors"), (lambda: nn.asarray(z), "z.real and z.imag"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=message):
            call()
