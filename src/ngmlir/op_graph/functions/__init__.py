# SPDX-License-Identifier: Apache-2.0
"""The functions on tensors with named axes, and with them the operators and methods: this module is their family."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..axes import Axes
from ..errors import UserError, fail
from ..foreign import UFUNCS as UFUNCS
from ..state import set_item
from ..stating import stating_all
from ..tensor import Tensor
from ..values import as_op, as_ops, constant
from . import elementwise
from .applying import have_bits
from .coerce import broadcast, cast
from .composed import (
    bitcast,
    clip,
    fma,
    logical_and,
    logical_not,
    logical_or,
    round_to_tf32,
    safelog,
    safelog_cutoff,
    stop_gradient,
    where,
)
from .control import cond, while_loop
from .convolution import convolve, deconvolve
from .ctc import ctc
from .elementwise import *  # noqa: F403
from .five_axes import convolution, deconvolution, pooling
from .index import gather, gather_elements, iota, lookuptable, one_hot, scatter
from .linear import dot
from .methods import Methods
from .network import (
    cross_entropy_binary,
    cross_entropy_binary_inner,
    cross_entropy_multi,
    log_softmax,
    relu,
    sigmoid,
    sigmoidAtomic,
    softmax,
)
from .normalization import batch_norm, layer_norm, rms_norm
from .pooling import pool
from .random import dropout, normal, random_bits, uniform
from .recurrent import bidirectional, gru, lstm, rnn
from .reductions import (
    L1_norm,
    L2_norm,
    all,
    any,
    argmax,
    argmin,
    batch_size,
    compute_reduction_axes,
    cumulative_max,
    cumulative_min,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    prod,
    squared_L2,
    sum,
    tensor_size,
    variance,
)
from .sampling import categorical
from .scans import scan
from .segments import (
    segment_cumulative_max,
    segment_cumulative_min,
    segment_cumulative_prod,
    segment_cumulative_sum,
    segment_expand,
    segment_first,
    segment_last,
    segment_lengths,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_sum,
)
from .shape import (
    Transpose,
    axes_with_order,
    cast_axes,
    cast_role,
    concat_along_axis,
    expand_dims,
    flatten,
    flatten_at,
    getitem,
    map_roles,
    pad,
    slice_along_axis,
    stack,
    tensor_slice,
    unflatten,
)
from .sliding import overlap_add, windows
from .sorting import argsort, sort, top_k

__all__: list[str] = [
    "L1_norm", "L2_norm", "Transpose", "all", "any", "argmax", "argmin", "argsort", "as_op", "as_ops",
    "axes_with_order", "batch_norm", "batch_size", "bidirectional", "bitcast", "broadcast", "cast", "cast_axes",
    "cast_role", "categorical", "clip", "compute_reduction_axes", "concat_along_axis", "cond", "constant", "convolution", "convolve",
    "cross_entropy_binary", "cross_entropy_binary_inner", "cross_entropy_multi", "ctc", "cumulative_max",
    "cumulative_min", "cumulative_prod", "cumulative_sum", "deconvolution", "deconvolve", "dot", "dropout",
    "expand_dims", "flatten", "flatten_at", "fma", "gather", "gather_elements", "getitem", "gru", "iota",
    "layer_norm", "log_softmax", "logical_and", "logical_not", "logical_or", "lookuptable", "lstm", "map_roles",
    "max", "mean", "min", "normal", "one_hot", "overlap_add", "pad", "pool", "pooling", "prod", "random_bits", "relu",
    "rms_norm", "rnn", "round_to_tf32", "safelog", "safelog_cutoff", "scan", "scatter", "segment_cumulative_max", "segment_cumulative_min",
    "segment_cumulative_prod", "segment_cumulative_sum", "segment_expand", "segment_first", "segment_last", "segment_lengths",
    "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_softmax", "segment_sum", "set_item", "sigmoid", "sigmoidAtomic", "slice_along_axis",
    "softmax", "sort", "squared_L2", "stack", "stop_gradient", "sum", "tensor_size", "tensor_slice", "top_k",
    "unflatten", "uniform", "variance", "where", "while_loop", "windows",
]  # fmt: skip
__all__ += elementwise.__all__

# Whatever makes an op takes `axes=`, `name=` and `metadata=`.
globals().update(stating_all({name: globals()[name] for name in __all__}))

# ---- what only operators and methods call, under the names that all families have

matmul = dot

#: The keyword arguments of ufuncs that are supported.
UFUNC_OPTIONS = frozenset[str]()

#: What to write for names of other packages, where it is not what the op graph has.
WRITE: Mapping[str, str] = {}

#: Additional methods and properties of tensors: name -> function of the tensor that returns the method or property.
METHODS: Mapping[str, Callable[[Tensor], Any]] = Methods(sys.modules[__name__])


def invert(x: Any) -> Tensor:
    """`~x`: of integers and bools their bits; of floats what is true (not 0)."""
    return elementwise.bitwise_not(x) if have_bits(x) else logical_not(x)


def bit_and(x: Any, y: Any) -> Tensor:
    """`x & y`: as `invert`."""
    return elementwise.bitwise_and(x, y) if have_bits(x, y) else logical_and(x, y)


def bit_or(x: Any, y: Any) -> Tensor:
    """`x | y`: as `invert`."""
    return elementwise.bitwise_or(x, y) if have_bits(x, y) else logical_or(x, y)


def bit_xor(x: Any, y: Any) -> Tensor:
    """`x ^ y`: of integers and bools."""
    return elementwise.bitwise_xor(x, y)


def of_numpy(function: Any) -> None:
    """What a function of NumPy other than a ufunc does with named axes: nothing."""
    return None


def shape_of(x: Tensor) -> Axes:
    """What `x.shape` gives."""
    return x.axes


def iterate(x: Tensor) -> NoReturn:
    """Without this, Python would try the items 0, 1, ... one after the other."""
    fail(UserError, f"{x.called} cannot be iterated over", "use ng.slice_along_axis for slices along an axis")


# Tensors whose axes are of another kind have another module.
Axes.family = sys.modules[__name__]
