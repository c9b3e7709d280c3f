# SPDX-License-Identifier: Apache-2.0
"""Every arm of every pass is taken: by random programs of fixed seeds, by the hard programs, or by a lit test.

`./run pytest -s tests/laws/test_arms.py` prints the counts. A new arm that nothing takes is named here: a recipe in
`recipes.py` or `patterns.py`, a program in `HARD`, or lines in `lit_tests/passes` should take it; or nothing needs it.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_chains
import test_checked_programs
import test_code_size
import test_digit_sums
import test_dot_kernels
import test_kernels
import test_memory_plan
import test_move_kernels
import test_narrow_weights
import test_pass_errors
import test_reduction_kernels
import test_rematerialized_programs
import test_schedule_errors
import test_sorting_kernels
import test_stages
import test_wide_products
import test_windows
from arms import Watch
from fuzz import CORPUS
from generators import drawn
from hard import HARD, LARGE, WITH_LOOPS
from keeping import CPU, GPU, LATE
from open_programs import OPEN

import ngmlir
from ngmlir.compiler import pipeline_for
from ngmlir.ir.core import Module
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES
from ngmlir.support.diagnostics import NgmlirError
from ngmlir.support.lengths import Length, guarding
from ngmlir.support.target import Target
from ngmlir.tools import ngopt

ROOT = Path(__file__).parents[2]
SOURCE = Path(ngmlir.__file__).parent
FILES = sorted([*SOURCE.glob("passes/**/*.py"), *SOURCE.glob("rewrite/**/*.py")])
#: Lengths that are usually large.
FAR = {name: Length.named(name, 5003 + at, 5003 + at) for at, name in enumerate("NMBK")}
#: Programs drawn; the last ones reach nearly nothing new.
SEEDS = 24
#: Rows of parameters of a test in a row that take nothing new, after which others would hardly.
IDLE = 32


def lowered(of: Module, target: Target, checked: bool = False) -> None:
    """Down to the target, verified after each pass as `ngopt` does."""
    try:
        pipeline_for(target, checked=checked).from_stage_of(of).run(of, target, verify=True)
    except NgmlirError:
        pass  # other laws say which errors there may be


def random_programs(watch: Watch) -> None:
    for seed in range(SEEDS):
        large = seed % 10 == 9
        of = drawn(seed, exact=seed % 2 == 0, large=large)
        straight = drawn(seed, exact=seed % 2 == 0, control=False, large=large)
        with watch:
            lowered(of, CPU)
            lowered(straight, GPU)
            for name in PASSES:
                if name not in LATE:
                    PASSES[name](of, CPU)


def hard_programs(watch: Watch) -> None:
    texts = [f"func.func @main{text}" for text in (*HARD.values(), *WITH_LOOPS.values(), *LARGE.values())]
    texts += [to_text(test_memory_plan.program(text)) for text in test_memory_plan.HARD.values()]
    files = [*(ROOT / "examples").rglob("*.ngir"), *CORPUS.glob("*.ngir")]
    texts += [path.read_text(encoding="utf-8") for path in files if ", damaged\n" not in path.read_text()]
    with watch:
        for text in texts:
            for target in (CPU, GPU):
                lowered(from_text(text), target)
        for text in OPEN.values():
            for lengths in (None, FAR):
                with guarding():
                    lowered(from_text(text, lengths=lengths), CPU)


def unit_tests(watch: Watch) -> None:
    """What is refused; and the programs of tests that run kernels of many sizes, here only lowered, until no arm is left."""

    for tests in (
        test_stages,
        test_pass_errors,
        test_schedule_errors,
        test_chains,
        test_code_size,
        test_rematerialized_programs,
        test_narrow_weights,
        test_digit_sums,
    ):
        for function in functions_of(tests):
            for chosen in telling(function, watch):
                with watch:
                    function(**chosen)
    for tests in (
        test_checked_programs,
        test_kernels,
        test_dot_kernels,
        test_move_kernels,
        test_reduction_kernels,
        test_sorting_kernels,
        test_wide_products,
        test_windows,
    ):
        with pytest.MonkeyPatch.context() as patch:

            def compile_module(of: Module, target: str = "cpu", checked: bool = False) -> None:
                with watch:
                    lowered(of, CPU if target == "cpu" else GPU, checked)
                raise Lowered

            where = tests.compiler if hasattr(tests, "compiler") else tests
            if hasattr(where, "compile_module"):
                patch.setattr(where, "compile_module", compile_module)
            patch.setattr("ngmlir.transformers.make_transformer", lambda _: LoweringTransformer(watch))
            for function in functions_of(tests):
                for chosen in telling(function, watch):
                    if not missing(watch):
                        return
                    if set(signature(function).parameters) != set(chosen):
                        break  # it wants fixtures
                    try:
                        function(**chosen)
                    except (Lowered, pytest.skip.Exception):
                        pass


class Lowered(Exception):
    """All that was wanted of a program has been done."""


@dataclass
class LoweringTransformer:
    """Stands in for all transformers: lowers what it is to compute."""

    watch: Watch

    def computation(self, results: Any, *parameters: Any) -> None:
        results = results if isinstance(results, list) else [results]
        of = ngmlir.lift(results, list(parameters)).module
        with self.watch:
            for target in (CPU, GPU):
                lowered(of, target)
        raise Lowered


def functions_of(tests: Any) -> list[Any]:
    return [f for name, f in vars(tests).items() if name.startswith("test_") and callable(f)]


def parameters(function: Any) -> Iterator[dict[str, Any]]:
    """What a test is called with."""
    marks = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    for row in product(*(values for _, values in marks)):
        chosen: dict[str, Any] = {}
        for (names, _), value in zip(marks, row, strict=True):
            split = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
            chosen.update(zip(split, value if len(split) > 1 else [value], strict=True))
        yield chosen


def telling(function: Any, watch: Watch) -> Iterator[dict[str, Any]]:
    """The same until several in a row have taken no new arm."""
    idle = 0
    for chosen in parameters(function):
        before = len(watch.taken)
        yield chosen
        idle = 0 if len(watch.taken) > before else idle + 1
        if idle == IDLE:
            return


def lit_tests(watch: Watch) -> None:
    """The lines that run `ngopt`, here in process."""
    for path in sorted((ROOT / "lit_tests").rglob("*")):
        if path.suffix not in (".ngir", ".test") or "Inputs" in path.parts:
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            _, run, command = line.partition("RUN:")
            words = shlex.split(command.split("|")[0]) if run else []
            words = words[1:] if words[:1] == ["not"] else words
            if words[:1] != ["ngopt"] or any("%t" in w or w == "-o" for w in words):
                continue
            words = [w.replace("%s", str(path)).replace("%S", str(path.parent)) for w in words[1:]]
            given = io.StringIO()
            if "<" in words:
                given = io.StringIO(Path(words[words.index("<") + 1]).read_text(encoding="utf-8"))
                words = words[: words.index("<")]
            words = [w for w in words if ">" not in w]
            with watch:
                ngopt.main(words, given, io.StringIO(), io.StringIO())


def missing(watch: Watch) -> list[str]:
    """Arms that nothing took. One that raises Bug is an assertion."""
    return [str(arm) for arm in watch.missing if arm.raises != "Bug"]


def test_every_arm_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # reports of what ngopt could not do
    watch = Watch(FILES, SOURCE)
    count = len(list(watch))
    said: list[str] = []
    with np.errstate(all="ignore"):
        for source in (random_programs, hard_programs, lit_tests, unit_tests):
            before = len(watch.taken)
            source(watch)
            said.append(f"{len(watch.taken) - before} by {source.__name__.replace('_', ' ')}")
    bugs = [arm for arm in watch.missing if arm.raises == "Bug"]
    print(
        f"\n{len(watch.taken)} of {count} branches of passes fired: {', '.join(said)}; {len(bugs)} are assertions"
    )
    assert not missing(watch), "taken by nothing:\n" + "\n".join(missing(watch))
