# SPDX-License-Identifier: Apache-2.0
"""Measures the time of each kernel of a program: each is called alone, repeatedly."""

from __future__ import annotations

import time

import numpy as np

from ..compiler import compile_module
from ..ir.attributes import IntegerAttr
from ..ir.core import Block, Module, Op, module
from ..ir.literals import dtype_of
from ..ir.types import MemRefType, i8, i64
from ..ops import func
from ..ops.builder import Builder, function
from ..ops.fields import get_i64
from ..runtime.cpu import CpuExecutable

#: On a busy machine calls may be interrupted: at least this many are made even if they take longer than `moment`,
#: unless each is slow.
_CALLS, _SLOW = 20, 0.01


def kernel_times(planned: Module, moment: float = 0.003) -> dict[str, float]:
    """Seconds per launch of each kernel of a planned program on this machine's CPU, by name: the minimum over calls
    that take `moment` seconds in total. Buffers are zero, and in the cache if they fit."""
    return {k.symbol: _least(alone(k), moment) for k in planned.ops if k.name == "tile.kernel"}


def alone(kernel: Op) -> Module:
    """A planned program that launches a kernel once."""
    values = [
        v for v in kernel.regions[0].block.args if isinstance(v.type, MemRefType)
    ]  # the other arguments are program indices
    count = len(values) - get_i64(kernel, "outputs")
    block = Block([*[v.type for v in values], MemRefType((0,), i8)], [v.name for v in values])
    builder = Builder(block)
    builder.launch(block.args[:count], block.args[count:-1], callee=kernel.symbol)
    builder.end(func.ReturnOp)
    roles = {"ng.arguments": IntegerAttr(count, i64), "ng.results": IntegerAttr(len(values) - count, i64)}
    return module([function("main", block, roles), kernel])


def _least(program: Module, moment: float) -> float:
    run = compile_module(program, "cpu")
    assert isinstance(run, CpuExecutable)
    taken = program.ops[1].regions[0].block.args
    count = program.ops[0].attributes["ng.arguments"]
    assert isinstance(count, IntegerAttr)
    arrays: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = []
    for value in taken[: count.value]:
        assert isinstance(value.type, MemRefType)
        arrays.append(np.zeros(value.type.shape, dtype_of(value.type.element)))
    bound = run.bind(dict(enumerate(arrays)))
    bound()
    least, calls, began = float("inf"), 0, time.perf_counter()
    while (
        (now := time.perf_counter()) - began < moment or (calls < _CALLS and not least > _SLOW) or not calls
    ):
        bound()
        least, calls = min(least, time.perf_counter() - now), calls + 1
    return least
