# SPDX-License-Identifier: Apache-2.0
"""`ng.simple`: tensors of which a program says only which axis is that of samples and which that of steps.

All other axes are features, known by their positions. What programs are fed and give has the samples first, then the
steps, then the features; inside, each target chooses their order. docs/simple.md shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..op_graph.foreign import UFUNCS as UFUNCS
from ..op_graph.foreign import missing
from ..op_graph.simple_axes import SimpleAxes
from ..op_graph.stating import stating_all
from ..op_graph.tensor import Tensor
from . import functions
from .creation import asarray, constant, ones, persistent_tensor, placeholder, variable, zeros
from .functions import matmul
from .network import (
    cast,
    convolve,
    cross_entropy_binary,
    cross_entropy_multi,
    dropout,
    layer_norm,
    log_softmax,
    normal,
    one_hot,
    pool,
    softmax,
    stop_gradient,
    take,
    uniform,
)
from .operands import shape as shape_of
from .recurrent import gru, lstm, rnn, scan
from .shaping import (
    Transpose,
    broadcast,
    concatenate,
    expand_dims,
    flatten,
    getitem,
    iterate,
    pad,
    reshape,
    set_item,
    squeeze,
    stack,
    step,
    transpose,
)

dot = matmul

__all__ = [
    "Transpose",
    "asarray",
    "broadcast",
    "cast",
    "concatenate",
    "constant",
    "convolve",
    "cross_entropy_binary",
    "cross_entropy_multi",
    "dot",
    "dropout",
    "expand_dims",
    "flatten",
    "getitem",
    "gru",
    "iterate",
    "layer_norm",
    "log_softmax",
    "lstm",
    "matmul",
    "normal",
    "one_hot",
    "ones",
    "pad",
    "persistent_tensor",
    "placeholder",
    "pool",
    "reshape",
    "rnn",
    "scan",
    "set_item",
    "shape_of",
    "softmax",
    "squeeze",
    "stack",
    "step",
    "stop_gradient",
    "take",
    "transpose",
    "uniform",
    "variable",
    "zeros",
]  # fmt: skip
__all__ += functions.__all__

globals().update({name: getattr(functions, name) for name in functions.__all__})
# Whatever makes an op takes `axes=`, `name=` and `metadata=`.
globals().update(
    stating_all({name: globals()[name] for name in __all__ if name not in ("iterate", "shape_of")})
)

#: The keyword arguments of ufuncs that are supported.
UFUNC_OPTIONS = frozenset[str]()

#: Names of other packages that something else is written for than with named axes.
WRITE: Mapping[str, str] = {}

METHODS: Mapping[str, Callable[[Tensor], Any]] = {
    "ndim": lambda x: len(shape_of(x)),
    **{name: partial(partial, globals()[name]) for name in ("argmax", "argmin", "flatten", "reshape", "squeeze", "transpose")},
}  # fmt: skip


def of_numpy(function: Any) -> None:
    """What a function of NumPy other than a ufunc does with such tensors: nothing."""
    return None


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    raise missing("module 'ngmlir.simple'", name, __all__)


SimpleAxes.family = sys.modules[__name__]
