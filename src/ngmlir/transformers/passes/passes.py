# SPDX-License-Identifier: Apache-2.0
"""All passes for transformers, under one import path."""

from __future__ import annotations

from .dispatch import GenericMethod, generic_method
from .graph import GraphPass, PeepholeGraphPass, visit
from .modules import CPUTensorShaping, FunctionPass, ModulePass, PipelinePass, RequiredTensorShaping
from .pruning import SimplePrune
from .rewriting import GraphRewritePass

__all__ = [
    "CPUTensorShaping",
    "FunctionPass",
    "GenericMethod",
    "GraphPass",
    "GraphRewritePass",
    "ModulePass",
    "PeepholeGraphPass",
    "PipelinePass",
    "RequiredTensorShaping",
    "SimplePrune",
    "generic_method",
    "visit",
]
