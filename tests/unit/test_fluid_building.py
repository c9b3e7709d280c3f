# SPDX-License-Identifier: Apache-2.0
"""What it takes to build, copy, prune, print and read programs grows as their operators, not faster."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import ngmlir.frontends.fluid as fluid


def _calls(function: Callable[[], Any]) -> int:
    """How many functions are called. Unlike time it is the same on every machine."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # A collection would call what waits for the end of older programs.
    gc.collect()
    gc.disable()
    sys.setprofile(called)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def _long(length: int) -> tuple[fluid.Program, fluid.Variable, int]:
    """A program of several kinds of layers, its result, and the number of calls that it took."""
    program = fluid.Program()
    last: list[fluid.Variable] = []

    def build() -> None:
        x = fluid.layers.data("x", [4, 4, 4], stop_gradient=False)
        for _ in range(length):
            y = fluid.layers.scale(x, 1.5)
            y = fluid.layers.batch_norm(fluid.layers.conv2d(y, 4, 3, padding=1), act="relu")
            x = fluid.layers.elementwise_add(fluid.layers.dropout(y, 0.5), x)
        last.append(fluid.layers.mean(x))

    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        calls = _calls(build)
    return program, last[0], calls


def _steps(length: int) -> dict[str, float]:
    """Calls for each operator of the program."""
    program, loss, built = _long(length)
    count = len(program.global_block().ops)
    text, data = str(program), program.serialize_to_string()
    found = {
        "clone": _calls(lambda: program.clone(for_test=True)),
        "prune": _calls(lambda: program.prune([loss])),
        "print": _calls(lambda: str(program.clone())),
        "parse": _calls(lambda: fluid.Program.parse_from_string(text)),
        "parse bytes": _calls(lambda: fluid.Program.parse_from_string(data)),
        "backward": _calls(lambda: fluid.append_backward(loss)),
        "clone after backward": _calls(lambda: program.clone(for_test=True)),
        "build": built,
    }
    return {name: calls / count for name, calls in found.items()}


def test_no_step_costs_more_for_an_operator_of_a_longer_program() -> None:
    _steps(2)  # fills caches
    short, long = _steps(20), _steps(100)
    assert {name: long[name] for name in short if long[name] > 1.1 * short[name]} == {}


def test_an_operator_takes_few_calls() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.layers.data("x", [64])
        for _ in range(2):
            calls = _calls(lambda: fluid.layers.scale(x, 1.5))
    assert calls < 400


@pytest.mark.parametrize("length", [10, 1000])
def test_an_edit_of_a_long_block_moves_no_list(length: int) -> None:
    # The list of the block is put together when the module is asked for, once for all edits.
    program, _, _ = _long(length // 10)
    view = program.view
    before = len(view.module.block.ops)
    program.global_block().create_var(name="more", shape=[1], dtype="float32")
    program.global_block().append_op(type="fill_constant", outputs={"Out": "more"}, attrs={"shape": [1]})
    names = [op.symbol for op in view.module.block.ops]
    assert len(names) == before + 2 and names[len(view.top.variables) - 1] == "more"
    assert view.module.block.ops[-1] is view.top.operators[-1].op
