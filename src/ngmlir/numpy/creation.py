# SPDX-License-Identifier: Apache-2.0
"""Arrays made of nothing, of numbers, or of tensors of other families."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import numpy as np

from ..op_graph.errors import UserError, fail
from ..op_graph.positions import Positions
from ..op_graph.state import Role, make_storage
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp, ProgressionOp
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..support.lengths import is_open, range_size
from .arrays import Shape, as_array, as_type, element, expand, known, lengths, shape
from .composed import where


def asarray(a: Any, dtype: Any = None, *, copy: bool | None = None) -> Tensor:
    """The array itself (values never change, so there is nothing to copy), numbers as an array, or a tensor with named axes as one whose axes are their places.

    Numbers have the type that NumPy gives them (float64, int64, bool); what does not fit into `dtype` is a UserError.
    Lengths that are open (of a batch that is fed) are taken as they are set now.
    """
    if isinstance(a, Tensor) and not isinstance(a.axes, Positions):
        made = VERBS.stated(ng.CastAxesOp, [a], {}, Positions.of(a.axes.known_shape), a.element)
    else:
        made = as_array(a, dtype)
    return made if dtype is None else as_type(made, element(dtype))


def array(object: Any, dtype: Any = None, *, copy: bool | None = True) -> Tensor:
    """The same as `asarray`: values never change, so there is nothing to copy."""
    return asarray(object, dtype)


def asanyarray(a: Any, dtype: Any = None) -> Tensor:
    """The same as `asarray`: arrays are of one class."""
    return asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """The same as `asarray`, of one dimension at least: the order in memory cannot be seen."""
    made = asarray(a, dtype)
    return made if shape(made) else expand(made, (1,))


def copy(a: Any) -> Tensor:
    """The array itself: values never change."""
    return as_array(a)


def full(shape: Shape, fill_value: Any, dtype: Any = None) -> Tensor:
    """One value, or what broadcasts, in a shape."""
    return expand(asarray(fill_value, dtype), lengths(shape))


def zeros(shape: Shape, dtype: Any = float) -> Tensor:
    """Zeros, float64 unless `dtype` says otherwise."""
    return full(shape, 0, dtype)


def ones(shape: Shape, dtype: Any = float) -> Tensor:
    """Ones, float64 unless `dtype` says otherwise."""
    return full(shape, 1, dtype)


def empty(shape: Shape, dtype: Any = float) -> Tensor:
    """Zeros: there is no memory to leave as it was."""
    return zeros(shape, dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Shape | None = None) -> Tensor:
    """One value in the shape and type of an array."""
    like = as_array(a)
    return full(like.shape if shape is None else shape, fill_value, like.dtype if dtype is None else dtype)


def zeros_like(a: Any, dtype: Any = None, shape: Shape | None = None) -> Tensor:
    """Zeros in the shape and type of an array."""
    return full_like(a, 0, dtype, shape)


def ones_like(a: Any, dtype: Any = None, shape: Shape | None = None) -> Tensor:
    """Ones in the shape and type of an array."""
    return full_like(a, 1, dtype, shape)


empty_like = zeros_like


def made_now(function: Callable[..., Any], gives: str = "a constant,") -> Callable[..., Any]:
    """A function of numbers that NumPy computes while the graph is built: a constant, or a tuple of some."""

    @wraps(function)
    def made(*args: Any, **options: Any) -> Any:
        for given in (*args, *options.values()):
            if isinstance(given, Tensor):
                fail(UserError, f"{function.__name__} needs constant arguments, not {given.called}")
        options = {
            k: np.dtype(element_dtype(v)) if k == "dtype" and v is not None else v for k, v in options.items()
        }
        try:
            found = function(*args, **options)
        except ZeroDivisionError as error:  # a step of 0
            raise ValueError(error) from None
        return tuple(map(known, found)) if isinstance(found, tuple) else known(found)

    name = function.__name__
    made.__doc__ = f"`numpy.{name}`: {gives} of numbers that are known now."
    return made


def element_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that is meant."""
    return known(0, dtype).dtype


_arange, linspace, logspace, geomspace = (
    made_now(f) for f in (np.arange, np.linspace, np.logspace, np.geomspace)
)


@wraps(_arange)
def arange(*args: Any, **options: Any) -> Tensor:
    if not (args and all(isinstance(n, int) for n in args) and is_open(args) and set(options) <= {"dtype"}):
        return _arange(*args, **options)
    first, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    axes, kind = Positions.of([range_size(first, stop, step)]), element(options.get("dtype") or "int64")
    return ProgressionOp(first, step, axes, kind)


eye, identity, tri = made_now(np.eye), made_now(np.identity), made_now(np.tri)
indices = made_now(np.indices)
hanning, hamming, blackman, bartlett, kaiser = (
    made_now(f) for f in (np.hanning, np.hamming, np.blackman, np.bartlett, np.kaiser)
)


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False) -> list[Tensor]:
    """The coordinates of a grid, from those along each axis; `sparse` ones have length 1 along the others."""
    flat = [as_array(x) for x in xi]
    sizes = [int(np.prod(shape(x))) for x in flat]
    made: list[Tensor] = []
    order = [1, 0, *range(2, len(flat))] if indexing == "xy" and len(flat) > 1 else [*range(len(flat))]
    for i, x in enumerate(flat):
        own = [sizes[j] if j == i else 1 for j in order]
        row = _as_shape(x, own)
        made.append(row if sparse else expand(row, [sizes[j] for j in order]))
    return made


def _as_shape(x: Tensor, wanted: list[int]) -> Tensor:
    return VERBS.stated(ng.ReshapeOp, [x], {}, Positions.of(wanted), x.element)


def _triangle(m: Any, k: int, lower: bool) -> Tensor:
    x = as_array(m)
    if len(shape(x)) == 1:  # NumPy repeats a row
        x = expand(x, (*shape(x), *shape(x)))
    mask = np.tri(*shape(x)[-2:], k=k if lower else k - 1, dtype=bool)
    return where(
        mask if lower else ~mask, x, cast(Any, ConstantOp)(np.zeros((), x.dtype), Positions(), x.element)
    )


def tril(m: Any, k: int = 0) -> Tensor:
    """What is not above the k-th diagonal; zeros elsewhere."""
    return _triangle(m, k, True)


def triu(m: Any, k: int = 0) -> Tensor:
    """What is not below the k-th diagonal; zeros elsewhere."""
    return _triangle(m, k, False)


# ---- storage


def placeholder(
    shape: Shape, dtype: Any = float, initial_value: Any = None, *, name: str | None = None
) -> Tensor:
    """An input of a computation, of a shape. float64 unless `dtype` says otherwise."""
    return make_storage(Positions.of(lengths(shape)), element(dtype), Role.PLACEHOLDER, initial_value, name)


def variable(
    initial_value: Any, dtype: Any = None, *, shape: Shape | None = None, name: str | None = None
) -> Tensor:
    """A trainable value that is kept from run to run, in the shape and type of its initial value."""
    return _kept(initial_value, dtype, shape, Role.VARIABLE, name)


def persistent_tensor(
    initial_value: Any, dtype: Any = None, *, shape: Shape | None = None, name: str | None = None
) -> Tensor:
    """A value that is kept from run to run and is not trained, in the shape and type of its initial value."""
    return _kept(initial_value, dtype, shape, Role.PERSISTENT, name)


def _kept(initial_value: Any, dtype: Any, wanted: Shape | None, role: Role, name: str | None) -> Tensor:
    first = asarray(initial_value, dtype)
    axes = Positions.of(shape(first) if wanted is None else lengths(wanted))
    value = first.const if isinstance(first, ConstantOp) else first
    return make_storage(axes, first.element, role, value, name)
