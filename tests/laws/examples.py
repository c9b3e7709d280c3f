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
    if definition.given or definition.states_types:
        return _given(op, definition.given, example)
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
    if op is func.ReturnOp:
        return f"func.func @main({arguments}) -> ({', '.join(free.values())}) {{\n  {example}\n}}"
    if op is ng.YieldOp:
        body = f"%r = ng.fusion map(%a = %x) -> tensor<4xf32> {{\n{example}\n}}"
        return (
            f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n  return %r : tensor<4xf32>\n}}"
        )
    if op is tile.ReturnOp:
        return f"tile.kernel @k outs(%p: memref<4xf32>) {{\n  {example}\n}}"
    end = f"return {named} : {gives}" if results else "return"
    return f"{helper}func.func @main({arguments}) -> ({gives}) {{\n{example}\n  {end}\n}}"


def _given(op: type[Op], arguments: str, example: str) -> str:
    """The same where the definition says what the example takes."""
    helper = ""
    if op in (tile.CallOp, tile.LaunchOp):
        helper = "tile.kernel @k ins(%p: memref<4xf32>) outs(%q: memref<4xf32>) {\n  tile.return\n}\n"
    inside = f"func.func @main({arguments}) {{\n{example}\n  return\n}}"
    (made,) = [o for o in from_text(helper + inside).lookup("main").block.ops if isinstance(o, op)]
    names = ", ".join(f"%{r.name}" for r in made.results)
    types = ", ".join(str(r.type) for r in made.results)
    end = f"return {names} : {types}" if names else "return"
    return f"{helper}func.func @main({arguments}) -> ({types}) {{\n{example}\n  {end}\n}}"
