# SPDX-License-Identifier: Apache-2.0
"""Programs that call Python functions: compiled parts, with the calls between them.

The functions are not in compiled code, and therefore not cached. State is written by the last part, so a call in which
a function fails changes nothing. A loop or branch whose body calls a function runs op by op in NumPy, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..ir.attributes import integers
from ..ir.core import Block, Module, Op, Value, callee, module
from ..ops import func
from ..ops.builder import function
from ..ops.hosts import host_name
from ..ops.interpreter import run
from ..ops.memory_limit import limit_of, with_limit
from ..passes.graph.inline import copied
from ..runtime.executable import Prepare
from ..support.diagnostics import Location


class Storage(Protocol):
    """State that a program keeps between calls, on the host or on a device."""

    @property
    def host(self) -> np.ndarray[Any, Any]:
        """The array itself; programs for CPUs write to it in place."""
        ...

    def on(self, device: Any) -> Any:
        """The contents on a GPU, where they stay."""
        ...

    def get(self) -> np.ndarray[Any, Any]:
        """A copy of the contents."""
        ...


#: A callable: takes the arguments that are not state, in order; returns the results that are not tied to state.
Run = Callable[..., Sequence[Any]]

#: (entry, state, tied, prepare) -> the callable of an entry. `state` has the storage of the arguments that are state,
#: `tied` the pairs of a result and the argument whose new contents it is.
Bind = Callable[[str, Mapping[int, Storage], Sequence[tuple[int, int]], Prepare], Run]

#: Makes the functions of a module callable.
Backend = Callable[[Module], Bind]


@dataclass(frozen=True)
class Part:
    """A part of a program as a separate module: the values that it takes, and those that it returns."""

    module: Module
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]


def with_host_steps(backend: Backend) -> Backend:
    """The backend, for programs that call Python functions too."""

    def compiled(module: Module) -> Bind:
        if not any(host_name(op) for op in module.ops):
            return backend(module)
        called = {op.symbol: op for op in module.ops if host_name(op) or op.name == "tile.kernel"}

        def bind(
            entry: str,
            state: Mapping[int, Storage],
            tied: Sequence[tuple[int, int]],
            prepare: Prepare,
        ) -> Run:
            return _Stages(module, called, entry).runner(backend, state, tied, prepare)

        return bind

    return compiled


class _Stages:
    """The ops of a function by when they can run: part 0, the host steps that need only part 0, part 1 ..."""

    def __init__(self, program: Module, called: Mapping[str, Op], entry: str):
        #: The Python functions and the kernels that are called.
        self.called = called
        function = program.lookup(entry)
        assert function is not None
        self.block, self.limit = function.block, limit_of(function)
        self.stage: dict[Value, int] = {}  # value -> the first part that can read it
        self.parts: dict[int, list[Op]] = {}
        self.steps: dict[int, list[Op]] = {}
        self.needs: dict[Op, list[Value]] = {}
        for op in self.block.ops[:-1]:
            self.needs[op] = needs = _needed(op)
            at = max((self.stage.get(v, 0) for v in needs), default=0)
            on_host = any(inner.name == "func.call" and callee(inner) in called for inner in op.walk())
            (self.steps if on_host else self.parts).setdefault(at, []).append(op)
            self.stage.update(dict.fromkeys(op.results, at + on_host))
        self.last = max(self.stage.values(), default=0)

    def runner(
        self,
        backend: Backend,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Run:
        arguments = list(self.block.args)
        returned = list(self.block.ops[-1].operands)
        overwritten = dict(tied)
        free = [v for i, v in enumerate(returned) if i not in overwritten]
        written = [(returned[result], arguments[argument]) for result, argument in tied]
        stored = {arguments[i]: storage for i, storage in state.items()}

        def part(made: Part, tied: Sequence[tuple[int, int]] = ()) -> Run:
            held = {i: stored[v] for i, v in enumerate(made.takes) if v in stored}
            return backend(made.module)("main", held, tied, lambda values: values)

        todo: list[tuple[Run, Sequence[Value], Sequence[Value]]] = []
        wanted = {*free, *(v for v, _ in written)}
        for at in range(self.last + 1):
            later = [op for n in range(at + 1, self.last + 1) for op in self.parts.get(n, ())]
            later += [op for n in range(at, self.last + 1) for op in self.steps.get(n, ())]
            needed = {v for op in later for v in self.needs[op]}
            is_last = at == self.last
            here = {r for op in self.parts.get(at, ()) if self.needs[op] for r in op.results}
            # A value that is returned but not computed here is an output of the last part, as a copy.
            gives = [v for v in here if v in needed or (v in wanted and not is_last)]
            if is_last:
                gives = list(dict.fromkeys(free))
                made = self._part(at, gives, written)
                ties = tuple((len(gives) + i, made.takes.index(a)) for i, (_, a) in enumerate(written))
                todo.append((part(made, ties), _open(made, stored), gives))
            elif gives:
                made = self._part(at, gives, ())
                todo.append((part(made), _open(made, stored), gives))
            for op in self.steps.get(at, ()):
                step = self._step(op)
                todo.append((_on_host(step, stored), [v for v in step.takes if v not in stored], op.results))
        inputs = [v for i, v in enumerate(arguments) if i not in state]

        def call(*values: Any) -> Sequence[Any]:
            known: dict[Value, Any] = dict(zip(inputs, prepare(values), strict=True))
            for run_part, takes, gives in todo:
                results = run_part(*[known[v] for v in takes])
                known.update(zip(gives, results, strict=True))
            return [known[v] for v in free]

        return call

    def _part(self, at: int, gives: Sequence[Value], written: Sequence[tuple[Value, Value]]) -> Part:
        """The ops of one part that its results need; constants are copied to every part that reads them."""
        own = {r: op for op in self.parts.get(at, ()) for r in op.results}
        own |= {r: op for op in self.parts.get(0, ()) if not self.needs[op] for r in op.results}
        results = [*gives, *(v for v, _ in written)]
        ops: set[Op] = set()
        outside: dict[Value, None] = dict.fromkeys(a for _, a in written)
        stack = [*results]
        while stack:
            value = stack.pop()
            op = own.get(value)
            if op is None:
                outside[value] = None
            elif op not in ops:
                ops.add(op)
                stack += self.needs[op]
        order = {v: i for i, v in enumerate((*self.block.args, *(r for o in self.needs for r in o.results)))}
        takes = tuple(sorted(outside, key=order.__getitem__))
        ordered = [op for op in self.needs if op in ops]
        made = _module(takes, ordered, results, len(gives), [takes.index(a) for _, a in written])
        return self._with_called(made, ordered, made.module.location)

    def _step(self, op: Op) -> Part:
        """A host step as a module."""
        constants = {r: c for c in self.parts.get(0, ()) if not self.needs[c] for r in c.results}
        takes = tuple(v for v in self.needs[op] if v not in constants)
        copies = dict.fromkeys(constants[v] for v in self.needs[op] if v in constants)
        made = _module(takes, [*copies, op], op.results, len(op.results), ())
        return self._with_called(made, [op], op.location)

    def _with_called(self, made: Part, ops: Sequence[Op], location: Location) -> Part:
        """The part together with the functions that its ops call."""
        calls = [inner for op in ops for inner in op.walk() if inner.name in ("func.call", "tile.call")]
        names = dict.fromkeys(callee(call) for call in calls)
        called = [self.called[name] for name in names if name in self.called]
        whole = with_limit(module([*made.module.ops, *called], location=location), self.limit)
        return Part(whole, made.takes, made.gives)


def _module(
    takes: tuple[Value, ...],
    ops: Sequence[Op],
    results: Sequence[Value],
    free: int,
    written: Sequence[int],
) -> Part:
    block = Block([v.type for v in takes], [v.name for v in takes])
    mapping = dict(zip(takes, block.args, strict=True))
    block.ops = [copied(op, mapping) for op in ops]
    block.ops.append(func.ReturnOp([mapping[v] for v in results], (), {}, ()))
    pairs = [n for i, argument in enumerate(written) for n in (free + i, argument)]
    main = function("main", block, {"ng.tied": integers(pairs)} if pairs else {})
    return Part(module([main]), takes, tuple(results))


def _on_host(step: Part, stored: Mapping[Value, Storage]) -> Run:
    def call(*values: Any) -> Sequence[Any]:
        given = iter(values)
        # State is passed as a copy: functions may keep their arguments.
        return run(step.module, *[stored[v].get() if v in stored else next(given) for v in step.takes])

    return call


def _open(made: Part, stored: Mapping[Value, Storage]) -> list[Value]:
    return [v for v in made.takes if v not in stored]


def _needed(op: Op) -> list[Value]:
    """The values from outside that an op uses, including in its regions."""
    inside = {v for inner in op.walk() for v in inner.results}
    inside |= {a for inner in op.walk() for r in inner.regions for b in r.blocks for a in b.args}
    return list(dict.fromkeys(v for inner in op.walk() for v in inner.operands if v not in inside))
