# SPDX-License-Identifier: Apache-2.0
"""The backend interface of ONNX, which `onnx.backend.test` and others call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from onnx import ModelProto
from onnx.backend.base import Backend as Base
from onnx.backend.base import BackendRep

from ...support.diagnostics import UserError
from . import load
from .model import CompiledModel

#: Which target runs models for the device of this name.
_TARGETS = {"CPU": "cpu", "CUDA": "cuda"}


class Prepared(BackendRep):
    """A model that was compiled."""

    def __init__(self, compiled: CompiledModel):
        self.compiled = compiled

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for inputs in order, or by name."""
        return tuple(self.compiled(**inputs) if isinstance(inputs, dict) else self.compiled(*inputs))


class Backend(Base):
    """Compiles and runs models; `NGMLIR_ONNX_TARGET` names the target that stands for the CPU (`cpu`, or `numpy`)."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        name = device.partition(":")[0]
        if name not in _TARGETS:
            raise UserError(f"there is no device '{device}'")
        target = os.environ.get("NGMLIR_ONNX_TARGET", "cpu") if name == "CPU" else _TARGETS[name]
        return Prepared(load(model, threads=kwargs.get("threads")).compiled(target))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Sequence[Any], device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device).run(inputs)
