# SPDX-License-Identifier: Apache-2.0
"""Initial values of variables: operators of the start-up program that fill them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from ...support.diagnostics import UserError
from ...training.initial_values import glorot, he, uniform_bound


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
