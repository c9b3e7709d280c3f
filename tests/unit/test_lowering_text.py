# SPDX-License-Identifier: Apache-2.0
"""The readers of lowering/: what they take, and what they say where they refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ngmlir.decl.pipeline_text import named_pipelines, read_pipelines, step_names
from ngmlir.decl.rule_text import Call, Number, Rule, Variable, read_rules
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.words import from_text
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import UserError
from ngmlir.support.home import folder

OPERANDS = {"ng.add": 2, "ng.negative": 1, "ng.select": 3, "ng.if": 1}


def rules(tmp_path: Path, text: str) -> tuple[Rule, ...]:
    path = tmp_path / "some.rules"
    path.write_text(text)
    return read_rules(path, OPERANDS)


def test_a_rule(tmp_path: Path) -> None:
    text = "# a comment\n\nfirst: ng.add(x, -0.0) => x  # why\nsecond:\n   ng.add(x, ng.negative(y))\n   => -1  when float   assume nsz nnan\n"
    one, two = rules(tmp_path, text)
    assert (one.name, one.pattern, one.target) == (
        "first",
        Call("ng.add", (Variable("x"), Number(-0.0))),
        Variable("x"),
    )
    assert one.location.line == 3 and not one.assumptions and not one.when
    assert (two.assumptions, two.when, two.target) == ({"nsz", "nnan"}, "float", Number(-1))
    assert two.variables == ("x", "y") and two.location.line == 4


def test_numbers_that_python_takes_for_equal_are_different() -> None:
    assert len({Number(0), Number(0.0), Number(-0.0), Number(False)}) == 4


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a: ng.add(x, 0)", "expected: name: pattern => target", ""),
        ("a: ng.ad(x, 0) => x", "unknown op 'ng.ad'", "did you mean ng.add?"),
        ("a: ng.add(x) => x", "ng.add takes 2 operands, not 1", ""),
        ("a: ng.add(x, 0) => y", "'y' is not in the pattern", "variables: x"),
        ("a: ng.add(x, 0 => x", "cannot read 'ng.add(x, 0'", ""),
        ("a: ng.add(x, 'zero') => x", "''zero'' is not a pattern", "an op such as"),
        ("a: ng.add(x, -y) => x", "'-y' is not a pattern", ""),
        ("a: x => x", "the pattern must be an op", ""),
        ("a: ng.add(x, 0) => x assume nszz", "unknown word 'nszz' after 'assume'", "did you mean nsz?"),
        ("a: ng.add(x, 0) => x when float bool", "'when' takes one kind", ""),
        ("a: ng.add(x, 0) => x assume", "'assume' says nothing", ""),
        ("a: ng.add(x, 0) => x when float when float", "'when' stands twice", ""),
        ("a: ng.add(x, 0) => x\na: ng.add(x, 0) => x", "rule 'a' stands already at", ""),
    ],
)
def test_a_wrong_rule(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        rules(tmp_path, text)
    (found,) = caught.value.diagnostics
    assert message in found.message and hint in found.hint
    assert (found.location.file, found.location.line) == (str(tmp_path / "some.rules"), text.count("\n") + 1)


def test_pipelines_name_one_another(tmp_path: Path) -> None:
    path = tmp_path / "pipelines"
    path.write_text("base = shape, prune{assume=nsz}\ncpu = base,\n      fuse{kind=base}\n")
    found = read_pipelines(path)
    assert found.names == ("base", "cpu")
    assert found.entries[1].steps == "shape, prune{assume=nsz}, fuse{kind=base}"
    assert found.expanded("cpu,dead-code") == "shape, prune{assume=nsz}, fuse{kind=base},dead-code"
    assert step_names(found.entries[1].steps) == ["shape", "prune", "fuse"]
    with pytest.raises(UserError, match="pipeline 'base' names an unknown pass 'prune'") as caught:
        found.check(["shape", "pruned", "fuse"])
    assert caught.value.diagnostics[0].hint == "did you mean pruned?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu shape", "expected: name = pass"),
        ("cpu = shape\ncpu = prune", "pipeline 'cpu' stands already at"),
        ("cpu = shape, , prune", "expected the name of a pass at ', prune'"),
        ("cpu = shape prune", "expected the name of a pass at 'shape prune'"),
        ("cpu = shape{a=1", "expected the name of a pass at 'shape{a=1'"),
    ],
)
def test_a_wrong_pipeline(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pipelines"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_pipelines(path)
    assert message in caught.value.diagnostics[0].message


def test_the_pipelines_name_passes() -> None:
    named_pipelines().check(PASSES)
    assert {"cpu", "gpu"} <= set(named_pipelines().names)


def test_pipelines_of_the_document_run(tmp_path: Path) -> None:
    """Whatever lowering/README.md shows of passes, options and pipelines is taken by the reader and by the passes."""
    text = (folder("lowering") / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## `pipelines`") :]
    path = tmp_path / "pipelines"
    path.write_text("\n".join(line[4:] for line in section.splitlines() if line.startswith("    ")))
    shown = read_pipelines(path)
    shown.check(PASSES)
    spans = [span for span in re.findall(r"`([^`\n]+)`", text) if re.search(r"\w\{.*\}|ngopt -p", span)]
    texts = [re.sub(r"^ngopt -p |'", "", span) for span in spans] + [entry.steps for entry in shown.entries]
    assert len(texts) >= 5
    given = from_text("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    for steps in texts:
        parse_pipeline(named_pipelines().expanded(steps), PASSES).run(given, cpu_target("x86-64-v3"))
