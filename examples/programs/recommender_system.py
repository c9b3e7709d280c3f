# SPDX-License-Identifier: Apache-2.0
"""A recommender: how a user rates an item, from vectors of both. Images of digits are the users, pixels the items.

./run python examples/programs/recommender_system.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import ngmlir.frontends.fluid as fluid

BATCH = 256
#: Name of what is fed -> how many values it has.
USER = {"user_id": 1797, "label": 10}
ITEM = {"item_id": 64, "row": 8, "column": 8}


def data() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All ratings, 0 to 16, with the features of user and item: those to train on, and one in five to test on."""
    found: Any = load_digits()
    users, items = np.meshgrid(np.arange(1797), np.arange(64), indexing="ij")
    columns = {
        "user_id": users, "label": found.target[users], "item_id": items, "row": items // 8, "column": items % 8,
        "score": found.data,
    }  # fmt: skip
    flat = {
        name: c.reshape(-1, 1).astype(np.float32 if name == "score" else np.int64)
        for name, c in columns.items()
    }
    order = np.random.default_rng(0).permutation(users.size)
    cut = users.size * 8 // 10
    return {n: c[order[:cut]] for n, c in flat.items()}, {n: c[order[cut:]] for n, c in flat.items()}


def combined(features: dict[str, int], is_sparse: bool) -> fluid.Variable:
    """The features of a user or an item as one vector."""
    parts = []
    for name, size in features.items():
        number = fluid.layers.data(name, [1], dtype="int64")
        vector = fluid.layers.embedding(number, [size, 32], is_sparse, param_attr=f"{name}_table")
        parts.append(fluid.layers.fc(vector, 32))
    return fluid.layers.fc(fluid.layers.concat(parts, axis=1), 200, act="tanh")


def main(
    passes: int = 3,
    is_sparse: bool = False,
    place: fluid.Place | None = None,
    save_to: str | None = None,
) -> float:
    """Trains for some passes over the ratings; gives the mean squared error on those to test on. What predicts is saved to a
    folder."""
    train, test = data()
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        similar = fluid.layers.cos_sim(combined(USER, is_sparse), combined(ITEM, is_sparse))
        inference = fluid.layers.scale(similar, scale=16.0)
        score = fluid.layers.data("score", [1])
        avg_cost = fluid.layers.mean(fluid.layers.square_error_cost(inference, score))
        test_program = main_program.clone(for_test=True)
        fluid.optimizer.Adam(0.003).minimize(avg_cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    draw = np.random.default_rng(1)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            order = draw.permutation(len(train["score"]))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                exe.run(main_program, feed={n: c[rows] for n, c in train.items()}, fetch_list=[avg_cost])
        (error,) = exe.run(test_program, feed=test, fetch_list=[avg_cost])
        if save_to is not None:
            fluid.io.save_inference_model(save_to, [*USER, *ITEM], [inference], exe, main_program)
    return float(error[0])


if __name__ == "__main__":
    print(f"mean squared error {main():.1f}; of the mean of each item 18.9")
