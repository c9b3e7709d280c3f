# SPDX-License-Identifier: Apache-2.0
"""Loops and layers along a ragged axis: each sequence gets what it gets alone along an ordinary axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import compiler
from ngmlir.frontends.neon import (
    GRU,
    LSTM,
    Activation,
    Adam,
    Affine,
    BatchNorm,
    BiRNN,
    Convolution,
    Dropout,
    Layer,
    Logistic,
    LookupTable,
    Pooling,
    Rectlin,
    Recurrent,
    Sequential,
    Softmax,
    Tanh,
    ax,
)

TARGETS = ["numpy", "cpu", "cuda-sim"]
LENGTHS = [[3, 0, 9, 1, 4], [2], [0], [], [5, 8, 7, 6, 2], [1, 1, 1]]
F, WORDS, HIDDEN = ng.make_axis(3, "F"), 7, 4
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def any_batch() -> Iterator[None]:
    """Batches of any length, whatever programs before have set."""
    before, ax.N.length = ax.N.length, None
    yield
    ax.N.length = before


def started(axes: Any) -> Array:
    """Weights that follow from their shape."""
    shape = tuple(axis.length for axis in axes)
    return np.cos(np.arange(np.prod(shape)) * 1.7 + len(shape)).reshape(shape) * 0.5


def gates() -> dict[str, Any]:
    return {"activation": Tanh(), "gate_activation": Logistic()}


#: What is made of x (F, steps); it gives a row for each step, or one for each sequence.
LAYERS: dict[str, Callable[[], Layer]] = {
    "rnn": lambda: Recurrent(HIDDEN, started, activation=Tanh()),
    "rnn backward": lambda: Recurrent(HIDDEN, started, activation=Tanh(), backward=True),
    "rnn last": lambda: Recurrent(HIDDEN, started, activation=Tanh(), return_sequence=False),
    "lstm": lambda: LSTM(HIDDEN, started, **gates()),
    "lstm backward last": lambda: LSTM(HIDDEN, started, **gates(), backward=True, return_sequence=False),
    "gru backward": lambda: GRU(HIDDEN, started, backward=True),
    "gru last": lambda: GRU(HIDDEN, started, return_sequence=False),
    "both": lambda: BiRNN(HIDDEN, started, activation=Tanh(), reset_cells=True, concat_out=True),
    "sum of both": lambda: BiRNN(
        HIDDEN, started, activation=Tanh(), reset_cells=True, sum_out=True, return_sequence=False
    ),
    "stacked": lambda: Sequential(
        [
            Affine(started, nout=5, activation=Rectlin()),
            LSTM(HIDDEN, started, **gates()),
            Recurrent(3, started, activation=Tanh(), backward=True),
            Activation(Logistic()),
            Affine(started, nout=2, activation=Softmax()),
        ]
    ),
}


def outputs(layer: Layer, x: ng.Tensor) -> list[ng.Tensor]:
    """What a layer gives, and the gradients of its squares by what comes in and by a weight."""
    made = layer(x)
    cost = ng.sum(ng.square(made) * 0.5, out_axes=())
    return [made, ng.deriv(cost, x)]


def alone(make: Callable[[], Layer], x: Array) -> list[Array]:
    """The outputs of one sequence (F, steps) along REC."""
    ax.N.length = 1
    given = ng.placeholder([F, ng.make_axis(x.shape[1], "REC"), ax.N])
    found = ng.compile(outputs(make(), given), [given], target="numpy")(x[:, :, None])
    ax.N.length = None
    return [each[..., 0] for each in found]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_each_sequence_gets_what_it_gets_alone(name: str, target: str) -> None:
    make, rng = LAYERS[name], np.random.default_rng(1)
    x = ng.ragged([F, ng.ragged_axis(ax.N, "T")], name="x")
    run = ng.compile(outputs(make(), x), [x], target=target)
    for lengths in LENGTHS if target != "cuda-sim" else LENGTHS[:1]:
        batch = [rng.normal(size=(3, n)) for n in lengths]
        values, gradients = run(batch)
        for i, part in enumerate(batch):
            found = values[i] if isinstance(values, list) else values[:, i]
            if not part.shape[1]:
                assert not np.any(found), "an empty sequence ends as it begins"
                continue
            wanted = alone(make, part)
            np.testing.assert_allclose(found, wanted[0], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(gradients[i], wanted[1], rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("name", ["stacked", "lstm backward last", "both"])
def test_gradients_are_finite_differences(name: str, target: str) -> None:
    x, layer = (
        ng.ragged([F, ng.ragged_axis(ax.N, "T")], dtype="f64"),
        Sequential([LAYERS[name]()], dtype="f64"),
    )
    cost = ng.sum(ng.square(layer(x)), out_axes=())
    weight = next(each for each in layer.variables.values() if len(each.axes) == 2)
    run = ng.compile([cost, ng.deriv(cost, x), ng.deriv(cost, weight)], [x, weight], target=target)
    rng = np.random.default_rng(2)
    batch = [rng.normal(size=(3, n)) for n in (2, 0, 4, 1)]
    at = rng.normal(size=weight.axes.lengths) * 0.3
    _, by_x, by_weight = run(batch, at)
    for i, place in ((0, (1, 1)), (2, (0, 0)), (2, (2, 3)), (3, (0, 0)), (None, (0, 0)), (None, (2, 1))):
        ends = []
        for step in (1e-5, -1e-5):
            changed, weights = [each.copy() for each in batch], at.copy()
            (weights if i is None else changed[i])[place] += step
            ends.append(float(run(changed, weights)[0]))
        found = by_weight[place] if i is None else by_x[i][place]
        assert abs((ends[0] - ends[1]) / 2e-5 - found) < 1e-7


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_scan_goes_along_each_sequence(target: str, reverse: bool) -> None:
    T = ng.ragged_axis(ax.N, "T")
    x, w, h = ng.ragged([T, F]), ng.ragged([T], dtype="int32"), ng.placeholder([F])

    def step(carried: Any, rows: Any) -> Any:
        (state, count), (row, number) = carried, rows
        return (ng.tanh(state * 0.5 + row), count + number), (state + row, count, ng.constant(7.0))

    (last, count), (sums, counts, sevens) = ng.scan(step, (h, 0), (x, w), T, reverse=reverse)
    run = ng.compile([last, count, sums, counts, sevens], [x, w, h], target=target)
    rng = np.random.default_rng(3)
    for lengths in LENGTHS if target != "cuda-sim" else LENGTHS[:1]:
        batch = [rng.normal(size=(n, 3)) for n in lengths]
        numbers = [rng.integers(0, 9, n) for n in lengths]
        start = rng.normal(size=3)
        found = run(batch, numbers, start)
        for i, (rows, each) in enumerate(zip(batch, numbers, strict=True)):
            state, total, wanted = start, 0, []
            for t in range(len(rows))[:: -1 if reverse else 1]:
                wanted.insert(0 if reverse else t, (state + rows[t], total))
                state, total = np.tanh(state * 0.5 + rows[t]), total + each[t]
            np.testing.assert_allclose(found[0][i], state, rtol=1e-5, atol=1e-6)
            assert found[1][i] == total and found[4][i].tolist() == [7] * len(rows)
            assert found[3][i].tolist() == [c for _, c in wanted]
            if wanted:
                np.testing.assert_allclose(found[2][i], [s for s, _ in wanted], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_functions_of_recurrent_networks(target: str) -> None:
    """`ng.rnn`, `ng.lstm` and `ng.gru`, states included, against the same along an ordinary axis."""
    H, P, rng = ng.make_axis(HIDDEN, "H"), ng.make_axis(HIDDEN, "P"), np.random.default_rng(4)
    T, R = ng.ragged_axis(ax.N, "T"), ng.make_axis(name="REC")
    x, y = ng.ragged([T, F]), ng.placeholder([R, F])
    start, first = ng.placeholder([ax.N, H]), ng.placeholder([H])
    made: list[Any] = []
    for given, initial in ((x, start), (y, first)):
        for function, count in ((ng.rnn, 0), (ng.lstm, 4), (ng.gru, 3)):
            extra = [ng.make_axis(count, "G")] if count else []
            weights = [
                ng.constant(started(axes), axes) for axes in ([*extra, H, F], [*extra, H, P], [*extra, H])
            ]
            for backward in (False, True):
                sequence, state = function(
                    given, *weights, initial=initial, backward=backward, return_state=True
                )
                made += [sequence, *(state if isinstance(state, tuple) else (state,))]
    half = len(made) // 2
    whole = ng.compile(made[:half], [x, start], target=target)
    single = ng.compile(made[half:], [y, first], target="numpy")
    for lengths in LENGTHS:
        batch, states = [rng.normal(size=(n, 3)) for n in lengths], rng.normal(size=(len(lengths), HIDDEN))
        found = whole(batch, states)
        for i, part in enumerate(batch):
            if not len(part):
                assert np.array_equal(found[1][i], states[i].astype(np.float32)), "its state stays"
                continue
            for a, b in zip(found, single(part, states[i]), strict=True):
                np.testing.assert_allclose(a[i], b, rtol=1e-6, atol=1e-6)


def test_states_go_on_from_batch_to_batch() -> None:
    ax.N.length = 3
    x = ng.ragged([F, ng.ragged_axis(ax.N, "T")])
    parts, rng = [(3, 0, 2), (1, 4, 0), (2, 2, 2)], np.random.default_rng(5)
    batches = [[rng.normal(size=(3, n)) for n in lengths] for lengths in parts]
    for make in (Recurrent, GRU, LSTM):
        settings = gates() if make is LSTM else {}
        on = ng.compile(make(HIDDEN, started, reset_cells=False, **settings)(x), [x])
        whole = ng.compile(make(HIDDEN, started, **settings)(x), [x])
        found = [on(batch) for batch in batches]
        wanted = whole([np.concatenate(each, axis=1) for each in zip(*batches, strict=True)])
        for i, rows in enumerate(wanted):
            joined = np.concatenate([each[i] for each in found], axis=1)
            np.testing.assert_allclose(joined, rows, rtol=1e-5, atol=1e-6)


def test_first_states_and_cells_of_lstm() -> None:
    x, layer = ng.ragged([F, ng.ragged_axis(ax.N, "T")]), LSTM(HIDDEN, started, **gates())
    H = ng.make_axis(HIDDEN)
    first, cell = ng.placeholder([H, ax.N]), ng.placeholder([H, ax.N])
    outputs, cells = layer(x, {"h": first, "c": cell}, return_cell_state=True)
    layer.return_sequence = False
    last, last_cell = layer(x, (first, cell), return_cell_state=True)
    run = ng.compile([outputs, cells, last, last_cell], [x, first, cell])
    rng = np.random.default_rng(6)
    h, c = rng.normal(size=(2, HIDDEN, 3)).astype(np.float32)
    found = run([rng.normal(size=(3, n)) for n in (2, 0, 5)], h, c)
    for i in (0, 2):
        assert np.array_equal(found[0][i][:, -1], found[2][:, i])
        assert np.array_equal(found[1][i][:, -1], found[3][:, i])
    assert np.array_equal(found[2][:, 1], h[:, 1]) and np.array_equal(found[3][:, 1], c[:, 1])


def test_several_levels_are_gone_through_one_after_the_other() -> None:
    """Words of sentences, then sentences of documents."""
    S = ng.ragged_axis(ax.N, "S")
    words = ng.ragged([ng.ragged_axis(S, "W")], dtype="int32")
    sentences = Sequential([LookupTable(WORDS, 3, started), GRU(HIDDEN, started, return_sequence=False)])
    documents = GRU(2, started, return_sequence=False)
    found = ng.compile(documents(sentences(words)), [words])([[[1, 2, 3], [4]], [], [[5, 6], [], [1]]])
    assert sentences(words).axes.names == ("F", "N$S")
    x = ng.ragged([ng.make_axis(HIDDEN, "F"), ng.ragged_axis(ax.N, "T")])
    each = [np.zeros((HIDDEN, 0))]
    single = ng.ragged([ng.ragged_axis(ax.N, "W")], dtype="int32")
    encoded = ng.compile(sentences(single), [single])
    rows = [[[1, 2, 3], [4]], None, [[5, 6], [], [1]]]
    each = [np.zeros((HIDDEN, 0)) if r is None else encoded(r) for r in rows]
    np.testing.assert_allclose(found, ng.compile(documents(x), [x])(each), rtol=1e-5, atol=1e-6)


def tagger() -> tuple[Any, ...]:
    """A network with a guess for each word, and one for each sequence."""
    T = ng.ragged_axis(ax.N, "T")
    words, kinds = ng.ragged([T], dtype="int32"), ng.ragged([T], dtype="int32")
    Y, layers = ng.make_axis(2, "Y"), [LookupTable(WORDS, 8, started), LSTM(8, started, **gates())]
    guess = Sequential([*layers, Dropout(0.9, seed=1), Affine(started, axes=Y, activation=Softmax())])(words)
    losses = ng.cross_entropy_multi(guess, ng.one_hot(kinds, axis=Y))
    return words, kinds, losses


def test_a_network_is_trained_and_compiled_for_all_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    every = compiler.compile_open
    monkeypatch.setattr(compiler, "compile_open", lambda *a, **k: seen.append("all") or every(*a, **k))
    words, kinds, losses = tagger()
    train = ng.compile(ng.sequential([Adam(0.05)(losses), ng.mean(losses, out_axes=())]), [words, kinds])
    rng = np.random.default_rng(7)
    history = []
    for _ in range(60):
        batch = [rng.integers(0, WORDS, n) for n in [2, *rng.integers(0, 9, rng.integers(1, 8))]]
        # Whether a word was greater than the one before.
        wanted = [np.diff(each, prepend=WORDS) > 0 for each in batch]
        history.append(float(train(batch, [each.astype(int) for each in wanted])))
    assert np.mean(history[:5]) > 0.6 and np.mean(history[-5:]) < 0.2
    assert seen == ["all"] and not train.programs.refused


def test_normalization_is_over_all_rows_and_dropout_over_steps() -> None:
    x, plain = ng.ragged([F, ng.ragged_axis(ax.N, "T")]), ng.placeholder([F, ax.N])
    norm, drop = BatchNorm(), Dropout(0.5, seed=3)
    made, kept = norm(x), drop(x)
    assert drop.mask is not None and drop.mask.axes.names == ("N$T_steps", "F")
    run = ng.compile([made, kept, norm.gmean, norm.gvar], [x])
    rng = np.random.default_rng(8)
    batch = [rng.normal(size=(3, n)) + 1 for n in (4, 0, 9, 1)]
    found, dropped, *_ = run(batch)
    rows = np.concatenate(batch, axis=1)
    wanted = ng.compile(BatchNorm()(plain), [plain])(rows)
    np.testing.assert_allclose(np.concatenate(found, axis=1), wanted, rtol=1e-4, atol=1e-5)
    mean, variance = run(batch)[2:]
    np.testing.assert_allclose(mean, (0.1 + 0.09) * rows.mean(1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(variance, 0.81 + 0.19 * rows.var(1), rtol=1e-3, atol=1e-3)
    longest = dropped[2] != 0
    assert 0 < longest.sum() < longest.size
    for part, given in zip(dropped, batch, strict=True):
        assert np.array_equal(part != 0, longest[:, : part.shape[1]])
        assert np.all((part == 0) | (part == given.astype(np.float32)))
    centered = ng.compile(ng.layer_norm(x, reduction_axes=[x.axes[1]]), [x])(batch)
    for part, given in zip(centered, batch, strict=True):
        if given.shape[1] > 1:
            assert np.allclose(part.mean(1), 0, atol=1e-5) and np.allclose(part.var(1), 1, atol=1e-3)


def test_windows_slide_within_a_row() -> None:
    """What has a ragged axis for its batch is a batch of rows."""
    C, H = ng.make_axis(1, "C"), ng.make_axis(6, "H")
    x = ng.ragged([C, H, ng.make_axis(1, "W"), ng.ragged_axis(ax.N, "T")])
    made = Sequential([Convolution((3, 1, 2), started), Pooling((2, 1))])(x)
    plain = ng.placeholder([C, H, ng.make_axis(1, "W"), ax.N])
    wanted = Sequential([Convolution((3, 1, 2), started), Pooling((2, 1))])(plain)
    rng = np.random.default_rng(9)
    batch = [rng.normal(size=(1, 6, 1, n)) for n in (2, 0, 3)]
    found = ng.compile(made, [x])(batch)
    rows = ng.compile(wanted, [plain])(np.concatenate(batch, axis=3))
    np.testing.assert_allclose(np.concatenate(found, axis=-1), rows, rtol=1e-5, atol=1e-6)


REFUSED: dict[str, Callable[[ng.Tensor, ng.Axis], Any]] = {
    "a slice cannot cut": lambda x, T: ng.slice_along_axis(x, T, -1),
    "a slice cannot cut the": lambda x, T: x[:, 1:],
    "padding cannot lengthen": lambda x, T: ng.pad(x, [0, 1]),
    "tensors cannot be joined along": lambda x, T: ng.concat_along_axis([x, x], T),
    "elements cannot be sorted along": lambda x, T: ng.sort(x, T),
    "elements cannot be sorted along the": lambda x, T: ng.top_k(x, 1, T),
    "positions cannot be counted along": lambda x, T: ng.argmax(x, axis=T),
    "a product cannot sum over": lambda x, T: ng.dot(x, ng.ragged([T])),
    "windows cannot slide along": lambda x, T: ng.windows(x, {T: ng.make_axis(2, "taps")}),
    "differ in length, so that 2 steps": lambda x, T: ng_unroll(x),
    "ng.ctc cannot go along": lambda x, T: ng.ctc(x, ng.placeholder([ng.make_axis(4)]), 1, 1),
    "writes": lambda x, T: written(x, T),
}


def ng_unroll(x: ng.Tensor) -> Any:
    from ngmlir.frontends.neon import RNNCell, unroll

    return unroll(RNNCell(HIDDEN, started), 2, x)


def written(x: ng.Tensor, T: ng.Axis) -> Any:
    count = ng.persistent_tensor([], initial_value=0.0, name="count")

    def step(state: ng.Tensor, row: ng.Tensor) -> Any:
        return ng.sequential([ng.assign(count, count + 1), state + row]), ()

    return ng.scan(step, ng.constant(0.0, [F]), x, T)


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_meant_is_refused(message: str) -> None:
    T = ng.ragged_axis(ax.N, "T")
    x = ng.ragged([F, T], name="x")
    with pytest.raises(ng.UserError, match=message) as error:
        REFUSED[message](x, T)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.hint and diagnostic.location is not None
    assert diagnostic.location.file == __file__ and "N$T" in diagnostic.message


def test_axes_of_one_name_have_the_same_lengths() -> None:
    x, y = (ng.ragged([ng.ragged_axis(ax.N, "T")], name=name) for name in "xy")
    run = ng.compile(x * y, [x, y])
    assert [each.tolist() for each in run([[1], [2, 3]], [[4], [5, 6]])] == [[4], [10, 18]]
    with pytest.raises(ng.UserError, match=r"differ along N\$T: lengths \[1, 2\] for x, \[2, 1\] for y"):
        run([[1], [2, 3]], [[4, 5], [6]])


def test_the_sum_of_all_rows_alone_needs_no_lengths() -> None:
    x = ng.ragged([ng.ragged_axis(ax.N, "T")])
    assert float(ng.compile(ng.sum(x, out_axes=()), [x])([[1, 2], [], [3]])) == 6


def test_activations_compute_each_row_by_itself() -> None:
    """A step holds rows of several sequences at different places."""
    x = ng.ragged([ng.ragged_axis(ng.make_axis(name="N"), "T"), F])
    hidden, before = ng.make_axis(2, "H"), ng.make_axis(2, "before")
    weights = ng.constant(np.ones((2, 3)), [hidden, F]), ng.constant(np.ones((2, 2)), [hidden, before])
    mixed = [
        lambda h: h - ng.mean(h, out_axes=[hidden]),
        lambda h: h - ng.mean(h, out_axes=()),
        lambda h: ng.softmax(h, h.axes - hidden),
        lambda h: ng.cumulative_sum(h, (h.axes - hidden)[0]),
    ]
    for activation in mixed:
        with pytest.raises(ng.UserError, match=r"not each row of a step along the ragged axis N\$T"):
            ng.rnn(x, *weights, activation=activation)
    ng.rnn(x, *weights, activation=lambda h: h / (1 + ng.max(h, hidden)))
