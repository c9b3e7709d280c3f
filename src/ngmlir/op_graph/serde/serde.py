# SPDX-License-Identifier: Apache-2.0
"""Graphs as bytes: the text that `ng.save` writes, as one bytes object."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.printer import to_text
from ...ops.words import from_text
from ..archive import from_module, to_module
from ..computation import computation
from ..errors import UserError, fail
from ..node import Op
from ..tensor import Tensor

_HANDLES = b"// handles\n"


def serialize_graph(ops: Op | Iterable[Op], only_return_handle_ops: bool = False) -> bytes:
    """What some ops are computed from, with the initial values of state, as bytes (text of a `.ngir` file).

    `deserialize_graph` gives all ops of it; with `only_return_handle_ops` those that stand for `ops`, in their order.
    Raises UserError where a length is not set, where two storages have one name, and for host ops.
    """
    given = [ops] if isinstance(ops, Op) else [*ops]
    text = to_text(to_module({"main": computation(given, "all")}))
    return (_HANDLES if only_return_handle_ops else b"") + text.encode()


def deserialize_graph(graph_data: bytes) -> list[Op]:
    """The ops of a graph that `serialize_graph` wrote: in the order in which they run, or those that were asked for.

    Storage has the names and initial values that it had. Raises UserError for what is no such graph.
    """
    try:
        text = bytes(graph_data).decode()
    except (TypeError, ValueError) as error:
        fail(
            UserError,
            f"these bytes are not a serialized graph: {error}",
            "serde.serialize_graph makes such bytes",
        )
    made = from_module(from_text(text)).get("main")
    if made is None:
        fail(UserError, "the graph has no function @main", "serde.serialize_graph makes such graphs")
    if not text.startswith(_HANDLES.decode()):
        return Op.ordered_ops(made.returns)
    values = made.pack(made.returns)
    group = made.returns[-1] if made.returns else None  # what writes
    handles = [group if value is None else value for value in values]
    return [op.tensor if isinstance(op, Tensor) else op for op in handles if op is not None]
