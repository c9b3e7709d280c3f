# SPDX-License-Identifier: Apache-2.0
"""Operators of programs against NumPy, and their gradients against differences of values, on every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gradient_errors import noted
from operator_cases import CASES
from program_texts import appended, typed

from ngmlir.compiler import compile_module
from ngmlir.ir.literals import type_of_dtype
from ngmlir.ir.types import FloatType
from ngmlir.ops.interpreter import run
from ngmlir.programs.attributes import completed
from ngmlir.programs.backward import append_gradients
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.descriptions import Program
from ngmlir.programs.lower import lower
from ngmlir.programs.lowered import Lowered

Array = np.ndarray
TARGETS = ("numpy", "cpu", "cuda-sim")
ALL = [pytest.param(type, i, id=f"{type}-{i}") for type, cases in CASES.items() for i in range(len(cases))]
#: Operators whose results are drawn, files, and what is tested by itself (test_operators_drawn.py, test_fluid_io.py ...).
ELSEWHERE = {
    "feed", "fetch", "save", "save_combine", "load", "load_combine", "delete_var", "uniform_random", "gaussian_random",
    "truncated_gaussian_random", "uniform_random_batch_size_like", "gaussian_random_batch_size_like", "sampling_id", "random_crop", "range", "where_index",
    "auc", "sgd", "momentum", "adam", "adagrad", "decayed_adagrad", "adadelta", "adamax", "rmsprop", "ftrl", "lamb", "proximal_gd",
    "proximal_adagrad", "average_accumulates", "sequence_pool", "sequence_softmax", "sequence_conv", "row_conv", "sequence_expand",
    "sequence_concat", "sequence_reverse", "sequence_slice", "sequence_erase", "sequence_reshape", "sequence_pad", "sequence_unpad", "lod_reset", "im2sequence", "lstm", "lstmp",
    "gru", "linear_chain_crf", "crf_decoding", "warpctc", "ctc_align", "edit_distance", "chunk_eval",
    "all_reduce", "reduce_scatter", "all_gather", "send", "recv",
    "while", "conditional_block", "recurrent", "write_to_array", "read_from_array", "clear_in_array", "lod_array_length",
    "split_lod_tensor", "merge_lod_tensor", "lod_rank_table", "max_sequence_len", "lod_tensor_to_array", "array_to_lod_tensor",
    "shrink_rnn_memory", "reorder_lod_tensor_by_rank", "fill_constant_by_rank_table", "beam_search",
    "beam_search_decode", "recompute", "running_rows",
}  # fmt: skip


def test_every_operator_has_a_case() -> None:
    assert set(REGISTRY.entries) - set(CASES) == ELSEWHERE


class Tried:
    """A case as a program: its inputs are fed, its outputs fetched."""

    def __init__(self, type: str, number: int):
        drawn = np.random.default_rng(number)
        inputs, self.attributes, self.reference = CASES[type][number]
        self.entry = REGISTRY.get(type).entry
        self.program = Program()
        self.values: dict[str, Array] = {}
        self.slots: dict[str, list[str]] = {}
        for slot, given in inputs.items():
            each = given if isinstance(given, list) else [given]
            self.slots[slot] = [f"{slot}{i}" for i in range(len(each))]
            for name, value in zip(self.slots[slot], each, strict=True):
                self.values[name] = value if isinstance(value, np.ndarray) else drawn.normal(size=value)
        for name, value in self.values.items():
            self.program.top.declare(name, typed(*value.shape, element=type_of_dtype(value.dtype)))
        count = self._counted(type)
        self.outputs = {
            s.name: [f"out {s.name}{i}" for i in range(count if s.many else 1)] for s in self.entry.outputs
        }
        appended(self.program.top, type, self.slots, self.outputs, **self.attributes)

    def _counted(self, type: str) -> int:
        sections = self.attributes.get("sections") or [0] * self.attributes.get("num", 1)
        return len(sections) if type.startswith("split") else 1

    def floats(self, names: Sequence[str]) -> list[str]:
        return [n for n in names if isinstance(self.program.top.variables[n].element, FloatType)]

    def lowered(self, names: Sequence[str], program: Program | None = None) -> Lowered:
        copy = (program or self.program).copy()
        top = copy.top
        top.declare("feed", holds="feed_list", flags=["persistable"])
        top.declare("fetch", holds="fetch_list", flags=["persistable"])
        for i, name in enumerate(self.values):
            top.insert(
                i, "feed", {"X": ["feed"]}, {"Out": [name]}, completed(REGISTRY.get("feed").entry, {"col": i})
            )
        for i, name in enumerate(names):
            appended(top, "fetch", {"X": [name]}, {"Out": ["fetch"]}, col=i)
        return lower(copy)

    def results(self, target: str, names: Sequence[str]) -> Sequence[Array]:
        module = self.lowered(names).module
        if target == "numpy":
            return run(module, *self.values.values())
        return compile_module(module, target)(*self.values.values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("type", "number"), ALL)
def test_values(type: str, number: int, target: str) -> None:
    tried = Tried(type, number)
    if tried.reference is None:
        pytest.skip("its gradient and shape alone are tested")
    names = [n for names in tried.outputs.values() for n in names]
    found = dict(zip(names, tried.results(target, names), strict=True))
    given = {slot: [tried.values[n] for n in ns] for slot, ns in tried.slots.items()}
    many = {s.name for s in tried.entry.inputs if s.many}
    wanted = tried.reference(**{s: v if s in many else v[0] for s, v in given.items()}, **tried.attributes)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for slot, value in zip(tried.entry.outputs, wanted, strict=False):
        for name, each in zip(tried.outputs[slot.name], value if slot.many else [value], strict=True):
            each = np.asarray(each)
            assert found[name].shape == each.shape
            assert found[name].dtype == each.dtype
            assert np.allclose(found[name], each, rtol=1e-9 if each.dtype == np.float64 else 1e-5, atol=1e-10)
            declared = tried.program.top.variables[name].type
            assert declared is typed(*each.shape, element=type_of_dtype(each.dtype))


def gradients(
    tried: Tried, errors: Mapping[str, Array], by: Sequence[str], target: str, order: int = 1
) -> list[Array | None]:
    """The gradients of the outputs, weighted with errors; for order 2 those of the sum of these, each weighted by its place."""
    program = tried.program.copy()
    top = program.top
    for name, error in errors.items():
        top.declare(f"error {name}", typed(*error.shape, element=type_of_dtype(error.dtype)))
    targets = [top.variables[n] for n in errors]
    seeds = [top.variables[f"error {n}"] for n in errors]
    made = append_gradients(targets, [top.variables[n] for n in by], seeds)
    if order == 2:
        kept = [m for m in made if m is not None]
        if not kept:
            return [None] * len(by)
        first = [
            appended(top, "assign", {"X": [m.name]}, {"Out": [f"first {m.name}"]}).writes[0] for m in kept
        ]
        weights = [weight(v) for v in kept]
        for name, each in zip(first, weights, strict=True):
            top.declare(f"error {name}", typed(*each.shape, element=type_of_dtype(each.dtype)))
        made = append_gradients(
            [top.variables[n] for n in first],
            [top.variables[n] for n in by],
            [top.variables[f"error {n}"] for n in first],
        )
        errors = {**errors, **dict(zip(first, weights, strict=True))}
    names = [m.name for m in made if m is not None]
    held = Tried.__new__(Tried)
    held.values = {**tried.values, **{f"error {n}": e for n, e in errors.items()}}
    module = held.lowered(names, program).module
    given = list(held.values.values())
    found = iter(run(module, *given) if target == "numpy" else compile_module(module, target)(*given))
    return [None if m is None else np.array(next(found)) for m in made]


def weight(variable: Any) -> Array:
    return np.cos(np.arange(np.prod(variable.type.shape))).reshape(variable.type.shape)


def differences(function: Any, tried: Tried, name: str) -> Array:
    """Central differences of a number by the elements of an input."""
    value = tried.values[name]
    made = np.zeros_like(value)
    for at in np.ndindex(*value.shape):
        old, h = value[at], 1e-5
        value[at] = old + h
        high = function()
        value[at] = old - h
        low = function()
        value[at] = old
        made[at] = (high - low) / (2 * h)
    return made


def prepared(type: str, number: int) -> tuple[Tried, dict[str, Array], list[str]]:
    tried = Tried(type, number)
    entry = tried.entry
    if entry.gradient == ():
        pytest.skip("it has no gradient")
    tried.values = {n: v.copy() for n, v in tried.values.items()}
    wanted = [s.name for s in entry.inputs if entry.gradient is None or s.name in entry.gradient]
    by = tried.floats([n for s in wanted for n in tried.slots.get(s, ())])
    # Running means and the like are no results that gradients come in through.
    given = [
        s.name
        for s in entry.outputs
        if not s.intermediate and s.name not in ("MeanOut", "VarianceOut", "Mask")
    ]
    outputs = tried.floats([n for s in given for n in tried.outputs[s]])
    errors = {
        n: np.sin(1 + np.arange(np.prod(tried.program.top.variables[n].shape))).reshape(
            tried.program.top.variables[n].shape
        )
        for n in outputs
    }
    errors = {n: e for n, e in errors.items() if tried.program.top.variables[n].element.text == "f64"}
    if not by or not errors:
        pytest.skip("it has no gradient in float64")
    return tried, errors, by


@pytest.mark.parametrize(("type", "number"), ALL)
def test_gradients(type: str, number: int) -> None:
    tried, errors, by = prepared(type, number)
    found = gradients(tried, errors, by, "numpy")
    module = tried.lowered(list(errors)).module

    def total() -> float:
        return sum(
            float((r * e).sum())
            for r, e in zip(run(module, *tried.values.values()), errors.values(), strict=True)
        )

    for name, gradient in zip(by, found, strict=True):
        wanted = differences(total, tried, name)
        got = np.zeros_like(wanted) if gradient is None else gradient
        assert noted(type, 1, "numpy", got, wanted) <= 1e-6, name
    same_elsewhere(tried, errors, by, found, order=1)


def same_elsewhere(
    tried: Tried, errors: Mapping[str, Array], by: Sequence[str], found: Sequence[Array | None], order: int
) -> None:
    """Compiled programs give the gradients that NumPy gave."""
    for target in ("cpu", "cuda-sim"):
        for a, b in zip(found, gradients(tried, errors, by, target, order), strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                noted(tried.entry.type, order, target, b, a)
                assert np.allclose(a, b, rtol=1e-9, atol=1e-11), target


@pytest.mark.parametrize(("type", "number"), ALL)
def test_second_gradients(type: str, number: int) -> None:
    tried, errors, by = prepared(type, number)
    found = gradients(tried, errors, by, "numpy", order=2)
    same_elsewhere(tried, errors, by, found, order=2)

    def total() -> float:
        first = gradients(tried, errors, by, "numpy")
        return sum(
            float((g * np.cos(np.arange(g.size)).reshape(g.shape)).sum()) for g in first if g is not None
        )

    if sum(tried.values[n].size for n in by) > 120:
        pytest.skip("too many elements for second differences")
    for name, gradient in zip(by, found, strict=True):
        wanted = differences(total, tried, name)
        got = np.zeros_like(wanted) if gradient is None else gradient
        assert noted(type, 2, "numpy", got, wanted) <= 1e-5, name
