# SPDX-License-Identifier: Apache-2.0
"""Initial values of variables: operators of the start-up program that fill them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from ...programs.vartypes import VarType, vartype
from ...support.diagnostics import UserError
from ...training.initial_values import glorot, he, uniform_bound
from .lists import exactly


class Initializer:
    """Appends the operator that fills a variable to a block: `initializer(variable, block)`."""

    def __call__(self, var: Any, block: Any) -> Any:
        raise NotImplementedError


def init_on_cpu() -> Any:
    """Without effect: constants of a compiled start-up program have no separate place."""
    return _nothing()


def force_init_on_cpu() -> bool:
    """Whether `init_on_cpu` is in force: never, since it has no effect."""
    return False


@contextmanager
def _nothing() -> Generator[None]:
    yield


def _filled(op: str, var: Any, block: Any, **attributes: Any) -> Any:
    fields = {"shape": list(var.shape), "dtype": var.dtype, **attributes}
    return block.append_op(type=op, outputs={"Out": [var]}, attrs=fields)


class ConstantInitializer(Initializer):
    """One number everywhere."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False):
        self.value = value

    def __call__(self, var: Any, block: Any) -> Any:
        return _filled("fill_constant", var, block, value=float(self.value))


class _Random(Initializer):
    """Random numbers: with a seed, its own or that of the program, the same at each run."""

    seed: int

    def _seed(self, block: Any) -> int:
        return self.seed or block.program.random_seed


class UniformInitializer(_Random):
    """Drawn uniformly from [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0):
        self.low, self.high, self.seed = low, high, seed

    def __call__(self, var: Any, block: Any) -> Any:
        return _filled(
            "uniform_random", var, block, min=float(self.low), max=float(self.high), seed=self._seed(block)
        )


class NormalInitializer(_Random):
    """Drawn from a normal distribution with mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        self.loc, self.scale, self.seed = loc, scale, seed

    def __call__(self, var: Any, block: Any) -> Any:
        return _filled(
            "gaussian_random", var, block, mean=float(self.loc), std=float(self.scale), seed=self._seed(block)
        )


class TruncatedNormalInitializer(_Random):
    """Drawn from a normal distribution with mean `loc` and standard deviation `scale`, within two deviations of the mean."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0):
        self.loc, self.scale, self.seed = loc, scale, seed

    def __call__(self, var: Any, block: Any) -> Any:
        fields = {"mean": float(self.loc), "std": float(self.scale), "seed": self._seed(block)}
        return _filled("truncated_gaussian_random", var, block, **fields)


class NumpyArrayInitializer(Initializer):
    """The elements of an array, of at most 1 MB."""

    def __init__(self, value: Any):
        self.value = np.asarray(value)

    def __call__(self, var: Any, block: Any) -> Any:
        if self.value.shape != tuple(var.shape):
            message = f"an array of shape {list(self.value.shape)} is given to '{var.name}', which has the shape {list(var.shape)}"
            raise UserError(message, hint="array.reshape(...), or another size of the layer")
        values = exactly(
            self.value, np.float32 if var.np_dtype.kind == "f" else var.np_dtype, f"'{var.name}'"
        )
        fields = {**constant_fields(values, "NumpyArrayInitializer"), "dtype": var.dtype}
        return block.append_op(type="assign_value", outputs={"Out": [var]}, attrs=fields)


#: The attribute of `assign_value` with the elements of an array.
_VALUES = {
    VarType.FP32: "fp32_values", VarType.INT32: "int32_values", VarType.INT64: "int32_values", VarType.BOOL: "bool_values",
}  # fmt: skip


def constant_fields(array: np.ndarray[Any, Any], what: str) -> dict[str, Any]:
    """The attributes of an operator `assign_value` of these elements. UserError, of `what` takes them, where it cannot hold them."""
    dtype = vartype(array.dtype)
    slot = _VALUES.get(dtype)
    if slot is None:
        raise UserError(
            f"{what} takes arrays of float32, int32, int64 and bool, not of {array.dtype}",
            hint="array.astype('float32')",
        )
    if dtype == VarType.INT64 and (array.astype(np.int32) != array).any():
        raise UserError(f"{what} takes integers that 32 bits hold, and this array has others", hint="feed it")
    if array.nbytes > 1 << 20:
        raise UserError(
            f"{what} takes arrays of at most 1 MB, and this one has {array.nbytes} bytes",
            hint="feed it, load it, or set it in the scope",
        )
    return {"dtype": dtype, "shape": list(array.shape), slot: array.ravel().tolist()}


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many inputs and outputs each output and input of a layer has: of a matrix its lengths, of a vector its length twice, of a
    filter [out, in, ...] these times its area."""
    if len(shape) < 2:
        length = shape[0] if shape else 1
        return length, length
    if len(shape) == 2:
        return shape[0], shape[1]
    area = prod(shape[2:])
    return shape[1] * area, shape[0] * area


class XavierInitializer(_Random):
    """Of variance 2 / (inputs + outputs): uniform up to sqrt(6 / (in + out)), or normal."""

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ):
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def __call__(self, var: Any, block: Any) -> Any:
        taken, given = fans(var.shape)
        taken = taken if self.fan_in is None else self.fan_in
        given = given if self.fan_out is None else self.fan_out
        return _drawn(self.uniform, glorot(taken, given), var, block, self._seed(block))


class MSRAInitializer(_Random):
    """Of variance 2 / inputs: uniform up to sqrt(6 / in), or normal."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0):
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def __call__(self, var: Any, block: Any) -> Any:
        taken = fans(var.shape)[0] if self.fan_in is None else self.fan_in
        return _drawn(self.uniform, he(taken), var, block, self._seed(block))


def _drawn(uniform: bool, deviation: float, var: Any, block: Any, seed: int) -> Any:
    if not uniform:
        return _filled("gaussian_random", var, block, mean=0.0, std=deviation, seed=seed)
    limit = uniform_bound(deviation)
    return _filled("uniform_random", var, block, min=-limit, max=limit, seed=seed)


class BilinearInitializer(Initializer):
    """The weights of upsampling by linear interpolation, for filters [.., k, k] of transposed convolutions."""

    def __call__(self, var: Any, block: Any) -> Any:
        shape = var.shape
        if len(shape) != 4 or shape[2] != shape[3]:
            raise UserError(f"a bilinear filter has the shape [.., .., k, k], and '{var.name}' {list(shape)}")
        size: int = shape[3]
        factor = -(-size // 2)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        one = 1 - np.abs(np.arange(size) / factor - centre)
        values: np.ndarray[Any, Any] = np.broadcast_to(np.outer(one, one), shape).astype(np.float32)
        fields = {"shape": list(shape), "dtype": var.dtype, "fp32_values": values.ravel().tolist()}
        return block.append_op(type="assign_value", outputs={"Out": [var]}, attrs=fields)


Constant, Uniform, Normal = ConstantInitializer, UniformInitializer, NormalInitializer
Xavier, MSRA, Bilinear = XavierInitializer, MSRAInitializer, BilinearInitializer
TruncatedNormal = TruncatedNormalInitializer
