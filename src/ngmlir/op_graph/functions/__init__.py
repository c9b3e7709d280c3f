# SPDX-License-Identifier: Apache-2.0
"""The functions on tensors with named axes, and with them the operators: this module is their family."""

from __future__ import annotations

import sys

from ..state import set_item
from ..tensor import Tensor
from ..values import as_op, as_ops, constant
from .coerce import broadcast, cast
from .control import cond, scan, while_loop
from .elementwise import (
    absolute,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitcast,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floordivide,
    fma,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    round,
    rsqrt,
    safelog,
    safelog_cutoff,
    shift_left,
    shift_right,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    stop_gradient,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from .index import gather, iota, lookuptable, one_hot, scatter
from .linear import dot
from .network import (
    cross_entropy_binary,
    cross_entropy_binary_inner,
    cross_entropy_multi,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    softplus,
)
from .random import normal, uniform
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

__all__ = [
    "L1_norm", "L2_norm", "Transpose", "absolute", "acos", "acosh", "add", "all", "any", "argmax", "argmin", "as_op",
    "as_ops", "asin", "asinh", "atan", "atan2", "atanh", "axes_with_order", "batch_size", "bitcast", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "cast", "cast_axes", "cast_role", "ceil",
    "compute_reduction_axes", "concat_along_axis", "cond", "constant", "copysign", "cos", "cosh",
    "cross_entropy_binary", "cross_entropy_binary_inner", "cross_entropy_multi", "cumulative_max", "cumulative_min",
    "cumulative_prod", "cumulative_sum", "divide", "dot", "equal", "erf", "exp", "exp2", "expand_dims", "expm1",
    "flatten", "flatten_at", "floor", "floordivide", "fma", "gather", "getitem", "greater", "greater_equal", "iota",
    "less", "less_equal", "log", "log1p", "log2", "log10", "log_softmax", "logical_and", "logical_not", "logical_or",
    "lookuptable", "map_roles", "max", "maximum", "mean", "min", "minimum", "mod", "multiply", "negative", "normal",
    "not_equal", "one_hot", "pad", "power", "prod", "reciprocal", "relu", "round", "rsqrt", "safelog",
    "safelog_cutoff", "scan", "scatter", "set_item", "shift_left", "shift_right", "sigmoid", "sign", "sin", "sinh",
    "slice_along_axis", "softmax", "softplus", "sqrt", "square", "squared_L2", "stack", "stop_gradient", "subtract",
    "sum", "tan", "tanh", "tensor_size", "tensor_slice", "trunc", "unflatten", "uniform", "variance", "where",
    "while_loop",
]  # fmt: skip

# The operators of tensors are this family's functions; tensors of another family name another module.
Tensor.family = sys.modules[__name__]
