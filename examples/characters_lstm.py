# SPDX-License-Identifier: Apache-2.0
"""A character LSTM, trained on the source code of the Python standard library to predict the next character.

./run python examples/characters_lstm.py
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np

import ngmlir as ng
from ngmlir.frontends.neon import (
    LSTM,
    Adam,
    Affine,
    GlorotInit,
    Logistic,
    LookupTable,
    Sequential,
    SequentialArrayIterator,
    Softmax,
    Tanh,
    UniformInit,
    ax,
    make_bound_computation,
)

STEPS, BATCH, HIDDEN = 48, 32, 128
LETTERS = (
    "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
)


def letters(length: int) -> tuple[np.ndarray, np.ndarray]:
    """(training text, held-out text) as character numbers: modules in the order of their names, of each of which the last
    tenth is held out. Unknown characters become spaces."""
    numbers = {letter: number for number, letter in enumerate(LETTERS)}
    kept: list[int] = []
    held: list[int] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = [numbers.get(letter, 1) for letter in path.read_text(encoding="utf-8", errors="replace")]
        cut = len(text) * 9 // 10
        kept += text[:cut]
        held += text[cut:]
        if len(kept) > length:
            break
    return np.array(kept[:length], np.int32), np.array(held, np.int32)


def bigrams(kept: np.ndarray, held: np.ndarray) -> float:
    """The cross entropy of the held-out text in nats per character, by a bigram model with add-one smoothing."""
    counts = np.ones((len(LETTERS), len(LETTERS)))
    np.add.at(counts, (kept[:-1], kept[1:]), 1)
    chances = counts / counts.sum(axis=1, keepdims=True)
    return float(-np.log(chances[held[:-1], held[1:]]).mean())


def sampled(
    transformer: ng.transformers.Transformer, model: Sequential, start: str, length: int = 300
) -> str:
    """Text that begins with `start`: each character is sampled from the model, and is its next input."""
    table, memory, answer = model.layers
    here, one = ng.make_axis(1, "REC"), ng.make_axis(1, "N")
    letter = ng.placeholder([here, one], dtype="int32")
    h, c = (ng.persistent_tensor([memory.hidden, one], initial_value=0) for _ in range(2))
    outputs, states = memory(table(letter), init_state={"h": h, "c": c}, return_cell_state=True)
    chances, last_h, last_c = (ng.slice_along_axis(x, here, 0) for x in (answer(outputs), outputs, states))
    goes_on = [ng.assign(h, last_h), ng.assign(c, last_c)]
    follow = transformer.computation(ng.sequential([chances, *goes_on, chances]), letter)
    draw = np.random.default_rng(1)
    text = start
    for place in range(length + len(start) - 1):
        guessed = follow([[LETTERS.index(text[place])]])[:, 0]
        if place >= len(start) - 1:
            text += LETTERS[draw.choice(len(LETTERS), p=guessed / guessed.sum())]
    return text


def main(iterations: int = 1500, length: int = 1_000_000, target: str = "cpu") -> tuple[float, float]:
    """(cross entropy of the held-out text by the LSTM, by bigrams), in nats per character."""
    np.random.seed(0)
    kept, held = letters(length)
    baseline = bigrams(kept, held)
    train_set = SequentialArrayIterator(kept, STEPS, BATCH, total_iterations=iterations)
    test_set = SequentialArrayIterator(held, STEPS, BATCH, shuffle=False)
    inputs = train_set.make_placeholders(include_iteration=True)
    ax.Y.length = len(LETTERS)

    model = Sequential(
        [
            LookupTable(len(LETTERS), 32, UniformInit(-0.5, 0.5)),
            LSTM(HIDDEN, GlorotInit(), activation=Tanh(), gate_activation=Logistic()),
            Affine(GlorotInit(), axes=[ax.Y], activation=Softmax()),
        ],
        name="reader",
    )
    chances = model(inputs["inp_txt"])
    loss = ng.mean(ng.cross_entropy_multi(chances, ng.one_hot(inputs["tgt_txt"], axis=ax.Y)), out_axes=())
    rate = {"name": "schedule", "base_lr": 0.004, "gamma": 0.3, "schedule": [iterations * 3 // 4]}
    step = ng.sequential([Adam(rate, iteration=inputs["iteration"], gradient_clip_norm=1)(loss), loss])

    with ng.transformers.make_transformer(target) as transformer:
        train = make_bound_computation(transformer, {"cost": step}, inputs)
        test = transformer.computation(loss, inputs["inp_txt"], inputs["tgt_txt"])
        print(f"{len(kept)} letters, {len(held)} held out; bigrams: {baseline:.3f} nats a letter")
        for batch in train_set:
            cost = float(train(batch)["cost"])
            if batch["iteration"] % max(1, iterations // 10) == 0:
                print(f"step {batch['iteration']:5}: {cost:.3f}")
        costs = [float(test(b["inp_txt"], b["tgt_txt"])) for b in test_set]
        reached = float(np.mean(costs))
        print(f"held-out text: {reached:.3f} nats a letter, {1 - reached / baseline:.0%} less than bigrams")
        print(sampled(transformer, model, "def "))
    return reached, baseline


if __name__ == "__main__":
    main()
