# SPDX-License-Identifier: Apache-2.0
"""Operators on sequences against loops over each sequence, on every target; their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ragged_cases import LENGTHS, Applied, Array, Rows, check_gradients

import ngmlir as ng

TARGETS = ("numpy", "cpu", "cuda-sim")
RNG = np.random.default_rng(11)
Pieces = list[Array]


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def pieces(rows: Rows) -> Pieces:
    """The sequences of the last level."""
    ends = np.cumsum(rows.lengths[-1], dtype=int)
    return [rows.array[e - n : e] for e, n in zip(ends, rows.lengths[-1], strict=True)]


def joined(parts: Sequence[Array], like: Array) -> Array:
    return np.concatenate([*parts, like[:0]])


def pooled(part: Array, how: str) -> Array:
    if not len(part):
        return np.zeros(part.shape[1:])
    n = len(part)
    return {
        "AVERAGE": part.sum(0) / n, "SUM": part.sum(0), "SQRT": part.sum(0) / np.sqrt(n),
        "MAX": part.max(0), "FIRST": part[0], "LAST": part[-1],
    }[how]  # fmt: skip


def same(found: Rows, array: Array, lengths: Sequence[Sequence[int]] = ()) -> None:
    assert found.array.shape == array.shape
    assert np.allclose(found.array, array, rtol=1e-9, atol=1e-11)
    assert [list(level) for level in found.lengths] == [list(level) for level in lengths]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"])
def test_pool(how: str, target: str) -> None:
    for lengths in LENGTHS:
        x = Rows(normal(sum(lengths), 3), [lengths])
        found = Applied("sequence_pool", {"X": x}, pooltype=how).results(target)["Out"]
        same(found, np.array([pooled(p, how) for p in pieces(x)]).reshape(-1, 3))
    two = Rows(normal(4, 2), [[2, 1], [1, 0, 3]])
    found = Applied("sequence_pool", {"X": two}, pooltype=how).results(target)["Out"]
    same(found, np.array([pooled(p, how) for p in pieces(two)]), [[2, 1]])


@pytest.mark.parametrize("how", ["AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_of_pool(how: str, lengths: list[int]) -> None:
    inputs = {"X": Rows(normal(sum(lengths), 2), [lengths])}
    check_gradients("sequence_pool", inputs, ["Out"], ["X"], pooltype=how)
    if lengths in LENGTHS[:1]:
        check_gradients("sequence_pool", inputs, ["Out"], ["X"], pooltype=how, order=2)


def test_the_gradient_of_the_largest_goes_to_the_first() -> None:
    x = Rows(np.array([[1.0], [2.0], [2.0], [0.0]]), [[3, 1]])
    made = Applied("sequence_pool", {"X": x}, pooltype="MAX")
    assert made.gradients(["Out"], ["X"], "cpu")[0].nonzero()[0].tolist() == [1, 3]
    assert made.results("cpu", ["MaxIndex"])["MaxIndex"].array.tolist() == [[1], [3]]


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(target: str) -> None:
    for lengths in LENGTHS:
        x = Rows(normal(sum(lengths), 1), [lengths])
        parts = [np.exp(p) / np.exp(p).sum() for p in pieces(x)]
        same(Applied("sequence_softmax", {"X": x}).results(target)["Out"], joined(parts, x.array), [lengths])


@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_of_softmax(lengths: list[int]) -> None:
    inputs = {"X": Rows(normal(sum(lengths), 1), [lengths])}
    check_gradients("sequence_softmax", inputs, ["Out"], ["X"])
    check_gradients("sequence_softmax", inputs, ["Out"], ["X"], order=2)


@pytest.mark.parametrize("target", TARGETS)
def test_reverse(target: str) -> None:
    for lengths in LENGTHS:
        x = Rows(normal(sum(lengths), 2), [lengths])
        parts = [p[::-1] for p in pieces(x)]
        same(Applied("sequence_reverse", {"X": x}).results(target)["Y"], joined(parts, x.array), [lengths])


@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_of_reverse(lengths: list[int]) -> None:
    check_gradients("sequence_reverse", {"X": Rows(normal(sum(lengths), 2), [lengths])}, ["Y"], ["X"])


def windows(part: Array, start: int, length: int, outside: Array | None) -> Array:
    above = max(0, -start)
    made = np.zeros((len(part), length, part.shape[1]))
    for row in range(len(part)):
        for j in range(length):
            at = row + start + j
            if 0 <= at < len(part):
                made[row, j] = part[at]
            elif outside is not None:
                made[row, j] = outside[above + at] if at < 0 else outside[above + at - len(part)]
    return made.reshape(len(part), length * part.shape[1])


CONVOLUTIONS = [(-1, 3, False), (0, 2, False), (-2, 2, True), (-1, 4, True), (1, 2, True)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("start", "length", "trained"), CONVOLUTIONS)
def test_conv(start: int, length: int, trained: bool, target: str) -> None:
    own = normal(max(0, -start) + max(0, start + length - 1), 2)
    for lengths in LENGTHS:
        x, w = Rows(normal(sum(lengths), 2), [lengths]), normal(2 * length, 3)
        inputs: dict[str, Any] = {"X": x, "Filter": w, **({"PaddingData": own} if trained else {})}
        settings = {"contextStart": start, "contextLength": length, "paddingTrainable": trained}
        parts = [windows(p, start, length, own if trained else None) @ w for p in pieces(x)]
        found = Applied("sequence_conv", inputs, **settings).results(target)["Out"]
        same(found, joined(parts, np.zeros((0, 3))), [lengths])


@pytest.mark.parametrize(("start", "length", "trained"), CONVOLUTIONS)
def test_gradients_of_conv(start: int, length: int, trained: bool) -> None:
    lengths = [3, 0, 1]
    inputs: dict[str, Any] = {"X": Rows(normal(4, 2), [lengths]), "Filter": normal(2 * length, 2)}
    if trained:
        inputs["PaddingData"] = normal(max(0, -start) + max(0, start + length - 1), 2)
    settings = {"contextStart": start, "contextLength": length, "paddingTrainable": trained}
    check_gradients("sequence_conv", inputs, ["Out"], [*inputs], **settings)
    check_gradients("sequence_conv", inputs, ["Out"], [*inputs], order=2, **settings)


@pytest.mark.parametrize("target", TARGETS)
def test_row_conv(target: str) -> None:
    for lengths in LENGTHS:
        x, w = Rows(normal(sum(lengths), 2), [lengths]), normal(3, 2)
        parts = [
            np.array(
                [sum(p[i + j] * w[j] for j in range(3) if i + j < len(p)) for i in range(len(p))]
            ).reshape(-1, 2)
            for p in pieces(x)
        ]
        same(
            Applied("row_conv", {"X": x, "Filter": w}).results(target)["Out"],
            joined(parts, x.array),
            [lengths],
        )
    check_gradients(
        "row_conv", {"X": Rows(normal(4, 2), [[3, 0, 1]]), "Filter": normal(3, 2)}, ["Out"], ["X", "Filter"]
    )


@pytest.mark.parametrize("target", TARGETS)
def test_expand(target: str) -> None:
    # Rows of a decoder by how many candidates follow each.
    x, counts = np.arange(6.0).reshape(6, 1), [3, 2, 3, 1, 2, 0]
    y = Rows(normal(11, 1), [counts])
    found = Applied("sequence_expand", {"X": x, "Y": y}).results(target)["Out"]
    same(found, np.repeat(x, counts, 0))
    for lengths, times in (([2, 0, 3], [2, 3, 0]), ([1], [0]), ([], []), ([2, 2], [1, 1])):
        own, other = Rows(normal(sum(lengths), 2), [lengths]), Rows(normal(sum(times), 1), [times])
        parts = [p for p, n in zip(pieces(own), times, strict=True) for _ in range(n)]
        found = Applied("sequence_expand", {"X": own, "Y": other}).results(target)["Out"]
        same(
            found,
            joined(parts, own.array),
            [[n for n, t in zip(lengths, times, strict=True) for _ in range(t)]],
        )
    deep = Rows(normal(5, 1), [[2, 1], [2, 0, 3]])
    found = Applied("sequence_expand", {"X": np.array([[1.0], [2.0]]), "Y": deep}, ref_level=0).results(
        target
    )["Out"]
    same(found, np.array([[1.0], [1.0], [2.0]]))


@pytest.mark.parametrize(("own", "times"), [((), [2, 0, 1]), ([[2, 0, 1]], [2, 3, 1])])
def test_gradients_of_expand(own: Any, times: list[int]) -> None:
    inputs = {"X": Rows(normal(3, 2), own), "Y": Rows(normal(sum(times), 1), [times])}
    check_gradients("sequence_expand", inputs, ["Out"], ["X"])
    check_gradients("sequence_expand", inputs, ["Out"], ["X"], order=2)


@pytest.mark.parametrize("target", TARGETS)
def test_concat(target: str) -> None:
    a, b = Rows(normal(3, 2), [[2, 0, 1]]), Rows(normal(4, 2), [[1, 3, 0]])
    parts = [np.concatenate(two) for two in zip(pieces(a), pieces(b), strict=True)]
    found = Applied("sequence_concat", {"X": [a, b]}).results(target)["Out"]
    same(found, np.concatenate(parts), [[3, 3, 1]])
    wide = Rows(normal(3, 1), [[2, 0, 1]])
    found = Applied("sequence_concat", {"X": [a, wide]}, axis=1).results(target)["Out"]
    same(found, np.concatenate([a.array, wide.array], 1), [[2, 0, 1]])
    c = Rows(normal(6, 1), [[2, 1], [2, 1, 3]])
    d = Rows(normal(4, 1), [[0, 2], [4, 0]])
    found = Applied("sequence_concat", {"X": [c, d]}, level=1).results(target)["Out"]
    same(found, np.concatenate([c.array, d.array]), [[2, 3], [2, 1, 3, 4, 0]])
    e = Rows(normal(3, 1), [[1, 1], [1, 2]])
    found = Applied("sequence_concat", {"X": [c, e]}, level=1).results(target)["Out"]
    rows = np.concatenate([c.array[:3], e.array[:1], c.array[3:], e.array[1:]])
    same(found, rows, [[3, 2], [2, 1, 1, 3, 2]])


def test_gradients_of_concat() -> None:
    inputs = {"X": [Rows(normal(3, 2), [[2, 0, 1]]), Rows(normal(4, 2), [[1, 3, 0]])]}
    check_gradients("sequence_concat", inputs, ["Out"], ["X"])


@pytest.mark.parametrize("target", TARGETS)
def test_slice(target: str) -> None:
    x = Rows(normal(6, 2), [[3, 0, 3]])
    begin, length = np.array([[1], [0], [0]], np.int64), np.array([[2], [0], [1]], np.int64)
    found = Applied("sequence_slice", {"X": x, "Offset": begin, "Length": length}).results(target)["Out"]
    same(found, x.array[[1, 2, 3]], [[2, 0, 1]])


@pytest.mark.parametrize("target", TARGETS)
def test_what_reaches_out_of_a_sequence_is_left_out(target: str) -> None:
    x = Rows(normal(8, 2), [[3, 2, 0, 3]])
    begin, length = np.array([[-1], [1], [-2], [1 << 33]], np.int64), np.array([[2], [9], [5], [1]], np.int64)
    found = Applied("sequence_slice", {"X": x, "Offset": begin, "Length": length}).results(target)["Out"]
    same(found, x.array[[0, 4]], [[1, 1, 0, 0]])
    length = np.array([[-1], [-3], [0], [1]], np.int64)
    found = Applied("sequence_slice", {"X": x, "Offset": begin, "Length": length}).results(target)["Out"]
    same(found, x.array[:0], [[0, 0, 0, 0]])


def test_gradients_of_slice() -> None:
    inputs = {
        "X": Rows(normal(6, 2), [[3, 0, 3]]), "Offset": np.array([[1], [0], [0]], np.int64),
        "Length": np.array([[2], [0], [1]], np.int64),
    }  # fmt: skip
    check_gradients("sequence_slice", inputs, ["Out"], ["X"])
    check_gradients("sequence_slice", inputs, ["Out"], ["X"], order=2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 4, 2), (3, 4), (0, 4, 2), (3, 0, 2)])
def test_unpad(shape: tuple[int, ...], target: str) -> None:
    x, length = normal(*shape), np.minimum([2, 0, 4], shape[1])[: shape[0]]
    wanted = np.concatenate(
        [np.zeros((0, *shape[2:])), *[rows[:n] for rows, n in zip(x, length, strict=True)]]
    )
    for given in (length, length.reshape(-1, 1)):
        found = Applied("sequence_unpad", {"X": x, "Length": given}).results(target)["Out"]
        same(found, wanted.reshape(len(wanted), *(shape[2:] or (1,))), [length.tolist()])


def test_gradients_of_unpad() -> None:
    inputs = {"X": normal(3, 4, 2), "Length": np.array([2, 0, 4])}
    check_gradients("sequence_unpad", inputs, ["Out"], ["X"])
    check_gradients("sequence_unpad", inputs, ["Out"], ["X"], order=2)


@pytest.mark.parametrize("length", [[2, 5, 1], [2, -1, 1]])
def test_lengths_that_are_none_of_rows_are_refused(length: list[int]) -> None:
    applied = Applied("sequence_unpad", {"X": normal(3, 4, 2), "Length": np.array(length)})
    with pytest.raises(ng.UserError, match="longer than its rows, or shorter than none"):
        applied.results("cpu")


@pytest.mark.parametrize("target", TARGETS)
def test_erase(target: str) -> None:
    x = Rows(np.array([[2], [2], [6], [1], [3], [9], [6], [1], [0], [1]], np.int64), [[3, 3, 4]])
    found = Applied("sequence_erase", {"X": x}, tokens=[2, 3, 6]).results(target)["Out"]
    same(found, np.array([[1], [9], [1], [0], [1]]), [[0, 2, 3]])
    found = Applied("sequence_erase", {"X": x}, tokens=[]).results(target)["Out"]
    same(found, x.array, x.lengths)
    found = Applied("sequence_erase", {"X": Rows(x.array[:3], [[3]])}, tokens=[2, 6]).results(target)["Out"]
    same(found, x.array[:0], [[0]])


@pytest.mark.parametrize("target", TARGETS)
def test_reshape_and_reset(target: str) -> None:
    x = Rows(normal(6, 2), [[2, 0, 4]])
    found = Applied("sequence_reshape", {"X": x}, new_dim=4).results(target)["Out"]
    same(found, x.array.reshape(3, 4), [[1, 0, 2]])
    same(Applied("lod_reset", {"X": x}, target_lod=[0, 5, 6]).results(target)["Out"], x.array, [[5, 1]])
    y = Rows(normal(6, 1), [[2, 1], [1, 2, 3]])
    same(Applied("lod_reset", {"X": x, "Y": y}).results(target)["Out"], x.array, y.lengths)
    same(
        Applied("lod_reset", {"X": x, "Y": np.array([0, 6], np.int32)}).results(target)["Out"], x.array, [[6]]
    )


def test_gradients_of_reshape_and_reset() -> None:
    x = Rows(normal(6, 2), [[2, 0, 4]])
    check_gradients("sequence_reshape", {"X": x}, ["Out"], ["X"], new_dim=4)
    check_gradients("lod_reset", {"X": x}, ["Out"], ["X"], target_lod=[0, 5, 6])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("most", [-1, 2, 5])
def test_pad(most: int, target: str) -> None:
    for lengths in LENGTHS:
        x = Rows(normal(sum(lengths), 2), [lengths])
        long = max(lengths, default=0) if most == -1 else most
        wanted = np.full((len(lengths), long, 2), 0.5)
        for item, p in zip(wanted, pieces(x), strict=True):
            item[: min(long, len(p))] = p[:long]
        found = Applied("sequence_pad", {"X": x, "PadValue": np.array([0.5])}, padded_length=most).results(
            target
        )
        same(found["Out"], wanted)


def test_gradients_of_pad() -> None:
    inputs = {"X": Rows(normal(4, 2), [[3, 0, 1]]), "PadValue": np.array([0.5])}
    check_gradients("sequence_pad", inputs, ["Out"], ["X"])


@pytest.mark.parametrize("target", TARGETS)
def test_images_as_sequences(target: str) -> None:
    x = normal(2, 2, 4, 3)
    settings: dict[str, Any] = {"kernels": [2, 2], "strides": [2, 1], "paddings": [1, 0, 0, 1]}
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)])

    def window(image: int, row: int, column: int) -> Array:
        return padded[image, :, 2 * row : 2 * row + 2, column : column + 2].ravel()

    wanted = np.array([window(i, r, c) for i in range(2) for r in range(2) for c in range(3)])
    same(Applied("im2sequence", {"X": x}, **settings).results(target)["Out"], wanted, [[6, 6]])
    # The second image is 3 high and 2 wide, and counts as half of that, rounded up.
    sizes = np.array([[8, 6], [6, 4]], np.float64)
    found = Applied("im2sequence", {"X": x, "Y": sizes}, out_stride=[2, 2], **settings).results(target)["Out"]
    second = np.array([window(1, r, c) for r in range(2) for c in range(2)])
    same(found, np.concatenate([wanted[:6], second]), [[6, 4]])


def test_gradients_of_images_as_sequences() -> None:
    settings: dict[str, Any] = {"kernels": [2, 2], "strides": [2, 1], "paddings": [1, 0, 0, 1]}
    check_gradients("im2sequence", {"X": normal(2, 1, 3, 3)}, ["Out"], ["X"], **settings)


def bad(message: str, type: str, inputs: Any, **attributes: Any) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(ValueError, match=message):
            Applied(type, inputs, **attributes).results()

    return check


SEQUENCE = Rows(np.zeros((3, 2)), [[1, 2]])
BAD = {
    "not ragged": bad("takes sequences as X, and this variable is not ragged", "sequence_pool", {"X": np.zeros((3, 2))}),
    "filter": bad("a filter over 2 rows of 2 elements has 4 rows, not 3", "sequence_conv", {"X": SEQUENCE, "Filter": np.zeros((3, 1))}, contextLength=2),
    "expand": bad("X has 3 items, and level 0 of Y says of 2", "sequence_expand", {"X": np.zeros((3, 1)), "Y": SEQUENCE}),
    "level": bad("Y has 1 ragged levels, and ref_level is 1", "sequence_expand", {"X": np.zeros((2, 1)), "Y": SEQUENCE}, ref_level=1),
    "concat": bad(r"what has as many items, not \[2, 1\]", "sequence_concat", {"X": [SEQUENCE, Rows(np.zeros((1, 2)), [[1]])]}),
    "reshape": bad("3 rows of 2 elements are not cut into rows of 4", "sequence_reshape", {"X": SEQUENCE}, new_dim=4),
    "reset": bad("the offsets in target_lod end with 2, and there are 3 rows", "lod_reset", {"X": SEQUENCE}, target_lod=[0, 2]),
    "fall": bad("the offsets in target_lod fall from 2 to 1 at position 2", "lod_reset", {"X": SEQUENCE}, target_lod=[0, 2, 1, 3]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_inputs(case: str) -> None:
    BAD[case]()
