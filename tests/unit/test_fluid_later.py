# SPDX-License-Identifier: Apache-2.0
"""Layers, initializers and learning rates whose names are those of later releases, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

import numpy as np
import pytest
from program_helpers import program as program

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 4, 3)).astype(np.float32)
P, T = RNG.uniform(size=(4, 3)).astype(np.float32), RNG.integers(0, 2, (4, 3)).astype(np.float32)
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]

#: What a layer makes of x and y, and what that is of arrays; and what it takes.
LAYERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, Any]]] = {
    "log_loss": (layers.log_loss, lambda p, t: -t * np.log(p + 1e-4) - (1 - t) * np.log(1 - p + 1e-4), (P, T)),
    "huber_loss": (
        lambda x, y: layers.huber_loss(x, y, 0.5),
        lambda x, y: np.where(abs(y - x) < 0.5, (y - x) ** 2 / 2, 0.5 * (abs(y - x) - 0.25)),
        (X, Y),
    ),
    "margin_rank_loss": (
        lambda x, y: layers.margin_rank_loss(layers.ones_like(x), x, y), lambda x, y: np.maximum(0, y - x + 0.1), (X, Y),
    ),
    "mse_loss": (layers.mse_loss, lambda x, y: np.mean((x - y) ** 2).reshape(1), (X, Y)),
    "not_equal": (layers.not_equal, np.not_equal, (P, np.where(T > 0, P, T))),
    "less_equal": (layers.less_equal, np.less_equal, (P, np.where(T > 0, P, T))),
    "greater_than": (layers.greater_than, np.greater, (P, np.where(T > 0, P, T))),
    "greater_equal": (layers.greater_equal, np.greater_equal, (P, np.where(T > 0, P, T))),
    "zeros_like": (lambda x, y: layers.zeros_like(x), lambda x, y: 0 * x, (X, Y)),
    "stack": (lambda x, y: layers.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), (X, Y)),
    "stack, first": (lambda x, y: layers.stack([x, y]), lambda x, y: np.stack([x, y]), (X, Y)),
    "kldiv_loss": (
        lambda x, y: layers.kldiv_loss(layers.log(x), y), lambda x, y: np.mean(y * np.log(y / x)).reshape(1), (P, P[::-1].copy()),
    ),
    "pad2d": (
        lambda x, y: layers.pad2d(layers.reshape(x, [-1, 1, 1, 3]), [1, 0, 2, 1], "edge"),
        lambda x, y: np.pad(x.reshape(-1, 1, 1, 3), ((0, 0), (0, 0), (1, 0), (2, 1)), "edge"), (X, Y),
    ),
    "group_norm": (
        lambda x, y: layers.group_norm(layers.reshape(x, [-1, 3, 1]), 1, act="relu"),
        lambda x, y: np.maximum((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), 0)[..., None], (X, Y),
    ),
    "softmax": (lambda x, y: layers.softmax(x, axis=0), lambda x, y: np.exp(x) / np.exp(x).sum(0), (X, Y)),
    "argsort": (lambda x, y: layers.argsort(x, descending=True)[1], lambda x, y: np.argsort(-x), (X, Y)),
    "isfinite": (lambda x, y: layers.isfinite(x / (y - y)), lambda x, y: np.array([False]), (X, Y)),
}  # fmt: skip


def _run(fetched: Any, place: Any, **feed: Any) -> list[Any]:
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetched, return_numpy=False)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, place: Any) -> None:
    build, expected, given = LAYERS[name]
    made = build(layers.data("x", [3]), layers.data("y", [3]))
    with np.errstate(all="ignore"):
        (found,) = _run([made], place, x=given[0], y=given[1])
    found, wanted = np.array(found), expected(*given)
    assert found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_sequences(place: Any) -> None:
    x, y = (layers.data(n, [2], lod_level=1) for n in "xy")
    offset, length = (layers.data(n, [1], dtype="int64") for n in ("offset", "length"))
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    feed = {
        n: fluid.create_lod_tensor(rows + 100 * i, [c], place)
        for i, (n, c) in enumerate((("x", [2, 0, 4]), ("y", [1, 3, 2])))
    }
    feed |= {"offset": np.array([[1], [0], [1]]), "length": np.array([[1], [0], [2]])}
    both, part = _run(
        [layers.sequence_concat([x, y]), layers.sequence_slice(x, offset, length)], place, **feed
    )
    assert both.lod() == [[0, 3, 6, 12]] and np.array(both)[:, 0].tolist() == [
        0,
        2,
        100,
        102,
        104,
        106,
        4,
        6,
        8,
        10,
        108,
        110,
    ]
    assert part.lod() == [[0, 1, 1, 3]] and np.array(part).tolist() == [[2, 3], [6, 7], [8, 9]]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_sequences_of_lengths(place: Any) -> None:
    """Masks up to the greatest length of a batch, and rows as often as sequences are long."""
    lengths, x = fluid.data("lengths", [None], "int64"), fluid.data("x", [None, 3])
    x.stop_gradient = False
    y = fluid.data("y", [-1, 1], lod_level=1)
    spread = layers.sequence_expand_as(x, y)
    weighted = layers.reduce_sum(spread * y)
    fetched = [layers.sequence_mask(lengths), layers.sequence_mask(lengths, 2, "float32"), spread]
    executor = fluid.Executor(place)
    slope = fluid.calc_gradient(weighted, x)
    for counts in ([2, 0, 3], [1, 1], [4, 5, 0, 7], [0]):
        rows, factors = (
            X[[0] * len(counts)] + np.arange(len(counts))[:, None],
            RNG.normal(size=(sum(counts), 1)),
        )
        feed = {
            "lengths": np.array(counts),
            "x": rows.astype(np.float32),
            "y": fluid.create_lod_tensor(factors.astype(np.float32), [counts], place),
        }
        whole, part, many, by = executor.run(feed=feed, fetch_list=[*fetched, slope], return_numpy=False)
        assert np.array_equal(np.array(whole), np.arange(max(counts)) < np.array(counts)[:, None])
        assert np.array(whole).dtype == np.int64 and np.array(part).dtype == np.float32
        assert np.array_equal(np.array(part), np.arange(2) < np.array(counts)[:, None])
        assert many.recursive_sequence_lengths() == [counts]
        assert np.array_equal(np.array(many), np.repeat(feed["x"], counts, axis=0))
        sums = np.add.reduceat(np.append(factors[:, 0], 0), np.cumsum([0, *counts[:-1]]))
        wanted = np.where(np.array(counts) > 0, sums, 0)
        assert np.allclose(np.array(by), wanted[:, None] * np.ones(3), atol=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_numbers_without_a_last_dimension(place: Any) -> None:
    ids = fluid.data("ids", [None, 4], "int64")
    table = fluid.initializer.NumpyArrayInitializer(np.arange(10, dtype=np.float32).reshape(5, 2))
    rows = fluid.embedding(ids, [5, 2], param_attr=fluid.ParamAttr("table", table))
    numbers = np.array([[0, 4, 1, 1], [3, 2, 0, 4]])
    found, hot = map(np.array, _run([rows, fluid.one_hot(ids, 6)], place, ids=numbers))
    assert np.array_equal(found, np.arange(10).reshape(5, 2)[numbers])
    assert np.array_equal(hot, np.eye(6)[numbers])


def test_what_pad2d_refuses() -> None:
    with pytest.raises(UserError, match="3 elements around 3 are not those inside"):
        layers.pad2d(layers.data("x", [1, 3, 5]), [3, 0, 0, 0], "reflect")
    with pytest.raises(UserError, match="4 paddings, not 4 and 2"):
        layers.pad2d(layers.data("y", [1, 3, 5]), [3, 0])
    with pytest.raises(UserError, match="X and Target have one shape"):
        layers.kldiv_loss(layers.data("a", [3]), layers.data("b", [4]))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_learning_rates(place: Any) -> None:
    rate = layers.cosine_decay(0.1, 2, 5)
    warm = layers.linear_lr_warmup(rate, 3, 0.0, 0.3)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    found = np.array([executor.run(fetch_list=[rate, warm]) for _ in range(6)])[..., 0]
    cosine = [0.05 * (cos(step // 2 * pi / 5) + 1) for step in range(6)]
    assert np.allclose(found[:, 0], cosine) and np.allclose(
        found[:, 1], [0, 0.1, 0.2, *cosine[3:]], atol=1e-6
    )


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_initializers(place: Any) -> None:
    values = RNG.normal(size=(3, 4))
    attr = fluid.ParamAttr("w", fluid.initializer.NumpyArrayInitializer(values))
    made = layers.fc(layers.data("x", [3]), 4, param_attr=attr, bias_attr=False)
    attr = fluid.ParamAttr("t", fluid.initializer.TruncatedNormal(1.0, 0.5, seed=3))
    drawn = layers.create_parameter([60, 50], "float32", attr=attr)
    found, many = map(np.array, _run([made, drawn], place, x=X))
    assert np.allclose(found, X @ values, rtol=1e-5, atol=1e-6)
    # The deviation of a normal distribution that is cut at two deviations is 0.8796 of its own.
    assert abs(many - 1).max() <= 1.0 and abs(many.mean() - 1) < 0.04 and abs(many.std() - 0.44) < 0.02


def test_an_array_of_another_shape() -> None:
    attr = fluid.ParamAttr("w", fluid.initializer.NumpyArrayInitializer(np.ones((4, 3))))
    with pytest.raises(
        UserError, match=r"an array of shape \[4, 3\] is given to 'w', which has the shape \[3, 4\]"
    ):
        layers.fc(layers.data("x", [3]), 4, param_attr=attr)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_numbers_and_places_that_a_run_computes(place: Any) -> None:
    x, end = fluid.data("x", [None, 3]), fluid.data("end", [1], "int64")
    made = [
        layers.range(0, end, 2, "int64"), layers.range(5, -3, -2.5, "float32"), layers.where(layers.greater_than(x, layers.zeros_like(x))),
        layers.rsqrt(layers.square(x)), *layers.unstack(layers.reshape(x, [-1, 3, 1]), 1),
    ]  # fmt: skip
    for rows, last in ((2, 7), (4, 0)):
        given = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        found = [np.array(each) for each in _run(made, place, x=given, end=np.array([last]))]
        assert found[0].tolist() == [*range(0, last, 2)] and found[1].tolist() == [5, 2.5, 0, -2.5]
        assert found[2].tolist() == np.argwhere(given > 0).tolist()
        np.testing.assert_allclose(found[3], 1 / np.abs(given), rtol=1e-5)
        assert [each.tolist() for each in found[4:]] == [given[:, [d]].tolist() for d in (0, 1, 2)]


def test_sampled_positions_have_the_probabilities() -> None:
    x = fluid.data("x", [None, 3])
    given = np.tile(np.array([0.2, 0.0, 0.8], np.float32), (400, 1))
    (found,) = _run([layers.sampling_id(x, seed=3)], fluid.CPUPlace(), x=given)
    counts = np.bincount(np.array(found).astype(int), minlength=3) / 400
    assert counts[1] == 0 and abs(counts[2] - 0.8) < 0.1


def test_unstack_needs_a_length() -> None:
    with pytest.raises(UserError, match="is not of a known number of elements"):
        layers.unstack(fluid.data("x", [3, None]), 1)
    with pytest.raises(UserError, match="is not of 4 elements"):
        layers.unstack(fluid.data("y", [3, 2]), 1, num=4)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_labels_of_items_with_lengths(place: Any) -> None:
    """A tagger of later releases: items of one length, and how many labels of each count."""
    emission, label, length = (
        fluid.data("e", [None, None, 4]),
        fluid.data("l", [None, None], "int64"),
        fluid.data("n", [None], "int64"),
    )
    cost = layers.linear_chain_crf(
        emission, label, fluid.ParamAttr(name="crfw", initializer=fluid.initializer.Constant(0.0)), length
    )
    path = layers.crf_decoding(emission, fluid.ParamAttr(name="crfw"), length=length)
    counts = layers.chunk_eval(path, label, "IOB", 2, seq_length=length)
    far, _ = layers.edit_distance(path, label, False, input_length=length, label_length=length)
    for batch, most in ((3, 5), (2, 7)):
        draw = np.random.default_rng(batch)
        e, own = draw.normal(size=(batch, most, 4)).astype(np.float32), draw.integers(0, 4, (batch, most))
        n = draw.integers(1, most + 1, batch)
        found = [np.array(v) for v in _run([cost, path, counts[4], far], place, e=e, l=own, n=n)]
        inside = np.arange(most) < n[:, None]
        scores = e - np.log(np.exp(e).sum(2, keepdims=True))
        wanted = -(np.take_along_axis(scores, own[:, :, None], 2)[:, :, 0] * inside).sum(1)
        np.testing.assert_allclose(found[0][:, 0], wanted, rtol=1e-5)
        assert found[1].tolist() == (e.argmax(2) * inside).tolist()
        assert found[3].shape == (batch, 1) and (found[3][:, 0] <= ((found[1] != own) & inside).sum(1)).all()


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_classes_without_a_last_dimension(place: Any) -> None:
    x, label, wide = (
        fluid.data("x", [None, None, 3]),
        fluid.data("l", [None, None], "int64"),
        fluid.data("w", [None, None, 1], "int64"),
    )
    made = [
        loss
        for each in (label, wide)
        for loss in (
            layers.softmax_with_cross_entropy(x + 1, each),
            layers.cross_entropy(layers.softmax(2.0 - x), each, ignore_index=1),
        )
    ]
    draw = np.random.default_rng(3)
    own = draw.integers(0, 3, (4, 5))
    given = draw.normal(size=(4, 5, 3)).astype(np.float32)
    found = [np.array(v) for v in _run(made, place, x=given, l=own, w=own[:, :, None])]
    assert found[0].shape == (4, 5, 1)
    for one, other in zip(found[:2], found[2:], strict=True):
        np.testing.assert_array_equal(one, other)
    scores = np.log(np.exp(given).sum(2)) - np.take_along_axis(given, own[:, :, None], 2)[:, :, 0]
    np.testing.assert_allclose(found[0][:, :, 0], scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_classes_of_which_a_run_says_how_many_there_are(place: Any) -> None:
    """A span of a text begins at one of its words."""
    x, label = fluid.data("x", [None, None]), fluid.data("l", [None, 1], "int64")
    made = [layers.cross_entropy(layers.softmax(x * 2.0), label)]
    for batch, words in ((3, 7), (2, 4)):
        given = np.random.default_rng(words).normal(size=(batch, words)).astype(np.float32)
        own = np.full((batch, 1), words - 1)
        (found,) = _run(made, place, x=given, l=own)
        wanted = np.log(np.exp(2 * given).sum(1)) - 2 * given[:, -1]
        np.testing.assert_allclose(np.array(found)[:, 0], wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(UserError, match=f"there is no class {words}"):
            _run(made, place, x=given, l=own + 1)
