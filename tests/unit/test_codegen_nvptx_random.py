# SPDX-License-Identifier: Apache-2.0
"""Random programs over tiles, on the simulated GPU and in the interpreter: layouts meet in every combination.

Integers, so that the order of sums does not matter and every bit must agree.
"""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_codegen_nvptx import agree, numbers

from ngmlir.ir.types import MemRefType, Type, VectorType, i32, shape_of
from ngmlir.ops.words import from_text

SIZES = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 33])
MOST = 2048  # elements of one tile


class Program:
    """The text of a kernel under construction; every value is loaded, computed or both, and all are stored."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...]]] = []
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}

    def value(self, text: str, shape: tuple[int, ...]) -> None:
        name = f"%v{len(self.values)}"
        self.lines.append(f"  {name} = {text}")
        self.values.append((name, shape))

    def load(self, shape: tuple[int, ...], swapped: bool) -> None:
        dims = list(reversed(range(len(shape)))) if swapped else list(range(len(shape)))
        buffer = MemRefType(tuple(shape[dims.index(d)] for d in range(len(shape))), i32)
        name = f"in{len(self.inputs)}"
        self.inputs[name] = str(buffer)
        at = ", ".join(["%c0"] * len(shape))
        attributes = f" {{dims = array<i64: {', '.join(map(str, dims))}>}}" if swapped else ""
        self.value(f"tile.load %{name}[{at}]{attributes} : {buffer}, {tile(shape)}", shape)

    def store_all(self) -> None:
        for name, shape in self.values:
            buffer = MemRefType(shape, i32)
            out = f"out{len(self.outputs)}"
            self.outputs[out] = str(buffer)
            at = ", ".join(["%c0"] * len(shape))
            self.lines.append(f"  tile.store {name}, %{out}[{at}] : {tile(shape)}, {buffer}")

    def text(self, threads: int) -> str:
        buffers = {**self.inputs, **self.outputs}
        arguments = ", ".join(f"%{name}: {type}" for name, type in buffers.items())
        read = ", ".join(f"%{name}: {type}" for name, type in self.inputs.items())
        written = ", ".join(f"%{name}: {type}" for name, type in self.outputs.items())
        given, made = (", ".join(f"%{name}" for name in names) for names in (self.inputs, self.outputs))
        return "\n".join(
            [
                f"tile.kernel @k ins({read}) outs({written}) threads({threads}) {{",
                "  %c0 = ng.constant 0 : index",
                *self.lines,
                "  tile.return",
                "}",
                f"func.func @main({arguments}, %arena: memref<0xi8>) attributes "
                f"{{ng.arguments = {len(self.inputs)} : i64, ng.results = {len(self.outputs)} : i64}} {{",
                f"  tile.launch @k ins({given}) outs({made})",
                "  func.return",
                "}",
            ]
        )


def tile(shape: tuple[int, ...]) -> Type:
    return VectorType(shape, i32) if shape else i32


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, int]:
    program = Program()
    for _ in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3).filter(lambda s: prod(s) <= MOST)))
        program.load(shape, draw(st.booleans()))
    for _ in range(draw(st.integers(1, 6))):
        name, shape = draw(st.sampled_from(program.values))
        kind = draw(
            st.sampled_from(["join", "reduce", "broadcast", "transpose", "reshape", "slice", "scan", "iota"])
        )
        here = str(tile(shape))
        if kind == "join":
            other = draw(st.sampled_from([n for n, s in program.values if s == shape]))
            verb = draw(st.sampled_from(["add", "subtract", "multiply", "maximum"]))
            program.value(f"ng.{verb} {name}, {other} : {here}", shape)
        elif kind == "iota" and shape:
            dimension = draw(st.integers(0, len(shape) - 1))
            program.value(f"ng.iota {{dimension = {dimension} : i64}} : {here}", shape)
        elif kind == "reduce" and shape:
            axes = sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
            left = tuple(s for d, s in enumerate(shape) if d not in axes)
            verb = draw(st.sampled_from(["sum", "product", "max", "min"]))
            program.value(f"ng.{verb} {name} axes {axes} : ({here}) -> {tile(left)}", left)
        elif kind == "broadcast" and len(shape) < 3:
            place, size = draw(st.integers(0, len(shape))), draw(SIZES)
            wide = (*shape[:place], size, *shape[place:])
            if prod(wide) <= MOST:
                dims = [d for d in range(len(wide)) if d != place]
                program.value(f"ng.broadcast {name} dims {dims} : ({here}) -> {tile(wide)}", wide)
        elif kind == "transpose" and len(shape) > 1:
            order = draw(st.permutations(range(len(shape))))
            moved = tuple(shape[d] for d in order)
            program.value(f"ng.transpose {name} perm {list(order)} : ({here}) -> {tile(moved)}", moved)
        elif kind == "reshape" and shape:
            size = prod(shape)
            first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
            flat = (first, size // first)
            program.value(f"ng.reshape {name} : ({here}) -> {tile(flat)}", flat)
        elif kind == "slice" and shape:
            starts = [draw(st.integers(0, s - 1)) for s in shape]
            steps = [draw(st.sampled_from([1, 2, -1])) for _ in shape]
            limits = [s if step > 0 else -1 for s, step in zip(shape, steps, strict=True)]
            sizes = tuple(
                -(-(stop - start) // step) for start, stop, step in zip(starts, limits, steps, strict=True)
            )
            program.value(
                f"ng.slice {name} from {starts} to {limits} step {steps} : ({here}) -> {tile(sizes)}", sizes
            )
        elif kind == "scan" and shape:
            axis = draw(st.integers(0, len(shape) - 1))
            flags = f"{{reverse = {str(draw(st.booleans())).lower()}, exclusive = {str(draw(st.booleans())).lower()}}}"
            program.value(f"ng.cumulative_sum {name} axis {axis} {flags} : {here}", shape)
    program.store_all()
    return program.text(draw(st.sampled_from([32, 64, 128, 256]))), len(program.inputs)


@given(programs())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_tiles_of_any_layout(case: tuple[str, int]) -> None:
    text, inputs = case
    types = [a.type for a in from_text(text).lookup("main").regions[0].block.args[:inputs]]  # type: ignore[union-attr]
    agree(text, *(numbers(*shape_of(t), dtype=np.int32, seed=i) for i, t in enumerate(types)))
