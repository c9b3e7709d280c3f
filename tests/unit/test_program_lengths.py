# SPDX-License-Identifier: Apache-2.0
"""A saved program that is called with batches of any lengths is compiled once for all of them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_fluid_lengths import CASES, Case, Feed, lengths, words

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir import compiler
from ngmlir.frontends.fluid import layers
from ngmlir.transformers import program_models

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled for saved programs: programs for lengths `alone`, or for `all`."""
    seen: list[str] = []
    every, alone = compiler.compile_open, program_models.compiled

    def for_all(*given: Any, **named: Any) -> Any:
        seen.append("all")
        return every(*given, **named)

    def for_some(*given: Any, **named: Any) -> Any:
        seen.append("alone")
        return alone(*given, **named)

    monkeypatch.setattr(compiler, "compile_open", for_all)
    monkeypatch.setattr(program_models, "compiled", for_some)
    return seen


class Saved:
    """What a case computes, as the executor runs it, and as the program that it was saved to."""

    def __init__(self, case: Case, folder: Path):
        self.main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 7
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.fetches: Sequence[fluid.Variable] = case.build()
        self.scope, self.executor = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        with fluid.scope_guard(self.scope):
            feeds = [v.name for v in self.main.global_block().vars.values() if v.is_data]
            fluid.io.save_inference_model(str(folder), feeds, self.fetches, self.executor, self.main)
            self.test, self.feeds, self.targets = fluid.io.load_inference_model(str(folder), self.executor)
        self.model = ng.load(folder)

    def arrays(self, feed: Feed) -> Arrays:
        """What is fed, with offsets as inputs of their own."""
        made: Arrays = {}
        for name, value in feed.items():
            made[name] = np.array(value)
            levels = value.lod() if isinstance(value, fluid.LoDTensor) else []
            made.update({f"{name}@LOD{i}": np.array(level, np.int32) for i, level in enumerate(levels)})
        return made

    def expected(self, feed: Feed) -> Arrays:
        found = self.executor.run(self.test, feed, self.targets, scope=self.scope, return_numpy=False)
        return self.arrays({v.name: each for v, each in zip(self.targets, found, strict=True)})


@pytest.mark.parametrize("name", ["lstm", "attention", "dynamic rnn", "random field", "rows", "beam search"])
def test_no_batch_after_the_first_compiles(name: str, compilations: list[str], tmp_path: Path) -> None:
    case, draw = CASES[name], np.random.default_rng(3)
    saved = Saved(case, tmp_path)
    run = ng.compile(saved.model, target="cpu")
    compilations.clear()
    batches = [case.batch(draw) for _ in range(40)]
    found = [run(**saved.arrays(feed)) for feed in batches]
    # A length that depends on values needs one program more.
    assert compilations == ["alone"] * (name == "rows") + ["all"] * case.programs
    for feed, results in zip(batches[:8], found, strict=False):
        for key, wanted in saved.expected(feed).items():
            assert np.array_equal(results[key], wanted), key


def test_results_end_where_their_offsets_say(tmp_path: Path) -> None:
    """How many rows a search finds is known from values only."""
    case, draw = CASES["beam search"], np.random.default_rng(4)
    saved = Saved(case, tmp_path)
    run = ng.compile(saved.model, target="cpu")
    for _ in range(4):
        results = run(**saved.arrays(case.batch(draw)))
        for target in saved.targets:
            outer, inner = (results[f"{target.name}@LOD{i}"] for i in (0, 1))
            assert outer[-1] == len(inner) - 1 and inner[-1] == len(results[target.name])


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 2, 4], "begin with 1"),
        ([0, 3, 2, 4], "fall"),
        ([0, 2, 3], "end with 3, and there are 4 rows"),
        ([], ""),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_wrong_offsets_are_refused(target: str, offsets: list[int], message: str, tmp_path: Path) -> None:
    def build() -> Sequence[fluid.Variable]:
        x = layers.data("x", [2], lod_level=1)
        count = layers.create_global_var([1], 0.0, "float32", persistable=True)
        layers.increment(count, 1.0, in_place=True)
        return [layers.sequence_pool(x, "sum"), count]

    run = ng.compile(Saved(Case(build, lambda draw: {}, 1), tmp_path).model, target=target)
    rows = np.ones((4, 2), np.float32)
    for _ in range(2):
        with pytest.raises(ng.UserError, match=f"offsets of level 0 of 'x'.*{message}") as error:
            run(rows, np.array(offsets, np.int32))
        assert error.value.diagnostics[0].location is not None and error.value.diagnostics[0].hint
    sums, count, *_ = run(rows, np.array([0, 3, 3, 4], np.int32))
    assert sums.tolist() == [[3, 3], [0, 0], [1, 1]] and count.tolist() == [1], (
        "what was refused changed state"
    )


def test_batches_of_other_lengths_leave_no_memory_behind(tmp_path: Path) -> None:
    saved, draw = Saved(CASES["lstm"], tmp_path), np.random.default_rng(8)
    run = ng.compile(saved.model, target="cpu")

    def many(count: int) -> int:
        for _ in range(count):
            each = lengths(draw)
            run(**saved.arrays({"text": words(draw, each), "label": draw.integers(0, 2, (len(each), 1))}))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    many(150)
    tracemalloc.start()
    before = many(1)
    after = many(300)
    tracemalloc.stop()
    # What is kept of the lengths used last takes the place of what was there before measuring began.
    assert after - before < 2_000_000
