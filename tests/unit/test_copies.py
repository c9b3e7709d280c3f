# SPDX-License-Identifier: Apache-2.0
"""Copies of arrays whatever their order in memory: the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.runtime.copies import contiguous, copy_into
from ngmlir.support import arrays


def test_copies_of_any_order_are_the_same() -> None:
    rng = np.random.default_rng(0)
    for turn in range(200):
        rank = int(rng.integers(0, 5))
        shape = rng.integers(0 if turn % 7 == 0 else 1, [0, 300000, 700, 80, 30][rank] + 1, rank)
        source = rng.integers(-100, 100, shape).astype(["f4", "f8", "i1", "f2"][turn % 4])
        source = np.asfortranarray(source) if turn % 3 else source
        source = source.transpose(rng.permutation(rank)) if rank else source
        if rank and turn % 5 == 0:
            source = source[tuple(slice(None, None, int(rng.choice([-1, 1, 2]))) for _ in range(rank))]
        if rank and turn % 11 == 0 and source.size:
            source = np.broadcast_to(source[:1], source.shape)
        target = np.empty(source.shape, ["f4", "f8"][turn % 2])
        for copy in (copy_into, arrays.copy_into):
            target[...] = 99
            copy(target, source)
            np.testing.assert_array_equal(target, source)
        made = contiguous(source, np.dtype("f4"))
        assert made.flags.c_contiguous and made.dtype == "f4"
        np.testing.assert_array_equal(made, source)


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "f8", ">f4", "c8"])
def test_copies_of_large_planes_keep_every_bit(dtype: str) -> None:
    """Whole tiles and what is left of them, in each order, with gaps, backwards, and many planes behind each other."""
    rng = np.random.default_rng(1)
    for shape in ((513, 640), (8, 40000), (70000, 9), (11, 65, 515), (6, 5, 130, 90)):
        whole = rng.integers(-99, 99, shape).astype(dtype)
        for order in (tuple(reversed(range(len(shape)))), (1, 0, *range(2, len(shape)))):
            turned = whole.transpose(order)
            for source in (turned, turned[::-1], turned[..., ::-2], turned[1:, 1:], turned[1:, 1:].copy("K")):
                target = np.full(source.shape, 7, dtype)
                copy_into(target, source)
                assert (target == source).all()
                wide = np.full((*source.shape[:-1], source.shape[-1] + 3), 7, dtype)
                copy_into(wide[..., 1:-2], source)
                assert (wide[..., 1:-2] == source).all()
                assert (wide[..., 0] == 7).all() and (wide[..., -2:] == 7).all()


def test_copies_of_objects() -> None:
    numbers = np.asfortranarray(np.arange(400 * 400).reshape(400, 400).astype(object))
    target = np.empty((400, 400), object)
    copy_into(target, numbers)
    assert target[399, 399] == 159999 and target[1, 2] is numbers[1, 2]


def test_a_copy_onto_itself_reads_before_it_writes() -> None:
    square = np.arange(600.0 * 600).reshape(600, 600)
    expected = square.T.copy()
    copy_into(square, square.T)
    np.testing.assert_array_equal(square, expected)


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_feeding_in_fortrans_order(backend: str) -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(300, "C")
    x = ng.placeholder([n, c])
    w = ng.variable([c], initial_value=1)
    run = ng.compile([x[::200] * w, x[:, ::100]], [x], target=backend)
    rows = np.asfortranarray(np.random.default_rng(0).integers(-9, 9, (400, 300)))
    for fed in (rows, rows.astype(np.float32), rows[::-1], rows.astype(">f4")):
        first, second = run(fed)
        np.testing.assert_array_equal(first, fed[::200])
        np.testing.assert_array_equal(second, fed[:, ::100])


def test_what_is_adopted_is_used_where_it_lies() -> None:
    c = ng.make_axis(3, "C")
    given = np.array([1, 2, 3], np.float32)
    with pytest.raises(
        ng.UserError, match=r"belongs to a memoryview, which can still change it[\s\S]*array.copy"
    ):
        ng.adopt(np.frombuffer(bytearray(12), np.float32))
    copied = ng.constant(given, [c])
    given[0] = 7
    assert copied.const.tolist() == [1, 2, 3] and not np.shares_memory(copied.const, given)
    assert ng.adopt(given) is given and not given.flags.writeable
    taken = ng.constant(given, [c])
    assert np.shares_memory(taken.const, given)
    w = ng.variable([c], initial_value=given)
    with ng.Op.saved_user_deps():
        run = ng.compile([taken * w, ng.assign(w, w + 1)], [])
    assert run()[0].tolist() == [49, 4, 9] and run()[0].tolist() == [56, 6, 12]
    assert given.tolist() == [7, 2, 3]  # a variable starts from it, and is written elsewhere
    part = np.arange(6, dtype=np.float32)
    ng.adopt(part[2:5])
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 1


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_initial_values_are_broadcast_as_feeds_are(backend: str) -> None:
    h, w, n = ng.make_axis(2, "H"), ng.make_axis(3, "W"), ng.make_axis(2, "N")
    rows = ng.variable([h, w], initial_value=[1, 2, 3])
    columns = ng.variable([h, w], initial_value=np.array([[1], [2]]))
    made = ng.variable([h, w], initial_value=lambda axes: np.arange(3))
    named = ng.variable([h, w], initial_value=ng.constant([[1, 2], [3, 4], [5, 6]], [w, h]))
    along = ng.variable([h, w], initial_value=ng.constant([1, 2], [h]))
    with ng.transformers.make_transformer(backend) as transformer:
        values = [v.tolist() for v in transformer.computation([rows, columns, made, named, along])()]
    assert values == [
        [[1, 2, 3]] * 2, [[1] * 3, [2] * 3], [[0, 1, 2]] * 2, [[1, 3, 5], [2, 4, 6]], [[1] * 3, [2] * 3]
    ]  # fmt: skip
    with pytest.raises(ng.AxisLengthError, match="4 elements along W"):
        ng.variable([h, w], initial_value=[1, 2, 3, 4])
    with pytest.raises(ng.IncompatibleAxesError, match=r"\(1, 1, 3\) cannot be broadcast"):
        ng.variable([h, w], initial_value=[[[1, 2, 3]]])
    with pytest.raises(ng.IncompatibleAxesError, match=r"initial value has axes \(N\), the storage \(H, W\)"):
        ng.variable([h, w], initial_value=ng.constant([1, 2], [n]))
    with pytest.raises(ng.AxisLengthError, match="one row"):
        ng.variable([n, w], initial_value=[[1, 2, 3]])
    late = ng.make_axis(name="L")
    unset = ng.variable([late, w], initial_value=[1, 2, 3])
    late.length = 2
    assert ng.compile(unset, [], target=backend)().shape == (2, 3)


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_looking_at_a_part_copies_the_part(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h, w = ng.make_axis(300, "H"), ng.make_axis(400, "W")
    x = ng.variable([h, w], initial_value=np.arange(120000).reshape(300, 400))
    expected = np.arange(120000.0).reshape(300, 400)
    with ng.transformers.make_transformer(backend) as transformer:
        transformer.computation(x + 1)()  # on a GPU, the storage lies there now
        whole = transformer.get_op_tensor_view(x)
        storage = whole.storage
        monkeypatch.setattr(type(storage), "get", lambda self: pytest.fail("all was copied"))
        for tensor, shown in (
            (x[3, 5:7], expected[3, 5:7]),
            (x[::100, 2], expected[::100, 2]),
            (x[::-1, :2], expected[::-1, :2]),
            (x[10:10], expected[10:10]),
            (ng.Transpose(x)[1], expected[:, 1]),
            (x[1, 1], expected[1, 1]),
        ):
            got = transformer.get_tensor_view_value(tensor)
            np.testing.assert_array_equal(got, shown)
            assert got.base is None or not np.shares_memory(
                got, storage.whole() if backend != "cuda-sim" else got[:0]
            )
            got[...] = -1
        assert whole[2, 3:5].tolist() == [803, 804] and whole[0, 0] == 0
        np.testing.assert_array_equal(transformer.get_op_tensor_view(x[2])[4:6], [804, 805])
        monkeypatch.undo()
        flat = ng.flatten(x[:, 1:3])  # no part of the memory: made from all
        np.testing.assert_array_equal(transformer.get_tensor_view_value(flat), expected[:, 1:3].reshape(-1))
        transformer.get_op_tensor_view(x[5])[2:4] = [7, 8]
        expected[5, 2:4] = [7, 8]
        np.testing.assert_array_equal(transformer.get_tensor_view_value(x), expected)
        np.testing.assert_array_equal(transformer.computation(x * 1)(), expected)
