# SPDX-License-Identifier: Apache-2.0
"""Operators and kernels of a package: lit_tests/passes/program-kernels.ngir."""

import ngmlir as ng
from ngmlir.programs.custom import kernel, new_operator

nn = ng.numpy


@new_operator(
    """
    operator lit_add_one
      in X: The tensor.
      out Out: The result.
      attr use_rows: bool = false: Whether a kernel of the library rows is preferred.
      doc X plus 1, which only kernels compute.
    """,
    shape_only=True,
)
def lit_add_one(x, *, use_rows):
    return x


@kernel("lit_add_one", place="numpy")
def on_the_host(x):
    return nn.add(x, 1)


@kernel("square", place="cpu", dtype="float32")
def for_cpus(x):
    return nn.multiply(x, x)


@kernel("square")
def for_all(x):
    return nn.multiply(x, x)


@kernel("square", dtype="float64", library="exact")
def in_64_bits(x):
    return nn.multiply(x, x)


@kernel("square", layout="NHWC", library="rows")
def by_rows(x):
    return nn.multiply(x, x)
