# SPDX-License-Identifier: Apache-2.0
"""What stands under programs and at run time, by the names that programs use: element types, places, scopes, tensors."""

from __future__ import annotations

from ...programs import names
from ...programs.attributes import AttrType
from ...programs.vartypes import VarType as _VarType
from ...support.diagnostics import UserError as EnforceNotMet
from .places import CPUPlace, CUDAPinnedPlace, CUDAPlace
from .scope import LoDTensor, Scope, Tensor

__all__ = [
    "AttrType", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "EnforceNotMet", "LoDTensor", "Scope", "Tensor", "VarDesc",
    "empty_var_name", "grad_var_suffix", "kEmptyVarName", "kGradVarSuffix", "kTempVarName", "kZeroVarSuffix",
]  # fmt: skip

kEmptyVarName, kTempVarName = names.EMPTY, names.TEMPORARY
kGradVarSuffix, kZeroVarSuffix = names.GRADIENT, names.ZERO


class VarDesc:
    """Where the numbers of element types are found: `VarDesc.VarType.FP32`."""

    VarType = _VarType


def empty_var_name() -> str:
    """Stands in a slot where no variable is."""
    return names.EMPTY


def grad_var_suffix() -> str:
    """What names of gradients end with."""
    return names.GRADIENT
