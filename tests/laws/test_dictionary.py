# SPDX-License-Identifier: Apache-2.0
"""Every op of the dialects reads, prints and means something."""

from __future__ import annotations

import re

import numpy as np
import pytest
from examples import OPS, wrapped

from ngmlir.decl.generate import generated
from ngmlir.ir.core import Op
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import FunctionType, OpaqueType, Type, shape_of
from ngmlir.ops.decompositions import DECOMPOSITIONS
from ngmlir.ops.interpreter import run
from ngmlir.ops.meaning import EFFECTS, MEANING
from ngmlir.ops.words import from_text, to_text


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _argument(type: Type) -> np.ndarray:
    """Small numbers that are good indices too."""
    count = int(np.prod(shape_of(type)))
    return (np.arange(count) % 2).reshape(shape_of(type)).astype(dtype_of(type))


@pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
def test_example_prints_as_it_is_written(op: type[Op]) -> None:
    module = from_text(wrapped(op))
    assert op.definition is not None
    assert any(type(inner) is op for inner in module.walk())
    assert _squeezed(op.definition.example) in _squeezed(to_text(module))


@pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
def test_example_survives_the_generic_form(op: type[Op]) -> None:
    module = from_text(wrapped(op))
    assert to_text(from_text(to_text(module, generic=True))) == to_text(module)


@pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
def test_example_runs(op: type[Op]) -> None:
    module = from_text(wrapped(op))
    main = module.lookup("main")
    if main is None:
        pytest.skip("a function or kernel is run by its callers")
    if op.name == "func.call":
        pytest.skip("the example calls a function without a body")
    function = main.attributes["function_type"].type  # type: ignore[attr-defined]
    assert isinstance(function, FunctionType)
    if any(isinstance(t, OpaqueType) for t in (*function.inputs, *function.results)):
        pytest.skip("a token has no value outside")
    arguments = [_argument(t) for t in function.inputs]
    results = run(module, *arguments)
    assert [r.dtype for r in results] == [dtype_of(t) for t in function.results]


def test_every_op_has_a_meaning() -> None:
    for name, op in OPS.items():
        structural = op.definition is not None and op.definition.traits & {"terminator", "function"}
        assert structural or name in MEANING or name in EFFECTS, f"{name} has no reference implementation"


def test_every_meaning_is_of_an_op() -> None:
    assert {*MEANING, *EFFECTS, *DECOMPOSITIONS} <= set(OPS)
    assert not set(MEANING) & set(EFFECTS)


def test_generated_files_are_not_stale() -> None:
    for path, text in generated().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python -m ngmlir.decl.generate"
