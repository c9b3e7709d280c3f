# SPDX-License-Identifier: Apache-2.0
"""Programs for all lengths in the cache on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ngmlir import compiler
from ngmlir.compiler import compile_open
from ngmlir.ir.core import Module
from ngmlir.ops.words import from_text
from ngmlir.runtime.cache import Entry, default_cache
from ngmlir.runtime.open_cpu import OpenCpu
from ngmlir.runtime.stored import artifact_of, guards_as_json, guards_of
from ngmlir.support.lengths import Guard, Length, NeedsLength, expression_of

TEXT = """
func.func @main(%x: tensor<[N]x[M]xf32>, %w: tensor<[M]x40xf32>) -> (tensor<[N]x40xf32>, tensor<[N*M + 1]xf32>) {
  %0 = ng.dot %x, %w contract [1] x [0] : (tensor<[N]x[M]xf32>, tensor<[M]x40xf32>) -> tensor<[N]x40xf32>
  %1 = ng.exp %0 : tensor<[N]x40xf32>
  %2 = ng.reshape %x : (tensor<[N]x[M]xf32>) -> tensor<[N*M]xf32>
  %3 = ng.pad %2 low [0] high [1] : (tensor<[N*M]xf32>) -> tensor<[N*M + 1]xf32>
  return %1, %3 : tensor<[N]x40xf32>, tensor<[N*M + 1]xf32>
}"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are lowered from now on, with a cache of its own."""
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NGMLIR_CACHE", raising=False)
    lowered: list[str] = []
    whole = compiler.lower

    def noting(*of: Any, **how: Any) -> Module:
        lowered.append("program")
        return whole(*of, **how)

    monkeypatch.setattr(compiler, "lower", noting)
    return lowered


def read(lengths: Mapping[str, int]) -> Module:
    return from_text(TEXT, lengths=lengths)


def right(run: OpenCpu) -> None:
    for n, m in ((4, 17), (5, 17), (64, 8), (33, 100)):
        x, w = np.random.default_rng(n).normal(size=(n, m)), np.random.default_rng(m).normal(size=(m, 40)) / m
        product, flat = run(x, w)
        assert np.allclose(product, np.exp(x @ w), atol=1e-5)
        assert np.array_equal(flat, np.append(x.astype(np.float32), 0))


def test_programs_are_found_again(made: list[str]) -> None:
    first = compile_open(read, {"N": 60, "M": 30})
    assert len(made) == 2
    second = compile_open(read, {"N": 60, "M": 30})
    assert len(made) == 2
    right(first)
    right(second)
    assert str(first.signature.guards) == str(second.signature.guards)
    assert first.names == second.names and first.where == second.where
    lengths = {"N": 50, "M": 70}
    assert first.peak(lengths) == second.peak(lengths) and first.serves(lengths) == second.serves(lengths)
    for one, other in zip(first.signature.results, second.signature.results, strict=True):
        assert [expression_of(d) for d in one.shape] == [expression_of(d) for d in other.shape]
        assert one.name == other.name
    # A program for lengths of another order of magnitude is another one.
    compile_open(read, {"N": 70, "M": 20})
    assert len(made) == 2
    compile_open(read, {"N": 600, "M": 3})
    assert len(made) == 4


def test_conditions_are_those_of_who_asks(made: list[str]) -> None:
    def longer(lengths: Mapping[str, int]) -> Module:
        assert lengths["N"] > 5
        return read(lengths)

    lengths = {"N": 4, "M": 30}
    first, second = compile_open(longer, {"N": 60, "M": 30}), compile_open(read, {"N": 60, "M": 30})
    assert len(made) == 2
    assert not first.serves(lengths) and second.serves(lengths)
    assert not compile_open(longer, {"N": 60, "M": 30}).serves(lengths)


def test_a_number_made_of_a_length_unnoticed_is_no_constant(made: list[str]) -> None:
    """A program that holds the same number as a constant is in the cache."""

    def filled(number: int, lengths: Mapping[str, int]) -> Module:
        return from_text(
            f"""func.func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {{
              %c = ng.constant dense<{number}.0> : tensor<f32>
              %b = ng.broadcast %c dims [] : (tensor<f32>) -> tensor<[N]xf32>
              %r = ng.add %x, %b : tensor<[N]xf32>
              return %r : tensor<[N]xf32>
            }}""",
            lengths=lengths,
        )

    def unnoticed(lengths: Mapping[str, int]) -> Module:
        return filled(int.__index__(lengths["N"]), lengths)

    values: list[int] = []

    def noting(lengths: Mapping[str, int]) -> Module:
        values.append(int.__index__(lengths["N"]))
        return unnoticed(lengths)

    with pytest.raises(NeedsLength):
        compile_open(noting, {"N": 60})
    compile_open(lambda lengths: filled(values[0], lengths), {"N": 60})
    with pytest.raises(NeedsLength):
        compile_open(unnoticed, {"N": 60})


def test_damaged_entries_are_made_again(made: list[str]) -> None:
    compile_open(read, {"N": 60, "M": 30})
    store = default_cache()
    assert store is not None
    for file in store.folder.iterdir():
        if b'"guards"' in (data := file.read_bytes()):
            file.write_bytes(data.replace(b"N*M", b"N*)", 1) if b"N*M" in data else data[:-3])
    right(compile_open(read, {"N": 60, "M": 30}))
    assert len(made) == 4


def test_headers_that_do_not_fit_are_none() -> None:
    guards = (
        Guard(expression_of(4 * Length.named("N", 9) - 3), ">="),
        Guard(expression_of(Length.named("N", 9) // 8 - 2), "!="),
    )
    told = guards_as_json(guards)
    assert guards_of({"guards": told}) == guards
    wrong: list[Any] = [None, [["N *", ">="]], [["N"]], [3], [["N $ 3", "<"]]]
    for each in wrong:
        assert guards_of({"guards": each}) is None
    assert guards_of({}) is None
    assert artifact_of(Entry({"code": 0}, b""), []) is None
