# SPDX-License-Identifier: Apache-2.0
"""Linear regression on the diabetes data of scikit-learn: a program in its simplest form.

./run python examples/programs/fit_a_line.py
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

import ngmlir.frontends.fluid as fluid


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and targets to train on, and those to test on. A feature has the deviation 1."""
    found: Any = load_diabetes()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.data[order] * np.sqrt(len(order))).astype(np.float32)
    y = found.target[order, None].astype(np.float32)
    cut = len(order) * 8 // 10
    return x[:cut], y[:cut], x[cut:], y[cut:]


def main(passes: int = 100, place: fluid.Place | None = None, save_to: str | None = None) -> float:
    """Trains for some passes over the data; gives the mean squared error on the test data. What predicts is saved to a folder."""
    train_x, train_y, test_x, test_y = data()
    random.seed(0)  # readers shuffle by it
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        x = fluid.layers.data(name="x", shape=[10], dtype="float32")
        y = fluid.layers.data(name="y", shape=[1], dtype="float32")
        y_predict = fluid.layers.fc(input=x, size=1, act=None)
        avg_cost = fluid.layers.mean(fluid.layers.square_error_cost(input=y_predict, label=y))
        test_program = main_program.clone(for_test=True)
        fluid.optimizer.SGD(learning_rate=0.005).minimize(avg_cost)
        feeder = fluid.DataFeeder([x, y], fluid.CPUPlace())

    rows = list(zip(train_x, train_y, strict=True))
    reader = fluid.batch(fluid.reader.shuffle(lambda: iter(rows), 500), batch_size=20, drop_last=True)
    exe = fluid.Executor(place or fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            for batch in reader():
                exe.run(main_program, feed=feeder.feed(batch), fetch_list=[avg_cost])
        (error,) = exe.run(test_program, feed={"x": test_x, "y": test_y}, fetch_list=[avg_cost])
        if save_to is not None:
            fluid.io.save_inference_model(save_to, ["x"], [y_predict], exe, main_program)
    return float(error[0])


if __name__ == "__main__":
    print(f"mean squared error {main():.0f}; by least squares 3250")
