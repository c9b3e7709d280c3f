# SPDX-License-Identifier: Apache-2.0
"""Text is faithful: whatever module is printed reads back as the same module, and means the same."""

from __future__ import annotations

import numpy as np
from generators import arguments, modules
from hypothesis import HealthCheck, given, settings

from ngmlir.ir.core import Module, Value
from ngmlir.ir.types import f32, f64, i1, i32
from ngmlir.ir.verifier import verify
from ngmlir.op_graph.lift import lift
from ngmlir.op_graph.raising import raise_
from ngmlir.ops.decompositions import DECOMPOSITIONS
from ngmlir.ops.interpreter import ArrayVerbs, evaluate, run
from ngmlir.ops.words import from_text, to_text

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@SETTINGS
@given(modules())
def test_text_is_faithful(module: Module) -> None:
    assert verify(module) == ()
    text = to_text(module)
    assert to_text(from_text(text)) == text
    assert to_text(from_text(to_text(module, generic=True))) == text
    located = to_text(from_text(text), locations=True)
    assert to_text(from_text(located, file="other"), locations=True) == located


@settings(SETTINGS, max_examples=60)
@given(modules())
def test_a_graph_is_faithful(module: Module) -> None:
    """What is raised to a graph is lifted to the same text, dead code and ties in any place included."""
    assert str(lift(raise_(module))) == to_text(module)


@SETTINGS
@given(modules())
def test_text_keeps_the_meaning(module: Module) -> None:
    arrays = arguments(module)
    for one, other in zip(run(module, *arrays), run(from_text(to_text(module)), *arrays), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


@SETTINGS
@given(modules(control=False, elements=(f32, f64, i32, i1)))
def test_decompositions_stay_close(module: Module) -> None:
    """Op by op, each composite one by its parts."""
    main = module.lookup("main")
    assert main is not None
    block = main.regions[0].block
    arrays = arguments(module)
    values: dict[Value, np.ndarray] = dict(zip(block.args, arrays, strict=True))
    verbs = ArrayVerbs()
    for op in block.ops[:-1]:
        operands = [values[o] for o in op.operands]
        parts = DECOMPOSITIONS[op.name](verbs, op, operands) if op.name in DECOMPOSITIONS else None
        values[op.result] = (parts if parts is not None else evaluate(op, operands))[0]
    for operand, wanted in zip(block.ops[-1].operands, run(module, *arrays), strict=True):
        assert np.allclose(values[operand], wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
