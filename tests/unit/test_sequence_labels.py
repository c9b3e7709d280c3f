# SPDX-License-Identifier: Apache-2.0
"""Labels of sequences against all that is possible, counted one by one, on every target; their gradients against differences."""

from __future__ import annotations

from itertools import groupby, pairwise, product
from typing import Any

import numpy as np
import pytest
from ragged_cases import Applied, Array, Rows, check_gradients

TARGETS = ("numpy", "cpu", "cuda-sim")
RNG = np.random.default_rng(5)
LENGTHS = [[3, 0, 1, 5], [4], [0, 0], []]


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def parts(array: Array, lengths: list[int]) -> list[Array]:
    ends = np.cumsum(lengths, dtype=int)
    return [array[e - n : e] for e, n in zip(ends, lengths, strict=True)]


def weight(emission: Array, transition: Array, path: Any) -> float:
    begin, end, between = transition[0], transition[1], transition[2:]
    inner = sum(between[a, b] for a, b in pairwise(path))
    return begin[path[0]] + end[path[-1]] + inner + sum(e[k] for e, k in zip(emission, path, strict=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_crf_against_all_paths(lengths: list[int], target: str) -> None:
    rows, k = sum(lengths), 3
    emission, transition = normal(rows, k), normal(k + 2, k)
    label = RNG.integers(0, k, (rows, 1))
    inputs = {
        "Emission": Rows(emission, [lengths]),
        "Transition": transition,
        "Label": Rows(label, [lengths]),
    }
    losses, best = [], []
    for e, own in zip(parts(emission, lengths), parts(label[:, 0], lengths), strict=True):
        if not len(e):
            losses.append(0.0)
            continue
        paths = list(product(range(k), repeat=len(e)))
        weights = [weight(e, transition, p) for p in paths]
        losses.append(np.log(np.exp(weights).sum()) - weight(e, transition, own))
        best += paths[int(np.argmax(weights))]
    found = Applied("linear_chain_crf", inputs).results(target)["LogLikelihood"]
    assert found.array.shape == (len(lengths), 1)
    assert np.allclose(found.array[:, 0], losses, rtol=1e-6)
    assert list(found.lengths) == []
    path = Applied("crf_decoding", {s: inputs[s] for s in ("Emission", "Transition")}).results(target)[
        "ViterbiPath"
    ]
    assert path.array[:, 0].tolist() == best
    assert path.lengths == [lengths]
    right = Applied("crf_decoding", inputs).results(target)["ViterbiPath"].array
    assert right.tolist() == (path.array == label).astype(int).tolist()


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_crf_of_many_sequences(target: str) -> None:
    """They are packed: several groups, some without rows."""
    test_crf_against_all_paths(np.random.default_rng(6).integers(0, 5, 40).tolist(), target)


def test_the_smaller_of_equal_labels() -> None:
    inputs = {"Emission": Rows(np.zeros((3, 2)), [[3]]), "Transition": np.zeros((4, 2))}
    assert Applied("crf_decoding", inputs).results("cpu")["ViterbiPath"].array.ravel().tolist() == [0, 0, 0]


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_of_the_crf(order: int) -> None:
    lengths = [2, 0, 1, 3]
    inputs = {
        "Emission": Rows(normal(6, 2), [lengths]), "Transition": normal(4, 2),
        "Label": Rows(RNG.integers(0, 2, (6, 1)), [lengths]),
    }  # fmt: skip
    check_gradients("linear_chain_crf", inputs, ["LogLikelihood"], ["Emission", "Transition"], order)


def spelled(path: Any, blank: int) -> tuple[int, ...]:
    return tuple(k for k, _ in groupby(path) if k != blank)


CTC = [([3, 1, 0, 2], [1, 0, 0, 1]), ([4], [2]), ([2, 3], [2, 3]), ([0], [1])]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("lengths", "counts"), CTC)
@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_against_all_alignments(lengths: list[int], counts: list[int], blank: int, target: str) -> None:
    logits = normal(sum(lengths), 3)
    label = np.array([[(blank + 1) % 3]] * sum(counts), np.int32).reshape(-1, 1)
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wanted: list[float] = []
    for p, text in zip(parts(share, lengths), parts(label[:, 0], counts), strict=True):
        paths = product(range(3), repeat=len(p))
        total = sum(
            float(np.prod([r[k] for r, k in zip(p, path, strict=True)]))
            for path in paths
            if spelled(path, blank) == tuple(text)
        )
        with np.errstate(divide="ignore"):
            wanted.append(-np.log(total))
    inputs = {"Logits": Rows(logits, [lengths]), "Label": Rows(label, [counts])}
    found = Applied("warpctc", inputs, blank=blank).results(target)["Loss"]
    assert np.allclose(found.array[:, 0], wanted, rtol=1e-9)
    assert list(found.lengths) == []


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_of_ctc(order: int) -> None:
    inputs = {"Logits": Rows(normal(5, 3), [[3, 2]]), "Label": Rows(np.array([[1], [2]], np.int32), [[2, 0]])}
    check_gradients("warpctc", inputs, ["Loss"], ["Logits"], order)
    whole = Applied("warpctc", inputs).gradients(["Loss"], ["Logits"], "cpu")[0]
    shared = Applied("warpctc", inputs, norm_by_times=True).gradients(["Loss"], ["Logits"], "cpu")[0]
    assert np.allclose(shared, whole / np.array([[3]] * 3 + [[2]] * 2))


@pytest.mark.parametrize("target", TARGETS)
def test_ctc_align(target: str) -> None:
    x = np.array(
        [[0], [1], [2], [2], [0], [4], [0], [4], [5], [0], [6], [6], [0], [0], [7], [7], [7], [0]], np.int32
    )
    given = {"Input": Rows(x, [[11, 7]])}
    found = Applied("ctc_align", given).results(target)["Output"]
    assert found.array.ravel().tolist() == [1, 2, 4, 4, 5, 6, 6, 7]
    assert found.lengths == [[6, 2]]
    found = Applied("ctc_align", given, merge_repeated=False).results(target)["Output"]
    assert found.array.ravel().tolist() == [1, 2, 2, 4, 4, 5, 6, 6, 7, 7, 7]
    nothing = Applied("ctc_align", {"Input": Rows(x[:1], [[1]])}).results(target)["Output"]
    assert nothing.array.tolist() == [[-1]]


def distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(new[-1] + 1, row[j] + 1, row[j - 1] + (x != y)))
        row = new
    return row[-1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("hyps", "refs"), [([3, 0, 5, 2], [4, 2, 0, 2]), ([0, 0], [0, 3]), ([4], [0]), ([], []), ([9, 1], [5, 8])]
)
def test_edit_distance(hyps: list[int], refs: list[int], target: str) -> None:
    a, b = (RNG.integers(0, 3, (sum(n), 1)) for n in (hyps, refs))
    inputs = {"Hyps": Rows(a, [hyps]), "Refs": Rows(b, [refs])}
    found = Applied("edit_distance", inputs).results(target)
    wanted = [
        distance(x.ravel().tolist(), y.ravel().tolist())
        for x, y in zip(parts(a, hyps), parts(b, refs), strict=True)
    ]
    assert found["Out"].array.ravel().tolist() == wanted
    assert found["SequenceNum"].array.tolist() == [len(hyps)]
    if 0 not in refs and refs:
        found = Applied("edit_distance", inputs, normalized=True).results(target)
        assert np.allclose(found["Out"].array.ravel(), np.array(wanted) / refs)


def chunks(label: list[int], scheme: str, types: int) -> set[tuple[int, int, int]]:
    """(begin, end, type) of each chunk, row by row."""
    tags = {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}[scheme]
    names = {"IOB": "BI", "IOE": "IE", "IOBES": "BIES", "plain": "I"}[scheme]
    made: set[tuple[int, int, int]] = set()
    start: int | None = None
    for i, x in enumerate(label):
        kind, tag = divmod(x, tags)
        if kind >= types:
            start = None
            continue
        before = divmod(label[i - 1], tags) if i else (types, 0)
        if start is None or before[0] != kind or names[tag] in "BS" or names[before[1]] in "ES":
            start = i
        after = divmod(label[i + 1], tags) if i + 1 < len(label) else (types, 0)
        if after[0] != kind or names[after[1]] in "BS" or names[tag] in "ES":
            made.add((start, i, kind))
            start = None
    return made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scheme", ["IOB", "IOE", "IOBES", "plain"])
def test_chunks(scheme: str, target: str) -> None:
    tags = {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}[scheme]
    for lengths in ([9, 0, 1, 12], [30], [0], []):
        rows = sum(lengths)
        guess = RNG.integers(0, 2 * tags + 1, (rows, 1))
        true = np.where(RNG.random((rows, 1)) < 0.7, guess, RNG.integers(0, 2 * tags + 1, (rows, 1)))
        inputs = {"Inference": Rows(guess, [lengths]), "Label": Rows(true, [lengths])}
        for excluded in ([], [1]):
            found = Applied(
                "chunk_eval", inputs, num_chunk_types=2, chunk_scheme=scheme, excluded_chunk_types=excluded
            ).results(target)
            both = [
                ({c for c in chunks(g.ravel().tolist(), scheme, 2) if c[2] not in excluded},
                 {c for c in chunks(t.ravel().tolist(), scheme, 2) if c[2] not in excluded})
                for g, t in zip(parts(guess, lengths), parts(true, lengths), strict=True)
            ]  # fmt: skip
            guessed, there, right = (
                sum(len(a) for a, _ in both), sum(len(b) for _, b in both), sum(len(a & b) for a, b in both),
            )  # fmt: skip
            counts = [
                found[s].array.tolist() for s in ("NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
            ]
            assert counts == [[guessed], [there], [right]]
            p, r = right / max(guessed, 1), right / max(there, 1)
            wanted = [p, r, 2 * p * r / (p + r) if right else 0.0]
            shares = [found[s].array[0] for s in ("Precision", "Recall", "F1-Score")]
            assert np.allclose(shares, wanted, rtol=1e-6)


def as_items(rows: Array, lengths: list[int], most: int) -> Array:
    """Sequences as items of one length, with numbers behind that must not be seen."""
    made = np.full((len(lengths), most, *rows.shape[1:]), 1, rows.dtype)
    for item, own in zip(made, parts(rows, lengths), strict=True):
        item[: len(own)] = own
    return made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", LENGTHS[:3])
def test_items_with_lengths_are_the_sequences(lengths: list[int], target: str) -> None:
    rows, k, most = sum(lengths), 4, 6
    emission, transition = normal(rows, k), normal(k + 2, k)
    label, logits = RNG.integers(0, k, (rows, 1)), normal(rows, k)
    count = np.array(lengths, np.int64)
    ragged = {
        "Emission": Rows(emission, [lengths]),
        "Label": Rows(label, [lengths]),
        "Transition": transition,
    }
    items = {
        "Emission": as_items(emission, lengths, most), "Label": as_items(label[:, 0], lengths, most),
        "Transition": transition, "Length": count,
    }  # fmt: skip
    one, other = (
        Applied("linear_chain_crf", each).results(target)["LogLikelihood"] for each in (ragged, items)
    )
    assert np.allclose(one.array, other.array, rtol=1e-6) and list(other.lengths) == []
    for slots in (("Emission", "Transition"), ("Emission", "Transition", "Label")):
        one = Applied("crf_decoding", {s: ragged[s] for s in slots}).results(target)["ViterbiPath"]
        given = {s: items[s] for s in (*slots, "Length")}
        other = Applied("crf_decoding", given).results(target)["ViterbiPath"]
        wanted = as_items(one.array[:, 0], lengths, most) * (np.arange(most) < count[:, None])
        assert other.array.tolist() == wanted.tolist()
    guessed, scheme = RNG.integers(0, k, (rows, 1)), {"num_chunk_types": 2, "chunk_scheme": "IOB"}
    one = Applied("chunk_eval", {"Inference": Rows(guessed, [lengths]), "Label": ragged["Label"]}, **scheme)
    other = Applied(
        "chunk_eval",
        {"Inference": as_items(guessed[:, 0], lengths, most), "Label": items["Label"], "SeqLength": count},
        **scheme,
    )
    for name, found in other.results(target).items():
        assert found.array.tolist() == one.results(target)[name].array.tolist(), name
    texts = [min(n, 2) for n in lengths]
    text = RNG.integers(1, k, (sum(texts), 1)).astype(np.int32)
    one = Applied("warpctc", {"Logits": Rows(logits, [lengths]), "Label": Rows(text, [texts])})
    other = Applied(
        "warpctc",
        {
            "Logits": as_items(logits, lengths, most).swapaxes(0, 1), "Label": as_items(text[:, 0], texts, 3),
            "LogitsLength": count, "LabelLength": np.array(texts, np.int64),
        },
    )  # fmt: skip
    assert np.allclose(one.results(target)["Loss"].array, other.results(target)["Loss"].array, rtol=1e-6)
