# SPDX-License-Identifier: Apache-2.0
"""The gradients of the ops of neural networks."""

from __future__ import annotations

from collections.abc import Sequence

from ..fields import get_float, get_i64s
from .rules import Applied, GradientVerbs, Rules, V, spread_back

NETWORKS = Rules()


@NETWORKS.of("softmax")
def _softmax(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    y = op.results[0]
    flow = v.multiply(delta, y)
    return [v.subtract(flow, v.multiply(y, spread_back(v, v.sum(flow, axes=get_i64s(op, "axes")), op)))]


@NETWORKS.of("log_softmax")
def _log_softmax(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    total = spread_back(v, v.sum(delta, axes=get_i64s(op, "axes")), op)
    return [v.subtract(delta, v.multiply(v.exp(op.results[0]), total))]


@NETWORKS.of("cross_entropy")
def _cross_entropy(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    logits, targets = op.operands
    axes = get_i64s(op, "axes")
    wide = spread_back(v, delta, op)
    to_logits = to_targets = None
    if op.wanted[0]:
        # The sum of the targets is 1 for distributions, and 0 for a sample that is to be left out.
        weight = spread_back(v, v.sum(targets, axes=axes), op)
        to_logits = v.multiply(v.subtract(v.multiply(v.softmax(logits, axes=axes), weight), targets), wide)
    if op.wanted[1]:
        to_targets = v.negative(v.multiply(v.log_softmax(logits, axes=axes), wide))
    return [to_logits, to_targets]


@NETWORKS.of("normalize")
def _normalize(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (x,), (y,), axes = op.operands, op.results, get_i64s(op, "axes")
    centered = v.subtract(x, spread_back(v, v.mean(x, axes=axes), op))
    variance = v.mean(v.square(centered), axes=axes)
    scale = v.rsqrt(v.add(variance, v.number_like(get_float(op, "epsilon"), variance)))
    mean, along = (spread_back(v, v.mean(each, axes=axes), op) for each in (delta, v.multiply(delta, y)))
    rest = v.subtract(v.subtract(delta, mean), v.multiply(y, along))
    return [v.multiply(rest, spread_back(v, scale, op))]
