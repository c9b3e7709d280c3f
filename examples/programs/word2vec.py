# SPDX-License-Identifier: Apache-2.0
"""Word vectors: the next word of four, whose vectors are rows of one shared table. The text is the help of Python itself.

./run python examples/programs/word2vec.py
"""

from __future__ import annotations

import re
from collections import Counter
from pydoc_data.topics import topics

import numpy as np

import ngmlir.frontends.fluid as fluid

EMBED, HIDDEN, BATCH, N = 32, 128, 100, 5


def data() -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of five words in turn, to train on and to test on, as numbers; and how many words there are. Rare words are one."""
    words = re.findall(r"[a-z]+|[^\sa-z]", " ".join(topics[name] for name in sorted(topics)).lower())
    counts = Counter(words)
    known = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= 5), 1)}
    numbers = np.array([known.get(word, 0) for word in words], np.int64)
    rows = np.lib.stride_tricks.sliding_window_view(numbers, N)
    cut = len(rows) * 9 // 10
    return rows[:cut], rows[cut:], len(known) + 1


def main(
    passes: int = 3,
    is_sparse: bool = False,
    place: fluid.Place | None = None,
    save_to: str | None = None,
) -> float:
    """Trains for some passes over the text; gives the mean cost of the next word on the test text, in nats. What predicts is
    saved to a folder."""
    train, test, size = data()
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        names = ["firstw", "secondw", "thirdw", "forthw", "nextw"]
        words = [fluid.layers.data(name, [1], dtype="int64") for name in names]
        embedded = [
            fluid.layers.embedding(word, [size, EMBED], is_sparse=is_sparse, param_attr="shared_w")
            for word in words[:-1]
        ]
        concat_embed = fluid.layers.concat(embedded, axis=1)
        hidden1 = fluid.layers.fc(concat_embed, HIDDEN, act="sigmoid")
        predict_word = fluid.layers.fc(hidden1, size, act="softmax")
        avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(predict_word, words[-1]))
        test_program = main_program.clone(for_test=True)
        fluid.optimizer.Adam(0.002).minimize(avg_cost)

    def feed(rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: np.ascontiguousarray(rows[:, i : i + 1]) for i, name in enumerate(names)}

    exe = fluid.Executor(place or fluid.CPUPlace())
    draw = np.random.default_rng(1)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            order = draw.permutation(len(train))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                exe.run(main_program, feed=feed(train[order[start : start + BATCH]]), fetch_list=[avg_cost])
        (cost,) = exe.run(test_program, feed=feed(test[: len(test) // BATCH * BATCH]), fetch_list=[avg_cost])
        if save_to is not None:
            fluid.io.save_inference_model(save_to, names[:-1], [predict_word], exe, main_program)
    return float(cost[0])


if __name__ == "__main__":
    print(f"{main():.2f} nats a word")
