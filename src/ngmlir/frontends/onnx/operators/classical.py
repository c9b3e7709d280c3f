# SPDX-License-Identifier: Apache-2.0
"""Models of the domain ai.onnx.ml: trees, linear models, encoders and scalers. Labels that are strings are refused."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....ir.literals import dtype_of
from ....ir.types import TensorType, f32, i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Array, Tensor
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
def label_encoder(n: Node, x: Tensor) -> Tensor:
    keys, _ = _table(n, "keys")
    values, named = _table(n, "values")
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
    table = n.verbs.known(np.append(values, np.array([default], values.dtype)))
    return table.take((place < 0).where(n.verbs.numbers(len(keys), i64), place), 0)


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
    return n.verbs.joined([x.reshape([x.shape[0], prod(x.shape[1:])]).cast(f32) for x in inputs], 1)


@operator("OneHotEncoder", domain=_ML)
def one_hot_encoder(n: Node, x: Tensor) -> Tensor:
    kinds = n.integers("cats_int64s")
    if kinds is None:
        raise n.limit("OneHotEncoder of strings")
    return x.with_axes([-1]).cast(i64).equals(n.verbs.known(np.array(kinds, np.int64))).cast(f32)


# ---- scores and labels


def shown(n: Node, x: Tensor) -> Tensor:
    """Scores as `post_transform` says."""
    found = n.attributes.get("post_transform")
    numbered = found is not None and found.type == found.INT
    match _TRANSFORMS[found.i] if numbered and found else n.text("post_transform", "NONE"):
        case "NONE":
            return x
        case "LOGISTIC":
            return n.verbs.sigmoid(x)
        case "SOFTMAX":
            return n.verbs.softmax(x, axes=[x.rank - 1])
        case other:
            raise n.limit(f"{n.op} with the transformation {other}")


_TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def labelled(n: Node, scores: Tensor) -> list[Tensor]:
    """The class of the greatest score, and the scores."""
    labels = n.integers("classlabels_ints") or n.integers("classlabels_int64s")
    if labels is None:
        raise n.limit(f"{n.op} with labels that are strings")
    if scores.shape[1] != len(labels):
        raise n.limit(f"{n.op} with {scores.shape[1]} scores for {len(labels)} labels")
    best = n.verbs.argmax(scores, type=TensorType((scores.shape[0],), i64), axes=[1])
    return [n.verbs.known(np.array(labels, np.int64)).take(best, 0), shown(n, scores)]


def _linear(n: Node, x: Tensor, outputs: int) -> Tensor:
    weights = np.array(n.floats("coefficients"), np.float32).reshape(outputs, -1)
    made = multiplied(x.cast(f32), n.verbs.known(np.ascontiguousarray(weights.T)))
    bias = n.floats("intercepts")
    return made + n.verbs.known(np.array(bias, np.float32)) if bias else made


@operator("LinearRegressor", domain=_ML)
def linear_regressor(n: Node, x: Tensor) -> Tensor:
    return shown(n, _linear(n, x, n.integer("targets", 1)))


@operator("LinearClassifier", domain=_ML)
def linear_classifier(n: Node, x: Tensor) -> list[Tensor]:
    count = len(n.floats("intercepts") or n.integers("classlabels_ints") or [])
    return labelled(n, _linear(n, x, max(count, 1)))
