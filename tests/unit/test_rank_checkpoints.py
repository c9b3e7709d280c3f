# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several ranks: another number of them goes on as if nothing had happened, also after a rank was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs import rank_files
from ngmlir.support.diagnostics import UserError

layers, Param = fluid.layers, fluid.ParamAttr
STEPS, KILLED = 6, 3


def program(divided: bool = False, table: bool = True) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, ids = layers.data("x", [6]), layers.data("ids", [1], dtype="int64")
        with fluid.pipeline_stage(0):
            found = layers.embedding(ids, [299, 4], False, table, param_attr="table")
            first = layers.concat([x, found], axis=1)
            hidden = layers.fc(first, 120, act="tanh", param_attr=Param(sharded=1 if divided else None))
        with fluid.pipeline_stage(1):
            guess = layers.fc(hidden, 24, param_attr=Param(sharded=0 if divided else None))
            cost = layers.mean(layers.square_error_cost(layers.fc(guess, 1), layers.data("y", [1])))
        fluid.optimizer.Adam(layers.exponential_decay(0.01, 2, 0.9), epsilon=1e-3).minimize(cost)
    return main, startup, cost


def feed(step: int) -> dict[str, Any]:
    draw = np.random.default_rng(step)
    return {
        "x": draw.normal(size=(24, 6)).astype(np.float32),
        "ids": draw.integers(0, 299, (24, 1)),
        "y": draw.normal(size=(24, 1)).astype(np.float32),
    }


#: Ways to divide a program, by name: each takes the number of ranks.
WAYS: dict[str, Callable[[int], Any]] = {
    "allreduce": lambda n: fluid.DataParallel(*program()[:2], "allreduce", n),
    "reduce_scatter": lambda n: fluid.DataParallel(*program()[:2], "reduce_scatter", n),
    "pserver": lambda n: fluid.DataParallel(*program(table=False)[:2], "pserver", n, n),
    "tensor": lambda n: fluid.TensorParallel(*program(True)[:2], n),
    "pipeline": lambda n: fluid.PipelineParallel(*program(table=False)[:2], 2, n),
}


def alone() -> dict[str, np.ndarray]:
    """What one rank has after all steps, without interruption."""
    main, startup, _ = program()
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    for step in range(STEPS):
        exe.run(main, feed=feed(step), scope=scope)
    return {v.name: np.array(scope.tensor(v.name)) for v in main.list_vars() if fluid.io.is_persistable(v)}


def check(whole: Any, folder: Path) -> None:
    """What ranks have after the last step, by a checkpoint of theirs, is what one rank has."""
    whole.save(str(folder), STEPS)
    found, expected = rank_files.read_checkpoint(folder), alone()
    assert found.step == STEPS and found.values.keys() == expected.keys()
    for name, value in expected.items():
        assert found.values[name].shape == value.shape and found.values[name].dtype == value.dtype
        assert np.allclose(found.values[name], value, rtol=1e-6, atol=1e-6), name


@pytest.mark.parametrize(
    ("before", "ranks"),
    [("allreduce", 4), ("reduce_scatter", 3), ("pserver", 2), ("tensor", 4), ("pipeline", 1)],
)
def test_other_ranks_go_on(before: str, ranks: int, tmp_path: Path) -> None:
    whole = WAYS[before](ranks)
    whole.start()
    for step in range(KILLED):
        whole.run(feed(step))
    whole.save(str(tmp_path / "saved"), KILLED)
    for after, count in (
        ("allreduce", 1),
        ("reduce_scatter", 2),
        ("pserver", 3),
        ("tensor", 2),
        ("tensor", 8),
        ("pipeline", 2),
    ):
        again = WAYS[after](count)
        assert again.load(str(tmp_path / "saved")) == KILLED
        for step in range(KILLED, STEPS):
            again.run(feed(step))
        check(again, tmp_path / f"{after}{count}")


def test_the_same_ranks_go_on_with_the_same_bits(tmp_path: Path) -> None:
    def build() -> Any:
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            hidden = layers.dropout(layers.fc(layers.data("x", [6]), 8, param_attr=Param(sharded=1)), 0.5)
            guess = layers.fc(hidden, 1, param_attr=Param("last", sharded=0))
            fluid.optimizer.Momentum(0.1, 0.9).minimize(
                layers.mean(layers.square_error_cost(guess, layers.data("y", [1])))
            )
        return fluid.TensorParallel(main, startup, 2)

    whole = build()
    whole.start()
    whole.run({n: v for n, v in feed(0).items() if n != "ids"})
    whole.save(str(tmp_path))
    again = build()
    again.load(str(tmp_path))
    for each in (whole, again):
        each.run({n: v for n, v in feed(1).items() if n != "ids"})
    for a, b in zip(whole.scopes, again.scopes, strict=True):
        assert np.array_equal(a.tensor("last"), b.tensor("last"))


def test_what_is_wrong_with_a_checkpoint_changes_nothing(tmp_path: Path) -> None:
    whole = WAYS["tensor"](2)
    with pytest.raises(UserError, match="cannot read"):
        whole.load(str(tmp_path / "nowhere"))
    whole.start()
    whole.save(str(tmp_path))
    before = [np.array(scope.tensor("table")) for scope in whole.scopes]
    (part,) = tmp_path.glob("1.rank1")
    data = part.read_bytes()
    index = json.loads((tmp_path / "checkpoint").read_text())

    def refused(words: str) -> None:
        with pytest.raises(UserError, match=words):
            whole.load(str(tmp_path))
        assert all(np.array_equal(a, s.tensor("table")) for a, s in zip(before, whole.scopes, strict=True))

    part.write_bytes(data[:-100])
    refused("1.rank1")
    part.write_bytes(data)
    for changed, words in (
        ({**index, "version": 2}, "is of version 2"),
        ({**index, "files": {**index["files"], "1.rank1": "0" * 64}}, "of another checkpoint"),
        ({**index, "pieces": [p for p in index["pieces"] if p["file"] != "1.rank0"]}, "has not all of"),
        ({**index, "pieces": [p for p in index["pieces"] if p["of"] != "table"]}, "has no variable 'table'"),
        ([], "says nothing of a checkpoint"),
    ):
        (tmp_path / "checkpoint").write_text(json.dumps(changed))
        refused(words)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        found = layers.embedding(layers.data("ids", [1], dtype="int64"), [300, 4], param_attr="table")
        fluid.optimizer.SGD(0.1).minimize(layers.mean(found))
    (tmp_path / "checkpoint").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"'table' is float32 of shape \[299, 4\] in the checkpoint"):
        fluid.DataParallel(main, startup).load(str(tmp_path))


def test_a_rank_that_stops_while_it_saves_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = WAYS["tensor"](4)
    whole.start()
    whole.run(feed(0))
    whole.save(str(tmp_path), 1)
    saved = {name: np.array(value) for name, value in rank_files.read_checkpoint(tmp_path).values.items()}
    whole.run(feed(1))
    real, left = rank_files.write_into_folders, 2

    def stopping(files: Any) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        real(files)

    monkeypatch.setattr(rank_files, "write_into_folders", stopping)
    with pytest.raises(KeyboardInterrupt):
        whole.save(str(tmp_path), 2)
    monkeypatch.undo()
    assert len([*tmp_path.glob("2.rank*")]) == 2
    found = rank_files.read_checkpoint(tmp_path)
    assert found.step == 1 and all(np.array_equal(found.values[name], value) for name, value in saved.items())
    whole.save(str(tmp_path), 2)
    assert rank_files.read_checkpoint(tmp_path).step == 2
    # What was left behind is gone.
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"3", "checkpoint"}


def train(folder: str, way: str, ranks: int) -> None:
    """What a process does until it is killed: some steps, each saved, and then it saves again and again."""
    whole = WAYS[way](ranks)
    whole.start()
    for step in range(KILLED):
        whole.run(feed(step))
        whole.save(folder, step + 1)
    print("saving", flush=True)
    while True:
        whole.save(folder, KILLED)


@pytest.mark.parametrize(("way", "ranks", "fewer"), [("tensor", 4, 2), ("reduce_scatter", 3, 2)])
def test_killed_ranks_are_followed_by_fewer(way: str, ranks: int, fewer: int, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    command = [sys.executable, __file__, str(folder), way, str(ranks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "saving\n"
        time.sleep(0.05)  # somewhere in the middle of a save
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    again = WAYS[way](fewer)
    assert again.load(str(folder)) == KILLED
    for step in range(KILLED, STEPS):
        again.run(feed(step))
    check(again, tmp_path / "after")


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], int(sys.argv[3]))
