# SPDX-License-Identifier: Apache-2.0
"""Random texts of MLIR's builtin types, attributes and ops are kept whole: by our own round trip, and on the way through the
stock mlir-opt in both directions. Where it is absent, what it printed once stands in `builtin_texts.json`; with it,
`python tests/unit/test_builtin_texts.py` records that again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from builtin_texts import Texts

from ngmlir.ir.core import ModuleOp
from ngmlir.ir.structure import fingerprint
from ngmlir.ops.words import from_text, to_text

RECORD = Path(__file__).with_name("builtin_texts.json")
RECORDED = 60
TOOL = shutil.which("mlir-opt") or next(
    iter(sorted(map(str, Path("/usr/lib").glob("llvm-*/bin/mlir-opt")), reverse=True)), None
)


def read(text: str) -> ModuleOp:
    return from_text(text, unregistered=True)


def ours(text: str) -> str:
    return to_text(read(text), generic=True)


def theirs(texts: list[str]) -> list[str]:
    """The programs as mlir-opt prints them."""
    assert TOOL is not None
    done = subprocess.run(
        [TOOL, "--split-input-file", "--allow-unregistered-dialect", "--mlir-print-op-generic", "-"],
        input="\n// -----\n".join(texts), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [part.strip() for part in done.stdout.split("// -----")]


def alike(text: str) -> str:
    """A text in which equal floats are spelled alike: those of types that nothing here computes with are kept as spelled."""
    return re.sub(r"-?\d+\.\d+(?:e[+-]?\d+)?", lambda found: repr(float(found[0])), text)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_our_round_trip(first: int) -> None:
    for seed in range(first, first + 100):
        text = Texts(seed).program()
        module = read(text)
        for generic in (False, True):
            printed = to_text(module, generic=generic)
            again = read(printed)
            assert to_text(again, generic=generic) == printed, f"seed {seed}"
            assert fingerprint(again) == fingerprint(module), f"seed {seed}"


def test_the_order_in_dictionaries_says_nothing() -> None:
    """Whatever the order of attributes and properties in a text, the op is the same."""
    for seed in range(100):
        texts = Texts(seed)
        items = [f"{name} = {texts.attribute()}" for name in ("a", "b", '"c d"', "e.f")]
        turned = Random(seed).sample(items, len(items))
        one, other = (
            f'"d.op"() <{{{", ".join(each)}}}> {{n = {{{", ".join(each)}}}, {", ".join(each)}}} : () -> ()'
            for each in (items, turned)
        )
        assert ours(one) == ours(other)
        assert read(one).ops[0].kind is read(other).ops[0].kind


@pytest.mark.skipif(TOOL is None, reason="no mlir-opt here")
def test_through_mlir_opt() -> None:
    """What mlir-opt makes of a text and of ours is the same, and so is what we make of both."""
    texts = [Texts(seed).program() for seed in range(1000, 1300)]
    printed = theirs(texts)
    mine = [ours(text) for text in texts]
    assert theirs(mine) == printed
    back = [ours(text) for text in printed]
    assert list(map(alike, back)) == list(map(alike, mine))
    assert theirs(back) == printed


def test_what_mlir_opt_printed() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert len(recorded) == RECORDED
    for seed, printed in enumerate(recorded):
        assert alike(ours(printed)) == alike(ours(Texts(seed).program())), f"seed {seed}"


if __name__ == "__main__":
    programs = theirs([Texts(seed).program() for seed in range(RECORDED)])
    RECORD.write_text(json.dumps(programs, indent=0) + "\n", encoding="utf-8")
