# SPDX-License-Identifier: Apache-2.0
"""Products of f32 that were rounded to tf32: what the rounding is, on every target, and by which instructions they are made."""

from __future__ import annotations

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.simulator.formats import TF32, round_to
from ngmlir.support.diagnostics import UserError

TARGETS = ["numpy", "cpu", "cuda-sim"]
RANDOM = np.random.default_rng(11)


def rounded(x: np.ndarray) -> np.ndarray:
    """As `cvt.rna.tf32.f32` does."""
    nearest = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.float32(np.nan), nearest.view(np.float32))


def product(m: int, k: int, n: int, form: str) -> tuple[ng.Tensor, list[ng.Tensor], list[np.ndarray]]:
    M, K, N = (ng.make_axis(size, name) for size, name in zip((m, k, n), "MKN", strict=True))
    sides = [ng.placeholder([M, K] if form[0] == "N" else [K, M])]
    sides.append(ng.placeholder([K, N] if form[1] == "N" else [N, K]))
    arrays = [RANDOM.standard_normal(side.shape.lengths).astype(np.float32) for side in sides]
    return ng.dot(*map(ng.round_to_tf32, sides)), sides, arrays


@pytest.mark.parametrize("target", TARGETS)
def test_the_nearest_and_of_two_the_one_farther_from_zero(target: str) -> None:
    bits = RANDOM.integers(0, 1 << 32, 4096, dtype=np.uint32)
    special = np.array(
        [0, -0.0, 1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12, np.inf, -np.inf, 1e-45, 3.4e38], "f4"
    )
    x = np.concatenate([special, bits.view(np.float32), np.array([np.nan, 3.4028235e38], np.float32)])
    at = ng.placeholder([ng.make_axis(len(x))])
    got = np.asarray(ng.compile(ng.round_to_tf32(at), [at], target=target)(x))
    np.testing.assert_array_equal(got, rounded(x))
    known = np.isfinite(x)
    np.testing.assert_array_equal(got[known], round_to(x[known].astype(np.float64), TF32, "rna"))
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(x[known]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (33, 70, 20), (1, 5, 3), (17, 8, 130)])
def test_products_are_sums_of_exact_products(sizes: tuple[int, int, int], form: str, target: str) -> None:
    y, sides, (a, b) = product(*sizes, form)
    left, right = rounded(a).astype(np.float64), rounded(b).astype(np.float64)
    expected = (left if form[0] == "N" else left.T) @ (right if form[1] == "N" else right.T)
    np.testing.assert_allclose(ng.compile(y, sides, target=target)(a, b), expected, atol=2e-5)


@pytest.mark.parametrize("form", ["NN", "NT"])
def test_by_matrix_instructions_where_both_sides_are_rounded(form: str) -> None:
    y, (a, b), _ = product(64, 64, 64, form)

    def ptx(made: ng.Tensor, target: str) -> str:
        machine = nvptx_target(target)
        return assemble(lower(ng.lift([made], [a, b]).module, machine), machine).code.decode()

    for target in ("sm_80", "sm_90a"):
        assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in ptx(y, target)
    assert "mma" not in ptx(y, "sm_70") and "fma.rn.f32" in ptx(y, "sm_70")
    assert "mma" not in ptx(ng.dot(ng.round_to_tf32(a), b), "sm_90a")


def test_its_gradient_is_that_of_its_argument() -> None:
    x = ng.placeholder([ng.make_axis(3)])
    slope = ng.deriv(ng.sum(ng.round_to_tf32(x) * ng.round_to_tf32(x), out_axes=()), x)
    given = np.array([1 + 2.0**-12, -3, 0], np.float32)
    np.testing.assert_array_equal(ng.compile(slope, [x])(given), [2, -6, 0])


def test_other_elements_are_refused() -> None:
    x = ng.placeholder([ng.make_axis(3)], dtype="f64")
    with pytest.raises(UserError, match=r"round_to_tf32 is of f32, not of f64"):
        ng.round_to_tf32(x)
