# SPDX-License-Identifier: Apache-2.0
"""Random programs that write parts of what they keep: after some calls all of it, and all that was returned, is as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ngmlir.compiler import compile_module, lower
from ngmlir.ops.words import from_text
from ngmlir.passes.lower.plan_memory import planned_bytes

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 7, 40
S = f"tensor<{ROWS}x{COLUMNS}xf32>"


class _Program:
    """A program over two states and a few inputs; and the same on arrays."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.count = 0
        self.steps: list[Any] = []  # functions of the list of values, which give one more
        self.values = ["%s", "%t"]  # of type S
        self.now = [0, 1]  # which values the states are

    def add(self, text: str, step: Any) -> int:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        self.values.append(name)
        self.steps.append(step)
        return len(self.values) - 1

    def helper(self, text: str) -> str:
        name = f"%h{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def write(self) -> None:
        state = int(self.random.integers(2))
        i, kind = self.now[state], int(self.random.integers(6))
        x = self.values[i]
        if kind == 0:  # rows by index
            combine = str(self.random.choice(["set", "add", "max", "min"]))
            text = f'ng.scatter {x}[%ids], %rows axis 0 {{combine = "{combine}"}} : ({S}, tensor<3xi32>, tensor<3x{COLUMNS}xf32>) -> {S}'
            self.now[state] = self.add(
                text, lambda v, e, i=i, c=combine: _scattered(v[i], e["ids"], e["rows"], c)
            )
        elif kind == 1:  # a column by index
            row = self.helper(f"ng.reshape %col : (tensor<{ROWS}xf32>) -> tensor<{ROWS}x1xf32>")
            at = self.helper("ng.slice %ids from [0] to [1] step [1] : (tensor<3xi32>) -> tensor<1xi32>")
            text = f"ng.scatter {x}[{at}], {row} axis 1 : ({S}, tensor<1xi32>, tensor<{ROWS}x1xf32>) -> {S}"
            self.now[state] = self.add(
                text, lambda v, e, i=i: _scattered(v[i].T, e["ids"][:1], e["col"][None], "set").T
            )
        elif kind == 2:  # rows that are known, from an input or from rows of a state
            at = int(self.random.integers(ROWS))
            source = int(self.random.integers(3))
            first = int(self.random.integers(ROWS))
            read = "%rows" if source == 2 else self.values[self.now[source]]
            of = f"tensor<3x{COLUMNS}xf32>" if source == 2 else S
            first = first % 3 if source == 2 else first
            part = f"tensor<1x{COLUMNS}xf32>"
            new = self.helper(
                f"ng.slice {read} from [{first}, 0] to [{first + 1}, {COLUMNS}] step [1, 1] : ({of}) -> {part}"
            )
            pieces = []
            for low, high in ((0, at), (at + 1, ROWS)):
                if low < high:
                    type = f"tensor<{high - low}x{COLUMNS}xf32>"
                    pieces.append(
                        (
                            self.helper(
                                f"ng.slice {x} from [{low}, 0] to [{high}, {COLUMNS}] step [1, 1] : ({S}) -> {type}"
                            ),
                            type,
                            low,
                        )
                    )
            pieces.insert(sum(low < at for *_, low in pieces), (new, part, at))
            names, types = (", ".join(p[k] for p in pieces) for k in (0, 1))

            def replaced(
                v: list[Array],
                e: dict[str, Array],
                i: int = i,
                now: int = self.now[source % 2],
                source: int = source,
                at: int = at,
                first: int = first,
            ) -> Array:
                made = v[i].copy()
                made[at] = e["rows"][first] if source == 2 else v[now][first]
                return made

            self.now[state] = self.add(f"ng.concatenate {names} axis 0 : ({types}) -> {S}", replaced)
        elif kind == 3:
            self.now[state] = self.add(f"ng.multiply {x}, {x} : {S}", lambda v, e, i=i: v[i] * v[i])
        elif kind == 4:  # one state of both
            a, b = self.now
            text = f"ng.subtract {self.values[a]}, {self.values[b]} : {S}"
            self.now[state] = self.add(text, lambda v, e, a=a, b=b: v[a] - v[b])
        else:  # the other state's rows, in a loop
            other = self.now[1 - state]
            n = self.count
            text = f"""ng.scan iter(%c{n} = {x}) over(%r{n}: tensor<{COLUMNS}xf32> = {self.values[other]}) -> {S} {{
                %d{n} = ng.scatter %c{n}[%one], %r{n} axis 0 {{combine = "add"}} : ({S}, tensor<i32>, tensor<{COLUMNS}xf32>) -> {S}
                %e{n} = ng.scatter %d{n}[%two], %r{n} axis 0 : ({S}, tensor<i32>, tensor<{COLUMNS}xf32>) -> {S}
                ng.yield %e{n} : {S}
            }}"""

            def rounds(v: list[Array], e: dict[str, Array], i: int = i, other: int = other) -> Array:
                made = v[i].copy()
                for row in v[other]:
                    made[e["one"]] += row
                    made[e["two"]] = row
                return made

            self.now[state] = self.add(text, rounds)

    def finished(self) -> tuple[str, list[int]]:
        """The text, and the values that are returned behind the states."""
        returned = [int(i) for i in self.random.integers(len(self.values), size=self.random.integers(3))]
        names = [self.values[i] for i in (*self.now, *returned)]
        types = ", ".join([S] * len(names))
        head = f"%s: {S}, %t: {S}, %ids: tensor<3xi32>, %rows: tensor<3x{COLUMNS}xf32>, %col: tensor<{ROWS}xf32>, %one: tensor<i32>, %two: tensor<i32>"
        body = "\n  ".join(self.lines)
        return (
            f"func.func @main({head}) -> ({types}) attributes {{ng.tied = array<i64: 0, 0, 1, 1>}} {{\n"
            f"  {body}\n  return {', '.join(names)} : {types}\n}}\n"
        ), returned

    def run(self, states: list[Array], inputs: dict[str, Array], returned: list[int]) -> list[Array]:
        values = [s.copy() for s in states]
        for step in self.steps:
            values.append(step(values, inputs))
        return [values[i] for i in (*self.now, *returned)]


def _scattered(x: Array, ids: Array, rows: Array, combine: str) -> Array:
    made = x.copy()
    for i, row in zip(ids, rows, strict=True):
        if -len(made) <= i < len(made):
            join = {"set": lambda _, y: y, "add": np.add, "max": np.maximum, "min": np.minimum}[combine]
            made[i] = join(made[i], row)
    return made


@pytest.mark.parametrize("seed", range(40))
def test_states_are_as_numpy_has_them(seed: int) -> None:
    program = _Program(seed)
    for _ in range(int(program.random.integers(1, 7))):
        program.write()
    text, returned = program.finished()
    run = compile_module(from_text(text), "cpu")
    random = np.random.default_rng(seed)
    states = [random.standard_normal((ROWS, COLUMNS)).astype(np.float32) / 2 for _ in range(2)]
    ours = [s.copy() for s in states]
    for _ in range(3):
        inputs = {
            "ids": random.integers(-ROWS, ROWS + 2, 3).astype(np.int32),
            "rows": random.standard_normal((3, COLUMNS)).astype(np.float32) / 2,
            "col": random.standard_normal(ROWS).astype(np.float32) / 2,
            "one": np.int32(random.integers(ROWS)),
            "two": np.int32(random.integers(ROWS)),
        }
        with np.errstate(all="ignore"):
            expected = program.run(states, inputs, returned)
        got = [np.array(a) for a in run(*ours, *inputs.values())]
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y, text)
        states, ours = expected[:2], got[:2]


_HEAD = "func.func @main(%c: tensor<256x64xf32>, %x: tensor<1x64xf32>, %i: tensor<1xi32>) -> tensor<256x64xf32> attributes {ng.tied = array<i64: 0, 0>} {"
_WRITE = "ng.scatter {}[%i], %x axis 0 : (tensor<256x64xf32>, tensor<1xi32>, tensor<1x64xf32>) -> tensor<256x64xf32>"
_KNOWN = """
  %l = ng.slice %c from [0, 0] to [5, 64] step [1, 1] : (tensor<256x64xf32>) -> tensor<5x64xf32>
  %h = ng.slice %c from [6, 0] to [256, 64] step [1, 1] : (tensor<256x64xf32>) -> tensor<250x64xf32>
  %r = ng.concatenate %l, %x, %h axis 0 : (tensor<5x64xf32>, tensor<1x64xf32>, tensor<250x64xf32>) -> tensor<256x64xf32>
"""
_LOOP = f"""
  %s = ng.constant dense<1.0> : tensor<9x64xf32>
  %r = ng.scan iter(%d = %c) over(%w: tensor<64xf32> = %s) -> tensor<256x64xf32> {{
    %e = {_WRITE.format("%d")}
    %f = {_WRITE.format("%e")}
    ng.yield %f : tensor<256x64xf32>
  }}
"""


@pytest.mark.parametrize(
    "body",
    [f"%r = {_WRITE.format('%c')}", f"%b = {_WRITE.format('%c')}\n%r = {_WRITE.format('%b')}", _KNOWN, _LOOP],
    ids=["by index", "twice", "at a known place", "in a loop"],
)
def test_what_is_written_is_written_in_place(body: str) -> None:
    """No copy of the state is planned, nor memory for one."""
    module = from_text(f"{_HEAD}\n{body}\nfunc.return %r : tensor<256x64xf32>\n}}")
    planned = lower(module, "x86-64-v4")
    assert planned_bytes(planned) < 4096
    (main,) = [op for op in planned.ops if op.name == "func.func"]
    assert not [op for op in main.walk() if op.name == "tile.copy"]
    run = compile_module(module, "cpu")
    state = np.zeros((256, 64), np.float32)
    for at in (3, 5):
        (state,) = (
            np.array(a) for a in run(state, np.full((1, 64), at, np.float32), np.array([at], np.int32))
        )
    assert state[5, 0] == 5 and state[6].max() == 0
