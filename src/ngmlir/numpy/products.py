# SPDX-License-Identifier: Apache-2.0
"""Products of arrays. All are `einsum`, which is one `ng.dot` for every two operands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from string import ascii_letters, ascii_lowercase, ascii_uppercase
from typing import Any, cast

import numpy as np

from ..ir.types import IntegerType, i1
from ..op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.subscripts import read_subscripts
from . import arrays
from .arrays import as_array, as_type, element, joined, of_type, permute, reshape, shape
from .elementwise import multiply, subtract
from .indexing import getitem
from .shaping import diagonal, moveaxis, ravel

#: What NumPy writes for axes by number: results without a term of their own have them in this order.
_LETTERS = ascii_uppercase + ascii_lowercase


def _lettered(given: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """`"AB,BC->AC"` and `x, y` for `x, [0, 1], y, [1, 2], [0, 2]`."""
    lists = [*given[1::2], *given[-1:]] if len(given) % 2 else [*given[1::2]]
    if not all(
        isinstance(axes, (list, tuple)) and all(n is ... or n in range(52) for n in axes) for axes in lists
    ):
        fail(
            UserError,
            "einsum takes its subscripts first, or a list of numbers from 0 to 51 behind each operand",
            'einsum("ij,jk->ik", x, y), or einsum(x, [0, 1], y, [1, 2], [0, 2])',
        )
    terms = ["".join("..." if n is ... else _LETTERS[n] for n in axes) for axes in lists]
    text = ",".join(terms[: len(given) // 2])
    text = f"{text}->{terms[-1]}" if len(given) % 2 else text
    return text, tuple(given[: len(given) // 2 * 2 : 2])


def _letters(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, `...` written out."""
    terms, result = read_subscripts(subscripts, ranks)
    free = (c for c in ascii_letters if c not in subscripts)
    letters = {x: x if len(x) == 1 else next(free) for x in dict.fromkeys(x for t in terms for x in t)}
    return ["".join(letters[x] for x in term) for term in terms], "".join(letters[x] for x in result)


def _once(x: Tensor, term: str) -> tuple[Tensor, str]:
    """With diagonals in the place of letters that one operand has twice."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            if shape(x)[i] != shape(x)[j]:
                fail(
                    AxisLengthError,
                    f"letter {letter!r} has lengths {shape(x)[i]} and {shape(x)[j]} in one operand",
                )
            x = diagonal(x, 0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + letter
    return x, term


def _summed(x: Tensor, term: str, wanted: set[str]) -> tuple[Tensor, str]:
    """Sums a term over the labels that no other term and not the result has."""
    gone = tuple(i for i, c in enumerate(term) if c not in wanted)
    return (_added(x, gone), "".join(c for c in term if c in wanted)) if gone else (x, term)


def _added(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return VERBS.any(x, axes=axes) if x.element is i1 else VERBS.sum(x, axes=axes)


def _pair(x: Tensor, a: str, y: Tensor, b: str, result: str) -> tuple[Tensor, str]:
    """The product of two, with the letters that are still wanted."""
    wanted = set(result)
    x, a = _summed(x, a, wanted | set(b))
    y, b = _summed(y, b, wanted | set(a))
    # An axis of length 1 on one side is repeated along that of the other: it needs no repeating to be multiplied.
    for letter in set(a) & set(b):
        i, j = a.index(letter), b.index(letter)
        one, other = shape(x)[i], shape(y)[j]
        if one != other:
            if 1 not in (one, other):
                fail(AxisLengthError, f"letter {letter!r} has lengths {one} and {other}")
            if one == 1:
                x, a = reshape(x, [n for d, n in enumerate(shape(x)) if d != i]), a.replace(letter, "")
            else:
                y, b = reshape(y, [n for d, n in enumerate(shape(y)) if d != j]), b.replace(letter, "")
    x, a = _summed(x, a, wanted | set(b))
    y, b = _summed(y, b, wanted | set(a))
    batch = [c for c in a if c in b and c in wanted]
    contract = [c for c in a if c in b and c not in wanted]
    letters = "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)])
    if not a or not b or not contract:
        whole = {c: n for t, v in ((a, x), (b, y)) for c, n in zip(t, shape(v), strict=True)}
        return multiply(_spread(x, a, letters, whole), _spread(y, b, letters, whole)), letters
    truth = x.element is i1
    if truth:
        x, y = (as_type(v, IntegerType(32)) for v in (x, y))
    made = VERBS.dot(
        x, y,
        lhs_contract=tuple(map(a.index, contract)), rhs_contract=tuple(map(b.index, contract)),
        lhs_batch=tuple(map(a.index, batch)), rhs_batch=tuple(map(b.index, batch)),
    )  # fmt: skip
    return (as_type(made, i1) if truth else made), letters


def _spread(x: Tensor, term: str, letters: str, whole: dict[str, int]) -> Tensor:
    """With the axes of all letters, in their order; of length 1 where it has none."""
    x = permute(x, sorted(range(len(term)), key=lambda i: letters.index(term[i])))
    return reshape(x, [whole[c] if c in term else 1 for c in letters])


def einsum(subscripts: Any, /, *operands: Any, dtype: Any = None, optimize: Any = True) -> Tensor:
    """Products of operands, summed over the letters that the result lacks: `einsum("bij,bjk->bik", x, y)`, or with numbers
    for letters, `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Several operands are multiplied in an order with few multiplications, whatever `optimize` says. Raises UserError for
    what the letters do not fit.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered([subscripts, *operands])
    kind = joined(*operands) if dtype is None else element(dtype)
    xs = [of_type(x, kind) for x in operands]
    terms, result = _letters(subscripts, [len(shape(x)) for x in xs])
    pairs = [_once(x, t) for x, t in zip(xs, terms, strict=True)]
    for order in _order(pairs, result):
        (x, a), (y, b), *rest = [
            *(pairs[i] for i in order),
            *(p for i, p in enumerate(pairs) if i not in order),
        ]
        needed = "".join({*result, *(c for _, t in rest for c in t)})
        pairs = [*rest, _pair(x, a, y, b, needed)]
    ((made, term),) = pairs
    made, term = _summed(made, term, set(result))
    made = permute(made, [term.index(c) for c in result])
    return made


def _order(pairs: Sequence[tuple[Tensor, str]], result: str) -> Iterable[tuple[int, int]]:
    """Which two to multiply next, each time; the product comes last."""
    if len(pairs) < 3:
        return [(0, 1)] * (len(pairs) - 1)
    sizes = [np.broadcast_to(0.0, shape(x)) for x, _ in pairs]
    text = ",".join(t for _, t in pairs) + "->" + result
    path = cast("list[Any]", np.einsum_path(text, *sizes, optimize="greedy")[0])
    steps: list[tuple[int, int]] = []
    for step in path[1:]:
        # Where several may be multiplied at once, they are from the last ones on.
        ordered = sorted(step)
        steps.append((ordered[0], ordered[1]))
        count = len(pairs) - len(steps)
        for _ in ordered[2:]:
            steps.append((count - 2, count - 1))
            count -= 1
    return steps


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product `x1 @ x2`; axes before the last two are broadcast."""
    x, y = as_array(x1), as_array(x2)
    a, b = len(shape(x)), len(shape(y))
    if not a or not b:
        fail(UserError, "matmul: an operand is a scalar", "multiply with *")
    _matching("matmul", x, -1, y, -2 if b > 1 else -1)
    left, right = ("...ik" if a > 1 else "k"), ("...kj" if b > 1 else "k")
    return einsum(f"{left},{right}->...{'i' if a > 1 else ''}{'j' if b > 1 else ''}", x, y)


def _matching(function: str, x: Tensor, i: int, y: Tensor, j: int) -> None:
    """Refuses arrays that do not have these axes, or have them with different lengths: in products none is repeated."""
    one, other = shape(x)[i:][:1], shape(y)[j:][:1]
    if len(shape(x)) < -i or len(shape(y)) < -j or one != other:
        fail(
            IncompatibleAxesError,
            f"{function}: shapes {shape(x)} and {shape(y)} do not match"
            + (f": {one[0]} is not {other[0]}" if one and other else ""),
        )


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The sum of products along one axis."""
    x, y = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    _matching("vecdot", x, -1, y, -1)
    return einsum("...i,...i->...", x, y)


def matvec(x1: Any, x2: Any, /) -> Tensor:
    """Products of matrices in the last two axes of x1 and vectors in the last axis of x2; the others are broadcast."""
    x, y = as_array(x1), as_array(x2)
    _matching("matvec", x, -1, y, -1)
    return einsum("...ij,...j->...i", x, y)


def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """Products of vectors in the last axis of x1 and matrices in the last two axes of x2; the others are broadcast."""
    x, y = as_array(x1), as_array(x2)
    _matching("vecmat", x, -1, y, -2)
    return einsum("...i,...ij->...j", x, y)


def dot(a: Any, b: Any) -> Tensor:
    """The sum of products over the last axis of a and the last but one of b (or its only one)."""
    x, y = as_array(a), as_array(b)
    if not shape(x) or not shape(y):
        return multiply(x, y)
    return tensordot(x, y, axes=(-1, -2 if len(shape(y)) > 1 else -1))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """The sum of products over so many axes, or over pairs of axes."""
    x, y = as_array(a), as_array(b)
    m, n = len(shape(x)), len(shape(y))
    if isinstance(axes, int):
        axes = (range(m - axes, m), range(axes))
    first, second = (
        arrays.places((s,) if isinstance(s, int) else tuple(s), r) for s, r in zip(axes, (m, n), strict=True)
    )
    if len(first) != len(second) or any(
        shape(x)[i] != shape(y)[j] for i, j in zip(first, second, strict=True)
    ):
        fail(
            IncompatibleAxesError,
            f"shape-mismatch for sum: {shape(x)} over {first}, {shape(y)} over {second}",
        )
    left, right = [*ascii_letters[:m]], [*ascii_letters[m : m + n]]
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    result = [c for c in left if c not in right] + [c for c in right if c not in left]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(result)}", x, y)


def inner(a: Any, b: Any) -> Tensor:
    """The sum of products over the last axes."""
    x, y = as_array(a), as_array(b)
    return tensordot(x, y, axes=(-1, -1)) if shape(x) and shape(y) else multiply(x, y)


def outer(a: Any, b: Any) -> Tensor:
    """All products of two elements."""
    return multiply(reshape(ravel(a), (math.prod(shape(as_array(a))), 1)), ravel(b))


def vdot(a: Any, b: Any) -> Tensor:
    """The sum of products of all elements."""
    return dot(ravel(a), ravel(b))


def kron(a: Any, b: Any) -> Tensor:
    """Blocks of b, multiplied with the elements of a."""
    x, y = as_array(a), as_array(b)
    rank = max(len(shape(x)), len(shape(y)))
    one, other = ((1,) * (rank - len(shape(v))) + shape(v) for v in (x, y))
    x = reshape(x, [n for length in one for n in (length, 1)])
    y = reshape(y, [n for length in other for n in (1, length)])
    return reshape(multiply(x, y), [m * n for m, n in zip(one, other, strict=True)])


def cross(a: Any, b: Any, axis: int = -1) -> Tensor:
    """The vector product of vectors of three."""
    x, y = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if shape(x)[-1] != 3 or shape(y)[-1] != 3:
        fail(UserError, "cross needs vectors with 3 elements")

    def turned(v: Tensor, by: int) -> Tensor:
        return getitem(v, (..., np.roll(np.arange(3), -by)))

    made = subtract(multiply(turned(x, 1), turned(y, 2)), multiply(turned(x, 2), turned(y, 1)))
    return moveaxis(made, -1, axis)


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The sum of products as one row slides, reversed, along another: `full`, `same` or `valid`."""
    x, y = as_array(a), as_array(v)
    if len(shape(x)) != 1 or len(shape(y)) != 1 or 0 in (*shape(x), *shape(y)):
        fail(UserError, f"convolve needs two non-empty 1-D arrays, not {shape(x)} and {shape(y)}")
    if shape(x)[0] < shape(y)[0]:
        x, y = y, x
    kind, n, m = joined(x, y), shape(x)[0], shape(y)[0]
    x, y = as_type(x, kind), as_type(y, kind)
    whole = arrays.surround(x, [m - 1], [m - 1])
    at = np.arange(n + m - 1)[:, None] + np.arange(m)
    made = matmul(getitem(whole, at), getitem(y, slice(None, None, -1)))
    low, count = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}.get(
        mode, (0, -1)
    )
    if count < 0:
        fail(UserError, f"mode {mode!r} is not there", "full, same or valid")
    return getitem(made, slice(low, low + count))


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """The sum of products as one row slides along another: `full`, `same` or `valid`."""
    x, y = as_array(a), as_array(v)
    if len(shape(x)) == len(shape(y)) == 1 and shape(x)[0] < shape(y)[0]:
        return getitem(correlate(y, x, mode), slice(None, None, -1))
    return convolve(x, getitem(y, slice(None, None, -1)) if shape(y) else y, mode)
