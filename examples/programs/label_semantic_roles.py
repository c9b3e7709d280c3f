# SPDX-License-Identifier: Apache-2.0
"""Labels of the words of a sequence: the kinds of the tokens of Python's own modules, by eight LSTMs and a conditional random field.

./run python examples/programs/label_semantic_roles.py
"""

from __future__ import annotations

import io
import keyword
import os
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import ngmlir.frontends.fluid as fluid

FILES, WORD, MARK, HIDDEN, DEPTH = 60, 32, 5, 128, 8
#: Length of lines -> how many of a batch have it.
LENGTHS = {4: 5, 6: 4, 8: 4, 10: 3, 12: 2, 14: 1, 16: 1}
KINDS = ("operator", "name", "keyword", "number", "string")
NAMES = ["word", "two_before", "before", "after", "two_after", "again", "first", "mark"]
Line = tuple[list[list[int]], list[int]]


def tokens(path: Path) -> Iterator[list[tuple[str, int]]]:
    """The lines of a module: their tokens, each with its kind."""
    line: list[tuple[str, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        match token.type:
            case tokenize.NAME:
                line.append((token.string, 2 if keyword.iskeyword(token.string) else 1))
            case tokenize.OP:
                line.append((token.string, 0))
            case tokenize.NUMBER | tokenize.STRING:
                line.append((token.string, 3 if token.type == tokenize.NUMBER else 4))
            case tokenize.NEWLINE:
                yield line
                line = []
            case _:
                pass


def data() -> tuple[list[Line], list[Line], int]:
    """Lines to train on and, one in five, to test on: of each token its number, those of its neighbours, of itself, of the first token of
    the line, and whether it is near that; and its kind. And how many different tokens are known; rare ones are one."""
    paths = sorted(Path(os.__file__).parent.glob("*.py"))[:FILES]
    found = [line for path in paths for line in tokens(path) if len(line) in LENGTHS]
    counts = Counter(word for line in found for word, _ in line)
    known = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= 20), 1)}
    rows: list[Line] = []
    for line in found:
        numbers = np.array([known.get(word, 0) for word, _ in line])
        moved = [np.pad(numbers, 2)[2 + by : 2 + by + len(line)] for by in (0, -2, -1, 1, 2, 0)]
        near = (np.arange(len(line)) < 2).astype(int)
        columns = [*moved, np.full(len(line), numbers[0]), near]
        rows.append(([c.tolist() for c in columns], [kind for _, kind in line]))
    order = np.random.default_rng(0).permutation(len(rows))
    cut = len(rows) * 8 // 10
    return [rows[i] for i in order[:cut]], [rows[i] for i in order[cut:]], len(known) + 1


def batches(rows: Sequence[Line], draw: np.random.Generator) -> Iterator[list[Line]]:
    """Batches with as many lines of each length, in any order."""
    by_length = {n: [row for row in rows if len(row[1]) == n] for n in LENGTHS}
    orders = {n: draw.permutation(len(each)) for n, each in by_length.items()}
    for number in range(min(len(by_length[n]) // count for n, count in LENGTHS.items())):
        chosen = [
            by_length[n][i] for n, k in LENGTHS.items() for i in orders[n][number * k : (number + 1) * k]
        ]
        yield [chosen[i] for i in draw.permutation(len(chosen))]


def network(inputs: Sequence[fluid.Variable], size: int) -> fluid.Variable:
    """A weight for each token and kind: LSTMs upon each other, in turn from the first token and from the last."""
    *words, mark = inputs
    embedded = [fluid.layers.embedding(each, [size, WORD], param_attr="words") for each in words]
    embedded.append(fluid.layers.embedding(mark, [2, MARK]))
    mixed = fluid.layers.sums([fluid.layers.fc(each, HIDDEN) for each in embedded])
    hidden, _ = fluid.layers.dynamic_lstm(mixed, HIDDEN)
    for number in range(1, DEPTH):
        mixed = fluid.layers.sums([fluid.layers.fc(each, HIDDEN) for each in (mixed, hidden)])
        hidden, _ = fluid.layers.dynamic_lstm(mixed, HIDDEN, is_reverse=number % 2 == 1)
    return fluid.layers.sums([fluid.layers.fc(each, len(KINDS)) for each in (mixed, hidden)])


def main(
    passes: int = 3, place: fluid.Place | None = None, save_to: str | None = None
) -> tuple[float, float]:
    """Trains for some passes; gives the share of tokens of the lines to test on whose kind is found, and F1 of runs of tokens of one
    kind. What finds kinds is saved to a folder."""
    train, test, size = data()
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        inputs = [fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in NAMES]
        kind = fluid.layers.data("kind", [1], dtype="int64", lod_level=1)
        weights = network(inputs, size)
        transition = fluid.ParamAttr(name="transition")
        cost = fluid.layers.mean(fluid.layers.linear_chain_crf(weights, kind, transition))
        found = fluid.layers.crf_decoding(weights, transition)
        right = fluid.layers.crf_decoding(weights, transition, kind)
        share = fluid.layers.mean(fluid.layers.cast(right, "float32"))
        chunks = fluid.layers.chunk_eval(found, kind, "plain", len(KINDS))
        test_program = main_program.clone(for_test=True)
        rate = fluid.layers.exponential_decay(0.004, decay_steps=300, decay_rate=0.8, staircase=True)
        fluid.optimizer.Adam(rate).minimize(cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    feeder = fluid.DataFeeder([*inputs, kind], program=main_program)
    draw, metric, shares = np.random.default_rng(1), fluid.metrics.ChunkEvaluator(), []

    def fed(rows: Sequence[Line]) -> dict[str, fluid.LoDTensor]:
        return feeder.feed([[*columns, kinds] for columns, kinds in rows])

    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            for rows in batches(train, draw):
                exe.run(main_program, feed=fed(rows), fetch_list=[cost])
        for rows in batches(test, draw):
            each, *counts = exe.run(test_program, feed=fed(rows), fetch_list=[share, *chunks[3:]])
            shares.append(float(each[0]))
            metric.update(*counts)
        if save_to is not None:
            fluid.io.save_inference_model(save_to, NAMES, [found], exe, main_program)
    return float(np.mean(shares)), float(metric.eval()[2])


if __name__ == "__main__":
    print("{:.1%} of tokens right, F1 of runs {:.3f}".format(*main()))
