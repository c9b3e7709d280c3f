# SPDX-License-Identifier: Apache-2.0
"""The example of each op as a module: free values become arguments of a function around it."""

from __future__ import annotations

import re

from ngmlir.ir.core import Op
from ngmlir.ir.types import FunctionType
from ngmlir.ops import func, ng, tile
from ngmlir.ops.fields import get_type
from ngmlir.ops.words import from_text

OPS: dict[str, type[Op]] = {**func.OPS, **ng.OPS, **tile.OPS}
_ATTRIBUTES = re.compile(r" \{\w[^{}]*\}")
_DEFINED = re.compile(r"(%\w+)(?:(?:, %\w+)* =|: )")


def _types(clause: str, count: int) -> tuple[list[str], list[str]]:
    """The operand and result types that a type clause states for `count` operands."""
    if "->" not in clause:
        return [clause] * count, [clause]
    declared = from_text(f"func.func private @f{clause}").ops[0]
    type = get_type(declared, "function_type")
    assert isinstance(type, FunctionType)
    return [str(t) for t in type.inputs], [str(t) for t in type.results]


def wrapped(op: type[Op]) -> str:
    """A module that holds the op's example."""
    definition = op.definition
    assert definition is not None
    example = definition.example
    if "function" in definition.traits:
        return example
    defined = {
        name
        for line in example.split("\n")
        for name in re.findall(r"%\w+", line.partition("=")[0])
        if "=" in line
    }
    defined |= set(re.findall(r"(%\w+): ", example))
    free: dict[str, str] = {}
    results: list[str] = []
    first = True
    for line in example.split("\n"):
        bare = _ATTRIBUTES.sub("", line).strip().removesuffix("{").strip()
        head, colon, clause = bare.partition(" : ")
        if not colon or bare.startswith("^"):
            continue
        names = re.findall(r"%\w+", head.partition("=")[2] if "=" in head else head)
        inputs, outputs = _types(clause, len(names))
        free |= {n: t for n, t in zip(names, inputs, strict=True) if n not in defined}
        results, first = (outputs if first and "=" in head else results), False
    arguments = ", ".join(f"{n}: {t}" for n, t in free.items())
    gives = ", ".join(results)
    named = example.partition("=")[0].strip() if results else ""
    helper = ""
    if op is func.CallOp:
        helper = f"func.func private @f({', '.join(free.values())}) -> ({gives})\n"
    elif op in (tile.CallOp, tile.LaunchOp):
        helper = "tile.kernel @k(%p: memref<4xf32>, %q: memref<4xf32>) attributes {grid = array<i64>} {\n  tile.return\n}\n"
    if op is func.ReturnOp:
        return f"func.func @main({arguments}) -> ({', '.join(free.values())}) {{\n  {example}\n}}"
    if op is ng.YieldOp:
        body = f'%r = ng.fusion %x {{kind = "map"}} : (tensor<4xf32>) -> tensor<4xf32> {{\n^bb0(%a: tensor<4xf32>):\n{example}\n}}'
        return (
            f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n  return %r : tensor<4xf32>\n}}"
        )
    if op is tile.ReturnOp:
        return f"tile.kernel @k(%p: memref<4xf32>) attributes {{grid = array<i64>}} {{\n  {example}\n}}"
    end = f"return {named} : {gives}" if results else "return"
    return f"{helper}func.func @main({arguments}) -> ({gives}) {{\n{example}\n  {end}\n}}"
