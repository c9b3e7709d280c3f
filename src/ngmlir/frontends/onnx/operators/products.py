# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir.types import TensorType, Type, f64, i64
from ....support.diagnostics import UserError
from ....support.lengths import broadcast_shapes
from ....support.subscripts import read_subscripts
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("MatMul")
def matmul(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    return multiplied(lhs, rhs)


def multiplied(lhs: Tensor, rhs: Tensor, element: Type | None = None) -> Tensor:
    """NumPy's product of matrices; where stated, with sums of wider elements."""
    if not lhs.rank or not rhs.rank:
        raise UserError("a product of matrices and a number")
    row, column = lhs.rank == 1, rhs.rank == 1
    a = lhs.with_axes([0]) if row else lhs
    b = rhs.with_axes([1]) if column else rhs
    if a.shape[-1] != b.shape[-2]:
        raise UserError(f"matrices {list(lhs.shape)} and {list(rhs.shape)} do not fit")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if all(d == 1 for d in b.shape[:-2]) and len(batch) == a.rank - 2:
        made = dot(a, b.reshape(b.shape[-2:]), [a.rank - 1], [0], element=element)
    else:
        a, b = a.broadcast([*batch, *a.shape[-2:]]), b.broadcast([*batch, *b.shape[-2:]])
        outer = list(range(len(batch)))
        made = dot(a, b, [len(batch) + 1], [len(batch)], outer, outer, element)
    if column:
        made = made.without_axes([-1])
    return made.without_axes([-1 if column else -2]) if row else made


def dot(
    lhs: Tensor,
    rhs: Tensor,
    lhs_contract: list[int],
    rhs_contract: list[int],
    lhs_batch: list[int] | None = None,
    rhs_batch: list[int] | None = None,
    element: Type | None = None,
) -> Tensor:
    """`ng.dot`; where stated, with sums of wider elements."""
    left, right = lhs_batch or [], rhs_batch or []
    shape = (
        *(lhs.shape[i] for i in left),
        *(d for i, d in enumerate(lhs.shape) if i not in (*left, *lhs_contract)),
        *(d for i, d in enumerate(rhs.shape) if i not in (*right, *rhs_contract)),
    )
    return lhs.verbs.dot(
        lhs,
        rhs,
        lhs_contract=lhs_contract,
        rhs_contract=rhs_contract,
        lhs_batch=left,
        rhs_batch=right,
        type=None if element is None else TensorType(shape, element),
    )


@operator("Gemm")
def gemm(n: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    made = dot(a, b, [0 if n.flag("transA") else 1], [1 if n.flag("transB") else 0])
    element = made.element
    if not (made.is_float or (alpha.is_integer() and beta.is_integer())):
        made, c = made.cast(f64), None if c is None else c.cast(f64)
    made = made if alpha == 1 else made * alpha
    if c is not None:
        made = made + (c if beta == 1 else c * beta).broadcast(made.shape)
    return made.cast(element)


@operator("Einsum")
def einsum(n: Node, *operands: Tensor) -> Tensor:
    """One product after the other, each over the letters that nothing later asks for."""
    terms, result = read_subscripts(n.text("equation"), [x.rank for x in operands])
    made, letters = _diagonal(n, operands[0], terms[0])
    for i, operand in enumerate(operands[1:], 1):
        other, own = _diagonal(n, operand, terms[i])
        kept = {*result, *(letter for term in terms[i + 1 :] for letter in term)}
        made, letters = _joined(made, letters, other, own, kept)
    gone = [i for i, letter in enumerate(letters) if letter not in result]
    made = made.sum(gone) if gone else made
    letters = [letter for letter in letters if letter in result]
    return made.transpose([letters.index(letter) for letter in result])


def _diagonal(n: Node, x: Tensor, letters: list[str]) -> tuple[Tensor, list[str]]:
    """A tensor with each letter once: the diagonal for repeated letters."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            length = x.shape[first]
            same = np.eye(length, dtype=bool).reshape(
                [length if d in (first, second) else 1 for d in range(x.rank)]
            )
            x = n.verbs.known(same).where(x, n.verbs.numbers(0, x.element)).sum([second])
            letters = [*letters[:second], *letters[second + 1 :]]
    return x, letters


def _joined(a: Tensor, la: list[str], b: Tensor, lb: list[str], kept: set[str]) -> tuple[Tensor, list[str]]:
    for letter in [x for x in la if x in lb]:
        i, j = la.index(letter), lb.index(letter)
        length = max(a.shape[i], b.shape[j])
        a = a.broadcast([length if d == i else s for d, s in enumerate(a.shape)])
        b = b.broadcast([length if d == j else s for d, s in enumerate(b.shape)])
    both = [x for x in la if x in lb]
    contract, batch = [x for x in both if x not in kept], [x for x in both if x in kept]
    letters = [*batch, *(x for x in la if x not in both), *(x for x in lb if x not in both)]
    places = [[letters_.index(x) for x in group] for letters_ in (la, lb) for group in (contract, batch)]
    return dot(a, b, places[0], places[2], places[1], places[3]), letters


@operator("Det")
def det(n: Node, x: Tensor) -> Tensor:
    """By elimination with the greatest pivot of each column; one step for each row."""
    size = x.shape[-1]
    if size > 64:
        raise n.limit(f"the determinant of matrices of {size} rows")
    batch = list(x.shape[:-2])
    m, value = x.reshape([prod(batch), size, size]), n.verbs.numbers(1, x.element, batch)
    value = value.reshape([m.shape[0]])
    for k in range(size):
        column = n.verbs.absolute(m.at(2, 0))
        pivot = n.verbs.argmax(column, type=TensorType((m.shape[0],), i64), axes=[1])
        chosen = pivot.with_axes([1]).equals(n.verbs.arange(size - k)).with_axes([2])
        row = chosen.where(m, n.verbs.numbers(0, m.element)).sum([1])
        first = m.at(1, 0).with_axes([1])
        head = row.at(1, 0)
        value = (
            value
            * head
            * pivot.equals(0).where(n.verbs.numbers(1, m.element), n.verbs.numbers(-1, m.element))
        )
        swapped = chosen.where(first, m).part(1, 1, size - k)
        safe = head.equals(0).where(n.verbs.numbers(1, m.element), head).reshape([m.shape[0], 1, 1])
        m = (swapped - swapped.part(2, 0, 1) / safe * row.with_axes([1])).part(2, 1, size - k)
    return value.reshape(batch)
