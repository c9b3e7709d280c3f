# SPDX-License-Identifier: Apache-2.0
"""Reads strings of handwritten digits two columns at a time, trained without the positions of digits (CTC).

./run python examples/strings_ctc.py
"""

from __future__ import annotations

import numpy as np

import ngmlir as ng
from ngmlir.frontends.neon import Adam, Affine, BiRNN, GlorotInit, Sequential, Tanh, ax
from ngmlir.tools import digits

BATCH, LONGEST, STEPS, COLUMNS = 32, 5, 26, 2
BLANK = 0  # the blank class; digit d is class d + 1


def strings(
    images: np.ndarray, labels: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, list[list[int]]]:
    """A batch of images (STEPS, pixels of COLUMNS columns, BATCH) of two to five digits with gaps of up to two columns, and
    their labels."""
    pictures = np.zeros((STEPS * COLUMNS, 8, BATCH), np.float32)
    shown: list[list[int]] = []
    for sample in range(BATCH):
        chosen = draw.integers(0, len(images), draw.integers(2, LONGEST + 1))
        at = draw.integers(0, 3)
        for number in chosen:
            pictures[at : at + 8, :, sample] = images[number].reshape(8, 8).T
            at += 8 + draw.integers(0, 3)
        shown.append([int(labels[number]) for number in chosen])
    return pictures.reshape(STEPS, COLUMNS * 8, BATCH), shown


def read(classes: np.ndarray) -> list[int]:
    """Greedy decoding: the most likely class of each step, without repetitions and blanks."""
    kept = [c for place, c in enumerate(classes) if place == 0 or c != classes[place - 1]]
    return [int(c) - 1 for c in kept if c != BLANK]


def edits(found: list[int], shown: list[int]) -> int:
    """The edit distance (Levenshtein)."""
    row = list(range(len(shown) + 1))
    for i, a in enumerate(found, 1):
        before, row = row, [i]
        for j, b in enumerate(shown, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
    return row[-1]


def main(iterations: int = 1500, target: str = "cpu") -> float:
    """The label error rate on held-out digits: edits per digit."""
    np.random.seed(0)
    data, draw = digits.load(), np.random.default_rng(0)
    ax.N.length, ax.REC.length, ax.Y.length = BATCH, STEPS, 11
    pictures = ng.placeholder([ax.REC, ng.make_axis(8 * COLUMNS, "pixels"), ax.N], name="pictures")
    labels = ng.placeholder([ng.make_axis(BATCH * LONGEST, "labels")], dtype="int32")
    lengths = ng.placeholder([ax.N], dtype="int32")

    init = GlorotInit()
    model = Sequential(
        [
            BiRNN(64, init, activation=Tanh(), reset_cells=True, concat_out=True),
            BiRNN(64, init, activation=Tanh(), reset_cells=True, concat_out=True),
            Affine(init, axes=[ax.Y]),
        ],
        name="reader",
    )
    scores = ng.axes_with_order(model(pictures), [ax.REC, ax.N, ax.Y])
    whole = ng.constant(STEPS, [ax.N], dtype="int32")
    costs = ng.ctc(scores, labels, whole, lengths, percent=False, longest=LONGEST)
    cost = ng.mean(costs, out_axes=())
    rate = ng.placeholder((), name="rate")
    step = ng.sequential([Adam(rate, gradient_clip_norm=10)(cost), cost])
    best = ng.argmax(scores, out_axes=[ax.N, ax.REC])

    with ng.transformers.make_transformer(target) as transformer:
        train = transformer.computation(step, pictures, labels, lengths, rate)
        look = transformer.computation(best, pictures)

        def error(batches: int) -> float:
            made = total = 0
            fresh = np.random.default_rng(1)
            for _ in range(batches):
                images, shown = strings(data.test_images, data.test_labels, fresh)
                for classes, string in zip(look(images), shown, strict=True):
                    made, total = made + edits(read(classes), string), total + len(string)
            return made / total

        for number in range(1, iterations + 1):
            images, shown = strings(data.train_images, data.train_labels, draw)
            flat = [digit + 1 for string in shown for digit in string]
            flat += [BLANK] * (BATCH * LONGEST - len(flat))
            now = 0.003 if number < iterations * 3 // 4 else 0.001
            found = train(images, flat, [len(string) for string in shown], now)
            if number % max(1, iterations // 6) == 0:
                print(
                    f"step {number:5}: cost {float(found):.3f}, {error(4):.1%} of held-out digits are wrong"
                )
        reached = error(40)
        images, shown = strings(data.test_images, data.test_labels, draw)
        for classes, string in [*zip(look(images), shown, strict=True)][:3]:
            print(
                "".join("." if c == BLANK else str(c - 1) for c in classes),
                "->",
                read(classes),
                "shown:",
                string,
            )
    print(f"label error rate: {reached:.2%}")
    return reached


if __name__ == "__main__":
    main()
