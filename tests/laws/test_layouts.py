# SPDX-License-Identifier: Apache-2.0
"""Laws of linear layouts: every element has a place, ops on layouts follow the ops on tiles, conversions move
every element to where the target wants it."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ngmlir.ops.layouts import (
    Layout,
    blocked,
    conversion,
    matrix_fragments,
    padded,
    product_blocks,
)

THREADS = st.sampled_from([32, 64, 128, 256])
SIZES = st.sampled_from([1, 2, 4, 8, 16])
#: Machines that run tests are busy: time is no error.
relaxed = settings(max_examples=60, deadline=None)


@st.composite
def layouts(
    draw: st.DrawFn, rank: int | None = None, shape: tuple[int, ...] | None = None, threads: int = 0
) -> Layout:
    """Blocked layouts in any order, products, and random ones whose bits are shuffled."""
    if shape is None:
        shape = tuple(draw(SIZES) for _ in range(rank if rank is not None else draw(st.integers(1, 3))))
    threads = threads or draw(THREADS)
    order = draw(st.permutations(range(len(shape))))
    found = blocked(shape, threads, draw(st.sampled_from([1, 2, 4, 8])), order)
    if len(shape) == 2 and draw(st.booleans()):
        found = product_blocks(shape, threads)
    if draw(st.booleans()):
        bits = draw(st.permutations([*found.register, *found.thread]))
        split = len(found.register)
        found = Layout(found.shape, tuple(bits[:split]), tuple(bits[split:]))
    return found


def spanned(bases: tuple[tuple[int, ...], ...], rank: int) -> np.ndarray:
    """Numbers x dimensions: the exclusive or of the bases of each number's bits."""
    numbers = np.arange(1 << len(bases))[:, None]
    out = np.zeros((len(numbers), rank), np.int64)
    for bit, basis in enumerate(bases):
        out ^= (numbers >> bit & 1) * np.array(basis, np.int64).reshape(1, rank)
    return out


def held(layout: Layout) -> np.ndarray:
    """Threads x registers x dimensions."""
    return spanned(layout.thread, layout.rank)[:, None] ^ spanned(layout.register, layout.rank)[None]


def elements(layout: Layout) -> np.ndarray:
    """Threads x registers: the position of each element, row by row."""
    at = held(layout)
    out = np.zeros(at.shape[:2], np.int64)
    for d, size in enumerate(layout.shape):
        out = out * size + at[..., d]
    return out


@relaxed
@given(layouts(), st.integers(0, 255), st.integers(0, 1 << 12))
def test_a_place_is_the_xor_of_its_bits(layout: Layout, thread: int, register: int) -> None:
    thread, register = thread % layout.threads, register % layout.registers
    assert layout.at(register, thread) == tuple(held(layout)[thread, register])


@relaxed
@given(layouts())
def test_every_element_has_the_same_number_of_places(layout: Layout) -> None:
    found, counts = np.unique(elements(layout), return_counts=True)
    np.testing.assert_array_equal(found, np.arange(prod(layout.shape)))
    assert len(set(counts)) == 1 and counts[0] * prod(layout.shape) == layout.threads * layout.registers


@relaxed
@given(layouts())
def test_threads_that_differ_in_copies_hold_the_same(layout: Layout) -> None:
    places = elements(layout)
    first = np.arange(layout.threads) & ~layout.copies
    np.testing.assert_array_equal(places, places[first])


@relaxed
@given(layouts(), st.data())
def test_runs_are_consecutive_and_aligned(layout: Layout, data: st.DataObject) -> None:
    dimension = data.draw(st.integers(0, layout.rank - 1))
    run = layout.run(dimension)
    at = held(layout)
    for first in range(0, layout.registers, run):
        assert not (at[:, first, dimension] % run).any()
        for i in range(run):
            step = np.zeros(layout.rank, np.int64)
            step[dimension] = i
            np.testing.assert_array_equal(at[:, first + i], at[:, first] + step)


@relaxed
@given(layouts(), st.data())
def test_dropping_dimensions_projects(layout: Layout, data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, layout.rank - 1)))
    kept = [d for d in range(layout.rank) if d not in gone]
    left = layout.drop(gone)
    assert left.shape == tuple(layout.shape[d] for d in kept)
    whole, mine = held(layout)[..., kept], held(left)
    for thread in range(0, layout.threads, 17):
        projected = {tuple(at) for at in whole[thread]}
        assert {tuple(at) for at in mine[thread]} == projected and left.registers == len(projected)


@relaxed
@given(layouts(rank=2), st.data())
def test_spreading_is_undone_by_dropping(layout: Layout, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 2))
    places = [d for d in range(3) if d != place]
    shape = list(layout.shape)
    shape.insert(place, data.draw(SIZES))
    wide = layout.spread(places, shape)
    # Zero bases of registers are the only thing that dropping removes.
    plain = Layout(layout.shape, tuple(b for b in layout.register if any(b)), layout.thread)
    assert wide.drop([place]) == plain
    assert set(elements(wide).ravel()) == set(range(prod(shape)))


@relaxed
@given(layouts(), st.data())
def test_transposing_follows_the_tile(layout: Layout, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(layout.rank)))
    moved = layout.transpose(order)
    np.testing.assert_array_equal(held(moved), held(layout)[..., list(order)])
    assert moved.transpose([order.index(d) for d in range(layout.rank)]) == layout


@relaxed
@given(layouts(), st.data())
def test_reshaping_keeps_elements_in_place(layout: Layout, data: st.DataObject) -> None:
    bits = prod(layout.shape).bit_length() - 1
    cut = data.draw(st.integers(0, bits))
    moved = layout.reshape((1 << cut, 1 << (bits - cut)))
    np.testing.assert_array_equal(elements(moved), elements(layout))
    assert moved.reshape(layout.shape) == layout


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_conversions_bring_every_element_home(data: st.DataObject) -> None:
    source = data.draw(layouts())
    target = data.draw(layouts(shape=source.shape, threads=source.threads))
    plan = conversion(source, target)
    values, wanted = elements(source), elements(target)
    if plan is None:
        # Some warp lacks an element that it needs.
        warps = source.threads // 32
        has = values.reshape(warps, -1)
        needs = wanted.reshape(warps, -1)
        assert any(set(needs[w]) - set(has[w]) for w in range(warps))
        return
    threads = np.arange(source.threads)[:, None]
    register, lane = (
        np.array([p.register for p in plan.registers]),
        np.array([p.lane for p in plan.registers]),
    )
    register, lane = register[None] ^ 0 * threads, lane[None] ^ 0 * threads
    for bit, part in enumerate(plan.threads):
        register = register ^ (threads >> bit & 1) * part.register
        lane = lane ^ (threads >> bit & 1) * part.lane
    np.testing.assert_array_equal(values[threads ^ lane, register], wanted)
    assert set(np.unique(register ^ register[:1])) <= set(plan.variants)
    if source == target:
        assert not plan.moves and plan.variants == (0,)


@relaxed
@given(st.lists(st.integers(0, 70), min_size=1, max_size=3), THREADS, st.sampled_from([1, 4]))
def test_blocked_layouts_hold_tiles_of_any_size(shape: list[int], threads: int, vector: int) -> None:
    layout = blocked(shape, threads, vector)
    assert layout.shape == padded(shape)
    assert len(np.unique(elements(layout))) == prod(layout.shape)


def test_warps_read_whole_lines() -> None:
    layout = blocked((8, 512), 128, 4)
    assert layout.run(1) == 4
    lanes = [layout.at(0, lane) for lane in range(32)]
    assert lanes == [(0, 4 * lane) for lane in range(32)]


@relaxed
@given(
    st.sampled_from([16, 32, 64, 128]), st.sampled_from([8, 16, 64]), st.sampled_from([16, 32, 64]), THREADS
)
def test_matrix_fragments_are_those_of_the_instruction(
    rows: int, columns: int, depth: int, threads: int
) -> None:
    """As the PTX manual gives them for mma.m16n8k16: group = lane / 4, place in group = lane % 4."""
    found = matrix_fragments(rows, columns, depth, threads)
    for layout in found:
        assert set(elements(layout).ravel()) == set(range(prod(layout.shape)))
    for lane in range(32):
        group, place = lane // 4, lane % 4
        assert [found.accumulator.at(r, lane) for r in range(4)] == [
            (group + 8 * (r // 2), 2 * place + r % 2) for r in range(4)
        ]
        assert [found.lhs.at(r, lane) for r in range(8)] == [
            (group + 8 * (r // 2 % 2), 2 * place + r % 2 + 8 * (r // 4)) for r in range(8)
        ]
        assert [found.rhs.at(r, lane) for r in range(4)] == [
            (2 * place + r % 2 + 8 * (r // 2), group) for r in range(4)
        ]
    # Each warp finds the operands of its part of the accumulator.
    for thread in range(0, threads, 32):
        rows_here = {
            found.accumulator.at(r, t)[0]
            for r in range(found.accumulator.registers)
            for t in range(thread, thread + 32)
        }
        lhs_rows = {
            found.lhs.at(r, t)[0] for r in range(found.lhs.registers) for t in range(thread, thread + 32)
        }
        assert rows_here == lhs_rows


@pytest.mark.parametrize("threads", [32, 64, 128, 256])
@pytest.mark.parametrize("tile", [(16, 8), (16, 64), (64, 16), (64, 64), (128, 32)])
def test_the_part_of_a_thread_and_of_a_warp_is_what_they_hold(tile: tuple[int, int], threads: int) -> None:
    """What the cost of a schedule is computed from is what is emitted."""
    for layout in (matrix_fragments(*tile, 16, threads).accumulator, product_blocks(tile, threads)):
        one = [layout.at(register, 0) for register in range(layout.registers)]
        warp = [layout.at(register, thread) for register in range(layout.registers) for thread in range(32)]
        for held, part in ((one, layout.part()), (warp, layout.part(warps=True))):
            assert part == tuple(len({place[d] for place in held}) for d in range(2))
