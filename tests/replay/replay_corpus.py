# SPDX-License-Identifier: Apache-2.0
"""The programs that `./run replay` lowers: texts of modules, before passes.

They come from files (`lit_tests`, `examples`, `tests/corpus`), from the generators and tables of tests, from the cases of `bench/ops.py`,
and from what tests and examples compile. A program is kept as text, so that two checkouts get the same one.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/laws", "tests/unit", "tests/device", "bench")]

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from ngmlir import compiler  # noqa: E402
from ngmlir.ir.core import Module  # noqa: E402
from ngmlir.ops.words import from_text, to_text  # noqa: E402
from ngmlir.support.diagnostics import NgmlirError  # noqa: E402

Named = Iterator[tuple[str, str]]

#: The elements of operands in the op suite.
ELEMENTS = 1 << 16
#: The seeds of random programs, and those of large ones.
SEEDS, LARGE_SEEDS = 60, 12
#: Characters of a program; what is longer holds constants for the most part.
MOST = 1 << 20
#: Tests that compile many programs without executing anything before.
TESTS = """test_checked_programs test_kernels test_dot_kernels test_move_kernels test_reduction_kernels test_sorting_kernels
test_wide_products test_windows test_chains test_code_size test_copies test_accesses test_aligned_sides test_masked_windows
test_matrix_products test_moves_in_line test_moves_in_tiles test_narrow_moves test_joined_pads test_codegen_cpu_scratch
test_codegen_cpu_tiles test_codegen_cpu_programs""".split()
#: How often each of these tests is run, at most.
ROWS = 6
#: The examples, and the arguments with which they end soon.
EXAMPLES: dict[str, dict[str, Any]] = {
    "digits_mlp": {"epochs": 1},
    "digits_convnet": {"epochs": 1},
    "digits_autoencoder": {"epochs": 1},
    "digits_gan": {"iterations": 1},
    "strings_ctc": {"iterations": 1},
    "characters_lstm": {"iterations": 1, "length": 60_000},
    "programs/fit_a_line": {"passes": 1},
    "programs/recognize_digits": {"passes": 1},
}


def corpus() -> dict[str, str]:
    """Program by name, each text once."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for source in (
            files,
            examples_of_ops,
            op_suite,
            hard,
            of_open_lengths,
            random,
            operators,
            networks,
            tests,
            examples,
        ):
            for name, text in source():
                if len(text) <= MOST and text not in seen:
                    seen.add(text)
                    found[f"{source.__name__}/{name}"] = text
    return found


def files() -> Named:
    """Those that are valid; lit tests have several programs in a file, and some with errors."""
    paths = [
        path
        for folder in ("lit_tests", "examples", "tests/corpus")
        for path in sorted((ROOT / folder).rglob("*.ngir"))
        if "Output" not in path.parts
    ]
    for path in paths:
        for i, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("// -----")):
            with contextlib.suppress(NgmlirError, RecursionError):
                from_text(text)
                yield f"{path.relative_to(ROOT)}:{i}", text


def examples_of_ops() -> Named:
    from examples import OPS, wrapped

    for name, op in OPS.items():
        with contextlib.suppress(NgmlirError):
            yield name, to_text(from_text(wrapped(op)))


def op_suite() -> Named:
    from gate_cases import products
    from op_cases import cases
    from window_cases import windows

    for case in (*cases(ELEMENTS), *products(), *windows()):
        yield f"{case.family}/{case.name}", case.text


def hard() -> Named:
    import test_memory_plan
    from hard import HARD, LARGE, WITH_LOOPS

    for name, text in {**HARD, **WITH_LOOPS, **LARGE}.items():
        yield name, f"func.func @main{text}"
    for name, text in test_memory_plan.HARD.items():
        yield f"memory/{name}", to_text(test_memory_plan.program(text))


def of_open_lengths() -> Named:
    from open_programs import OPEN

    yield from OPEN.items()


def random() -> Named:
    from generators import drawn

    for seed in range(SEEDS):
        yield str(seed), to_text(drawn(seed, exact=seed % 2 == 0, control=seed % 4 == 0))
    for seed in range(LARGE_SEEDS):
        yield f"large {seed}", to_text(drawn(seed, exact=seed % 2 == 0, control=False, large=True))


def operators() -> Named:
    """Operators of programs, by their cases."""
    from operator_cases import CASES
    from test_operators import Tried

    for type, given in CASES.items():
        for number in range(len(given)):
            tried = Tried(type, number)
            names = [n for outputs in tried.outputs.values() for n in outputs]
            with contextlib.suppress(Exception):
                yield f"{type} {number}", to_text(tried.lowered(names).module)


def networks() -> Named:
    from compile import PROGRAMS
    from growth import training_step

    for name, build in PROGRAMS.items():
        yield name, to_text(build())
    yield "step of wide layers", to_text(training_step(3, width=96, batch=64))


class Recorded(Exception):
    """All that was wanted of a test has been done."""


@contextlib.contextmanager
def recording(found: list[str], going_on: bool) -> Iterator[None]:
    """Notes each program that is compiled; then raises Recorded, unless `going_on`."""
    compile_artifact = compiler.compile_artifact

    def record(module: Module, *given: Any, **options: Any) -> Any:
        found.append(to_text(module))
        if not going_on:
            raise Recorded
        return compile_artifact(module, *given, **options)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(compiler, "compile_artifact", record)
        for name, module in list(sys.modules.items()):
            if name.startswith("ngmlir.") and getattr(module, "compile_artifact", None) is compile_artifact:
                patch.setattr(module, "compile_artifact", record)
        yield


def tests() -> Named:
    """What tests without fixtures compile first."""
    for module in TESTS:
        tests = importlib.import_module(module)
        for name, function in list(vars(tests).items()):
            if not (name.startswith("test_") and callable(function)):
                continue
            found: list[str] = []
            with recording(found, going_on=False):
                for chosen in spread(list(parameters(function)), ROWS):
                    with contextlib.suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
                        function(**chosen)
            yield from ((f"{module}/{name}/{i}", text) for i, text in enumerate(found))


def spread(rows: list[Any], most: int) -> list[Any]:
    """At most so many of them, at equal distances."""
    return rows if len(rows) <= most else [rows[i * len(rows) // most] for i in range(most)]


def parameters(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What a test is called with; nothing where it wants fixtures."""
    marks = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    for row in product(*(values for _, values in marks)):
        chosen: dict[str, Any] = {}
        for (names, _), value in zip(marks, row, strict=True):
            split = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
            chosen.update(zip(split, value if len(split) > 1 else [value], strict=True))
        if set(inspect.signature(function).parameters) == set(chosen):
            yield chosen


def examples() -> Named:
    """What the examples compile, run for a moment."""
    for name, options in EXAMPLES.items():
        path = ROOT / "examples" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        example = importlib.util.module_from_spec(spec)
        found: list[str] = []
        with recording(found, going_on=True), contextlib.suppress(Exception):
            spec.loader.exec_module(example)
            example.main(**options)
        yield from ((f"{name}/{i}", text) for i, text in enumerate(found))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(corpus()), encoding="utf-8")
