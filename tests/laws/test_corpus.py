# SPDX-License-Identifier: Apache-2.0
"""What the fuzzer once found wrong stays right. The first line of a program says which law it broke."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fuzz import CORPUS, check_text
from keeping import LAWS

from ngmlir.ops.words import from_text

PROGRAMS = sorted(CORPUS.glob("*.ngir"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_of_the_corpus(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    said = re.match(r"// law: ([a-z -]+), ([a-z-]+)\n", text)
    assert said, "the first line is '// law: NAME, HOW'"
    if said[1] == "text":
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        check_text(text)
    else:
        LAWS[said[1]](from_text(text, file=str(path)), said[2] != "rough")
