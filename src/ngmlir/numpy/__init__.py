# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy`: tensors whose axes are positions, and functions on them with NumPy's names, defaults and element types.

Operators and methods of such tensors are these functions; docs/numpy.md says where they differ from NumPy's. Tensors with
named axes come in by `asarray`, and get names again by `ng.cast_axes`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from math import e, inf, nan, pi
from typing import Any

import numpy as np
from numpy import (
    bool_,
    can_cast,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)

from ..op_graph.answers import answer_all
from ..op_graph.axes import Axes
from ..op_graph.errors import NoAttribute
from ..op_graph.foreign import missing
from ..op_graph.functions.coerce import cast as cast
from ..op_graph.positions import Positions
from ..op_graph.source import user_location
from ..op_graph.tensor import Tensor
from ..support.diagnostics import Diagnostic
from . import fft, linalg, random
from .absent import WRITE as WRITE
from .absent import instead
from .arrays import as_array, expand
from .arrays import shape as shape_of  # noqa: F401
from .bits import bitwise_count, frexp, gcd, lcm, ldexp, nextafter, spacing
from .comparing import allclose, array_equal, array_equiv, isin
from .complex import absolute, angle, conj, conjugate, imag, real
from .complex import absolute as abs
from .composed import (
    around,
    cbrt,
    clip,
    deg2rad,
    degrees,
    divmod,
    fix,
    float_power,
    floor_divide,
    fmax,
    fmin,
    fmod,
    heaviside,
    hypot,
    logaddexp,
    logaddexp2,
    modf,
    nan_to_num,
    positive,
    rad2deg,
    radians,
    round,
    sinc,
    where,
)
from .creation import (
    arange,
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    bartlett,
    blackman,
    copy,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    geomspace,
    hamming,
    hanning,
    identity,
    indices,
    kaiser,
    linspace,
    logspace,
    meshgrid,
    ones,
    ones_like,
    persistent_tensor,
    placeholder,
    tri,
    tril,
    triu,
    variable,
    zeros,
    zeros_like,
)
from .differences import diff, ediff1d, gradient, trapezoid, unwrap
from .elementwise import (
    acos,
    acosh,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    exp2,
    expm1,
    fabs,
    floor,
    greater,
    greater_equal,
    invert,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    pow,
    power,
    reciprocal,
    remainder,
    right_shift,
    rint,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    true_divide,
    trunc,
)
from .finding import argwhere, flatnonzero, nonzero, unique
from .indexing import choose, compress, flip, piecewise, put_along_axis, select, take, take_along_axis
from .indexing import getitem as getitem
from .indexing import set_item as set_item
from .joining import (
    append,
    apply_along_axis,
    apply_over_axes,
    array_split,
    block,
    column_stack,
    concat,
    concatenate,
    delete,
    dsplit,
    dstack,
    hsplit,
    hstack,
    insert,
    resize,
    row_stack,
    split,
    stack,
    unstack,
    vsplit,
    vstack,
)
from .methods import METHODS as METHODS
from .methods import iterate as iterate
from .network import dropout, erf, expit, log_softmax, logsumexp, relu, sigmoid, softmax
from .places import (
    diag_indices,
    diag_indices_from,
    ix_,
    ravel_multi_index,
    tril_indices,
    tril_indices_from,
    triu_indices,
    triu_indices_from,
    unravel_index,
)
from .polynomials import poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, polyval, vander
from .products import (
    convolve,
    correlate,
    cross,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from .reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    average,
    count_nonzero,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
    prod,
    ptp,
    std,
    sum,
    var,
)
from .segments import (
    segment_cumprod,
    segment_cumsum,
    segment_expand,
    segment_first,
    segment_last,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_sum,
)
from .shaping import (
    astype,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    diag,
    diagflat,
    diagonal,
    expand_dims,
    fliplr,
    flipud,
    matrix_transpose,
    moveaxis,
    ndim,
    pad,
    permute_dims,
    ravel,
    repeat,
    reshape,
    roll,
    rollaxis,
    rot90,
    shape,
    size,
    squeeze,
    swapaxes,
    tile,
    trace,
    transpose,
)
from .sorting import (
    argpartition,
    argsort,
    bincount,
    digitize,
    interp,
    lexsort,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    partition,
    percentile,
    quantile,
    searchsorted,
    sort,
    top_k,
)
from .statistics import corrcoef, cov, histogram, histogram_bin_edges
from .ufuncs import give_methods

newaxis = None

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any", "append", "apply_along_axis",
    "apply_over_axes", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argpartition", "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_split",
    "asanyarray", "asarray", "ascontiguousarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average",
    "bartlett", "bincount", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bool_", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "can_cast", "cbrt", "ceil", "choose", "clip", "column_stack", "compress",
    "concat", "concatenate", "conj", "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero",
    "cov", "cross", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete", "diag",
    "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot",
    "dropout", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum", "empty", "empty_like", "equal", "erf", "exp",
    "exp2", "expand_dims", "expit", "expm1", "eye", "fabs", "fft", "finfo", "fix", "flatnonzero", "flip", "fliplr",
    "flipud", "float16", "float32", "float64", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp",
    "full", "full_like", "gcd", "geomspace", "gradient", "greater", "greater_equal", "hamming", "hanning", "heaviside",
    "histogram", "histogram_bin_edges", "hsplit", "hstack", "hypot", "identity", "iinfo", "imag", "indices", "inf", "inner",
    "insert", "int8", "int16", "int32", "int64", "interp", "invert", "isclose", "isfinite", "isin", "isinf", "isnan",
    "isneginf", "isposinf", "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal", "lexsort",
    "linalg", "linspace", "log", "log1p", "log2", "log10", "log_softmax", "logaddexp", "logaddexp2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logspace", "logsumexp", "matmul", "matrix_transpose", "matvec", "max",
    "maximum", "mean", "median", "meshgrid", "min", "minimum", "mod", "modf", "moveaxis", "multiply", "nan",
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "ndim", "negative", "newaxis", "nextafter",
    "nonzero", "not_equal", "ones", "ones_like", "outer", "pad", "partition", "percentile", "permute_dims",
    "persistent_tensor", "pi", "piecewise", "placeholder", "poly", "polyadd", "polyder", "polydiv", "polyfit",
    "polyint", "polymul", "polysub", "polyval", "positive", "pow", "power", "prod", "promote_types", "ptp",
    "put_along_axis", "quantile", "rad2deg", "radians", "random", "ravel", "ravel_multi_index", "real", "reciprocal", "relu",
    "remainder", "repeat", "reshape", "resize", "result_type", "right_shift", "rint", "roll", "rollaxis", "rot90",
    "round", "row_stack", "searchsorted", "segment_cumprod", "segment_cumsum", "segment_expand", "segment_first",
    "segment_last", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_softmax", "segment_sum",
    "select", "shape", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "size", "softmax", "sort", "spacing",
    "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis",
    "tan", "tanh", "tensordot", "tile", "top_k", "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices",
    "tril_indices_from", "triu", "triu_indices", "triu_indices_from", "true_divide", "trunc", "uint8", "uint16",
    "uint32", "uint64", "unique", "unravel_index", "unstack", "unwrap", "vander", "var", "variable", "vdot", "vecdot",
    "vecmat", "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type that operands, Python numbers and dtypes have in common."""
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes])


# ---- what only operators and methods call, under the names that all families have

floordivide, bit_and, bit_or, bit_xor = floor_divide, bitwise_and, bitwise_or, bitwise_xor
shift_left, shift_right, Transpose = left_shift, right_shift, transpose

#: The keyword arguments of ufuncs that are supported.
UFUNC_OPTIONS = frozenset({"dtype"})

#: Ufuncs that have another name here.
UFUNCS: Mapping[str, str] = {}


def constant(const: Any, axes: Axes | None = None, dtype: Any = None) -> Tensor:
    """Numbers as an array, repeated over axes where there are some."""
    made = asarray(const, dtype)
    return made if axes is None else expand(made, axes.known_shape)


def broadcast(x: Any, axes: Axes) -> Tensor:
    """Repeated to the lengths of axes."""
    return expand(as_array(x), axes.known_shape)


def of_numpy(function: Any) -> Callable[..., Any] | None:
    """The function here that one of NumPy's makes graph by: the one of its name."""
    room = {"numpy": sys.modules[__name__], "numpy.linalg": linalg, "numpy.fft": fft}.get(function.__module__)
    name = function.__name__
    return getattr(room, name) if room is not None and name in room.__all__ else None


def __getattr__(name: str) -> Any:
    why = instead(name)
    if why:
        raise NoAttribute(
            Diagnostic(
                f"module 'ngmlir.numpy' has no attribute {name!r}{why[0]}", user_location(), hint=why[1]
            )
        )
    raise missing("module 'ngmlir.numpy'", name, __all__, WRITE.get(name))


def __dir__() -> list[str]:
    return [*__all__]


answer_all(globals(), __all__, "ng.numpy")
give_methods({name: globals()[name] for name in __all__})
Positions.family = sys.modules[__name__]
