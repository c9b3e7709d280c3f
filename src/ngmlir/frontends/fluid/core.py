# SPDX-License-Identifier: Apache-2.0
"""The classes below programs, and those of the run time, by the names that programs use: descriptions, places, scopes, tensors."""

from __future__ import annotations

from ...programs import names
from ...programs.attributes import AttrType, OpRole
from ...programs.catalogue import REGISTRY
from ...runtime.cuda import driver
from ...support.diagnostics import UserError as EnforceNotMet
from .descs import BlockDesc, OpDesc, ProgramDesc, VarDesc, get_grad_op_desc, inference_optimize, prune
from .places import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place
from .protos import get_all_op_protos
from .scope import LoDTensor, Scope, Tensor
from .scope_lists import get_fetch_variable, set_feed_variable

__all__ = [
    "AttrType", "BlockDesc", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "EnforceNotMet", "LoDTensor", "OpDesc", "ProgramDesc", "Scope",
    "Tensor", "VarDesc", "empty_var_name", "get_all_op_protos", "get_cuda_device_count", "get_fetch_variable", "get_grad_op_desc",
    "grad_var_suffix", "inference_optimize", "is_compiled_with_cuda", "is_float16_supported", "kEmptyVarName", "kGradVarSuffix",
    "kTempVarName", "kZeroVarSuffix", "op_proto_and_checker_maker", "op_support_gpu", "prune", "set_feed_variable",
]  # fmt: skip

kEmptyVarName, kTempVarName = names.EMPTY, names.TEMPORARY
kGradVarSuffix, kZeroVarSuffix = names.GRADIENT, names.ZERO


def empty_var_name() -> str:
    """The name in a slot without a variable."""
    return names.EMPTY


def grad_var_suffix() -> str:
    """What names of gradients end with."""
    return names.GRADIENT


def get_cuda_device_count() -> int:
    """How many GPUs there are here that programs can run on."""
    return driver.device_count()


def is_compiled_with_cuda() -> bool:
    """Whether programs can run on a GPU here: there is no separate build for GPUs, so this is whether a GPU is present."""
    return get_cuda_device_count() > 0


def is_float16_supported(place: Place) -> bool:
    """Whether programs with elements of 16 bits run at a place: at all of them."""
    return isinstance(place, Place)  # pyright: ignore[reportUnnecessaryIsInstance]


def op_support_gpu(type: str) -> bool:
    """Whether an operator runs on GPUs: every one that computes something does. UserError for one that is not there."""
    return REGISTRY.get(type).build is not None


class op_proto_and_checker_maker:
    """The names of the attributes that say what an operator is for, and their values."""

    OpRole = OpRole

    @staticmethod
    def kOpRoleAttrName() -> str:
        """The attribute with the role."""
        return "op_role"

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        """The attribute with the parameter and the gradient that the operator is about."""
        return "op_role_var"
