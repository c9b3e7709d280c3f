# SPDX-License-Identifier: Apache-2.0
"""What the documents say is true: IR in them reads, links lead somewhere, tables agree with the code.

On a page of WALKS a block "```mlir ngopt FLAGS" shows what ngopt makes of the block above it, and one without flags the `module` of
the Python above it; on a page without Python it begins anew. The picture of the README is drawn from its program. Run as a program, this file writes those blocks and the picture
anew.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_layers import LAYER

from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES
from ngmlir.tools import ngopt

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for folder in ("bench", "dialects", "docs", "lowering") for p in (ROOT / folder).rglob("*.md")),
    ]
)
BLOCK = re.compile(r"^```mlir(?: ngopt (?P<flags>[^\n]*))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WALKS = tuple(ROOT / "docs" / f"{page}.md" for page in ("architecture", "nests", "programs-passes"))
PICTURE = ROOT / "docs" / "pictures" / "kernels.svg"
#: Draws the tensor `loss` of a program, and the kernels that it is compiled to.
DRAW = """
from ngmlir.compiler import lower
from ngmlir.pictures.drawing import Box, Drawing
module, picture = ng.lift([loss], [x, y]).module, Drawing()
for title, part in (("the graph", module), ("the kernels", lower(module, "x86-64-v3"))):
    picture.add(Box((title,), inside=ng.pictures.drawing(part)))
print(ng.pictures.svg(picture))
"""
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#([^)]*))?\)")


def blocks() -> list[object]:
    return [
        pytest.param(path, found, id=f"{path.relative_to(ROOT)}:{i}")
        for path in DOCUMENTS
        for i, found in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("path", "found"), blocks())
def test_ir_in_documents_reads(path: Path, found: re.Match[str]) -> None:
    above = path.read_text(encoding="utf-8")[: found.start("text")].count("\n")
    from_text("\n" * above + found["text"], file=str(path))


def printed(script: str) -> str:
    """What a script prints, in a process of its own: names are unique among all ops that are alive, and other tests have
    some."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def drawn() -> str:
    """The picture of the README: its program up to the loss."""
    program = doctest.script_from_examples((ROOT / "README.md").read_text(encoding="utf-8"))
    return printed(program[: program.index("train = ")] + DRAW)


def walked(page: Path) -> str:
    """A page whose blocks are each made from the one above it."""
    text = page.read_text(encoding="utf-8")
    landing = ""

    def made(found: re.Match[str]) -> str:
        nonlocal landing
        flags = found["flags"]
        if flags is None and not PYTHON.search(text):
            landing = found["text"]
        elif flags is None:
            programs = "\n".join(part[1] for part in PYTHON.finditer(text, 0, found.start()))
            landing = printed(
                f"{programs}\nfrom ngmlir.ops.words import to_text\nprint(to_text(module), end='')"
            )
        else:
            with tempfile.TemporaryDirectory() as folder:
                source, target = Path(folder) / "in.ngir", Path(folder) / "out.ngir"
                source.write_text(landing)
                assert ngopt.main([*shlex.split(flags), str(source), "-o", str(target)]) == 0
                landing = target.read_text()
        return f"```mlir{f' ngopt {flags}' if flags is not None else ''}\n{landing}```"

    return BLOCK.sub(made, text)


@pytest.mark.parametrize("page", WALKS, ids=lambda p: p.stem)
def test_the_path_is_as_shown(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == walked(page), "run: ./run python tests/laws/test_docs.py"


def test_the_picture_of_the_readme_is_of_its_program() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "run: ./run python tests/laws/test_docs.py"


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page are called: lower case, without punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target, heading in LINK.findall(path.read_text(encoding="utf-8")):
        page = path.parent / target
        assert page.exists(), f"{path.relative_to(ROOT)} links to {target}"
        assert not heading or heading in anchors(page), (
            f"{path.relative_to(ROOT)} links to {target}#{heading}"
        )


def test_packages_are_as_written() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    written = {
        package: int(layer) for package, layer in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)
    }
    assert written == {package: layer for package, layer in LAYER.items() if not package.startswith("__")}


def test_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / "run").read_text(encoding="utf-8")
    commands = set(re.findall(r"^\./run (\w+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= commands
    for command in commands:
        assert re.search(rf"^    {command}\)", script, re.MULTILINE), f"./run has no command {command}"
    assert "./run test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_pass_has_a_text_test() -> None:
    tested = {
        path.stem if path.parent.name == "passes" else path.parent.name
        for path in (ROOT / "lit_tests" / "passes").rglob("*.ngir")
    }
    assert sorted(set(PASSES) - tested) == []


if __name__ == "__main__":
    for page in WALKS:
        page.write_text(walked(page), encoding="utf-8")
    PICTURE.write_text(drawn(), encoding="utf-8")
