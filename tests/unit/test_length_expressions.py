# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from lengths: what is computed with them, decided of them, and read back from their text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from ngmlir.support.length_text import identifier, parse
from ngmlir.support.lengths import (
    Guard,
    Length,
    NeedsLength,
    at_least,
    below,
    broadcast_shapes,
    expression_of,
    greatest_divisor,
    guarding,
    is_multiple,
    is_same,
    quotient,
    slice_indices,
    usual,
)
from ngmlir.support.samples import other_lengths, unlike_sizes

N, M = Length.named("N", 1009), Length.named("M", 211)
GIVEN = {"N": 1009, "M": 211}


def numbers(seed: int) -> Iterator[int]:
    """Integers computed of N and M at random."""
    draw = random.Random(seed)

    def made(depth: int) -> int:
        if depth == 0:
            return draw.choice([N, M, draw.randint(-9, 9), N])
        a, b = made(depth - 1), made(depth - 1)
        return draw.choice(
            [
                lambda: a + b,
                lambda: a - b,
                lambda: a * b,
                lambda: a // draw.randint(1, 9),
                lambda: -(-a // draw.randint(1, 9)),
                lambda: a % draw.randint(1, 9),
            ]
        )()

    for _ in range(400):
        yield made(draw.randint(1, 4))


@pytest.mark.parametrize("seed", range(8))
def test_expressions_have_the_values_of_integers_and_are_read_back(seed: int) -> None:
    for number in numbers(seed):
        expression = expression_of(number)
        assert expression.value(GIVEN) == int(number)
        if isinstance(number, Length):
            again = parse(str(number)[1:-1], GIVEN)
            assert int(again) == int(number) and expression_of(again) == expression


@pytest.mark.parametrize("seed", range(8))
def test_what_is_decided_holds_for_all_lengths(seed: int) -> None:
    lengths = [{"N": n, "M": m} for n in (2, 3, 4, 5, 7, 16, 17, 100) for m in (2, 3, 6, 50)]
    found = list(numbers(seed))
    for a, b in pairwise(found):
        x, y = expression_of(a), expression_of(b)
        values = [(x.value(each), y.value(each)) for each in lengths]
        for answer, wanted in (
            (at_least(a, b), [p >= q for p, q in values]),
            (below(a, b), [p < q for p, q in values]),
        ):
            assert answer is None or set(wanted) == {answer}, (a, b)
        if (least := x.least()) is not None:
            assert all(p >= least for p, _ in values), a
        assert all(p % greatest_divisor(a) == 0 for p, _ in values if greatest_divisor(a))


@pytest.mark.parametrize("seed", range(8))
def test_a_solution_makes_an_expression_zero(seed: int) -> None:
    found = 0
    for number in numbers(seed):
        expression = expression_of(number)
        for name, length in expression.solutions():
            found += 1
            assert name not in length.names() and expression.replaced({name: length}).constant == 0
            for other in (2, 5, 12):
                lengths = {"N": other, "M": 3}
                assert expression.value({**lengths, name: length.value(lengths)}) == 0
    assert found


def test_what_has_solutions() -> None:
    n, m, k = N, M, Length.named("K", 7)
    for number, wanted in (
        (k - n * m, {"K": "M*N"}),
        (3 * n - 3 * m, {"M": "N", "N": "M"}),
        (2 * k - n, {"N": "2*K"}),
        (k + 1 - n // 2, {"K": "(N floordiv 2) - 1"}),
        (k * n - m * n, {}),
        (k - 5, {}),
        (k * k - k, {}),
    ):
        assert {name: str(of) for name, of in expression_of(number).solutions()} == wanted


def test_comparisons_that_depend_on_a_length_are_guards() -> None:
    with guarding() as found:
        assert N > 1 and N % 16 < 16 and not N == 0 and N * M >= N
        assert not found
        assert N > 64 and N != M and min(N, 64) == 64 and N % 2
    assert [str(guard) for guard in found] == ["N > 64", "M - N != 0", "2*(N floordiv 2) - N != 0"]
    assert all(guard.holds(GIVEN) for guard in found)
    assert not Guard(expression_of(N - 64), ">=").holds({"N": 63})
    with pytest.raises(NeedsLength, match="whether N"):
        bool(N > 64)


def test_what_needs_a_number_says_so() -> None:
    for act in (
        lambda: float(N),
        lambda: N / 2,
        lambda: N * 0.5,
        lambda: N.bit_length(),
        lambda: 10**9 // N,
        lambda: (N + 1) // M,
    ):
        with guarding(), pytest.raises(NeedsLength):
            act()


def test_usual_values_are_apart_from_values() -> None:
    far = Length.named("N", 3001, 1009)
    assert (int(far * 4 + 1), usual(far * 4 + 1), str(far * 4 + 1)) == (12005, 4037, "[4*N + 1]")
    assert usual((far, 3)) == (1009, 3) and hash(far) != hash(N) and is_same(far, N)


def test_parts_of_shapes() -> None:
    assert quotient(N * 64, N) == 64 and quotient(N, 2) is None and is_multiple(N * 6, 3)
    assert [str(d) for d in broadcast_shapes((N, 1), (1, 5), (5,))] == ["[N]", "5"]
    with pytest.raises(ValueError):
        broadcast_shapes((N,), (5,))
    with guarding():
        for part in (slice(None), slice(1, None), slice(-2, None), slice(None, None, -1), slice(0, 5, 2)):
            assert [int(v) for v in slice_indices(part, N)] == list(part.indices(1009))


@pytest.mark.parametrize("text", ["", "N +", "(N", "N N", "4 *", "N floordiv", "#"])
def test_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text, GIVEN)


def test_lengths_to_compile_with_are_unlike_all_others() -> None:
    near = unlike_sizes({"N": 64, "M": 64, "B": 2})
    assert len(set(near.values())) == 3 and min(near.values()) >= 17
    far = other_lengths(near, [Guard(expression_of(Length.named("N", 64) - 20), ">=")])
    assert not set(far.values()) & set(near.values()) and far["N"] >= 20
    with pytest.raises(NeedsLength):
        other_lengths({"N": 67}, [Guard(expression_of(Length.named("N", 67) - 67), "==")])
    assert identifier("batch size") == "batch_size" and identifier("3x") == "n3x"


def test_a_quotient_by_lengths_is_known_where_the_rest_is_below_them() -> None:
    assert is_same((4 * N) // (64 * N), 0) and is_same((4 * N) % (64 * N), 4 * N)
    assert is_same((M * N + N // 2) // N, M) and is_same((3 * N * M) // (N * M), 3)
    assert is_same((-3 * N) // (2 * N), -2)
    for a, b in ((M, N), (N + M, N), (N * N - M, N)):
        with pytest.raises(NeedsLength):
            _ = a // b
