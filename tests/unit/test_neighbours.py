# SPDX-License-Identifier: Apache-2.0
"""What ops of other dialects are called here, and what is said to those who write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ngmlir.decl.neighbour_text import op_neighbours, pass_neighbours, read_neighbours
from ngmlir.decl.pipeline_text import named_pipelines, step_names
from ngmlir.ops.words import WORDS, from_text
from ngmlir.passes.registry import PASSES
from ngmlir.support.diagnostics import UserError
from ngmlir.support.home import folder
from ngmlir.support.spelling import nearest

MLIR_OPT = next(iter(sorted(Path("/usr/lib").glob("llvm-*/bin/mlir-opt"))), None)


def test_every_name_of_ours_is_an_op() -> None:
    found = read_neighbours(folder("dialects") / "neighbours", WORDS)
    assert found == op_neighbours() and len(found) > 150
    assert read_neighbours(folder("lowering") / "neighbours", PASSES) == pass_neighbours()
    assert all(set(step_names(each.steps)) <= set(PASSES) for each in named_pipelines().entries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ng.dott = linalg.matmul", "there is no 'ng.dott' here"),
        ("ng.dot = ng.add", "'ng.add' has a meaning already"),
        ("ng.dot = a.b a.b", "'a.b' has a meaning already"),
        ('"ng.nothing does it" = a.b', "there is no 'ng.nothing' here"),
        ("ng.dot linalg.matmul", "expected: ours = theirs"),
        ("ng.dot =", "expected: ours = theirs"),
    ],
)
def test_what_the_table_refuses(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "neighbours"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_neighbours(path, WORDS)


@pytest.mark.skipif(MLIR_OPT is None, reason="no mlir-opt here")
def test_names_of_mlir_are_those_that_it_has() -> None:
    """mlir-opt says of each name of its dialects something else than that there is no such op."""
    dialects = (
        "arith",
        "math",
        "linalg",
        "tensor",
        "vector",
        "memref",
        "tosa",
        "scf",
        "affine",
        "gpu",
        "bufferization",
    )
    names = [name for name in op_neighbours() if name.partition(".")[0] in dialects]
    # Some came and went between versions of MLIR.
    names = [name for name in names if name not in ("tosa.reduce_product", "tosa.reduce_prod")]
    text = "\n// -----\n".join(f'"{name}"() : () -> ()' for name in names)
    done = subprocess.run(
        [str(MLIR_OPT), "--split-input-file", "-"], input=text, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.split("\n") if "unregistered" in line and "error" in line] == []


@pytest.mark.parametrize(
    ("op", "hint"),
    [
        ("linalg.matmul", "ng.dot computes this"),
        ("matmul", "ng.dot computes this"),
        ("tensor.empty", "ops here make their own results; leave it out"),
        ("ng.ad", "did you mean ng.add?"),
        ("np.add", "did you mean ng.add?"),
        (
            "other.thing",
            'ngopt --allow-unregistered-dialect keeps ops of other dialects in generic form, "other.thing"(...)',
        ),
    ],
)
def test_hints(op: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(f"%0 = {op} %x : f32")
    assert caught.value.diagnostics[0].hint == hint


def test_of_words_that_are_as_near_the_one_that_begins_alike() -> None:
    assert nearest("ng.ad", ["ng.pad", "ng.add", "ng.and"]) == "ng.add"
    assert nearest("zzz", ["ng.pad"]) == ""
