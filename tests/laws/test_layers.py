# SPDX-License-Identifier: Apache-2.0
"""The import law: a package of src/ngmlir imports packages of lower layers only, also inside functions; its files form no cycles.

The same table stands in docs/architecture.md; test_docs.py compares the two.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "ngmlir"
LAYER = {
    "support": 0,
    "ir": 1, "llvm": 1, "simulator": 1,
    "decl": 2, "pictures": 2,
    "ops": 3,
    "op_graph": 4, "rewrite": 4, "runtime": 4,
    "numpy": 5, "simple": 5, "training": 5, "passes": 5, "codegen": 5,
    "programs": 6, "compiler": 6,
    "transformers": 7,
    "frontends": 8, "testing": 8, "util": 8,
    "tools": 9,
    "__init__": 10, "__main__": 10,  # the verbs of every package; the start of the tools
}  # fmt: skip


def imported(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, dotted path) of everything that a module imports, wherever in it; relative names made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            path = base + tuple((node.module or "").split(".") if node.module else ())
            for alias in node.names:
                yield node.lineno, (*path, alias.name)


def neighbours(source: Path) -> Mapping[str, set[str]]:
    """Of each file, the files of its package that it imports; an import of a package is one of its __init__."""
    files = {file.relative_to(source).as_posix(): file for file in source.rglob("*.py")}
    dotted: dict[tuple[str, ...], str] = {
        ("ngmlir", *name.removesuffix(".py").removesuffix("/__init__").split("/")): name for name in files
    }
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, file in files.items():
        package, *folders = name.split("/")[:-1] or [name]
        for _, path in imported(ast.parse(file.read_text(encoding="utf-8")), ("ngmlir", package, *folders)):
            # The last names of a path may be no files, but what stands in one.
            begun = (path[:length] for length in range(len(path), 1, -1))
            target = next((dotted[path] for path in begun if path in dotted), name)
            if target != name and target.startswith(f"{package}/"):
                found[name].add(target)
    return found


def cycles(source: Path) -> list[str]:
    """`ir/lexer.py, ir/text/printer.py`, for each set of files of one package of which each leads to each."""
    reach = {name: set(targets) for name, targets in neighbours(source).items()}
    for between in reach:
        for targets in reach.values():
            if between in targets:
                targets |= reach[between]
    return sorted(
        {", ".join(sorted(f for f in reach[at] if at in reach[f])) for at in reach if at in reach[at]}
    )


def breaches(source: Path) -> Iterator[str]:
    """`ir/printer.py:3: ir may not import passes`, for each import that does not go down."""
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).parts
        package = parts[0].removesuffix(".py")
        place = "/".join(parts)
        if package not in LAYER:
            yield f"{place}: the package {package} has no layer"
            continue
        for line, path in imported(ast.parse(file.read_text(encoding="utf-8")), ("ngmlir", *parts[:-1])):
            if path == ("ngmlir",) and LAYER[package] < LAYER["tools"]:
                yield f"{place}:{line}: {package} may not import ngmlir itself"
            if path[0] != "ngmlir" or len(path) < 2 or path[1] == package:
                continue
            # What is not a package is a name in `ngmlir/__init__.py` itself.
            target = path[1] if path[1] in LAYER else "__init__"
            if LAYER[target] >= LAYER[package] and package not in ("__init__", "__main__"):
                yield f"{place}:{line}: {package} may not import {path[1]}"


def test_imports_go_down() -> None:
    assert list(breaches(SOURCE)) == []


def test_a_stage_of_passes_imports_itself_and_those_before() -> None:
    stages = ["analysis", "graph", "fuse", "schedule", "lower", "registry.py", "__init__.py"]
    passes = SOURCE / "passes"
    assert {file.relative_to(passes).parts[0] for file in passes.rglob("*.py")} == {*stages}
    for name, targets in neighbours(SOURCE).items():
        if name.startswith("passes/"):
            own = stages.index(name.split("/")[1])
            later = [target for target in targets if stages.index(target.split("/")[1]) > own]
            assert not later, f"{name} may not import {later}"


def test_files_of_a_package_form_no_cycles() -> None:
    assert cycles(SOURCE) == []


def test_runtime_knows_no_ir() -> None:
    """Ahead-of-time programs need only the runtime and the records of `support`."""
    for file in (SOURCE / "runtime").rglob("*.py"):
        package = ("ngmlir", *file.relative_to(SOURCE).parts[:-1])
        for line, path in imported(ast.parse(file.read_text(encoding="utf-8")), package):
            allowed = path[0] != "ngmlir" or path[1] not in ("ir", "decl", "ops")
            assert allowed, f"{file.relative_to(SOURCE)}:{line}: runtime may not import {path[1]}"


def test_the_back_end_of_gpus_is_loaded_when_it_is_asked_for() -> None:
    code = """
import sys
import ngmlir as ng
from ngmlir.compiler import compile_module
x = ng.placeholder([ng.make_axis(4, "N")])
compile_module(ng.lift([ng.tanh(x)], [x]).module)
parts = ("codegen.nvptx", "simulator", "runtime.gpu", "runtime.cuda")
print([name for name in sys.modules if name.removeprefix("ngmlir.").startswith(parts)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_law_sees_a_breach(tmp_path: Path) -> None:
    package = tmp_path / "ir"
    package.mkdir()
    (package / "printer.py").write_text("def f():\n    pass\n    from ..passes import prune\n")
    (package / "lexer.py").write_text(
        "from ..support.target import Target\nimport ngmlir.ops.words\nfrom .. import compile\nimport ngmlir as ng\n"
    )
    (tmp_path / "cellar.py").write_text("")
    assert list(breaches(tmp_path)) == [
        "cellar.py: the package cellar has no layer",
        "ir/lexer.py:2: ir may not import ops",
        "ir/lexer.py:3: ir may not import compile",
        "ir/lexer.py:4: ir may not import ngmlir itself",
        "ir/printer.py:3: ir may not import passes",
    ]


def test_the_law_sees_a_circle(tmp_path: Path) -> None:
    files = {
        "ir/__init__.py": "",
        "ir/core.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .text import Lexer\n",
        "ir/text/__init__.py": "from .lexer import Lexer\n",
        "ir/text/lexer.py": "from . import tokens\n",
        "ir/text/tokens.py": "def f():\n    import ngmlir.ir.core\n",
        "ir/text/printer.py": "from ..core import Op\n",
        "ops/core.py": "from ..ir.text import Lexer\nfrom . import words\n",
        "ops/words.py": "from .. import ir\nfrom .core import f\n",
        "ops/rules.py": "from .rules import g\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cycles(tmp_path) == [
        "ir/core.py, ir/text/__init__.py, ir/text/lexer.py, ir/text/tokens.py",
        "ops/core.py, ops/words.py",
    ]
