# SPDX-License-Identifier: Apache-2.0
"""What a computation tells about itself."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ngmlir as ng
from ngmlir.ops.words import from_text
from ngmlir.transformers.report import Report


def computation(transformer: ng.transformers.Transformer) -> Any:
    A, B = ng.make_axis(16, "A"), ng.make_axis(8, "B")
    x, w = ng.placeholder([A]).named("x"), ng.variable([A, B], initial_value=0.5).named("w")
    loss = ng.sum(ng.square(ng.dot(x, w)), out_axes=())
    with ng.Op.saved_user_deps():
        return transformer.computation([loss, ng.assign(w, w - 0.1 * ng.deriv(loss, w))], x)


def test_all_that_it_tells() -> None:
    with ng.transformers.make_transformer("cpu") as transformer:
        made = computation(transformer)
        report = made.report()
        assert report.module is made.module and report.stages["named"] == str(made.module)
        assert [*report.stages] == ["named", "plain", "fused", "kernels", "planned"]
        assert {launch.kernel for launch in report.launches} == {*report.kernels}
        assert all(launch.place.file == __file__ for launch in report.launches)
        assert report.times.keys() == report.kernels.keys() and all(t > 0 for t in report.times.values())
        assert report.memory is not None and report.peak == report.memory.size
        assert "define" in report.llvm and "ret" in report.assembly
        text = str(report)
        assert all(f"// ---- {name}" in text for name in report.stages) and "us each" in text
        assert "<svg" in (report._repr_svg_() or "")
        made([1.0] * 16)  # nothing that it asked for changes what runs
        assert float(made([1.0] * 16)[0]) != 0


def test_other_times() -> None:
    with ng.transformers.make_transformer("cpu") as transformer:
        found = computation(transformer).report()
    report = Report(
        "main", found.target, found.modules, timing=lambda module: dict.fromkeys(found.kernels, 0.25)
    )
    assert "250000.0" in report.table()


@pytest.mark.parametrize("target", ["numpy", "cuda-sim"])
def test_targets_that_this_machine_does_not_time(target: str) -> None:
    with ng.transformers.make_transformer(target) as transformer:
        report = computation(transformer).report()
    assert report.times == {}
    assert (".visible .entry" in report.assembly) == (target == "cuda-sim")
    assert "@main" in str(report) and "<svg" in report.html()


class Page(HTMLParser):
    """What leads where; tags must close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        named = dict(attrs)
        self.links |= {named["href"] or ""} if "href" in named else set()
        self.ids |= {named["id"] or ""} if "id" in named else set()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page(tmp_path: Path) -> None:
    with ng.transformers.make_transformer("cpu") as transformer:
        report = computation(transformer).report()
        files = report.write(tmp_path / "a" / "b")
    text = (tmp_path / "a" / "b" / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open
    assert len(page.links - {""}) >= 2 and all(link[1:] in page.ids for link in page.links - {""})
    assert not any(tag in text for tag in ("<script", "<img", "<link"))
    assert "loss = ng.sum(ng.square(ng.dot(x, w)), out_axes=())" in text
    for file in files:
        if file.suffix == ".ngir":
            from_text(file.read_text())


def test_lengths_that_are_for_values_to_say() -> None:
    x = ng.placeholder([ng.make_axis(name="N")])
    with ng.transformers.make_transformer("cpu") as transformer:
        made = transformer.computation(ng.exp(x), x)
        with pytest.raises(ng.AxisLengthError, match="N"):
            made.report()
        made([1.0, 2.0])
        assert "2xf32" in made.report().stages["named"]


def test_the_page_has_title_figures_curves_shares_and_a_legend() -> None:
    with ng.transformers.make_transformer("cpu") as transformer:
        found = computation(transformer).report()
    seconds = {kernel: float(i + 1) for i, kernel in enumerate(found.kernels)}
    report = Report("main", found.target, found.modules, timing=lambda module: seconds, title="A <name>")
    report.facts["test accuracy"] = "98.2 %"
    report.curves["training loss"] = [2.0, 1.0, 0.5]
    total = sum(seconds[k] * report.count(k) for k in seconds)
    assert report.shares() == {k: seconds[k] * report.count(k) / total for k in seconds}
    assert report.by_time() == sorted(seconds, key=lambda k: -report.shares()[k])
    text = report.html()
    assert "<h1>A &lt;name&gt;</h1>" in text and "<b>98.2 %</b><span>test accuracy</span>" in text
    assert "<h2>Training loss</h2>" in text and f"{max(report.shares().values()):.1%}" in text
    legend = text[text.index('<div class="legend">') :].partition("</div>")[0]
    assert "variable" in legend and "reduction" in legend and "kernel" not in legend


def test_the_source_of_most_ops_is_shown_first(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(
        "import ngmlir as ng\n" + "\n" * 300 + "def wrap(x): return x + 1\n" + "\n" * 300 + "last" + " = 1\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(other.read_text(), str(other), "exec"), scope)
    x = ng.placeholder([ng.make_axis(4, "A")])
    y = ng.exp(ng.tanh(scope["wrap"](x)))
    z = ng.log(y * y)
    with ng.transformers.make_transformer("cpu") as transformer:
        text = transformer.computation(z, x).report().html()
    assert text.index("<h3 title=") < text.index(">test_report.py</h3>") < text.index(">other.py</h3>")
    assert "def wrap(x)" in text and "last" + " = 1" not in text  # only what is near lines of ops
