# SPDX-License-Identifier: Apache-2.0
"""Operators on rows of words, where the words are integers."""

from __future__ import annotations

import numpy as np

from ....ir.types import f32
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(n: Node, x: Tensor) -> Tensor:
    """How often each n-gram of the pool occurs in a row, also with other words between its words."""
    pool = n.integers("pool_int64s")
    if pool is None:
        raise n.limit("TfIdfVectorizer of strings")
    starts, places = n.given("ngram_counts", []), n.given("ngram_indexes", [])
    least, most = n.integer("min_gram_length"), n.integer("max_gram_length")
    rows = x if x.rank == 2 else x.with_axes([0])
    length, width = rows.shape[1], max(places) + 1
    total, gram = n.verbs.numbers(0, f32, [rows.shape[0], width]), 0
    for size, start in enumerate(starts, 1):
        end = starts[size] if size < len(starts) else len(pool)
        grams = np.array(pool[start:end], np.int64).reshape(-1, size)
        mine = places[gram : gram + len(grams)]
        gram += len(grams)
        if not least <= size <= most or not len(grams):
            continue
        found = n.verbs.numbers(0, f32, [rows.shape[0], len(grams)])
        # Words that are left out between those of a gram: of a single word there are none.
        for step in range(1, 2 if size == 1 else n.integer("max_skip_count") + 2):
            windows = length - (size - 1) * step
            if windows < 1:
                break
            same: Tensor | None = None
            for k in range(size):
                word = rows.part(1, k * step, k * step + windows).with_axes([2])
                each = word.equals(n.verbs.known(grams[:, k]).cast(x.element))
                same = each if same is None else same & each
            assert same is not None
            found = found + same.cast(f32).sum([1])
        spread = np.zeros((len(grams), width), np.float32)
        spread[np.arange(len(grams)), mine] = 1
        total = total + n.verbs.dot(
            found, n.verbs.known(spread), lhs_contract=[1], rhs_contract=[0], lhs_batch=[], rhs_batch=[]
        )
    weights = n.floats("weights")
    scale = n.verbs.known(np.array(weights, np.float32)) if weights else n.verbs.numbers(1, f32)
    mode = n.text("mode")
    made = total if mode == "TF" else (total > 0).cast(f32) * scale if mode == "IDF" else total * scale
    return made if x.rank == 2 else made.at(0, 0)
