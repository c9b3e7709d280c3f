# SPDX-License-Identifier: Apache-2.0
"""Each operator computed by a kernel of another place is what it is by its own function."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from test_operators import ALL, Tried

from ngmlir.ir.attributes import StringAttr
from ngmlir.ops.interpreter import run
from ngmlir.programs.catalogue import REGISTRY
from ngmlir.programs.kernels import KERNELS, Kernel
from ngmlir.programs.select_kernels import select_kernels


@contextmanager
def a_kernel(type: str, **what: Any) -> Iterator[None]:
    """The operator's own function as a kernel that has to be asked for."""
    build = REGISTRY.get(type).build
    entry = REGISTRY.get(type).entry
    slots = tuple([s.name for s in (*entry.inputs[:1], *entry.outputs[:1])])
    made = Kernel(type, build, library="law", slots=slots, **what)
    KERNELS._kernels.setdefault(type, {})[made.label] = made
    try:
        yield
    finally:
        del KERNELS._kernels[type][made.label]


def both(type: str, number: int, **what: Any) -> tuple[list[str], Any, Any]:
    """The results by the operator's own function and by a kernel, and the types of the operators around that."""
    build = REGISTRY.get(type).build
    if build is None or "context" in inspect.signature(build).parameters or type in ("layout", "copy"):
        pytest.skip("no kernel computes it")
    tried = Tried(type, number)
    names = [n for each in tried.outputs.values() for n in each]
    own = tried.results("numpy", names)
    with a_kernel(type, **what):
        asking = tried.program.copy()
        (operator,) = asking.top.operators
        operator.set_attribute("library", StringAttr("law"))
        chosen = select_kernels(asking, "cpu")
        lowered = tried.lowered(names, chosen)
        given = run(lowered.module, *tried.values.values())
    return [each.type for each in chosen.top.operators], own, given


@pytest.mark.parametrize(("type", "number"), ALL)
def test_a_kernel_of_another_place(type: str, number: int) -> None:
    around, own, given = both(type, number, place="numpy")
    if around != [type]:  # of no inputs
        assert around.count(type) == 1 and {*around} == {"copy", type}
    for a, b in zip(own, given, strict=True):
        np.testing.assert_array_equal(a, b)
