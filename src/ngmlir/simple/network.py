# SPDX-License-Identifier: Apache-2.0
"""Functions of neural networks, with features by position: those of `ng` of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..op_graph import functions as ng_functions
from ..op_graph.axis import Axis
from ..op_graph.errors import IncompatibleAxesError, fail
from ..op_graph.functions.coerce import cast as cast_elements
from ..op_graph.stating import FamilyOp
from ..op_graph.tensor import Tensor, as_tensor
from .operands import Where, as_simple, chosen, named, place, renamed, shape, simple

#: A number for all features that windows slide along, or one for each.
PerFeature = int | Sequence[int]


def softmax(x: Any, axis: Where = -1) -> Tensor:
    """exp(x) over its sum along a feature, the last one unless told; None: along all."""
    x = as_simple(x)
    return simple(ng_functions.softmax(named(x), chosen(x, axis)))


def log_softmax(x: Any, axis: Where = -1) -> Tensor:
    """The logarithm of the softmax, computed without it."""
    x = as_simple(x)
    return simple(ng_functions.log_softmax(named(x), chosen(x, axis)))


def _known(y: Any) -> Tensor:
    """A prediction as what it was made by: a softmax or a sigmoid."""
    y = as_simple(y)
    return as_tensor(y.args[0]) if isinstance(y, FamilyOp) else named(y)


def cross_entropy_multi(y: Any, t: Any, usebits: bool = False) -> Tensor:
    """-sum(t * log(y)) over the features, for a distribution y. Where y is a softmax, its logits are used."""
    return simple(ng_functions.cross_entropy_multi(_known(y), named(t), usebits))


def cross_entropy_binary(y: Any, t: Any, usebits: bool = False) -> Tensor:
    """-sum(t * log(y) + (1 - t) * log(1 - y)) over the features. Where y is a sigmoid, its logits are used."""
    return simple(ng_functions.cross_entropy_binary(_known(y), named(t), usebits))


def one_hot(x: Any, length: int, dtype: Any = None) -> Tensor:
    """1 at the index and 0 elsewhere along a new last feature."""
    x = as_simple(x)
    made = ng_functions.one_hot(named(x), Axis(length, "_hot"), dtype)
    names = [*x.axes, "_hot"]
    return simple(_last(ng_functions.axes_with_order(made, names), len(shape(x)) + 1))


def _last(x: Tensor, count: int) -> Tensor:
    """The last so many axes under names in their order."""
    return ng_functions.cast_role(x, [*x.axes[: len(x.axes) - count], *(f"_place{d}" for d in range(count))])


def take(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Parts of x by index along a feature: the features of the indices stand in its place. An embedding is
    `take(table, words)`."""
    x, indices = as_simple(x), as_simple(indices)
    rank, at = len(shape(x)), place(axis, len(shape(x)))
    both = [a.name for a in x.axes if (a.is_batch or a.is_recurrent) and a in indices.axes]
    if both:
        fail(
            IncompatibleAxesError,
            f"both {x.called} and its indices have {', '.join(both)}",
            "one_hot(indices, length) @ x looks up for each by itself",
        )
    names = [f"_of{d}" for d in range(rank)]
    wanted = [f"_by{d}" for d in range(len(shape(indices)))]
    made = ng_functions.gather(renamed(x, *names), renamed(indices, *wanted), names[at])
    roles = [a for a in made.axes if a.is_batch or a.is_recurrent]
    roles.sort(key=lambda a: a.is_recurrent)
    return simple(ng_functions.axes_with_order(made, [*roles, *names[:at], *wanted, *names[at + 1 :]]))


def convolve(
    x: Any,
    filters: Any,
    strides: PerFeature = 1,
    dilations: PerFeature = 1,
    padding: Any = "valid",
    groups: int = 1,
) -> Tensor:
    """A convolution in as many dimensions as x has features but one: x (H, W, C), filters (R, S, C, K), result (H, W, K).

    `strides`, `dilations` and `padding` are those of `ng.convolve`: one for all dimensions, or one for each.
    """
    x, filters = as_simple(x), as_simple(filters)
    rank = len(shape(x)) - 1
    if rank < 1 or len(shape(filters)) != rank + 2:
        fail(
            IncompatibleAxesError,
            f"features of shape {shape(x)} and filters of shape {shape(filters)}",
            "features are (..., channels), filters (taps..., channels, new channels)",
        )
    over = {f"_at{d}": f"_tap{d}" for d in range(rank)}
    image = renamed(x, *over, "_channel")
    made = ng_functions.convolve(
        image,
        renamed(filters, *over.values(), "_channel", "_new"),
        over,
        _each(strides, over),
        _each(dilations, over),
        _each(padding, over),
        groups,
    )
    roles = [a for a in image.axes if a.is_batch or a.is_recurrent]
    last = "_new" if "_new" in made.axes else "_channel"
    return simple(ng_functions.axes_with_order(made, [*roles, *over, last]))


def pool(
    x: Any,
    window: PerFeature,
    kind: Literal["max", "mean", "sum"] = "max",
    strides: PerFeature | None = None,
    padding: Any = "valid",
) -> Tensor:
    """Windows of x reduced to one element: x (H, W, C), window (2, 2); as many dimensions as features but one."""
    x = as_simple(x)
    names = [f"_at{d}" for d in range(len(shape(x)) - 1)]
    taps = _each(window, names)
    over: dict[str, Any] = taps if isinstance(taps, dict) else dict.fromkeys(names, taps)
    made = ng_functions.pool(
        renamed(x, *names, "_channel"),
        over,
        kind,
        None if strides is None else _each(strides, names),
        padding=_each(padding, names),
    )
    return simple(made)


def _each(given: Any, names: Any) -> Any:
    """One setting for each name, where there are several."""
    names = [*names]
    if not isinstance(given, (tuple, list)) or len(given) != len(names):
        return given
    return dict(zip(names, given, strict=True))


def layer_norm(x: Any, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) along the last feature, times gamma plus beta, which have it."""
    x = as_simple(x)
    scale, shift = (None if p is None else named(p) for p in (gamma, beta))
    return simple(
        ng_functions.layer_norm(named(x), scale, shift, reduction_axes=chosen(x, -1), epsilon=epsilon)
    )


def dropout(x: Any, keep: Any, *, rescale: bool = True, seed: int | None = None) -> Tensor:
    """Elements set to 0 at random but for a share `keep`; as `ng.dropout`, with draws for each element."""
    made = named(x)
    return simple(ng_functions.dropout(made, keep, axes=made.axes, rescale=rescale, seed=seed))


def uniform(x: Any, low: float = 0.0, high: float = 1.0, seed: int | None = None) -> Tensor:
    """Random numbers with the axes of x."""
    return simple(ng_functions.uniform(named(x), low, high, seed))


def normal(x: Any, loc: float = 0.0, scale: float = 1.0, seed: int | None = None) -> Tensor:
    """Normally distributed random numbers with the axes of x."""
    return simple(ng_functions.normal(named(x), loc, scale, seed))


def cast(x: Any, dtype: Any) -> Tensor:
    """The tensor with other elements."""
    return cast_elements(as_simple(x), dtype)


def stop_gradient(x: Any) -> Tensor:
    """x, without a gradient."""
    return simple(ng_functions.stop_gradient(named(x)))
