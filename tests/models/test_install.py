# SPDX-License-Identifier: Apache-2.0
"""ngmlir works from a checkout, from an editable install and from a wheel, and the wheel carries its folders."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = (
    "from ngmlir.support.home import folder\n"
    "from ngmlir.ops.words import from_text\n"
    "from ngmlir.rewrite.rules import load_rules\n"
    "from ngmlir.support.version import version\n"
    "from_text('func.func @main() {\\n return\\n}')\n"
    "print(len(load_rules('prune')) > 100, (folder('dialects') / 'ng.ngd').is_file(), version(), folder('lowering'))\n"
)


def python(program: str, *paths: Path) -> list[str]:
    """What a program prints that sees the packages of this environment behind `paths`, and no checkout."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd="/", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def build(kind: str, folder: Path) -> Path:
    """The file that the build backend makes, without touching the network."""
    pytest.importorskip("hatchling")
    program = f"import hatchling.build as b; print(b.build_{kind}({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def test_checkout() -> None:
    rules, dialect, version, lowering = python(CHECK, ROOT / "src")
    assert (rules, dialect, lowering) == ("True", "True", str(ROOT / "lowering"))
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_editable(tmp_path: Path) -> None:
    site = unpacked(build("editable", tmp_path), tmp_path / "site")
    # A .pth file works in a site folder only.
    rules, dialect, _, lowering = python(f"import site; site.addsitedir({str(site)!r})\n{CHECK}")
    assert (rules, dialect, lowering) == ("True", "True", str(ROOT / "lowering"))


@pytest.mark.slow
def test_wheel(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "ngmlir/py.typed",
        "ngmlir/dialects/ng.ngd",
        "ngmlir/lowering/pipelines",
        "ngmlir/__init__.py",
    } <= names
    assert not [n for n in names if n.startswith(("tests", "lit_tests")) or "__pycache__" in n]
    site = unpacked(wheel, tmp_path / "site")
    rules, dialect, version, lowering = python(CHECK, site)
    assert (rules, dialect, lowering) == ("True", "True", str(site / "ngmlir" / "lowering"))
    assert wheel.name == f"ngmlir-{version}-py3-none-any.whl"
    (entries,) = site.glob("ngmlir-*.dist-info/entry_points.txt")
    assert "ngopt = ngmlir.tools.ngopt:main" in entries.read_text()


def unpacked(wheel: Path, site: Path) -> Path:
    zipfile.ZipFile(wheel).extractall(site)
    return site
