# SPDX-License-Identifier: Apache-2.0
"""`ngmlir.testing`: references in NumPy, and how tests run."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.testing import (
    ConvParams,
    RandomTensorGenerator,
    assert_allclose,
    executor,
    is_flex_factory,
    raise_all_numpy_errors,
    reference_conv,
    reference_deconv_bprop,
    reference_deconv_fprop,
    with_error_settings,
)

SIZES: list[dict[str, Any]] = [
    dict(C=2, N=3, K=4, H=6, W=5, R=3, S=2),
    dict(C=3, N=1, K=2, D=5, H=7, W=6, T=2, R=3, S=3, str_h=2, str_w=3, pad_h=1, pad_w=2),
    dict(C=1, N=2, K=3, H=9, W=8, R=3, S=3, dil_h=2, dil_w=3, pad_w=1),
    dict(C=2, N=2, K=1, H=4, W=4, R=1, S=5, pad_w=2, pad_h=3, str_h=2),
]


@pytest.mark.parametrize("sizes", SIZES)
def test_convolution_and_its_reference(sizes: dict[str, Any]) -> None:
    cf = ConvParams(**sizes)
    rng = RandomTensorGenerator(1)
    inputs, filters = ng.placeholder(cf.ax_i), ng.placeholder(cf.ax_f)
    out = ng.convolution(cf.conv_params, inputs, filters, axes=cf.ax_o)
    error = ng.placeholder(out.axes)
    values = [rng.uniform(-1, 1, axes) for axes in (cf.ax_i, cf.ax_f, cf.ax_o)]
    wanted = reference_conv(cf.dimI, cf.dimF, cf.dimO, cf.conv_params, *values)
    results = [out, ng.deriv(out, inputs, error), ng.deriv(out, filters, error)]
    with executor(results, inputs, filters, error) as run:
        for found, each in zip(run(*values), wanted, strict=True):
            assert_allclose(found, each, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES[:3])
def test_deconvolution_and_its_reference(sizes: dict[str, Any]) -> None:
    cf = ConvParams(**sizes, deconv=True)
    rng = RandomTensorGenerator(2)
    inputs, filters = ng.placeholder(cf.ax_i), ng.placeholder(cf.ax_f)
    out = ng.deconvolution(cf.conv_params, inputs, filters, axes=cf.ax_o)
    error = ng.placeholder(out.axes)
    i, f, e = [rng.uniform(-1, 1, axes) for axes in (cf.ax_i, cf.ax_f, cf.ax_o)]
    wanted = [reference_deconv_fprop(cf.conv_params, i, f), *reference_deconv_bprop(cf.conv_params, e, i, f)]
    results = [out, ng.deriv(out, inputs, error), ng.deriv(out, filters, error)]
    with executor(results, inputs, filters, error) as run:
        for found, each in zip(run(i, f, e), wanted, strict=True):
            assert_allclose(found, each, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ng.UserError, match="5 taps along w do not fit"):
        ConvParams(W=2, S=5, str_w=1)


def test_warnings_of_numpy_are_errors() -> None:
    @raise_all_numpy_errors
    def divided(x: float) -> np.ndarray:
        """Divides."""
        return np.ones(2) / x

    @with_error_settings(divide="ignore")
    def quiet() -> np.ndarray:
        return np.ones(2) / 0

    with pytest.raises(FloatingPointError):
        divided(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(quiet()).all()
    assert divided.__name__ == "divided" and divided.__doc__ == "Divides."


def test_no_factory_is_of_fixed_point() -> None:
    assert not any(
        is_flex_factory(ng.transformers.make_transformer_factory(n)) for n in ("numpy", "cpu", "cuda-sim")
    )
