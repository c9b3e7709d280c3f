# SPDX-License-Identifier: Apache-2.0
"""A program that is fed batches of any lengths is compiled once for all of them, with the first one."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir import compiler
from ngmlir.frontends.fluid import executor as executors
from ngmlir.frontends.fluid import layers, nets
from ngmlir.support.diagnostics import UserError

WORDS, KINDS, WIDTH = 11, 4, 8
Feed = dict[str, Any]


class Case(NamedTuple):
    """What a program fetches, a batch for it, and how many programs it is: a length that depends on values needs one more."""

    build: Callable[[], Sequence[fluid.Variable]]
    batch: Callable[[np.random.Generator], Feed]
    programs: int


def ragged(rows: Sequence[np.ndarray[Any, Any]]) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.concatenate(rows), [[len(each) for each in rows]], None)


def words(draw: np.random.Generator, lengths: Sequence[int], below: int = WORDS) -> fluid.LoDTensor:
    return ragged([draw.integers(0, below, (n, 1)) for n in lengths])


def lengths(draw: np.random.Generator, count: int | None = None) -> list[int]:
    """Of some sequences, the first of which have several rows, and others none or one."""
    count = int(draw.integers(2, 9)) if count is None else count
    return [int(draw.integers(2, 12)), *draw.integers(0, 12, count - 1).tolist()]


def text() -> fluid.Variable:
    return layers.data("text", [1], dtype="int64", lod_level=1)


def trained(loss: fluid.Variable, optimizer: Any) -> Sequence[fluid.Variable]:
    optimizer.minimize(loss)
    return [loss]


def classifier(
    network: Callable[[fluid.Variable], fluid.Variable], optimizer: Callable[[], Any], sparse: bool = False
) -> Callable[[], Sequence[fluid.Variable]]:
    def build() -> Sequence[fluid.Variable]:
        embedded = layers.embedding(text(), [WORDS, WIDTH], is_sparse=sparse)
        guess = layers.fc(network(embedded), 2, act="softmax")
        label = layers.data("label", [1], dtype="int64")
        return trained(layers.mean(layers.cross_entropy(guess, label)), optimizer())

    return build


def labelled(draw: np.random.Generator) -> Feed:
    each = lengths(draw)
    return {"text": words(draw, each), "label": draw.integers(0, 2, (len(each), 1))}


def lstm(x: fluid.Variable) -> fluid.Variable:
    return layers.sequence_pool(layers.dynamic_lstm(layers.fc(x, 4 * WIDTH), 4 * WIDTH)[0], "max")


def gru(x: fluid.Variable) -> fluid.Variable:
    return layers.sequence_last_step(layers.dynamic_gru(layers.fc(x, 3 * WIDTH), WIDTH, is_reverse=True))


def convolution(x: fluid.Variable) -> fluid.Variable:
    parts = [nets.sequence_conv_pool(x, 5, n, act="tanh", pool_type="sqrt") for n in (3, 4)]
    return layers.concat(parts, axis=1)


def attention(x: fluid.Variable) -> fluid.Variable:
    weights = layers.sequence_softmax(layers.fc(x, 1))
    context = layers.sequence_pool(layers.elementwise_mul(x, weights, axis=0), "sum")
    mixed = layers.elementwise_add(layers.sequence_expand(context, x), layers.row_conv(x, 2))
    return layers.sequence_pool(mixed, "average")


def shrinking(x: fluid.Variable) -> fluid.Variable:
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        state = rnn.memory(shape=[WIDTH], value=0.0)
        new = layers.fc([word, state], WIDTH, act="tanh")
        rnn.update_memory(state, new)
        rnn.output(new)
    return layers.sequence_last_step(rnn())


def measured(
    rows: int = 3000, optimizer: Callable[[], Any] = lambda: fluid.optimizer.Adam(0.01)
) -> Sequence[fluid.Variable]:
    """A table of which a batch has few rows, and a share of what is told right."""
    embedded = layers.embedding(text(), [rows, WIDTH])
    guess = layers.fc(layers.sequence_pool(embedded, "sum"), 2, act="softmax")
    label = layers.data("label", [1], dtype="int64")
    share = layers.accuracy(guess, label)
    return [*trained(layers.mean(layers.cross_entropy(guess, label)), optimizer()), share]


def random_field() -> Sequence[fluid.Variable]:
    kind = layers.data("kind", [1], dtype="int64", lod_level=1)
    emission = layers.fc(layers.embedding(text(), [WORDS, WIDTH]), KINDS)
    cost = layers.linear_chain_crf(emission, kind, param_attr=fluid.ParamAttr(name="crf"))
    return trained(layers.mean(cost), fluid.optimizer.Adam(0.01))


def tagged(draw: np.random.Generator) -> Feed:
    each = lengths(draw)
    return {"text": words(draw, each), "kind": words(draw, each, KINDS)}


def two_sides() -> Sequence[fluid.Variable]:
    """As many sequences on both sides, of other lengths."""
    source, target = text(), layers.data("target", [1], dtype="int64", lod_level=1)
    meaning = layers.dynamic_gru(layers.fc(layers.embedding(source, [WORDS, WIDTH]), 3 * WIDTH), WIDTH)
    signs, first = layers.embedding(target, [WORDS, WIDTH]), layers.sequence_last_step(meaning)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(signs)
        state = rnn.memory(init=first, need_reorder=True)
        whole = rnn.static_input(meaning)
        fit = layers.fc(layers.elementwise_add(layers.sequence_expand(state, whole), whole, act="tanh"), 1)
        context = layers.sequence_pool(
            layers.elementwise_mul(whole, layers.sequence_softmax(fit), axis=0), "sum"
        )
        new = layers.fc([word, state, context], WIDTH, act="tanh")
        rnn.update_memory(state, new)
        rnn.output(layers.fc(new, WORDS, act="softmax"))
    return trained(layers.mean(layers.cross_entropy(rnn(), target)), fluid.optimizer.SGD(0.1))


def translated(draw: np.random.Generator) -> Feed:
    each = [max(1, n) for n in lengths(draw)]
    others = [max(1, n) for n in lengths(draw, len(each))]
    return {"text": words(draw, each), "target": words(draw, others)}


def padded() -> Sequence[fluid.Variable]:
    x = layers.data("x", [3], lod_level=1)
    whole = layers.sequence_pad(layers.fc(x, WIDTH), layers.fill_constant([1], "float32", 0.0))
    fit = layers.softmax(layers.matmul(whole, whole, transpose_y=True))
    return trained(layers.mean(layers.matmul(fit, whole)), fluid.optimizer.Adam(0.01))


def numbers(draw: np.random.Generator) -> Feed:
    return {"x": ragged([draw.normal(size=(n, 3)).astype(np.float32) for n in lengths(draw)])}


def plain() -> Sequence[fluid.Variable]:
    x, y = layers.data("x", [WIDTH]), layers.data("y", [1], dtype="int64")
    hidden = layers.dropout(layers.batch_norm(layers.fc(x, WIDTH, act="relu")), 0.25, seed=3)
    loss = layers.mean(layers.cross_entropy(layers.fc(hidden, KINDS, act="softmax"), y))
    return trained(loss, fluid.optimizer.Momentum(0.1, 0.9))


def rows(draw: np.random.Generator) -> Feed:
    count = int(draw.integers(2, 40))
    return {
        "x": draw.normal(size=(count, WIDTH)).astype(np.float32),
        "y": draw.integers(0, KINDS, (count, 1)),
    }


def searched() -> Sequence[fluid.Variable]:
    """A beam search of a few steps."""
    ids, scores = (
        layers.data(n, [1], dtype=t, lod_level=2) for n, t in (("ids", "int64"), ("scores", "float32"))
    )
    number, most = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", 3)
    state = layers.fc(layers.sequence_pool(layers.embedding(text(), [WORDS, WIDTH]), "sum"), WIDTH)
    arrays = [layers.array_write(x, number) for x in (ids, scores, state)]
    more = layers.less_than(number, most)
    with layers.While(more).block():
        sign, score, state = (layers.array_read(each, number) for each in arrays)
        state = layers.sequence_expand(state, score)
        embedded = layers.embedding(sign, [WORDS, WIDTH], param_attr="signs")
        state = layers.fc([embedded, state], WIDTH, act="tanh", param_attr=["a", "b"], bias_attr="c")
        odds = layers.fc(state, WORDS, act="softmax", param_attr="d", bias_attr="e")
        best, candidates = layers.topk(odds, k=3)
        whole = layers.elementwise_add(layers.log(best), score, axis=0)
        sign, score = layers.beam_search(sign, score, candidates, whole, beam_size=3, end_id=0)
        layers.increment(number)
        for value, array in zip((sign, score, state), arrays, strict=True):
            layers.array_write(value, number, array=array)
        layers.less_than(number, most, cond=more)
    return layers.beam_search_decode(*arrays[:2], beam_size=3, end_id=0)


def asked(draw: np.random.Generator) -> Feed:
    each = lengths(draw)
    ones = [[1] * len(each)] * 2
    return {
        "text": words(draw, each),
        "ids": fluid.create_lod_tensor(np.full((len(each), 1), 1, np.int64), ones, None),
        "scores": fluid.create_lod_tensor(np.zeros((len(each), 1), np.float32), ones, None),
    }


def adam() -> Any:
    return fluid.optimizer.Adam(0.01)


def sgd() -> Any:
    return fluid.optimizer.SGD(0.05)


CASES = {
    "lstm": Case(classifier(lstm, adam), labelled, 2),
    "gru with sparse rows": Case(classifier(gru, sgd, sparse=True), labelled, 2),
    "convolution with sparse rows": Case(classifier(convolution, adam, sparse=True), labelled, 1),
    "attention": Case(classifier(attention, sgd), labelled, 1),
    "dynamic rnn": Case(classifier(shrinking, adam), labelled, 2),
    "large table, accuracy": Case(measured, labelled, 1),
    "random field": Case(random_field, tagged, 2),
    "translation": Case(two_sides, translated, 3),
    "padded": Case(padded, numbers, 2),
    "rows": Case(plain, rows, 1),
    "beam search": Case(searched, asked, 1),
}


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled for the CPU: programs for lengths `alone`, or for `all`."""
    seen: list[str] = []
    every, alone = compiler.compile_open, executors.compiled

    def for_all(*given: Any, **named: Any) -> Any:
        seen.append("all")
        return every(*given, **named)

    def for_some(program: Any, target: str, *more: Any) -> Any:
        seen.extend(["alone"] * (target == "cpu"))
        return alone(program, target, *more)

    monkeypatch.setattr(compiler, "compile_open", for_all)
    monkeypatch.setattr(executors, "compiled", for_some)
    return seen


class Runs:
    """A program on the CPU, and in NumPy, each with its scope."""

    def __init__(self, case: Case):
        self.main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = self.main.random_seed = 7
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.fetches = case.build()
        self.scopes = [fluid.Scope(), fluid.Scope()]
        self.executors = [fluid.Executor(fluid.CPUPlace()), fluid.Executor(fluid.NumpyPlace())]
        for scope in self.scopes:
            self.executors[0].run(startup, scope=scope)

    def run(self, which: int, feed: Feed) -> list[np.ndarray[Any, Any]]:
        found = self.executors[which].run(
            self.main, feed, self.fetches, scope=self.scopes[which], return_numpy=False
        )
        return [np.array(each) for each in found]


@pytest.mark.parametrize("name", CASES)
def test_no_batch_after_the_first_compiles(name: str, compilations: list[str]) -> None:
    case, draw = CASES[name], np.random.default_rng(3)
    runs = Runs(case)
    compilations.clear()
    for number in range(60):
        batch = case.batch(draw)
        found = runs.run(0, batch)
        # Without sequences batches may all have one size: the first one has a program of its own.
        alone = ["alone"] * (name == "rows")
        assert compilations == alone + ["all"] * (case.programs if number or not alone else 0)
        if number < 8:
            for each, wanted in zip(found, runs.run(1, batch), strict=True):
                np.testing.assert_allclose(each, wanted, rtol=2e-4, atol=2e-5)


def test_any_number_of_sequences_is_packed_by_the_same_code(compilations: list[str]) -> None:
    runs, draw = Runs(CASES["lstm"]), np.random.default_rng(4)
    compilations.clear()
    for count in (3, 31, 32, 33, 2, 70, 200):
        batch = {"text": words(draw, lengths(draw, count)), "label": draw.integers(0, 2, (count, 1))}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert compilations == ["all"] * 2


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_batches_of_few_and_of_many_rows_of_a_table_share_code(
    optimizer: str, compilations: list[str]
) -> None:
    """Only the rows of a batch are updated where they are few for the usual lengths: it is as right for others."""
    case = Case(lambda: measured(600, {"sgd": sgd, "adam": adam}[optimizer]), labelled, 1)
    runs, draw = Runs(case), np.random.default_rng(5)
    compilations.clear()
    for count in (8, 9, 12, 20, 60, 300):
        batch = {"text": words(draw, lengths(draw, count), 600), "label": draw.integers(0, 2, (count, 1))}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        for each, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(each, expected, rtol=2e-4, atol=2e-5)
    assert compilations == ["all"]


def test_one_sequence_and_one_row_share_code(compilations: list[str]) -> None:
    """Lengths of 1: of sequences, of rows, of the longest one."""
    runs, draw = Runs(CASES["lstm"]), np.random.default_rng(5)
    compilations.clear()
    for _ in range(2):
        for each in ([3, 4], [2, 9, 1], [5], [1, 1], [1], [1, 0], [7, 2, 0, 4], [6], [1, 1, 1]):
            batch = {"text": words(draw, each), "label": draw.integers(0, 2, (len(each), 1))}
            found, wanted = (runs.run(which, batch) for which in (0, 1))
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert compilations == ["all"] * 2


def test_a_first_batch_of_one_sequence_has_a_program_of_its_own(compilations: list[str]) -> None:
    runs, draw = Runs(CASES["lstm"]), np.random.default_rng(5)
    compilations.clear()
    for each in ([1], [5], [3, 4], [1], [2, 2], [7], [1, 1]):
        batch = {"text": words(draw, each), "label": draw.integers(0, 2, (len(each), 1))}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    # Nothing is open in the first batch, one sequence has any number of rows in the second, and the third is for all.
    assert compilations == ["alone"] * 2 + ["all"] * 4


@pytest.mark.parametrize("name", sorted({*CASES} - {"rows"}))
def test_batches_of_one_sequence(name: str, monkeypatch: pytest.MonkeyPatch, compilations: list[str]) -> None:
    runs, draw = Runs(CASES[name]), np.random.default_rng(7)
    runs.run(0, CASES[name].batch(draw))
    runs.run(1, CASES[name].batch(np.random.default_rng(7)))
    compilations.clear()
    for each in ([1], [4], [1, 1]):
        monkeypatch.setitem(globals(), "lengths", lambda *_, each=each: each)
        batch = CASES[name].batch(draw)
        for found, wanted in zip(runs.run(0, batch), runs.run(1, batch), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert not compilations


def test_lengths_that_were_the_same_by_chance_may_differ(compilations: list[str]) -> None:
    runs, draw = Runs(CASES["translation"]), np.random.default_rng(6)
    for source, target in (
        ([3, 4], [4, 3]),
        ([5, 1], [2, 4]),
        ([6, 3], [2, 2]),
        ([4, 8], [9, 2]),
        ([2, 2], [2, 2]),
    ):
        batch = {"text": words(draw, source), "target": words(draw, target)}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_computed_lengths_that_were_those_of_inputs_by_chance(compilations: list[str]) -> None:
    """Sequences of about one length are not packed: there are as many lanes as sequences, which the program for all does not take for granted."""
    runs, draw = Runs(CASES["translation"]), np.random.default_rng(6)
    for lengths in ([5, 5, 5], [4, 4, 4, 4], [14, 1, 1, 1, 1, 1, 1, 1, 1, 1], [9, 2, 3, 2, 1]):
        batch = {"text": words(draw, lengths), "target": words(draw, lengths)}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
        if len(lengths) == 4:
            compilations.clear()
    assert not compilations


def test_lengths_that_are_equal_in_the_first_batch_only_have_names_of_their_own(
    compilations: list[str],
) -> None:
    """The program needs as many sequences on both sides, and not as many rows."""
    runs, draw = Runs(CASES["translation"]), np.random.default_rng(6)
    compilations.clear()
    for source, target in (
        ([3, 4, 2], [4, 3, 2]),
        ([5, 3], [2, 4]),
        ([6, 3, 2], [2, 2, 4]),
        ([9] * 9, [2] * 9),
    ):
        batch = {"text": words(draw, source), "target": words(draw, target)}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert compilations == ["all"] * CASES["translation"].programs


def test_lengths_that_a_program_compares_with_numbers_have_programs_of_their_own(
    compilations: list[str],
) -> None:
    """As many sequences as a matrix has rows, which code for all lengths does not serve: what computes their lanes is not for all
    lengths either."""

    def build() -> Sequence[fluid.Variable]:
        x = layers.data("x", [4], lod_level=1)
        first = layers.data("first", [3, 4], append_batch_size=False)
        rnn = layers.DynamicRNN()
        with rnn.block():
            step, state = rnn.step_input(x), rnn.memory(init=first)
            new = layers.tanh(step + state * first + layers.reduce_sum(step) * 0.1)
            rnn.update_memory(state, new)
            rnn.output(new)
        return [layers.sequence_last_step(rnn())]

    runs, draw = Runs(Case(build, numbers, 0)), np.random.default_rng(2)
    compilations.clear()
    for each in ([2, 3, 1], [4, 4, 4], [2, 3, 1], [1, 7, 2]):
        x = ragged([draw.normal(size=(n, 4)).astype(np.float32) for n in each])
        batch = {"x": x, "first": draw.normal(size=(3, 4)).astype(np.float32)}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert "alone" in compilations


def test_a_number_that_follows_from_a_computed_length_is_one_program() -> None:
    """The length is in no type, and only the kernel that writes the number reads it."""

    def build() -> Sequence[fluid.Variable]:
        x = layers.data("x", [3], lod_level=1)
        return [layers.max_sequence_len(layers.lod_rank_table(x)), layers.sequence_pool(x, "sum")]

    runs, draw = Runs(Case(build, numbers, 0)), np.random.default_rng(2)
    for _ in range(4):
        batch = numbers(draw)
        for found, wanted in zip(runs.run(0, batch), runs.run(1, batch), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_places_of_true_elements_are_one_program(compilations: list[str]) -> None:
    def build() -> Sequence[fluid.Variable]:
        x = layers.data("x", [4])
        return [layers.where(layers.greater_than(x, layers.zeros_like(x)))]

    runs, draw = Runs(Case(build, rows, 0)), np.random.default_rng(2)
    compilations.clear()
    for count in (5, 9, 2, 40, 3, 17):
        batch = {"x": draw.normal(size=(count, 4)).astype(np.float32)}
        found, wanted = (runs.run(which, batch) for which in (0, 1))
        np.testing.assert_array_equal(found, wanted)
    # What counts them, tried for the first batch alone; and both parts for all lengths.
    assert compilations == ["alone", "all", "all"]


def test_a_number_of_a_row_that_is_not_there_is_told_for_all_lengths() -> None:
    runs, draw = Runs(CASES["lstm"]), np.random.default_rng(7)
    for _ in range(3):
        runs.run(0, CASES["lstm"].batch(draw))
    batch = {"text": ragged([np.array([[1], [WORDS]])] * 2), "label": np.zeros((2, 1), np.int64)}
    with pytest.raises(ng.UserError, match=f"there is no row {WORDS}"):
        runs.run(0, batch)


def test_batches_of_other_lengths_leave_no_memory_behind() -> None:
    case, draw = CASES["gru with sparse rows"], np.random.default_rng(8)
    runs = Runs(case)
    for _ in range(150):
        runs.run(0, case.batch(draw))
    gc.collect()
    tracemalloc.start()
    runs.run(0, case.batch(draw))
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        runs.run(0, case.batch(draw))
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # What is kept of the lengths used last takes the place of what was there before measuring began.
    assert after - before < 2_000_000


@pytest.mark.parametrize("place", [fluid.NumpyPlace(), fluid.CPUPlace()], ids=["numpy", "cpu"])
def test_shapes_and_lengths_of_images_may_be_computed(place: Any) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [4, 6], stop_gradient=False)
        shape = fluid.layers.data("shape", [3], dtype="int32", append_batch_size=False)
        images = fluid.layers.data("images", [2, 5, 7])
        lengths = fluid.layers.data("lengths", [2], dtype="int32", append_batch_size=False)
        made = fluid.layers.reshape(x, [-1, 2, 12], actual_shape=shape)
        larger, wanted = (fluid.layers.resize_bilinear(images, n) for n in (lengths, [10, 14]))
        alike = fluid.layers.resize_bilinear(images, fluid.layers.slice(fluid.layers.shape(x), [0], [1], [3]))
        fluid.backward.append_backward(fluid.layers.mean(made * made))
    assert (made.shape, larger.shape) == ((-1, 2, 12), (-1, 2, -1, -1))
    executor = fluid.Executor(place)
    array = np.arange(72, dtype="f").reshape(3, 4, 6)
    feed = {"x": array, "images": np.random.default_rng(0).random((2, 2, 5, 7), "f")}

    def run(shape: list[int], lengths: list[int]) -> list[Any]:
        said = {"shape": np.array(shape, "i4"), "lengths": np.array(lengths, "i4")}
        return executor.run(main, feed={**feed, **said}, fetch_list=[made, "x@GRAD", larger, wanted, alike])

    for said, expected in (([3, 2, 12], (3, 2, 12)), ([0, -1, 8], (3, 3, 8)), ([1, 72, -1], (1, 72, 1))):
        found, gradient, first, second, third = run(said, [10, 14])
        assert np.array_equal(found, array.reshape(expected))
        assert np.allclose(gradient, 2 * array / 72)
        assert np.array_equal(first, second) and third.shape == (2, 2, 4, 6)
    with pytest.raises(UserError, match="the computed shape does not have the 72 elements of X"):
        run([5, 2, 1], [10, 14])
    with pytest.raises(UserError, match="one row and column at least"):
        run([3, 2, 12], [0, 14])


def test_a_length_that_may_be_a_known_one_stays_open() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x, rows = (fluid.layers.data(name, [4]) for name in ("x", "rows"))
        made = fluid.layers.scatter(x, fluid.layers.assign(np.array([2, 0], "i4")), rows)
        assert made.shape == (-1, 4)


@pytest.mark.parametrize(
    "rows, shape", [([4], [6, 4]), ([2, 3], [12, 3]), ([3], [6, 3]), ([2, 2], [3, 8]), ([4], [24])]
)
def test_rows_take_a_shape_that_is_known(rows: list[int], shape: list[int]) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", rows)
        made = fluid.layers.reshape(x, shape)
        assert made.shape == tuple(shape)
        array = np.arange(np.prod(shape), dtype="f4").reshape(-1, *rows)
        (found,) = fluid.Executor().run(feed={"x": array}, fetch_list=[made])
        assert np.array_equal(found, array.reshape(shape))
        with pytest.raises(UserError, match="do not have the shape"):
            fluid.Executor().run(feed={"x": array[1:]}, fetch_list=[made])
        with pytest.raises(UserError, match="do not have the shape"):
            fluid.layers.reshape(x, [7, 5])


@pytest.mark.parametrize(
    "given, asked, shape",
    [
        ([14, 1], [-1, 7], (2, 7)),
        ([154, 10], [-1, 7, 11], (20, 7, 11)),
        ([3, 26, 10], [0, -1, 13], (3, 20, 13)),
    ],
)
def test_a_length_may_be_a_multiple_of_what_a_shape_asks_for(
    given: list[int], asked: list[int], shape: tuple[int, ...]
) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [*[-1] * (len(given) - 1), given[-1]], append_batch_size=False)
        made = fluid.layers.reshape(x, asked)
        assert made.shape == tuple([n or -1 for n in asked])
        array = np.arange(np.prod(given), dtype="f4").reshape(given)
        (found,) = fluid.Executor().run(feed={"x": array}, fetch_list=[made])
        assert np.array_equal(found, array.reshape(shape))


def test_parts_and_rows_of_lengths_that_are_not_known() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [10], lod_level=1)
        assert [part.shape for part in fluid.layers.split(x, 7, dim=0)] == [(-1, 10)] * 7
        assert fluid.layers.sequence_reshape(x, 7).shape == (-1, 7)


def test_results_of_any_length_stay_in_the_scope() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [3])
        last = fluid.layers.scale(x, 2.0)
        last.persistable = True
        scope, executor = fluid.Scope(), fluid.Executor()
        for rows in (4, 5, 1, 7, 7, 2):
            array = np.random.default_rng(rows).random((rows, 3), "f4")
            (found,) = executor.run(feed={"x": array}, fetch_list=[last], scope=scope)
            held = np.array(scope.find_var(last.name).get_tensor())
            assert np.array_equal(found, held) and np.array_equal(found, array * 2)
