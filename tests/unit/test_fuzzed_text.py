# SPDX-License-Identifier: Apache-2.0
"""Damaged programs through ngopt: whatever the text, it gives a program or located messages, soon and in little memory.

The corpus is every `.ngir` file of this checkout. NGMLIR_FUZZ_FILES=20000 draws that many damaged files instead of the
few of an ordinary run; a failure names the seed of its file, and `damaged(seed)` is its text.
"""

from __future__ import annotations

import io
import os
import random
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from ngmlir.ir.lexer import tokenize
from ngmlir.tools import chunks, ngopt

ROOT = Path(__file__).parents[2]
FILES = int(os.environ.get("NGMLIR_FUZZ_FILES", "200"))
SECONDS = 5

#: Words that may stand where others stood.
WORDS = """0 -1 1 7 9223372036854775807 -9223372036854775808 99999999999999999999 0x7FC00000 1.0e400 -0.0 ? true dense<1> dense<> dense<[]>
    [ ] ( ) { } < > , : = -> :: * %x %nope %0#1 ^bb7 @main @nope #a !t #ng.axes<N> !tile.token loc unknown none index i1 i7 i16777215 ui64
    f32 f80 bf16 f8E4M3FN tensor<f32> tensor<0xf32> tensor<?xf32> tensor<4xnone> tensor<4x3xi8> vector<4xf32> vector<0xf32> memref<4xf32>
    memref<?xf32> tensor<1000000x1000000xf32> memref<4xf32,strided<[-1]>> ng.exp ng.nope func.return tile.barrier "" "\\FF" private module""".split()
INTEGERS = "0 1 2 3 4 5 7 8 16 64 -1 -2 1000 1000000 9223372036854775807 -9223372036854775808".split()
FLOATS = "0.0 -0.0 1.0 -1.0 1.0e30 1.0e-40 0x7FC00000 0xFF800000".split()
TYPES = """f32 f64 f16 bf16 i1 i8 i32 i64 ui8 index none f80 i7 tensor<f32> tensor<4xf32> tensor<4x3xf32> tensor<0xf32> tensor<?xf32> tensor<4xi1>
    tensor<4xi32> tensor<4xnone> vector<4xf32> vector<4x3xf32> memref<4xf32> memref<4x3xf32> memref<f32> !tile.token
    tensor<4xf32,#ng.axes<N>> complex<f32> tuple<f32,tensor<4xf32>> tensor<*xf32> tensor<4xcomplex<f32>> tensor<4xf8E5M2> vector<[4]xf32>
    memref<4xf32,affine_map<(d0)->(d0)>> memref<4xvector<4xf32>> !other.type<4,(f32)->f32>""".split()


@cache
def corpus() -> tuple[str, ...]:
    texts = {
        chunk.text.strip() + "\n"
        for folder in ("lit_tests", "examples", "lowering")
        for file in sorted((ROOT / folder).rglob("*.ngir"))
        for chunk in chunks.split(file.read_text(encoding="utf-8", errors="replace"))
    }
    return tuple(sorted(t for t in texts if len(t) < 20_000))


@cache
def programs() -> tuple[str, ...]:
    """Those of the corpus that are right, and what becomes of some of them on the way to code."""
    good = [text for text in corpus() if _answer(text)[0] == 0]
    lowered = [
        made
        for text in good[::3]
        for stage in ("canonical", "canonical,fuse", "canonical,fuse,to-kernels", "cpu")
        for code, made in [_answer(text, "-p", stage)]
        if code == 0
    ]
    return (*good, *dict.fromkeys(t for t in lowered if len(t) < 20_000))


def _answer(text: str, *arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    return ngopt.main(arguments, io.StringIO(text), out, io.StringIO()), out.getvalue()


class Slow(BaseException):
    """No Exception: nothing that reports errors is to catch it."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Slow(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(text: str | bytes, *arguments: str) -> str:
    """What is wrong with the answer of ngopt to a text, or ''."""
    errors = io.StringIO()
    stdin = io.BytesIO(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        with limited(SECONDS):
            code = ngopt.main(arguments, stdin, io.StringIO(), errors)
    except Slow as slow:
        return str(slow)
    said = errors.getvalue()
    if code not in (0, 1) or "Traceback" in said:
        return f"exit code {code}: {said[:500]}"
    if code == 1 and not re.search(r"^\S*:\d+:\d+: (error|note)", said, re.MULTILINE):
        return f"a message without a place: {said[:500]}"
    return ""


def damaged(seed: int) -> str:
    """A text of the corpus with a few parts lost, doubled, swapped or replaced; half of them by parts of their kind, so
    that some get as far as the passes."""
    rng = random.Random(seed)
    gently = seed % 2
    text = rng.choice(programs() if gently else corpus())
    for _ in range(rng.randint(1, 2 if gently else 3)):
        text = (replaced if gently else damage)(text, rng)
    return text


def replaced(text: str, rng: random.Random) -> str:
    """One token replaced by another of its kind, or one line lost or doubled."""
    if rng.randrange(5) == 0:
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        lines[at : at + 1] = [lines[at]] * rng.choice((0, 2))
        return "\n".join(lines)
    tokens = tokenize(text, len(text))[0][:-1]
    kinds = [
        kind
        for kind in ("integer", "float", "shaped", "value", "bare")
        if any(t.kind == kind for t in tokens)
    ]
    if not kinds:
        return text
    kind = rng.choice(kinds)
    same = [t for t in tokens if t.kind == kind]
    token = rng.choice(same)
    others = {"integer": INTEGERS, "float": FLOATS, "shaped": TYPES}.get(kind, [t.text for t in same])
    new = rng.choice([*others, *[t.text for t in same]])
    return text[: token.start] + new + text[token.start + len(token.text) :]


def damage(text: str, rng: random.Random) -> str:
    tokens = tokenize(text, len(text))[0][:-1]
    if not tokens:
        return rng.choice(WORDS)
    one, two = rng.choice(tokens), rng.choice(tokens)
    match rng.randrange(8):
        case 0:
            new = rng.choice(WORDS)
        case 1:
            new = ""
        case 2:
            new = f"{one.text} {one.text}"
        case 3:
            new = two.text
        case 4:
            new = one.text[: rng.randrange(len(one.text) + 1)]
        case 5:
            new = one.text + chr(rng.choice([0, 9, 34, 92, 123, 233, 0x2200, 0xD800]))
        case 6:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            return "\n".join(lines)
        case _:
            return text[: one.start] + text[two.start :]
    return text[: one.start] + new + text[one.start + len(one.text) :]


def ill_typed(seed: int) -> str:
    """A text of the corpus in which one type, wherever it stands, is another."""
    rng = random.Random(seed)
    text = rng.choice(programs())
    types = re.findall(r"(?:tensor|vector|memref)<[^<>\n]*>|\b[iuf]+\d+\b", text)
    return text.replace(rng.choice(types), rng.choice(TYPES)) if types else text


def failures(texts: Iterator[tuple[object, str | bytes]], *pipelines: Sequence[str]) -> list[str]:
    return [
        f"{name} {' '.join(pipeline)}: {found}"
        for name, text in texts
        for pipeline in pipelines
        if (found := verdict(text, *pipeline))
    ][:5]


KEEPING = "--allow-unregistered-dialect"
PIPELINES = ([], [KEEPING, "-p", "cpu"], ["-p", "cpu"], ["-p", "gpu", "--target=sm_90a"], ["--emit=llvm"])


@pytest.fixture(autouse=True)
def _reports_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_damaged_files() -> None:
    assert failures(((s, damaged(s)) for s in range(FILES)), *PIPELINES) == []


def test_ill_typed_files() -> None:
    assert failures(((s, ill_typed(s)) for s in range(FILES // 10)), *PIPELINES) == []


def test_what_is_printed_reads_back() -> None:
    """Also what is kept without being understood."""
    for seed in range(FILES):
        code, made = _answer(ill_typed(seed), KEEPING)
        if code == 0:
            assert _answer(made, KEEPING) == (0, made), seed


def test_prefixes_of_files() -> None:
    """Of some files at some places; of fifty at every place where a word ends, where the count says so."""
    rng = random.Random(1)
    cuts = [(t, rng.randrange(len(t))) for t in rng.choices(corpus(), k=FILES // 2)]
    if FILES >= 20_000:
        cuts = [(t, token.start) for t in rng.choices(corpus(), k=50) for token in tokenize(t, len(t))[0]]
    assert failures(((t[:n], t[:n]) for t, n in cuts), []) == []


def test_bytes() -> None:
    rng = random.Random(2)
    texts = (rng.randbytes(rng.randrange(200)) for _ in range(FILES))
    assert failures(((t, t) for t in texts), []) == []


@pytest.mark.parametrize("depth", [10, 50, 90, 95, 96, 97, 200, 5000])
def test_depths(depth: int) -> None:
    tail = "ng.yield %x : tensor<4xf32>"
    nested = "ng.yield %x : tensor<4xf32>"
    for i in range(depth):
        nested = f"%r{i} = ng.if %c -> tensor<4xf32> {{\n{nested}\n}} else {{\n{tail}\n}}\nng.yield %r{i} : tensor<4xf32>"
    body = nested.removesuffix(f"ng.yield %r{depth - 1} : tensor<4xf32>")
    text = f"func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {{\n{body}return %r{depth - 1} : tensor<4xf32>\n}}"
    assert failures(iter([(depth, text)]), *PIPELINES) == []
