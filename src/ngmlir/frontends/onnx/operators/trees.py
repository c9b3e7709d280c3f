# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees. Of small trees every node is asked, and the answers rule out leaves, which are bits of words; down others
every row goes, all trees at once, one level in each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from ....ir.literals import dtype_of
from ....ir.types import f32, f64, i32, i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Array, Tensor, Thing, broadcast
from .classical import labelled, shown

_ML = "ai.onnx.ml"
#: Modes as TreeEnsemble numbers them.
_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"]
_LEAF = "LEAF"
#: Leaves of trees all of whose nodes are asked, and of a word. On a Zen 4, 5000 rows by 100 trees of depth 5, 6 and 8 (about 200 leaves) take 0.22, 0.33
#: and 0.78 times the time of rows that go down, with AVX-512; depth 8 takes longer with AVX2.
_MOST_LEAVES, _BITS = 128, 32


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees in a row; a leaf follows itself."""

    modes: list[str]
    features: Array
    splits: Array
    yes: Array
    no: Array
    missing: Array
    roots: Array
    values: Array  # of each node and target; NaN where it has none
    depth: int


def _depth(yes: Array, no: Array, roots: Array) -> int:
    """The most steps from a root to a leaf; UserError where nodes follow each other in circles."""
    at, steps = np.unique(roots), 0
    while True:
        after = np.unique(np.concatenate([yes[at], no[at]]))
        if np.isin(after, at).all() and (yes[after] == after).all():
            return steps
        at, steps = after, steps + 1
        if steps > len(yes):
            raise UserError("the nodes of a tree follow each other in circles")


def _leaves_by_steps(n: Node, x: Tensor, forest: Forest) -> Tensor:
    """[row, tree] -> the leaf in which the row ends, of each tree."""
    rows = x.shape[0]
    at = n.verbs.known(forest.roots).broadcast([rows, len(forest.roots)])
    kinds = sorted(set(forest.modes) - {_LEAF})
    kind = n.verbs.known(np.array([kinds.index(m) if m in kinds else 0 for m in forest.modes], np.int64))
    features, yes, no = (n.verbs.known(t) for t in (forest.features, forest.yes, forest.no))
    splits = n.verbs.known(forest.splits.astype(dtype_of(x.element)))
    for _ in range(forest.depth):
        value = n.verbs.gather_elements(x, features.take(at, 0), axis=1)
        others = [(mode, kind.take(at, 0).equals(i)) for i, mode in enumerate(kinds[1:], 1)]
        lost = n.verbs.known(forest.missing).take(at, 0) if forest.missing.any() else None
        goes = _goes_on(value, splits.take(at, 0), kinds[0], others, lost)
        at = n.verbs.where(goes, yes.take(at, 0), no.take(at, 0))
    return at


def _leaves_by_bits(n: Node, x: Tensor, forest: Forest) -> Tensor | None:
    """As `_leaves_by_steps`, for small trees; None where one has more than `_MOST_LEAVES`.

    A bit stands for each leaf, those behind `yes` first. Each node, wherever a row goes, rules out the leaves behind `yes` if the answer is
    no; the row ends in the first leaf that is left. (QuickScorer: Lucchese and others, SIGIR 2015.)
    """
    trees = [_listed(forest, root) for root in forest.roots.tolist()]
    most = max((len(tree.leaves) for tree in trees), default=0)
    if not 0 < most <= _MOST_LEAVES:
        return None
    known, columns = n.verbs.known, x.transpose([1, 0])
    modes, splits = np.array(forest.modes), forest.splits.astype(dtype_of(x.element))
    all_bits = known(np.int32(-1)).broadcast([len(trees), x.shape[0]])
    word, before = known(np.int32(0)), known(np.int32(0))
    for start in range(0, most, _BITS):
        left = all_bits
        for nodes, stay in _asked(trees, start):
            value = columns.take(known(np.where(nodes < 0, 0, forest.features[nodes])), 0)
            first, *rest = sorted(set(modes[nodes[nodes >= 0]].tolist()))
            nodes = nodes[:, None]
            others = [(mode, known(modes[nodes] == mode)) for mode in rest]
            lost = known(forest.missing[nodes]) if forest.missing[nodes].any() else None
            goes = _goes_on(value, known(np.where(nodes < 0, 0, splits[nodes])), first, others, lost)
            left = n.verbs.where(goes, left, left & known(stay[:, None]))
        # Of several words the first one counts in which a leaf is left.
        before = word.equals(0).where(known(np.int32(start)), before)
        word = word.equals(0).where(left, word)
    # The place of the lowest bit is the exponent of its value.
    value = (word & -word).cast(f32).bitcast(i32)
    exponent = n.verbs.shift_right_logical(*broadcast([value, known(np.int32(23))])) & 255
    leaves = np.zeros((len(trees), most), np.int64)
    for row, tree in zip(leaves, trees, strict=True):
        row[: len(tree.leaves)] = tree.leaves
    begins = np.arange(0, leaves.size, most, dtype=np.int32)[:, None]
    at = exponent - 127 + before + known(begins)
    return known(leaves.reshape(-1)).take(at.cast(i64), 0).transpose([1, 0])


class _Listed(NamedTuple):
    """A tree: its leaves in order, and its nodes, each with the first leaf behind `yes` and the one after the last."""

    leaves: list[int]
    nodes: list[tuple[int, int, int]]


def _listed(forest: Forest, root: int) -> _Listed:
    """Of a tree of more than `_MOST_LEAVES` leaves the first ones."""
    made = _Listed([], [])
    stack = [(root, -1)]  # a node, and the first leaf behind its `yes` once these are listed
    while stack and len(made.leaves) <= _MOST_LEAVES:
        node, first = stack.pop()
        if first >= 0:
            made.nodes.append((node, first, len(made.leaves)))
        elif forest.yes[node] == node:
            made.leaves.append(node)
        else:
            stack += [(int(forest.no[node]), -1), (node, len(made.leaves)), (int(forest.yes[node]), -1)]
    return made


def _asked(trees: Sequence[_Listed], start: int) -> Iterator[tuple[Array, Array]]:
    """The nodes that rule out some of the `_BITS` leaves from `start` on, one of each tree (-1 where there is none), and the bits of the
    leaves that they leave."""
    each: list[list[tuple[int, int]]] = []
    for tree in trees:
        out = [
            (node, range(max(first - start, 0), min(end - start, _BITS))) for node, first, end in tree.nodes
        ]
        each.append([(node, ~sum(1 << bit for bit in bits)) for node, bits in out if bits])
    for row in zip_longest(*each, fillvalue=(-1, -1)):
        nodes, stay = np.array(row, np.int64).T
        yield nodes, stay.astype(np.int32)


def _goes_on(
    value: Tensor, split: Tensor, mode: str, others: Sequence[tuple[str, Tensor]], missing: Tensor | None
) -> Tensor:
    """Whether a value goes on with `yes`: it is compared in a mode, or in one of the others where that is said; NaN does where
    `missing` says so."""
    goes = _compared(mode, value, split)
    for other, where in others:
        goes = where.where(_compared(other, value, split), goes)
    return goes if missing is None else goes | (value.differs(value) & missing)


def _compared(mode: str, value: Tensor, split: Tensor) -> Tensor:
    match mode:
        case "BRANCH_LEQ":
            return value <= split
        case "BRANCH_LT":
            return value < split
        case "BRANCH_GTE":
            return value >= split
        case "BRANCH_GT":
            return value > split
        case "BRANCH_EQ":
            return value.equals(split)
        case "BRANCH_NEQ":
            return value.differs(split)
        case _:
            raise UserError(f"there is no mode '{mode}'")


def _compared_in(x: Tensor) -> Tensor:
    """Features in the type in which they are compared: double for doubles, f32 for others."""
    return x if x.element is f64 else x.cast(f32)


def _total(n: Node, x: Tensor, forest: Forest, how: str) -> Tensor:
    leaves = _leaves_by_bits(n, x, forest)
    leaves = _leaves_by_steps(n, x, forest) if leaves is None else leaves
    if how not in _NEUTRAL:
        raise UserError(f"there is no aggregate function '{how}'")
    lacking, neutral = np.isnan(forest.values), _NEUTRAL[how]
    held = np.where(lacking, neutral, forest.values).astype(dtype_of(x.element))
    partly = lacking[[mode == _LEAF for mode in forest.modes]].any()
    each = n.verbs.known(held).take(leaves, 0)
    match how:
        case "SUM":
            return each.sum([1])
        case "AVERAGE":
            return each.mean([1])
        case _:
            made = each.min([1]) if how == "MIN" else each.max([1])
            # A target of which no leaf of the row says anything is 0.
            return made.equals(neutral).where(0.0, made) if partly else made


#: What a tree gives for a target of which its leaf says nothing.
_NEUTRAL = {"SUM": 0.0, "AVERAGE": 0.0, "MIN": np.inf, "MAX": -np.inf}


def _whole(numbers: object) -> Array:
    return np.array(numbers, np.int64)


def _of_lists(n: Node, prefix: str, targets: int) -> Forest:
    """The trees of TreeEnsembleRegressor and -Classifier: nodes by the numbers of their tree and of themselves."""
    trees, own = _whole(n.integers("nodes_treeids") or []), _whole(n.integers("nodes_nodeids") or [])
    modes, count = n.texts("nodes_modes"), len(trees)
    place = {key: i for i, key in enumerate(zip(trees.tolist(), own.tolist(), strict=True))}
    leaf = np.array([m == _LEAF for m in modes], np.bool_)

    def follow(name: str) -> Array:
        ids = n.integers(name) or []
        return _whole([i if leaf[i] else place[trees[i].item(), after] for i, after in enumerate(ids)])

    yes, no = follow("nodes_truenodeids"), follow("nodes_falsenodeids")
    followed = set(yes[~leaf].tolist()) | set(no[~leaf].tolist())
    roots = _whole([i for i in range(count) if i not in followed])
    values = np.full((count, targets), np.nan)
    found = zip(
        n.integers(f"{prefix}_treeids") or [],
        n.integers(f"{prefix}_nodeids") or [],
        n.integers(f"{prefix}_ids") or [],
        _numbers(n, f"{prefix}_weights"),
        strict=True,
    )
    for tree, node, target, weight in found:
        before = values[place[tree, node], target]
        values[place[tree, node], target] = weight if np.isnan(before) else before + weight
    missing = np.array(n.integers("nodes_missing_value_tracks_true") or [0] * count, np.bool_)
    return Forest(
        modes,
        _whole(n.integers("nodes_featureids") or []),
        np.array(_numbers(n, "nodes_values")),
        yes,
        no,
        missing,
        roots,
        values,
        _depth(yes, no, roots),
    )


def _numbers(n: Node, name: str) -> list[float]:
    held = n.array(f"{name}_as_tensor") if f"{name}_as_tensor" in n.attributes else None
    return held.reshape(-1).tolist() if held is not None else n.floats(name) or []


@operator("TreeEnsembleRegressor", domain=_ML)
def tree_ensemble_regressor(n: Node, x: Tensor) -> Tensor:
    targets = n.integer("n_targets", 1)
    made = _total(n, _compared_in(x), _of_lists(n, "target", targets), n.text("aggregate_function", "SUM"))
    return shown(n, _based(n, made).cast(f32))


def _based(n: Node, made: Tensor) -> Tensor:
    base = _numbers(n, "base_values")[: made.shape[1]]
    return made + n.verbs.known(np.array(base)).cast(made.element) if base else made


@operator("TreeEnsembleClassifier", domain=_ML)
def tree_ensemble_classifier(n: Node, x: Tensor) -> list[Thing]:
    ids = set(n.integers("class_ids") or [0])
    labels = len(n.integers("classlabels_int64s") or n.texts("classlabels_strings"))
    # Where the leaves tell of one class only, their sum is the score of the second one of two.
    single = labels == 2 and len(ids) == 1
    classes = 1 if single and ids == {0} else max(labels, 1 + max(ids))
    scores = _based(n, _total(n, _compared_in(x), _of_lists(n, "class", classes), "SUM")).cast(f32)
    likely = min(_numbers(n, "class_weights"), default=0) >= 0
    return labelled(n, scores, (0.5 if likely else 0.0) if single else None)


@operator("TreeEnsemble", domain=_ML)
def tree_ensemble(n: Node, x: Tensor) -> Tensor:
    splits, weights = n.array("nodes_splits"), n.array("leaf_weights")
    modes = n.array("nodes_modes")
    assert splits is not None and weights is not None and modes is not None
    inner, leaves = len(splits), len(weights)
    told: list[str] = [_MODES[int(m)] for m in modes.reshape(-1)]

    def follow(ids: str, flags: str) -> Array:
        after = _whole(n.integers(ids) or [])
        return np.append(after + inner * _whole(n.integers(flags) or []), np.arange(inner, inner + leaves))

    yes, no = follow("nodes_truenodeids", "nodes_trueleafs"), follow("nodes_falsenodeids", "nodes_falseleafs")
    values = np.full((inner + leaves, n.integer("n_targets", 1)), np.nan)
    targets = _whole(n.integers("leaf_targetids") or [])
    values[inner + np.arange(leaves), targets] = weights.reshape(-1)
    missing = np.array(n.integers("nodes_missing_value_tracks_true") or [0] * inner, np.bool_)
    roots = _whole(n.integers("tree_roots") or [])
    forest = Forest(
        [*told, *[_LEAF] * leaves],
        np.append(_whole(n.integers("nodes_featureids") or []), np.zeros(leaves, np.int64)),
        np.append(splits.reshape(-1), np.zeros(leaves, splits.dtype)),
        yes,
        no,
        np.append(missing, np.zeros(leaves, np.bool_)),
        roots,
        values,
        _depth(yes, no, roots),
    )
    if "BRANCH_MEMBER" in told:
        forest = _with_members(n, forest)
    how = ["AVERAGE", "SUM", "MIN", "MAX"][n.integer("aggregate_function", 1)]
    return shown(n, _total(n, x, forest, how))


def _with_members(n: Node, forest: Forest) -> Forest:
    """A node that asks for one of several numbers as a row of nodes that ask for one each."""
    held = n.array("membership_values")
    assert held is not None
    sets: list[list[float]] = [[]]
    for value in held.reshape(-1).tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    modes, features, splits = list(forest.modes), forest.features.tolist(), forest.splits.tolist()
    yes, no, missing, values = forest.yes.tolist(), forest.no.tolist(), forest.missing.tolist(), forest.values
    groups = iter(sets)
    for i in [i for i, m in enumerate(forest.modes) if m == "BRANCH_MEMBER"]:
        members, otherwise = next(groups), no[i]
        at = i
        for k, member in enumerate(members):
            modes[at], splits[at] = "BRANCH_EQ", member
            if k + 1 < len(members):
                no[at] = len(modes)
                modes.append("BRANCH_EQ")
                features.append(features[i])
                splits.append(0.0)
                yes.append(yes[i])
                no.append(otherwise)
                missing.append(missing[i])
                at = len(modes) - 1
    more = np.full((len(modes) - len(values), values.shape[1]), np.nan)
    after, other = _whole(yes), _whole(no)
    return Forest(
        modes,
        _whole(features),
        np.array(splits),
        after,
        other,
        np.array(missing, np.bool_),
        forest.roots,
        np.concatenate([values, more]),
        _depth(after, other, forest.roots),
    )
