# SPDX-License-Identifier: Apache-2.0
"""Layer 7: transformers. `make_transformer("cpu")` makes one; `transformer.computation(...)` returns a callable."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..op_graph.answers import answer_all
from ..op_graph.calls import takes
from ..runtime.threads import checked_threads
from .compiling import compile

if TYPE_CHECKING:
    from .factories import (
        CPUTransformer,
        CUDASimTransformer,
        CUDATransformer,
        DeviceBufferStorage,
        DeviceComputation,
        DeviceTensor,
        NonFinite,
        NumPyTransformer,
        Step,
        Stepper,
        Transformer,
        TransformerFactory,
        UninitializedVariable,
        UnsupportedTransformerException,
        allocate_transformer,
        load,
        make_transformer_factory,
        save,
        transformer_choices,
    )

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
    "compile",
    "load",
    "make_transformer",
    "make_transformer_factory",
    "save",
    "set_transformer_factory",
    "transformer_choices",
]


_factory: Callable[[], Transformer] | None = None


def set_transformer_factory(factory: Callable[[], Transformer]) -> None:
    """Sets the factory that `make_transformer()` without a name uses."""
    global _factory
    takes(factory, 0, "the factory")
    _factory = factory


def make_transformer(name: str | None = None, *, threads: int | None = None) -> Transformer:
    """A transformer by name; without a name, from the factory that is set (initially `cpu`). Its programs use
    `threads` threads on the CPU (default: NGMLIR_NUM_THREADS, or all cores); results have the same bits for any
    number."""
    if name is not None or _factory is None:
        from .factories import make_transformer_factory

        return make_transformer_factory(name or "cpu", **({} if threads is None else {"threads": threads}))()
    made = _factory()
    if threads is not None:
        made.threads = checked_threads(threads)
    return made


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # Imported late: models that were compiled before need no transformer.
    factories = import_module(".factories", __name__)
    if name in __all__:
        return getattr(factories, name)
    if name in globals():  # a submodule that has just been loaded
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


answer_all(globals(), __all__, "ng.transformers")
