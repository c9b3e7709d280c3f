# SPDX-License-Identifier: Apache-2.0
"""Our dialects as IRDL dialects, so that stock MLIR checks our generic form: `mlir-opt --irdl-file=ngmlir.irdl.mlir`.

`python -m ngmlir.decl.irdl > ngmlir.irdl.mlir` writes all of them. IRDL says which types and attributes an op takes.
It cannot say shape rules, optional attributes or axis names; it wants all operands of a variadic group to have one
type, and knows no terminators, so ops with regions are only declared. Our own verifier checks all of it. `func` is
MLIR's own.
"""

from __future__ import annotations

import argparse
import sys

from ..ir.definition import CONTAINERS, ELEMENTS, Constraint
from ..ir.types import Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64, index, ui8, ui16, ui32, ui64
from ..support.home import folder
from .dialect_text import AttributeText, DialectText, OperandText, OpText, read_dialect

DIALECTS = ("tile", "ng", "program")
_SCALARS: tuple[Type, ...] = (f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, index)
#: Container -> the shaped types it takes; its scalars are asked of the constraint itself.
_SHAPED = {
    "tensor": ("tensor",),
    "vector": ("vector",),
    "memref": ("memref",),
    "scalar": (),
    "tile": ("vector",),
    "value": ("tensor", "vector"),
}
_ATTRIBUTES = {
    "i64": "integer", "bool": "integer", "i64s": "dense_array", "bools": "dense_array", "str": "string",
    "symbol": "symbol_ref", "type": "type", "unit": "unit",
}  # fmt: skip


def dialect_text(dialect: DialectText) -> str:
    """The `irdl.dialect` of one dialect."""
    types = ["  irdl.type @token", ""] if dialect.name == "tile" else []
    ops = [line for op in dialect.ops for line in _Operation(op).text()]
    return "\n".join([f"irdl.dialect @{dialect.name} {{", *types, *ops, "}", ""])


def export() -> str:
    """All dialects in one file."""
    return "".join(dialect_text(read_dialect(folder("dialects") / f"{name}.ngd")) for name in DIALECTS)


class _Operation:
    """Writes one `irdl.operation`.

    In IRDL a constraint that is used twice must both times hold for the same type. So operands get constraints of
    their own, all the way down, unless they share a type variable.
    """

    def __init__(self, op: OpText):
        self.op = op
        self.lines: list[str] = []
        self.count = 0
        self.variables: dict[str, str] = {}

    def text(self) -> list[str]:
        op = self.op
        operands = [self.operand(o) for o in op.operands]
        results = [self.operand(r) for r in op.results]
        attributes = [f'"{a.name}" = {self.attribute(a)}' for a in op.attributes if not a.optional]
        regions = [self.define("irdl.region") for _ in op.regions]
        for keyword, parts in (("operands", operands), ("results", results)):
            if parts:
                self.lines.append(f"irdl.{keyword}({', '.join(parts)})")
        if attributes:
            self.lines.append(f"irdl.attributes {{ {', '.join(attributes)} }}")
        if regions:
            self.lines.append(f"irdl.regions({', '.join(regions)})")
        return [f"  irdl.operation @{op.name} {{", *(f"    {line}" for line in self.lines), "  }"]

    def define(self, definition: str) -> str:
        """A new value of this definition."""
        self.count += 1
        self.lines.append(f"%{self.count - 1} = {definition}")
        return f"%{self.count - 1}"

    def any_of(self, values: list[str]) -> str:
        return values[0] if len(values) == 1 else self.define(f"irdl.any_of({', '.join(values)})")

    def operand(self, item: OperandText) -> str:
        value = self.variables.get(item.variable) or self.constraint(item.constraint)
        if item.variable:
            self.variables[item.variable] = value
        return f"variadic {value}" if item.variadic else value

    def constraint(self, constraint: Constraint) -> str:
        if constraint.element == "token":
            return self.define("irdl.base @tile::@token")
        if constraint.container == "any":
            return self.define("irdl.any")
        holds, element = CONTAINERS[constraint.container], ELEMENTS[constraint.element or "element"]
        shaped = [self.define(f'irdl.base "!builtin.{base}"') for base in _SHAPED[constraint.container]]
        return self.any_of(
            shaped + [self.define(f"irdl.is {t}") for t in _SCALARS if holds(t) and element(t)]
        )

    def attribute(self, item: AttributeText) -> str:
        if item.kind.startswith("enum("):
            return self.any_of([self.define(f'irdl.is "{word}"') for word in item.kind[5:-1].split("|")])
        base = _ATTRIBUTES.get(item.kind)
        return self.define("irdl.any" if base is None else f'irdl.base "#builtin.{base}"')


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m ngmlir.decl.irdl",
        description="Writes the dialects as IRDL, to standard output: mlir-opt --irdl-file=FILE",
    ).parse_args()
    sys.stdout.write(export())
