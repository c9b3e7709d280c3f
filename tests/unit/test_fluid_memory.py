# SPDX-License-Identifier: Apache-2.0
"""What programs are told to take, against what is counted by hand and what a run takes; blocks as drawings."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from peak_memory import network

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid.memory import memory_use
from ngmlir.ir.literals import dtype_of
from ngmlir.programs.liveness import liveness
from ngmlir.support.diagnostics import UserError


def _chain(width: int, *, train: bool = False) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        hidden = fluid.layers.data("x", [width])
        for _ in range(4):
            hidden = fluid.layers.fc(hidden, width, act="tanh")
        loss = fluid.layers.mean(hidden)
        if train:
            fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, loss


def test_state_and_feeds_are_counted() -> None:
    main, _, _ = _chain(16, train=True)
    use = memory_use(main, 10)
    # Four layers of weights and biases, and the learning rate.
    assert use.state == 4 * (4 * (16 * 16 + 16) + 1)
    assert use.feeds == 4 * 10 * 16


def test_layers_of_a_chain_share_memory() -> None:
    rows, width = 4096, 64
    use = memory_use(_chain(width)[0], rows)
    layer = 4 * rows * width
    # One layer is read while the next is written; the others lie where these lay.
    assert 2 * layer <= use.planned <= 2.5 * layer
    assert use.separate >= 4 * layer
    # Gradients need the results of all layers.
    assert memory_use(_chain(width, train=True)[0], rows).planned >= 4 * layer


def _pool(program: fluid.Program, batch: int) -> int:
    """What temporaries take where a variable takes the memory of one of equal shape and type that has ended, and of no other."""
    top = program.view.top
    sizes: Counter[tuple[int, ...]] = Counter()
    free: Counter[tuple[int, ...]] = Counter()
    for live in liveness(top):
        kinds = {}
        for name in live.before | live.after | set(live.operator.writes):
            variable = top.visible(name)
            if not variable.persistable and not variable.flag("data"):
                item = dtype_of(variable.element).itemsize
                kinds[name] = (*[batch if n < 0 else n for n in variable.shape], item)
        for name in kinds.keys() - live.before:
            if free[kinds[name]]:
                free[kinds[name]] -= 1
            else:
                sizes[kinds[name]] += 1
        free.update(kinds[name] for name in kinds.keys() & live.ended)
    return sum(math.prod(kind) * count for kind, count in sizes.items())


@pytest.mark.parametrize("name", ["mlp-training", "conv", "conv-training"])
def test_plans_take_no_more_than_a_pool_of_equal_shapes(name: str) -> None:
    # The pool has none of the memory that products reorder weights in, which a plan has.
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = network(name)
        program = loss.block.program
    if not name.endswith("training"):
        program = program.clone(for_test=True)
    assert memory_use(program, 256).planned <= _pool(program, 256)


def test_usage_has_a_unit() -> None:
    main = _chain(64, train=True)[0]
    low, high, unit = fluid.contrib.memory_usage(main, 4096)
    assert unit == "MB" and 4 < low <= high < 40
    assert fluid.contrib.memory_usage(main, 1)[2] == "KB"
    with pytest.raises(UserError, match="one row or more"):
        fluid.contrib.memory_usage(main, 0)


def test_optimizing_memory_changes_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    main, startup, loss = _chain(8)
    executor, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
        x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
        (before,) = executor.run(main, feed={"x": x}, fetch_list=[loss])
        fluid.memory_optimize(main, print_log=True)
        fluid.release_memory(main, skip_opt_set={loss.name})
        (after,) = executor.run(main, feed={"x": x}, fetch_list=[loss])
    assert np.array_equal(before, after)
    assert "memory of temporaries" in capsys.readouterr().err
    with pytest.raises(UserError, match="no variable 'losss' to skip"):
        fluid.memory_optimize(main, {"losss"})
    with pytest.raises(UserError, match="level is 0 or 1"):
        fluid.memory_optimize(main, level=2)


def test_a_block_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main, _, loss = _chain(8)
    file = tmp_path / "block.dot"
    fluid.debugger.draw_block_graphviz(main.global_block(), [loss.name], str(file))
    text = file.read_text(encoding="utf-8")
    assert text.count("shape = box") == len(main.global_block().ops) and 'color = "red"' in text
    fluid.debugger.pprint_program_codes(main.desc)
    assert capsys.readouterr().out.strip() == str(main).strip()
