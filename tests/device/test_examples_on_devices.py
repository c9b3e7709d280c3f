# SPDX-License-Identifier: Apache-2.0
"""Every kernel in examples/ runs on every target that is here, with the results of the reference. The programs in Python
beside them are run by tests/models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import element_type, shape_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.runtime import cuda

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
PROGRAMS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())
TARGETS = [
    "cpu",
    "cuda-sim",
    pytest.param("cuda", marks=pytest.mark.skipif(not cuda.available(), reason="no NVIDIA GPU is here")),
]


def load(name: str) -> tuple[Module, list[np.ndarray]]:
    """An example, and numbers to call it with."""
    path = FOLDER / name
    module = from_text(path.read_text(encoding="utf-8"), file=str(path))
    main = module.lookup("main")
    assert main is not None
    random = np.random.default_rng(3)
    types = [argument.type for argument in main.regions[0].block.args]
    return module, [random.normal(size=shape_of(t)).astype(dtype_of(element_type(t))) for t in types]


def test_there_are_kernels_and_nothing_else() -> None:
    """What is no `.ngir` needs a test that runs it too."""
    assert PROGRAMS and all(name.endswith(".ngir") for name in PROGRAMS)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_example_runs(name: str, target: str) -> None:
    module, arrays = load(name)
    wanted = run(module, *arrays)
    found = compile_module(module, target)(*arrays)
    again = compile_module(from_text(to_text(module)), target)(*arrays)
    assert len(found) == len(wanted)
    for ours, same, theirs in zip(found, again, wanted, strict=True):
        assert ours.dtype == theirs.dtype and np.array_equal(ours, same)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
