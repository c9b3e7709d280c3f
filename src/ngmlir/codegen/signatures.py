# SPDX-License-Identifier: Apache-2.0
"""The names of a program's arguments and results in its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.core import Module, Op, Value
from ..ir.definition import is_narrow
from ..ir.types import element_type
from ..support.artifact import Artifact, Entry
from ..support.signature import Parameter


def named_as(module: Module, artifact: Artifact) -> Artifact:
    """The artifact with the names and locations that `module` gives to the arguments and results of its entries."""
    entries: list[Entry] = []
    for each in artifact.entries:
        function = module.lookup(each.signature.name)
        assert function is not None
        signature = replace(
            each.signature,
            arguments=_renamed(each.signature.arguments, function.block.args, function),
            results=_renamed(each.signature.results, function.block.ops[-1].operands, function),
        )
        entries.append(replace(each, signature=signature))
    return replace(artifact, entries=tuple(entries))


def _renamed(parameters: Sequence[Parameter], values: Sequence[Value], function: Op) -> tuple[Parameter, ...]:
    """Parameters with the names of their values (numbered if these have none), and with their element types."""
    names = [v.name or str(i) for i, v in enumerate(values[: len(parameters)])]
    names += [str(i) for i in range(len(names), len(parameters))]
    # If the program computes with codes (narrow storage), its arrays have the element type that the codes stand for.
    elements = [element_type(v.type) for v in values[: len(parameters)]]
    dtypes = [e.text if is_narrow(e) else p.dtype for e, p in zip(elements, parameters, strict=False)]
    dtypes += [p.dtype for p in parameters[len(dtypes) :]]
    return tuple(
        replace(p, name=n, dtype=d, location=function.location)
        for p, n, d in zip(parameters, names, dtypes, strict=True)
    )
