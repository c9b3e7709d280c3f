# SPDX-License-Identifier: Apache-2.0
"""Schedules: what is given is obeyed, what cannot be is refused, and none of them changes what is computed."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from test_schedule_errors import fused, loops, product, scheduled

import ngmlir as ng
from ngmlir.compiler import compile_module, emit_text, resolve
from ngmlir.ir.types import shape_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.schedules import FAMILIES, neighbours
from ngmlir.ops.stated_schedules import given_by
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.schedule.choosing import buildable, candidates
from ngmlir.support.diagnostics import UserError
from ngmlir.tools.umbrella import main as umbrella

DOCUMENT = Path(__file__).parents[2] / "docs" / "schedules.md"


def same(text: str, target: str = "cpu") -> None:
    """The program gives what its meaning is."""
    of = from_text(text)
    random = np.random.default_rng(1)
    given = [random.uniform(-1, 1, shape_of(v.type)).astype("f") for v in of.lookup("main").block.args]  # pyright: ignore[reportOptionalMemberAccess]
    for got, want in zip(compile_module(of, target)(*given), run(of, *given), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=2e-6)


def windows(across: bool) -> str:
    """A convolution; its windows are the right side if they lie `across` the depth."""
    x, w = ("1x5x9x8", "12x5x3x3") if across else ("1x9x8x10", "3x3x10x20")
    p, n = ("1x5x11x10", "3x3x1x5x9x8") if across else ("1x11x10x10", "3x3x1x9x8x10")
    low, axes = ("[0, 0, 1, 1]", "[2, 3]") if across else ("[0, 1, 1, 0]", "[1, 2]")
    r = "1x9x8x12" if across else "1x9x8x20"
    where = "[0, 1, 3] x [2, 3, 1]" if across else "[0, 1, 5] x [0, 1, 2]"
    result = "1x12x9x8" if across else r
    turned = (
        f"%t = ng.transpose %d perm [0, 3, 1, 2] : (tensor<{r}xf32>) -> tensor<{result}xf32>"
        if across
        else ""
    )
    return f"""func.func @main(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<{result}xf32> {{
  %p = ng.pad %x low {low} high {low} : (tensor<{x}xf32>) -> tensor<{p}xf32>
  %n = ng.windows %p axes {axes} steps [1, 1] dilations [1, 1] : (tensor<{p}xf32>) -> tensor<{n}xf32>
  %d = ng.dot %n, %w contract {where} : (tensor<{n}xf32>, tensor<{w}xf32>) -> tensor<{r}xf32>
  {turned}
  return {"%t" if across else "%d"} : tensor<{result}xf32>
}}"""


def pooling() -> str:
    x, p, n, r = "9x8x40", "11x10x40", "3x3x5x4x40", "5x4x40"
    return f"""func.func @main(%x: tensor<{x}xf32>) -> tensor<{r}xf32> {{
  %p = ng.pad %x low [1, 1, 0] high [1, 1, 0] : (tensor<{x}xf32>) -> tensor<{p}xf32>
  %n = ng.windows %p axes [0, 1] steps [2, 2] dilations [1, 1] : (tensor<{p}xf32>) -> tensor<{n}xf32>
  %r = ng.sum %n axes [0, 1] : (tensor<{n}xf32>) -> tensor<{r}xf32>
  return %r : tensor<{r}xf32>
}}"""


PROGRAMS = {
    "windows": windows(across=False),
    "windows across": windows(across=True),
    "pooling": pooling(),
    "map": loops("exp %x"),
    "rows": loops("softmax %x axes [1]"),
    "held": loops("softmax %x axes [1]", shape="90x20"),
    "sum": loops("sum %x axes [1]", shape="3x9000", result="3"),
    "columns": loops("sum %x axes [0]", shape="300x70", result="70"),
    "far columns": loops("max %x axes [0]", shape="50x2000", result="2000"),
    "panels": product(),
    "few rows": product(m=2, k=300, n=700),
    "along": product(m=1, k=333, n=1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_schedule_turned_by_any_knob_computes_the_same(name: str) -> None:
    """Also as text: what is written is read back and obeyed."""
    (fusion,) = scheduled(PROGRAMS[name], "cpu")
    machine = resolve("cpu")
    (same_again,) = [c.schedule for c in candidates(fusion, machine)]
    assert same_again.attribute() is fusion.attributes["ng.schedule"]
    near = [s for s in neighbours(same_again) if buildable(s, machine, fusion)]
    assert len(near) >= 3
    before = str(same_again.attribute())
    text = to_text(fused(PROGRAMS[name]))
    for schedule in near:
        edited = re.sub(r"(ng\.fusion .*\)) ->", rf"\1 {{ng.schedule = {schedule.attribute()}}} ->", text)
        assert before not in edited
        (obeyed,) = scheduled(edited, "cpu")
        assert obeyed.attributes["ng.schedule"] is schedule.attribute()
        same(edited)


@pytest.mark.parametrize("name", ["map", "rows", "columns", "panels", "windows", "windows across", "pooling"])
def test_on_a_gpu_too(name: str) -> None:
    machine = resolve("cuda-sim")
    (fusion,) = scheduled(PROGRAMS[name], "cuda-sim")
    chosen = candidates(fusion, machine)[0].schedule
    assert getattr(chosen, "threads") >= 32  # noqa: B009 - of each family that a GPU has
    text = to_text(fused(PROGRAMS[name]))
    for schedule in [s for s in neighbours(chosen) if buildable(s, machine, fusion)][:4]:
        edited = re.sub(r"(ng\.fusion .*\)) ->", rf"\1 {{ng.schedule = {schedule.attribute()}}} ->", text)
        same(edited, "cuda-sim")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64", "sm_80"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_machine_has_a_choice_that_it_can_build(name: str, target: str) -> None:
    machine = resolve(target)
    for fusion in scheduled(PROGRAMS[name], target):
        best, *others = candidates(fusion, machine)
        assert best.roof > 0 and best.cycles > 0
        assert all(c.cycles * 1.04 >= best.cycles for c in others)
    emit_text(from_text(PROGRAMS[name]), machine, "llvm")


def test_a_tensor_says_how_it_is_cut() -> None:
    n, c, k = (ng.make_axis(size, name=name) for size, name in ((20, "N"), (40, "C"), (24, "K")))
    x, w = ng.placeholder([n, c]), ng.placeholder([c, k])
    y = ng.dot(x, w).scheduled(tile=[2, 16]).scheduled(depth=20)
    (fusion,) = scheduled(to_text(ng.lift([y], [x, w]).module))
    given = given_by(fusion)
    assert given["tile"] == (2, 16) and given["depth"] == 20 and given["unroll"] == 4
    a, b = (np.random.default_rng(2).random(s, dtype=np.float32) for s in ((20, 40), (40, 24)))
    np.testing.assert_allclose(ng.compile([y], [x, w])(a, b)[0], a @ b, rtol=1e-5)
    with pytest.raises(UserError, match="a schedule has no setting 'til' here"):
        y.scheduled(til=4)
    with pytest.raises(UserError, match="is not computed by a kernel"):
        x.scheduled(tile=4)
    with ng.metadata(schedule={"tile": 8}):
        z = ng.exp(x)
    (fusion,) = scheduled(to_text(ng.lift([z], [x]).module))
    assert given_by(fusion)["tile"] == 8


def test_the_document_names_every_knob() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for family in FAMILIES.values():
        _, _, part = text.partition(f"### `{family.by}`, of fusions of kind `{family.kind}`")
        part = part.partition("###")[0]
        assert (inspect.getdoc(family) or "") in part
        for knob in family.knobs().values():
            assert f"| `{knob.name}` | {knob.doc} | {knob.takes} |" in part


def test_tune_writes_a_program_that_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.ngir", tmp_path / "out.ngir"
    source.write_text(loops("softmax %x axes [1]", shape="20x30"))
    assert umbrella(["tune", str(source), "-o", str(target), "--candidates=2"]) == 0
    told = capsys.readouterr().err
    assert re.search(
        r"in.ngir:2:3: [\d.]+ us as predicted, [\d.]+ us \([\d.]+x faster\) with \{.*by = \"rows\"", told
    )
    text = target.read_text()
    assert text.count("ng.schedule") == 1
    same(text)
