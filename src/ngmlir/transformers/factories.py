# SPDX-License-Identifier: Apache-2.0
"""Transformers by name."""

from __future__ import annotations

from typing import Any

from ..op_graph.answers import answer_all
from ..op_graph.calls import takes_named
from ..op_graph.errors import UnsupportedTransformerException, fail
from ..runtime.targets import find_device
from ..support.spelling import did_you_mean
from .backends import BACKENDS
from .computations import DeviceComputation
from .cputransform import CPUTransformer
from .files import load, save
from .gputransform import CUDASimTransformer, CUDATransformer
from .nptransform import NumPyTransformer
from .stepping import NonFinite, Step, Stepper
from .storage import DeviceBufferStorage, DeviceTensor, UninitializedVariable
from .transformer import Transformer

__all__ = [
    "CPUTransformer",
    "CUDASimTransformer",
    "CUDATransformer",
    "DeviceBufferStorage",
    "DeviceComputation",
    "DeviceTensor",
    "NonFinite",
    "NumPyTransformer",
    "Step",
    "Stepper",
    "Transformer",
    "TransformerFactory",
    "UninitializedVariable",
    "UnsupportedTransformerException",
    "allocate_transformer",
    "load",
    "make_transformer_factory",
    "save",
    "transformer_choices",
]


class TransformerFactory:
    """Makes transformers of one name."""

    def __init__(self, name: str, **arguments: Any):
        device = find_device(name)
        if device is not None:
            name = device.kind
            arguments = {"device": device.number, **arguments} if device.number else arguments
        if name not in transformer_choices():
            fail(
                UnsupportedTransformerException,
                f"there is no transformer '{name}'",
                did_you_mean(str(name), transformer_choices(), f"one of {', '.join(transformer_choices())}"),
            )
        takes_named(Transformer.transformers[name], arguments, f"the transformer '{name}'")
        self.name = name
        self.arguments = arguments

    def __call__(self) -> Transformer:
        return Transformer.transformers[self.name](**self.arguments)


def transformer_choices() -> list[str]:
    """The names of transformers, the reference first."""
    return [*BACKENDS, *(name for name in Transformer.transformers if name not in BACKENDS)]


def make_transformer_factory(name: str, **arguments: Any) -> TransformerFactory:
    """A factory by name: `numpy`, `cpu`, `cuda` (`cuda:1` is the second GPU) or `cuda-sim`."""
    return TransformerFactory(name, **arguments)


def allocate_transformer(name: str, **arguments: Any) -> Transformer:
    """A transformer by name."""
    return make_transformer_factory(name, **arguments)()


answer_all(globals(), __all__, "ng.transformers")
