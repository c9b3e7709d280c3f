# SPDX-License-Identifier: Apache-2.0
"""What the documents say is true: IR in them reads, links lead somewhere, tables agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_layers import RANK

from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for folder in ("bench", "dialects", "docs", "lowering") for p in (ROOT / folder).rglob("*.md")),
    ]
)
BLOCK = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def blocks() -> list[object]:
    return [
        pytest.param(path, found, id=f"{path.relative_to(ROOT)}:{i}")
        for path in DOCUMENTS
        for i, found in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("path", "found"), blocks())
def test_ir_in_documents_reads(path: Path, found: re.Match[str]) -> None:
    above = path.read_text(encoding="utf-8")[: found.start(1)].count("\n")
    from_text("\n" * above + found[1], file=str(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"


def test_rooms_are_as_written() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    written = {room: int(rank) for room, rank in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)}
    assert written == {room: rank for room, rank in RANK.items() if not room.startswith("__")}


def test_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / "run").read_text(encoding="utf-8")
    commands = set(re.findall(r"^\./run (\w+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= commands
    for command in commands:
        assert re.search(rf"^    {command}\)", script, re.MULTILINE), f"./run has no command {command}"
    assert '/run" test' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_pass_has_a_text_test() -> None:
    tested = {
        path.stem if path.parent.name == "passes" else path.parent.name
        for path in (ROOT / "lit_tests" / "passes").rglob("*.ngir")
    }
    assert sorted(set(PASSES) - tested) == []
