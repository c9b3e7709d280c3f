# SPDX-License-Identifier: Apache-2.0
"""Programs that train, with sparse updates, go on in another process: with the front end and without it, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers

Array = np.ndarray[Any, Any]
ROWS = 50
UPDATES: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.1),
    "adam and decay": lambda: fluid.optimizer.Adam(layers.exponential_decay(0.1, 2, 0.9)),
    "regularized": lambda: fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)),
}


def batch(number: int) -> dict[str, Array]:
    rng = np.random.default_rng(number)
    count = int(rng.integers(1, 6))
    return {"w": rng.integers(0, ROWS, (count, 1)), "y": rng.normal(size=(count, 1)).astype("float32")}


def built(update: str) -> Any:
    w, y = layers.data("w", [1], dtype="int64"), layers.data("y", [1])
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-1, 1, seed=1))
    one, two = (layers.embedding(w, [ROWS, 4], is_sparse=True, param_attr=table) for _ in range(2))
    weight = fluid.ParamAttr(name="weight", initializer=fluid.initializer.Uniform(-1, 1, seed=2))
    loss = layers.mean(layers.square_error_cost(layers.fc(one + two * 2.0, 1, param_attr=weight), y))
    UPDATES[update]().minimize(loss)
    return loss


#: Goes on with the batches 3 to 5, and prints the bits of each loss.
WITHOUT = """
import sys, numpy, ngmlir as ng
run = ng.compile(ng.load({folder!r}), target={target!r})
for number in (3, 4, 5):
    given = numpy.load({folder!r} + f"/{{number}}.npz")
    print(run(**given)[0].tobytes().hex())
assert not any(name.startswith("ngmlir.frontends.fluid") for name in sys.modules)
"""
WITH = """
import numpy, ngmlir.frontends.fluid as fluid
executor = fluid.Executor(fluid.Place({target!r}))
program, feeds, fetches = fluid.io.load_inference_model({folder!r}, executor)
assert feeds == ["w", "y"]
for number in (3, 4, 5):
    given = dict(numpy.load({folder!r} + f"/{{number}}.npz"))
    print(executor.run(program, feed=given, fetch_list=fetches)[0].tobytes().hex())
"""


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("update", UPDATES)
def test_training_goes_on_in_another_process(update: str, target: str, tmp_path: Path) -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
        fluid.unique_name.guard(),
    ):
        loss, executor = built(update), fluid.Executor(fluid.Place(target))
        executor.run(fluid.default_startup_program())
        for number in range(3):
            executor.run(feed=batch(number), fetch_list=[loss])
        fluid.io.save_inference_model(
            str(tmp_path), ["w", "y"], [loss], executor, export_for_deployment=False
        )
        wanted = [
            executor.run(feed=batch(number), fetch_list=[loss])[0].tobytes().hex() for number in (3, 4, 5)
        ]
    for number in (3, 4, 5):
        np.savez(tmp_path / f"{number}.npz", **batch(number))
    for script in (WITHOUT, WITH):
        text = script.format(folder=str(tmp_path), target=target)
        made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert made.stdout.split() == wanted, made.stderr
