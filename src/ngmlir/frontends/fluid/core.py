# SPDX-License-Identifier: Apache-2.0
"""What stands under programs and at run time, by the names that programs use: descriptions, places, scopes, tensors."""

from __future__ import annotations

from ...programs import names
from ...programs.attributes import AttrType
from ...support.diagnostics import UserError as EnforceNotMet
from .descs import BlockDesc, OpDesc, ProgramDesc, VarDesc, get_grad_op_desc, inference_optimize, prune
from .places import CPUPlace, CUDAPinnedPlace, CUDAPlace
from .protos import get_all_op_protos
from .scope import LoDTensor, Scope, Tensor

__all__ = [
    "AttrType", "BlockDesc", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "EnforceNotMet", "LoDTensor", "OpDesc", "ProgramDesc", "Scope",
    "Tensor", "VarDesc", "empty_var_name", "get_all_op_protos", "get_grad_op_desc", "grad_var_suffix", "inference_optimize",
    "kEmptyVarName", "kGradVarSuffix", "kTempVarName", "kZeroVarSuffix", "prune",
]  # fmt: skip

kEmptyVarName, kTempVarName = names.EMPTY, names.TEMPORARY
kGradVarSuffix, kZeroVarSuffix = names.GRADIENT, names.ZERO


def empty_var_name() -> str:
    """Stands in a slot where no variable is."""
    return names.EMPTY


def grad_var_suffix() -> str:
    """What names of gradients end with."""
    return names.GRADIENT
