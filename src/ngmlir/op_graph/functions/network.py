# SPDX-License-Identifier: Apache-2.0
"""Functions of neural networks: softmax, cross entropy, activations.

`softmax` and `sigmoid` leave a schema on their result, so that a cross entropy of it is computed from the
logits: finite for logits of any size, and with the gradient (y - t) * delta.
"""

from __future__ import annotations

from math import log as number_log
from typing import Any, NamedTuple

from ..axes import Axes, AxesOrNames
from ..errors import AxisNotFound, UnmatchedAxesError, UserError, fail
from ..fed_checks import note
from ..labels import check_target, labels_of, warn_of_logits
from ..ragged import RaggedAxis, ragged_among
from ..tensor import Tensor, as_tensor
from ..user_ops import one_op
from ..verbs import VERBS
from ..writes import read_by
from .applying import unary
from .coerce import Positions, as_op, broadcast, floating, one_of, operand, result_axes, result_element
from .composed import safelog
from .elementwise import add, exp, log, maximum, multiply, negative, softplus, subtract
from .reductions import compute_reduction_axes, sum
from .segments import segment_max, segment_softmax, segment_sum


class Softmax(NamedTuple):
    """A tensor is the softmax of `logits` over `axes`."""

    logits: Tensor
    axes: Axes


class Sigmoid(NamedTuple):
    """A tensor is the sigmoid of `logits`."""

    logits: Tensor


def schema_of(x: Tensor, kind: type[Any]) -> Any:
    """What a function has noted about `x`; None if it is nothing of that kind."""
    return next((s for s in x.schemas if isinstance(s, kind)), None)


def _normalized(
    name: str, x: Any, normalization_axes: AxesOrNames | None, axis: Positions
) -> tuple[Tensor, Tensor, Axes]:
    x = floating(x)
    given = one_of(x, normalization_axes, axis)
    axes = x.axes.feature_axes() if given is None else x.axes.chosen(given)
    for each in axes:
        if each not in x.axes:
            fail(AxisNotFound, f"there is no axis {each.name} in ({', '.join(x.axes.names)})")
    ragged = ragged_among(axes)
    if ragged is not None:
        return _along_sequences(name, x, ragged, axes), x, axes
    return getattr(VERBS, name)(x, axes=tuple(x.axes.index(a) for a in axes)), x, axes


def _along_sequences(name: str, x: Tensor, axis: RaggedAxis, axes: Axes) -> Tensor:
    """Softmax, or its logarithm, within each sequence."""
    if len(axes) > 1:
        fail(
            UserError,
            f"softmax along the ragged axis {axis.name} goes along no other axis",
            "softmax(x, axis)",
        )
    if name == "softmax":
        return segment_softmax(x, axis=axis)
    shifted = subtract(x, segment_max(x, axis=axis))
    return subtract(shifted, log(segment_sum(exp(shifted), axis=axis)))


def softmax(x: Any, normalization_axes: AxesOrNames | None = None, axis: Positions = None) -> Tensor:
    """exp(x) divided by its sum over the normalization axes (default: all but N and REC). `axis` is another name
    for them, and takes positions too."""
    made, logits, axes = _normalized("softmax", x, normalization_axes, axis)
    made.schemas.append(Softmax(logits, axes))
    return made


def log_softmax(x: Any, normalization_axes: AxesOrNames | None = None, axis: Positions = None) -> Tensor:
    """The logarithm of the softmax, computed stably."""
    return _normalized("log_softmax", x, normalization_axes, axis)[0]


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    made = unary("sigmoid", x)
    made.schemas.append(Sigmoid(as_tensor(made.args[0])))
    return made


def sigmoidAtomic(x: Any) -> Tensor:
    """1 / (1 + exp(-x)); a cross entropy uses its value, not x."""
    return unary("sigmoid", x)


def relu(x: Any) -> Tensor:
    """max(x, 0)."""
    return maximum(x, 0)


def _matched(y: Any, t: Any) -> tuple[Tensor, Tensor]:
    element = result_element(None, y, t)
    y, t = operand(y, element), operand(t, element)
    if not (y.axes.is_sub_set(t.axes) or y.axes.is_super_set(t.axes)):
        fail(
            UnmatchedAxesError,
            f"axes of the prediction ({', '.join(y.axes.names)}) and the target ({', '.join(t.axes.names)}) must be contained in each other",
        )
    return y, t


def cross_entropy_multi(
    y: Any,
    t: Any,
    usebits: bool = False,
    out_axes: AxesOrNames | None = None,
    enable_softmax_opt: bool = True,
    enable_diff_opt: bool = True,
) -> Tensor:
    """-sum(t * log(y)) over all axes but N and REC, for distributions y and t. Where y is a softmax, its logits are used.

    A target of labels is `ng.one_hot(labels, axis)`; the cost of a sample with a negative label is 0.

    Args:
        y: the prediction, a distribution along the axes of the classes; usually a softmax.
        t: the target, with the axes of y or some of them, those of the classes among them.
        usebits: whether the cost is in bits, not in nats.
        out_axes: the axes of the result; without them N and REC, where y or t has them.
        enable_softmax_opt: whether the logits of a softmax are used.
        enable_diff_opt: whether that is one op, whose gradient is (y - t) * delta.

    Raises UnmatchedAxesError where neither of y and t has all axes of the other, and for a target without the axes of the
    classes; UserError for labels that are no classes, when the graph is built or when they are fed. Warns of a prediction that is
    made of a product, without a softmax.
    """
    y, target = as_op(y), as_op(t)
    noted = schema_of(y, Softmax)
    labels = labels_of(target)
    check_target(y, target, y.axes.feature_axes() if noted is None else noted.axes)
    if noted is None:
        warn_of_logits(y, "softmax")
    y, target = _matched(y, target)
    axes = result_axes(target.axes, y.axes)
    loss = _cost(y, target, axes, out_axes, noted if enable_softmax_opt else None, enable_diff_opt)
    if labels is not None:
        note(loss, labels)
    return multiply(loss, 1 / number_log(2)) if usebits else loss


def _cost(
    y: Tensor, t: Tensor, axes: Axes, out_axes: AxesOrNames | None, of: Softmax | None, as_one: bool
) -> Tensor:
    """The cross entropy in nats, from the logits of the softmax that y is; `as_one` makes the two one op."""
    if of is None:
        return negative(sum(multiply(safelog(y), t), out_axes=_kept(axes, out_axes)))
    reduced, kept = compute_reduction_axes(broadcast(y, axes), None, out_axes)
    logits, target = broadcast(read_by(y, of.logits), axes), broadcast(t, axes)
    places = tuple(axes.index(a) for a in of.axes)
    if as_one and of.axes.is_sub_set(reduced):
        return sum(VERBS.cross_entropy(logits, target, axes=places), out_axes=kept)
    return negative(sum(multiply(VERBS.log_softmax(logits, axes=places), target), out_axes=kept))


def _kept(axes: Axes, out_axes: AxesOrNames | None) -> Axes:
    return axes - axes.feature_axes() if out_axes is None else axes.chosen(out_axes)


@one_op("CrossEntropyBinaryInnerOp")
def cross_entropy_binary_inner(
    y: Any, t: Any, enable_sig_opt: bool = True, enable_diff_opt: bool = True
) -> Tensor:
    """-(t * log(y) + (1 - t) * log(1 - y)) of each element. Where y is a sigmoid, its logits are used.

    Warns of a prediction that is the result of a product, without a sigmoid: it is no probability.
    """
    y, t = _matched(y, t)
    noted = schema_of(y, Sigmoid)
    if noted is None:
        warn_of_logits(y, "sigmoid")
    schema = noted if enable_sig_opt else None
    if schema is not None:
        logits = read_by(y, schema.logits)
        return subtract(softplus(logits), multiply(logits, t))
    return negative(add(multiply(safelog(y), t), multiply(safelog(subtract(1, y)), subtract(1, t))))


def cross_entropy_binary(
    y: Any,
    t: Any,
    usebits: bool = False,
    out_axes: AxesOrNames | None = None,
    enable_sig_opt: bool = True,
    enable_diff_opt: bool = True,
) -> Tensor:
    """The binary cross entropy, summed over all axes but N and REC."""
    loss = sum(cross_entropy_binary_inner(as_op(y), t, enable_sig_opt, enable_diff_opt), out_axes=out_axes)
    return multiply(loss, 1 / number_log(2)) if usebits else loss
