# SPDX-License-Identifier: Apache-2.0
"""`compile`: from ops, or from what was read elsewhere, to a function of arrays."""

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
    """What was read from elsewhere and knows how it is compiled, such as a model of ONNX."""

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
        inputs: the placeholders (or variables) that the arrays stand for, in order.
        target: `cpu`, `cuda` (`cuda:1` is the second GPU), `cuda-sim` or `numpy`.
        threads: how many threads the program uses on the CPU; results have the same bits for any number. Without it as many
            as NGMLIR_NUM_THREADS says, or as there are cores.
        profile: whether each launch of a kernel is timed (on `cpu`), or counted (on `cuda-sim`); what is returned then has a
            `profile` to print.
        memory_limit: the most bytes that temporaries of a call may take at once, beside arguments, variables and results. Where they
            would take more, values are computed again instead of kept; results have the same bits. Not for models, nor `numpy`.

    Variables start from their initial values and keep what is assigned to them from call to call. Raises
    UserError where the graph or the target is wrong, and at the op that does not fit into `memory_limit`; Limit where this version
    cannot compile an op.
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
        make_transformer_factory,  # brings all transformers along, of which models need none
    )

    given = {"threads": threads, "memory_limit": memory_limit}
    transformer = make_transformer_factory(target, **{k: v for k, v in given.items() if v is not None})()
    if profile:
        transformer.profile()
    made = transformer.computation(returns, *listed(inputs, "placeholders"))
    made.transform()
    return made
