# SPDX-License-Identifier: Apache-2.0
"""One code for all lengths gives what NumPy does for each, whatever they are; its text is read back at every stage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from open_programs import OPEN

from ngmlir.compiler import compile_open, lower
from ngmlir.ir.core import Module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import TensorType
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.words import from_text, to_text
from ngmlir.runtime.open_cpu import OpenCpu
from ngmlir.support.length_text import parse
from ngmlir.support.lengths import Length, guarding

#: One, few, as many as lanes and one more or less, primes, and more than any block.
LENGTHS = (1, 2, 3, 5, 8, 15, 16, 17, 31, 64, 97, 257, 1030)
_SIZE = re.compile(r"\[([^\]\[]*[A-Z][^\]\[]*)\]")


def of_lengths(text: str, lengths: dict[str, int]) -> str:
    """The text with a number for each size that follows from lengths."""
    return _SIZE.sub(lambda found: str(int(parse(found[1], lengths))), text)


def opened(text: str, checked: bool | None = None) -> OpenCpu:
    """The code of @main for any lengths."""
    names = sorted(set(re.findall(r"[A-Z]", " ".join(_SIZE.findall(text)))))

    def make(lengths: Any) -> Module:
        return from_text(text, lengths=lengths)

    return compile_open(make, dict.fromkeys(names, 60), checked=checked, least=1)


def arrays(of: Module, seed: int) -> list[np.ndarray[Any, Any]]:
    """For the arguments of @main."""
    random, made = np.random.default_rng(seed), list[np.ndarray[Any, Any]]()
    for value in of.ops[0].block.args:
        assert isinstance(value.type, TensorType)
        dtype = dtype_of(value.type)
        least = min(d for each in of.ops[0].block.args for d in getattr(each.type, "shape", ()))
        if dtype.kind == "i":
            made.append(random.integers(0, min(least, 5), value.type.shape).astype(dtype))
        else:
            made.append(random.normal(size=value.type.shape).astype(dtype))
    return made


def served_lengths(run: OpenCpu) -> Iterator[tuple[int, dict[str, int]]]:
    """Lengths that the code is for, with a number each."""
    for seed, length in enumerate(LENGTHS):
        # One of them is long at a time.
        lengths = {
            each: length if i == seed % len(run.names) else 2 + (7 * length + 3 * i) % 37
            for i, each in enumerate(run.names)
        }
        if run.serves(lengths):
            yield seed, lengths
    if run.serves(ones := dict.fromkeys(run.names, 1)):
        yield len(LENGTHS), ones


@pytest.mark.parametrize("name", OPEN)
def test_one_code_is_right_for_every_length(name: str) -> None:
    run = opened(OPEN[name])
    served = 0
    for seed, lengths in served_lengths(run):
        served += 1
        of = from_text(of_lengths(OPEN[name], lengths))
        given = arrays(of, seed)
        for found, wanted in zip(run(*given), interpret(of, *given), strict=True):
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            exact = found.dtype.kind != "f" and found.dtype.name != "bfloat16"
            near = 0 if exact else 1e-1 if found.dtype.itemsize == 2 else 2e-4
            np.testing.assert_allclose(
                found.astype(np.float64), wanted.astype(np.float64), rtol=near, atol=near * 10
            )
    assert served >= len(LENGTHS) - 1, run.signature.guards


@pytest.mark.parametrize("name", OPEN)
def test_nothing_outside_of_buffers_is_touched(name: str) -> None:
    run = opened(OPEN[name], checked=True)
    for seed, lengths in served_lengths(run):
        run.at(lengths)(*arrays(from_text(of_lengths(OPEN[name], lengths)), seed))


@pytest.mark.parametrize("name", OPEN)
def test_every_stage_is_read_back(name: str) -> None:
    with guarding():
        of = from_text(OPEN[name])
        for stage in ("canonical", "canonical,fuse", None):
            text = to_text(lower(of, "cpu", stage))
            assert to_text(from_text(text)) == text


def test_arrays_of_other_lengths_use_the_same_memory() -> None:
    run = opened(OPEN["dots"])
    (name,) = run.names
    peaks = [run.peak({name: n}) for n in range(100, 1000)]
    assert peaks == sorted(peaks)
    needed = [320 * n for n in range(100, 1000)]  # what is between both products
    assert all(n <= peak <= 9 / 8 * n + 320 + 4096 for n, peak in zip(needed, peaks, strict=True))
    assert len(set(peaks)) < 40, "few sizes"


def test_lengths_that_it_is_not_for_are_told() -> None:
    def make(lengths: Any) -> Module:
        assert lengths["N"] > 5
        return from_text(OPEN["slice"], lengths=lengths)

    run = compile_open(make, {"N": 60})
    assert not run.serves({"N": 5}) and not run.serves({"N": 1}) and run.serves({"N": 6})
    with pytest.raises(Exception, match=r"is compiled for N > 5, not for N = 5"):
        run(np.ones((5, 40), "f"))


def test_a_number_made_of_a_length_unnoticed_is_found() -> None:
    def make(lengths: Any) -> Module:
        (n,) = lengths.values()
        return from_text(
            f"func.func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {{"
            f"%c = ng.constant dense<{int(n) if isinstance(n, Length) else n}.0> : tensor<f32>"
            "%b = ng.broadcast %c dims [] : (tensor<f32>) -> tensor<[N]xf32>"
            "%r = ng.add %x, %b : tensor<[N]xf32>"
            "return %r : tensor<[N]xf32> }",
            lengths=lengths,
        )

    with pytest.raises(Exception, match="the code of"):
        compile_open(make, {"N": 60})
