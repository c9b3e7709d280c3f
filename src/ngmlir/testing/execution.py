# SPDX-License-Identifier: Apache-2.0
"""Running a graph in a test, and comparing derivatives with differences of values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..op_graph.deriv import deriv
from ..op_graph.errors import UserError, fail
from ..op_graph.state import placeholder
from ..op_graph.tensor import Tensor
from ..transformers import DeviceComputation, Transformer, make_transformer

Array = np.ndarray[Any, Any]


class ExecutorFactory:
    """Runs graphs on one transformer, which it closes at the end of a `with`."""

    def __init__(self, transformer: Transformer | None = None):
        self.transformer = make_transformer() if transformer is None else transformer

    def __enter__(self) -> ExecutorFactory:
        return self

    def __exit__(self, *error: object) -> None:
        self.transformer.close()

    def executor(self, results: Any, *parameters: Tensor) -> DeviceComputation:
        """A callable from values of the parameters to values of the results."""
        return self.transformer.computation(results, *parameters)

    def get_tensor_view_value(self, op: Tensor, host_tensor: Array | None = None) -> Array:
        """The contents of a storage."""
        return self.transformer.get_tensor_view_value(op, host_tensor)

    def numeric_derivative(
        self, f: Tensor, x: Tensor, dx: float, *parameters: Tensor
    ) -> Callable[..., Array]:
        """A function of values of x and the parameters: the derivative of f by x from differences of values."""
        run = self.executor(f, x, *parameters)

        def by_differences(value: Any, *given: Any) -> Array:
            return numeric_derivative(lambda v: run(v, *given), value, dx)

        return by_differences

    def derivative(self, f: Tensor, x: Tensor, *parameters: Tensor) -> Callable[..., Array]:
        """A function of values of x and the parameters: the derivative of f by x, of shape f.shape + x.shape."""
        if not f.axes:
            return self.executor(deriv(f, x), x, *parameters)
        error = placeholder(f.axes, dtype=f.element)
        run = self.executor(deriv(f, x, error), error, x, *parameters)

        def jacobian(value: Any, *given: Any) -> Array:
            shape = f.axes.known_shape
            rows: list[Array] = []
            for i in range(int(np.prod(shape))):
                one = np.zeros(shape, f.dtype)
                one.flat[i] = 1
                rows.append(run(one, value, *given))
            return np.array(rows).reshape((*shape, *x.axes.known_shape))

        return jacobian


@contextmanager
def executor(
    results: Any, *parameters: Tensor, transformer: str | None = None
) -> Generator[DeviceComputation]:
    """A callable from values of the parameters to values of the results, on a new transformer."""
    made = make_transformer(transformer)
    try:
        yield made.computation(results, *parameters)
    finally:
        made.close()


def numeric_derivative(f: Callable[[Array], Any], x: Any, dx: float) -> Array:
    """The derivative of an array function at x by differences over 2 dx, of shape f(x).shape + x.shape."""
    x = np.array(x)
    if x.dtype.kind in "biu":
        fail(UserError, f"a numeric derivative needs floats, not {x.dtype}")
    columns: list[Array] = []
    for i in range(x.size):
        held = x.flat[i]
        x.flat[i] = held + dx
        after = np.array(f(x))
        x.flat[i] = held - dx
        before = np.array(f(x))
        x.flat[i] = held
        columns.append((after - before) / (2 * dx))
    shape = np.shape(columns[0]) if columns else np.shape(f(x))
    made = np.stack(columns, -1) if columns else np.zeros((*shape, 0))
    return made.reshape((*shape, *x.shape))


def check_derivative(
    f: Tensor,
    x: Tensor,
    delta: float,
    x_value: Any,
    parameters: Sequence[Tensor] = (),
    parameter_values: Sequence[Any] = (),
    transformer: str | None = None,
    **tolerance: Any,
) -> None:
    """Asserts that the derivative of f by x is what differences of values say."""
    with ExecutorFactory(make_transformer(transformer)) as factory:
        symbolic = factory.derivative(f, x, *parameters)(x_value, *parameter_values)
        numeric = factory.numeric_derivative(f, x, delta, *parameters)(
            np.array(x_value, x.dtype), *parameter_values
        )
    np.testing.assert_allclose(symbolic, numeric, **tolerance)


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float = 1e-7,
    atol: float = 0,
    atol_multiplier: float = 1,
    equal_nan: bool = False,
    err_msg: str = "",
    verbose: bool = True,
    transformer_overwrite: bool = True,
) -> None:
    """NumPy's assertion, with tolerances at least as wide as a transformer's results are exact."""
    if transformer_overwrite:
        rtol, atol = max(rtol, Transformer.default_rtol), max(atol, Transformer.default_atol)
    np.testing.assert_allclose(actual, desired, rtol, atol * atol_multiplier, equal_nan, err_msg, verbose)
