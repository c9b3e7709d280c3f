# SPDX-License-Identifier: Apache-2.0
"""Rank 7: transformers: `make_transformer("cpu")` gives one; `transformer.computation(...)` gives something to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

from ..op_graph.calls import listed, takes, takes_named
from ..op_graph.errors import UnsupportedTransformerException, fail
from ..op_graph.node import Op
from ..op_graph.tensor import Tensor
from ..runtime.timing import Profile
from ..support.diagnostics import Limit
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
    "compile",
    "load",
    "make_transformer",
    "make_transformer_factory",
    "save",
    "set_transformer_factory",
    "transformer_choices",
]


class TransformerFactory:
    """Makes transformers of one name."""

    def __init__(self, name: str, **arguments: Any):
        kind, _, number = str(name).partition(":")
        if kind == "cuda" and number.isdecimal():
            name, arguments = kind, {"device": int(number), **arguments}
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


_factory: Callable[[], Transformer] | None = None


def make_transformer_factory(name: str, **arguments: Any) -> TransformerFactory:
    """A factory by name: `numpy`, `cpu`, `cuda` (`cuda:1` is the second GPU) or `cuda-sim`."""
    return TransformerFactory(name, **arguments)


def set_transformer_factory(factory: Callable[[], Transformer]) -> None:
    """What `make_transformer()` without a name uses from now on."""
    global _factory
    takes(factory, 0, "the factory")
    _factory = factory


def make_transformer(name: str | None = None) -> Transformer:
    """A transformer by name; without one, from the factory that is set (at first: `cpu`)."""
    if name is not None or _factory is None:
        return make_transformer_factory(name or "cpu")()
    return _factory()


def allocate_transformer(name: str, **arguments: Any) -> Transformer:
    """A transformer by name."""
    return make_transformer_factory(name, **arguments)()


C_co = TypeVar("C_co", covariant=True)


class Readable(Protocol[C_co]):
    """What was read from elsewhere and knows how it is compiled, such as a model of ONNX."""

    def compiled(self, target: str, profile: Profile | None = None, threads: int | None = None) -> C_co: ...


@overload
def compile(  # pyright: ignore[reportOverlappingOverload]  # a model is Any too
    returns: Readable[C_co],
    inputs: tuple[()] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
) -> C_co: ...
@overload
def compile(
    returns: Any,
    inputs: Sequence[Tensor] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
) -> DeviceComputation: ...
def compile(
    returns: Any,
    inputs: Sequence[Tensor] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
) -> Any:
    """A function of arrays, compiled now: `ng.compile(returns, inputs)(*arrays)`.

    Args:
        returns: an op, or a list, tuple, set or dictionary of ops, as for `Transformer.computation`; or a model that was
            read (`ngmlir.frontends.onnx.load`), which has inputs of its own.
        inputs: the placeholders (or variables) that the arrays stand for, in order.
        target: `cpu`, `cuda` (`cuda:1` is the second GPU), `cuda-sim` or `numpy`.
        threads: how many threads the program uses on the CPU; results have the same bits for any number. Without it as many
            as NGMLIR_NUM_THREADS says, or as there are cores.
        profile: whether each launch of a kernel is timed; what is returned then has a `profile` to print (on `cpu`).

    Variables start from their initial values and keep what is assigned to them from call to call. Raises
    UserError where the graph or the target is wrong, Limit where this version cannot compile an op.
    """
    if profile and target != "cpu":
        raise Limit(f"programs for {target} are not timed", hint='profile=True needs target="cpu"')
    listener = Profile(threads) if profile else None
    if not isinstance(returns, Op) and hasattr(returns, "compiled"):
        said = {"profile": listener, "threads": threads}
        return returns.compiled(target, **{name: value for name, value in said.items() if value is not None})
    given = {} if threads is None else {"threads": threads}
    made = make_transformer_factory(target, **given)().computation(returns, *listed(inputs, "placeholders"))
    made.profile = listener
    made.transform()
    return made
