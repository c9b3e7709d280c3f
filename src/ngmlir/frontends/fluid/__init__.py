# SPDX-License-Identifier: Apache-2.0
"""Programs by the names of PaddlePaddle's front end of 2018: `import ngmlir.frontends.fluid as fluid`.

A program is a module of the dialect `program`, which prints, is edited and lowered like any other (docs/programs.md).
"""

from . import (
    backward,
    clip,
    core,
    executor,
    framework,
    initializer,
    layers,
    optimizer,
    param_attr,
    regularizer,
    unique_name,
)
from .backward import append_backward, calc_gradient
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
from .param_attr import ParamAttr, WeightNormParamAttr
from .places import CPUPlace, CUDAPinnedPlace, CUDAPlace, NumpyPlace, Place
from .scope import LoDTensor, Scope, Tensor

__all__ = [
    "Block", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "Executor", "LoDTensor", "NumpyPlace", "Operator", "ParamAttr", "Parameter",
    "Place", "Program", "Scope", "Tensor", "Variable", "WeightNormParamAttr", "append_backward", "backward", "calc_gradient", "clip", "core",
    "default_main_program", "default_startup_program", "executor", "framework", "get_var", "global_scope", "initializer",
    "layers", "name_scope", "optimizer", "param_attr", "program_guard", "regularizer", "scope_guard",
    "switch_main_program", "switch_startup_program", "unique_name",
]  # fmt: skip
