# SPDX-License-Identifier: Apache-2.0
"""The hypotheses of a beam search, from what each of its steps chose."""

from __future__ import annotations

from .. import numpy as np
from ..op_graph.tensor import Tensor
from ..support.diagnostics import UserError
from . import segments
from .arrays import TensorArray
from .block_values import Lowering, called
from .descriptions import Operator


def beam_search_decode(lowering: Lowering, operator: Operator) -> None:
    """Builds the operator of that type."""
    ids, scores = _steps(lowering, operator, "Ids"), _steps(lowering, operator, "Scores")
    end: int = operator.attribute("end_id")
    width = len(ids.elements)
    paths: list[tuple[Tensor, Tensor]] = []
    rows: list[
        tuple[Tensor, Tensor]
    ] = []  # of each step: the source of each row, and how many rows each source has
    before: tuple[Tensor, Tensor] | None = None
    for element, score, levels in zip(ids.elements, scores.elements, ids.levels, strict=True):
        assert element is not None and score is not None
        count = element.type.shape[0]
        now = np.reshape(element, [count, 1]), np.reshape(score, [count, 1])
        if before is not None:
            parent = segments.owners(levels[-1], count)
            a, b = (
                np.concatenate([segments.take(p, parent), n], 1) for p, n in zip(before, now, strict=True)
            )
            now = a, b
        sources = segments.absolute(levels)
        rows.append((segments.owners(sources, count), segments.lengths(sources)))
        before = now
        paths.append(now)
    last = np.concatenate([_last_of_source(rows, t) for t in range(width)])
    source = np.concatenate([source for source, _ in rows])
    every_id, every_score = (
        np.concatenate([np.pad(path[which], [(0, 0), (0, width - t - 1)]) for t, path in enumerate(paths)])
        for which in (0, 1)
    )
    lengths = np.concatenate([_length(path, end) for path, _ in paths])
    final = np.concatenate(
        [segments.take(np.transpose(s), np.asarray([t], dtype="int32"))[0] for t, (_, s) in enumerate(paths)]
    )
    groups = rows[0][1].type.shape[0]
    best = np.astype(np.argsort(np.negative(final), stable=True), "int32")
    key = np.where(last, source, np.asarray(groups, dtype="int32"))
    order = segments.take(best, np.astype(np.argsort(segments.take(key, best), stable=True), "int32"))
    found = lowering.size(np.sum(np.astype(last, "int32")))
    chosen = order[:found]
    owner = np.expand_dims(segments.take(source, chosen), 1)
    counts = np.sum(np.astype(np.equal(owner, np.arange(groups, dtype="int32")), "int32"), axis=0)
    cuts = segments.offsets_from(segments.take(lengths, chosen))
    total = lowering.size(np.sum(segments.take(lengths, chosen)))
    hypothesis, place = segments.owners(cuts, total), segments.places(cuts, total)
    at = np.add(np.multiply(segments.take(chosen, hypothesis), width), place)
    for slot, values in (("SentenceIds", every_id), ("SentenceScores", every_score)):
        (name,) = operator.outputs[slot]
        flat = np.reshape(values, [values.type.shape[0] * width])
        lowering.write(operator, name, segments.take(flat, at), (segments.offsets_from(counts), cuts))


def _steps(lowering: Lowering, operator: Operator, slot: str) -> TensorArray:
    (name,) = operator.inputs[slot]
    held = lowering.read(operator, name)
    if not isinstance(held, TensorArray):
        raise UserError(
            f"operator beam_search_decode takes an array whose positions are known, and '{name}' is {called(held)} that a loop writes"
            if not isinstance(held, Tensor)
            else f"operator beam_search_decode takes an array, and '{name}' is a tensor",
            hint="write the steps of the search one after the other, in a loop of Python",
        )
    if not held.elements or any(len(levels) != 2 for levels in held.levels):
        raise UserError(
            f"the elements of '{name}' are what beam_search gives: rows of two levels, sources and prefixes",
            hint="feed the first ids and scores with lod_level=2: one row for each source",
        )
    return held


def _last_of_source(rows: list[tuple[Tensor, Tensor]], step: int) -> Tensor:
    """Whether the source of each row of a step has none in the next step."""
    source = rows[step][0]
    if step + 1 == len(rows):
        return np.ones(source.type.shape, bool)
    return np.equal(segments.take(rows[step + 1][1], source), 0)


def _length(path: Tensor, end: int) -> Tensor:
    """How many ids of each path are shown: all up to the first end behind the beginning."""
    count, width = path.type.shape
    if width == 1:
        return np.ones([count], "int32")
    ends = np.astype(np.equal(path[:, 1:], end), "int32")
    before = np.subtract(np.cumsum(ends, axis=1), ends)
    return np.astype(np.add(np.sum(np.astype(np.equal(before, 0), "int32"), axis=1), 1), "int32")
