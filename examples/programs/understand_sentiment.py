# SPDX-License-Identifier: Apache-2.0
"""What kind of text a line is: of Python's own modules the lines of documentation and the lines of code, as sequences of words.

./run python examples/programs/understand_sentiment.py
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import ngmlir.frontends.fluid as fluid

FILES = 80
#: Length of lines -> how many of a batch have it, about as often as in the modules.
LENGTHS = {4: 8, 5: 6, 6: 4, 7: 3, 8: 2, 9: 2, 10: 2, 11: 2, 12: 1, 13: 1}
Line = tuple[list[int], int]


def lines(path: Path) -> Iterator[tuple[str, int]]:
    """The lines of a module: 1 for those of documentation, 0 for code."""
    source = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    for number, line in enumerate(source.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield line.replace('"""', ""), int(number in documented)


def data() -> tuple[list[Line], list[Line], int]:
    """Lines of 4 to 13 words, as numbers, to train on and, one in five, to test on; and how many words there are. Signs are left
    out."""
    paths = sorted(Path(os.__file__).parent.glob("*.py"))[:FILES]
    found = [(re.findall(r"[a-z]+", text.lower()), kind) for path in paths for text, kind in lines(path)]
    counts = Counter(word for words, _ in found for word in words)
    known = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= 5), 1)}
    kept = [([known.get(w, 0) for w in words], kind) for words, kind in found if len(words) in LENGTHS]
    order = np.random.default_rng(0).permutation(len(kept))
    kept = [kept[i] for i in order]
    cut = len(kept) * 8 // 10
    return kept[:cut], kept[cut:], len(known) + 1


def batches(rows: Sequence[Line], draw: np.random.Generator) -> Iterator[list[Line]]:
    """Batches with as many lines of each length, in any order: a program is compiled once for the number of words in a batch."""
    by_length = {n: [row for row in rows if len(row[0]) == n] for n in LENGTHS}
    orders = {n: draw.permutation(len(each)) for n, each in by_length.items()}
    for number in range(min(len(by_length[n]) // count for n, count in LENGTHS.items())):
        chosen = [
            by_length[n][i] for n, k in LENGTHS.items() for i in orders[n][number * k : (number + 1) * k]
        ]
        yield [chosen[i] for i in draw.permutation(len(chosen))]


def convolution(text: fluid.Variable, size: int) -> fluid.Variable:
    """Windows of three and of four words, each line as the sum of its windows."""
    embedded = fluid.layers.embedding(text, [size, 32])
    parts = [
        fluid.nets.sequence_conv_pool(embedded, 32, width, act="tanh", pool_type="sqrt") for width in (3, 4)
    ]
    return fluid.layers.fc(parts, 2, act="softmax")


def stacked_lstm(text: fluid.Variable, size: int, layers: int = 3) -> fluid.Variable:
    """LSTMs upon each other, in turn from the first word and from the last."""
    embedded = fluid.layers.embedding(text, [size, 32])
    inputs = fluid.layers.fc(embedded, 128)
    hidden, _ = fluid.layers.dynamic_lstm(inputs, 128)
    for number in range(2, layers + 1):
        inputs = fluid.layers.fc([inputs, hidden], 128)
        hidden, _ = fluid.layers.dynamic_lstm(inputs, 128, is_reverse=number % 2 == 0)
    pooled = [fluid.layers.sequence_pool(each, "max") for each in (inputs, hidden)]
    return fluid.layers.fc(pooled, 2, act="softmax")


def main(
    network: Callable[[fluid.Variable, int], fluid.Variable] = convolution,
    passes: int = 2,
    place: fluid.Place | None = None,
    save_to: str | None = None,
) -> tuple[float, float]:
    """Trains for some passes; gives the mean cost on the lines to test on, and the share of them that are told right. What predicts is
    saved to a folder."""
    train, test, size = data()
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        text = fluid.layers.data("text", [1], dtype="int64", lod_level=1)
        label = fluid.layers.data("label", [1], dtype="int64")
        prediction = network(text, size)
        cost = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
        share = fluid.layers.accuracy(prediction, label)
        test_program = main_program.clone(for_test=True)
        fluid.optimizer.Adam(0.002).minimize(cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    feeder = fluid.DataFeeder([text, label], program=main_program)
    draw = np.random.default_rng(1)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            for rows in batches(train, draw):
                exe.run(main_program, feed=feeder.feed(rows), fetch_list=[cost])
        found = [
            exe.run(test_program, feed=feeder.feed(rows), fetch_list=[cost, share])
            for rows in batches(test, draw)
        ]
        if save_to is not None:
            fluid.io.save_inference_model(save_to, ["text"], [prediction], exe, main_program)
    costs, shares = np.array(found)[:, :, 0].T
    return float(costs.mean()), float(shares.mean())


if __name__ == "__main__":
    for each in (convolution, stacked_lstm):
        print("{}: cost {:.2f}, {:.1%} right".format(each.__name__, *main(each)))
