# SPDX-License-Identifier: Apache-2.0
"""Translation by an encoder, a decoder with attention, and beam search: dates in words become dates in digits.

./run python examples/programs/machine_translation.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise

import numpy as np

import ngmlir.frontends.fluid as fluid

WORD, HIDDEN = 32, 64
#: Length of dates in words -> how many of a batch have it, about as often as there are.
LENGTHS = {6: 6, 7: 26, 8: 26, 9: 6}
UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
MONTHS = "january february march april may june july august september october november december".split()
WORDS = ["the", "of", "hundred", "and", *UNITS, *TENS, *MONTHS]
START, END = 11, 12
#: What a date is written with, behind digits and the sign between them: where it begins, and where it ends.
SIGNS = "0123456789-"
#: The last digit of a date, and its end.
STEPS = len("1999-12-31") + 1
Pair = tuple[list[int], list[int], list[int]]


def said(number: int) -> list[str]:
    """A number below a hundred in words."""
    if number < len(UNITS):
        return [UNITS[number]]
    return [TENS[number // 10 - 2], *([UNITS[number % 10]] if number % 10 else [])]


def spoken(day: date, form: int) -> list[str]:
    """A date in words, in one of three forms."""
    century, rest = divmod(day.year, 100)
    year = [*said(century), "hundred", *(["and", *said(rest)] if rest else [])]
    if form == 0:
        return ["the", *said(day.day), "of", MONTHS[day.month - 1], *said(century), *said(rest)]
    if form == 1:
        return [MONTHS[day.month - 1], *said(day.day), *year]
    return [*said(day.day), MONTHS[day.month - 1], *year]


def data(count: int = 12_000) -> tuple[list[Pair], list[Pair]]:
    """Dates of the years 1000 to 2999 to train on and, one in ten, to test on: their words, and their signs from the start on and
    up to the end."""
    draw = np.random.default_rng(0)
    first = date(1000, 1, 1)
    days = draw.choice((date(3000, 1, 1) - first).days, count, replace=False)
    number = {word: i for i, word in enumerate(WORDS)}
    pairs: list[Pair] = []
    for after, form in zip(days, draw.integers(0, 3, count), strict=True):
        day = first + timedelta(days=int(after))
        signs = [SIGNS.index(sign) for sign in day.isoformat()]
        pairs.append(([number[w] for w in spoken(day, int(form))], [START, *signs], [*signs, END]))
    cut = count * 9 // 10
    return pairs[:cut], pairs[cut:]


def batches(pairs: Sequence[Pair], draw: np.random.Generator) -> Iterator[list[Pair]]:
    """Batches with as many dates of each length, in any order."""
    by_length = {n: [pair for pair in pairs if len(pair[0]) == n] for n in LENGTHS}
    orders = {n: draw.permutation(len(each)) for n, each in by_length.items()}
    for number in range(min(len(by_length[n]) // count for n, count in LENGTHS.items())):
        chosen = [
            by_length[n][i] for n, k in LENGTHS.items() for i in orders[n][number * k : (number + 1) * k]
        ]
        yield [chosen[i] for i in draw.permutation(len(chosen))]


def encoded(words: fluid.Variable) -> tuple[fluid.Variable, fluid.Variable, fluid.Variable]:
    """Of each word what it means among the others, from LSTMs in both directions; what attention looks at; and the state that decoding
    begins with."""
    embedded = fluid.layers.embedding(words, [len(WORDS), WORD])
    both = [
        fluid.layers.dynamic_lstm(
            fluid.layers.fc(embedded, 4 * HIDDEN), 4 * HIDDEN, is_reverse=is_reverse, use_peepholes=False
        )[0]
        for is_reverse in (False, True)
    ]
    meaning = fluid.layers.concat(both, axis=1)
    keys = fluid.layers.fc(meaning, HIDDEN, bias_attr=False)
    first = fluid.layers.fc(fluid.layers.sequence_first_step(both[1]), HIDDEN, act="tanh")
    return meaning, keys, first


def attended(state: fluid.Variable, meaning: fluid.Variable, keys: fluid.Variable) -> fluid.Variable:
    """What the words of each sequence mean, weighted by how well they fit its state."""
    asked = fluid.layers.fc(state, HIDDEN, param_attr="asked", bias_attr=False)
    fit = fluid.layers.elementwise_add(fluid.layers.sequence_expand(asked, keys), keys, act="tanh")
    weights = fluid.layers.sequence_softmax(fluid.layers.fc(fit, 1, param_attr="fit", bias_attr=False))
    return fluid.layers.sequence_pool(fluid.layers.elementwise_mul(meaning, weights, axis=0), "sum")


def stepped(
    sign: fluid.Variable, state: fluid.Variable, context: fluid.Variable
) -> tuple[fluid.Variable, fluid.Variable]:
    """The state after a sign, and how likely each sign is to follow."""
    embedded = fluid.layers.embedding(sign, [END + 1, WORD], param_attr="sign_vectors")
    mixed = fluid.layers.fc(
        [embedded, context], 3 * HIDDEN, param_attr=["mixed_sign", "mixed_context"], bias_attr="mixed_bias"
    )
    state, _, _ = fluid.layers.gru_unit(mixed, state, 3 * HIDDEN, param_attr="gru", bias_attr="gru_bias")
    return state, fluid.layers.fc(state, END + 1, act="softmax", param_attr="next", bias_attr="next_bias")


def followed(words: fluid.Variable, signs: fluid.Variable) -> fluid.Variable:
    """How likely each sign is to follow each of some signs, where these and all before are known."""
    meaning, keys, first = encoded(words)
    decoder = fluid.layers.DynamicRNN()
    with decoder.block():
        sign = decoder.step_input(signs)
        state = decoder.memory(init=first, need_reorder=True)
        context = attended(state, decoder.static_input(meaning), decoder.static_input(keys))
        new, odds = stepped(sign, state, context)
        decoder.update_memory(state, new)
        decoder.output(odds)
    return decoder()


def searched(
    words: fluid.Variable,
    first_ids: fluid.Variable,
    first_scores: fluid.Variable,
    beam: int,
    steps: int = STEPS,
) -> tuple[fluid.Variable, fluid.Variable]:
    """The best translations of each sequence of words, and how likely each beginning of them is, as a logarithm."""
    layers = fluid.layers
    meaning, keys, first = encoded(words)
    number = layers.zeros([1], "int64")
    most = layers.fill_constant([1], "int64", steps)
    ids, scores, states = (layers.array_write(x, number) for x in (first_ids, first_scores, first))
    more = layers.less_than(number, most)
    with layers.While(more).block():
        sign, score, state = (layers.array_read(each, number) for each in (ids, scores, states))
        # A state has the rows of the step before: a source has several, and each several signs that follow.
        context = attended(
            state, *[layers.sequence_expand(each, score, ref_level=0) for each in (meaning, keys)]
        )
        state, context = (layers.sequence_expand(each, score) for each in (state, context))
        state, odds = stepped(sign, state, context)
        best, candidates = layers.topk(odds, k=beam)
        whole = layers.elementwise_add(layers.log(best), score, axis=0)
        sign, score = layers.beam_search(sign, score, candidates, whole, beam_size=beam, end_id=END)
        layers.increment(number)
        for each, array in ((sign, ids), (score, scores), (state, states)):
            layers.array_write(each, number, array=array)
        goes_on = layers.logical_not(layers.is_empty(sign))
        layers.assign(layers.logical_and(layers.less_than(number, most), goes_on), more)
    return layers.beam_search_decode(ids, scores, beam_size=beam, end_id=END)


def search(beam: int) -> tuple[fluid.Program, list[str], tuple[fluid.Variable, fluid.Variable]]:
    """A program that translates, what it is fed, and what it gives. Its parameters have the names of those that are trained, since it
    creates them in the same order."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        words = fluid.layers.data("words", [1], dtype="int64", lod_level=1)
        first_ids = fluid.layers.data("first_ids", [1], dtype="int64", lod_level=2)
        first_scores = fluid.layers.data("first_scores", [1], lod_level=2)
        return program, ["words", "first_ids", "first_scores"], searched(words, first_ids, first_scores, beam)


def begun(dates: Sequence[Sequence[int]]) -> dict[str, fluid.LoDTensor]:
    """What a search is fed: the words of each date, and one hypothesis for each, which is empty."""
    place, ones = fluid.CPUPlace(), [[1] * len(dates)] * 2
    words = np.concatenate(dates).astype(np.int64).reshape(-1, 1)
    return {
        "words": fluid.create_lod_tensor(words, [[len(each) for each in dates]], place),
        "first_ids": fluid.create_lod_tensor(np.full((len(dates), 1), START, np.int64), ones, place),
        "first_scores": fluid.create_lod_tensor(np.zeros((len(dates), 1), np.float32), ones, place),
    }


def hypotheses(found: fluid.LoDTensor) -> list[list[list]]:
    """Of each source what its hypotheses hold, the best first."""
    sources, cuts = found.lod()
    each = np.split(np.array(found), cuts[1:-1])
    return [[row.tolist() for row in each[a:b]] for a, b in pairwise(sources)]


def main(
    passes: int = 3, beam: int = 4, place: fluid.Place | None = None, save_to: str | None = None
) -> tuple[float, float]:
    """Trains for some passes; gives the share of dates to test on that are translated without a mistake, by a beam search and by the
    likeliest sign in each step. What translates is saved to a folder."""
    train, test = data()
    main_program, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        ragged = [
            fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("words", "signs", "after")
        ]
        cost = fluid.layers.mean(fluid.layers.cross_entropy(followed(*ragged[:2]), ragged[2]))
        rate = fluid.layers.exponential_decay(0.005, decay_steps=150, decay_rate=0.5)
        fluid.optimizer.Adam(rate).minimize(cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    feeder = fluid.DataFeeder(ragged, program=main_program)
    draw = np.random.default_rng(1)

    def share(beam: int) -> float:
        program, _, (ids, _) = search(beam)
        right: list[bool] = []
        for pairs in batches(test, draw):
            (found,) = exe.run(
                program, feed=begun([words for words, *_ in pairs]), fetch_list=[ids], return_numpy=False
            )
            right += [
                best == [START, *signs]
                for (best, *_), (*_, signs) in zip(hypotheses(found), pairs, strict=True)
            ]
        return float(np.mean(right))

    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            for pairs in batches(train, draw):
                exe.run(main_program, feed=feeder.feed(pairs), fetch_list=[cost])
        shares = share(beam), share(1)
        if save_to is not None:
            program, feeds, found = search(beam)
            fluid.io.save_inference_model(save_to, feeds, [*found], exe, program)
    return shares


if __name__ == "__main__":
    print("{:.1%} of dates translated by beam search, {:.1%} by the likeliest signs".format(*main()))
