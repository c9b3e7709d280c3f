# SPDX-License-Identifier: Apache-2.0
"""One operator on ragged inputs as a program: what it gives, raggedness too, and its gradients, on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gradient_errors import noted
from program_texts import appended, typed

from ngmlir.compiler import compile_module
from ngmlir.ir.literals import type_of_dtype
from ngmlir.ir.types import FloatType, i32
from ngmlir.ops.interpreter import run
from ngmlir.programs.attributes import completed
from ngmlir.programs.backward import append_gradients
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.descriptions import Program
from ngmlir.programs.lower import lower
from ngmlir.programs.lowered import Lowered
from ngmlir.programs.names import offsets_name, offsets_names

Array = np.ndarray
#: Lengths of sequences: some empty, one, several of one row, none.
LENGTHS: list[list[int]] = [[3, 0, 2, 1], [4], [1, 1, 1], [0, 2], [0, 0], []]


class Rows(NamedTuple):
    """Rows, with the lengths of their sequences, one list a level."""

    array: Array
    lengths: Sequence[Sequence[int]] = ()


class Applied:
    """An operator on inputs."""

    def __init__(self, type: str, inputs: Mapping[str, Any], **attributes: Any):
        self.entry = REGISTRY.get(type).entry
        self.program = Program()
        self.values: dict[str, Array] = {}
        self.slots: dict[str, list[str]] = {}
        for slot, given in inputs.items():
            each = given if isinstance(given, list) else [given]
            self.slots[slot] = [f"{slot}{i}" for i in range(len(each))]
            for name, item in zip(self.slots[slot], each, strict=True):
                array, lengths = item if isinstance(item, Rows) else (item, ())
                self._declare(name, array, lengths)
        self.outputs = {s.name: f"out {s.name}" for s in self.entry.outputs}
        appended(self.program.top, type, self.slots, {s: [n] for s, n in self.outputs.items()}, **attributes)

    def _declare(self, name: str, array: Array, lengths: Sequence[Sequence[int]] = ()) -> None:
        top = self.program.top
        top.declare(name, typed(*array.shape, element=type_of_dtype(array.dtype)), ragged=len(lengths))
        self.values[name] = array
        for level, each in enumerate(lengths):
            offsets = np.cumsum([0, *each], dtype=np.int32)
            top.declare(offsets_name(name, level), typed(len(offsets), element=i32))
            self.values[offsets_name(name, level)] = offsets

    def compiled(self, names: Sequence[str], target: str, program: Program | None = None) -> Any:
        """A function of the inputs: the values of these variables."""
        copy = (program or self.program).copy()
        top = copy.top
        top.declare("feed", holds="feed_list", flags=["persistable"])
        top.declare("fetch", holds="fetch_list", flags=["persistable"])
        feed, fetch = (REGISTRY.get(t).entry for t in ("feed", "fetch"))
        for i, (name, array) in enumerate(self.values.items()):
            top.visible(name).type = typed(*array.shape, element=type_of_dtype(array.dtype))
            top.insert(i, "feed", {"X": ["feed"]}, {"Out": [name]}, completed(feed, {"col": i}))
        for i, name in enumerate(names):
            top.insert(
                len(top.operators), "fetch", {"X": [name]}, {"Out": ["fetch"]}, completed(fetch, {"col": i})
            )
        sizes: tuple[int, ...] = ()
        while True:
            lowered: Lowered = lower(copy, sizes=sizes)
            module = lowered.module
            if not lowered.measures:
                break
            sizes = (*sizes, *run(module, *self.values.values())[0].tolist())
        if target == "numpy":
            return lambda *arrays: [np.array(a) for a in run(module, *arrays)]
        made = compile_module(module, target)
        return lambda *arrays: [np.array(a) for a in made(*arrays)]

    def results(self, target: str = "numpy", slots: Sequence[str] | None = None) -> dict[str, Rows]:
        """What is in each output slot."""
        wanted = [s.name for s in self.entry.outputs if not s.intermediate] if slots is None else slots
        names = [self.outputs[slot] for slot in wanted]
        top = self.program.top
        flat = [each for n in names for each in (n, *offsets_names(n, top.variables[n].ragged))]
        found = dict(zip(flat, self.compiled(flat, target)(*self.values.values()), strict=True))
        return {
            slot: Rows(
                found[n],
                [np.diff(found[o]).tolist() for o in offsets_names(n, top.variables[n].ragged)],
            )
            for slot, n in zip(wanted, names, strict=True)
        }

    def gradients(
        self, outputs: Sequence[str], inputs: Sequence[str], target: str, order: int = 1
    ) -> list[Array]:
        """Gradients by inputs of the sum of outputs, each weighted by its place; with order 2 of the sum of these, weighted so too."""
        return self.differentiated(outputs, inputs, target, order)(*self.values.values())

    def differentiated(
        self, outputs: Sequence[str], inputs: Sequence[str], target: str, order: int = 1
    ) -> Any:
        """What computes `gradients`, as a function of the inputs."""
        program = self.program.copy()
        top, known = program.top, self.values
        by = [self.slots[s][0] for s in inputs]

        def seeds(names: Sequence[str], arrays: Sequence[Array]) -> list[Any]:
            for name, array in zip(names, arrays, strict=True):
                top.declare(f"error {name}", top.variables[name].type)
                self.values[f"error {name}"] = weights(array)
            return [top.variables[f"error {n}"] for n in names]

        results = self.results("numpy", outputs)
        self.values = dict(known)
        targets = [self.outputs[s] for s in outputs]
        errors = seeds(targets, [results[s].array for s in outputs])
        made = append_gradients([top.variables[n] for n in targets], [top.variables[n] for n in by], errors)
        if order == 2:
            held = [m for m in made if m is not None]
            first = [
                appended(top, "assign", {"X": [m.name]}, {"Out": [f"first {m.name}"]}).writes[0] for m in held
            ]
            errors = seeds(first, [known[m.name.partition("@")[0]] for m in held])
            made = append_gradients([top.variables[n] for n in first], [top.variables[n] for n in by], errors)
        try:
            call = self.compiled([m.name for m in made if m is not None], target, program)
            fixed = list(self.values.values())[len(known) :]
        finally:
            self.values = known

        def gradients(*arrays: Array) -> list[Array]:
            found = iter(call(*arrays, *fixed))
            return [
                np.zeros_like(known[n]) if m is None else next(found) for n, m in zip(by, made, strict=True)
            ]

        return gradients


def weights(array: Array) -> Array:
    """What stands for the gradient of a result."""
    return np.cos(1 + np.arange(array.size)).reshape(array.shape).astype(array.dtype)


def check_gradients(
    type: str,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    by: Sequence[str],
    order: int = 1,
    **attributes: Any,
) -> None:
    """Gradients are those of central differences, and the same on every target."""
    made = Applied(type, inputs, **attributes)
    found = made.gradients(outputs, by, "numpy", order)
    for target in ("cpu", "cuda-sim"):
        for a, b in zip(found, made.gradients(outputs, by, target, order), strict=True):
            noted(type, order, target, b, a)
            assert np.allclose(a, b, rtol=1e-9, atol=1e-11), target

    names = [made.outputs[s] for s in outputs]
    call = made.compiled(names, "numpy") if order == 1 else made.differentiated(outputs, by, "numpy")

    def total() -> float:
        return sum(float((r * weights(r)).sum()) for r in call(*made.values.values()))

    for slot, gradient in zip(by, found, strict=True):
        value = made.values[made.slots[slot][0]]
        assert isinstance(type_of_dtype(value.dtype), FloatType)
        wanted = np.zeros_like(value)
        for at in np.ndindex(*value.shape):
            old, h = value[at], 1e-5
            value[at] = old + h
            high = total()
            value[at] = old - h
            low = total()
            value[at] = old
            wanted[at] = (high - low) / (2 * h)
        error = noted(type, order, "numpy", gradient, wanted)
        assert error <= (1e-6 if order == 1 else 1e-5), (slot, gradient, wanted)
