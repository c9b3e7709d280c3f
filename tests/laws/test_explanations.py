# SPDX-License-Identifier: Apache-2.0
"""`ngopt --help-op` and `--help-pass` say all that an entry says, of every op and every pass, in any width."""

from __future__ import annotations

import re

import pytest

from ngmlir.decl.pipeline_text import named_pipelines
from ngmlir.decl.target_text import load_target
from ngmlir.ir.types import f16, f32, f64, i1, i32, ui8
from ngmlir.ops.decompositions import DECOMPOSITIONS
from ngmlir.ops.words import WORDS
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.options import declared_options
from ngmlir.tools.explain import help_op, help_pass

DEFINED = {name: op.definition for name, op in WORDS.items() if op.definition is not None}
ELEMENTS = (i1, i32, ui8, f16, f32, f64)
#: What stands as it is written, however wide.
VERBATIM = ("Form", "Example", "Before:", "After:")


def sections(text: str) -> dict[str, str]:
    """What stands below each heading; above the first one, under ''."""
    parts = re.split(r"^([A-Z]\w+:?)$", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", DEFINED)
def test_an_op_is_explained_in_full(name: str) -> None:
    definition, found = DEFINED[name], sections(help_op(name, 80))
    assert definition.doc == " ".join(found[""].split("\n\n", 1)[1].split())
    for heading, names in (
        ("Operands", [o.name for o in definition.operands]),
        ("Attributes", [a.name for a in definition.attributes]),
        ("Results", [r.name for r in definition.results]),
        ("Regions", list(definition.regions)),
        ("Traits", sorted(definition.traits)),
    ):
        assert heading in found or not names
        for each in names:
            assert re.search(rf"\b{each}\b", found[heading]), f"{heading} of {name} lack {each}"
    for each in (*definition.operands, *definition.attributes):
        if "function" not in definition.traits:
            assert re.search(rf"\b{each.name}\b", found["Form"]), f"the form of {name} lacks {each.name}"
    assert found["Example"].split() == definition.example.split()
    assert len(definition.points) == len(
        re.findall(r"^  at .* gives ", found.get("Numbers", ""), re.MULTILINE)
    )


@pytest.mark.parametrize("name", [name for name in DEFINED if name.startswith("ng.")])
def test_targets_are_those_of_the_tables(name: str) -> None:
    shown = sections(help_op(name, 100))["Targets"]
    for target in ("cpu", "nvptx"):
        (line,) = re.findall(rf"^  {target} +(.*)$", shown, re.MULTILINE)
        hows = {load_target(target).how(name, element) for element in ELEMENTS}
        assert ("by decomposition" in line) == (name in DECOMPOSITIONS)
        assert ("code generator" in line) == ("legal" in hows)
        assert ("lowering/math" in line) == ("library" in hows)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_explained_in_full(name: str) -> None:
    found = sections(help_pass(name, PASSES, named_pipelines(), 80))
    assert "stages" in found["Contract"]
    for option in declared_options(PASSES[name]):
        assert f"{option}=" in found["Options"]
    assert found["Before:"].strip() and found["After:"].strip()


@pytest.mark.parametrize("width", [1, 40, 57, 100])
def test_lines_are_as_wide_as_asked(width: int) -> None:
    texts = [help_op(name, width) for name in DEFINED]
    texts += [help_pass(name, PASSES, named_pipelines(), width) for name in PASSES]
    for text in texts:
        for heading, body in sections(text).items():
            wide = [line for line in body.splitlines()[1:] if len(line) > max(width, 40)]
            assert heading in VERBATIM or not wide
