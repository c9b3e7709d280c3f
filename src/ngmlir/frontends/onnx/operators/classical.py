# SPDX-License-Identifier: Apache-2.0
"""Models of the domain ai.onnx.ml: linear models, encoders and scalers, and what classifiers give. Labels may be strings."""

from __future__ import annotations

from math import pi, prod
from typing import Any

import numpy as np
from onnx import AttributeProto

from ....ir.literals import dtype_of
from ....ir.types import TensorType, f32, i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Array, Maps, Tensor, Thing, Words
from .products import multiplied

_ML = "ai.onnx.ml"


def _table(n: Node, kind: str) -> tuple[Array, str]:
    """The keys or values of a LabelEncoder, and what their attribute is named for."""
    held = n.array(f"{kind}_tensor")
    if held is not None:
        return held.reshape(-1), "tensor"
    floats, whole = n.floats(f"{kind}_floats"), n.integers(f"{kind}_int64s")
    if floats is not None:
        return np.array(floats, np.float32), "float"
    if whole is not None:
        return np.array(whole, np.int64), "int64"
    raise n.limit(f"{n.op} of strings")


@operator("LabelEncoder", domain=_ML)
def label_encoder(n: Node, x: Tensor) -> Tensor | Words:
    keys, _ = _table(n, "keys")
    words = n.texts("values_strings")
    values, named = (np.arange(len(words)), "") if words else _table(n, "values")
    if len(keys) != len(values):
        raise UserError(f"{len(keys)} keys for {len(values)} values")
    default: Any = n.integer("default_int64", -1) if named == "int64" else n.number("default_float", -0.0)
    if named == "tensor":
        held = n.array("default_tensor")
        default = (-1 if values.dtype.kind == "i" else -0.0) if held is None else held.reshape(-1)[0]
    kept = n.verbs.known(keys.astype(dtype_of(x.element)))
    wide = x.with_axes([-1])
    same = wide.equals(kept)
    if x.is_float and np.isnan(keys).any():
        same = same | (wide.differs(wide) & n.verbs.known(np.isnan(keys)))
    # Of equal keys the last one stays, as in a table that is filled in order.
    place = same.where(n.verbs.arange(len(keys)), -1).max([-1])
    place = (place < 0).where(n.verbs.numbers(len(keys), i64), place)
    if words:
        return Words((*words, n.text("default_string", "_Unused")), place)
    return n.verbs.known(np.append(values, np.array([default], values.dtype))).take(place, 0)


@operator("Scaler", domain=_ML)
def scaler(n: Node, x: Tensor) -> Tensor:
    offset, factor = (
        n.verbs.known(np.array(n.floats(a) or [d], np.float32)) for a, d in (("offset", 0), ("scale", 1))
    )
    return (x.cast(f32) - offset) * factor


@operator("Normalizer", domain=_ML)
def normalizer(n: Node, x: Tensor) -> Tensor:
    x = x.cast(f32)
    size = n.verbs.absolute(x)
    match n.text("norm", "MAX"):
        case "MAX":
            whole = x.max([-1], keep=True)
        case "L1":
            whole = size.sum([-1], keep=True)
        case _:
            whole = n.verbs.sqrt((x * x).sum([-1], keep=True))
    return x / whole.equals(0).where(n.verbs.numbers(1, f32), whole)


@operator("Imputer", domain=_ML)
def imputer(n: Node, x: Tensor) -> Tensor:
    floats, whole = n.floats("imputed_value_floats"), n.integers("imputed_value_int64s")
    put = n.verbs.known(np.array(floats if x.is_float else whole or [0]).astype(dtype_of(x.element)))
    lost = n.number("replaced_value_float") if x.is_float else n.integer("replaced_value_int64")
    missing = x.differs(x) if lost != lost else x.equals(lost)
    return n.verbs.where(missing, put, x)


@operator("FeatureVectorizer", domain=_ML)
def feature_vectorizer(n: Node, *inputs: Tensor) -> Tensor:
    """The columns of all inputs: of each as many as `inputdimensions` says, where there are fewer zeros."""
    columns = [x.reshape([x.shape[0], prod(x.shape[1:])]).cast(f32) for x in inputs]
    widths = n.given("inputdimensions", [x.shape[1] for x in columns])
    kept = [x.part(1, 0, min(w, x.shape[1])) for x, w in zip(columns, widths, strict=True)]
    return n.verbs.joined([x.pad([0, 0], [0, w - x.shape[1]]) for x, w in zip(kept, widths, strict=True)], 1)


@operator("OneHotEncoder", domain=_ML)
def one_hot_encoder(n: Node, x: Tensor) -> Tensor:
    kinds = n.integers("cats_int64s")
    if kinds is None:
        raise n.limit("OneHotEncoder of strings")
    return x.with_axes([-1]).cast(i64).equals(n.verbs.known(np.array(kinds, np.int64))).cast(f32)


# ---- scores and labels


def shown(n: Node, x: Tensor) -> Tensor:
    """Scores as `post_transform` says."""
    match _transform(n):
        case "NONE":
            return x
        case "LOGISTIC":
            return n.verbs.sigmoid(x)
        case "SOFTMAX":
            return n.verbs.softmax(x, axes=[x.rank - 1])
        case "SOFTMAX_ZERO":
            return _softmax_zero(n, x)
        case "PROBIT":
            return _probit(n, x)
        case other:
            raise UserError(f"there is no transformation '{other}'")


_TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def _transform(n: Node) -> str:
    if n.holds("post_transform", AttributeProto.INT):
        return _TRANSFORMS[n.integer("post_transform")]
    return n.text("post_transform", "NONE")


def _softmax_zero(n: Node, x: Tensor) -> Tensor:
    """A softmax in which scores of zero stay zero."""
    some = n.verbs.absolute(x) > 1e-7
    greatest = x.max([-1], keep=True)
    powers = some.where(n.verbs.exp(x - greatest), x * n.verbs.exp(-greatest))
    whole = powers.sum([-1], keep=True)
    return whole.equals(0).where(0.5, powers / whole)


def _probit(n: Node, x: Tensor) -> Tensor:
    """The quantiles of the normal distribution, by Winitzki's formula for the inverse of erf, as ONNX Runtime computes them."""
    a = 0.147
    log = n.verbs.log(x * (1 - x) * 4)
    half = log * 0.5 + 2 / (pi * a)
    size = n.verbs.sqrt(n.verbs.sqrt(half * half - log * (1 / a)) - half) * 1.41421356
    return (x < 0.5).where(-size, size)


def labelled(n: Node, scores: Tensor, limit: float | None = None) -> list[Thing]:
    """The label of each row, and its scores. With one score for two labels, the second one is that of scores above `limit`: 0.5
    where they are probabilities, 0 where they are distances. Otherwise the label is that of the greatest score, or if there is
    a limit that which it gives for the last score."""
    count = len(labels_of(n))
    if scores.shape[1] != count and (scores.shape[1], count) != (1, 2):
        raise n.limit(f"{n.op} with {scores.shape[1]} scores for {count} labels")
    if scores.shape[1] < count or limit is not None:
        best = (scores.at(1, scores.shape[1] - 1) > (limit or 0.0)).cast(i64)
    else:
        best = greatest(n, scores)
    return [label_of(n, best), pair(n, scores, limit) if scores.shape[1] < count else shown(n, scores)]


def greatest(n: Node, scores: Tensor) -> Tensor:
    """The place of the greatest score of each row."""
    return n.verbs.argmax(scores, type=TensorType((scores.shape[0],), i64), axes=[1])


def labels_of(n: Node) -> list[int] | list[str]:
    """Those of a classifier: integers or texts."""
    whole = n.integers("classlabels_ints") or n.integers("classlabels_int64s")
    labels = whole or n.texts("classlabels_strings")
    if not labels:
        raise UserError(f"{n.op} has no labels")
    return labels


def label_of(n: Node, place: Tensor) -> Tensor | Words:
    """The labels at places."""
    labels = labels_of(n)
    words = tuple([label for label in labels if isinstance(label, str)])
    return Words(words, place) if words else n.verbs.known(np.array(labels, np.int64)).take(place, 0)


def pair(n: Node, score: Tensor, limit: float | None) -> Tensor:
    """The scores of two classes from that of the second one."""
    match _transform(n):
        case "LOGISTIC":
            return n.verbs.sigmoid(n.verbs.joined([-score, score], 1))
        case "PROBIT":
            raise n.limit(f"{n.op} with the transformation PROBIT of one score for two labels")
        case _:
            # The other ones of a single score are none.
            return n.verbs.joined([-score if limit == 0.0 else 1 - score, score], 1)


def _linear(n: Node, x: Tensor) -> Tensor:
    x = x if x.rank == 2 else x.with_axes([0])
    weights = np.array(n.floats("coefficients"), np.float32).reshape(-1, x.shape[1])
    made = multiplied(x.cast(f32), n.verbs.known(np.ascontiguousarray(weights.T)))
    bias = n.floats("intercepts")
    return made + n.verbs.known(np.array(bias, np.float32)) if bias else made


@operator("LinearRegressor", domain=_ML)
def linear_regressor(n: Node, x: Tensor) -> Tensor:
    return shown(n, _linear(n, x))


@operator("LinearClassifier", domain=_ML)
def linear_classifier(n: Node, x: Tensor) -> list[Thing]:
    return labelled(n, _linear(n, x))


@operator("ZipMap", domain=_ML)
def zip_map(n: Node, x: Tensor) -> Maps:
    """For each row a dictionary from labels to its elements."""
    keys = n.integers("classlabels_int64s") or n.texts("classlabels_strings")
    rows = x if x.rank == 2 else x.with_axes([0])
    if rows.shape[1] != len(keys):
        raise UserError(f"{len(keys)} labels for {rows.shape[1]} columns")
    return Maps(tuple(keys), rows)
