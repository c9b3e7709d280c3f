# SPDX-License-Identifier: Apache-2.0
"""Programs over sequences beside torch: training steps of the examples that translate, that tell kinds of lines and that label tokens,
and of one LSTM; and the beam search of the one that translates.

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
import label_semantic_roles as roles
import machine_translation as translation
import understand_sentiment as sentiment

layers = fluid.layers
Step = Callable[[], Any]
rng = np.random.default_rng(0)


def drawn(lengths: Sequence[int], most: int) -> list[np.ndarray]:
    """Sequences of integers below `most`."""
    return [rng.integers(0, most, (n, 1)) for n in lengths]


def lengths_of(table: dict[int, int]) -> list[int]:
    """The lengths of the sequences of a batch in any order; given is how many there are of each."""
    return rng.permutation(np.repeat(list(table), list(table.values()))).tolist()


def ragged(rows: Sequence[np.ndarray]) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.concatenate(rows), [[len(each) for each in rows]], None)


def trained(feeds: dict[str, Any], build: Callable[[], Any]) -> Step:
    """A step of a program, whose loss it gives."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        cost = build()
        fluid.optimizer.Adam(0.001).minimize(cost)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    return lambda: exe.run(main, feed=feeds, fetch_list=[cost], scope=scope)


def beside(step: Step, theirs: Callable[[bool], Step]) -> dict[str, Step]:
    """Ours, and torch's with packed and with padded sequences."""
    if not find_spec("torch"):
        return {"ngmlir": step}
    return {"ngmlir": step, "packed": theirs(True), "padded": theirs(False)}


# Ours.


def lstm_step(lengths: Sequence[int]) -> dict[str, Step]:
    """The sum of the squares of all hidden states of sequences."""
    rows = [rng.standard_normal((n, 128), np.float32) for n in lengths]

    def build() -> Any:
        x = layers.data("x", [128], lod_level=1)
        hidden, _ = layers.dynamic_lstm(layers.fc(x, 512, bias_attr=False), 512, use_peepholes=False)
        return layers.mean(layers.square(hidden))

    return beside(trained({"x": ragged(rows)}, build), lambda packed: torch_lstm(rows, packed))


#: 1,095 rows.
LSTM_LENGTHS: list[int] = np.random.default_rng(0).integers(1, 65, 32).tolist()


def lstm_128() -> dict[str, Step]:
    """32 sequences of 1 to 64 rows."""
    return lstm_step(LSTM_LENGTHS)


def lstm_128_equal() -> dict[str, Step]:
    """As many rows, in sequences of one length."""
    return lstm_step([sum(LSTM_LENGTHS) // 32] * 32)


SENTIMENT_WORDS = 3000


def sentiment_step(network: Callable[[Any, int], Any], theirs: Callable[..., Any]) -> dict[str, Step]:
    rows = drawn(lengths_of(sentiment.LENGTHS), SENTIMENT_WORDS)
    labels = rng.integers(0, 2, (len(rows), 1))

    def build() -> Any:
        text = layers.data("text", [1], dtype="int64", lod_level=1)
        label = layers.data("label", [1], dtype="int64")
        return layers.mean(layers.cross_entropy(network(text, SENTIMENT_WORDS), label))

    step = trained({"text": ragged(rows), "label": labels}, build)
    return beside(step, lambda packed: theirs(rows, labels, packed))


def sentiment_conv() -> dict[str, Step]:
    return sentiment_step(sentiment.convolution, torch_convolution)


def stacked_lstm() -> dict[str, Step]:
    return sentiment_step(sentiment.stacked_lstm, torch_stacked)


ROLES_WORDS = 700


def semantic_roles() -> dict[str, Step]:
    lengths = lengths_of(roles.LENGTHS)
    words = [drawn(lengths, ROLES_WORDS) for _ in roles.NAMES[:-1]]
    mark, kinds = drawn(lengths, 2), drawn(lengths, len(roles.KINDS))

    def build() -> Any:
        inputs = [layers.data(name, [1], dtype="int64", lod_level=1) for name in roles.NAMES]
        kind = layers.data("kind", [1], dtype="int64", lod_level=1)
        weights = roles.network(inputs, ROLES_WORDS)
        return layers.mean(layers.linear_chain_crf(weights, kind, fluid.ParamAttr(name="transition")))

    feeds = {name: ragged(each) for name, each in zip(roles.NAMES, [*words, mark], strict=True)}
    step = trained({**feeds, "kind": ragged(kinds)}, build)
    return beside(step, lambda packed: torch_roles([*words, mark], kinds, packed))


def pairs(count: int) -> list[translation.Pair]:
    """A batch of dates in words and in signs."""
    if count == sum(translation.LENGTHS.values()):
        return next(translation.batches(translation.data()[0], np.random.default_rng(0)))
    return translation.data()[0][:count]


def translation_step() -> dict[str, Step]:
    rows = pairs(64)

    def build() -> Any:
        words, signs, after = [
            layers.data(n, [1], dtype="int64", lod_level=1) for n in ("words", "signs", "after")
        ]
        return layers.mean(layers.cross_entropy(translation.followed(words, signs), after))

    columns = [[np.array(row[at])[:, None] for row in rows] for at in range(3)]
    feeds = {name: ragged(each) for name, each in zip(("words", "signs", "after"), columns, strict=True)}
    return beside(trained(feeds, build), lambda packed: torch_translation(rows, packed))


#: The logarithm of a probability that is none.
NEVER = -1e4


def search(count: int, beam: int) -> dict[str, Step]:
    rows = [words for words, *_ in pairs(count)]
    startup = fluid.Program()
    with fluid.program_guard(fluid.Program(), startup), fluid.unique_name.guard():
        translation.followed(*[layers.data(n, [1], dtype="int64", lod_level=1) for n in ("words", "signs")])
    program, _, found = translation.search(beam)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    # No hypothesis ends, so that both take all steps, whatever their weights are.
    odds = np.zeros(translation.END + 1, np.float32)
    odds[translation.END] = NEVER
    scope.find_var("next_bias").get_tensor().set(odds, fluid.CPUPlace())
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
            meaning = over_time(self.encoder, embedded, lengths, packed)
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


def padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of rows, and the lengths of these."""
    lengths = np.array([len(row) for row in rows])
    made = np.zeros((len(rows), lengths.max(), *rows[0].shape[1:]), rows[0].dtype)
    for row, held in zip(rows, made, strict=True):
        held[: len(row)] = row
    return made, lengths


def torch_training(module: Any, cost: Callable[[], Any]) -> Step:
    import torch

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(module.parameters(), 0.001, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = cost()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def over_time(lstm: Any, x: Any, lengths: Any, packed: bool, is_reverse: bool = False) -> Any:
    """The hidden states of an LSTM over padded sequences; in reverse each is turned at its end."""
    import torch
    from torch.nn.utils import rnn

    if is_reverse:
        at = torch.arange(x.shape[1])[None]
        turned = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)[:, :, None]
        made = over_time(lstm, x.gather(1, turned.expand_as(x)), lengths, packed)
        return made.gather(1, turned.expand_as(made))
    if not packed:
        return lstm(x)[0]
    held = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(lstm(held)[0], batch_first=True)[0]


def torch_lstm(rows: Sequence[np.ndarray], packed: bool) -> Step:
    import torch

    lstm = torch.nn.LSTM(128, 128, batch_first=True)
    x, lengths = (torch.from_numpy(each) for each in padded(rows))
    inside = (torch.arange(x.shape[1]) < lengths[:, None])[:, :, None]
    count = int(lengths.sum()) * 128

    def cost() -> Any:
        return (over_time(lstm, x, lengths, packed).square() * inside).sum() / count

    return torch_training(lstm, cost)


def torch_convolution(rows: Sequence[np.ndarray], labels: np.ndarray, packed: bool) -> Step:
    import torch
    from torch import nn
    from torch.nn import functional

    table, out = nn.Embedding(SENTIMENT_WORDS, 32), nn.Linear(64, 2)
    windows = nn.ModuleList([nn.Conv1d(32, 32, width, padding="same") for width in (3, 4)])
    words, lengths = padded(rows)

    def cost() -> Any:
        text, count = torch.from_numpy(words)[:, :, 0], torch.from_numpy(lengths)[:, None]
        inside = torch.arange(text.shape[1]) < count
        embedded = (table(text) * inside[:, :, None]).transpose(1, 2)
        parts = [(w(embedded).tanh() * inside[:, None]).sum(2) / count.sqrt() for w in windows]
        return functional.cross_entropy(out(torch.cat(parts, 1)), torch.from_numpy(labels)[:, 0])

    return torch_training(nn.ModuleList([table, out, windows]), cost)


def torch_stacked(rows: Sequence[np.ndarray], labels: np.ndarray, packed: bool) -> Step:
    import torch
    from torch import nn
    from torch.nn import functional

    table, first, out = nn.Embedding(SENTIMENT_WORDS, 32), nn.Linear(32, 128), nn.Linear(160, 2)
    mixes = nn.ModuleList([nn.Linear(160, 128) for _ in range(2)])
    lstms = nn.ModuleList([nn.LSTM(128, 32, batch_first=True) for _ in range(3)])
    words, lengths = padded(rows)

    def cost() -> Any:
        text, count = torch.from_numpy(words)[:, :, 0], torch.from_numpy(lengths)
        outside = (torch.arange(text.shape[1]) >= count[:, None])[:, :, None]
        mixed = first(table(text))
        hidden = over_time(lstms[0], mixed, count, packed)
        for number, (mix, lstm) in enumerate(zip(mixes, [*lstms][1:], strict=True), 2):
            mixed = mix(torch.cat([mixed, hidden], 2))
            hidden = over_time(lstm, mixed, count, packed, number % 2 == 0)
        pooled = torch.cat([mixed, hidden], 2).masked_fill(outside, -torch.inf).amax(1)
        return functional.cross_entropy(out(pooled), torch.from_numpy(labels)[:, 0])

    return torch_training(nn.ModuleList([table, first, out, mixes, lstms]), cost)


def field_cost(weights: Any, moves: Any, wanted: Any, length: Any, inside: Any) -> Any:
    """The mean negative log-likelihood of a linear-chain conditional random field, with padded sequences."""
    import torch

    begin, end, between = moves[0], moves[1], moves[2:]
    # The logarithm of the sum over all labels, step by step.
    total = begin + weights[:, 0]
    for step in range(1, weights.shape[1]):
        new = (total[:, :, None] + between).logsumexp(1) + weights[:, step]
        total = torch.where(inside[:, step, None], new, total)
    own = (weights.gather(2, wanted)[:, :, 0] * inside).sum(1)
    own = own + (between[wanted[:, :-1, 0], wanted[:, 1:, 0]] * inside[:, 1:]).sum(1)
    last = wanted[:, :, 0].gather(1, length[:, None] - 1)[:, 0]
    own = own + begin[wanted[:, 0, 0]] + end[last]
    return ((total + end).logsumexp(1) - own).mean()


def torch_roles(inputs: Sequence[Sequence[np.ndarray]], kinds: Sequence[np.ndarray], packed: bool) -> Step:
    import torch
    from torch import nn

    hidden, count, width = roles.HIDDEN, len(roles.KINDS), roles.HIDDEN // 4
    table, marks = nn.Embedding(ROLES_WORDS, roles.WORD), nn.Embedding(2, roles.MARK)
    first = nn.Linear(7 * roles.WORD + roles.MARK, hidden)
    mixes = nn.ModuleList([nn.Linear(hidden + width, hidden) for _ in range(roles.DEPTH - 1)])
    lstms = nn.ModuleList([nn.LSTM(hidden, width, batch_first=True) for _ in range(roles.DEPTH)])
    out = nn.Linear(hidden + width, count)
    module = nn.ModuleList([table, marks, first, mixes, lstms, out])
    module.register_parameter("moves", nn.Parameter(torch.zeros(count + 2, count)))
    columns, lengths = [padded(each)[0] for each in inputs], padded(kinds)[1]

    def cost() -> Any:
        *words, mark = (torch.from_numpy(each)[:, :, 0] for each in columns)
        length, wanted = torch.from_numpy(lengths), torch.from_numpy(padded(kinds)[0])
        mixed = first(torch.cat([*[table(each) for each in words], marks(mark)], 2))
        states = over_time(lstms[0], mixed, length, packed)
        for number, (mix, lstm) in enumerate(zip(mixes, [*lstms][1:], strict=True), 1):
            mixed = mix(torch.cat([mixed, states], 2))
            states = over_time(lstm, mixed, length, packed, number % 2 == 1)
        weights = out(torch.cat([mixed, states], 2))
        inside = torch.arange(weights.shape[1]) < length[:, None]
        return field_cost(weights, module.moves, wanted, length, inside)

    return torch_training(module, cost)


def torch_translation(rows: Sequence[translation.Pair], packed: bool) -> Step:
    import torch
    from torch.nn import functional

    network = torch_network(packed)
    words, lengths = padded([np.array(row[0]) for row in rows])
    signs, after = (np.array([row[at] for row in rows]) for at in (1, 2))

    def cost() -> Any:
        given = [torch.from_numpy(each) for each in (words, lengths, signs)]
        return functional.cross_entropy(network(*given).flatten(0, 1), torch.from_numpy(after).flatten())

    return torch_training(network, cost)


def torch_search(rows: Sequence[Sequence[int]], beam: int) -> Step:
    import torch

    network = torch_network(True)
    with torch.no_grad():
        network.next.bias[translation.END] = NEVER
    words, lengths = (torch.from_numpy(each) for each in padded([np.array(row) for row in rows]))
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


MODELS = {
    model.__name__: model
    for model in (
        lstm_128, lstm_128_equal, sentiment_conv, stacked_lstm, semantic_roles, translation_step, beam_4, beam_4_of_one, greedy,
    )
}  # fmt: skip


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
