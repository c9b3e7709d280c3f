# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of programs, and executors that limit memory: less memory, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid.memory import memory_use
from ngmlir.support.diagnostics import UserError


def layered(marked: bool) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    """Fully connected layers with dropout."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden, checkpoints = fluid.layers.data("x", [32]), []
        for i in range(8):
            hidden = fluid.layers.fc(hidden, 32, act="tanh")
            if i % 2:
                hidden = fluid.layers.dropout(hidden, 0.2)
                checkpoints.append(hidden)
        return main, startup, trained(hidden, checkpoints if marked else [])


def convolutions(marked: bool) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    """Residual blocks with batch normalization, whose running statistics are state."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.layers.data("x", [3, 12, 12])
        hidden, checkpoints = fluid.layers.conv2d(hidden, 8, 3, padding=1, bias_attr=False), []
        for _ in range(3):
            inner = fluid.layers.conv2d(hidden, 8, 3, padding=1, bias_attr=False)
            inner = fluid.layers.conv2d(
                fluid.layers.batch_norm(inner, act="relu"), 8, 3, padding=1, bias_attr=False
            )
            hidden = fluid.layers.relu(hidden + fluid.layers.batch_norm(inner))
            checkpoints.append(hidden)
        return main, startup, trained(hidden, checkpoints if marked else [])


def trained(hidden: fluid.Variable, checkpoints: list[fluid.Variable]) -> fluid.Variable:
    label = fluid.layers.data("label", [1], dtype="int64")
    scores = fluid.layers.fc(hidden, 10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(scores, label))
    fluid.optimizer.Adam(0.01).minimize(loss, checkpoints=checkpoints)
    return loss


NETWORKS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "layered": (layered, (16, 32)),
    "convolutions": (convolutions, (4, 3, 12, 12)),
}


def run(name: str, marked: bool = False, limit: int | None = None, **how: Any) -> tuple[list[bytes], int]:
    """Losses of three steps and all state behind them, and the planned bytes of temporaries."""
    build, shape = NETWORKS[name]
    main, startup, loss = build(marked)
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=shape).astype("f"), "label": draw.integers(0, 10, (shape[0], 1))}
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(startup)
        executor = fluid.Executor(fluid.CPUPlace(), memory_limit=limit)
        found = [executor.run(main, feed=feed, fetch_list=[loss], **how)[0] for _ in range(3)]
        held = [scope.find_var(v.name) for v in main.list_vars() if v.persistable]
        found += [np.array(variable.get_tensor()) for variable in held if variable is not None]
    return [np.asarray(array).tobytes() for array in found], memory_use(main, shape[0]).planned


@pytest.mark.parametrize("name", NETWORKS)
def test_less_memory_and_the_same_bits(name: str) -> None:
    wanted, planned = run(name)
    found, less = run(name, marked=True)
    assert found == wanted and less <= planned * 0.6
    assert run(name, limit=planned * 6 // 10)[0] == wanted
    assert run(name, marked=True, limit=planned * 6 // 10)[0] == wanted


def over_steps(
    x: fluid.Variable, count: int, state: int, step: Callable[..., fluid.Variable]
) -> fluid.Variable:
    """The sum of what a recurrent network gives at each of `count` steps, which `step` computes from its row and the one before."""
    steps = fluid.layers.transpose(fluid.layers.reshape(x, [-1, count, 32 // count]), [1, 0, 2])
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(steps)
        before = rnn.memory(shape=[-1, state], batch_ref=row)
        after = step(row, before)
        rnn.update_memory(before, after)
        rnn.step_output(after)
    return fluid.layers.reduce_sum(rnn(), dim=[0])


def stepped(x: fluid.Variable) -> fluid.Variable:
    """A recurrent network over sequences of one length."""

    def step(row: fluid.Variable, before: fluid.Variable) -> fluid.Variable:
        return fluid.layers.fc([row, fluid.layers.fc(before, 32, act="tanh")], 8, act="tanh")

    return fluid.layers.fc(over_steps(x, 4, 8, step), 64, act="tanh")


def looped(x: fluid.Variable) -> fluid.Variable:
    """Layers that a loop goes through again and again."""
    i, count = (fluid.layers.fill_constant([1], "int64", n) for n in (0, 5))
    i.stop_gradient = True
    hidden = fluid.layers.fc(x, 32, act="tanh")
    more = fluid.layers.less_than(i, count)
    with fluid.layers.While(more).block():
        inner = fluid.layers.fc(hidden, 64, act="tanh")
        fluid.layers.assign(fluid.layers.fc(inner, 32, act="tanh"), hidden)
        fluid.layers.increment(i)
        fluid.layers.less_than(i, count, cond=more)
    return fluid.layers.fc(hidden, 64, act="tanh")


def limited(build: Callable[..., Any], rows: int) -> Callable[[int | None], tuple[list[bytes], int]]:
    """Given a limit: the losses of three steps of a network with a loop, and the planned bytes of temporaries."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = trained(build(fluid.layers.data("x", [32])), [])
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(rows, 32)).astype("f"), "label": draw.integers(0, 10, (rows, 1))}

    def losses(limit: int | None) -> tuple[list[bytes], int]:
        with fluid.scope_guard(fluid.Scope()):
            fluid.Executor(fluid.CPUPlace()).run(startup)
            executor = fluid.Executor(fluid.CPUPlace(), memory_limit=limit)
            found = [executor.run(main, feed=feed, fetch_list=[loss])[0].tobytes() for _ in range(3)]
        return found, memory_use(main, rows).planned

    return losses


def deep(x: fluid.Variable) -> fluid.Variable:
    """A recurrent network of many steps, each of several layers."""

    def step(row: fluid.Variable, before: fluid.Variable) -> fluid.Variable:
        inner = fluid.layers.dropout(fluid.layers.fc([row, before], 32, act="tanh"), 0.1)
        return fluid.layers.fc(inner, 16, act="tanh")

    return over_steps(x, 16, 16, step)


@pytest.mark.parametrize("build", [deep, looped])
def test_what_loops_hold_for_gradients_is_computed_again(build: Callable[..., Any]) -> None:
    run_within = limited(build, 128)
    wanted, planned = run_within(None)
    assert run_within(planned * 6 // 10)[0] == wanted


def test_the_states_of_ragged_sequences_are_computed_again_in_blocks() -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        rnn = fluid.layers.DynamicRNN()
        with rnn.block():
            row = rnn.step_input(fluid.layers.data("x", [32], lod_level=1))
            before = rnn.memory(shape=[32], value=0.0)
            after = fluid.layers.fc([row, before], 32, act="tanh")
            rnn.update_memory(before, after)
            rnn.output(after)
        loss = trained(fluid.layers.sequence_pool(rnn(), "last"), [])
    draw = np.random.default_rng(0)
    lengths = [int(n) for n in draw.integers(5, 50, 64)]
    rows = draw.normal(size=(sum(lengths), 32)).astype("f")
    feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}
    feed["label"] = draw.integers(0, 10, (len(lengths), 1))

    def state(limit: int) -> list[bytes]:
        with fluid.scope_guard(fluid.Scope()) as _:
            executor = fluid.Executor(fluid.CPUPlace(), memory_limit=limit)
            executor.run(startup)
            found = [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(2)]
            held = [fluid.global_scope().find_var(p.name) for p in main.global_block().all_parameters()]
            found += [np.array(variable.get_tensor()) for variable in held if variable is not None]
        return [array.tobytes() for array in found]

    # A program for these lengths alone takes 1,138,816 bytes. One without a limit is for all lengths.
    wanted = state(1_138_816)
    assert state(1_138_816 * 6 // 10) == wanted and len(wanted) > 4


@pytest.mark.parametrize("build", [stepped, looped])
def test_the_limit_that_a_refusal_names_can_be_held_by_programs_with_loops(build: Callable[..., Any]) -> None:
    def losses(limit: int | None) -> list[bytes]:
        return run_within(limit)[0]

    run_within = limited(build, 16)
    with pytest.raises(UserError, match="bytes of memory at once; the limit is 1") as caught:
        losses(1)
    message, hint = caught.value.diagnostics[0].message, caught.value.diagnostics[0].hint
    needed, least = (int(text.split(" bytes")[0].split()[-1].replace(",", "")) for text in (message, hint))
    assert needed <= least
    assert losses(least) == losses(None)


def test_operator_by_operator_there_is_nothing_to_save() -> None:
    assert run("layered", marked=True, stepped=True)[0] == run("layered", stepped=True)[0]


def test_what_a_program_says() -> None:
    main, _, _ = layered(True)
    notes = [op for op in main.global_block().ops if op.type == "recompute"]
    assert len(notes) == 4
    assert [op.input("Kept") for op in notes[:2]] == [[], notes[0].input("X")]
    assert not any(op.type == "recompute" for op in main.clone(for_test=True).global_block().ops)


def test_what_is_read_behind_a_checkpoint_is_kept() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        first = fluid.layers.fc(fluid.layers.data("x", [4]), 4)
        second = fluid.layers.fc(first, 4)
        loss = fluid.layers.mean(second + first)
        fluid.append_backward(loss, checkpoints=[second, second.name])
    (note,) = [op for op in main.global_block().ops if op.type == "recompute"]
    assert set(note.input("X")) == {second.name, first.name}


def test_what_is_no_checkpoint() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 4))
        with pytest.raises(
            UserError, match="the checkpoint 'x' is computed by no operator of block 0"
        ) as caught:
            fluid.append_backward(loss, checkpoints=[x])
        assert caught.value.diagnostics[0].location.file == __file__
        with pytest.raises(UserError, match="missing"):
            fluid.append_backward(loss, checkpoints=["missing"])
        assert not any(op.type.endswith("_grad") for op in loss.block.ops)


def test_a_limit_that_cannot_be_held() -> None:
    main, startup, loss = layered(False)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(startup)
        names = [p.name for p in main.global_block().all_parameters()]
        before = [np.array(v.get_tensor()) for n in names if (v := scope.find_var(n)) is not None]
        feed = {"x": np.ones((16, 32), "f"), "label": np.zeros((16, 1), np.int64)}
        executor = fluid.Executor(fluid.CPUPlace(), memory_limit=500)
        with pytest.raises(UserError, match="bytes of memory at once; the limit is 500") as caught:
            executor.run(main, feed=feed, fetch_list=[loss])
        assert caught.value.diagnostics[0].location.file == __file__
        after = [np.array(v.get_tensor()) for n in names if (v := scope.find_var(n)) is not None]
    assert before and all((a == b).all() for a, b in zip(before, after, strict=True))
    with pytest.raises(UserError, match="a memory limit is a number of bytes, not 'all'"):
        fluid.Executor(fluid.CPUPlace(), memory_limit="all")  # pyright: ignore[reportArgumentType]
