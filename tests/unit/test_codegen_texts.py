# SPDX-License-Identifier: Apache-2.0
"""The kernels of `lit_tests/codegen`, whose code is compared as text there: here they are run, beside the interpreter, and every
GPU has code for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from comparing import assert_close
from growing import argument

from ngmlir.codegen.nvptx import emit
from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ir.types import IntegerType, MemRefType, TensorType, shape_of
from ngmlir.llvm.machine import assembly, nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import NgmlirError
from ngmlir.support.lengths import is_open

FOLDER = Path(__file__).parents[2] / "lit_tests" / "codegen"
#: Elements of a buffer that a test can run over.
MOST = 1 << 16
#: Kernels that write a part of their results: the others hold what was there before.
PARTLY = (
    "tile.scatter",
    "@outside",
    "@asked",
    "@apart ins(%x: memref<8xf32>)",
    "@once ins(%x: memref<32xf32>)",
    "@ends ins(%x: memref<4xf32>",
    "@half ins(%x: memref<4xf32>",
)


def programs(folder: str) -> Iterator[tuple[str, str]]:
    """File and number, and text; those that come as planned modules and have no errors."""
    for path in sorted((FOLDER / folder).glob("*.ngir")):
        if path.stem != "refused":
            for number, text in enumerate(path.read_text(encoding="utf-8").split("// -----")):
                if "%arena" in text:
                    yield f"{path.stem}-{number}", text


PROGRAMS = dict((f"{folder}/{name}", text) for folder in ("cpu", "nvptx") for name, text in programs(folder))


def arguments(of: Module) -> list[np.ndarray]:
    """Numbers for the arguments of @main: small ones, so that indices are inside."""
    main = of.lookup("main")
    assert main is not None
    found: list[np.ndarray] = []
    for number, value in enumerate(main.block.args[: main.attributes["ng.arguments"].value]):
        assert isinstance(value.type, MemRefType)
        element = value.type.element
        made = argument(np.random.default_rng(number), TensorType(value.type.shape, element))
        if isinstance(element, IntegerType) and element.width > 1:
            made = np.abs(made) % 8
        found.append(made)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_give_what_the_interpreter_gives(name: str) -> None:
    target = {"cpu": "cpu", "nvptx": "cuda-sim"}[name.partition("/")[0]]
    module = from_text(PROGRAMS[name])
    main = module.lookup("main")
    assert main is not None
    if any(is_open(shape_of(v.type)) for v in main.block.args):
        pytest.skip("its lengths are open")
    if any(v.type.size > MOST for v in main.block.args) or any(part in PROGRAMS[name] for part in PARTLY):
        pytest.skip("its buffers are large, or it leaves a part of them as it was")
    arrays = arguments(module)
    got = [np.asarray(a) for a in compile_module(module, target)(*arrays)]
    assert_close(got, run(module, *arrays), what=name)


@pytest.mark.parametrize("sm", ["sm_50", "sm_75", "sm_80", "sm_121"])
def test_every_gpu_has_code_for_them(sm: str) -> None:
    target = nvptx_target(sm)
    for name, text in programs("nvptx"):
        try:
            assert assembly(emit(from_text(text), target).llvm, target), name
        except NgmlirError as error:
            assert "bytes of shared memory" in str(error), name
