# SPDX-License-Identifier: Apache-2.0
"""Programs for 64-bit Arm, run by an emulator, against the reference."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from comparing import Array, assert_close, assert_same_bits, largest_number
from emulated import emulated, missing
from generators import arguments, modules
from hypothesis import given
from test_kernels import PROGRAMS, program, values

from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}")


def results(of: Module, arrays: Sequence[Array], threads: int = 2) -> list[Array]:
    folder = Path(tempfile.mkdtemp(prefix="ngmlir-aarch64-"))
    try:
        return emulated(of, arrays, folder, threads)
    finally:
        shutil.rmtree(folder)


@given(of=modules(exact=True))
def test_random_program_to_the_bit(of: Module) -> None:
    arrays = arguments(of)
    assert_same_bits(results(of, arrays), run(of, *arrays))


@given(of=modules(exact=True, large=True))
def test_large_random_program_to_the_bit(of: Module) -> None:
    arrays = arguments(of)
    assert_same_bits(results(of, arrays), run(of, *arrays))


@given(of=modules())
def test_random_program(of: Module) -> None:
    arrays = arguments(of)
    assert_close(results(of, arrays), run(of, *arrays), largest_number(of, arrays))


@pytest.mark.parametrize("line", PROGRAMS.strip().splitlines())
def test_kernels_give_the_reference(line: str) -> None:
    module = from_text(program(line)[0])
    main = module.lookup("main")
    assert main is not None
    random = np.random.default_rng(7)
    arrays = [values(a.type, random) for a in main.block.args]
    total = sum(float(np.abs(a.astype(np.float64)).sum()) for a in arrays)
    assert_close(results(module, arrays), run(module, *arrays), total)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    lines = (
        "ng.softmax %a axes [1] | tensor<300x1000xf32> | tensor<300x1000xf32>",
        "ng.dot %a, %b contract [1] x [0] | tensor<200x300xf32> , tensor<300x500xf32> | tensor<200x500xf32>",
    )
    for line in lines:
        module = from_text(program(line)[0])
        main = module.lookup("main")
        assert main is not None
        arrays = [values(a.type, np.random.default_rng(1)) for a in main.block.args]
        found = [results(module, arrays, threads) for threads in (1, 2, 5)]
        assert_same_bits(found[1], found[0])
        assert_same_bits(found[2], found[0])
