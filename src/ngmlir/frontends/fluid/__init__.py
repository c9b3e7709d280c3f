# SPDX-License-Identifier: Apache-2.0
"""Programs by the names of PaddlePaddle's front end of 2018: `import ngmlir.frontends.fluid as fluid`.

A program is a module of the dialect `program`, which prints, is edited and lowered like any other (docs/programs.md).
"""

from functools import partial
from typing import Any

from ...op_graph.answers import answer_all
from ...op_graph.errors import no_attribute
from . import (
    average,
    backward,
    clip,
    contrib,
    core,
    data_feeder,
    debugger,
    default_scope_funcs,
    evaluator,
    executor,
    framework,
    initializer,
    io,
    layer_helper,
    layers,
    lod_tensor,
    metrics,
    nets,
    op,
    optimizer,
    param_attr,
    profiler,
    reader,
    regularizer,
    transpiler,
    unique_name,
)
from .backward import append_backward, calc_gradient
from .data_feeder import DataFeeder
from .data_parallel import DataParallel
from .executor import Executor, global_scope, scope_guard
from .framework import (
    Block,
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    get_var,
    name_scope,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from .inference_transpiler import InferenceTranspiler
from .input import data, embedding, one_hot
from .lod_tensor import create_lod_tensor, create_random_int_lodtensor
from .memory import memory_optimize, release_memory
from .param_attr import ParamAttr, WeightNormParamAttr
from .pipeline_parallel import PipelineParallel, pipeline_stage
from .places import CPUPlace, CUDAPinnedPlace, CUDAPlace, NumpyPlace, Place
from .ranks import cheapest
from .reader import batch
from .scope import LoDTensor, Scope, Tensor
from .tensor_parallel import TensorParallel

#: What divides programs in the original, and what does here.
_ELSEWHERE = {
    "DistributeTranspiler": 'fluid.DataParallel(program, startup, "pserver", ranks) divides a program among ranks',
    "BuildStrategy": "an executor runs a program as it is, compiled as a whole: executor.run(program, ...)",
    "CompiledProgram": "an executor runs a program as it is, compiled as a whole: executor.run(program, ...)",
    "ExecutionStrategy": "an executor runs a program as it is, compiled as a whole: executor.run(program, ...)",
    "gradients": "fluid.calc_gradient(targets, inputs) appends gradients",
    "ParallelExecutor": "fluid.Executor runs a program on all cores; fluid.DataParallel divides batches among ranks",
}


def __getattr__(name: str) -> Any:
    no_attribute(__name__, name, __all__, _ELSEWHERE.get(name, ""))


__all__ = [
    "Block", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "DataFeeder", "DataParallel", "Executor", "InferenceTranspiler", "LoDTensor", "NumpyPlace", "Operator", "ParamAttr",
    "Parameter", "PipelineParallel", "Place", "Program", "Scope", "Tensor", "TensorParallel", "Variable", "WeightNormParamAttr", "append_backward", "average", "backward",
    "batch", "calc_gradient", "cheapest", "clip", "contrib", "core", "create_lod_tensor", "create_random_int_lodtensor", "data", "data_feeder", "debugger",
    "default_main_program", "default_scope_funcs", "default_startup_program", "embedding", "evaluator", "executor", "framework", "get_var", "global_scope",
    "initializer", "io", "layer_helper", "layers", "lod_tensor", "memory_optimize", "metrics", "name_scope", "nets", "one_hot", "op", "optimizer",
    "param_attr", "pipeline_stage", "profiler", "program_guard", "reader", "regularizer", "release_memory", "scope_guard", "switch_main_program",
    "switch_startup_program", "transpiler", "unique_name",
]  # fmt: skip

for _module in (
    average,
    clip,
    data_feeder,
    evaluator,
    initializer,
    metrics,
    nets,
    optimizer,
    param_attr,
    regularizer,
):
    _own = [
        name for name, value in vars(_module).items() if getattr(value, "__module__", "") == _module.__name__
    ]
    _called = f"fluid.{_module.__name__.rpartition('.')[2]}"
    answer_all(vars(_module), _own, _called, methods=True, undone=True)
    _known = [name for name in _own if not name.startswith("_")]
    vars(_module)["__getattr__"] = partial(no_attribute, _module.__name__, known=_known)
