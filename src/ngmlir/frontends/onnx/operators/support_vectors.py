# SPDX-License-Identifier: Apache-2.0
"""Support vector machines of the domain ai.onnx.ml, as libsvm computes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import add

import numpy as np

from ....ir.types import f32, i1, i64
from ..nodes import Node, operator
from ..tensor import Array, Tensor, Thing
from .classical import greatest, label_of, labels_of, pair, shown
from .control import emitter_of
from .products import multiplied

_ML = "ai.onnx.ml"


def _floats(n: Node, name: str) -> Array:
    return np.array(n.floats(name) or [], np.float32)


def _kernel(n: Node, x: Tensor, vectors: Array, kind: str) -> Tensor:
    """[row, vector] -> how near they are."""
    gamma, shift, degree = n.floats("kernel_params") or (0.0, 0.0, 0.0)
    products = multiplied(x, n.verbs.known(np.ascontiguousarray(vectors.T)))
    match kind:
        case "LINEAR":
            return products
        case "POLY":
            return (products * gamma + shift) ** degree
        case "SIGMOID":
            return n.verbs.tanh(products * gamma + shift)
        case "RBF":
            # By differences: |x|^2 + |v|^2 - 2xv would lose the digits of what is near.
            between = x.with_axes([1]) - n.verbs.known(vectors)
            return n.verbs.exp((between * between).sum([2]) * -gamma)
        case _:
            raise n.limit(f"{n.op} with the kernel {kind}")


def _rows(x: Tensor) -> Tensor:
    return (x if x.rank == 2 else x.with_axes([0])).cast(f32)


@operator("SVMRegressor", domain=_ML)
def svm_regressor(n: Node, x: Tensor) -> Tensor:
    x, weights = _rows(x), _floats(n, "coefficients")
    count = n.integer("n_supports")
    if count:
        vectors = _floats(n, "support_vectors").reshape(count, -1)
        x = _kernel(n, x, vectors, n.text("kernel_type", "LINEAR"))
    made = multiplied(x, n.verbs.known(weights.reshape(-1, 1)))
    made = made + n.verbs.known(_floats(n, "rho")[:1])
    return (made > 0).cast(f32) * 2 - 1 if n.flag("one_class") else shown(n, made)


@operator("SVMClassifier", domain=_ML)
def svm_classifier(n: Node, x: Tensor) -> list[Thing]:
    x, weights, rho = _rows(x), _floats(n, "coefficients"), _floats(n, "rho")
    classes = len(labels_of(n))
    sizes = n.given("vectors_per_class", [])
    if not sum(sizes):  # one plane for each class
        scores = multiplied(x, n.verbs.known(np.ascontiguousarray(weights.reshape(classes, -1).T)))
        scores = scores + n.verbs.known(rho[:1])
        return [label_of(n, greatest(n, scores)), shown(n, scores)]
    vectors = _floats(n, "support_vectors").reshape(sum(sizes), -1)
    near = _kernel(n, x, vectors, n.text("kernel_type", "LINEAR"))
    pairs = list(combinations(range(classes), 2))
    scores = multiplied(near, n.verbs.known(_planes(weights.reshape(-1, sum(sizes)), sizes, pairs)))
    scores = scores + n.verbs.known(rho)
    votes = _votes(n, scores, pairs, classes)
    label = label_of(n, greatest(n, votes))
    if n.floats("prob_a"):
        return [label, shown(n, _probabilities(n, scores, pairs, classes))]
    return [label, pair(n, scores, 0.0) if len(pairs) == 1 else shown(n, scores)]


def _planes(weights: Array, sizes: list[int], pairs: list[tuple[int, int]]) -> Array:
    """[vector, pair of classes] -> its weight: those of class i are in row j - 1 for the pair (i, j), those of j in row i."""
    starts = np.cumsum([0, *sizes])
    made = np.zeros((sum(sizes), len(pairs)), np.float32)
    for at, (i, j) in enumerate(pairs):
        made[starts[i] : starts[i + 1], at] = weights[j - 1, starts[i] : starts[i + 1]]
        made[starts[j] : starts[j + 1], at] = weights[i, starts[j] : starts[j + 1]]
    return made


def _votes(n: Node, scores: Tensor, pairs: list[tuple[int, int]], classes: int) -> Tensor:
    """Each pair votes for one of its classes."""
    first, second = np.zeros((2, len(pairs), classes), np.float32)
    for at, (i, j) in enumerate(pairs):
        first[at, i] = second[at, j] = 1
    wins = (scores > 0).cast(f32)
    return multiplied(wins, n.verbs.known(first - second)) + n.verbs.known(second.sum(0))


def _probabilities(n: Node, scores: Tensor, pairs: list[tuple[int, int]], classes: int) -> Tensor:
    """The probability of each class, from those of all pairs (Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise
    coupling", JMLR 2004, algorithm 2), with libsvm's limits for steps and errors."""
    emitter, rows = emitter_of(n), scores.shape[0]
    slope, shift = n.verbs.known(_floats(n, "prob_a")), n.verbs.known(_floats(n, "prob_b"))
    first = n.verbs.sigmoid(-(scores * slope + shift)).maximum(1e-7).minimum(1 - 1e-7)
    columns = {pair: first.at(1, at) for at, pair in enumerate(pairs)}
    columns |= {(j, i): 1 - column for (i, j), column in columns.items()}
    # The loser of each pair, squared and summed, is on the diagonal.
    matrix = [
        [
            reduce(add, [columns[other, i] * columns[other, i] for other in range(classes) if other != i])
            if i == j
            else -columns[j, i] * columns[i, j]
            for j in range(classes)
        ]
        for i in range(classes)
    ]
    whole = n.verbs.stacked([n.verbs.stacked(row, 1) for row in matrix], 1)

    def going(arguments: Sequence[Tensor]) -> list[Tensor]:
        _, done, step = arguments[:3]
        return [(~done).any() & (step < max(100, classes))]

    def improved(arguments: Sequence[Tensor]) -> list[Tensor]:
        shares, done, step = arguments
        slopes = (whole * shares.with_axes([1])).sum([2])
        mean = (shares * slopes).sum([1])
        error = n.verbs.absolute(slopes - mean.with_axes([1])).max([1])
        done = done | (error < 0.005 / classes)
        made = shares
        for t in range(classes):
            own = matrix[t][t]
            move = (mean - slopes.at(1, t)) / own
            scale = 1 + move
            mean = (mean + move * (move * own + slopes.at(1, t) * 2)) / (scale * scale)
            chosen = n.verbs.known(np.arange(classes) == t)
            made = chosen.where(made + move.with_axes([1]), made) / scale.with_axes([1])
            slopes = (slopes + whole.at(1, t) * move.with_axes([1])) / scale.with_axes([1])
        return [done.with_axes([1]).where(shares, made), done, step + 1]

    state = [
        n.verbs.numbers(1 / classes, f32, [rows, classes]),
        n.verbs.numbers(False, i1, [rows]),
        n.verbs.numbers(0, i64),
    ]
    types = [each.type for each in state]
    regions = [emitter.region(types, what)[0] for what in (going, improved)]
    shares, *_ = emitter.while_(state, types=types, regions=regions)
    return shares
