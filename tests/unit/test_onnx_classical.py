# SPDX-License-Identifier: Apache-2.0
"""Classifiers and support vector machines of the domain ai.onnx.ml, and outputs that are strings and maps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.support.diagnostics import Limit  # noqa: E402
from ngmlir.tools.comparison import differs, worst_element  # noqa: E402
from ngmlir.tools.umbrella import main  # noqa: E402

_ML = "ai.onnx.ml"
_DRAW = np.random.default_rng(5)
POINTS = _DRAW.normal(size=(9, 3)).astype(np.float32)


def model_of(nodes: Sequence[Any], takes: Any, gives: Sequence[str], element: int = TensorProto.FLOAT) -> Any:
    inputs = [helper.make_tensor_value_info("x", element, takes)]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in gives])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_ML, 3)]
    return helper.make_model(graph, opset_imports=opsets)


def node(op: str, gives: Sequence[str], takes: Sequence[str] = ("x",), **attributes: Any) -> Any:
    return helper.make_node(op, takes, gives, domain=_ML, **attributes)


def ran(model: Any, x: np.ndarray, target: str = "cpu") -> list[Any]:
    return [*ng.compile(load(model), target=target)(x)]


def stump(weights: Sequence[float], ids: Sequence[int], **more: Any) -> dict[str, Any]:
    """One tree: below 0.5 the first weight, below 1.5 the second one, and so on; ids are the classes of the leaves."""
    inner = len(weights) - 1
    count = inner + len(weights)
    return {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": [*range(count)],
        "nodes_featureids": [0] * count,
        "nodes_modes": ["BRANCH_LEQ"] * inner + ["LEAF"] * len(weights),
        "nodes_values": [i + 0.5 for i in range(inner)] + [0.0] * len(weights),
        "nodes_truenodeids": [*range(inner, 2 * inner)] + [0] * len(weights),
        "nodes_falsenodeids": [*range(1, inner), count - 1] + [0] * len(weights),
        "class_treeids": [0] * len(weights),
        "class_nodeids": [*range(inner, count)],
        "class_ids": list(ids),
        "class_weights": list(weights),
        **more,
    }


STEPS = np.arange(4, dtype=np.float32)[:, None]


@pytest.mark.parametrize("base", [0.0, 0.25])
def test_trees_of_two_classes_that_tell_of_one(base: float) -> None:
    """As exporters of boosted trees and forests write them: the leaves have the score of the second class."""
    more: dict[str, Any] = {"base_values": [base]} if base else {}

    def scores(weights: list[float], **how: Any) -> list[Any]:
        tree = stump(weights, [0] * 4, classlabels_int64s=[5, 9], **how, **more)
        return ran(
            model_of([node("TreeEnsembleClassifier", ["l", "y"], **tree)], [None, 1], ["l", "y"]), STEPS
        )

    distances = np.float32([-2, -0.5, 0.25, 3])
    label, made = scores(distances.tolist(), post_transform="LOGISTIC")
    likely = 1 / (1 + np.exp(-(distances + base)))
    np.testing.assert_allclose(made, np.stack([1 - likely, likely], 1), rtol=1e-5)
    assert label.tolist() == np.where(distances + base > 0, 9, 5).tolist()
    label, made = scores(distances.tolist())
    np.testing.assert_allclose(made, np.stack([-distances - base, distances + base], 1))
    shares = np.float32([0.125, 0.5, 0.625, 0.375])
    label, made = scores(shares.tolist())
    np.testing.assert_allclose(made, np.stack([1 - shares - base, shares + base], 1))
    assert label.tolist() == np.where(shares + base > 0.5, 9, 5).tolist()


def test_trees_that_tell_of_the_second_class_only() -> None:
    tree = stump([0.2, 0.4, 0.6, 0.8], [1] * 4, classlabels_strings=["no", "yes"])
    label, made = ran(
        model_of([node("TreeEnsembleClassifier", ["l", "y"], **tree)], [None, 1], ["l", "y"]), STEPS
    )
    np.testing.assert_allclose(made, [[0, 0.2], [0, 0.4], [0, 0.6], [0, 0.8]], rtol=1e-6)
    assert label.tolist() == ["no", "no", "yes", "yes"]


def test_trees_with_leaves_that_say_nothing_of_a_target() -> None:
    tree = {k.replace("class", "target"): v for k, v in stump([3.0, -2.0, 5.0, 1.0], [0, 1, 0, 1]).items()}
    for how, wanted in {
        "MIN": [[3, 0], [0, -2], [5, 0], [0, 1]],
        "MAX": [[3, 0], [0, -2], [5, 0], [0, 1]],
    }.items():
        made = ran(
            model_of(
                [node("TreeEnsembleRegressor", ["y"], n_targets=2, aggregate_function=how, **tree)],
                [4, 1],
                ["y"],
            ),
            STEPS,
        )
        np.testing.assert_array_equal(made[0], wanted)
    two = {k: v + v if k != "nodes_treeids" else v for k, v in tree.items()}
    two["nodes_treeids"] = [0] * 7 + [1] * 7
    two["target_treeids"] = [0] * 4 + [1] * 4
    two["target_ids"] = [0] * 4 + [1] * 4
    two["target_weights"] = [3.0, -2.0, 5.0, 1.0, -1.0, 4.0, -6.0, 2.0]
    two["nodes_missing_value_tracks_true"] = [0] * 14
    for how in ("MIN", "MAX"):
        regressor = node("TreeEnsembleRegressor", ["y"], n_targets=2, aggregate_function=how, **two)
        made = ran(model_of([regressor], [4, 1], ["y"]), STEPS)
        np.testing.assert_array_equal(made[0], [[3, -1], [-2, 4], [5, -6], [1, 2]])


def grown(draw: np.random.Generator, leaves: int, modes: Sequence[str]) -> list[Any]:
    """The nodes of a tree, in any order: a leaf is its weight, another one (feature, mode, split, missing, yes, no)."""
    if leaves == 1:
        return [round(float(draw.normal()), 3)]
    left = int(draw.integers(1, leaves))
    yes, no = grown(draw, left, modes), grown(draw, leaves - left, modes)
    asks = (
        int(draw.integers(4)),
        str(draw.choice(modes)),
        float(draw.integers(-2, 3)) / 2,
        int(draw.integers(2)),
    )

    def moved(nodes: list[Any], by: int) -> list[Any]:
        return [(*m[:4], m[4] + by, m[5] + by) if isinstance(m, tuple) else m for m in nodes]

    return [(*asks, 1, 1 + len(yes)), *moved(yes, 1), *moved(no, 1 + len(yes))]


COMPARED: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip


def gone_down(nodes: list[Any], row: np.ndarray) -> float:
    at = nodes[0]
    while isinstance(at, tuple):
        feature, mode, split, missing, yes, no = at
        at = nodes[yes if COMPARED[mode](row[feature], split) or (missing and np.isnan(row[feature])) else no]
    return at


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize(
    "sizes", [[1], [1, 1], [2, 1], [31, 32, 3], [33, 2, 64], [65, 5], [128, 40], [129, 7], [300]], ids=str
)
def test_trees_of_any_size(sizes: list[int], target: str) -> None:
    """Small trees are asked as a whole, others are gone down: both end in the same leaves."""
    draw = np.random.default_rng(sum(sizes))
    for modes in (["BRANCH_LT"], [*COMPARED]):
        trees = [grown(draw, leaves, modes) for leaves in sizes]
        listed = [(t, i, m) for t, nodes in enumerate(trees) for i, m in enumerate(nodes)]
        leaves = [(t, i, m) for t, i, m in listed if not isinstance(m, tuple)]
        asks = [m if isinstance(m, tuple) else (0, "LEAF", 0.0, 0, 0, 0) for _, _, m in listed]
        features, kinds, splits, missing, yes, no = map(list, zip(*asks, strict=True))
        tree = node(
            "TreeEnsembleRegressor",
            ["y"],
            n_targets=1,
            nodes_treeids=[t for t, _, _ in listed],
            nodes_nodeids=[i for _, i, _ in listed],
            nodes_featureids=features,
            nodes_modes=kinds,
            nodes_values=splits,
            nodes_missing_value_tracks_true=missing,
            nodes_truenodeids=yes,
            nodes_falsenodeids=no,
            target_treeids=[t for t, _, _ in leaves],
            target_nodeids=[i for _, i, _ in leaves],
            target_ids=[0] * len(leaves),
            target_weights=[w for _, _, w in leaves],
        )
        run = ng.compile(load(model_of([tree], [None, 4], ["y"])), target=target)
        for rows in (37, 1, 0):
            x = (draw.integers(-3, 4, (rows, 4)) / 2).astype(np.float32)
            x[draw.random(x.shape) < 0.1] = np.nan
            wanted = [[sum(gone_down(nodes, row) for nodes in trees)] for row in x]
            np.testing.assert_allclose(run(x)[0], np.reshape(wanted, (rows, 1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
def test_trees_compare_doubles_as_doubles(op: str) -> None:
    split = 0.5 + 1e-12  # 0.5 in f32
    tree = stump([3.0, -2.0], [0, 1])
    tree["nodes_values_as_tensor"] = helper.make_tensor("", TensorProto.DOUBLE, [3], [split, 0.0, 0.0])
    del tree["nodes_values"]
    x = np.array([[0.5], [split], [np.nextafter(split, 1)]])
    if op == "TreeEnsembleRegressor":
        tree = {k.replace("class", "target"): v for k, v in tree.items()} | {"n_targets": 2}
        made = ran(model_of([node(op, ["y"], **tree)], [3, 1], ["y"], TensorProto.DOUBLE), x)
    else:
        tree["classlabels_int64s"] = [4, 5]
        made = ran(model_of([node(op, ["l", "y"], **tree)], [3, 1], ["l", "y"], TensorProto.DOUBLE), x)
        assert made[0].tolist() == [4, 4, 4]  # nothing is more than -2
    assert made[-1].dtype == np.float32 and made[-1].tolist() == [[3, 0], [3, 0], [0, -2]]


def test_a_linear_classifier_with_one_score_for_two_labels() -> None:
    attributes: dict[str, Any] = {
        "coefficients": [1.0, -2.0, 0.5],
        "intercepts": [0.25],
        "classlabels_ints": [3, 4],
    }
    score = POINTS @ np.float32([1, -2, 0.5]) + np.float32(0.25)
    classifier = node("LinearClassifier", ["l", "y"], post_transform="LOGISTIC", **attributes)
    label, made = ran(model_of([classifier], [None, 3], ["l", "y"]), POINTS)
    np.testing.assert_allclose(made[:, 1], 1 / (1 + np.exp(-score)), rtol=1e-5)
    np.testing.assert_allclose(made.sum(1), 1, rtol=1e-6)
    assert label.tolist() == np.where(score > 0, 4, 3).tolist()
    classifier = node("LinearClassifier", ["l", "y"], post_transform="PROBIT", **attributes)
    with pytest.raises(Limit, match="PROBIT of one score"):
        ran(model_of([classifier], [9, 3], ["l", "y"]), POINTS)


@pytest.mark.parametrize("transform", ["SOFTMAX_ZERO", "PROBIT"])
def test_transformations_of_scores(transform: str) -> None:
    x = np.float32([[0.25, 0, 0.7], [0, 0, 0], [0.5, 0.999, 1e-5]])
    if transform == "PROBIT":
        x = np.clip(x, 0.01, 1)
    classifier = node(
        "LinearClassifier",
        ["l", "y"],
        coefficients=np.eye(3).reshape(-1).tolist(),
        intercepts=[0.0] * 3,
        classlabels_ints=[1, 2, 3],
        post_transform=transform,
    )
    model = model_of([classifier], [3, 3], ["l", "y"])
    wanted = ReferenceEvaluator(model).run(None, {"x": x.copy()})
    label, made = ran(model, x)
    np.testing.assert_allclose(made, wanted[1], rtol=2e-4, atol=1e-6)
    assert label.tolist() == (x.argmax(1) + 1).tolist()


def coupled(first: np.ndarray, classes: int) -> np.ndarray:
    """The chances of classes that are nearest to those of all pairs, of which `first` has that of the first class."""
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    made: list[np.ndarray] = []
    for row in first:
        matrix = np.zeros((classes + 1, classes + 1))
        for (i, j), chance in zip(pairs, row, strict=True):
            ways = np.zeros(classes)
            ways[i], ways[j] = 1 - chance, -chance
            matrix[:classes, :classes] += np.outer(ways, ways)
        matrix[classes, :classes] = matrix[:classes, classes] = 1
        made.append(np.linalg.solve(matrix, np.eye(classes + 1)[classes])[:classes])
    return np.array(made)


@pytest.mark.parametrize(
    ("kernel", "transform"), [*product(["LINEAR", "POLY", "RBF", "SIGMOID"], ["NONE", "LOGISTIC"])]
)
def test_support_vector_machines(kernel: str, transform: str) -> None:
    draw = np.random.default_rng(1)
    near: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.25, 3.0],
        "post_transform": transform,
    }

    def floats(*shape: int) -> list[float]:
        return draw.normal(size=shape).astype(np.float32).reshape(-1).tolist()

    for classes, sizes in ((2, [2, 3]), (4, [1, 3, 2, 2])):
        pairs = classes * (classes - 1) // 2
        attributes: dict[str, Any] = {
            "coefficients": floats(classes - 1, sum(sizes)),
            "support_vectors": floats(sum(sizes), 3),
            "vectors_per_class": sizes,
            "rho": floats(pairs),
            "classlabels_ints": [7, 3, 5, 1][:classes],
        }
        classifier = node("SVMClassifier", ["l", "y"], **attributes, **near)
        model = model_of([classifier], [None, 3], ["l", "y"])
        wanted = ReferenceEvaluator(model).run(None, {"x": POINTS})
        for made, want in zip(ran(model, POINTS), wanted, strict=True):
            np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)
        if transform == "NONE" and kernel in ("LINEAR", "RBF"):
            chances = {"prob_a": [-1.5] * pairs, "prob_b": [0.125] * pairs}
            scores = ReferenceEvaluator(model).run(None, {"x": POINTS})[1][:, -pairs:]
            classifier = node("SVMClassifier", ["l", "y"], **attributes, **chances, **near)
            label, made = ran(model_of([classifier], [None, 3], ["l", "y"]), POINTS)
            np.testing.assert_array_equal(label, wanted[0])
            # With two classes the score that is shown last is that of the second one.
            first = 1 / (1 + np.exp(-1.5 * scores + 0.125))
            np.testing.assert_allclose(made, coupled(first, classes), atol=0.005 * classes)
    for one_class in (0, 1):
        if transform != "NONE":
            continue
        attributes = {"coefficients": floats(4), "support_vectors": floats(4, 3), "rho": [0.25]}
        regressor = node("SVMRegressor", ["y"], n_supports=4, one_class=one_class, **attributes, **near)
        model = model_of([regressor], [None, 3], ["y"])
        wanted = ReferenceEvaluator(model).run(None, {"x": POINTS})
        np.testing.assert_allclose(ran(model, POINTS)[0], wanted[0], rtol=1e-4, atol=1e-5)


def test_planes_without_support_vectors() -> None:
    planes, at = np.float32([[1, 2, 0], [0, -1, 1], [2, 0, 1]]), np.float32(0.5)
    attributes: dict[str, Any] = {"coefficients": planes.reshape(-1).tolist(), "rho": [0.5]}
    classifier = node("SVMClassifier", ["l", "y"], classlabels_ints=[4, 5, 6], **attributes)
    label, made = ran(model_of([classifier], [None, 3], ["l", "y"]), POINTS)
    np.testing.assert_allclose(made, POINTS @ planes.T + at, rtol=1e-5, atol=1e-6)
    assert label.tolist() == ((POINTS @ planes.T).argmax(1) + 4).tolist()
    regressor = node(
        "SVMRegressor", ["y"], coefficients=[1.0, 2.0, 0.0], rho=[0.5], post_transform="LOGISTIC"
    )
    made = ran(model_of([regressor], [None, 3], ["y"]), POINTS)[0]
    np.testing.assert_allclose(made[:, 0], 1 / (1 + np.exp(-(POINTS @ planes[0] + at))), rtol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_outputs_that_are_strings_and_maps(target: str) -> None:
    """What a classifier of scikit-learn is exported as: one program for all batches, labels as text, and dictionaries."""
    labels = ["cat", "dog", "fish"]
    nodes = [
        node(
            "LinearClassifier",
            ["l", "scores"],
            coefficients=np.eye(3).reshape(-1).tolist(),
            intercepts=[0.0] * 3,
            classlabels_strings=labels,
            post_transform="SOFTMAX",
        ),
        helper.make_node("Identity", ["l"], ["label"]),
        node("ZipMap", ["chances"], ["scores"], classlabels_strings=labels),
    ]
    run = ng.compile(load(model_of(nodes, ["n", 3], ["label", "chances", "scores"])), target=target)
    for rows in (1, 9, 4, 0, 7):
        x = POINTS[:rows]
        label, chances, scores = run(x)
        assert label.tolist() == [labels[i] for i in x.argmax(1)] and label.shape == (rows,)
        wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        assert [list(row) for row in chances] == [labels] * rows
        np.testing.assert_allclose([[*row.values()] for row in chances], scores.tolist())
        np.testing.assert_allclose(scores, wanted.reshape(rows, 3), rtol=1e-5)


def test_strings_and_maps_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier = node(
        "LinearClassifier",
        ["l", "scores"],
        coefficients=np.eye(3).reshape(-1).tolist(),
        intercepts=[0.0] * 3,
        classlabels_strings=["cat", "dog", "fish"],
    )
    maps = node("ZipMap", ["y"], ["scores"], classlabels_strings=["a", "b", "c"])
    onnx.save(model_of([classifier, maps], ["n", 3], ["l", "y"]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.float32([[1, 2, 3], [5, 4, 0]]))
    call = ["run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "x.npy"), "--check", "numpy"]
    assert main(call) == 0
    shown = capsys.readouterr().out
    assert "l: <U4 2 ['fish', 'cat']" in shown and "y.1.b: float32 4." in shown and "check: equal" in shown
    assert main([*call[:4], "-o", str(tmp_path / "y.npz")]) == 0
    with np.load(tmp_path / "y.npz") as held:
        assert held["l"].tolist() == ["fish", "cat"] and held["y.0.c"] == 3


def test_differences_of_single_numbers_and_of_texts() -> None:
    one, two = np.array(1, np.float32), np.array(2, np.float32)
    assert worst_element(one, two) == "element [] is 1.0, not 2.0"
    assert not differs(np.array(["a"]), np.array(["a"])) and differs(np.array(["a"]), np.array(["b"]))
    assert worst_element(np.array(["a"]), np.array(["b"])) == ""


def test_an_encoder_of_integers_as_strings() -> None:
    encoder = node(
        "LabelEncoder", ["y"], keys_int64s=[1, 2], values_strings=["one", "two"], default_string="?"
    )
    made = ran(model_of([encoder], [2, 2], ["y"], TensorProto.INT64), np.array([[1, 2], [3, 1]]))
    assert made[0].tolist() == [["one", "two"], ["?", "one"]]


def test_strings_are_not_computed_with() -> None:
    nodes = [
        node("LabelEncoder", ["words"], keys_int64s=[1], values_strings=["one"]),
        helper.make_node("Neg", ["words"], ["y"]),
    ]
    with pytest.raises(Limit, match="its input holds strings"):
        ran(model_of(nodes, [2], ["y"], TensorProto.INT64), np.array([1, 2]))


def test_columns_of_several_inputs() -> None:
    vectors = node("FeatureVectorizer", ["y"], ["x", "x"], inputdimensions=[2, 4])
    made = ran(model_of([vectors], [9, 3], ["y"]), POINTS)[0]
    zeros = np.zeros((9, 1), np.float32)
    np.testing.assert_array_equal(made, np.concatenate([POINTS[:, :2], POINTS, zeros], 1))
    constant = helper.make_node("Constant", [], ["at"], value_ints=[2, 0])
    extractor = node("ArrayFeatureExtractor", ["y"], ["x", "at"])
    made = ran(model_of([constant, extractor], [3], ["y"]), POINTS[0])[0]
    assert made.tolist() == [[POINTS[0, 2], POINTS[0, 0]]]
