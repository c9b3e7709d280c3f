# SPDX-License-Identifier: Apache-2.0
"""Dialect text to Python: op classes, the verbs that build ops, and the graph functions of elementwise ops.

`python -m ngmlir.decl.generate` writes the files, `--check` says when they are stale.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path

from ..ir.definition import EVERYWHERE
from ..support.home import folder
from . import operator_pages
from .dialect_text import AttributeText, DialectText, OperandText, OpText, read_dialect
from .operator_text import read_operators

DIALECTS = ("func", "ng", "program", "tile")
_PYTHON = {
    "i64": "int", "i64s": "Sequence[int]", "bools": "Sequence[bool]", "bool": "bool", "str": "str", "name": "str", "symbol": "str",
    "type": "Type", "unit": "bool", "axes": "Sequence[str]", "number": "Attribute", "literal": "Attribute", "any": "Attribute",
}  # fmt: skip
_GETTERS = {
    "i64": "int", "i64s": "tuple[int, ...]", "bools": "tuple[bool, ...]", "bool": "bool", "str": "str", "name": "str", "symbol": "str",
    "type": "Type", "unit": "bool", "axes": "tuple[str, ...]", "number": "Attribute", "literal": "Attribute", "any": "Attribute",
}  # fmt: skip


def class_name(op: str) -> str:
    """`not_equal` -> `NotEqualOp`."""
    return "".join(part.capitalize() for part in op.split("_")) + "Op"


def python_name(name: str) -> str:
    """`if` -> `if_`."""
    return name + "_" if keyword.iskeyword(name) else name


def _python_type(kind: str, table: dict[str, str]) -> str:
    if kind.startswith("enum("):
        return "Literal[" + ", ".join(f'"{v}"' for v in kind[5:-1].split("|")) + "]"
    return table[kind]


def module_text(dialect: DialectText) -> str:
    """The Python module of one dialect."""
    values = [op for op in dialect.ops if _is_value(op)]
    rules = [f"{dialect.name}_rules"] if any(op.rule for op in dialect.ops) else []
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Generated from dialects/{dialect.name}.ngd by `python -m ngmlir.decl.generate`; do not edit.",
        f'"""The {dialect.name} dialect. {dialect.doc}"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Sequence",
        "from typing import Generic, Literal, TypeVar",
        "",
        "from ..ir.attributes import Attribute",
        "from ..ir.core import Op, Region, Value",
        "from ..ir.definition import AttributeField, Constraint, Domain, OpDefinition, Operand",
        "from ..ir.types import Type",
        f"from . import {', '.join(['fields', *rules])}",
        "",
        'V = TypeVar("V")',
    ]
    for op in dialect.ops:
        lines += _class(op)
    lines += ["", "", "#: Op name -> class.", "OPS: dict[str, type[Op]] = {"]
    lines += [f'    "{op.dialect}.{op.name}": {class_name(op.name)},' for op in dialect.ops]
    lines += ["}"]
    if values:
        lines += _verbs(dialect, values)
    return "\n".join(lines) + "\n"


def _is_value(op: OpText) -> bool:
    return "function" not in op.traits and "terminator" not in op.traits


def _constraint(item: OperandText) -> str:
    c = item.constraint
    return f'Constraint("{c.text}", "{c.container}", "{c.element}")'


def _operand(item: OperandText) -> str:
    extra = f', "{item.variable}"' if item.variable else (', ""' if item.variadic else "")
    extra += ", True" if item.variadic else ""
    extra += f", domain=Domain{tuple(item.domain)!r}" if item.domain != EVERYWHERE else ""
    extra += ", static=True" if item.static else ""
    extra += f", default={item.default}" if item.default is not None else ""
    extra += f', counted="{item.counted}"' if item.counted else ""
    return f'Operand("{item.name}", {_constraint(item)}{extra})'


def _points(op: OpText) -> str:
    """Numbers as Python has them, infinities and NaN too."""
    return re.sub(r"\b(inf|nan)\b", r'float("\1")', repr(tuple(op.points)))


def _field(item: AttributeText) -> str:
    default = "None" if item.default is None else f'fields.default("{item.kind}", {item.default!r})'
    return f'AttributeField("{item.name}", "{item.kind}", {default}, {item.optional})'


def _tuple(parts: list[str], indent: str) -> str:
    if not parts:
        return "()"
    return "(\n" + "".join(f"{indent}    {p},\n" for p in parts) + f"{indent})"


def _class(op: OpText) -> list[str]:
    lines = ["", "", f"class {class_name(op.name)}(Op):", f'    """{op.doc}"""', "", "    __slots__ = ()"]
    lines += [f'    name = "{op.dialect}.{op.name}"', "    definition = OpDefinition(", "        name,"]
    lines += [f"        operands={_tuple([_operand(o) for o in op.operands], '        ')},"]
    lines += [f"        results={_tuple([_operand(o) for o in op.results], '        ')},"]
    if op.attributes:
        lines += [f"        attributes={_tuple([_field(a) for a in op.attributes], '        ')},"]
    if op.regions:
        lines += [f"        regions={tuple(op.regions)!r},"]
    lines += [f"        traits=frozenset({sorted(op.traits)!r}),"]
    if op.rule:
        lines += [f"        rule={op.dialect}_rules.{op.rule},"]
    lines += [f"        form={tuple(op.form)!r},"]
    if op.loops:
        lines += [f"        loops_text={op.loops!r},"]
    if op.errors:
        lines += [f"        errors={tuple(op.errors)!r},"]
    if op.points:
        lines += [f"        points={_points(op)},"]
    lines += [
        f"        doc={op.doc!r},",
        *([f"        given={op.given!r},"] if op.given else []),
        f"        example={op.example!r},",
        "    )",
    ]
    lines += _accessors(op)
    return lines


def _accessors(op: OpText) -> list[str]:
    lines: list[str] = []
    fixed = not any(o.static or o.counted for o in op.operands)
    variadic = next((i for i, o in enumerate(op.operands) if o.variadic), None)
    for i, operand in enumerate(op.operands):
        type, where = "tuple[Value, ...]" if operand.variadic else "Value", str(i)
        if operand.static:
            type = "int | Value"
        elif operand.variadic:
            after = len(op.operands) - 1 - i
            where = f"{i}:{-after}" if after else f"{i}:"
        elif variadic is not None and i > variadic:
            where = str(i - len(op.operands))
        get = "static" if operand.static else "group"
        value = f"self.operands[{where}]" if fixed else f'fields.{get}(self, "{operand.name}")'
        lines += _property(python_name(operand.name), type, value)
    static = {o.name for o in op.operands if o.static}
    for item in op.attributes:
        if item.name in static:
            continue
        type = _python_type(item.kind, _GETTERS)
        if item.optional:
            type += " | None"
        getter = f"{'find' if item.optional or item.kind == 'unit' else 'get'}_{item.kind.partition('(')[0]}"
        # What an enum's text may be is the verifier's to know.
        ignore = "  # pyright: ignore" if item.kind.startswith("enum(") else ""
        lines += _property(python_name(item.name), type, f'fields.{getter}(self, "{item.name}"){ignore}')
    for i, region in enumerate(op.regions):
        lines += _property(python_name(region), "Region", f"self.regions[{i}]")
    return lines


def _property(name: str, type: str, value: str) -> list[str]:
    return ["", "    @property", f"    def {name}(self) -> {type}:", f"        return {value}"]


def _verbs(dialect: DialectText, ops: list[OpText]) -> list[str]:
    title = dialect.name.capitalize()
    lines = [
        "", "", f"class {title}Verbs(fields.Verbs[V], Generic[V]):",
        f'    """One method per {dialect.name} op. What `V` is (an IR value, a graph node, an array) is up to `build`."""',
    ]  # fmt: skip
    for op in ops:
        lines += _verb(op)
    return lines


def _verb(op: OpText) -> list[str]:
    cls = class_name(op.name)
    static, counts = (
        {o.name for o in op.operands if o.static},
        {o.counted: o for o in op.operands if o.counted},
    )
    told = [a for a in op.attributes if a.name not in static and a.name not in counts]
    required = [a for a in told if a.default is None and not a.optional]
    rest = [a for a in told if a not in required]
    single = len(op.results) == 1 and not op.results[0].variadic
    parameters = [
        f"{python_name(o.name)}: {'Sequence[V]' if o.variadic else 'V | int' if o.static else 'V'}"
        for o in op.operands
    ]
    keywords = [f"{python_name(a.name)}: {_python_type(a.kind, _PYTHON)}" for a in required]
    keywords += [f"{python_name(a.name)}: {_python_type(a.kind, _PYTHON)} | None = None" for a in rest]
    free = _free_result(op)
    if free == "one":
        keywords.insert(0, "type: Type")
    elif free == "many":
        keywords.insert(0, "types: Sequence[Type]")
    if "widening" in op.traits:
        keywords.append("type: Type | None = None")
    if op.regions:
        keywords.append("regions: Sequence[Region]")
    head = ", ".join(["self", *parameters, *(["*", *keywords] if keywords else [])])
    operands = ", ".join(
        f"*{python_name(o.name)}"
        if o.variadic
        else f"*fields.unknown({python_name(o.name)})"
        if o.static
        else python_name(o.name)
        for o in op.operands
    )
    operands = f"[{operands}]"
    values = {a.name: python_name(a.name) for a in told}
    values |= {name: f"len({python_name(o.name)})" for name, o in counts.items()}
    values |= {o.name: f"fields.known({python_name(o.name)})" for o in op.operands if o.static}
    attributes = "{" + ", ".join(f'"{a.name}": {values[a.name]}' for a in op.attributes) + "}"
    call = f"{cls}, {operands}, {attributes}"
    if free == "one":
        call += ", types=[type]"
    elif free == "many":
        call += ", types=types"
    elif "widening" in op.traits:
        call += ", types=None if type is None else [type]"
    if op.regions:
        call += ", regions=regions"
    result = "V" if single else "Sequence[V]"
    return [
        "",
        f"    def {python_name(op.name)}({head}) -> {result}:",
        f'        """{op.doc}"""',
        f"        return self.build({call}){'[0]' if single else ''}",
    ]  # fmt: skip


def _free_result(op: OpText) -> str:
    """'one' or 'many' where the caller states the result types, '' where they are inferred."""
    if not op.results or "inferred" in op.traits:
        return ""
    if "stated" in op.traits:
        return "many" if any(r.variadic for r in op.results) else "one"
    variables = {o.variable for o in op.operands if o.variable}
    if op.rule or all(r.variable in variables for r in op.results):
        return ""
    return "many" if len(op.results) > 1 or op.results[0].variadic else "one"


def functions_text(dialect: DialectText) -> str:
    """The graph functions of the elementwise ops: of one or two operands of one type, broadcast by axis name."""
    made = {op.function or op.name: how for op in dialect.ops if (how := _function(op))}
    names = ", ".join(sorted({how[0] for how in made.values()}))
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Generated from dialects/{dialect.name}.ngd by `python -m ngmlir.decl.generate`; do not edit.",
        '"""Elementwise functions, one for each op. Results have float32 elements, or the 64-bit ones of an operand, unless',
        "`dtype` says otherwise; operands are matched by axis name. Comparisons give `bool` tensors, which count as 0 and 1 wherever numbers are needed.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "from ..tensor import Tensor",
        f"from .applying import {names}",
        "",
        "__all__ = [",
        *[f'    "{name}",' for name in sorted(made)],
        "]",
    ]
    for name, (how, parameters, call, doc) in made.items():
        lines += [
            "",
            "",
            f"def {name}({parameters}) -> Tensor:",
            f'    """{doc}"""',
            f"    return {how}({call})",
        ]
    return "\n".join(lines) + "\n"


def _function(op: OpText) -> tuple[str, str, str, str] | None:
    """How the graph function applies the op, its parameters, the arguments it passes on, and its docstring; None without one."""
    if "elementwise" not in op.traits or "stated" in op.traits or op.function == "none":
        return None
    kinds = {o.constraint.element for o in op.operands}
    if len(op.operands) > 2 or len({o.variable or o.name for o in op.operands}) != 1:
        return None
    bits = kinds <= {"bits", "integer", "bool"}
    doc, names = op.doc, ["x", "y"][: len(op.operands)]
    for operand, name in zip(op.operands, names, strict=True):
        doc = re.sub(rf"\b{operand.name}\b", name, doc) if operand.name != "input" else doc
    if len(names) == 1:
        how = "unary_bits" if bits else "unary"
    else:
        how = "compare" if "compare" in op.traits else "binary_bits" if bits else "binary"
    # A function of floats alone has no other type to ask for, but by its operand.
    typed = not bits and (len(names) == 2 or kinds != {"float"})
    parameters = ", ".join([*(f"{n}: Any" for n in names), *(["dtype: Any = None"] if typed else [])])
    return how, parameters, ", ".join([f'"{op.name}"', *names, *(["dtype"] if typed else [])]), doc


def index_text(dialects: list[DialectText]) -> str:
    """The page that lists all ops."""
    lines = [
        "# Ops",
        "",
        "Generated from `dialects/` by `python -m ngmlir.decl.generate`; do not edit. `ngopt --help-op NAME` describes one op: its form,",
        "an example, its gradient, and the targets that support it.",
    ]
    for dialect in dialects:
        lines += ["", f"## {dialect.name}", "", dialect.doc, "", "| op | meaning |", "|---|---|"]
        for op in dialect.ops:
            doc = op.doc.replace("|", "\\|")
            lines.append(f"| `{dialect.name}.{op.name}` | {doc} |")
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """Path -> wanted text of every generated file."""
    package = Path(__file__).parents[1]
    dialects = {name: read_dialect(folder("dialects") / f"{name}.ngd") for name in DIALECTS}
    files = {package / "ops" / f"{name}.py": module_text(dialect) for name, dialect in dialects.items()}
    files[package / "op_graph" / "functions" / "elementwise.py"] = functions_text(dialects["ng"])
    documents = package.parents[1] / "docs"
    if documents.is_dir():  # a checkout
        files[documents / "ops.md"] = index_text([*dialects.values()])
        operators = read_operators(folder("dialects") / "program.operators")
        files[documents / "operators.md"] = operator_pages.markdown(operators)
    return files


def main(arguments: list[str]) -> int:
    known = argparse.ArgumentParser(
        prog="python -m ngmlir.decl.generate", description="Writes the files that follow from dialects/."
    )
    known.add_argument("--check", action="store_true", help="write nothing, name the files that are stale")
    check = known.parse_args(arguments).check
    stale: list[Path] = []
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
