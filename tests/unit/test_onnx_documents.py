# SPDX-License-Identifier: Apache-2.0
"""docs/onnx.md lists the operators that there are; `python tests/unit/test_onnx_documents.py` writes the list."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
MARK = "<!-- written by tests/unit/test_onnx_documents.py -->\n"


def listed() -> str:
    """The operators of each domain."""
    from ngmlir.frontends.onnx.nodes import OPERATORS, OWN
    from ngmlir.frontends.onnx.reader import Reader

    assert Reader
    lines: list[str] = []
    for domain in sorted({d for d, _ in OPERATORS} - {OWN}):
        names = ", ".join(sorted(name for d, name in OPERATORS if d == domain))
        lines.append(f"{f'**{domain}**: ' if domain else ''}{names}.")
    return "\n".join([MARK, "\n\n".join(lines), ""])


def test_operators_are_as_listed() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(listed())


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index("<!--")] + listed(), encoding="utf-8")
