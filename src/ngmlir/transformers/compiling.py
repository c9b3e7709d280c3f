# SPDX-License-Identifier: Apache-2.0
"""`compile`: from ops, or from a model, to a function of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from ..op_graph.calls import listed
from ..op_graph.errors import UserError, fail
from ..op_graph.node import Op

if TYPE_CHECKING:
    from ..op_graph.tensor import Tensor
    from ..runtime.timing import Profile
    from .computations import DeviceComputation

C_co = TypeVar("C_co", covariant=True)


class Readable(Protocol[C_co]):
    """An object that was read from a file and has its own way to be compiled, such as an ONNX model."""

    def compiled(self, target: str, profile: Profile | None = None, threads: int | None = None) -> C_co: ...


@overload
def compile(  # pyright: ignore[reportOverlappingOverload]  # a model is Any too
    returns: Readable[C_co],
    inputs: tuple[()] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
    memory_limit: int | None = None,
) -> C_co: ...
@overload
def compile(
    returns: Any,
    inputs: Sequence[Tensor] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
    memory_limit: int | None = None,
) -> DeviceComputation: ...
def compile(
    returns: Any,
    inputs: Sequence[Tensor] = (),
    target: str = "cpu",
    threads: int | None = None,
    profile: bool = False,
    memory_limit: int | None = None,
) -> Any:
    """A function of arrays, compiled now: `ng.compile(returns, inputs)(*arrays)`.

    Args:
        returns: an op, or a list, tuple, set or dictionary of ops, as for `Transformer.computation`; or a model that was
            read (`ngmlir.frontends.onnx.load`), which has inputs of its own.
        inputs: the placeholders (or variables) that the arrays are values of, in order.
        target: `cpu`, `cuda` (`cuda:1` is the second GPU), `cuda-sim` or `numpy`.
        threads: how many threads the program uses on the CPU; results have the same bits for any number. By default
            NGMLIR_NUM_THREADS, or the number of cores.
        profile: whether each launch of a kernel is timed (on `cpu`), or counted (on `cuda-sim`); the returned function then
            has a `profile` to print.
        memory_limit: the most bytes that temporaries of a call may take at once, in addition to arguments, variables and
            results. If they would take more, values are recomputed instead of kept; results have the same bits. Not for
            models, nor for `numpy`.

    Variables start from their initial values and keep assigned values between calls. Raises UserError if the graph or
    the target is wrong, and at the op that does not fit into `memory_limit`; Limit if this version cannot compile an
    op.
    """
    if not isinstance(returns, Op) and hasattr(returns, "compiled"):
        if memory_limit is not None:
            fail(UserError, "memory_limit= is for graphs, and this is a model", "leave memory_limit= out")
        said: dict[str, Any] = {"threads": threads}
        if profile:
            from ..runtime.targets import profile_for

            said["profile"] = profile_for(target, threads)
        return returns.compiled(target, **{name: value for name, value in said.items() if value is not None})
    from .factories import (
        make_transformer_factory,  # imports all transformers, which models do not need
    )

    given = {"threads": threads, "memory_limit": memory_limit}
    transformer = make_transformer_factory(target, **{k: v for k, v in given.items() if v is not None})()
    if profile:
        transformer.profile()
    made = transformer.computation(returns, *listed(inputs, "placeholders"))
    made.transform()
    return made
