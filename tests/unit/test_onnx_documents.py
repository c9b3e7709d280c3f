# SPDX-License-Identifier: Apache-2.0
"""docs/onnx.md lists the operators that there are; `python tests/unit/test_onnx_documents.py` writes the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
MARK = "<!-- written by tests/unit/test_onnx_documents.py -->\n"


def signature(schema: Any) -> str:
    """`Op(a, b?, *rest; alpha = 1.0, count)` for a node: what ends with a question mark may be left out."""
    option = type(schema).FormalParameterOption
    marks = {option.Optional: "{}?", option.Variadic: "*{}"}
    inputs = ", ".join(marks.get(i.option, "{}").format(i.name) for i in schema.inputs)
    attributes: list[str] = []
    for name, attribute in sorted(schema.attributes.items()):
        default = attribute.default_value
        if default.name:
            value = {1: str(np.float32(default.f)), 2: default.i, 3: f"'{default.s.decode()}'"}[default.type]
            attributes.append(f"{name} = {value}")
        else:
            attributes.append(name if attribute.required else f"{name}?")
    told = "; " + ", ".join(attributes) if attributes else ""
    return f"- `{schema.name}({inputs}{told})`"


def listed() -> str:
    """The operators of each domain."""
    from ngmlir.frontends.onnx.nodes import OPERATORS, OWN
    from ngmlir.frontends.onnx.reader import Reader
    from ngmlir.frontends.onnx.schemas import MICROSOFT, SCHEMAS

    assert Reader
    lines: list[str] = []
    for domain in sorted({d for d, _ in OPERATORS} - {OWN}):
        if domain == MICROSOFT:
            schemas = [schema for (where, _), schema in sorted(SCHEMAS.items()) if where == domain]
            lines.append(f"**{domain}**:\n\n" + "\n".join(map(signature, schemas)))
            continue
        names = ", ".join(sorted(name for d, name in OPERATORS if d == domain))
        lines.append(f"{f'**{domain}**: ' if domain else ''}{names}.")
    return "\n".join([MARK, "\n\n".join(lines), ""])


def test_operators_are_as_listed() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(listed())


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index("<!--")] + listed(), encoding="utf-8")
