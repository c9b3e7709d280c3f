# SPDX-License-Identifier: Apache-2.0
"""Products of integers by dot instructions: the same bits as NumPy's sums in 32 bits, on every machine that this one can be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ngmlir.compiler import compile_artifact, resolve
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target

#: Odd depths, primes, one of each, and sizes that fill tiles.
SIZES = [
    (1, 1, 1),
    (1, 64, 48),
    (5, 3, 7),
    (13, 64, 48),
    (17, 101, 33),
    (64, 256, 96),
    (97, 130, 65),
    (3, 1031, 40),
]
KINDS = [("ui8", "i8"), ("i8", "ui8"), ("i8", "i8"), ("ui8", "ui8"), ("i16", "i8"), ("ui8", "i16")]
MACHINES = ("", "x86-64-v4", "x86-64-v3", "x86-64-v2")


@cache
def machine(name: str) -> Target:
    if not name:
        return resolve("cpu")
    try:
        return cpu_target(name)
    except UserError as error:
        pytest.skip(str(error))


def product(m: int, k: int, n: int, storage: str, left: str, right: str) -> str:
    a = f"tensor<{f'{m}x{k}' if storage[0] == 'N' else f'{k}x{m}'}x{left}>"
    b = f"tensor<{f'{k}x{n}' if storage[1] == 'N' else f'{n}x{k}'}x{right}>"
    r = f"tensor<{m}x{n}xi32>"
    places = f"contract [{int(storage[0] == 'N')}] x [{int(storage[1] == 'T')}]"
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {r} {{\n"
        f"  %p = ng.dot %a, %b {places} : ({a}, {b}) -> {r}\n  return %p : {r}\n}}\n"
    )


def check(text: str, storage: str, a: np.ndarray, b: np.ndarray, target: Target) -> None:
    artifact = compile_artifact(from_text(text), target)
    assert isinstance(artifact, Artifact)
    (got,) = load(artifact)(a, b)
    x, y = (v.astype(np.int64) for v in (a, b))
    wanted = (x.T if storage[0] == "T" else x) @ (y.T if storage[1] == "T" else y)
    np.testing.assert_array_equal(got, wanted.astype(np.int32))


def values(kind: str, shape: tuple[int, int], seed: int, extreme: bool) -> np.ndarray:
    ends, draw = np.iinfo(DTYPES[kind]), np.random.default_rng(seed)
    if extreme:
        return np.where(draw.random(shape) < 0.9, ends.max if ends.min == 0 else ends.min, ends.max).astype(
            DTYPES[kind]
        )
    return draw.integers(ends.min, ends.max, shape, DTYPES[kind], endpoint=True)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("left,right", KINDS)
@pytest.mark.parametrize("storage", ["NN", "NT", "TN"])
def test_products_are_exact(name: str, left: str, right: str, storage: str) -> None:
    for seed, (m, k, n) in enumerate(SIZES):
        text = product(m, k, n, storage, left, right)
        shapes = (m, k) if storage[0] == "N" else (k, m), (k, n) if storage[1] == "N" else (n, k)
        a, b = (values(e, s, seed, bool(seed % 2)) for e, s in zip((left, right), shapes, strict=True))
        check(text, storage, a, b, machine(name))


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_saturates(name: str) -> None:
    """255 x -128 in every place of a long sum; neighbours of it overflow 16 bits."""
    a, b = np.full((4, 8193), 255, np.uint8), np.full((8193, 48), -128, np.int8)
    check(product(4, 8193, 48, "NN", "ui8", "i8"), "NN", a, b, machine(name))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("left,right", [("ui8", "i8"), ("i8", "i8")])
def test_all_pairs_of_values(name: str, left: str, right: str) -> None:
    """Every value by every value, four times each."""
    a, b = (
        np.arange(np.iinfo(DTYPES[e]).min, np.iinfo(DTYPES[e]).max + 1).astype(DTYPES[e])
        for e in (left, right)
    )
    x, y = np.repeat(a[:, None], 4, 1), np.repeat(b[None, :], 4, 0)
    check(product(256, 4, 256, "NN", left, right), "NN", x, y, machine(name))
