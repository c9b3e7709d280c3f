# SPDX-License-Identifier: Apache-2.0
"""Beam search: one step, and the hypotheses at the end."""

from __future__ import annotations

from ..framework import Variable
from ..layer_helper import one_op

__all__ = ["beam_search", "beam_search_decode"]


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The ids that a step of a beam search chooses, and their scores: for each source the best `beam_size` of all candidates of its
    prefixes.

    `ids` and `scores` [prefixes, candidates] have the prefixes of a source as a sequence; scores are those of whole prefixes, with
    the candidate. A prefix that ends in `end_id` stays as it is. In a loop the result has place for `beam_size` rows of each source;
    its offsets say how many there are.
    """
    inputs = {"pre_ids": pre_ids, "pre_scores": pre_scores, "ids": ids, "scores": scores}
    outputs = {"selected_ids": ids.dtype, "selected_scores": scores.dtype}
    attrs = {"level": level, "beam_size": beam_size, "end_id": end_id}
    return one_op("beam_search", inputs, outputs, attrs, name)


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """The hypotheses of each source, the best first, and the scores that their ids had: rows of two levels, sources and hypotheses.

    `ids` and `scores` are arrays of what the steps chose, the first ones in position 0. Of each source at most `beam_size` are given.
    """
    outputs = {"SentenceIds": ids.dtype, "SentenceScores": scores.dtype}
    attrs = {"beam_size": beam_size, "end_id": end_id}
    return one_op("beam_search_decode", {"Ids": ids, "Scores": scores}, outputs, attrs, name)
