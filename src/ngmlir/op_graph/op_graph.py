# SPDX-License-Identifier: Apache-2.0
"""The functions and classes of the op graph under one path: `from ngmlir.op_graph.op_graph import AddOp, Op, add`.

`Softmax` is what softmax notes in the `schemas` of its result, as in "Building graphs"; the class of the op is `SoftmaxOp`.
"""

from __future__ import annotations

from typing import Any

from . import functions
from .adjoints import create_reduction_op, max_adjoints, min_adjoints, prod_adjoints, sum_adjoints
from .axes import Axes, AxesMap, Axis, FlattenedAxis, make_axes, make_axis, slice_axis
from .building import metadata
from .classes import class_named
from .computation import computation
from .deriv import deriv
from .descriptions import TensorDescription
from .errors import UnmatchedAxesError
from .foreign import missing
from .functions import *  # noqa: F403
from .functions.network import Softmax
from .node import Invalid, Op
from .ordered import OrderedSet
from .printing import PrintOp
from .ragged import RaggedAxis, ragged, ragged_axis
from .state import (
    SetItem,
    assign,
    doall,
    fill,
    persistent_tensor,
    placeholder,
    sequential,
    temporary,
    value_of,
    variable,
)
from .stating import with_op_metadata
from .tensor import Tensor
from .values import default_dtype, default_int_dtype

__all__ = [
    "Axes",
    "AxesMap",
    "Axis",
    "FlattenedAxis",
    "Invalid",
    "Op",
    "OrderedSet",
    "PrintOp",
    "RaggedAxis",
    "SetItem",
    "Softmax",
    "Tensor",
    "TensorDescription",
    "UnmatchedAxesError",
    "assign",
    "computation",
    "create_reduction_op",
    "default_dtype",
    "default_int_dtype",
    "deriv",
    "doall",
    "fill",
    "make_axes",
    "make_axis",
    "max_adjoints",
    "metadata",
    "min_adjoints",
    "persistent_tensor",
    "placeholder",
    "prod_adjoints",
    "ragged",
    "ragged_axis",
    "sequential",
    "slice_axis",
    "sum_adjoints",
    "temporary",
    "value_of",
    "variable",
    "with_op_metadata",
]  # fmt: skip
__all__ += functions.__all__


def __getattr__(name: str) -> Any:
    found = class_named(name)
    if found is None:
        raise missing(f"module '{__name__}'", name, __all__)
    return found
