# SPDX-License-Identifier: Apache-2.0
"""Programs over sequences beside torch: a training step of `examples/programs/machine_translation.py`, and its beam search.

    python bench/sequence_steps.py [--seconds 2] [--only REGEX]

As `steps.py`: both train or run the same network on the same batch, on one thread, in one process, and the least CPU time of bursts
that alternate counts. torch has sequences padded, and its LSTMs take them packed and padded: the faster counts. `ratio` is torch's
time by ours: below 1 ours is slower.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

# First: it says how many threads there are, before anything is imported.
from steps import least

import numpy as np  # isort: skip

import ngmlir.frontends.fluid as fluid

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "programs"))
import machine_translation as translation

Step = Callable[[], Any]


def pairs(count: int) -> list[translation.Pair]:
    """A batch of dates in words and in signs."""
    if count == sum(translation.LENGTHS.values()):
        return next(translation.batches(translation.data()[0], np.random.default_rng(0)))
    return translation.data()[0][:count]


def translation_step() -> dict[str, Step]:
    rows = pairs(64)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ragged = [fluid.layers.data(n, [1], dtype="int64", lod_level=1) for n in ("words", "signs", "after")]
        odds = translation.followed(*ragged[:2])
        cost = fluid.layers.mean(fluid.layers.cross_entropy(odds, ragged[2]))
        fluid.optimizer.Adam(0.001).minimize(cost)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feeds = fluid.DataFeeder(ragged, program=main).feed(rows)
    steps: dict[str, Step] = {
        "ngmlir": lambda: exe.run(main, feed=feeds, fetch_list=[cost], scope=scope),
    }
    if find_spec("torch"):
        steps |= {name: torch_step(rows, name == "packed") for name in ("packed", "padded")}
    return steps


def search(count: int, beam: int) -> dict[str, Step]:
    rows = [words for words, *_ in pairs(count)]
    startup = fluid.Program()
    with fluid.program_guard(fluid.Program(), startup), fluid.unique_name.guard():
        ragged = [fluid.layers.data(n, [1], dtype="int64", lod_level=1) for n in ("words", "signs")]
        translation.followed(*ragged)
    program, _, found = translation.search(beam)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feeds = translation.begun(rows)
    steps: dict[str, Step] = {
        "ngmlir": lambda: exe.run(program, feeds, [*found], scope=scope, return_numpy=False)
    }
    if find_spec("torch"):
        steps["torch"] = torch_search(rows, beam)
    return steps


def beam_4() -> dict[str, Step]:
    return search(64, 4)


def beam_4_of_one() -> dict[str, Step]:
    return search(1, 4)


def greedy() -> dict[str, Step]:
    return search(64, 1)


# The same in torch.


def torch_network(packed: bool) -> Any:
    import torch
    from torch import nn

    width, hidden, signs = translation.WORD, translation.HIDDEN, translation.END + 1

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(len(translation.WORDS), width)
            self.signs = nn.Embedding(signs, width)
            self.encoder = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
            self.keys = nn.Linear(2 * hidden, hidden, bias=False)
            self.first = nn.Linear(hidden, hidden)
            self.asked = nn.Linear(hidden, hidden, bias=False)
            self.fit = nn.Linear(hidden, 1, bias=False)
            self.cell = nn.GRUCell(width + 2 * hidden, hidden)
            self.next = nn.Linear(hidden, signs)

        def encoded(self, words: Any, lengths: Any) -> tuple[Any, Any, Any]:
            embedded = self.words(words)
            if packed:
                held = nn.utils.rnn.pack_padded_sequence(
                    embedded, lengths, batch_first=True, enforce_sorted=False
                )
                meaning, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(held)[0], batch_first=True)
            else:
                meaning, _ = self.encoder(embedded)
            return meaning, self.keys(meaning), self.first(meaning[:, 0, hidden:]).tanh()

        def step(self, embedded: Any, state: Any, meaning: Any, keys: Any, outside: Any) -> Any:
            fit = self.fit((self.asked(state)[:, None] + keys).tanh())[:, :, 0]
            weights = fit.masked_fill(outside, -torch.inf).softmax(1)
            context = torch.bmm(weights[:, None], meaning)[:, 0]
            return self.cell(torch.cat([embedded, context], 1), state)

        def forward(self, words: Any, lengths: Any, signs: Any) -> Any:
            meaning, keys, state = self.encoded(words, lengths)
            outside = torch.arange(words.shape[1]) >= lengths[:, None]
            states = []
            for embedded in self.signs(signs).unbind(1):
                state = self.step(embedded, state, meaning, keys, outside)
                states.append(state)
            return self.next(torch.stack(states, 1))

    torch.set_num_threads(1)
    return Network()


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(row) for row in rows])
    made = np.zeros((len(rows), lengths.max()), np.int64)
    for row, held in zip(rows, made, strict=True):
        held[: len(row)] = row
    return made, lengths


def torch_step(rows: Sequence[translation.Pair], packed: bool) -> Step:
    import torch
    from torch.nn import functional

    network = torch_network(packed)
    optimizer = torch.optim.Adam(network.parameters(), 0.001, fused=True)
    words, lengths = padded([row[0] for row in rows])
    signs, after = (np.array([row[at] for row in rows]) for at in (1, 2))

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        given = [torch.from_numpy(each) for each in (words, lengths, signs)]
        cost = functional.cross_entropy(network(*given).flatten(0, 1), torch.from_numpy(after).flatten())
        cost.backward()
        optimizer.step()
        return float(cost.detach())

    return step


def torch_search(rows: Sequence[Sequence[int]], beam: int) -> Step:
    import torch

    network = torch_network(True)
    words, lengths = (torch.from_numpy(each) for each in padded(rows))
    count, end = len(rows), translation.END

    @torch.inference_mode()
    def step() -> Any:
        meaning, keys, state = network.encoded(words, lengths)
        outside = torch.arange(words.shape[1]) >= lengths[:, None]
        meaning, keys, state, outside = (
            each.repeat_interleave(beam, 0) for each in (meaning, keys, state, outside)
        )
        # All but one of the first hypotheses are none.
        scores = torch.full((count, beam), -torch.inf)
        scores[:, 0] = 0
        found = torch.full((count, beam, 1), translation.START)
        only_end = torch.full((end + 1,), -torch.inf)
        only_end[end] = 0
        for _ in range(translation.STEPS):
            last = found[:, :, -1].flatten()
            state = network.step(network.signs(last), state, meaning, keys, outside)
            odds = network.next(state).log_softmax(1)
            odds = torch.where((last == end)[:, None], only_end, odds).view(count, beam, -1)
            scores, at = (scores[:, :, None] + odds).view(count, -1).topk(beam)
            before, sign = at // (end + 1), at % (end + 1)
            found = torch.cat([found.gather(1, before[:, :, None].expand_as(found)), sign[:, :, None]], 2)
            state = state.view(count, beam, -1).gather(1, before[:, :, None].expand(-1, -1, state.shape[1]))
            state = state.flatten(0, 1)
            if bool((sign == end).all()):
                break
        return found.numpy(), scores.numpy()

    return step


MODELS = {model.__name__: model for model in (translation_step, beam_4, beam_4_of_one, greedy)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for name, model in MODELS.items():
        if not re.search(arguments.only, name):
            continue
        times = least(model(), arguments.seconds)
        ratio = min((t for who, t in times.items() if who != "ngmlir"), default=nan) / times["ngmlir"]
        shown = "  ".join(f"{who} {t:9.1f}" for who, t in times.items())
        print(f"{name:18} {ratio:5.2f}  {shown} us", flush=True)


if __name__ == "__main__":
    main()
