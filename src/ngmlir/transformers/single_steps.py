# SPDX-License-Identifier: Apache-2.0
"""Runs a program op by op: each is compiled for the target separately, values are kept, and loops and branches are
entered."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..compiler import compile_module
from ..ir.core import Block, Module, Value, callee, module
from ..ir.core import Op as IROp
from ..ir.literals import dtype_of
from ..ir.structure import structure
from ..ir.types import shape_of
from ..op_graph.lift import Trace, Traced
from ..op_graph.node import Op
from ..ops import func
from ..ops.builder import function
from ..ops.fields import get_bool, get_i64
from ..ops.hosts import host_function
from ..ops.interpreter import evaluate
from ..ops.interpreter import run as interpret
from ..runtime.targets import device_named

Array = np.ndarray[Any, Any]


class Round(NamedTuple):
    """The position of a step in a loop or branch: the kind of op that has the body, and the iteration (0 is the first)."""

    kind: str
    number: int


class Ran(NamedTuple):
    """An op of the graph that has just run."""

    traced: Traced
    within: tuple[Round, ...]


class OneByOne:
    """Computes ops one by one on a target. Each kind of op is compiled once, as a separate program."""

    def __init__(self, target: str):
        self.target = target
        self._device = device_named(target)
        self._compiled: dict[Hashable, Any] = {}

    def __call__(self, op: IROp, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results of an op without regions that calls nothing."""
        # Views, and ops without operands, give the same on every target.
        if not self._device.compiles or not arrays or "view" in op.traits or op.name == "ng.slice":
            return evaluate(op, arrays)
        return self._run(op.kind, op, (), arrays)

    def kernel(self, op: IROp, kernel: IROp, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results of a call of a kernel."""
        if not self._device.compiles:
            return interpret(_alone(op, [kernel]), *arrays)
        return self._run((op.kind, structure(kernel)), op, [kernel], arrays)

    def _run(
        self, key: Hashable, op: IROp, called: Sequence[IROp], arrays: Sequence[Array]
    ) -> Sequence[Array]:
        run = self._compiled.get(key)
        if run is None:
            run = self._compiled[key] = compile_module(_alone(op, called), self.target)
        return [np.asarray(result) for result in run(*arrays)]


def _alone(op: IROp, called: Sequence[IROp]) -> Module:
    """A program of one op."""
    block = Block([v.type for v in op.operands])
    again = op.rebuilt(block.args)
    block.ops = [again, func.ReturnOp(again.results, (), {}, (), op.location)]
    return module([function("main", block, location=op.location), *called], location=op.location)


class Walk:
    """Runs a module that a graph was lifted to, and yields after each op of the graph."""

    def __init__(self, program: Module, trace: Trace, compute: OneByOne):
        self.program = program
        self.trace = trace
        self.compute = compute
        self.values: dict[Value, Any] = {}
        #: The value of each op of the graph when it last ran.
        self.at: dict[Op, Array] = {}
        #: The present contents of each storage that was written.
        self.states: dict[Op, Array] = {}

    def block(
        self, block: Block, arguments: Sequence[Any], within: tuple[Round, ...] = ()
    ) -> Generator[Ran, None, list[Any]]:
        """Runs a block; returns the values that it yields."""
        self.values.update(zip(block.args, arguments, strict=True))
        self.at.update(zip(self.trace.parameters.get(block, ()), arguments, strict=False))
        done = 0
        for traced in self.trace.ops.get(block, ()):
            for op in block.ops[done : traced.end]:
                yield from self._op(op, within)
            done = traced.end
            if traced.value is not None:
                self.at[traced.op] = self.values[traced.value]
            if traced.written is not None:
                storage, value = traced.written
                self.states[storage] = self.values[value]
            yield Ran(traced, within)
        for op in block.ops[done:-1]:
            yield from self._op(op, within)
        return [self.values[v] for v in block.ops[-1].operands]

    def _op(self, op: IROp, within: tuple[Round, ...]) -> Generator[Ran, None, None]:
        operands = [self.values[v] for v in op.operands]
        match op.name:
            case "ng.if":
                taken = op.regions[0 if operands[0] else 1].block
                results = yield from self.block(taken, (), (*within, Round("cond", 0)))
            case "ng.while":
                results = yield from self._while(op, operands, within)
            case "ng.scan":
                results = yield from self._scan(op, operands, within)
            case "func.call":
                declared = self.program.lookup(callee(op))
                assert declared is not None
                types = [r.type for r in op.results]
                results = host_function(declared, op.location)(operands, types, op.location)
            case "tile.call":
                kernel = self.program.lookup(callee(op))
                assert kernel is not None
                results = self.compute.kernel(op, kernel, operands)
            case _:
                results = self.compute(op, operands)
        self.values.update(zip(op.results, results, strict=True))

    def _while(
        self, op: IROp, state: list[Any], within: tuple[Round, ...]
    ) -> Generator[Ran, None, list[Any]]:
        condition, body = (r.block for r in op.regions)
        number = 0
        while True:
            inside = (*within, Round("while_loop", number))
            (go_on,) = yield from self.block(condition, state, inside)
            if not go_on:
                return state
            state = yield from self.block(body, state, inside)
            number += 1

    def _scan(
        self, op: IROp, operands: list[Any], within: tuple[Round, ...]
    ) -> Generator[Ran, None, list[Any]]:
        carried = get_i64(op, "carried")
        state, sequences = operands[:carried], operands[carried:]
        length = len(sequences[0])
        stacked = [np.zeros(shape_of(r.type), dtype_of(r.type)) for r in op.results[carried:]]
        for number in reversed(range(length)) if get_bool(op, "reverse") else range(length):
            given = [*state, *(np.array(s[number]) for s in sequences)]
            yielded = yield from self.block(op.regions[0].block, given, (*within, Round("scan", number)))
            state = yielded[:carried]
            for whole, value in zip(stacked, yielded[carried:], strict=True):
                whole[number] = value
        return [*state, *stacked]
