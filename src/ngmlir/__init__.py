# SPDX-License-Identifier: Apache-2.0
"""ngmlir: tensor programs with named axes, compiled.

    graph --lift--> ng module --passes--> kernels --emit--> LLVM IR --assemble--> artifact --load--> call

axes        make_axis, make_axes, ragged_axis (docs/ragged.md)
storage     placeholder, ragged, variable, persistent_tensor, cache, constant, adopt
elements    + - * / ** comparisons; exp, log, tanh, sigmoid, relu, where, maximum, ... (docs/ops.md lists all ops)
reductions  sum, mean, max, argmax, prod, variance, ...; their axes are left out or named: out_axes=, reduction_axes=
products    dot, convolution, deconvolution, pooling
shape       broadcast, flatten, cast_axes, axes_with_order, concat_along_axis, x[...], pad, gather
networks    softmax, cross_entropy_multi, batch_norm, layer_norm, dropout, lookuptable, ctc (docs/networks.md)
control     cond, while_loop, scan; assignments: assign, doall, sequential
derivatives deriv, stop_gradient
custom ops    composite_op, host_op, tile_op
run         transformers.make_transformer("cpu"), transformer.computation, compile; cpu, numpy, cuda, cuda-sim
inspect     lift, raise_, pictures.svg, computation.report(), transformer.stepped
save        save, load, computation.state()
modules     ng.numpy (positional axes), frontends.neon (layers), frontends.onnx (models), frontends.gguf (language models), testing (checks)

`help(ng.dot)` describes a function. The packages of the compiler, from the graph to the machine: `op_graph`, `ops`, `ir`, `rewrite`,
`passes`, `codegen`, `llvm`, `runtime`; `compiler` connects them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .op_graph import functions
from .op_graph.adjoints import create_reduction_op, max_adjoints, min_adjoints, prod_adjoints, sum_adjoints
from .op_graph.answers import answer_all as _answer_all
from .op_graph.axes import Axes, AxesMap, Axis, FlattenedAxis, make_axes, make_axis, slice_axis
from .op_graph.building import metadata, name_scope
from .op_graph.classes import class_named as _class_named
from .op_graph.computation import computation
from .op_graph.deriv import deriv
from .op_graph.descriptions import TensorDescription
from .op_graph.errors import (
    AxisLengthError,
    AxisNotFound,
    CycleError,
    DuplicateAxisNames,
    IncompatibleAxesError,
    InvalidOp,
    MissingPlaceholder,
    NotAssignable,
    NotDifferentiable,
    OutsideRegion,
    UnmatchedAxesError,
    UnsupportedTransformerException,
)
from .op_graph.foreign import missing as _missing
from .op_graph.functions import *  # noqa: F403
from .op_graph.functions.cache import cache
from .op_graph.host_ops import host_op
from .op_graph.lift import lift
from .op_graph.lookuptable import lookuptable_update
from .op_graph.node import Invalid, Op
from .op_graph.printing import PrintOp
from .op_graph.ragged import RaggedAxis, ragged, ragged_axis
from .op_graph.raising import raise_
from .op_graph.recomputing import recompute
from .op_graph.schemas import Schema
from .op_graph.selection import find_op, select_ops
from .op_graph.state import (
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
from .op_graph.stating import with_op_metadata
from .op_graph.tensor import Tensor
from .op_graph.tile_ops import tile_op
from .op_graph.user_ops import composite_op
from .op_graph.values import adopt, default_dtype, default_float, default_int_dtype
from .support.diagnostics import Bug, Limit, NgmlirError, UserError

if TYPE_CHECKING:
    from . import compiler as compiler
    from . import frontends as frontends
    from . import numpy as numpy
    from . import pictures as pictures
    from . import simple as simple
    from . import testing as testing
    from . import transformers as transformers
    from .transformers import compile, load, save

#: Sub-modules that are loaded when they are first used: they bring the compiler with them.
_LATER = ("compiler", "frontends", "numpy", "pictures", "simple", "testing", "transformers", "util")

#: Functions of `transformers`.
_LATER_FUNCTIONS = ("compile", "load", "save")

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "Axes",
    "AxesMap",
    "Axis",
    "AxisLengthError",
    "AxisNotFound",
    "Bug",
    "CycleError",
    "DuplicateAxisNames",
    "FlattenedAxis",
    "IncompatibleAxesError",
    "Invalid",
    "InvalidOp",
    "Limit",
    "MissingPlaceholder",
    "NgmlirError",
    "NotAssignable",
    "NotDifferentiable",
    "Op",
    "OutsideRegion",
    "PrintOp",
    "RaggedAxis",
    "Schema",
    "SetItem",
    "Tensor",
    "TensorDescription",
    "UnmatchedAxesError",
    "UnsupportedTransformerException",
    "UserError",
    "adopt",
    "assign",
    "cache",
    "compile",
    "composite_op",
    "computation",
    "create_reduction_op",
    "default_dtype",
    "default_float",
    "default_int_dtype",
    "deriv",
    "doall",
    "fill",
    "find_op",
    "host_op",
    "lift",
    "load",
    "lookuptable_update",
    "make_axes",
    "make_axis",
    "max_adjoints",
    "metadata",
    "min_adjoints",
    "name_scope",
    "persistent_tensor",
    "placeholder",
    "prod_adjoints",
    "ragged",
    "ragged_axis",
    "raise_",
    "recompute",
    "save",
    "select_ops",
    "sequential",
    "slice_axis",
    "sum_adjoints",
    "temporary",
    "tile_op",
    "value_of",
    "variable",
    "with_op_metadata",
]  # fmt: skip
_answer_all(globals(), [n for n in __all__ if n.islower()], "ng")
__all__ += functions.__all__


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *_LATER, *_LATER_FUNCTIONS, *(n for n in globals() if n.startswith("__")), "__version__"}
    )


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module(".support.version", __name__).version()
    if name in _LATER_FUNCTIONS:
        return getattr(import_module(".transformers", __name__), name)
    if name in _LATER:
        return import_module(f".{name}", __name__)
    found = _class_named(name)
    if found is None:
        raise _missing("module 'ngmlir'", name, __all__)
    return found
